//! Guest sessions for the checks: each guest boots once per test process and is then restored from a
//! checkpoint.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};

use doorbell_bench::{
    CachePaths, Control, Observe, Point, RunError, Session, Source, benchmark, resolve, run_point_sent,
};
use doorbell_loadgen::{Rate, TrafficConfig};
use doorbell_sim::Bytes;
use doorbell_sim::stats::Stats;

use doorbell_machine::CheckpointFile;

const CONSTANT: &str = "loadgen.traffic.arrivals=constant";
static NEVER_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Calls `run` with a control that reports no progress and never interrupts.
pub fn quiet<R>(run: impl FnOnce(&mut Control) -> R) -> R {
    Control::quietly(&NEVER_INTERRUPTED, run)
}

/// A temporary folder, deleted when dropped.
pub fn scratch() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("doorbell-acceptance-").tempdir().expect("a scratch folder can be made")
}

/// Folders of images and checkpoints, the same as the command's.
pub fn places() -> CachePaths {
    CachePaths { cache: doorbell_oracle::cache(), commit: "unknown" }
}

/// Measures one rate and frame size.
pub fn run_point(
    session: &Session,
    rate: Rate,
    frame_size: Bytes,
    control: &mut Control,
) -> Result<Point, RunError> {
    run_point_observed(session, rate, frame_size, &Observe::default(), control)
}

/// The same, with observations.
pub fn run_point_observed(
    session: &Session,
    rate: Rate,
    frame_size: Bytes,
    observe: &Observe,
    control: &mut Control,
) -> Result<Point, RunError> {
    let traffic = TrafficConfig { frame_size, ..session.config().loadgen.traffic.clone() };
    run_point_sent(session, &traffic, rate, observe, control)
}

fn prepare(overrides: &[String], source: &Source) -> Session {
    prepare_as("fast", overrides, source)
}

fn prepare_as(preset: &str, overrides: &[String], source: &Source) -> Session {
    let config = resolve(preset, overrides).expect("the check's configuration is valid");
    let chosen = benchmark("testpmd").expect("testpmd is a benchmark");
    quiet(|control| Session::prepare(&config, chosen, &places(), source, control))
        .unwrap_or_else(|error| panic!("testpmd does not get ready with {overrides:?}: {error}"))
}

/// A session with testpmd ready. The guest boots once per set of `guest` overrides, which are visible to it;
/// `others` do not need another boot. The user's checkpoints are not used, as they may be older than this
/// source.
///
/// Frames arrive at constant intervals, as the closed forms assume.
pub fn session(guest: &[&str], others: &[&str]) -> Session {
    let path = shared_checkpoint(guest);
    let mut overrides = owned(guest);
    overrides.push(CONSTANT.to_owned());
    overrides.extend(owned(others));
    prepare(&overrides, &Source::File(path.to_path_buf()))
}

/// As [`session`], on a machine with timing models that continues from the same boot.
pub fn timed_session(guest: &[&str], others: &[&str]) -> Session {
    let path = shared_checkpoint(guest);
    let mut overrides = owned(guest);
    overrides.push(CONSTANT.to_owned());
    overrides.extend(owned(others));
    prepare_as("server", &overrides, &Source::File(path))
}

type Boots = Mutex<BTreeMap<Vec<String>, Arc<OnceLock<PathBuf>>>>;

/// Path of a checkpoint with testpmd ready and these guest-visible overrides, for use by other processes.
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
    checkpoint.write(path).expect("a checkpoint can be written");
}

/// Folder of this process's checkpoints, emptied at its start.
fn shared_folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let exe = std::env::current_exe().expect("the path of the running program is available");
        let target = exe.ancestors().nth(3).expect("tests are three levels below target");
        let folder = target.join("acceptance-checkpoints");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("the target folder can be written");
        folder
    })
}

fn owned(overrides: &[&str]) -> Vec<String> {
    overrides.iter().map(|&text| text.to_owned()).collect()
}

/// Sum of the counters whose names match `wanted`.
pub fn counter(stats: &impl Stats, wanted: impl Fn(&str) -> bool) -> u64 {
    stats.counters().iter().filter(|counter| wanted(counter.name)).map(|counter| counter.value).sum()
}
