//! Notes to figures: the wait for the generator's own link, and frames that came back too late.

use crate::number::{duration_ns, grouped, rate};
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
            let what = match point.outstanding {
                Some(most) => {
                    format!("answers to others, {} being on their way at most", grouped(most.into()))
                }
                None => "the generator's own link".to_owned(),
            };
            format!(
                "At {} Mpps frames waited {} for {what}; from their first bit on the wire: p50 {}, p99 {}.",
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

/// Where frames came back that had been given up, and what to do for them to count.
pub(crate) fn late(points: &[&PointSummary]) -> Vec<String> {
    let late = points.iter().filter(|point| point.frames_late > 0);
    let notes = late.take(NOTES).map(|point| {
        let key = if point.frames_timed_out > 0 { "loadgen.traffic.timeout" } else { "loadgen.tracked_frames" };
        let (came, were) = if point.frames_late == 1 { ("frame", "it was") } else { ("frames", "they were") };
        format!(
            "At {} Mpps {} {came} came back when {were} no longer waited for, and are among the lost: {key} decides, and may be larger.",
            rate(point.offered_mpps),
            grouped(point.frames_late)
        )
    });
    notes.collect()
}

/// What can be said in place of figures of frames that came back unharmed where there are none.
pub(crate) fn nothing_back(points: &[&PointSummary]) -> &'static str {
    let any = |of: fn(&PointSummary) -> u64| points.iter().any(|point| of(point) > 0);
    match (any(|point| point.frames_corrupt), any(|point| point.frames_late)) {
        (false, false) => "No frame came back",
        (true, false) => "No frame came back unchanged",
        (false, true) => "No frame came back in time",
        (true, true) => "No frame came back unchanged and in time",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

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
    fn in_a_closed_loop_frames_wait_for_answers() {
        let mut point = sample::loads().points.remove(0);
        let sent = point.latency_ns.as_ref().unwrap();
        point.latency_from_actual_ns =
            Some(doorbell_results::LatencySummary { mean: sent.mean / 2.0, ..*sent });
        point.outstanding = Some(1_024);
        let [note] = &own_queue(&[&point])[..] else { panic!("it waited") };
        assert!(note.contains(" for answers to others, 1,024 being on their way at most; from"), "{note}");
        assert!(!note.contains("own link"), "{note}");
    }

    #[test]
    fn what_came_too_late_is_said_with_the_key_that_decides() {
        let mut point = sample::silent().points.remove(0);
        assert_eq!((late(&[&point]), nothing_back(&[&point])), (Vec::new(), "No frame came back"));
        (point.frames_late, point.drops.guest) = (512, 0);
        point.frames_timed_out = 600;
        let [note] = &late(&[&point])[..] else { panic!("it was late") };
        assert!(note.starts_with("At 1.000 Mpps 512 frames came back when they were no longer"), "{note}");
        assert!(note.contains("loadgen.traffic.timeout"), "{note}");
        point.frames_timed_out = 0;
        assert!(late(&[&point])[0].contains("loadgen.tracked_frames"));
        assert_eq!(nothing_back(&[&point]), "No frame came back in time");
        point.frames_corrupt = 1;
        assert_eq!(nothing_back(&[&point]), "No frame came back unchanged and in time");
    }
}
