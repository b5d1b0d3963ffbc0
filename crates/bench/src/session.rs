//! From a configuration to a machine whose application is ready: by booting it, or from the
//! checkpoint that an earlier run with the same guest left in the cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use doorbell_files::create_folders;
use doorbell_image::{BuildOptions, Image, Recipe, build};
use doorbell_loadgen::{Kind, Returned};
use doorbell_machine::{
    CheckpointError, CheckpointFile, ConfigError, DiskFile, Guest, Limits, Machine, Outcome,
};
use doorbell_sim::Ps;
use xxhash_rust::xxh3::xxh3_64;

use crate::boot_turn::{BOOT_VERSION, BootTurn};
use crate::config::RunConfig;
use crate::disks::{disks_identity, machine_for_boot, machine_with, open_disks};
use crate::drive::{DriveConfig, DriveKind};
use crate::error::{RunError, describe};
use crate::m5::{M5_CHECKPOINT, M5Next, M5Ops};
use crate::registry::Benchmark;
use doorbell_results::Ran;

/// Console lines quoted in an error.
const LINES_SHOWN: usize = 12;
/// Instructions between looks at the clock, at Ctrl-C and at the progress display.
pub(crate) const SLICE_INSTRUCTIONS: u64 = 20_000_000;
/// The same in simulated time: a guest that traps without end retires no instructions.
pub(crate) const SLICE_TIME: Ps = Ps::from_ms(20);

/// Linux on RISC-V silently drops what is beyond (COMMAND_LINE_SIZE, less the final zero).
const COMMAND_LINE_BYTES_MAX: usize = 1023;

/// How often an application that calls itself ready is asked whether its links are up.
const LINK_STEP: Ps = Ps::from_us(100);

/// Where images, packages and checkpoints are kept.
#[derive(Clone, Debug)]
pub struct Places {
    /// The cache folder.
    pub cache: PathBuf,
    /// The commit that the program was built from, for results.
    pub commit: &'static str,
}

impl Places {
    /// These places, for a program that does not know its commit.
    pub fn new(cache: PathBuf) -> Places {
        Places { cache, commit: "unknown" }
    }

    /// The folder of an image.
    pub fn image(&self, name: &str) -> PathBuf {
        self.cache.join("images").join(name)
    }

    pub(crate) fn checkpoints(&self) -> PathBuf {
        self.cache.join("checkpoints")
    }

    /// Builds an image, or takes the one that is there; `name` is a built-in one or the path of a recipe.
    pub fn build_image(&self, name: &str, say: &mut dyn FnMut(&str)) -> Result<Image, RunError> {
        let recipe = Recipe::load(name)?;
        fs::create_dir_all(&self.cache).map_err(RunError::io("create the cache folder", &self.cache))?;
        let options = BuildOptions {
            cache_dir: self.cache.join("packages"),
            out_dir: self.image(recipe.folder_name()),
            ..Default::default()
        };
        Ok(build(&recipe, &options, say)?)
    }

    /// Builds the image of a workload whose own is `own`: that, or the user's instead (`run.image`), which must extend it.
    pub fn build_image_for(
        &self,
        own: &str,
        instead: Option<&str>,
        say: &mut dyn FnMut(&str),
    ) -> Result<Image, RunError> {
        let Some(chosen) = instead else { return self.build_image(own, say) };
        if Recipe::load(chosen)?.is_a(own) {
            return self.build_image(chosen, say);
        }
        let problem = format!(
            "\"{chosen}\" does not extend \"{own}\", the image that this runs in; begin it with extends = \"{own}\""
        );
        Err(ConfigError::new("run.image", problem).into())
    }
}

/// What a session boots, and when it is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Its name in results and among checkpoints.
    pub name: String,
    /// A built-in image, or the path of a recipe.
    pub image: String,
    /// The words that it adds to the kernel's command line.
    pub words: String,
    /// When it is ready.
    pub ready: Ready,
    /// What it does to test frames.
    pub returned: Returned,
    /// Requests that are sent, each once, before the first measurement.
    pub preload: Option<Kind>,
    /// Whether it is measured without any traffic.
    pub silent: bool,
    /// Descriptors of its receive and transmit rings, where its options say so.
    pub rings: Option<[u32; 2]>,
}

/// How a guest says that it is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ready {
    /// The console shows this, and then every NIC receives.
    Marker(&'static str),
    /// It asks for a checkpoint by m5op.
    M5Checkpoint,
}

/// Where a session's machine comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The cached checkpoint of this guest if there is one; else boot, and keep a checkpoint.
    Cache,
    /// Boot, and keep no checkpoint.
    Boot,
    /// This checkpoint file.
    File(PathBuf),
}

/// How a long piece of work reports and is interrupted.
pub struct Control<'a> {
    /// Set when the user wants to stop.
    pub interrupted: &'a AtomicBool,
    /// Told in a few words what is going on.
    pub say: &'a mut dyn FnMut(&str),
    /// Told how far the machine is: instructions and simulated time.
    pub progress: &'a mut dyn FnMut(u64, Ps),
    /// Does what the guest asks by m5ops; without it they are ignored.
    pub m5: Option<&'a mut M5Ops>,
}

impl Control<'_> {
    pub(crate) fn check(&self) -> Result<(), RunError> {
        if self.interrupted.load(Ordering::Relaxed) { Err(RunError::Interrupted) } else { Ok(()) }
    }
}

/// Runs a machine to a limit in slices, so that it can be watched and interrupted. The guest's m5ops are done on the
/// way; only one that ends the guest ends the run.
pub(crate) fn run_watched(
    machine: &mut Machine,
    guest: &str,
    limits: &Limits,
    control: &mut Control,
) -> Result<Outcome, RunError> {
    run_watched_until(machine, guest, limits, None, control)
}

/// As [`run_watched`], and the m5op with this function number ends the run instead of being done.
fn run_watched_until(
    machine: &mut Machine,
    guest: &str,
    limits: &Limits,
    last: Option<u8>,
    control: &mut Control,
) -> Result<Outcome, RunError> {
    loop {
        let slice = machine.instructions().saturating_add(SLICE_INSTRUCTIONS).min(limits.instructions);
        let time = machine.now().saturating_add(SLICE_TIME).min(limits.time);
        let outcome = machine.run(&Limits { instructions: slice, time, ..limits.clone() });
        control.check()?;
        (control.progress)(machine.instructions(), machine.now());
        match outcome {
            Outcome::Instructions if slice < limits.instructions => {}
            Outcome::Time if time < limits.time => {}
            Outcome::M5Op { function, .. } if Some(function) == last => return Ok(outcome),
            Outcome::M5Op { hart, function, args } => {
                let next = match &mut control.m5 {
                    Some(m5) => m5.perform(machine, guest, hart, function, args, control.say)?,
                    None => M5Next::Continue,
                };
                if next != M5Next::Continue {
                    return Ok(outcome);
                }
            }
            _ => return Ok(outcome),
        }
    }
}

/// A workload whose application is ready to be measured, any number of times.
pub struct Session {
    config: RunConfig,
    workload: Workload,
    guest: String,
    disks: Vec<DiskFile>,
    image: Image,
    commit: &'static str,
    checkpoint: CheckpointFile,
    /// The machine restored when the checkpoint was tried, for the first measurement.
    first: Mutex<Option<Machine>>,
    /// What the guest had printed when it was ready; empty if it came from a checkpoint.
    pub console: String,
    /// Host time and instructions of the boot; `None` if it came from a checkpoint.
    pub boot: Option<(f64, u64)>,
    /// Whether measurements leave fingerprints.
    pub fingerprint: bool,
}

impl Session {
    /// Gets a benchmark's application ready.
    pub fn prepare(
        config: &RunConfig,
        benchmark: &'static Benchmark,
        places: &Places,
        source: &Source,
        control: &mut Control,
    ) -> Result<Session, RunError> {
        Self::prepare_workload(config, benchmark.workload(config), places, source, control)
    }

    /// Gets a workload ready.
    pub fn prepare_workload(
        config: &RunConfig,
        workload: Workload,
        places: &Places,
        source: &Source,
        control: &mut Control,
    ) -> Result<Session, RunError> {
        config.validate()?;
        if config.options::<DriveConfig>().kind == DriveKind::Node {
            let problem =
                "only `doorbell run` of a benchmark has a drive node; here it must be \"generator\"";
            return Err(ConfigError::new("drive.kind", problem).into());
        }
        let image = places.build_image_for(&workload.image, config.run.image.as_deref(), control.say)?;
        if config.platform.ram < image.ram_min() {
            let problem =
                format!("{} is too little: this image needs {}", config.platform.ram, image.ram_min());
            return Err(ConfigError::new("platform.ram", problem).into());
        }
        let bootargs = format!("{} {}", image.command_line(), workload.words);
        let guest = guest_identity(&image, &bootargs);
        let disks = open_disks(Some(&image), &config.run.disks)?;
        // A checkpoint is a function of its name: the guest, its platform and disks, and how guests are booted.
        let with_disks = disks_identity(&disks);
        let cached = places.checkpoints().join(format!(
            "{}-{:016x}.ckpt",
            workload.name,
            config.machine().guest_hash() ^ xxh3_64(format!("{BOOT_VERSION} {guest}{with_disks}").as_bytes())
        ));
        let mut session = Session {
            config: config.clone(),
            workload,
            guest,
            disks,
            image: image.clone(),
            commit: places.commit,
            checkpoint: CheckpointFile::empty(),
            first: Mutex::new(None),
            console: String::new(),
            boot: None,
            fingerprint: false,
        };
        match source {
            Source::Boot => session.boot(read_guest(&image, bootargs)?, control)?,
            Source::File(path) => {
                let checkpoint = CheckpointFile::read(path).map_err(|error| named(path, error))?;
                session.take(checkpoint).map_err(|error| match error {
                    RunError::Checkpoint(error) => named(path, error),
                    error => error,
                })?;
            }
            Source::Cache if session.take_cached(&cached, control.say) => {}
            Source::Cache => {
                // Others who want the same guest wait until it has booted, and then find it.
                let _turn = BootTurn::wait(&cached, control)?;
                if !session.take_cached(&cached, &mut |_| {}) {
                    session.boot_and_keep(&image, bootargs, &cached, control)?;
                }
            }
        }
        Ok(session)
    }

    /// Begins from this checkpoint, if it fits: that is found here, and not in the first measurement.
    fn take(&mut self, checkpoint: CheckpointFile) -> Result<(), RunError> {
        self.checkpoint = checkpoint;
        let machine = self.restored()?;
        self.first = Mutex::new(Some(machine));
        Ok(())
    }

    /// Begins from a cached checkpoint, if there is one. One that cannot be used is no error: a new one is made.
    fn take_cached(&mut self, path: &Path, say: &mut dyn FnMut(&str)) -> bool {
        let taken = CheckpointFile::read(path).map_err(RunError::from).and_then(|file| self.take(file));
        match taken {
            Ok(()) => true,
            Err(RunError::Checkpoint(CheckpointError::Io { error, .. }))
                if error.kind() == std::io::ErrorKind::NotFound =>
            {
                false
            }
            Err(error) => {
                say(&format!("not using the cached checkpoint: {error}"));
                false
            }
        }
    }

    fn boot_and_keep(
        &mut self,
        image: &Image,
        bootargs: String,
        cached: &Path,
        control: &mut Control,
    ) -> Result<(), RunError> {
        self.boot(read_guest(image, bootargs)?, control)?;
        self.keep(cached, control);
        Ok(())
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

    fn boot(&mut self, guest: Guest, control: &mut Control) -> Result<(), RunError> {
        let started = Instant::now();
        (control.say)(&format!("booting Debian until {} is ready", self.workload.name));
        let mut machine = machine_for_boot(&self.config, &self.disks)?;
        machine.load(&guest)?;
        drop(guest);
        let (marker, last) = match self.workload.ready {
            Ready::Marker(marker) => (Some(marker), None),
            Ready::M5Checkpoint => (None, Some(M5_CHECKPOINT)),
        };
        machine.console.watch(marker);
        let limits = Limits { on_marker: true, ..Limits::until(self.config.run.boot_timeout) };
        let outcome = run_watched_until(&mut machine, &self.guest, &limits, last, control)?;
        let not_ready = |machine: &Machine, why: String| {
            Err(RunError::NotReady { why, console: machine.console.last_lines(LINES_SHOWN) })
        };
        let is_last = |outcome| matches!(outcome, Outcome::M5Op { function, .. } if Some(function) == last);
        if outcome != Outcome::Marker && !is_last(outcome) {
            return not_ready(&machine, describe(outcome, self.config.run.boot_timeout));
        }
        // The application says it is ready; its NICs must be, too.
        let listens = marker.is_some() && !self.workload.silent;
        while listens && !machine.nics().all(|nic| nic.is_receiving()) {
            let step = machine.now().saturating_add(LINK_STEP);
            let outcome = run_watched(&mut machine, &self.guest, &Limits::until(step), control)?;
            if !matches!(outcome, Outcome::Time | Outcome::Asleep) || step > self.config.run.boot_timeout {
                return not_ready(&machine, format!("a NIC does not receive: {}", describe(outcome, step)));
            }
        }
        self.console = machine.console.text();
        self.boot = Some((started.elapsed().as_secs_f64(), machine.instructions()));
        self.checkpoint = machine.checkpoint(&self.guest, &self.workload.name);
        Ok(())
    }

    /// A machine at the point where the application has just become ready.
    pub fn machine(&self) -> Result<Machine, RunError> {
        let first = self.first.lock().expect("nothing panics while it holds this").take();
        let mut machine = first.map_or_else(|| self.restored(), Ok)?;
        if self.fingerprint {
            machine.hear_wires();
        }
        Ok(machine)
    }

    fn restored(&self) -> Result<Machine, RunError> {
        let mut machine = machine_with(&self.config, &self.disks)?;
        machine.restore(&self.checkpoint, &self.guest)?;
        Ok(machine)
    }

    /// The checkpoint from which measurements start.
    pub fn checkpoint(&self) -> &CheckpointFile {
        &self.checkpoint
    }

    /// The configuration.
    pub fn config(&self) -> &RunConfig {
        &self.config
    }

    /// The image that was booted.
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// What runs, for results.
    pub fn ran(&self) -> Ran {
        Ran {
            doorbell_commit: self.commit.to_owned(),
            images: vec![self.image.provenance()],
            boot: format!("{:016x}", self.checkpoint.hash()),
        }
    }

    /// Names the guest in checkpoints.
    pub fn guest(&self) -> &str {
        &self.guest
    }

    /// What was booted.
    pub fn workload(&self) -> &Workload {
        &self.workload
    }
}

/// An error about a checkpoint that the user named; one about reading the file names it already.
fn named(path: &Path, error: CheckpointError) -> RunError {
    match error {
        CheckpointError::Io { .. } => error.into(),
        error => RunError::NamedCheckpoint { path: path.to_owned(), error },
    }
}

/// Names an image's contents and what is booted from it.
pub fn guest_identity(image: &Image, bootargs: &str) -> String {
    let files: String = image.manifest().files.iter().map(|file| file.sha256.as_str()).collect();
    format!("{} {:016x} {bootargs}", image.name(), xxh3_64(files.as_bytes()))
}

/// Names a bare-metal program.
pub fn bare_identity(program: &[u8]) -> String {
    format!("bare {:016x}", xxh3_64(program))
}

/// Reads an image's files.
pub fn read_guest(image: &Image, bootargs: String) -> Result<Guest, RunError> {
    if bootargs.len() > COMMAND_LINE_BYTES_MAX {
        let problem = format!(
            "the kernel's command line has {} bytes and is cut after {COMMAND_LINE_BYTES_MAX}; use fewer or shorter words",
            bootargs.len()
        );
        return Err(ConfigError::new("command line", problem).into());
    }
    let read = |path: PathBuf| fs::read(&path).map_err(RunError::io("read", path));
    let firmware = image.firmware("fw_dynamic.bin").ok_or_else(|| RunError::Io {
        action: "find",
        path: image.dir().join("fw_dynamic.bin"),
        error: std::io::ErrorKind::NotFound.into(),
    })?;
    Ok(Guest {
        firmware: read(firmware)?,
        kernel: read(image.kernel())?,
        initramfs: read(image.initramfs())?,
        bootargs,
    })
}
