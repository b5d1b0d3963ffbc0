//! Stages of a round trip: single frames match closed forms, stages sum to the round trip, and recording them
//! does not change the run.

use doorbell_acceptance::{quiet, run_point, session};
use doorbell_bench::Point;
use doorbell_loadgen::Rate;
use doorbell_sim::{Bytes, Ps};

fn measure(guest: &[&str], others: &[&str], rate: &str, frame_size: u64) -> Point {
    let mut others = others.to_vec();
    others.extend(["run.warmup=1ms", "run.duration=2ms"]);
    let session = session(guest, &others);
    let rate: Rate = rate.parse().unwrap();
    quiet(|control| run_point(&session, rate, Bytes(frame_size), control)).unwrap()
}

/// The median of a stage in nanoseconds.
fn median(point: &Point, name: &str) -> f64 {
    let stages = point.summary.latency_stages_ns.as_ref().expect("frames came back");
    stages.0.iter().find(|(of, _)| *of == name).expect("the stage has a name").1.p50
}

#[test]
fn the_stages_of_single_frames_match_closed_forms() {
    for frame_size in [64, 1518] {
        let point = measure(&[], &[], "97kpps", frame_size);
        let frame = frame_size as f64 - 4.0;
        let wire = (frame_size as f64 + 8.0) * 8.0 / 100.0 + 500.0;
        // The preset's PCIe link: 57.9 Gbps, payloads of at most 256 bytes, 267.5 ns per direction. Read
        // requests are for at most 512 bytes each.
        let on_pcie = |bytes: f64| bytes * 8.0 / 57.9;
        let packets = (frame / 256.0).ceil();
        let requests = |bytes: f64| (bytes / 512.0).ceil();
        let read =
            |bytes: f64, packets: f64| 535.0 + on_pcie(requests(bytes) * 24.0 + packets * 20.0 + bytes);
        for (stage, ns) in [
            ("send lag", 0.0),
            ("wire in", wire),
            ("RX FIFO", 0.0),
            ("RX DMA", 267.5 + on_pcie(packets * 24.0 + frame)),
            ("RX write-back", on_pcie(24.0 + 16.0)),
            ("TX fetch", read(16.0, 1.0)),
            ("TX wait", 0.0),
            ("TX DMA", read(frame, packets)),
            ("TX FIFO", 0.0),
            ("wire out", wire),
        ] {
            let found = median(&point, stage);
            // Percentiles have a relative error of at most 0.1 %.
            assert!(
                (found - ns).abs() <= ns / 1000.0 + 0.01,
                "{frame_size} B, {stage}: {found} instead of {ns} ns"
            );
        }
        // Half a poll interval, the code for a burst of one frame, and the doorbell's 277.5 ns.
        let core = median(&point, "core");
        assert!((400.0..800.0).contains(&core), "{core} ns in the core");
    }
}

#[test]
fn the_stages_of_every_packet_sum_to_its_round_trip() {
    // With two ports, each sends the frames received by the other. At 8 Mpps frames spend most time in rings,
    // and some are lost.
    for (guest, rate) in
        [(&[][..], "5Mpps"), (&["platform.nics=2"][..], "2Mpps"), (&["platform.nics=2"][..], "8Mpps")]
    {
        let point = measure(guest, &[], rate, 64);
        for (recorder, port) in point.machine.stages.iter().zip(point.machine.ports()) {
            let window = port.loadgen.measurement().unwrap();
            let (_, delivered, _) = window.volumes();
            assert_eq!((recorder.stats().known, recorder.stats().unknown), (delivered.frames, 0));
            let whole = window.latency().summary().unwrap().mean;
            let sum: f64 = recorder.stages().iter().map(|stage| stage.summary().unwrap().mean).sum();
            assert!((sum - whole).abs() < 1e-6 * whole, "stages of {sum} ns, round trips of {whole} ns");
        }
    }
}

#[test]
fn recording_the_stages_of_packets_does_not_change_the_machine() {
    let (with, without) =
        (measure(&[], &[], "5Mpps", 64), measure(&[], &["loadgen.stages=false"], "5Mpps", 64));
    assert_eq!(with.summary.state_hash, without.summary.state_hash);
    assert!(without.summary.latency_stages_ns.is_none());
    let mut machine = with.machine;
    machine.stages[0].keep_packets(100);
    machine.begin_window();
    let traffic = machine.ports()[0].loadgen.traffic().clone();
    machine.start_traffic(&traffic).unwrap();
    let end = machine.now() + Ps::from_us(200);
    machine.run(&doorbell_machine::Limits::until(end));
    let packets = machine.stages[0].take_packets();
    assert_eq!(packets.len(), 100);
    assert!(
        packets.is_sorted_by_key(|packet| packet.sequence),
        "a forwarder with one queue keeps the order of packets"
    );
    assert!(packets.iter().all(|packet| packet.times.is_sorted()));
}
