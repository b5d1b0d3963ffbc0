//! Tests of the bottlenecks of points, transfers and searches, and of their texts.

use super::*;
use crate::{ByNic, Figure, PortFigures, QueueFigures, RunSummary, SearchCost, WaitedFor};

fn timing(figures: &[(FigureKey, f64)]) -> TimingFigures {
    let mut timing = TimingFigures::default();
    figures.iter().for_each(|(key, value)| timing.put(*key, Some(*value)));
    timing
}

fn losing(drops: Drops) -> PointSummary {
    let lost = 100;
    PointSummary {
        frames_offered: 1000,
        frames_delivered: 1000 - lost,
        offered_mpps: 10.0,
        drops,
        ..PointSummary::default()
    }
}

#[test]
fn losses_between_members_of_a_network_are_attributed_to_a_switch_queue() {
    let mut point = losing(Drops { link: 100, ..Drops::default() });
    assert!(line(&[&point]).unwrap().starts_with("Limit: the link's configured faults"));
    let output = |dropped| crate::OutputFigures { dropped, ..Default::default() };
    let outputs = [("a".to_owned(), output(1)), ("server".to_owned(), output(99))].into();
    let switch = crate::SwitchFigures { outputs, ..Default::default() };
    let switches = [("tor".to_owned(), switch)].into();
    point.network = Some(NetworkFigures { switches, ..Default::default() });
    let text = line(&[&point]).unwrap();
    assert!(text.starts_with("Limit: the cable from tor to server (switch queue full):"), "{text}");
}

#[test]
fn a_transfer_without_loss_is_limited_by_cores_that_are_never_idle() {
    let mut point = losing(Drops::default());
    point.frames_delivered = point.frames_offered;
    let mut line_of = |test_idle, drive_idle| {
        point.transfer = Some(TransferFigures { test_idle, drive_idle, ..TransferFigures::default() });
        line(&[&point]).unwrap()
    };
    assert!(
        line_of(0.01, 0.5)
            .starts_with("Limit: the test node's busiest core, idle for 1.00\u{a0}% of the time (the drive")
    );
    assert!(
        line_of(0.5, 0.0).starts_with("Limit: the drive node's busiest core, idle for 0\u{a0}% of the time")
    );
    let text = line_of(0.2, 0.9);
    assert!(
        text.starts_with(
            "Limit: the amount in flight (outstanding requests, 0 connections); the busiest cores"
        ),
        "{text}"
    );
    point.transfer.as_mut().unwrap().test_least_idle = Some(0.01);
    let text = line(&[&point]).unwrap();
    assert!(
        text.starts_with("Limit: the test node's busiest core, idle for 1.00\u{a0}% of the time"),
        "{text}"
    );
    point.transfer.as_mut().unwrap().test_least_idle = Some(0.2);
    point.wire_share = Some(0.3);
    assert!(line(&[&point]).unwrap().contains(", and the cable was 30.0\u{a0}% utilized."));
    point.wire_share = Some(0.999);
    assert_eq!(line(&[&point]).unwrap(), "Limit: the cable (99.9\u{a0}% utilized).");
}

#[test]
fn the_limit_is_the_main_cause_of_loss_at_the_load_that_lost_most() {
    let of = |drops| line(&[&losing(drops)]).unwrap();
    let waited = |waited_for| Drops { core: 100, waited_for, ..Drops::default() };
    for (drops, expected) in [
        (
            waited(WaitedFor { core: 60, data: 40, ..WaitedFor::default() }),
            "Limit: the core (receive FIFOs full for lack of descriptors): 60.0\u{a0}% of",
        ),
        (
            waited(WaitedFor { data: 100, ..WaitedFor::default() }),
            "Limit: the NIC's DMA path to memory: 100\u{a0}%",
        ),
        (waited(WaitedFor { fetch: 100, ..WaitedFor::default() }), "Limit: the NIC's descriptor fetches: "),
        (waited(WaitedFor { tx: 100, ..WaitedFor::default() }), "Limit: transmission"),
        (Drops { dma: 100, ..Drops::default() }, "Limit: the NIC's DMA"),
        (Drops { core: 50, dma: 50, ..Drops::default() }, "Limit: the core"),
        (Drops { link: 100, ..Drops::default() }, "Limit: the link's configured faults"),
        (Drops { guest: 100, ..Drops::default() }, "Limit: software in the guest"),
        (Drops { nic_other: 100, ..Drops::default() }, "Limit: the NIC, for another"),
        (
            Drops {
                nic_other: 100,
                nic: ByNic { size: 90, fcs: 10, ..ByNic::default() },
                ..Drops::default()
            },
            "Limit: the NIC, not configured for frames of this size",
        ),
        (
            Drops { nic_other: 100, nic: ByNic { fcs: 60, ..ByNic::default() }, ..Drops::default() },
            "Limit: wrong frame check sequences, which the NIC drops: 60",
        ),
    ] {
        assert!(of(drops.clone()).starts_with(expected), "{drops:?}: {}", of(drops.clone()));
    }
    let queue = |waited_for, dropped| {
        let figure = Figure { name: "rx_drop_no_descriptor".into(), value: dropped };
        let queues = vec![QueueFigures { queue: 1, rss: false, figures: vec![figure] }];
        let ports = vec![PortFigures { queues, ..PortFigures::default() }];
        line(&[&PointSummary { ports, ..losing(waited(waited_for)) }]).unwrap()
    };
    let text = queue(WaitedFor::default(), 100);
    assert!(text.starts_with("Limit: the core (its receive queue had no descriptors"), "{text}");
    // A few frames that waited in a full FIFO do not hide the main cause.
    let text = queue(WaitedFor { data: 5, ..WaitedFor::default() }, 95);
    assert!(text.starts_with("Limit: the core (its receive queue had no descriptors"), "{text}");
    assert!(text.contains(": 95.0\u{a0}% of"), "{text}");
    let text = queue(WaitedFor { core: 60, ..WaitedFor::default() }, 40);
    assert!(text.starts_with("Limit: the core (receive FIFOs full for lack of descriptors): 100"), "{text}");
    assert_eq!(line(&[&losing(Drops::default())]), None, "no limit without evidence");
    assert_eq!(line(&[&PointSummary::default()]), None);
}

#[test]
fn a_ring_without_returned_descriptors_in_the_whole_measurement_is_a_separate_cause() {
    let of = |full: u64, descriptors: u64| {
        let figure = |(name, value): (&str, u64)| Figure { name: name.into(), value };
        let values =
            [("rx_fifo_full", full), ("rx_descriptors", descriptors), ("rx_fetches", descriptors / 8)];
        let figures = values.map(figure).to_vec();
        let groups = vec![crate::FigureGroup { title: "rings".into(), figures }];
        let ports = vec![PortFigures { groups, ..PortFigures::default() }];
        let waited_for = WaitedFor { core: 100, ..WaitedFor::default() };
        let limit =
            of_point(&PointSummary { ports, ..losing(Drops { core: 100, waited_for, ..Drops::default() }) });
        limit.unwrap()
    };
    let stalled = of(100, 0);
    assert_eq!(stalled.part, "ring_stalled");
    assert!(
        stalled.text.contains("no packet buffers left") && stalled.text.contains("rx_nombuf"),
        "{stalled:?}"
    );
    assert_eq!(of(100, 64).part, "core");
    assert_eq!(of(0, 0).part, "core", "the ring's counts are unknown");
}

#[test]
fn the_saturated_part_of_the_path_to_memory_is_the_limit() {
    let of = |up_share, waited, memory| {
        let link = [(PCIE.up_share, up_share), (PCIE.down_share, 0.2), (PCIE.posted_wait_share, waited)];
        let timing = timing(&[&link[..], &[(DRAM.share, memory)]].concat());
        let waited_for = WaitedFor { data: 100, ..WaitedFor::default() };
        let drops = Drops { dma: 100, waited_for, ..Drops::default() };
        line(&[&PointSummary { timing: Some(timing), ..losing(drops) }]).unwrap()
    };
    for (text, part) in [
        (of(0.97, 0.2, 0.8), "PCI Express (97.0\u{a0}% utilized): 100"),
        (of(0.5, 0.0, 0.8), "memory (channels 80.0\u{a0}% utilized):"),
        (of(0.1, 0.0, 0.3), "the NIC's DMA engine (PCI Express only 20.0\u{a0}% utilized,"),
        (of(0.65, 0.43, 0.3), "PCI Express (writes waited for credits, pcie.posted_headers"),
        (of(0.1, 0.43, 0.3), "the NIC's DMA engine (PCI Express only 20.0\u{a0}% utilized,"),
    ] {
        assert!(text.starts_with(&format!("Limit: {part}")), "{text}");
    }
}

#[test]
fn descriptor_fetches_are_attributed_to_the_nics_attachment() {
    let of = |figures: &[(FigureKey, f64)]| {
        let waited_for = WaitedFor { fetch: 100, ..WaitedFor::default() };
        let drops = Drops { core: 100, waited_for, ..Drops::default() };
        line(&[&PointSummary { timing: Some(timing(figures)), ..losing(drops) }]).unwrap()
    };
    let (link, bus) = ((PCIE.up_share, 0.5), (BUSES.read_round_trip_ns, 900.0));
    assert!(of(&[link]).starts_with("Limit: PCI Express (descriptor fetches)"));
    assert!(
        of(&[bus]).starts_with("Limit: the NIC's bus, see attach (descriptor fetches)"),
        "{}",
        of(&[bus])
    );
    assert!(of(&[link, bus]).starts_with("Limit: the NIC's descriptor fetches:"), "{}", of(&[link, bus]));
}

/// Frames that a played trace has received and not answered at its end are not lost.
#[test]
fn a_played_traces_limit_is_a_share_of_its_drops() {
    let mut point = losing(Drops { core: 20, ..Drops::default() });
    (point.frames_offered, point.frames_delivered) = (1000, 900);
    point.played = Some(crate::PlayedFigures { frames_in: 980, frames_out: 900, ..Default::default() });
    let limit = of_point(&point).unwrap();
    assert_eq!((limit.part.as_str(), limit.evidence["share_of_lost"]), ("core", 1.0));
    assert!(limit.text.contains(": 100\u{a0}% of the frames lost"), "{}", limit.text);
    point.drops = Drops::default();
    assert_eq!(of_point(&point).unwrap().part, "none");
}

#[test]
fn late_frames_are_not_attributed_to_the_guest() {
    let point = PointSummary { frames_late: 70, ..losing(Drops { guest: 30, ..Drops::default() }) };
    let text = line(&[&point]).unwrap();
    assert!(
        text.starts_with("Limit: the generator (frames came back after loadgen.traffic.timeout,"),
        "{text}"
    );
    assert!(text.ends_with(": 70.0\u{a0}% of the frames lost at 10.000 Mpps."), "{text}");
    assert_eq!(point.imbalance(), 0);
}

#[test]
fn with_several_cores_the_busiest_and_all_are_reported() {
    let of = |figures: &[(FigureKey, f64)]| {
        let timing = timing(figures);
        let drops = Drops { core: 100, ..Drops::default() };
        line(&[&PointSummary { timing: Some(timing), ..losing(drops) }]).unwrap()
    };
    let text = of(&[(PACKET_COST.saturation, 0.25), (PACKET_COST.most_saturated, 1.0)]);
    assert!(
        text.ends_with("; core saturation 100.0 % at the busiest, 25.0 % for all polling cores."),
        "{text}"
    );
    assert!(of(&[(PACKET_COST.saturation, 0.995)]).ends_with("; core saturation 99.5 %."));
}

#[test]
fn without_loss_a_full_wire_or_a_slow_drive_node_is_the_limit() {
    let mut point = losing(Drops::default());
    point.frames_delivered = point.frames_offered;
    point.wire_share = Some(0.97);
    assert!(line(&[&point]).unwrap().starts_with("Limit: none seen; no frame was lost at up to 10.000 Mpps"));
    point.wire_share = Some(1.0001);
    assert_eq!(
        line(&[&point]).unwrap(),
        "Limit: the wire (100\u{a0}% utilized at 10.000 Mpps); no frame was lost."
    );
    let ended = |ended: &str| SizeSummary {
        frame_size: 64,
        low_mpps: Some(10.0),
        high_mpps: None,
        low_gbps: None,
        high_gbps: None,
        ended: ended.into(),
        inversions_mpps: Vec::new(),
        trials: Vec::new(),
        cost: SearchCost::default(),
        limit: None,
        at_low: Some(point.clone()),
    };
    assert_eq!(
        of_search(&ended("at_highest")).unwrap().text,
        "the wire (100\u{a0}% utilized at the rate that met the goal)"
    );
    assert_eq!(of_search(&ended("precise")), None);
    (point.drive_behind, point.rate) = (Some(1_234), "20Mpps".into());
    assert_eq!(
        line(&[&point]).unwrap(),
        "Limit: the drive node, which could not send 1,234 frames that were due at 20Mpps; no sent frame was lost."
    );
}

#[test]
fn each_point_of_a_written_summary_names_its_limit() {
    let drops = |waited_for| Drops { core: 100, waited_for, ..Drops::default() };
    let core = PointSummary {
        timing: Some(timing(&[(PACKET_COST.saturation, 0.99)])),
        ..losing(drops(WaitedFor { core: 100, ..WaitedFor::default() }))
    };
    let of_data = |link, memory| PointSummary {
        timing: Some(timing(&[(PCIE.up_share, link), (PCIE.down_share, 0.2), (DRAM.share, memory)])),
        ..losing(drops(WaitedFor { data: 100, ..WaitedFor::default() }))
    };
    let faults = losing(Drops { link: 100, ..Drops::default() });
    let lossless = PointSummary { frames_delivered: 1000, ..losing(Drops::default()) };
    let full = PointSummary { wire_share: Some(1.0), ..lossless.clone() };
    let run = RunSummary {
        benchmark: "testpmd".into(),
        preset: "fast".into(),
        doorbell_version: "0".into(),
        command: String::new(),
        ran: crate::RunIdentity::default(),
        incomplete: None,
        changed: Vec::new(),
        meanings: BTreeMap::new(),
        points: [core, of_data(0.97, 0.3), of_data(0.4, 0.8), faults, full, lossless]
            .map(PointSummary::with_limit)
            .to_vec(),
    };
    let file: serde_json::Value = serde_json::from_str(&run.to_json()).unwrap();
    let limits = [0, 1, 2, 3, 4, 5].map(|at| &file["points"][at]["limit"]);
    let parts = limits.map(|limit| limit["part"].as_str().unwrap());
    assert_eq!(parts, ["core", "pcie", "memory", "link", "wire", "none"]);
    assert_eq!(limits[0]["evidence"]["saturation"], 0.99);
    assert_eq!(limits[1]["evidence"]["up_share"], 0.97);
    assert_eq!(limits[2]["evidence"]["memory_share"], 0.8);
    // The limit in a file is shown, although its figures have changed since.
    let mut read = RunSummary::from_json(&run.to_json()).unwrap().points.remove(0);
    read.drops = Drops { link: 100, ..Drops::default() };
    assert!(line(&[&read]).unwrap().starts_with("Limit: the core"));
    read.limit = None;
    assert!(line(&[&read]).unwrap().starts_with("Limit: the link's configured faults"), "an older file");
}
