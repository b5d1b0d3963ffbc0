//! Complete terminal output, for synthetic runs.

use doorbell_results::{TimingFigures, Unit, WaitedFor, figures};

use crate::sample;
use crate::text::{WIDTH, table};

#[test]
fn the_table_of_six_loads() {
    insta::assert_snapshot!(table(&sample::loads()), @r"
    testpmd · preset simple · Doorbell 0.1.0

    Frames of 64 bytes

    ── offered ───    ─ delivered ─     lost      frames lost to     ───── latency, µs ──────
      Mpps    Gbps     Mpps    Gbps         %        core    data       p50      p99      max
     1.000   0.512    1.000   0.512     0.000           0       0      2.08     3.42     6.30
     4.000   2.048    4.000   2.048     0.000           0       0      2.31     4.65    11.80
     8.000   4.096    8.000   4.096     0.000           0       0      4.82    15.90    38.70
     9.000   4.608    8.986   4.601     0.158         142       0     11.60    61.20   104.90
    10.000   5.120    9.412   4.819     5.880       5,880       0    171.30   183.90   191.20
    14.880   7.619    9.386   4.806    36.922       53.1k   1,873    180.40   191.80   203.50

    Most delivered: 9.412 Mpps (4.819 Gbps) of 10.000 Mpps offered.
    Limit: the core (receive FIFOs full for lack of descriptors): 96.6 % of the frames lost at 14.880 Mpps.
    No frame lost to: tx, fetch, other, link, guest.
    Measured for 60.0 ms of simulated time in all; 12.2 s of host time.
    ");
}

#[test]
fn a_run_from_which_no_frame_came_back() {
    insta::assert_snapshot!(table(&sample::silent()), @r"
    testpmd · preset simple · Doorbell 0.1.0

    Frames of 64 bytes

    ── offered ──    ─ delivered ─     lost       frames lost to     ─ latency, µs ─
     Mpps    Gbps     Mpps    Gbps          %        core   guest    p50   p99   max
    1.000   0.512    0.000   0.000    100.000       9,488     512      –     –     –

    No frame came back.
    Limit: the core (receive FIFOs full for lack of descriptors): 94.9 % of the frames lost at 1.000 Mpps.
    No frame lost to: tx, fetch, data, other, link.
    Measured for 10.0 ms of simulated time in all; 610 ms of host time.
    ");
}

/// Frames that a script does not return are not necessarily lost.
#[test]
fn unanswered_frames_of_a_script_are_not_reported_as_lost() {
    let mut summary = sample::silent();
    let point = &mut summary.points[0];
    point.exit_status = Some(0);
    (point.drops.core, point.drops.guest) = (0, point.frames_offered);
    let text = table(&summary);
    assert!(text.contains("No frame came back: the guest accepted all frames and sent none"), "{text}");
    for word in ["100.000", "frames lost to", "Limit:"] {
        assert!(!text.contains(word), "{word}: {text}");
    }
    assert!(!crate::html(&summary, "").contains("100.000"));
    // Frames dropped by its NIC are lost.
    summary.points[0].drops.core = 1;
    summary.points[0].drops.guest -= 1;
    assert!(table(&summary).contains("100.000"));
}

#[test]
fn the_widest_table_fits_a_hundred_columns() {
    let mut summary = sample::loads();
    for point in &mut summary.points {
        sample::everything_lost(point);
        let mut timing = TimingFigures::default();
        for key in figures::all() {
            let largest = match key.unit {
                Unit::Share => 0.999,
                Unit::Ratio => 3.99,
                // A packet has at most some hundred lines.
                Unit::PerPacket if key.name.contains("misses") || key.name.contains("leaks") => 98.76,
                _ => 9_876.5,
            };
            match key.has_instances() {
                true => timing.put_for(key, "0", "", Some(largest)),
                false => timing.put(key, Some(largest)),
            }
        }
        point.timing = Some(timing);
    }
    let text = table(&summary);
    for line in text.lines().filter(|line| !line.starts_with("Limit: ")) {
        assert!(line.chars().count() <= WIDTH, "{} columns: {line}", line.chars().count());
    }
    // A table is a block of lines below a rule.
    let tables: Vec<&str> = text.split("\n\n").filter(|block| block.contains("──")).collect();
    assert_eq!(tables.len(), 2, "loads and timing: {text}");
    for lines in tables.iter().map(|table| table.lines().collect::<Vec<_>>()) {
        assert_eq!(lines.len(), 2 + summary.points.len(), "two heads, and a row per load: {lines:#?}");
        let widths: Vec<usize> = lines.iter().map(|line| line.chars().count()).collect();
        assert!(widths[1..].iter().all(|width| *width == widths[1]), "rows are aligned: {text}");
    }
    assert!(text.contains("Rest: guest, tx, data."), "{text}");
    insta::assert_snapshot!(text.lines().skip(4).take(3).collect::<Vec<_>>().join("\n"), @r"
    ── offered ──   delivered    lost   ─────────── frames lost to ───────────   latency, µs
      Mpps   Gbps   Mpps  Gbps       %  core other  link corrupt unknown  rest  p50 p99    max
    148.81 76.190  1.000 0.512  37.007  123M  100k 1.23M    123M    303M 22.4k    2   3 98,765
    ");
}

#[test]
fn each_frame_size_has_its_own_table() {
    let mut summary = sample::loads();
    summary.points[1].frame_size = 1518;
    let text = table(&summary);
    assert_eq!(text.matches("Frames of").count(), 2);
    assert!(text.contains("Frames of 1,518 bytes"));
}

#[test]
fn counts_that_do_not_balance_are_reported() {
    let mut summary = sample::loads();
    summary.points[3].drops.core += 5;
    summary.points[4].drops.core -= 5;
    let text = table(&summary);
    assert!(text.contains("At 9.000 Mpps the causes count 5 frames more than were lost."), "{text}");
    assert!(text.contains("At 10.000 Mpps the causes leave 5 lost frames unexplained."), "{text}");
}

#[test]
fn a_run_without_points_shows_a_note() {
    let mut summary = sample::loads();
    summary.points.clear();
    assert!(table(&summary).ends_with("No load was measured.\n"));
}

#[test]
fn a_name_cannot_break_the_terminal() {
    let mut summary = sample::loads();
    summary.benchmark = "a\u{1b}[31m\nb".to_owned();
    assert!(table(&summary).starts_with("a [31m b · preset"));
}

#[test]
fn many_unbalanced_loads_share_one_note() {
    let mut summary = sample::loads();
    summary.points.iter_mut().for_each(|point| point.drops.guest += 1);
    let text = table(&summary);
    assert_eq!(text.matches("the causes count 1 frame more").count(), 3, "{text}");
    assert!(text.contains("The counts of 3 more loads do not balance either."), "{text}");
}

#[test]
fn drop_causes_and_the_papers_classes_are_both_shown() {
    let mut summary = sample::loads();
    summary.points[4].drops.waited_for = WaitedFor { core: 5880, ..WaitedFor::default() };
    summary.points[5].drops.waited_for = WaitedFor { core: 54_000, data: 940, ..WaitedFor::default() };
    let text = table(&summary);
    assert!(text.contains("        core   data ") && text.contains("       54.0k    940 "), "{text}");
    let rule =
        "By the ISPASS 2024 rule (docs/drops.md) the frames of full FIFOs are: dma 1,873, core 59,089.";
    assert!(text.contains(rule), "{text}");
}

#[test]
fn an_unsteady_load_is_marked_and_excluded() {
    let mut summary = sample::loads();
    let point = &mut summary.points[4];
    (point.frames_delivered, point.delivered_mpps, point.drop_rate) = (point.frames_offered, 10.0, 0.0);
    point.drops = doorbell_results::Drops::default();
    point.not_steady = Some("latency rises 7.11 \u{2192} 36.1 µs".to_owned());
    let text = table(&summary);
    for line in [
        "10.000   5.120    10.000   4.819*     0.000",
        "\n14.880   7.619     9.386   4.806     36.922",
        "\n* 10.000 Mpps: not steady: latency rises 7.11 \u{2192} 36.1 µs.\n",
        "\nMost delivered: 9.386 Mpps",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let one = table(&crate::RunSummary { points: vec![summary.points[4].clone()], ..summary.clone() });
    assert!(
        one.contains("Limit: unknown; queues were still changing at 10.000 Mpps, and no frame was lost."),
        "{one}"
    );
    summary.points = vec![summary.points.remove(4), summary.points.remove(3)];
    summary.points[1].not_steady = Some("queue rises 1 \u{2192} 900 frames".to_owned());
    let text = table(&summary);
    assert!(
        text.contains("Most delivered: unknown, because no load was measured in a steady state."),
        "{text}"
    );
    let page = crate::html(&summary, "");
    assert!(page.contains("no such load was steady") && page.contains("latency rises 7.11"), "{page}");
}

#[test]
fn a_load_that_only_fills_fifos_is_reported_as_not_sustainable() {
    let mut summary = sample::loads();
    // All of the 10 Mpps came back, but only 9.6 Mpps while frames were offered.
    let point = &mut summary.points[4];
    (point.frames_delivered, point.delivered_mpps, point.drop_rate) = (point.frames_offered, 10.0, 0.0);
    point.drops = doorbell_results::Drops::default();
    point.arrived_mpps = 9.6;
    point.arrived_gbps = 4.915;
    let text = table(&summary);
    assert!(text.contains("Most delivered: 9.600 Mpps (4.915 Gbps) of 10.000 Mpps offered."), "{text}");
    let line =
        "Not sustainable: 10.000 Mpps; 9.600 came back; 4.000 % of the load only filled FIFOs and rings.";
    assert!(text.contains(line), "{text}");
    // A burst that has not drained yet is not a trend.
    summary.points[4].arrived_mpps = 9.99;
    assert!(
        table(&summary).contains("Most delivered: 10.000 Mpps") && !table(&summary).contains("sustainable")
    );
}

#[test]
fn frames_dropped_by_size_are_listed_under_that_cause() {
    let mut summary = sample::loads();
    let point = &mut summary.points[5];
    let lost = point.lost();
    let nic = doorbell_results::ByNic { size: lost - 3, ..Default::default() };
    point.drops = doorbell_results::Drops { nic_other: lost, nic, ..Default::default() };
    summary.points = vec![summary.points.remove(5)];
    let text = table(&summary);
    assert!(text.contains(" size ") && text.contains(" other "), "{text}");
    assert!(
        text.contains("not configured for frames of this size (its MTU: kernel.mtu, dpdk.mtu)"),
        "{text}"
    );
    assert!(text.contains("No frame lost to: core, tx, fetch, data, link, guest."), "{text}");
    let page = crate::html(&summary, "");
    assert!(page.contains("c-size") && page.contains("longer than the NIC was set up to receive"), "{page}");
    summary.points[0].drops.nic.size = lost;
    assert!(!table(&summary).contains("No frame was dropped."));
}
