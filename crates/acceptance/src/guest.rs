//! A guest that is booted once and measured by all.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};

use doorbell_bench::{Control, Places, Session, Source, benchmark, resolve};
use doorbell_sim::stats::Stats;

use doorbell_machine::CheckpointFile;

const CONSTANT: &str = "loadgen.traffic.arrivals=constant";
static NEVER_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Calls `run` with a control that tells nothing and never interrupts.
pub fn quiet<R>(run: impl FnOnce(&mut Control) -> R) -> R {
    Control::quietly(&NEVER_INTERRUPTED, run)
}

/// A folder that goes away at the end of the test.
pub fn scratch() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("doorbell-acceptance-").tempdir().expect("a scratch folder can be made")
}

/// Where the images are: as the command finds them.
pub fn places() -> Places {
    Places::new(doorbell_oracle::cache())
}

fn prepare(overrides: &[String], source: &Source) -> Session {
    prepare_as("fast", overrides, source)
}

fn prepare_as(preset: &str, overrides: &[String], source: &Source) -> Session {
    let config = resolve(preset, overrides).expect("the check's configuration is right");
    let chosen = benchmark("testpmd").expect("testpmd is a benchmark");
    quiet(|control| Session::prepare(&config, chosen, &places(), source, control))
        .unwrap_or_else(|error| panic!("testpmd does not get ready with {overrides:?}: {error}"))
}

/// testpmd ready with these overrides. `guest` are those that the guest can see: for each set of them it
/// boots once, and never from the user's cache, which may be older than this source. `others` may differ.
///
/// Frames come at equal distances, of which closed forms are.
pub fn session(guest: &[&str], others: &[&str]) -> Session {
    let path = shared_checkpoint(guest);
    let mut overrides = owned(guest);
    overrides.push(CONSTANT.to_owned());
    overrides.extend(owned(others));
    prepare(&overrides, &Source::File(path.to_path_buf()))
}

/// The same on a machine with timing models, which goes on from the same boot.
pub fn timed_session(guest: &[&str], others: &[&str]) -> Session {
    let path = shared_checkpoint(guest);
    let mut overrides = owned(guest);
    overrides.push(CONSTANT.to_owned());
    overrides.extend(owned(others));
    prepare_as("server", &overrides, &Source::File(path))
}

type Boots = Mutex<BTreeMap<Vec<String>, Arc<OnceLock<PathBuf>>>>;

/// The checkpoint of testpmd ready with these guest-visible overrides, as a file for other processes.
pub fn shared_checkpoint(guest: &[&str]) -> PathBuf {
    static BOOTS: Boots = Mutex::new(BTreeMap::new());
    let overrides = owned(guest);
    let boot = Arc::clone(BOOTS.lock().expect("no check panics here").entry(overrides.clone()).or_default());
    boot.get_or_init(|| {
        let session = prepare(&overrides, &Source::Boot);
        let path = shared_folder().join(format!("{}.ckpt", overrides.join("-").replace(['/', '='], "_")));
        keep(session.checkpoint(), &path);
        path
    })
    .clone()
}

fn keep(checkpoint: &CheckpointFile, path: &Path) {
    checkpoint.write(path).expect("a checkpoint can be kept");
}

/// Where this process's checkpoints lie; each run begins with an empty folder.
fn shared_folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let exe = std::env::current_exe().expect("a program knows where it is");
        let target = exe.ancestors().nth(3).expect("tests lie three folders below target");
        let folder = target.join("acceptance-checkpoints");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("the target folder can be written");
        folder
    })
}

fn owned(overrides: &[&str]) -> Vec<String> {
    overrides.iter().map(|&text| text.to_owned()).collect()
}

/// The sum of the counters whose names `wanted` accepts.
pub fn counter(stats: &impl Stats, wanted: impl Fn(&str) -> bool) -> u64 {
    stats.counters().iter().filter(|counter| wanted(counter.name)).map(|counter| counter.value).sum()
}
