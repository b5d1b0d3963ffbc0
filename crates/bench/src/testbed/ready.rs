//! Testbed: a system whose applications are ready for measurements. It is booted once, or restored from the
//! checkpoint that an earlier run with the same guests left in the cache. The system is one machine
//! ([`crate::testbed::session`]) or a network ([`crate::testbed::nodes`]).

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use doorbell_files::{UseLock, create_folders, hold, remove_parts_in};
use doorbell_image::Image;
use doorbell_machine::{CheckpointError, CheckpointFile, NetworkCheckpoint};

use crate::error::RunError;
use crate::figures::host_cost::HostCost;
use crate::store::paths::CachePaths;
use crate::testbed::boot_length::BootLength;
use crate::testbed::boot_lock::BootLock;
use crate::testbed::control::Control;
use crate::testbed::init_log::{self, InitLog};
use crate::testbed::system::System;
use doorbell_results::{PlayedTrace, RunIdentity};
use doorbell_sim::Ps;

/// Interval between checks whether the NICs have receive enabled, after the application has printed its ready
/// marker.
pub(crate) const LINK_STEP: Ps = Ps::from_us(100);

/// Origin of a testbed's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The cached checkpoint of these guests if there is one; otherwise a boot, whose checkpoint is cached.
    Cache,
    /// A boot; its checkpoint is not cached.
    Boot,
    /// This checkpoint file.
    File(PathBuf),
}

/// A checkpoint of a system.
pub trait Saved: Sized {
    /// Reads a file.
    fn read(path: &Path) -> Result<Self, CheckpointError>;
    /// Writes a file atomically.
    fn write(&self, path: &Path) -> Result<(), CheckpointError>;
    /// Hash of the contents.
    fn hash(&self) -> u64;
}

impl Saved for CheckpointFile {
    fn read(path: &Path) -> Result<Self, CheckpointError> {
        CheckpointFile::read(path)
    }

    fn write(&self, path: &Path) -> Result<(), CheckpointError> {
        CheckpointFile::write(self, path)
    }

    fn hash(&self) -> u64 {
        CheckpointFile::hash(self)
    }
}

impl Saved for NetworkCheckpoint {
    fn read(path: &Path) -> Result<Self, CheckpointError> {
        NetworkCheckpoint::read(path)
    }

    fn write(&self, path: &Path) -> Result<(), CheckpointError> {
        NetworkCheckpoint::write(self, path)
    }

    fn hash(&self) -> u64 {
        NetworkCheckpoint::hash(self)
    }
}

/// A validated description of a system, with built images.
pub trait Plan {
    /// The system to measure.
    type System: System;
    /// Its checkpoint.
    type Checkpoint: Saved;

    /// File name of its checkpoint in the cache: a function of everything that the state after a boot depends
    /// on.
    fn file_name(&self) -> String;
    /// Boots until all applications are ready. Returns the system and the executed instructions. Reads the
    /// duration of the last boot from `length`, and stores its own there.
    fn boot(&self, length: &BootLength, control: &mut Control) -> Result<(Self::System, u64), RunError>;
    /// Saves a checkpoint.
    fn save(&self, system: &Self::System) -> Self::Checkpoint;
    /// Creates a system with the measured configuration and restores a checkpoint into it.
    fn restored(&self, checkpoint: &Self::Checkpoint) -> Result<Self::System, RunError>;
    /// The images of its guests.
    fn images(&self) -> &[Image];
    /// The co-runner traces.
    fn corunners(&self) -> Vec<PlayedTrace>;
}

/// A system at the time at which its applications became ready.
pub struct Testbed<P: Plan> {
    pub(crate) plan: P,
    commit: &'static str,
    checkpoint: P::Checkpoint,
    /// Use lock of the checkpoint's cache file, so that it is not evicted before other runs of the same study
    /// use it.
    _held: Option<UseLock>,
    /// The system restored to validate the checkpoint, for the first measurement.
    first: Mutex<Option<P::System>>,
    /// Cost of the boot; `None` if it came from a checkpoint.
    pub boot: Option<HostCost>,
    /// Output of the failed `init` lines of its guests.
    init_logs: Vec<InitLog>,
    /// Whether measurements produce fingerprints.
    pub fingerprint: bool,
}

impl<P: Plan> Testbed<P> {
    /// Prepares the testbed of a plan, and warns about failed `init` lines.
    pub fn ready(
        plan: P,
        places: &CachePaths,
        source: &Source,
        control: &mut Control,
    ) -> Result<Self, RunError> {
        let testbed = Self::load_or_boot(plan, places, source, control)?;
        init_log::warn(&testbed.init_logs, control.say);
        Ok(testbed)
    }

    fn load_or_boot(
        plan: P,
        places: &CachePaths,
        source: &Source,
        control: &mut Control,
    ) -> Result<Self, RunError> {
        let cached = places.checkpoints().join(plan.file_name());
        let of = |plan, (checkpoint, system): Loaded<P>, held| {
            Self::from_checkpoint(plan, places.commit, checkpoint, system, held)
        };
        match source {
            Source::Boot => Self::from_boot(plan, places, control),
            Source::File(path) => {
                let named = |error| match error {
                    RunError::Checkpoint(error) => named(path, error),
                    error => error,
                };
                let loaded = load(&plan, path).map_err(named)?;
                Ok(of(plan, loaded, None))
            }
            Source::Cache => {
                let held = hold(&cached).unwrap_or(None);
                if let Some(loaded) = load_cached(&plan, &cached, control.say)? {
                    return Ok(of(plan, loaded, held));
                }
                drop(held);
                // Concurrent runs of the same guests wait for this boot, and then find its checkpoint.
                let _boot_lock = BootLock::wait(&cached, control)?;
                let held = hold(&cached).unwrap_or(None);
                if let Some(loaded) = load_cached(&plan, &cached, &mut |_| {})? {
                    return Ok(of(plan, loaded, held));
                }
                drop(held);
                let testbed = Self::from_boot(plan, places, control)?;
                testbed.store(&cached, control);
                Ok(Testbed { _held: hold(&cached).unwrap_or(None), ..testbed })
            }
        }
    }

    fn from_checkpoint(
        plan: P,
        commit: &'static str,
        checkpoint: P::Checkpoint,
        system: P::System,
        held: Option<UseLock>,
    ) -> Self {
        let (init_logs, first) = (system.init_logs(), Mutex::new(Some(system)));
        Testbed { plan, commit, checkpoint, _held: held, first, boot: None, init_logs, fingerprint: false }
    }

    fn from_boot(plan: P, places: &CachePaths, control: &mut Control) -> Result<Self, RunError> {
        let started = Instant::now();
        let name = plan.file_name();
        let kind = name.rsplit_once('-').map_or(name.as_str(), |(kind, _)| kind);
        let (system, instructions) = plan.boot(&BootLength::of(places, kind), control)?;
        let boot = Some(HostCost::since(started, instructions));
        let checkpoint = plan.save(&system);
        // Measurements start from the checkpoint.
        Ok(Testbed {
            boot,
            first: Mutex::new(None),
            ..Self::from_checkpoint(plan, places.commit, checkpoint, system, None)
        })
    }

    /// Writes the checkpoint to the cache. Failure is only a warning: the next run then boots again.
    fn store(&self, path: &Path, control: &mut Control) {
        let folder = path.parent().expect("the checkpoint folder has a name");
        let written = create_folders(folder)
            .map_err(|error| CheckpointError::Io {
                action: "create the folder of",
                path: path.to_owned(),
                error,
            })
            .and_then(|()| self.checkpoint.write(path));
        if let Err(error) = written {
            (control.say)(&format!("{error}; the next run will boot again"));
        }
    }

    /// The system at the time at which its applications became ready.
    pub(crate) fn system(&self) -> Result<P::System, RunError> {
        let first = self.first.lock().expect("nothing panics while it holds this").take();
        let mut system = first.map_or_else(|| self.plan.restored(&self.checkpoint), Ok)?;
        if self.fingerprint {
            system.start_wire_hashes();
        }
        Ok(system)
    }

    /// The checkpoint from which measurements start.
    pub fn checkpoint(&self) -> &P::Checkpoint {
        &self.checkpoint
    }

    /// Identity of the run, for results.
    pub fn ran(&self) -> RunIdentity {
        RunIdentity {
            doorbell_commit: self.commit.to_owned(),
            images: self.plan.images().iter().map(Image::provenance).collect(),
            boot: format!("{:016x}", self.checkpoint.hash()),
            traces: self.plan.corunners(),
        }
    }
}

type Loaded<P> = (<P as Plan>::Checkpoint, <P as Plan>::System);

/// Reads a checkpoint and restores a system from it, so that a mismatch is found before the first
/// measurement.
fn load<P: Plan>(plan: &P, path: &Path) -> Result<Loaded<P>, RunError> {
    let checkpoint = P::Checkpoint::read(path)?;
    let system = plan.restored(&checkpoint)?;
    Ok((checkpoint, system))
}

/// Loads the cached checkpoint, if there is one. If it is unusable, returns `None` with a warning, so that
/// the caller boots again. Errors in the configured system are returned, since they would also occur after a
/// boot.
fn load_cached<P: Plan>(
    plan: &P,
    path: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<Option<Loaded<P>>, RunError> {
    match load(plan, path) {
        Ok(loaded) => {
            // Removes partial files of killed runs, since no later write of this checkpoint would do so.
            // Failure does not matter.
            let _ = path.parent().map(remove_parts_in);
            Ok(Some(loaded))
        }
        Err(RunError::Checkpoint(CheckpointError::Io { error, .. }))
            if error.kind() == std::io::ErrorKind::NotFound =>
        {
            Ok(None)
        }
        Err(RunError::Checkpoint(error)) => {
            say(&format!("not using the cached checkpoint: {error}"));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// An error about a checkpoint file given by the user, with its path; I/O errors already contain it.
fn named(path: &Path, error: CheckpointError) -> RunError {
    match error {
        CheckpointError::Io { .. } => error.into(),
        error => RunError::NamedCheckpoint { path: path.to_owned(), error },
    }
}
