//! Traces beside a machine that executes: the guest is the one that boots without them, its frames are its own, and what they do is told apart.

use std::path::{Path, PathBuf};

use doorbell_acceptance::{quiet, timed_session};
use doorbell_bench::{Observe, PointSummary, Session, run_point_observed};
use doorbell_sim::Bytes;
use doorbell_trace::champsim::{Record, Variant, Writer};

/// A program that loads one line of so many bytes after the other.
fn walk(folder: &Path, bytes: u64) -> PathBuf {
    let path = folder.join(format!("walk-{bytes}.champsim.xz"));
    let mut writer = Writer::create(&path, Variant::Standard).expect("a folder to write to");
    for turn in 0..60_000u64 {
        let at = 0x7fff_0000_0000 + turn * 64 * 97 % bytes;
        let mut load = Record { ip: 0x40_0000, ..Record::default() };
        (load.read[0], load.destinations[0], load.sources[0]) = (at, 70, 70);
        let (taken, ip) = (true, 0x40_0004);
        let mut back = Record { ip, is_branch: true, taken, ..Record::default() };
        (back.destinations[0], back.sources[0]) = (26, 26);
        [load, back].iter().for_each(|record| writer.write_record(record).expect("room on the disk"));
    }
    writer.finish().expect("room on the disk");
    path
}

fn measured(session: &Session) -> PointSummary {
    let rate = "4Mpps".parse().expect("a rate");
    let point = quiet(|control| run_point_observed(session, rate, Bytes(64), &Observe::default(), control));
    point.expect("it is measured").summary
}

#[test]
fn traces_share_a_machine_with_a_guest_that_does_not_see_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let (small, large) = (walk(folder.path(), 4 << 10), walk(folder.path(), 64 << 20));
    let beside = |traces: &[&PathBuf]| {
        let named: Vec<String> = traces.iter().map(|path| format!("\"{}\"", path.display())).collect();
        let traces = format!("beside.traces=[{}]", named.join(","));
        timed_session(&[], &["run.warmup=200us", "run.settle=50us", "run.duration=100us", &traces])
    };
    let [alone, beside_one, beside_two] = [&[][..], &[&small], &[&small, &large]].map(beside);
    assert_eq!(alone.ran().boot, beside_two.ran().boot, "one boot serves all");
    assert_eq!(beside_two.ran().traces.len(), 2);
    let [none, one, two] = [&alone, &beside_one, &beside_two].map(measured);
    assert!(none.beside.is_empty() && none.timing.as_ref().unwrap().get("neighbours", "ipc").is_none());
    // Frames and instructions are the guest's alone, and one that needs nothing takes nothing.
    assert_eq!((none.frames_delivered, one.frames_delivered), (400, 400));
    let cost =
        |point: &PointSummary| point.timing.as_ref().unwrap().get("packet cost", "busy_cycles").unwrap();
    assert!((cost(&one) / cost(&none) - 1.0).abs() < 0.02, "{} beside it, {} alone", cost(&one), cost(&none));
    let told: Vec<(&str, usize)> = two.beside.iter().map(|own| (own.file.as_str(), own.first_core)).collect();
    assert_eq!(told, [("walk-4096.champsim.xz", 1), ("walk-67108864.champsim.xz", 2)]);
    // Two instructions a load, each load waiting for the one before: three cycles for what L1 holds, of the other a memory access and a walk.
    let [near, far] = [&two.beside[0], &two.beside[1]];
    assert!((0.4..0.7).contains(&near.ipc) && far.ipc < 0.03, "{near:?} {far:?}");
    assert_eq!(two.cores.len(), 3, "each core has figures of its own");
    assert_eq!(measured(&beside_two).state_hash, two.state_hash, "the same again");
}
