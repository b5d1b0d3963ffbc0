//! Points of a run in display order.

use doorbell_results::figures::PACKET_COST;
use doorbell_results::{PointSummary, RunSummary, finite};

/// Groups the points by frame size in ascending order; each group is sorted by offered load.
pub(crate) fn by_frame_size(run: &RunSummary) -> Vec<(u64, Vec<&PointSummary>)> {
    let mut sizes: Vec<u64> = run.points.iter().map(|p| p.frame_size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
        .into_iter()
        .map(|size| {
            let mut points: Vec<&PointSummary> = run.points.iter().filter(|p| p.frame_size == size).collect();
            // A stable sort keeps repetitions of one load in execution order.
            points.sort_by(|a, b| a.offered_mpps.total_cmp(&b.offered_mpps));
            (size, points)
        })
        .collect()
}

/// The steady point with the highest delivered rate, excluding frames that only filled FIFOs. For equal
/// rates, the one with the lowest offered load.
pub(crate) fn most_delivered<'a>(points: &[&'a PointSummary]) -> Option<&'a PointSummary> {
    points.iter().copied().filter(|point| point.not_steady.is_none()).reduce(|best, point| {
        match point.sustained_rate().0 > best.sustained_rate().0 {
            true => point,
            false => best,
        }
    })
}

/// Instructions per packet, excluding empty polls.
pub(crate) fn without_empty_polls(point: &PointSummary) -> Option<f64> {
    point.figure(PACKET_COST.busy_instructions)
}

/// Whether empty polls make a visible difference in the instructions per packet.
pub(crate) fn has_empty_polls(point: &PointSummary) -> bool {
    const SHARE: f64 = 0.001;
    let all = finite(point.instructions_per_frame);
    without_empty_polls(point).zip(all).is_some_and(|(busy, all)| all - busy > SHARE * all)
}

#[cfg(test)]
mod tests {
    use doorbell_results::SummaryError;

    use super::*;
    use crate::sample;

    #[test]
    fn a_truncated_file_is_reported_as_truncated() {
        let text = sample::LOADS_JSON.trim_end();
        for end in (1..text.len()).filter(|&end| text.is_char_boundary(end)) {
            let error = RunSummary::from_json(&text[..end]).expect_err("half a summary");
            assert!(matches!(error, SummaryError::Truncated { .. }), "at {end}: {error}");
        }
        assert!(RunSummary::from_json(text).is_ok());
    }

    #[test]
    fn foreign_files_are_distinguished_from_truncated_ones() {
        let error = RunSummary::from_json("{\"traceEvents\": []}").expect_err("foreign");
        assert!(matches!(error, SummaryError::Foreign(_)));
        assert!(error.to_string().contains("missing field `benchmark`"), "{error}");
        let error = RunSummary::from_json("[1, 2]").expect_err("foreign");
        assert!(matches!(error, SummaryError::Foreign(_)), "{error}");
        let error = RunSummary::from_json("<html></html>").expect_err("not JSON");
        assert!(matches!(error, SummaryError::NotJson(_)), "{error}");
        let error = RunSummary::from_json("").expect_err("empty");
        assert!(matches!(error, SummaryError::Truncated { .. }), "{error}");
    }

    #[test]
    fn a_missing_drop_cause_is_an_error_and_an_unknown_one_is_not() {
        let without = sample::LOADS_JSON.replacen("\"core\": 0,", "", 1);
        let error = RunSummary::from_json(&without).expect_err("no core drops");
        assert!(error.to_string().contains("missing field `core`"), "{error}");
        let with = sample::LOADS_JSON.replacen("\"core\": 0,", "\"core\": 0, \"pcie\": 0,", 1);
        assert!(RunSummary::from_json(&with).is_ok());
    }

    #[test]
    fn a_negative_rate_is_reported_as_damage() {
        let text = sample::LOADS_JSON.replacen("\"offered_mpps\": 4.0", "\"offered_mpps\": -4.0", 1);
        let error = RunSummary::from_json(&text).expect_err("negative");
        assert_eq!(
            error.to_string(),
            "point 2 of the summary has offered_mpps = -4, which no run can have; the file is damaged"
        );
    }

    #[test]
    fn a_ratio_that_json_cannot_represent_is_not_a_number() {
        let text = sample::SILENT_JSON;
        let summary = RunSummary::from_json(text).expect("silent");
        assert!(summary.points[0].instructions_per_frame.is_nan());
        assert_eq!(summary.points[0].latency_ns, None);
    }

    #[test]
    fn points_are_grouped_by_size_and_ordered_by_load() {
        let mut summary = sample::loads();
        summary.points.reverse();
        summary.points[0].frame_size = 1518;
        let groups = by_frame_size(&summary);
        assert_eq!(
            groups.iter().map(|(size, points)| (*size, points.len())).collect::<Vec<_>>(),
            [(64, 5), (1518, 1)]
        );
        assert!(groups[0].1.is_sorted_by(|a, b| a.offered_mpps <= b.offered_mpps));
    }

    #[test]
    fn for_equal_delivered_rates_the_lowest_load_counts() {
        let mut summary = sample::loads();
        summary.points[5].delivered_mpps = summary.points[4].delivered_mpps;
        let points: Vec<&PointSummary> = summary.points.iter().collect();
        assert_eq!(most_delivered(&points).map(|p| p.offered_mpps), Some(10.0));
        assert_eq!(most_delivered(&[]), None);
    }

    #[test]
    fn the_imbalance_of_drops_and_losses_is_computed() {
        let mut point = sample::loads().points.remove(4);
        assert_eq!(point.imbalance(), 0);
        point.drops.core += 3;
        assert_eq!(point.imbalance(), -3);
        point.drops.core -= 10;
        assert_eq!(point.imbalance(), 7);
    }
}
