//! What the limit of points, transfers and searches is, and its text.

use super::*;
use crate::{ByNic, Figure, PortFigures, QueueFigures, SearchCost, TimingFigure, TimingGroup, WaitedFor};

fn timing(groups: &[(&str, &[(&str, f64)])]) -> TimingFigures {
    let figure = |(name, value): &(&str, f64)| TimingFigure {
        name: (*name).to_owned(),
        meaning: String::new(),
        value: Some(*value),
    };
    let group = |(name, values): &(&str, &[(&str, f64)])| TimingGroup {
        name: (*name).to_owned(),
        figures: values.iter().map(figure).collect(),
    };
    TimingFigures(groups.iter().map(group).collect())
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
fn what_a_network_lost_on_the_way_was_lost_in_a_queue() {
    let mut point = losing(Drops { link: 100, ..Drops::default() });
    assert!(line(&[&point]).unwrap().starts_with("Limit: the link's configured faults"));
    let output = |dropped| crate::OutputFigures { dropped, ..Default::default() };
    let outputs = [("a".to_owned(), output(1)), ("server".to_owned(), output(99))].into();
    let switch = crate::SwitchFigures { outputs, ..Default::default() };
    let switches = [("tor".to_owned(), switch)].into();
    point.network = Some(NetworkFigures { switches, ..Default::default() });
    let said = line(&[&point]).unwrap();
    assert!(
        said.starts_with("Limit: the cable from tor to server, for which the switch's queue was full, by"),
        "{said}"
    );
}

#[test]
fn a_transfer_that_loses_nothing_is_limited_by_cores_that_are_never_idle() {
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
    let said = line_of(0.2, 0.9);
    assert!(
        said.starts_with(
            "Limit: how much is under way at once (requests of 0 connections); the busiest cores"
        ),
        "{said}"
    );
    point.transfer.as_mut().unwrap().test_least_idle = Some(0.01);
    let said = line(&[&point]).unwrap();
    assert!(
        said.starts_with("Limit: the test node's busiest core, idle for 1.00\u{a0}% of the time"),
        "{said}"
    );
    point.transfer.as_mut().unwrap().test_least_idle = Some(0.2);
    point.wire_share = Some(0.3);
    assert!(line(&[&point]).unwrap().contains(", and 30.0\u{a0}% of the cable's rate was in use."));
    point.wire_share = Some(0.999);
    assert_eq!(line(&[&point]).unwrap(), "Limit: the cable, 99.9\u{a0}% of whose rate was in use.");
}

#[test]
fn the_limit_is_what_most_frames_were_lost_to_at_the_load_that_lost_most() {
    let of = |drops| line(&[&losing(drops)]).unwrap();
    let waited = |waited_for| Drops { core: 100, waited_for, ..Drops::default() };
    for (drops, who) in [
        (
            waited(WaitedFor { core: 60, data: 40, ..WaitedFor::default() }),
            "Limit: the core, for which full FIFOs waited, by 60.0\u{a0}% of",
        ),
        (
            waited(WaitedFor { data: 100, ..WaitedFor::default() }),
            "Limit: the NIC's DMA and its way to memory, by 100\u{a0}%",
        ),
        (
            waited(WaitedFor { fetch: 100, ..WaitedFor::default() }),
            "Limit: the NIC's way to its descriptors, by",
        ),
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
            "Limit: the NIC, which was not set up to receive frames of this size",
        ),
        (
            Drops { nic_other: 100, nic: ByNic { fcs: 60, ..ByNic::default() }, ..Drops::default() },
            "Limit: wrong frame check sequences, which the NIC drops, by 60",
        ),
    ] {
        assert!(of(drops.clone()).starts_with(who), "{drops:?}: {}", of(drops.clone()));
    }
    let queue = |waited_for, dropped| {
        let figure = Figure { name: "rx_drop_no_descriptor".into(), value: dropped };
        let queues = vec![QueueFigures { queue: 1, rss: false, figures: vec![figure] }];
        let ports = vec![PortFigures { queues, ..PortFigures::default() }];
        line(&[&PointSummary { ports, ..losing(waited(waited_for)) }]).unwrap()
    };
    let said = queue(WaitedFor::default(), 100);
    assert!(said.starts_with("Limit: the core, which gave its receive queue no descriptors"), "{said}");
    // What few frames found a full FIFO waited for does not hide what most were lost to.
    let said = queue(WaitedFor { data: 5, ..WaitedFor::default() }, 95);
    assert!(said.starts_with("Limit: the core, which gave its receive queue no descriptors"), "{said}");
    assert!(said.contains("by 95.0\u{a0}% of"), "{said}");
    let said = queue(WaitedFor { core: 60, ..WaitedFor::default() }, 40);
    assert!(said.starts_with("Limit: the core, for which full FIFOs waited, by 100"), "{said}");
    assert_eq!(line(&[&losing(Drops::default())]), None, "no limit without evidence");
    assert_eq!(line(&[&PointSummary::default()]), None);
}

#[test]
fn a_ring_that_gets_no_descriptor_in_the_whole_measurement_is_a_cause_of_its_own() {
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
    assert_eq!(of(0, 0).part, "core", "nothing of the ring is known");
}

#[test]
fn of_the_way_to_memory_what_is_full_is_the_limit() {
    let of = |up_share, waited, memory| {
        let link = [("up_share", up_share), ("down_share", 0.2), ("posted_wait_share", waited)];
        let timing = timing(&[("PCI Express", &link), ("DRAM", &[("share", memory)])]);
        let waited_for = WaitedFor { data: 100, ..WaitedFor::default() };
        let drops = Drops { dma: 100, waited_for, ..Drops::default() };
        line(&[&PointSummary { timing: Some(timing), ..losing(drops) }]).unwrap()
    };
    for (said, part) in [
        (of(0.97, 0.2, 0.8), "PCI Express, 97.0\u{a0}% of whose rate was in use, by 100"),
        (of(0.5, 0.0, 0.8), "memory, 80.0\u{a0}% of whose channels' rate was in use, by"),
        (of(0.1, 0.0, 0.3), "the NIC's DMA engine, since of PCI Express 20.0\u{a0}% and of"),
        (of(0.65, 0.43, 0.3), "PCI Express, on which writes waited for credits (pcie.posted_headers,"),
        (of(0.1, 0.43, 0.3), "the NIC's DMA engine, since of PCI Express 20.0\u{a0}% and of"),
    ] {
        assert!(said.starts_with(&format!("Limit: {part}")), "{said}");
    }
}

#[test]
fn descriptors_are_fetched_by_what_the_nic_is_attached_by() {
    let of = |groups: &[(&str, &[(&str, f64)])]| {
        let waited_for = WaitedFor { fetch: 100, ..WaitedFor::default() };
        let drops = Drops { core: 100, waited_for, ..Drops::default() };
        line(&[&PointSummary { timing: Some(timing(groups)), ..losing(drops) }]).unwrap()
    };
    let link: &[(&str, f64)] = &[("up_share", 0.5)];
    let bus: &[(&str, f64)] = &[("read_round_trip_ns", 900.0)];
    assert!(of(&[("PCI Express", link)]).starts_with("Limit: PCI Express, over which the NIC fetched"));
    let said = of(&[("PCI Express", &[]), ("buses", bus)]);
    assert!(said.starts_with("Limit: the bus of the NIC (attach), over which it fetched"), "{said}");
    let said = of(&[("PCI Express", link), ("buses", bus)]);
    assert!(said.starts_with("Limit: the NIC's way to its descriptors, by"), "{said}");
}

#[test]
fn what_came_back_too_late_was_not_lost_by_the_guest() {
    let point = PointSummary { frames_late: 70, ..losing(Drops { guest: 30, ..Drops::default() }) };
    let said = line(&[&point]).unwrap();
    assert!(said.starts_with("Limit: the generator, which had given up (loadgen.traffic.timeout,"), "{said}");
    assert!(said.ends_with(" by 70.0\u{a0}% of the frames lost at 10.000 Mpps."), "{said}");
    assert_eq!(point.imbalance(), 0);
}

#[test]
fn of_several_cores_the_busiest_is_told_beside_all() {
    let of = |figures: &[(&str, f64)]| {
        let timing = timing(&[("packet cost", figures)]);
        let drops = Drops { core: 100, ..Drops::default() };
        line(&[&PointSummary { timing: Some(timing), ..losing(drops) }]).unwrap()
    };
    let said = of(&[("saturation", 0.25), ("most_saturated", 1.0)]);
    assert!(said.ends_with("; the busiest saturated to 100.0 %, all that poll to 25.0 %."), "{said}");
    assert!(of(&[("saturation", 0.995)]).ends_with("; saturated to 99.5 %."));
}

#[test]
fn where_nothing_is_lost_a_full_wire_or_a_slow_drive_node_is_the_limit() {
    let mut point = losing(Drops::default());
    point.frames_delivered = point.frames_offered;
    point.wire_share = Some(0.97);
    assert!(line(&[&point]).unwrap().starts_with("Limit: none seen; no frame was lost at up to 10.000 Mpps"));
    point.wire_share = Some(1.0001);
    assert_eq!(
        line(&[&point]).unwrap(),
        "Limit: the wire, 100\u{a0}% of whose rate was in use at 10.000 Mpps; no frame was lost."
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
        "the wire, 100\u{a0}% of whose rate met the goal"
    );
    assert_eq!(of_search(&ended("precise")), None);
    (point.drive_behind, point.rate) = (Some(1_234), "20Mpps".into());
    assert_eq!(
        line(&[&point]).unwrap(),
        "Limit: the drive node, which could not send 1,234 frames that were due at 20Mpps; of what it sent none was lost."
    );
}
