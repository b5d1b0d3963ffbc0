//! Progress of a transfer between two nodes over time.

use doorbell_results::TransferPart;
use doorbell_sim::Ps;

use crate::testbed::steady::MEASURED;
use crate::window::transfer_counts::TransferCounts;

/// Maximum number of parts per phase before the measurement.
const PARTS_BEFORE: usize = 40;

/// Samples of a transfer's progress.
#[derive(Default)]
pub(crate) struct ProgressSeries {
    /// Name and samples of each phase.
    phases: Vec<(&'static str, Vec<(Ps, TransferCounts)>)>,
}

impl ProgressSeries {
    pub fn begin(&mut self, phase: &'static str) {
        self.phases.push((phase, Vec::new()));
    }

    pub fn add_sample(&mut self, now: Ps, counts: TransferCounts) {
        if let Some((_, samples)) = self.phases.last_mut() {
            samples.push((now, counts));
        }
    }

    /// The parts between samples, at most [`PARTS_BEFORE`] per phase before the measurement. With `counted` they have
    /// transaction rates.
    pub fn parts(&self, counted: bool) -> Vec<TransferPart> {
        let start =
            self.phases.iter().find_map(|(_, samples)| samples.first()).map_or(Ps::ZERO, |sample| sample.0);
        let mut parts = Vec::new();
        for (phase, samples) in &self.phases {
            let every = match *phase {
                MEASURED => 1,
                _ => samples.len().div_ceil(PARTS_BEFORE).max(1),
            };
            let last = samples.len().saturating_sub(1);
            let kept = samples.iter().enumerate().filter(|(at, _)| at % every == 0 || *at == last);
            let kept: Vec<&(Ps, TransferCounts)> = kept.map(|(_, sample)| sample).collect();
            parts.extend(kept.windows(2).filter(|pair| pair[1].0 > pair[0].0).map(|pair| {
                let ((from, before), (to, after)) = (*pair[0], *pair[1]);
                let (length, counts) = ((to - from).as_secs_f64(), after.since(&before));
                TransferPart {
                    phase: (*phase).to_owned(),
                    begin_ns: from.saturating_sub(start).as_secs_f64() * 1e9,
                    length_ns: length * 1e9,
                    gbps: counts.gbps(length),
                    transactions_per_second: counted.then(|| counts.transactions / length),
                }
            }));
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_split_into_parts_with_their_rates() {
        let counts = |bytes: u64| TransferCounts { bytes, transactions: bytes as f64 / 100.0 };
        let mut progress = ProgressSeries::default();
        progress.begin("warmup");
        for n in 0..=160 {
            progress.add_sample(Ps::from_us(100 + n), counts(n * 1000));
        }
        progress.begin(MEASURED);
        progress.add_sample(Ps::from_us(260), counts(160_000));
        progress.add_sample(Ps::from_us(262), counts(164_000));
        let parts = progress.parts(true);
        assert_eq!(parts.len(), 33);
        assert_eq!((parts[1].begin_ns, parts[1].length_ns), (5000.0, 5000.0));
        // 1000 bytes per microsecond are 8 Gbps.
        assert!((parts[1].gbps - 8.0).abs() < 1e-9);
        assert!((parts[32].gbps - 16.0).abs() < 1e-9 && parts[32].phase == "measured");
        assert!((parts[32].transactions_per_second.unwrap() - 2e7).abs() < 1.0);
        assert!(progress.parts(false)[0].transactions_per_second.is_none());
    }
}
