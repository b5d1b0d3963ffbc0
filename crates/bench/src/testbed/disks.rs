//! The disks of a run's machine: the image's own, then the user's.

use std::path::PathBuf;

use doorbell_image::Image;
use doorbell_machine::{DcaDevices, DiskFile, Machine, MachineConfig};

use crate::error::RunError;
use crate::plan::config::RunConfig;

/// Seed of a boot, independent of the run's seed. Randomness that the guest can observe follows from
/// `platform.boot_seed`.
pub(crate) const BOOT_SEED: u64 = 1;

/// Opens a machine's disk files in the order in which the guest finds them: the image's own, then these.
pub fn open_disks(image: Option<&Image>, further: &[PathBuf]) -> Result<Vec<DiskFile>, RunError> {
    let own = image.and_then(Image::disk);
    own.iter().chain(further).map(|path| Ok(DiskFile::open(path)?)).collect()
}

/// Identity of the disks, appended to the guest's identity.
pub(crate) fn disks_identity(disks: &[DiskFile]) -> String {
    disks.iter().map(|disk| format!(" {}", disk.identity())).collect()
}

/// Devices that may use direct cache access (DCA) in a machine with this number of disks.
pub(crate) fn dca_devices(config: &MachineConfig, disks: usize) -> DcaDevices {
    DcaDevices { functions: config.platform.nics as usize, disks }
}

/// A new machine with these disks.
pub fn machine_with(config: &RunConfig, disks: &[DiskFile]) -> Result<Machine, RunError> {
    let all = dca_devices(&config.machine(), disks.len());
    config.machine().check_dca_devices(&[all])?;
    let mut machine = Machine::new(config.machine(), config.run.seed)?;
    machine.measured_harts = config.measured_harts();
    with_disks(machine, disks)
}

/// The machine in which this configuration's guest boots. It depends only on properties that the guest can
/// observe.
pub(crate) fn machine_for_boot(config: &RunConfig, disks: &[DiskFile]) -> Result<Machine, RunError> {
    with_disks(Machine::new(config.machine().for_boot(), BOOT_SEED)?, disks)
}

fn with_disks(mut machine: Machine, disks: &[DiskFile]) -> Result<Machine, RunError> {
    for disk in disks {
        machine.attach_disk(disk.clone())?;
    }
    Ok(machine)
}
