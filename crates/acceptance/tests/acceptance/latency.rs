//! The round trip of an unloaded frame is the sum of link, PCIe and guest code times.

use doorbell_acceptance::{quiet, run_point, session};
use doorbell_loadgen::Rate;
use doorbell_sim::Bytes;

/// Tolerance. It is larger than the sum of clock edges, the delay of a poll just before a frame arrives,
/// and other descriptors' transfers on the PCIe link.
const UNEXPLAINED_NS: f64 = 12.0;

/// Shortest round trip of frames that arrive at an idle machine.
fn shortest_ns(overrides: &[&str], frame_size: u64) -> f64 {
    let mut others = vec!["run.warmup=1ms", "run.duration=20ms"];
    others.extend(overrides);
    let session = session(&[], &others);
    // The rate has no simple ratio to the polling loop's frequency, so some frame arrives in the best phase.
    let rate: Rate = "97kpps".parse().unwrap();
    let point = quiet(|control| run_point(&session, rate, Bytes(frame_size), control)).unwrap();
    assert_eq!(point.summary.frames_delivered, point.summary.frames_offered);
    point.summary.latency_ns.expect("frames came back").min
}

/// Closed form of the link and PCIe times, for the preset's parameters.
fn link_and_pcie_ns(frame_size: u64) -> f64 {
    let frame = frame_size as f64 - 4.0;
    let (link_bits_per_ns, pcie_bits_per_ns) = (100.0, 57.9);
    let wire = (frame_size as f64 + 8.0) * 8.0 / link_bits_per_ns + 500.0;
    let on_pcie = |bytes: f64| bytes * 8.0 / pcie_bits_per_ns;
    // One way through the root complex and over the link. A register access takes the device 10 ns more.
    let way = 267.5;
    let packets = |payload: f64, most: f64| (payload / most).ceil();
    // The frame's data, then its descriptor's write-back, which the guest polls for.
    let write = on_pcie(packets(frame, 256.0) * 24.0 + frame) + on_pcie(24.0 + 16.0) + way;
    let doorbell = way + 10.0;
    // A read sends requests upstream and receives completions downstream.
    let read = |bytes: f64| on_pcie(24.0) + way + way + on_pcie(packets(bytes, 256.0) * 20.0 + bytes);
    wire + write + doorbell + read(16.0) + read(frame) + wire
}

#[test]
fn an_unloaded_round_trip_is_the_sum_of_link_pcie_and_code_times() {
    for frame_size in [64, 1518] {
        // At four times the clock, the guest's code takes a quarter of the time.
        let slow = shortest_ns(&[], frame_size) - link_and_pcie_ns(frame_size);
        let quick = shortest_ns(&["core.frequency=12GHz"], frame_size) - link_and_pcie_ns(frame_size);
        let code_ns = (slow - quick) * 4.0 / 3.0;
        let unexplained = slow - code_ns;
        println!(
            "{frame_size} B: link and PCIe {:.1} ns, code {code_ns:.1} ns, unexplained {unexplained:.1} ns",
            link_and_pcie_ns(frame_size)
        );
        assert!(unexplained.abs() < UNEXPLAINED_NS, "{unexplained} ns are not explained");
        // Code from the first load of a completed descriptor to the store of the tail, for a burst of one
        // frame.
        assert!((300.0..1200.0).contains(&(code_ns * 3.0)), "{} instructions", code_ns * 3.0);
    }
}

#[test]
fn each_latency_parameter_adds_once_per_traversal() {
    let base = shortest_ns(&[], 64);
    for (key, times) in [
        ("link.latency=1500ns", 2.0),
        ("pcie.link_latency=1150ns", 6.0),
        ("pcie.register_latency=2020ns", 1.0),
    ] {
        let more = shortest_ns(&[key], 64) - base;
        println!("{key}: {more:.1} ns more");
        assert!((more - times * 1000.0).abs() < UNEXPLAINED_NS, "{key}: {more} ns more");
    }
}
