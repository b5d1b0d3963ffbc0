//! Due times of frames that another component builds, such as those of a trace replayed at a rate.

use doorbell_sim::Ps;
use doorbell_wire::LinkConfig;

use super::arrivals::Arrivals;
use super::clock::{Clock, RateProfile};
use crate::frame::hash;
use crate::rate::{Pacing, Rate};

/// See the module.
#[derive(Clone, Debug)]
pub struct DueTimes(Clock);

impl DueTimes {
    /// For frames with a mean length of `frame_len` bytes (without FCS), from `begin` on. `key` seeds all
    /// randomness.
    pub fn new(
        rate: Rate,
        arrivals: Arrivals,
        frame_len: usize,
        begin: Ps,
        key: u64,
        link: &LinkConfig,
    ) -> Result<DueTimes, String> {
        if matches!(rate, Rate::Times(_)) {
            return Err(format!(
                "\"{rate}\" needs a base rate; give an absolute rate such as 5Mpps, 10Gbps or 40%"
            ));
        }
        arrivals.validate()?;
        let profile =
            RateProfile { begin: Pacing::new(Ps::ZERO, rate, frame_len, link), ramp: None, stamps: None };
        let mut clock = Clock::new(profile, arrivals, hash(key), None, None, link.rate.0);
        clock.begin(begin);
        Ok(DueTimes(clock))
    }

    /// Due time of the next frame; [`Ps::MAX`] if out of range.
    pub fn next_due(&self) -> Ps {
        self.0.state.due
    }

    /// Advances past the due frame, which takes `wire_bytes` bytes on the line.
    pub fn advance(&mut self, wire_bytes: u64) {
        self.0.advance(wire_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_times_follow_rate_and_arrival_process() {
        let link = LinkConfig::default();
        let times = |arrivals, key| {
            let mut due = DueTimes::new("2Mpps".parse().unwrap(), arrivals, 60, Ps(7), key, &link).unwrap();
            let mut times = Vec::new();
            for _ in 0..10_000 {
                times.push(due.next_due().0);
                due.advance(84);
            }
            times
        };
        let constant = times(Arrivals::Constant, 1);
        assert!(constant.iter().enumerate().all(|(place, at)| *at == 7 + 500_000 * place as u64));
        let poisson = times(Arrivals::Poisson, 1);
        assert_ne!(poisson, times(Arrivals::Poisson, 2));
        assert!(poisson.last().unwrap().abs_diff(5_000_000_000) < 200_000_000, "{:?}", poisson.last());
        let gaps = poisson.windows(2).filter(|pair| pair[1] - pair[0] < 250_000).count();
        assert!((3_700..4_200).contains(&gaps), "{gaps} of 10,000 gaps are under half of the mean");
    }

    #[test]
    fn relative_rate_is_refused() {
        let refused =
            DueTimes::new(Rate::Times(2_000_000), Arrivals::Constant, 60, Ps(0), 1, &LinkConfig::default());
        assert!(refused.unwrap_err().contains("5Mpps"));
    }
}
