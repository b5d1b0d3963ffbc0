//! The disks of a run's machine: the image's own, then the user's.

use doorbell_image::Image;
use doorbell_machine::{DiskFile, Machine};

use crate::config::RunConfig;
use crate::error::RunError;

/// Opens the files that a run's machine has as disks, in the order in which the guest finds them.
pub fn open_disks(image: Option<&Image>, config: &RunConfig) -> Result<Vec<DiskFile>, RunError> {
    let own = image.and_then(Image::disk);
    own.iter().chain(&config.run.disks).map(|path| Ok(DiskFile::open(path)?)).collect()
}

/// A new machine with these disks.
pub fn machine_with(config: &RunConfig, disks: &[DiskFile]) -> Result<Machine, RunError> {
    let mut machine = Machine::new(config.machine(), config.run.seed)?;
    for disk in disks {
        machine.attach_disk(disk.clone())?;
    }
    Ok(machine)
}
