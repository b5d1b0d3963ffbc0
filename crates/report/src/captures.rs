//! Notes on replayed captures: packets omitted or changed, and packets sent outside the measurement.

use crate::number::{duration_ns, grouped, one_line};
use doorbell_results::{PointSummary, ReplayStats, StreamSummary};

/// Notes on all captures. Notes that are the same at each load appear once; the share sent in the measurement
/// is given for the first load only.
pub(crate) fn notes(points: &[&PointSummary]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    let mut measured: Vec<&str> = Vec::new();
    for stream in points.iter().flat_map(|point| &point.streams) {
        let Some(replay) = &stream.replay else { continue };
        let name = one_line(&stream.name);
        let outside = outside(stream, replay).filter(|_| !measured.contains(&stream.name.as_str()));
        if outside.is_some() {
            measured.push(&stream.name);
        }
        let texts = [outside, incomplete(replay), truncated(replay), left_out(replay), changed(replay)];
        for text in texts.into_iter().flatten() {
            let note = format!("{name}: {text}");
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    notes
}

/// Share of the capture sent before and after the measurement.
fn outside(stream: &StreamSummary, replay: &ReplayStats) -> Option<String> {
    let (before, after) = (replay.sent_before, replay.not_sent);
    let lasts = match replay.length_ns {
        0 => String::new(),
        ns => format!(" Its time stamps span {}.", duration_ns(ns as f64)),
    };
    if stream.frames_offered > 0 && before + after == 0 {
        return None;
    }
    let sent = match stream.frames_offered {
        0 => format!("none of the {} packets", grouped((before + after).max(replay.packets))),
        sent => format!("{} of {} packets", grouped(sent), grouped(before + sent + after)),
    };
    let verb = if stream.frames_offered > 1 { "were" } else { "was" };
    let parts = [(before, "before it"), (after, "not by its end")];
    let parts: Vec<String> =
        parts.iter().filter(|(n, _)| *n > 0).map(|(n, when)| format!("{} {when}", grouped(*n))).collect();
    let parts = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
    let advice = match (stream.frames_offered, after) {
        (0, _) => {
            " A capture sent once may have ended before the measurement: replay = { times = 0 } repeats it, and \
             --warmup 0s --set run.settle=0s measures from its first packet on."
        }
        (_, 1..) => " A longer --duration, or replay = { speed = … }, measures more of it.",
        _ => "",
    };
    Some(format!("{sent} of its capture {verb} sent in the measurement{parts}.{lasts}{advice}"))
}

fn incomplete(replay: &ReplayStats) -> Option<String> {
    let sent = grouped(replay.packets);
    (replay.incomplete > 0).then(|| {
        format!("its capture ends in the middle of a packet; the {sent} packets before it were replayed.")
    })
}

fn truncated(replay: &ReplayStats) -> Option<String> {
    let cut = grouped(replay.truncated);
    (replay.truncated > 0)
        .then(|| format!("{cut} packets of its capture were recorded only in part (snap length)."))
}

/// The non-zero counts, each with its text.
fn list(counts: &[(u64, &str)]) -> Option<String> {
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, text)| format!("{} {text}", grouped(*count))).collect();
    (!counts.is_empty()).then(|| counts.join(", "))
}

fn left_out(replay: &ReplayStats) -> Option<String> {
    let list = list(&[
        (replay.oversize, "larger than replay.largest"),
        (replay.other_links, "of a link type that cannot be replayed"),
        (replay.filtered, "excluded by replay.only"),
    ])?;
    let advice = match replay.oversize {
        0 => "",
        _ => {
            " A host's offloads (GRO, TSO) record packets that were never on the wire: record with them off."
        }
    };
    Some(format!("packets of its capture that are omitted: {list}.{advice}"))
}

fn changed(replay: &ReplayStats) -> Option<String> {
    let list = list(&[
        (replay.padded, "padded to 64 B"),
        (replay.backward, "with a time stamp before the previous packet's, sent together with that packet"),
        (replay.header_made, "recorded without an Ethernet header, which was added"),
        (replay.fcs_removed, "recorded with an FCS, which was replaced"),
        (replay.clipped, "recorded with more bytes than the packet had, cut to its length"),
    ])?;
    Some(format!("packets of its capture that are changed: {list}."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    const STREAM: &str = r#"[{"name": "web\u0007", "frames_offered": 1, "frames_delivered": 1, "frames_corrupt": 0, "frames_lost": 0,
            "frames_reordered": 0, "drop_rate": 0.0, "offered": {"mpps": 1.0, "gbps_l2": 1.0}, "delivered": {"mpps": 1.0, "gbps_l2": 1.0},
            "latency_ns": null}]"#;

    #[test]
    fn a_truncated_capture_is_reported_once() {
        let mut loads = sample::loads();
        for point in &mut loads.points {
            point.streams = serde_json::from_str(STREAM).unwrap();
            point.streams[0].replay =
                Some(ReplayStats { packets: 1200, incomplete: 1, truncated: 7, ..ReplayStats::default() });
        }
        let found = notes(&loads.points.iter().collect::<Vec<_>>());
        assert_eq!(
            found,
            [
                "web: its capture ends in the middle of a packet; the 1,200 packets before it were replayed.",
                "web: 7 packets of its capture were recorded only in part (snap length)."
            ]
        );
    }

    #[test]
    fn a_capture_that_ended_before_the_measurement_is_reported_with_a_remedy() {
        let mut point = sample::loads().points.remove(0);
        point.streams =
            serde_json::from_str(&STREAM.replace("\"frames_offered\": 1", "\"frames_offered\": 0")).unwrap();
        point.streams[0].replay = Some(ReplayStats { packets: 500, ..ReplayStats::default() });
        let [note] = &notes(&[&point])[..] else { panic!("{:?}", notes(&[&point])) };
        assert!(note.starts_with("web: none of the 500 packets of its capture was sent in"), "{note}");
        assert!(note.contains("times = 0") && note.contains("--warmup 0s"), "{note}");
    }

    #[test]
    fn packets_outside_the_measurement_omitted_or_changed_are_counted() {
        let mut point = sample::loads().points.remove(0);
        point.streams =
            serde_json::from_str(&STREAM.replace("\"frames_offered\": 1", "\"frames_offered\": 2")).unwrap();
        point.streams[0].replay = Some(ReplayStats {
            packets: 10,
            sent_before: 3,
            not_sent: 1_005,
            length_ns: 157_680_000_000_000_000,
            oversize: 2,
            other_links: 4,
            padded: 5,
            backward: 6,
            header_made: 7,
            fcs_removed: 8,
            clipped: 9,
            ..ReplayStats::default()
        });
        assert_eq!(
            notes(&[&point, &point]),
            [
                "web: 2 of 1,010 packets of its capture were sent in the measurement (3 before it, 1,005 not by its end). Its time \
                 stamps span 157,680,000 s. A longer --duration, or replay = { speed = … }, measures more of it.",
                "web: packets of its capture that are omitted: 2 larger than replay.largest, 4 of a link type that cannot be replayed. A \
                 host's offloads (GRO, TSO) record packets that were never on the wire: record with them off.",
                "web: packets of its capture that are changed: 5 padded to 64 B, 6 with a time stamp before the previous packet's, \
                 sent together with that packet, 7 recorded without an Ethernet header, which was added, 8 recorded with an FCS, which was \
                 replaced, 9 recorded with more bytes than the packet had, cut to its length."
            ]
        );
    }
}
