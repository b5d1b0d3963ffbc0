//! Other machine configurations: two NICs, FIFO sizes, jumbo frames and links.

use doorbell_acceptance::{counter, quiet, run_point, session};
use doorbell_bench::Point;
use doorbell_loadgen::Rate;
use doorbell_sim::Bytes;

fn measure(guest: &[&str], others: &[&str], rate: &str, frame_size: u64) -> Point {
    let mut others = others.to_vec();
    others.extend(["run.warmup=1ms", "run.duration=2ms"]);
    let session = session(guest, &others);
    let rate: Rate = rate.parse().unwrap();
    quiet(|control| run_point(&session, rate, Bytes(frame_size), control)).unwrap()
}

#[test]
fn two_nics_forward_the_frames_of_both_generators() {
    for (rate, sustained) in [("2Mpps", true), ("8Mpps", false)] {
        let mut point = measure(&["platform.nics=2"], &[], rate, 64);
        let s = &point.summary;
        let hertz = rate.trim_end_matches("Mpps").parse::<u64>().unwrap();
        // Two generators for two milliseconds; a window may start or end a frame early or late.
        assert!(s.frames_offered.abs_diff(2 * 2000 * hertz) <= 4, "{} frames offered", s.frames_offered);
        assert_eq!(s.frames_delivered == s.frames_offered, sustained);
        let d = &s.drops;
        let lost = d.dma + d.core + d.tx + d.nic_other + d.link + d.guest;
        assert_eq!(s.frames_offered, s.frames_delivered + s.frames_corrupt + lost);
        for (port, nic) in point.machine.ports().iter().zip(point.machine.nics()) {
            let (nic, generator) = (nic.stats(), port.loadgen.stats());
            assert_eq!(nic.rx_arrived, nic.rx_delivered + counter(nic, |name| name.starts_with("rx_drop_")));
            assert_eq!((generator.sent, generator.returned), (nic.rx_arrived, nic.tx_sent));
            assert!(nic.tx_sent > 3000, "a port was idle: {nic:?}");
        }
        point.machine.type_input(b"\r");
        let end = point.machine.now() + doorbell_sim::Ps::from_ms(10_000);
        point.machine.run(&doorbell_machine::Limits::until(end));
        let console = point.machine.console.text();
        let received: Vec<u64> = console
            .split("RX-packets:")
            .skip(1)
            .map(|rest| rest.split_whitespace().next().unwrap().parse().unwrap())
            .collect();
        let delivered: Vec<u64> = point.machine.nics().map(|nic| nic.stats().rx_delivered).collect();
        assert_eq!(received, [delivered[0], delivered[1], delivered[0] + delivered[1]], "{console}");
    }
}

#[test]
fn both_nic_models_return_frames_of_9018_bytes() {
    for card in ["nic.model=82540em", "nic.model=82576"] {
        let guest = [card, "loadgen.traffic.frame_size=9018B"];
        let point = measure(&guest, &[], "5Gbps", 9018);
        let s = &point.summary;
        assert!(s.frames_offered > 100 && s.frames_delivered == s.frames_offered, "{card}: {:?}", s.drops);
    }
}

/// The number of frames in flight at the start of the window depends on the link's latency.
#[test]
fn drops_of_two_ports_with_different_links_are_counted_exactly() {
    let guest = ["platform.nics=2"];
    let own = [
        "port.0.link.latency=30us",
        "port.1.link.latency=1us",
        "port.1.link.rate=20Gbps",
        "port.1.nic.rx_fifo=4KiB",
        "port.1.pcie.attached=peripheral",
    ];
    let point = measure(&guest, &own, "80%", 64);
    let (s, d) = (&point.summary, &point.summary.drops);
    assert_eq!(s.frames_offered, s.frames_delivered + d.dma + d.core + d.tx);
    assert_eq!((s.frames_corrupt, d.guest, d.nic_other, d.link), (0, 0, 0, 0));
    let [one, other] = point.machine.ports() else { panic!("two ports") };
    let sent = one.loadgen.stats().sent as f64 / other.loadgen.stats().sent as f64;
    assert!((sent - 5.0).abs() < 0.01, "80 % of 100 Gbps, and of 20: {sent}");
    let peak = |port| point.machine.nic(port).stats().rx_fifo_peak_bytes;
    assert!(peak(1) <= 4 << 10 && peak(0) > 4 << 10);
}

#[test]
fn the_receive_fifo_size_is_from_pba_unless_a_parameter_overrides_it() {
    let pba_kib = |point: &Point| u64::from(point.machine.nic(0).peek("PBA").unwrap() & 0xffff);
    let peak = |point: &Point| point.machine.nic(0).stats().rx_fifo_peak_bytes;
    let by_pba = measure(&[], &[], "20Mpps", 64);
    let pba_bytes = pba_kib(&by_pba) << 10;
    assert!(
        (pba_bytes - 128..=pba_bytes).contains(&peak(&by_pba)),
        "PBA gives {pba_bytes} bytes, the peak was {}",
        peak(&by_pba)
    );
    for (fifo, bytes) in [("16KiB", 16 << 10), ("256KiB", 256 << 10)] {
        let other = measure(&[], &[&format!("nic.rx_fifo={fifo}")], "20Mpps", 64);
        assert_eq!(pba_kib(&other), pba_kib(&by_pba), "PBA keeps the driver's value");
        assert!((bytes - 128..=bytes).contains(&peak(&other)), "{fifo}: the peak was {}", peak(&other));
        // The core drains the FIFO at a fixed rate, so a larger FIFO adds latency.
        let p50 = |point: &Point| point.summary.latency_ns.as_ref().unwrap().p50;
        assert_eq!(p50(&other) > p50(&by_pba), bytes > pba_bytes);
    }
}

#[test]
fn links_carry_exactly_their_line_rate() {
    for (rate, bits, frame_size) in [
        ("1Gbps", 1e9, 64),
        ("1Gbps", 1e9, 1518),
        ("10Gbps", 1e10, 1518),
        ("10Gbps", 1e10, 256),
        ("25Gbps", 2.5e10, 1518),
    ] {
        let point = measure(&[], &[&format!("link.rate={rate}")], "100%", frame_size);
        let s = &point.summary;
        let per_second = bits / (8.0 * (frame_size as f64 + 20.0));
        assert_eq!(s.frames_delivered, s.frames_offered, "{rate}, {frame_size} bytes");
        let offered = s.frames_offered as f64;
        assert!((offered - per_second * s.simulated_seconds).abs() <= 1.0, "{offered} frames at {rate}");
    }
    // This core cannot forward minimum-size frames at 10 Gbps.
    let point = measure(&[], &["link.rate=10Gbps"], "100%", 64);
    assert!((point.summary.offered_mpps - 14.881).abs() < 0.001);
    assert!(point.summary.delivered_mpps < 14.0 && point.summary.drops.core > 0);
}

#[test]
fn a_long_link_delays_frames_without_loss() {
    let near = measure(&[], &["link.latency=0ns"], "5Mpps", 64);
    let far = measure(&[], &["link.latency=200us"], "5Mpps", 64);
    assert_eq!(far.summary.frames_delivered, far.summary.frames_offered);
    let shortest = |point: &Point| point.summary.latency_ns.as_ref().unwrap().min;
    let more = shortest(&far) - shortest(&near);
    assert!((more - 400_000.0).abs() < 100.0, "{more} ns more");
}
