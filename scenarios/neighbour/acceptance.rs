//! A neighbour that streams through memory evicts the packet program's lines from the shared last level.

use doorbell_acceptance::{places, quiet, run_point};
use doorbell_bench::figure_keys::{FigureKey, LLC, NEIGHBOURS};
use doorbell_bench::{PointSummary, Session, Source, benchmark, resolve};
use doorbell_sim::Bytes;

/// Measures touchfwd next to one neighbour with this table. The packet buffers' headers and descriptors fit
/// into the last level, but not into the L2.
fn measured_with(table: &str) -> PointSummary {
    let chosen = benchmark("neighbour").expect("a benchmark");
    let own = [
        table,
        "neighbour.pattern=stream",
        "dpdk.rxd=256",
        "dpdk.txd=256",
        "memory.l2.size=64KiB",
        "memory.llc.size=1MiB",
        "loadgen.traffic.arrivals=constant",
        "run.warmup=1ms",
        "run.settle=100us",
        "run.duration=200us",
    ];
    let all: Vec<String> = chosen.defaults.iter().chain(&own).map(|&text| text.to_owned()).collect();
    let config = resolve("server", &all).expect("a configuration");
    let session = quiet(|control| Session::prepare(&config, chosen, &places(), &Source::Boot, control))
        .expect("touchfwd and its neighbour become ready");
    let rate = "1Mpps".parse().expect("a rate");
    quiet(|control| run_point(&session, rate, Bytes(64), control)).expect("the programs run").summary
}

#[test]
#[ignore = "long: make test-long runs it"]
fn a_streaming_neighbour_costs_the_packet_program_misses_but_no_frames() {
    let (small, large) = (measured_with("neighbour.table=1KiB"), measured_with("neighbour.table=16MiB"));
    for point in [&small, &large] {
        let counts = [point.frames_offered, point.frames_delivered, point.frames_corrupt];
        assert_eq!(counts, [200, 200, 0]);
    }
    let figures =
        |key: FigureKey| [&small, &large].map(|point| point.figure(key).expect("a timed run has it"));
    let [few, many] = figures(LLC.misses_per_packet);
    assert!(many > few + 1.0, "{few} misses per packet next to a small table, {many} next to a large one");
    let [fast, slow] = figures(NEIGHBOURS.ipc);
    assert!(fast > 2.0 * slow, "the neighbour has {fast} instructions per cycle, and {slow} from memory");
}
