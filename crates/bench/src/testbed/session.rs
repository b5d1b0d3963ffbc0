//! Testbed with one machine: boots a workload on a configuration until its application is ready.

use doorbell_image::Image;
use doorbell_loadgen::LoadGen;
use doorbell_machine::{CheckpointFile, ConfigError, DiskFile, Limits, Machine, Outcome};
use doorbell_results::PlayedTrace;
use doorbell_sim::Ps;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::{RunError, describe};
use crate::plan::config::RunConfig;
use crate::plan::drive::{DriveConfig, DriveKind};
use crate::plan::options;
use crate::plan::resolved::Resolved;
use crate::plan::workload::{Ready, Workload};
use crate::store::paths::{CachePaths, check_cards, guest_identity, read_guest, require_ram};
use crate::testbed::boot_length::BootLength;
use crate::testbed::boot_lock::BOOT_VERSION;
use crate::testbed::control::{Control, LINES_SHOWN, Stage, run_watched, run_watched_until};
use crate::testbed::corunners::{CorunnerConfig, Corunners};
use crate::testbed::disks::{dca_devices, disks_identity, machine_for_boot, machine_with, open_disks};
use crate::testbed::init_log;
use crate::testbed::m5::M5_CHECKPOINT;
use crate::testbed::ready::{LINK_STEP, Plan, Source, Testbed};

/// A machine and the files it boots from.
pub struct MachinePlan {
    config: Resolved,
    workload: Workload,
    bootargs: String,
    /// Identity of the guest.
    guest: String,
    disks: Vec<DiskFile>,
    image: Image,
    corunners: Corunners,
}

/// A workload whose application is ready; it can be measured repeatedly.
pub type Session = Testbed<MachinePlan>;

/// Rejects captures that cannot be sent, so that the error does not appear only after the boot. It reads all
/// captures; a command calls it once, and a boot once.
pub fn check_captures(config: &RunConfig) -> Result<(), ConfigError> {
    if config.loadgen.traffic.streams.iter().all(|stream| stream.capture.is_none()) {
        return Ok(());
    }
    let generator = LoadGen::new(0, config.run.seed, &config.loadgen, &config.port(0).link);
    generator.map(drop).map_err(|error| ConfigError::new("loadgen", error))
}

impl MachinePlan {
    pub(crate) fn new(
        config: &Resolved,
        workload: Workload,
        places: &CachePaths,
        control: &mut Control,
    ) -> Result<MachinePlan, RunError> {
        let problem = "a search and a script have no drive node; set drive.kind=generator";
        options::reject_if(config.options::<DriveConfig>().kind == DriveKind::Node, "drive.kind", problem)?;
        // A user's script uses the interface names that Linux assigns.
        if workload.ready == Ready::M5Checkpoint {
            check_cards(&workload.image, &config.machine())?;
        }
        let image = places.build_image_for(&workload.image, config.run.image.as_deref(), control.say)?;
        let image = require_ram(image, &config.platform)?;
        let bootargs = format!("{} {}", image.command_line(), workload.words);
        let guest = guest_identity(&image, &bootargs);
        let disks = open_disks(Some(&image), &config.run.disks)?;
        config.machine().check_dca_devices(&[dca_devices(&config.machine(), disks.len())])?;
        let corunners = Corunners::open(config.options::<CorunnerConfig>(), control.say)?;
        Ok(MachinePlan { config: config.clone(), workload, bootargs, guest, disks, image, corunners })
    }

    /// Runs until the application is ready and, if there will be traffic, every NIC has receive enabled.
    fn run_until_ready(&self, machine: &mut Machine, control: &mut Control) -> Result<(), RunError> {
        let (marker, last) = match self.workload.ready {
            Ready::Marker(marker) => (Some(marker), None),
            Ready::M5Checkpoint => (None, Some(M5_CHECKPOINT)),
        };
        machine.console.watch(marker);
        let patience = self.config.run.boot_timeout;
        let limits = Limits { on_marker: true, ..Limits::until(patience) };
        let outcome = run_watched_until(machine, &self.guest, &limits, last, control)?;
        let not_ready = |machine: &Machine, why: String| {
            Err(RunError::NotReady { why, console: machine.console.last_lines(LINES_SHOWN) })
        };
        let is_last = |outcome| matches!(outcome, Outcome::M5Op { function, .. } if Some(function) == last);
        if outcome != Outcome::Marker && !is_last(outcome) {
            return not_ready(machine, describe(outcome, patience));
        }
        // The application has printed its marker, but its NICs may not be ready yet.
        let listens = marker.is_some() && !self.workload.silent;
        while listens && !machine.nics().all(|nic| nic.is_receiving()) {
            let step = machine.now().saturating_add(LINK_STEP);
            let outcome = run_watched(machine, &self.guest, &Limits::until(step), control)?;
            if !matches!(outcome, Outcome::Time | Outcome::Asleep) || step > patience {
                return not_ready(
                    machine,
                    format!("a NIC has receive disabled: {}", describe(outcome, step)),
                );
            }
        }
        Ok(())
    }
}

impl Plan for MachinePlan {
    type System = Machine;
    type Checkpoint = CheckpointFile;

    fn file_name(&self) -> String {
        let (guest, disks) = (&self.guest, disks_identity(&self.disks));
        let booted = xxh3_64(format!("{BOOT_VERSION} {guest}{disks}").as_bytes());
        format!("{}-{:016x}.ckpt", self.workload.name, self.config.machine().guest_hash() ^ booted)
    }

    fn boot(&self, length: &BootLength, control: &mut Control) -> Result<(Machine, u64), RunError> {
        check_captures(&self.config)?;
        let guest = read_guest(&self.image, self.bootargs.clone())?;
        (control.say)(&format!("booting Debian until {} is ready", self.workload.name));
        control.stage = Stage::likely("booting", Ps::ZERO, length.last());
        let mut machine = machine_for_boot(&self.config, &self.disks)?;
        machine.load(&guest)?;
        drop(guest);
        self.run_until_ready(&mut machine, control)?;
        length.keep(machine.now());
        init_log::note(&mut machine);
        let instructions = machine.instructions();
        Ok((machine, instructions))
    }

    fn save(&self, machine: &Machine) -> CheckpointFile {
        machine.checkpoint(&self.guest, &self.workload.name)
    }

    fn restored(&self, checkpoint: &CheckpointFile) -> Result<Machine, RunError> {
        let mut machine = machine_with(&self.config, &self.disks)?;
        self.corunners.join(&mut machine)?;
        machine.restore(checkpoint, &self.guest)?;
        Ok(machine)
    }

    fn images(&self) -> &[Image] {
        std::slice::from_ref(&self.image)
    }

    fn corunners(&self) -> Vec<PlayedTrace> {
        self.corunners.descriptions()
    }
}

impl Session {
    /// Prepares a workload's session.
    pub fn prepare_workload(
        config: &Resolved,
        workload: Workload,
        places: &CachePaths,
        source: &Source,
        control: &mut Control,
    ) -> Result<Session, RunError> {
        Testbed::ready(MachinePlan::new(config, workload, places, control)?, places, source, control)
    }

    /// A machine at the time at which the application became ready.
    pub fn machine(&self) -> Result<Machine, RunError> {
        self.system()
    }

    /// The configuration.
    pub fn config(&self) -> &RunConfig {
        &self.plan.config
    }

    /// The booted image.
    pub fn image(&self) -> &Image {
        &self.plan.image
    }

    /// Identity of the guest in checkpoints.
    pub fn guest(&self) -> &str {
        &self.plan.guest
    }

    /// The booted workload.
    pub fn workload(&self) -> &Workload {
        &self.plan.workload
    }
}
