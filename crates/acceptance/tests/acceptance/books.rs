//! The books balance exactly, below and above what the guest sustains, as three parties count: the load
//! generator, the NIC's counters, and testpmd's own statistics on the guest's console.

use doorbell_acceptance::{counter, places, quiet, session, short_or_long};
use doorbell_bench::{Point, Session, Source, benchmark, resolve, run_point};
use doorbell_loadgen::Rate;
use doorbell_machine::{Limits, Machine, Outcome};
use doorbell_sim::{Bytes, Ps};

/// An offered load and what shall be lost where.
struct Load {
    rate: &'static str,
    frame_size: u64,
    /// What the guest can see.
    guest: &'static [&'static str],
    overrides: &'static [&'static str],
    /// Kinds of loss that must occur, as `summary.json` names them. All others must not, unless allowed.
    lost: &'static [&'static str],
    /// Kinds of loss that may occur or not.
    perhaps: &'static [&'static str],
}

/// Transmission at 2.5 million buffers a second, few of them read ahead.
const SLOW_TX: &[&str] = &["nic.tx_buffer_time=400ns", "nic.reads_in_flight=4"];

const LOADS: &[Load] = &[
    Load { rate: "9Mpps", frame_size: 64, guest: &[], overrides: &[], lost: &[], perhaps: &[] },
    // The core is the limit, and PCIe is not.
    Load { rate: "12Mpps", frame_size: 64, guest: &[], overrides: &[], lost: &["core"], perhaps: &["dma"] },
    Load { rate: "100%", frame_size: 64, guest: &[], overrides: &[], lost: &["core"], perhaps: &["dma"] },
    Load { rate: "12Mpps", frame_size: 256, guest: &[], overrides: &[], lost: &["core"], perhaps: &["dma"] },
    // PCIe is the limit, and the core is not. Reads for transmission wait behind the writes of reception, so that
    // the transmit ring may fill too.
    Load { rate: "100%", frame_size: 1518, guest: &[], overrides: &[], lost: &["dma"], perhaps: &["guest"] },
    // Transmission is slower than reception and than the core: the ring fills, and testpmd drops.
    Load { rate: "5Mpps", frame_size: 64, guest: &[], overrides: SLOW_TX, lost: &["guest"], perhaps: &[] },
    // Transmission is the slowest and the core is too slow as well. The ring seldom is full to the last descriptor, as
    // the driver learns of free ones only 32 at a time, unless it asks for a word about each.
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
    // Frames vanish on the wire, both ways, and some arrive damaged at the NIC.
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
fn offered_frames_are_delivered_or_dropped_under_a_name_and_testpmd_agrees() {
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
    quiet(|control| run_point(&session, rate, Bytes(load.frame_size), None, control)).unwrap()
}

/// A run of rxptx, measured once at a rate.
fn rxptx(preset: &str, set: &[&str], rate: &str, frame_size: u64) -> Point {
    let set: Vec<String> = set.iter().map(|&assignment| assignment.to_owned()).collect();
    let config = resolve(preset, &set).expect("the check's configuration is right");
    let chosen = benchmark("rxptx").expect("rxptx is a benchmark");
    let session = quiet(|control| Session::prepare(&config, chosen, &places(), &Source::Cache, control))
        .expect("rxptx gets ready");
    let rate = rate.parse().expect("a rate");
    quiet(|control| run_point(&session, rate, Bytes(frame_size), None, control)).expect("rxptx runs")
}

#[test]
fn a_window_is_exact_although_harts_are_ahead_of_the_wires_when_it_begins_and_ends() {
    let common =
        ["rxptx.work=1us", "memory.dca.policy.enabled=false", "run.settle=100us", "run.duration=200us"];
    for warmup in ["run.warmup=300us", "run.warmup=900us"] {
        let summary = rxptx("server", &[&common[..], &[warmup]].concat(), "100%", 256).summary;
        let (missing, drops) = (summary.frames_offered - summary.frames_delivered, &summary.drops);
        assert_eq!(missing, drops.dma + drops.core + drops.tx, "{drops:?}");
    }
}

#[test]
fn what_a_program_still_keeps_is_not_called_lost_by_the_guest() {
    let set = ["rxptx.work=1ms", "run.duration=1ms", "run.warmup=500us"];
    let drained = |drain| rxptx("fast", &[&set[..], &[drain]].concat(), "1Mpps", 64).summary;
    // 1,500 frames are 47 bursts, each of which takes a millisecond.
    let (short, long) = (drained("run.drain=5ms"), drained("run.drain=60ms"));
    assert_eq!((short.frames_offered, short.frames_delivered, short.drops.guest), (1000, 0, 0));
    assert_eq!((long.frames_offered, long.frames_delivered, long.drops.guest), (1000, 1000, 0));
}

/// The chain from the generator to the NIC, through it, and back, counted since the machine was built.
fn check_since_boot(machine: &Machine) {
    let (port, device) = (&machine.ports()[0], machine.nic(0));
    let (generator, nic) = (port.loadgen.stats(), device.stats());
    let (way_in, way_out) = (port.link_in.stats(), port.link_out.stats());
    let inside = device.in_flight();
    assert_eq!(generator.sent, way_in.frames);
    assert_eq!(nic.rx_arrived, way_in.frames - way_in.lost, "nothing is on its way after the drain");
    let dropped = counter(nic, |name| name.starts_with("rx_drop_")) + nic.rx_control;
    assert_eq!(nic.rx_arrived, nic.rx_delivered + dropped + inside.rx);
    assert_eq!(inside.rx, 0);
    assert_eq!(nic.tx_frames, nic.tx_sent + counter(nic, |name| name == "tx_drop_reset") + inside.tx);
    assert_eq!(nic.tx_sent, way_out.frames);
    assert_eq!(generator.received, way_out.frames - way_out.lost, "nothing is on its way after the drain");
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
    let strange = &kinds[1..kinds.len() - 1];
    assert_eq!(counter(generator, |name| strange.contains(&name)), 0, "{generator:?}");
    assert_eq!(generator.bad_fcs, way_out.corrupted);
    assert_eq!(nic.rx_drop_fcs, way_in.corrupted);
}

/// The window's figures: every offered frame has one fate, and the fates are those that the load provokes.
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
    assert_eq!(s.frames_offered, s.frames_delivered + s.frames_corrupt + lost, "frames, and fates");
    for (name, frames) in kinds {
        if load.lost.contains(&name) {
            assert!(frames > 0, "no frame was lost to {name}");
        } else if !load.perhaps.contains(&name) {
            assert_eq!(frames, 0, "frames were lost to {name}");
        }
    }
}

/// Ends testpmd with the key it waits for and compares what it prints with what the NIC counted.
fn check_testpmd(machine: &mut Machine) {
    let before = machine.console.text().len();
    assert_eq!(machine.type_input(b"\r"), 1);
    let patience = machine.now() + Ps::from_ms(10_000);
    let outcome = machine.run(&Limits::until(patience));
    let console = machine.console.text().split_off(before);
    assert_eq!(outcome, Outcome::PowerOff { code: 0 }, "{console}");
    assert!(console.contains("doorbell: exit 0"), "{console}");
    let said = |name: &str| {
        // The statistics of port 0 come first, then those of all ports.
        let line = console.split_once(name).unwrap_or_else(|| panic!("no {name} in {console}")).1;
        line.split_whitespace().next().and_then(|word| word.parse::<u64>().ok()).expect("a figure follows")
    };
    let nic = machine.nic(0).stats();
    assert_eq!(said("RX-packets:"), nic.rx_delivered, "{console}");
    assert_eq!(said("TX-packets:"), nic.tx_sent, "{console}");
    assert_eq!(said("TX-dropped:"), nic.rx_delivered - nic.tx_sent, "{console}");
    let missed = nic.rx_drop_dma + nic.rx_drop_core + nic.rx_drop_tx;
    assert_eq!(said("RX-dropped:"), missed, "{console}");
}
