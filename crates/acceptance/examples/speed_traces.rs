//! Speed of trace replay and recording, compared with a stored baseline. A benchmark, not a test: results
//! depend on the host.
//!
//!     cargo run --release -p doorbell-acceptance --example speed_traces [-- --runs 5] [--store]
//!
//! | Part | Measurement, over the whole command |
//! |---|---|
//! | playing | instructions per host second of testpmd, recorded and replayed on a timed `server`, at 8 and at 28 Mpps |
//! | chase | the same for a pointer chase over 256 MiB in 4 KiB pages: nearly all loads miss to DRAM |
//! | recording | instructions per host second of testpmd on a functional machine while a trace is written, and the slow-down by recording |
//!
//! ChampSim 2ff2501 runs 0.18 and 0.008 million instructions per second on such loops.

use std::path::{Path, PathBuf};
use std::time::Instant;

use doorbell_acceptance::baseline::{median, print_and_store};
use doorbell_acceptance::{doorbell, scratch};
use doorbell_sim::rng::Rng;
use doorbell_trace::champsim::{Record, Variant, Writer};
use doorbell_trace::system::TraceFile;
use serde_json::{Map, json};

/// Loads of the chain, eight per iteration of its loop.
const LOADS: u64 = 2_000_000;
const CHASED_BYTES: u64 = 256 << 20;
const LINE: u64 = 64;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let runs = words.iter().position(|word| word == "--runs").and_then(|at| words.get(at + 1)?.parse().ok());
    let runs: usize = runs.unwrap_or(5).max(1);
    let folder = scratch();
    let mut figures = Map::new();
    for rate in [8, 28] {
        let file =
            record(folder.path(), &format!("{rate}Mpps"), &["--preset", "server", "--duration", "4ms"]);
        let million = millions(&file);
        let all = (0..runs).map(|_| million / played(&file, &[]));
        figures.insert(format!("playing_{rate}_mpps_mips"), json!(median(all)));
    }
    let (file, million) = chase(folder.path());
    let pages = ["--set", "playback.pages=kernel", "--set", "platform.ram=1GiB"];
    let all = (0..runs).map(|_| million / played(&file, &pages));
    figures.insert("playing_chase_mips".to_owned(), json!(median(all)));
    let all: Vec<[f64; 2]> = (0..runs).map(|_| recording(folder.path())).collect();
    figures.insert("recording_mips".to_owned(), json!(median(all.iter().map(|one| one[0]))));
    figures.insert("recording_takes_longer".to_owned(), json!(median(all.iter().map(|one| one[1]))));
    print_and_store(&figures, "speed-traces-baseline.json", words.iter().any(|word| word == "--store"));
}

/// Runs a command; returns host seconds.
fn seconds(words: &[&str], out: &Path) -> f64 {
    let out = out.display().to_string();
    let words = [words, &["-q", "--out", &out]].concat();
    let started = Instant::now();
    doorbell(&words).success();
    started.elapsed().as_secs_f64()
}

/// Records a trace of testpmd; returns its path.
fn record(folder: &Path, rate: &str, set: &[&str]) -> PathBuf {
    let out = folder.join(rate);
    seconds(&[&["trace", "record", "testpmd", "--rate", rate], set].concat(), &out);
    out.join("trace.dbt")
}

/// Instructions in a trace, in millions.
fn millions(file: &Path) -> f64 {
    let counts = TraceFile::open(file).expect("a trace").counts().instructions.clone();
    counts.iter().sum::<u64>() as f64 / 1e6
}

/// Replays a trace; returns host seconds.
fn played(file: &Path, set: &[&str]) -> f64 {
    let name = file.display().to_string();
    let words = ["trace", "run", &name, "--preset", "server", "--warmup", "0"];
    seconds(&[&words, set].concat(), &file.with_extension("played"))
}

/// Millions of instructions per second while recording, and the run time relative to the same run without
/// recording.
fn recording(folder: &Path) -> [f64; 2] {
    const RUN: [&str; 7] = ["testpmd", "--preset", "fast", "--rate", "8Mpps", "--duration", "60ms"];
    let out = folder.join("recorded");
    let recorded = seconds(&[&["trace", "record"], &RUN[..]].concat(), &out);
    let unrecorded = seconds(&[&["run"], &RUN[..]].concat(), &folder.join("run"));
    [millions(&out.join("trace.dbt")) / recorded, recorded / unrecorded]
}

/// Writes a pointer chase in ChampSim's format: a loop of eight dependent loads and a jump back. Returns its
/// path and its length in millions of instructions.
fn chase(folder: &Path) -> (PathBuf, f64) {
    const CODE: u64 = 0x40_0000;
    const REGISTER: u8 = 74;
    const INSTRUCTION_POINTER: u8 = 26;
    let path = folder.join("chase.champsim.zst");
    let mut writer = Writer::create(&path, Variant::Standard).expect("a trace can be written");
    let mut random = Rng::stream(1, "chase");
    for load in 0..LOADS {
        let at = (1 << 32) + random.below(CHASED_BYTES / LINE) * LINE;
        let ip = CODE + 4 * (load % 8);
        let registers = [REGISTER, 0, 0, 0];
        let read = [at, 0, 0, 0];
        let record = Record { ip, destinations: registers, sources: registers, read, ..Record::default() };
        writer.write_record(&record).expect("a record can be written");
        if load % 8 == 7 {
            let destinations = [INSTRUCTION_POINTER, 0, 0, 0];
            let jump =
                Record { ip: CODE + 32, is_branch: true, taken: true, destinations, ..Record::default() };
            writer.write_record(&jump).expect("a record can be written");
        }
    }
    let million = writer.written() as f64 / 1e6;
    writer.finish().expect("the trace can be finished");
    (path, million)
}
