//! Export of a distribution: HdrHistogram's percentile text (`.hgrm`, for its plotters) and CSV. Times are in
//! nanoseconds.

use std::fmt::Write;

use crate::latency::Latency;

/// Lines per halving of the distance to 100 %, as in HdrHistogram's own tools.
const TICKS_PER_HALVING: u32 = 5;

impl Latency {
    /// HdrHistogram's percentile distribution.
    pub fn to_hgrm(&self) -> String {
        let mut out = format!(
            "{:>12} {:>14} {:>10} {:>14}\n\n",
            "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
        );
        for (value, quantile, counted) in self.quantiles(TICKS_PER_HALVING) {
            let _ = write!(out, "{:12.3} {quantile:14.12} {counted:10}", value.as_ns_f64());
            // The last line has the largest value and no such number.
            let _ = if quantile < 1.0 {
                writeln!(out, " {:14.2}", 1.0 / (1.0 - quantile))
            } else {
                writeln!(out)
            };
        }
        let summary = self.summary();
        let [mean, deviation, max] = summary.map_or([0.0; 3], |all| [all.mean, all.stddev, all.max]);
        let (buckets, halves) = self.layout();
        let _ = write!(
            out,
            "#[Mean    = {mean:12.3}, StdDeviation   = {deviation:12.3}]\n\
             #[Max     = {max:12.3}, Total count    = {:12}]\n\
             #[Buckets = {buckets:12}, SubBuckets     = {halves:12}]\n",
            self.count()
        );
        out
    }

    /// Each non-empty bucket: its largest value, its count, and the cumulative share.
    pub fn to_csv(&self) -> String {
        let mut out = "latency_ns,frames,share_at_or_below\n".to_owned();
        let (mut counted, all) = (0, self.count().max(1) as f64);
        for (value, count) in self.buckets() {
            counted += count;
            let _ = writeln!(out, "{:.3},{count},{:.9}", value.as_ns_f64(), counted as f64 / all);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_sim::Ps;

    fn sample() -> Latency {
        let mut latency = Latency::default();
        (1..=1000).for_each(|ns| latency.record(Ps::from_ns(ns)));
        latency
    }

    #[test]
    fn hgrm_text_matches_percentiles() {
        let text = sample().to_hgrm();
        let lines: Vec<Vec<f64>> = text
            .lines()
            .skip(2)
            .take_while(|line| !line.starts_with('#'))
            .map(|line| line.split_whitespace().map(|word| word.parse().unwrap()).collect())
            .collect();
        assert!(lines.len() > 30 && lines.is_sorted_by(|a, b| a[1] < b[1] && a[0] <= b[0]));
        for line in &lines {
            // The nth value is n; a bucket is at most one thousandth of its value wide.
            assert!((line[0] - line[2]).abs() <= line[2] / 1000.0, "{line:?}");
            let rank = (line[1] * 1000.0 - 1e-6).ceil().max(1.0);
            assert!((rank..=rank + 1.0).contains(&line[2]), "{line:?}");
        }
        let last = lines.last().unwrap();
        assert_eq!((last[0], last[1], last[2], last.len()), (1000.0, 1.0, 1000.0, 3));
        assert!(text.contains("#[Mean    =      500.500, StdDeviation   =      288.675]"), "{text}");
        assert!(text.contains("#[Max     =     1000.000, Total count    =         1000]"), "{text}");
    }

    #[test]
    fn csv_counts_all_frames_and_may_be_empty() {
        let text = sample().to_csv();
        let last = text.lines().last().unwrap();
        assert!(last.starts_with("1000.") && last.ends_with(",1.000000000"), "{last}");
        let counted: u64 =
            text.lines().skip(1).map(|line| line.split(',').nth(1).unwrap().parse::<u64>().unwrap()).sum();
        assert_eq!(counted, 1000);
        assert_eq!(Latency::default().to_csv().lines().count(), 1);
        assert!(Latency::default().to_hgrm().contains("Total count    =            0"));
    }
}
