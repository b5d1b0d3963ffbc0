//! Checks result invariants ([`doorbell_acceptance::result_invariants`]) on random machines.
//!
//! Links, NICs, attachments, caches and cores have random parameters. Loads are far below and far above the
//! guest's capacity, and measurements have any length. Shares must be in [0, 1], counts not negative, and
//! parts must sum to their whole. No request may be older than the reservation window of a model.

use doorbell_acceptance::{quiet, result_invariants, run_point, session, short_or_long, timed_session};
use doorbell_loadgen::Rate;
use doorbell_machine::Machine;
use doorbell_sim::Bytes;
use doorbell_sim::rng::Rng;

/// Overrides to choose from.
const SETTINGS: [&str; 52] = [
    "link.overhead=0B",
    "link.overhead=7B",
    "link.overhead=64B",
    "link.include_fcs=false",
    "link.latency=0ns",
    "link.latency=7us",
    "link.rate=10Gbps",
    "link.rate=400Gbps",
    "link.frame_loss=0.01",
    "link.bit_error_rate=1e-6",
    "link.bit_error_rate=1e-4",
    "nic.rx_fifo=4KiB",
    "nic.rx_fifo=256KiB",
    "nic.reads_in_flight=1",
    "nic.reads_in_flight=64",
    "nic.writes_in_flight=1",
    "nic.tx_buffer_time=400ns",
    "nic.dma_rate=10Gbps",
    "nic.rx_frame_time=40ns",
    "attach.kind=llc",
    "attach.kind=memory-bus",
    "attach.kind=llc-headers",
    "pcie.tags=1",
    "pcie.tags=4",
    "pcie.lanes=1",
    "pcie.lanes=4",
    "pcie.posted_headers=4",
    "pcie.posted_data=32",
    "pcie.relaxed_ordering=true",
    "pipeline.kind=in-order",
    "pipeline.rob=16",
    "core.frequency=1GHz",
    "core.frequency=5GHz",
    "memory.dca.policy.enabled=false",
    "memory.dca.policy.read_allocate=true",
    "memory.dram.channels=1",
    "memory.dram.request_latency=1us",
    "memory.llc.size=256KiB",
    "memory.l2.size=64KiB",
    "memory.l1d.prefetch.kind=stride",
    "memory.fabric.kind=ring memory.llc.slices=4",
    "memory.coherence.kind=directory",
    "loadgen.tracked_frames=1024",
    "loadgen.traffic.outstanding=8",
    "loadgen.traffic.start_after=3us",
    "run.drain=2us",
    "run.drain=100us",
    "run.frames=40",
    "run.settle=0s",
    "run.warmup=150us",
    "run.seed=7",
    "run.seed=8",
];
const DURATIONS: [&str; 6] = ["1ps", "700ns", "5us", "12us", "20us", "40us"];
const SIZES: [u64; 6] = [64, 65, 128, 512, 1024, 1518];

/// Runs a random machine and load, and returns the violated invariants.
fn violations(case: u64) -> Vec<String> {
    let mut rng = Rng::stream(case, "accounts");
    let pick = |rng: &mut Rng, from: &[&'static str]| from[rng.below(from.len() as u64) as usize];
    let duration = format!("run.duration={}", pick(&mut rng, &DURATIONS));
    let mut set = vec!["run.warmup=30us", "run.settle=5us", "run.drain=1ms", duration.as_str()];
    let count = rng.below(7);
    set.extend((0..count).flat_map(|_| pick(&mut rng, &SETTINGS).split(' ')));
    // The last setting of a key applies. Buses and PCI Express have different keys.
    let by_bus = set.iter().any(|key| key.starts_with("attach."));
    set.retain(|key| !(by_bus && key.starts_with("pcie.")));
    let size = SIZES[rng.below(SIZES.len() as u64) as usize];
    let rate = [1, 5, 20, 28, 45, 80, 150][rng.below(7) as usize] * 1_000_000;
    // testpmd uses one core; a second one sleeps.
    let guests: [&[&str]; 3] = [&[], &[], &["platform.harts=2"]];
    let guest = guests[rng.below(3) as usize];
    let functional = rng.below(8) == 0;
    let model = if functional { "functional" } else { "timed" };
    let description = format!("case {case}, {model}, {size} B at {rate}/s, {guest:?}, {set:?}");
    let session = if functional { session(guest, &set) } else { timed_session(guest, &set) };
    match quiet(|control| run_point(&session, Rate::Frames(rate), Bytes(size), control)) {
        Err(error) => vec![format!("{description}: {error}")],
        Ok(point) => {
            let summary = serde_json::to_value(&point.summary).expect("a summary is JSON");
            let violations = result_invariants::violations(&summary).into_iter().chain(late(&point.machine));
            violations.map(|violation| format!("{description}: {violation}")).collect()
        }
    }
}

/// Late requests: older than the reservation window of ports, queues, calendars and units, so perhaps served
/// too early.
fn late(machine: &Machine) -> Vec<String> {
    let Some(timing) = machine.timing() else { return Vec::new() };
    let memory = timing.memory.stats();
    let private = memory.harts.iter().flat_map(|hart| [&hart.l1i, &hart.l1d, &hart.l2]);
    let cores = (0..machine.harts().len()).filter_map(|hart| machine.core_stats(hart));
    let buses = machine.attachments().filter_map(|(_, attachment)| attachment.bus());
    let counts: [(&str, u64); 4] = [
        ("caches", private.chain([&memory.llc]).map(|cache| cache.late_requests).sum()),
        ("DRAM", timing.memory.memory().stats().map(|channel| channel.late).sum()),
        ("cores", cores.map(|core| core.counts.late_bookings).sum()),
        ("buses", buses.flat_map(|bus| bus.stages()).map(|stage| stage.late).sum()),
    ];
    let counts = counts.into_iter().filter(|(_, late)| *late > 0);
    counts.map(|(model, late)| format!("{model}: {late} late requests")).collect()
}

#[test]
fn results_of_random_machines_are_consistent() {
    let wrong: Vec<String> = (0..short_or_long(50, 1000)).flat_map(violations).collect();
    assert!(wrong.is_empty(), "{} violations:\n{}", wrong.len(), wrong.join("\n"));
}
