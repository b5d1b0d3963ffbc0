//! Frame conservation, exactly, below and above the guest's capacity. The load generator, the NIC's counters
//! and testpmd's statistics on the guest's console must agree.

use doorbell_acceptance::{counter, places, quiet, run_point, session, short_or_long};
use doorbell_bench::{Point, Session, Source, benchmark, resolve};
use doorbell_loadgen::Rate;
use doorbell_machine::{Limits, Machine, Outcome};
use doorbell_sim::{Bytes, Ps};

/// An offered load and the drops it causes.
struct Load {
    rate: &'static str,
    frame_size: u64,
    /// Guest-visible overrides.
    guest: &'static [&'static str],
    overrides: &'static [&'static str],
    /// Causes of drops that must occur, as named in `summary.json`. Others must not, unless listed in
    /// `perhaps`.
    lost: &'static [&'static str],
    /// Causes of drops that may occur.
    perhaps: &'static [&'static str],
}

/// Transmission of 2.5 million buffers per second, with few buffer reads in flight.
const SLOW_TX: &[&str] = &["nic.tx_buffer_time=400ns", "nic.reads_in_flight=4"];

const LOADS: &[Load] = &[
    Load { rate: "9Mpps", frame_size: 64, guest: &[], overrides: &[], lost: &[], perhaps: &[] },
    // The core is the bottleneck, not PCIe.
    Load { rate: "12Mpps", frame_size: 64, guest: &[], overrides: &[], lost: &["core"], perhaps: &["dma"] },
    Load { rate: "100%", frame_size: 64, guest: &[], overrides: &[], lost: &["core"], perhaps: &["dma"] },
    Load { rate: "12Mpps", frame_size: 256, guest: &[], overrides: &[], lost: &["core"], perhaps: &["dma"] },
    // PCIe is the bottleneck, not the core. Transmit reads wait behind receive writes, so the transmit ring
    // may fill too.
    Load { rate: "100%", frame_size: 1518, guest: &[], overrides: &[], lost: &["dma"], perhaps: &["guest"] },
    // Transmission is slower than reception and the core: the transmit ring fills, and testpmd drops frames.
    Load { rate: "5Mpps", frame_size: 64, guest: &[], overrides: SLOW_TX, lost: &["guest"], perhaps: &[] },
    // Transmission is the slowest stage, and the core is overloaded too. The transmit ring is rarely
    // completely full, as descriptors are freed 32 at a time, unless the driver requests a status report for
    // each (`dpdk.txrst=1`).
    Load {
        rate: "20Mpps",
        frame_size: 64,
        guest: &[],
        overrides: SLOW_TX,
        lost: &["guest", "core"],
        perhaps: &["tx", "dma"],
    },
    Load {
        rate: "20Mpps",
        frame_size: 64,
        guest: &["dpdk.txrst=1"],
        overrides: SLOW_TX,
        lost: &["guest", "core", "tx"],
        perhaps: &["dma"],
    },
    // The link loses frames in both directions, and some arrive at the NIC with a bad FCS.
    Load {
        rate: "2Mpps",
        frame_size: 512,
        guest: &[],
        overrides: &["link.frame_loss=0.01", "link.bit_error_rate=1e-6"],
        lost: &["link", "nic_other"],
        perhaps: &[],
    },
];

#[test]
fn every_offered_frame_is_delivered_or_has_a_drop_cause_and_testpmd_agrees() {
    for load in LOADS {
        println!("{} of {} bytes, {:?}", load.rate, load.frame_size, load.overrides);
        let mut point = measure(load);
        check_since_boot(&point.machine);
        check_window(load, &point);
        check_testpmd(&mut point.machine);
    }
}

fn measure(load: &Load) -> Point {
    let run = format!("run.duration={}", short_or_long("2ms", "20ms"));
    let mut others = vec![run.as_str(), "run.warmup=1ms"];
    others.extend(load.overrides);
    let session = session(load.guest, &others);
    let rate: Rate = load.rate.parse().unwrap();
    quiet(|control| run_point(&session, rate, Bytes(load.frame_size), control)).unwrap()
}

/// Runs rxptx and measures one point.
fn rxptx(preset: &str, set: &[&str], rate: &str, frame_size: u64) -> Point {
    let set: Vec<String> = set.iter().map(|&assignment| assignment.to_owned()).collect();
    let config = resolve(preset, &set).expect("the check's configuration is valid");
    let chosen = benchmark("rxptx").expect("rxptx is a benchmark");
    let session = quiet(|control| Session::prepare(&config, chosen, &places(), &Source::Cache, control))
        .expect("rxptx becomes ready");
    let rate = rate.parse().expect("a rate");
    quiet(|control| run_point(&session, rate, Bytes(frame_size), control)).expect("rxptx runs")
}

#[test]
fn drop_counts_of_a_window_are_exact_although_harts_run_ahead_of_the_wire() {
    let common =
        ["rxptx.work=1us", "memory.dca.policy.enabled=false", "run.settle=100us", "run.duration=200us"];
    for warmup in ["run.warmup=300us", "run.warmup=900us"] {
        let summary = rxptx("server", &[&common[..], &[warmup]].concat(), "100%", 256).summary;
        let (missing, drops) = (summary.frames_offered - summary.frames_delivered, &summary.drops);
        assert_eq!(missing, drops.dma + drops.core + drops.tx, "{drops:?}");
    }
}

#[test]
fn frames_still_held_by_the_program_are_not_counted_as_guest_drops() {
    let set = ["rxptx.work=1ms", "run.duration=1ms", "run.warmup=500us"];
    let drained = |drain| rxptx("fast", &[&set[..], &[drain]].concat(), "1Mpps", 64).summary;
    // 1,500 frames are 47 bursts of 1 ms each.
    let (short, long) = (drained("run.drain=5ms"), drained("run.drain=60ms"));
    assert_eq!((short.frames_offered, short.frames_delivered, short.drops.guest), (1000, 0, 0));
    assert_eq!((long.frames_offered, long.frames_delivered, long.drops.guest), (1000, 1000, 0));
}

/// Checks conservation from the generator through link and NIC and back, over all frames since the machine
/// was built.
fn check_since_boot(machine: &Machine) {
    let (port, device) = (&machine.ports()[0], machine.nic(0));
    let (generator, nic) = (port.loadgen.stats(), device.stats());
    let (way_in, way_out) = (port.link_in.stats(), port.link_out.stats());
    let inside = device.in_flight();
    assert_eq!(generator.sent, way_in.frames);
    assert_eq!(nic.rx_arrived, way_in.frames - way_in.lost, "no frame is in flight after the drain");
    let dropped = counter(nic, |name| name.starts_with("rx_drop_")) + nic.rx_control;
    assert_eq!(nic.rx_arrived, nic.rx_delivered + dropped + inside.rx);
    assert_eq!(inside.rx, 0);
    assert_eq!(nic.tx_frames, nic.tx_sent + counter(nic, |name| name == "tx_drop_reset") + inside.tx);
    assert_eq!(nic.tx_sent, way_out.frames);
    assert_eq!(generator.received, way_out.frames - way_out.lost, "no frame is in flight after the drain");
    let kinds = [
        "returned",
        "corrupt",
        "duplicates",
        "late",
        "stale",
        "never_sent",
        "of_others",
        "foreign",
        "bad_fcs",
    ];
    assert_eq!(generator.received, counter(generator, |name| kinds.contains(&name)));
    let unexpected = &kinds[1..kinds.len() - 1];
    assert_eq!(counter(generator, |name| unexpected.contains(&name)), 0, "{generator:?}");
    assert_eq!(generator.bad_fcs, way_out.corrupted);
    assert_eq!(nic.rx_drop_fcs, way_in.corrupted);
}

/// Checks the measured window: every offered frame is counted once, and only the expected drop causes occur.
fn check_window(load: &Load, point: &Point) {
    let s = &point.summary;
    let d = &s.drops;
    let kinds = [
        ("dma", d.dma),
        ("core", d.core),
        ("tx", d.tx),
        ("nic_other", d.nic_other),
        ("link", d.link),
        ("guest", d.guest),
    ];
    let lost: u64 = kinds.iter().map(|(_, frames)| frames).sum();
    println!(
        "offered {} delivered {} corrupt {} {kinds:?}",
        s.frames_offered, s.frames_delivered, s.frames_corrupt
    );
    let counted = s.frames_delivered + s.frames_corrupt + lost;
    assert_eq!(s.frames_offered, counted, "delivered, corrupt and dropped frames sum to the offered ones");
    for (name, frames) in kinds {
        if load.lost.contains(&name) {
            assert!(frames > 0, "no drop has the cause {name}");
        } else if !load.perhaps.contains(&name) {
            assert_eq!(frames, 0, "drops have the unexpected cause {name}");
        }
    }
}

/// Ends testpmd with the Enter key and compares the statistics it prints with the NIC's counters.
fn check_testpmd(machine: &mut Machine) {
    let before = machine.console.text().len();
    assert_eq!(machine.type_input(b"\r"), 1);
    let patience = machine.now() + Ps::from_ms(10_000);
    let outcome = machine.run(&Limits::until(patience));
    let console = machine.console.text().split_off(before);
    assert_eq!(outcome, Outcome::PowerOff { code: 0 }, "{console}");
    assert!(console.contains("doorbell: exit 0"), "{console}");
    let printed = |name: &str| {
        // The statistics of port 0 come first, then those of all ports.
        let line = console.split_once(name).unwrap_or_else(|| panic!("no {name} in {console}")).1;
        line.split_whitespace().next().and_then(|word| word.parse::<u64>().ok()).expect("a number follows")
    };
    let nic = machine.nic(0).stats();
    assert_eq!(printed("RX-packets:"), nic.rx_delivered, "{console}");
    assert_eq!(printed("TX-packets:"), nic.tx_sent, "{console}");
    assert_eq!(printed("TX-dropped:"), nic.rx_delivered - nic.tx_sent, "{console}");
    let missed = nic.rx_drop_dma + nic.rx_drop_core + nic.rx_drop_tx;
    assert_eq!(printed("RX-dropped:"), missed, "{console}");
}
