//! testpmd over each kind of NIC attachment: in each mode, with checkpoints under traffic, and latency and
//! traffic figures.

use doorbell_acceptance::{places, quiet, run_point};
use doorbell_bench::{Point, Session, Source, benchmark, resolve};
use doorbell_machine::{Limits, Machine, Mode};
use doorbell_sim::{Bytes, Ps};

/// gem5's I/O crossbar, bridge and system crossbar: the example of docs/attachments.md.
const CROSSBARS: &str = "attach.stages=[\
    {width=\"16B\",clock=\"1GHz\",latency=\"3ns\",full_duplex=true,outstanding=16,bridge_latency=\"50ns\",buffer=16},\
    {width=\"16B\",clock=\"1GHz\",latency=\"9ns\",full_duplex=true,outstanding=16,buffer=16}]";
/// A bus like PCI-X: a read occupies it for the whole round trip.
const NOT_SPLIT: &str = "attach.stages=[{width=\"8B\",clock=\"533MHz\",latency=\"10ns\",split=false}]";

const KINDS: [&[&str]; 5] = [
    &["attach.kind=pcie"],
    &["attach.kind=bus", CROSSBARS],
    &["attach.kind=bus", NOT_SPLIT],
    &["attach.kind=memory-bus"],
    &["attach.kind=llc"],
];

fn session(set: &[&str]) -> Session {
    let quick = ["run.warmup=100us", "run.settle=20us", "run.duration=100us", "run.drain=1ms"];
    let all: Vec<String> = quick.iter().chain(set).map(|word| (*word).to_owned()).collect();
    let config = resolve("server", &all).expect("the check's configuration is valid");
    let chosen = benchmark("testpmd").expect("testpmd is a benchmark");
    quiet(|control| Session::prepare(&config, chosen, &places(), &Source::Cache, control))
        .expect("testpmd becomes ready")
}

fn point(set: &[&str], rate: &str) -> Point {
    let session = session(set);
    let rate = rate.parse().expect("a rate");
    quiet(|control| run_point(&session, rate, Bytes(64), control)).expect("testpmd runs")
}

fn figure(point: &Point, group: &str, name: &str) -> Option<f64> {
    let timing = point.summary.timing.as_ref().expect("the run was timed");
    let group = timing.0.iter().find(|of| of.name == group).unwrap_or_else(|| panic!("no group {group}"));
    let figure = group.figures.iter().find(|figure| figure.name == name);
    figure.unwrap_or_else(|| panic!("no figure {name}")).value
}

fn run(machine: &mut Machine, micros: u64) {
    machine.run(&Limits::until(machine.now() + Ps::from_us(micros)));
}

/// A machine 20 µs after the start of traffic.
fn with_traffic(set: &[&str], rate: &str) -> (Session, Machine) {
    let session = session(&[set, &[&format!("loadgen.traffic.rate={rate}")]].concat());
    let mut machine = session.machine().expect("a machine");
    let traffic = session.config().loadgen.traffic.clone();
    machine.start_traffic(&traffic).expect("the traffic is valid");
    run(&mut machine, 20);
    (session, machine)
}

#[test]
fn no_frame_is_lost_over_any_attachment_when_the_mode_changes() {
    for set in KINDS {
        let (_, mut machine) = with_traffic(set, "3Mpps");
        let modes = [Mode::Warming, Mode::Detailed, Mode::Functional, Mode::Detailed, Mode::Warming];
        for (step, mode) in modes.into_iter().enumerate() {
            let before = machine.ports()[0].loadgen.stats().returned;
            machine.set_mode(mode);
            run(&mut machine, 17 + 3 * step as u64);
            assert!(machine.ports()[0].loadgen.stats().returned > before + 40, "{set:?} in {mode:?}");
            machine.check_conservation();
        }
        machine.stop_traffic();
        run(&mut machine, 300);
        assert_eq!(machine.frames_outstanding(), 0, "{set:?}: all frames have returned");
        let generator = machine.ports()[0].loadgen.stats();
        assert_eq!((generator.sent, generator.corrupt), (generator.returned, 0), "{set:?}");
    }
}

#[test]
#[ignore = "long: make test-long runs it"]
fn a_checkpoint_under_traffic_restores_each_attachment_exactly() {
    for set in KINDS {
        // The load keeps transfers in flight in every component.
        let (session, mut machine) = with_traffic(set, "20Mpps");
        for modes in [vec![Mode::Warming], vec![Mode::Detailed], vec![Mode::Functional]] {
            modes.iter().for_each(|mode| machine.set_mode(*mode));
            run(&mut machine, 13);
            // Transfers in flight are saved, also right after a change of mode.
            if modes[0] == Mode::Functional {
                machine.set_mode(Mode::Detailed);
                run(&mut machine, 3);
                machine.set_mode(Mode::Functional);
            }
            let (at, before) = (machine.now(), machine.state_hash());
            let file = machine.checkpoint("attached", "");
            assert_eq!(machine.state_hash(), before, "saving does not change the state");
            let mut restored = Machine::new(session.config().machine(), session.config().run.seed)
                .expect("the configuration is valid");
            restored.restore(&file, "attached").expect("the same machine");
            assert_eq!(restored.section_hashes(), machine.section_hashes(), "{set:?} {modes:?}");
            let until = |micros| Limits::until(at + Ps::from_us(micros));
            machine.run(&until(20));
            restored.run(&until(7));
            restored.run(&until(20));
            assert_eq!(restored.section_hashes(), machine.section_hashes(), "{set:?} {modes:?} continues");
            assert_eq!(restored.state_hash(), machine.state_hash());
            restored.check_conservation();
        }
    }
}

#[test]
fn a_checkpoint_restored_with_another_attachment_starts_with_cold_models() {
    let (session, mut machine) = with_traffic(KINDS[0], "8Mpps");
    machine.set_mode(Mode::Detailed);
    run(&mut machine, 13);
    let file = machine.checkpoint("attached", "");
    for set in &KINDS[1..] {
        let mut config = session.config().machine();
        let words: Vec<String> = set.iter().map(|word| (*word).to_owned()).collect();
        config.attach = resolve("server", &words).expect("a valid attachment").attach.clone();
        let mut other = Machine::new(config, 1).expect("a valid machine");
        other.restore(&file, "attached").expect("the guest-visible part is the same");
        assert_eq!(
            other.mode(),
            Mode::Functional,
            "the state of another machine's timing models is discarded"
        );
        for mode in [Mode::Functional, Mode::Detailed] {
            other.set_mode(mode);
            run(&mut other, 30);
        }
        other.stop_traffic();
        run(&mut other, 300);
        assert_eq!(other.frames_outstanding(), 0, "{set:?}");
        other.check_conservation();
    }
}

#[test]
fn a_closer_attachment_has_lower_latency_and_loads_hit_where_it_writes() {
    let points = KINDS.map(|set| point(set, "2Mpps"));
    let p50 = |index: usize| points[index].summary.latency_ns.as_ref().expect("frames came back").p50;
    let [pcie, crossbars, _, memory_bus, llc] = [0, 1, 2, 3, 4].map(p50);
    assert!(crossbars < 0.7 * pcie && memory_bus < 0.9 * crossbars && llc < 0.9 * crossbars);
    let load = |index: usize| {
        figure(&points[index], "access time", "network_load_cycles").expect("frames are loaded")
    };
    assert!(load(3) > 1.5 * load(4) && load(3) > 1.5 * load(0), "{} {} {}", load(0), load(3), load(4));
    for (index, point) in points.iter().enumerate() {
        let s = &point.summary;
        assert_eq!((s.frames_delivered, s.frames_corrupt), (s.frames_offered, 0), "{:?}", KINDS[index]);
        // 64 bytes of frame and a descriptor in each direction, over any attachment.
        let payload = figure(point, "PCI Express", "payload_bytes_per_packet").expect("DMAs are counted");
        assert!((150.0..220.0).contains(&payload), "{payload} bytes in {:?}", KINDS[index]);
        // Figures that only a link has are absent, not zero, without a link.
        for name in ["up_bytes_per_packet", "down_tlps_per_packet", "up_gbps", "read_round_trip_ns"] {
            assert_eq!(
                figure(point, "PCI Express", name).is_some(),
                index == 0,
                "{name} of {:?}",
                KINDS[index]
            );
        }
        let misses = figure(point, "LLC", "header_misses_per_packet").expect("header loads reach the LLC");
        assert_eq!(
            misses > 0.9,
            KINDS[index] == ["attach.kind=memory-bus"],
            "{misses} in {:?}",
            KINDS[index]
        );
        let written = figure(point, "DRAM", "bytes_written_per_packet").expect("DRAM writes are counted");
        assert_eq!(
            written > 64.0,
            KINDS[index] == ["attach.kind=memory-bus"],
            "{written} B in {:?}",
            KINDS[index]
        );
    }
    let through =
        |index: usize| figure(&points[index], "buses", "read_round_trip_ns").expect("there is a bus");
    assert!(through(4) < through(1), "{} ns and {} ns", through(4), through(1));
}
