//! Notes on the load generator: the wait for its own link, and frames that came back too late.

use crate::number::{duration_ns, grouped, rate};
use crate::steady::{NOTES, more_loads};
use doorbell_results::PointSummary;

/// Minimum share of the mean round trip for a note on the wait for the generator's own link.
const OWN_SHARE: f64 = 0.05;

/// Notes on loads where frames waited for the generator's own link, which is not part of the machine: round
/// trips without that wait.
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
                    format!("answers to others, with at most {} frames outstanding", grouped(most.into()))
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
    notes.extend(more_loads(all.len()));
    notes
}

/// Notes on frames that came back after the generator gave them up, and the parameter that changes this.
pub(crate) fn late(points: &[&PointSummary]) -> Vec<String> {
    let late = points.iter().filter(|point| point.frames_late > 0);
    let notes = late.take(NOTES).map(|point| {
        let key = if point.frames_timed_out > 0 { "loadgen.traffic.timeout" } else { "loadgen.tracked_frames" };
        let (noun, were) = if point.frames_late == 1 { ("frame", "was") } else { ("frames", "were") };
        format!(
            "At {} Mpps {} {noun} came back after the generator stopped waiting and {were} counted as lost; {key} may be increased.",
            rate(point.offered_mpps),
            grouped(point.frames_late)
        )
    });
    notes.collect()
}

/// Reason why there are no figures of frames that came back intact.
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
    fn waits_for_the_generators_own_link_are_reported() {
        let mut loads = sample::loads();
        let with = |point: &mut PointSummary, own: f64| {
            let mut sent = *point.latency_ns.as_ref().unwrap();
            sent.mean -= own;
            sent.p50 = 2_000.0;
            point.latency_from_actual_ns = Some(sent);
        };
        let notes = |loads: &crate::RunSummary| own_queue(&loads.points.iter().collect::<Vec<_>>());
        assert!(notes(&loads).is_empty(), "older files lack this");
        with(&mut loads.points[0], 1.0);
        assert!(notes(&loads).is_empty(), "a thousandth is ignored");
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
        let [note] = &own_queue(&[&point])[..] else { panic!("expected one note") };
        assert!(
            note.contains(" for answers to others, with at most 1,024 frames outstanding; from"),
            "{note}"
        );
        assert!(!note.contains("own link"), "{note}");
    }

    #[test]
    fn late_frames_are_reported_with_the_parameter_to_change() {
        let mut point = sample::silent().points.remove(0);
        assert_eq!((late(&[&point]), nothing_back(&[&point])), (Vec::new(), "No frame came back"));
        (point.frames_late, point.drops.guest) = (512, 0);
        point.frames_timed_out = 600;
        let [note] = &late(&[&point])[..] else { panic!("expected one note") };
        assert!(note.starts_with("At 1.000 Mpps 512 frames came back after the generator stopped waiting and were counted as lost"), "{note}");
        assert!(note.contains("loadgen.traffic.timeout"), "{note}");
        point.frames_timed_out = 0;
        assert!(late(&[&point])[0].contains("loadgen.tracked_frames"));
        assert_eq!(nothing_back(&[&point]), "No frame came back in time");
        point.frames_corrupt = 1;
        assert_eq!(nothing_back(&[&point]), "No frame came back unchanged and in time");
    }
}
