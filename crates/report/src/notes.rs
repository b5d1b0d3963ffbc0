//! What is to be known of figures beside them: the wait for the generator's own link, and what is missing of captures.

use crate::number::{duration_ns, grouped, rate};
use crate::text::one_line;
use doorbell_results::PointSummary;

/// The wait for the generator's own link is said where it is more than this share of the mean round trip.
const OWN_SHARE: f64 = 0.05;
/// At more loads than this it has been said.
const NOTES: usize = 3;

/// Where frames waited for the generator's own link, which is no part of the machine: what round trips were without that.
pub(crate) fn own_queue(points: &[&PointSummary]) -> Vec<String> {
    let waited = |point: &&&PointSummary| {
        let (due, sent) = (point.latency_ns.as_ref()?, point.latency_from_actual_ns.as_ref()?);
        let own = due.mean - sent.mean;
        (own > OWN_SHARE * due.mean).then_some((own, *sent))
    };
    let all: Vec<_> = points.iter().filter_map(|point| Some((point, waited(&point)?))).collect();
    let mut notes: Vec<String> = all
        .iter()
        .take(NOTES)
        .map(|(point, (own, sent))| {
            format!(
                "At {} Mpps frames waited {} for the generator's own link; from their first bit on the wire: p50 {}, p99 {}.",
                rate(point.offered_mpps),
                duration_ns(*own),
                duration_ns(sent.p50),
                duration_ns(sent.p99)
            )
        })
        .collect();
    if let more @ 1.. = all.len().saturating_sub(NOTES) {
        notes.push(format!("So they did at {more} more {}.", if more == 1 { "load" } else { "loads" }));
    }
    notes
}

/// What is missing of captures that were replayed, once each.
pub(crate) fn captures(points: &[&PointSummary]) -> Vec<String> {
    let mut notes = Vec::new();
    for stream in points.iter().flat_map(|point| &point.streams) {
        let Some(replay) = &stream.replay else { continue };
        let name = one_line(&stream.name);
        let sent = grouped(replay.packets);
        let mut note = |text: String| {
            if !notes.contains(&text) {
                notes.push(text)
            }
        };
        if replay.incomplete > 0 {
            note(format!(
                "{name}: its capture ends in the middle of a packet; the {sent} packets before were replayed."
            ));
        }
        if replay.truncated > 0 {
            let cut = grouped(replay.truncated);
            note(format!(
                "{name}: of {cut} packets of its capture not all bytes were recorded (snap length)."
            ));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use doorbell_results::ReplayStats;

    #[test]
    fn the_generators_own_queue_is_told_apart_from_the_machine() {
        let mut loads = sample::loads();
        let with = |point: &mut PointSummary, own: f64| {
            let mut sent = *point.latency_ns.as_ref().unwrap();
            sent.mean -= own;
            sent.p50 = 2_000.0;
            point.latency_from_actual_ns = Some(sent);
        };
        let notes = |loads: &crate::RunSummary| own_queue(&loads.points.iter().collect::<Vec<_>>());
        assert!(notes(&loads).is_empty(), "older files do not know");
        with(&mut loads.points[0], 1.0);
        assert!(notes(&loads).is_empty(), "a thousandth is nothing");
        with(&mut loads.points[5], 100_000.0);
        let [note] = &notes(&loads)[..] else { panic!("{:?}", notes(&loads)) };
        assert!(
            note.starts_with("At 14.880 Mpps frames waited 100 µs for the generator's own link;"),
            "{note}"
        );
        assert!(note.contains("p50 2.00 µs"), "{note}");
    }

    #[test]
    fn a_capture_that_is_cut_off_is_said_once() {
        let mut loads = sample::loads();
        let stream = r#"[{"name": "web\u0007", "frames_offered": 1, "frames_delivered": 1, "frames_corrupt": 0, "frames_lost": 0,
            "frames_reordered": 0, "drop_rate": 0.0, "offered": {"mpps": 1.0, "gbps_l2": 1.0}, "delivered": {"mpps": 1.0, "gbps_l2": 1.0},
            "latency_ns": null}]"#;
        for point in &mut loads.points {
            point.streams = serde_json::from_str(stream).unwrap();
            point.streams[0].replay =
                Some(ReplayStats { packets: 1200, incomplete: 1, truncated: 7, ..ReplayStats::default() });
        }
        let notes = captures(&loads.points.iter().collect::<Vec<_>>());
        assert_eq!(
            notes,
            [
                "web: its capture ends in the middle of a packet; the 1,200 packets before were replayed.",
                "web: of 7 packets of its capture not all bytes were recorded (snap length)."
            ]
        );
    }
}
