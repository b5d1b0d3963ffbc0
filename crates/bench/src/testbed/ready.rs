//! A testbed: a system whose applications are ready, booted once or taken from the checkpoint that an earlier run with the same guests
//! left in the cache, any number of times. The system is one machine ([`crate::testbed::session`]) or a network ([`crate::testbed::nodes`]).

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use doorbell_files::{UseLock, create_folders, hold, remove_parts_in};
use doorbell_image::Image;
use doorbell_machine::{CheckpointError, CheckpointFile, NetworkCheckpoint};

use crate::error::RunError;
use crate::store::paths::Places;
use crate::testbed::boot_length::BootLength;
use crate::testbed::boot_turn::BootTurn;
use crate::testbed::control::Control;
use crate::testbed::init_log::{self, InitLog};
use crate::testbed::system::System;
use doorbell_results::{PlayedTrace, RunIdentity};
use doorbell_sim::Ps;

/// How often an application that calls itself ready is asked whether its links are up.
pub(crate) const LINK_STEP: Ps = Ps::from_us(100);

/// Where what is ready comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The cached checkpoint of these guests if there is one; else boot, and keep a checkpoint.
    Cache,
    /// Boot, and keep no checkpoint.
    Boot,
    /// This checkpoint file.
    File(PathBuf),
}

/// A checkpoint of a system.
pub trait Saved: Sized {
    /// Reads a file.
    fn read(path: &Path) -> Result<Self, CheckpointError>;
    /// Writes a file, as a whole or not at all.
    fn write(&self, path: &Path) -> Result<(), CheckpointError>;
    /// Names what is in it.
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

/// A system with all that it boots from: it was checked, and its images are built.
pub trait Plan {
    /// What is measured.
    type System: System;
    /// What is kept of it.
    type Checkpoint: Saved;

    /// The name of its checkpoint's file in the cache: a function of everything that decides what a boot leaves.
    fn file_name(&self) -> String;
    /// Boots it until all applications are ready; tells what a lone guest has printed, and how many instructions it took. How long boots of
    /// its kind take is known from the last one, and told to the next.
    fn boot(
        &self,
        length: &BootLength,
        control: &mut Control,
    ) -> Result<(Self::System, String, u64), RunError>;
    /// What is to be kept of it.
    fn save(&self, system: &Self::System) -> Self::Checkpoint;
    /// A new one as it is to be measured, at a checkpoint.
    fn restored(&self, checkpoint: &Self::Checkpoint) -> Result<Self::System, RunError>;
    /// The images of its guests.
    fn images(&self) -> &[Image];
    /// The traces that are played beside them.
    fn beside(&self) -> Vec<PlayedTrace>;
}

/// A system at the point where its applications have just become ready.
pub struct Testbed<P: Plan> {
    pub(crate) plan: P,
    commit: &'static str,
    checkpoint: P::Checkpoint,
    /// The checkpoint's file, if it came from the cache: others of the same study will want it, so it stays.
    _held: Option<UseLock>,
    /// The system restored when the checkpoint was tried, for the first measurement.
    first: Mutex<Option<P::System>>,
    /// What a lone guest had printed when it was ready; empty if it came from a checkpoint.
    pub console: String,
    /// Host time and instructions of the boot; `None` if it came from a checkpoint.
    pub boot: Option<(f64, u64)>,
    /// What failed `init` lines of its guests printed.
    init_logs: Vec<InitLog>,
    /// Whether measurements leave fingerprints.
    pub fingerprint: bool,
}

impl<P: Plan> Testbed<P> {
    /// Gets a plan ready, and warns of `init` lines that have failed.
    pub fn ready(plan: P, places: &Places, source: &Source, control: &mut Control) -> Result<Self, RunError> {
        let testbed = Self::obtained(plan, places, source, control)?;
        init_log::warn(&testbed.init_logs, control.say);
        Ok(testbed)
    }

    fn obtained(plan: P, places: &Places, source: &Source, control: &mut Control) -> Result<Self, RunError> {
        let cached = places.checkpoints().join(plan.file_name());
        let commit = places.commit;
        match source {
            Source::Boot => Self::booted(plan, places, control),
            Source::File(path) => {
                let named = |error| match error {
                    RunError::Checkpoint(error) => named(path, error),
                    error => error,
                };
                let (checkpoint, system) = taken(&plan, path).map_err(named)?;
                Ok(Self::begun(plan, commit, checkpoint, system))
            }
            Source::Cache => {
                let held = hold(&cached).unwrap_or(None);
                if let Some((checkpoint, system)) = taken_cached(&plan, &cached, control.say)? {
                    return Ok(Testbed { _held: held, ..Self::begun(plan, commit, checkpoint, system) });
                }
                drop(held);
                // Others who want the same guests wait until they have booted, and then find them.
                let _turn = BootTurn::wait(&cached, control)?;
                let held = hold(&cached).unwrap_or(None);
                if let Some((checkpoint, system)) = taken_cached(&plan, &cached, &mut |_| {})? {
                    return Ok(Testbed { _held: held, ..Self::begun(plan, commit, checkpoint, system) });
                }
                drop(held);
                let testbed = Self::booted(plan, places, control)?;
                testbed.keep(&cached, control);
                Ok(Testbed { _held: hold(&cached).unwrap_or(None), ..testbed })
            }
        }
    }

    fn begun(plan: P, commit: &'static str, checkpoint: P::Checkpoint, system: P::System) -> Self {
        let (init_logs, first) = (system.init_logs(), Mutex::new(Some(system)));
        Testbed {
            plan,
            commit,
            checkpoint,
            _held: None,
            first,
            console: String::new(),
            boot: None,
            init_logs,
            fingerprint: false,
        }
    }

    fn booted(plan: P, places: &Places, control: &mut Control) -> Result<Self, RunError> {
        let started = Instant::now();
        let name = plan.file_name();
        let kind = name.rsplit_once('-').map_or(name.as_str(), |(kind, _)| kind);
        let (system, console, instructions) = plan.boot(&BootLength::of(places, kind), control)?;
        let boot = Some((started.elapsed().as_secs_f64(), instructions));
        let (checkpoint, init_logs) = (plan.save(&system), system.init_logs());
        let (commit, first) = (places.commit, Mutex::new(None));
        Ok(Testbed {
            plan,
            commit,
            checkpoint,
            _held: None,
            first,
            console,
            boot,
            init_logs,
            fingerprint: false,
        })
    }

    /// Failing to keep a checkpoint costs the next run a boot, and nothing else.
    fn keep(&self, path: &Path, control: &mut Control) {
        let folder = path.parent().expect("the checkpoint folder has a name");
        let kept = create_folders(folder)
            .map_err(|error| CheckpointError::Io {
                action: "create the folder of",
                path: path.to_owned(),
                error,
            })
            .and_then(|()| self.checkpoint.write(path));
        if let Err(error) = kept {
            (control.say)(&format!("{error}; the next run will boot again"));
        }
    }

    /// The system at the point where its applications have just become ready.
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

    /// What runs, for results.
    pub fn ran(&self) -> RunIdentity {
        RunIdentity {
            doorbell_commit: self.commit.to_owned(),
            images: self.plan.images().iter().map(Image::provenance).collect(),
            boot: format!("{:016x}", self.checkpoint.hash()),
            traces: self.plan.beside(),
        }
    }
}

type Taken<P> = (<P as Plan>::Checkpoint, <P as Plan>::System);

/// A checkpoint, and a system begun from it: if it does not fit, that is found here and not in the first measurement.
fn taken<P: Plan>(plan: &P, path: &Path) -> Result<Taken<P>, RunError> {
    let checkpoint = P::Checkpoint::read(path)?;
    let system = plan.restored(&checkpoint)?;
    Ok((checkpoint, system))
}

/// The same of a cached checkpoint, if there is one. One that cannot be used is no error: a new one is made. What is wrong with the
/// system that is to begin from it would be wrong after a boot, too.
fn taken_cached<P: Plan>(
    plan: &P,
    path: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<Option<Taken<P>>, RunError> {
    match taken(plan, path) {
        Ok(taken) => {
            // Nobody writes it again, who would take away what killed ones have left. Where that cannot be done, it does no harm.
            let _ = path.parent().map(remove_parts_in);
            Ok(Some(taken))
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

/// An error about a checkpoint that the user named; one about reading the file names it already.
fn named(path: &Path, error: CheckpointError) -> RunError {
    match error {
        CheckpointError::Io { .. } => error.into(),
        error => RunError::NamedCheckpoint { path: path.to_owned(), error },
    }
}
