//! Co-runner traces on a machine that executes a guest: boot and frames are as without traces, and the traces
//! have separate figures.

use std::path::{Path, PathBuf};

use doorbell_acceptance::{quiet, run_point_observed, timed_session};
use doorbell_bench::figure_keys::{NEIGHBOURS, PACKET_COST};
use doorbell_bench::{Observe, PointSummary, Session};
use doorbell_sim::Bytes;
use doorbell_trace::champsim::{Record, Variant, Writer};

/// Writes a trace that walks over the lines of `bytes` bytes.
fn walk(folder: &Path, bytes: u64) -> PathBuf {
    let path = folder.join(format!("walk-{bytes}.champsim.xz"));
    let mut writer = Writer::create(&path, Variant::Standard).expect("the trace can be created");
    for turn in 0..60_000u64 {
        let at = 0x7fff_0000_0000 + turn * 64 * 97 % bytes;
        let mut load = Record { ip: 0x40_0000, ..Record::default() };
        (load.read[0], load.destinations[0], load.sources[0]) = (at, 70, 70);
        let (taken, ip) = (true, 0x40_0004);
        let mut back = Record { ip, is_branch: true, taken, ..Record::default() };
        (back.destinations[0], back.sources[0]) = (26, 26);
        [load, back].iter().for_each(|record| writer.write_record(record).expect("the trace can be written"));
    }
    writer.finish().expect("the trace can be written");
    path
}

fn measured(session: &Session) -> PointSummary {
    let rate = "4Mpps".parse().expect("a rate");
    let point = quiet(|control| run_point_observed(session, rate, Bytes(64), &Observe::default(), control));
    point.expect("the point can be measured").summary
}

#[test]
fn corunner_traces_share_caches_with_a_guest_but_are_invisible_to_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (small, large) = (walk(folder.path(), 4 << 10), walk(folder.path(), 64 << 20));
    let with_corunners = |traces: &[&PathBuf]| {
        let named: Vec<String> = traces.iter().map(|path| format!("\"{}\"", path.display())).collect();
        let traces = format!("beside.traces=[{}]", named.join(","));
        timed_session(&[], &["run.warmup=200us", "run.settle=50us", "run.duration=100us", &traces])
    };
    let [without, with_one, with_two] = [&[][..], &[&small], &[&small, &large]].map(with_corunners);
    assert_eq!(without.ran().boot, with_two.ran().boot, "all sessions share one boot");
    assert_eq!(with_two.ran().traces.len(), 2);
    let [none, one, two] = [&without, &with_one, &with_two].map(measured);
    assert!(none.beside.is_empty() && none.figure(NEIGHBOURS.ipc).is_none());
    // Frames and instructions are the guest's only, and a trace that fits into its L1 does not slow the guest
    // down.
    assert_eq!((none.frames_delivered, one.frames_delivered), (400, 400));
    let cost = |point: &PointSummary| point.figure(PACKET_COST.busy_cycles).unwrap();
    let (with, without) = (cost(&one), cost(&none));
    assert!((with / without - 1.0).abs() < 0.02, "{with} with the co-runner, {without} without");
    let cores: Vec<(&str, usize)> =
        two.beside.iter().map(|own| (own.file.as_str(), own.first_core)).collect();
    assert_eq!(cores, [("walk-4096.champsim.xz", 1), ("walk-67108864.champsim.xz", 2)]);
    // Two instructions per dependent load: three cycles for an L1 hit, a memory access and a page walk for
    // the large trace.
    let [near, far] = [&two.beside[0], &two.beside[1]];
    assert!((0.4..0.7).contains(&near.ipc) && far.ipc < 0.03, "{near:?} {far:?}");
    assert_eq!(two.cores.len(), 3, "each core has its own figures");
    assert_eq!(measured(&with_two).state_hash, two.state_hash, "a repeated run is identical");
}
