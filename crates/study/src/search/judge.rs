//! One trial: runs until it is decided on which side of the goal its rate is.
//!
//! A trial runs in slices. After each slice, the loss in its window is bounded by two shares of the offered
//! frames: the dropped frames, and the dropped frames plus the change in queue occupancy. While the trial
//! approaches its steady state, the queues fill or empty. When they stop doing so, the window restarts. The
//! rate is
//!
//! * *above* the goal's rate if even the lower of the two shares exceeds the goal,
//! * *below* if even the higher one does not, and queue occupancy changes by at most half the goal, since
//!   buffers hide overload,
//! * undecided otherwise: the trial continues, and stays undecided if its maximum time expires.
//!
//! A load that offered much less than its rate does not meet a goal at that rate, and is undecided as well.
//! Causes are a load that ended, was paused or has long silences.
//!
//! "Exceeds" means by more than chance: by three standard errors of the slices' losses. A goal without loss
//! has no half: there, the queues may grow by a quarter of the precision. A larger overload shows as growth;
//! a smaller one is within the stated interval. That goal is met if no frame is lost.
//!
//! The length is determined by the frames that the goal needs (`least_frames`). The maximum is twice the time
//! in which an overload of half the precision fills all queues. Drops are counted during the trial. Drops by
//! guest software are detected only when the frames inside exceed the total queue capacity, or after the
//! trial has ended and drained.

use doorbell_sim::Ps;

use super::goal::{Goal, Precision};
use super::{Account, Trial, TrialStatus};

/// Side of the goal's rate on which a trial's rate is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Below it: the goal is met.
    Below,
    /// Above it: the goal is missed.
    Above,
    /// Undecided.
    Undecided,
}

/// Minimum number of stretches into which a window is divided to estimate the standard error. Few and long,
/// because a driver receives and returns frames in bursts, which would add noise.
const STRETCHES: usize = 4;
/// Slices before the first window.
const SETTLE_SLICES: u64 = 2;
/// Minimum number of slices per window: an estimate of the spread needs several.
const SLICES_MIN: u64 = 4;
/// Minimum length of a slice.
const SLICE_MIN: Ps = Ps::from_us(50);
/// Window length after which the minimum number of frames is waived, for low rates.
const LEAST_TIME_MAX: Ps = Ps::from_ms(100);

/// Length limits of a trial at some rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// Time between two observations.
    pub slice: Ps,
    /// Minimum number of frames in a window.
    pub least_frames: u64,
    /// Maximum time for settling and the window together.
    pub longest: Ps,
    /// Frames per second that the load should offer, over all ports.
    pub due: u64,
}

/// Minimum share of its rate that a load must offer for a valid trial.
const OFFERED_MIN: f64 = 0.9;

impl Lengths {
    /// For a rate in frames per second, and a system whose queues hold `before_loss` frames before an
    /// overload loses any.
    pub fn new(rate: u64, least_frames: u64, before_loss: u64, precision: Precision) -> Lengths {
        let least_frames = least_frames.min((rate as f64 * LEAST_TIME_MAX.as_secs_f64()) as u64).max(1);
        let time_of = |frames: f64| Ps((frames / rate.max(1) as f64 * Ps::PER_SECOND as f64) as u64);
        let slice = time_of(least_frames as f64 / (2 * SLICES_MIN) as f64).max(SLICE_MIN);
        let fills = time_of(before_loss as f64 / (precision.0 / 2.0));
        let least = Ps(slice.0.saturating_mul(4 * SLICES_MIN));
        Lengths { slice, least_frames, longest: Ps(fills.0.saturating_mul(2)).max(least), due: rate }
    }

    /// Whether the frames offered in a time match the rate, within chance and rounding of small counts.
    fn is_offered(&self, offered: f64, time: Ps) -> bool {
        let due = self.due as f64 * time.as_secs_f64();
        offered + 4.0 * due.sqrt() + 2.0 >= OFFERED_MIN * due
    }
}

/// Minimum number of frames in a window for a goal. With 100 frames lost at the goal, the standard error is a
/// tenth of the loss. For a goal without loss, enough frames to detect a loss of 0.001 %.
pub fn least_frames(goal: &Goal) -> u64 {
    if goal.loss == 0.0 { 100_000 } else { (100.0 / goal.loss) as u64 }
}

/// Result of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judgment {
    /// Side of the goal's rate.
    pub verdict: Verdict,
    /// Frame counts of the window.
    pub account: Account,
    /// Lost frames as a share of offered frames.
    pub loss: f64,
    /// Statistical error of the loss.
    pub loss_error: f64,
    /// Change in queue occupancy, as a share of offered frames.
    pub occupancy_change: f64,
}

/// Measurements of a window.
struct Evidence {
    offered: f64,
    lost: f64,
    /// Growth of queue occupancy, in frames.
    change: f64,
    /// Statistical error of the loss.
    error: f64,
    latency: Option<(Ps, Ps)>,
}

impl Evidence {
    fn verdict(&self, goal: &Goal, precision: Precision) -> Verdict {
        let tolerated = goal.tolerated_change(precision);
        let offered = self.offered.max(1.0);
        let (loss, with_change) = (self.lost / offered, (self.lost + self.change) / offered);
        let (low, high) = (loss.min(with_change), loss.max(with_change));
        let late = goal.latency.zip(self.latency).map(|(bound, (low, high))| match bound.at_most {
            most if low > most => Verdict::Above,
            most if high <= most => Verdict::Below,
            _ => Verdict::Undecided,
        });
        let (misses, meets) = if goal.loss > 0.0 {
            (low - self.error > goal.loss, high + self.error <= goal.loss)
        } else {
            (self.lost > 0.0, self.lost == 0.0 && high + self.error <= 2.0 * tolerated)
        };
        if misses || late == Some(Verdict::Above) {
            Verdict::Above
        } else if meets && (self.change / offered).abs() <= tolerated && late != Some(Verdict::Undecided) {
            Verdict::Below
        } else {
            Verdict::Undecided
        }
    }
}

/// Statistical error of the mean of the stretches' loss shares: three standard errors, and more for few
/// stretches, following Student's distribution. A trial is evaluated many times, so two would err too often.
/// When hardly any frames are lost, the counting error dominates.
fn chance(shares: &[f64], offered: f64, lost: f64) -> f64 {
    let n = shares.len() as f64;
    let mean = shares.iter().sum::<f64>() / n;
    let squares: f64 = shares.iter().map(|share| (share - mean) * (share - mean)).sum();
    let of_mean = if n > 1.0 { (squares / (n - 1.0) / n).sqrt() } else { 1.0 };
    let offered = offered.max(1.0);
    let of_count = (lost * (1.0 - lost / offered).max(0.0) + 1.0).sqrt() / offered;
    (3.0 + 6.0 / (n - 1.0).max(1.0)) * of_mean.max(of_count)
}

/// Runs a started trial until its verdict is decided or its maximum time expires.
pub fn judge<T: Trial>(
    mut trial: T,
    goal: &Goal,
    precision: Precision,
    lengths: &Lengths,
    holds: u64,
) -> Result<(Judgment, T::Summary), T::Error> {
    let most = lengths.longest.0 / lengths.slice.0;
    let mut left = most;
    trial.advance(Ps(SETTLE_SLICES * lengths.slice.0))?;
    let tolerated = goal.tolerated_change(precision);
    let mut window = Window::open(&mut trial, holds)?;
    let error = loop {
        window.looks.push(trial.advance(lengths.slice)?);
        left = left.saturating_sub(1);
        let evidence = window.evidence();
        let enough = window.slices() >= SLICES_MIN && evidence.offered >= lengths.least_frames as f64;
        let steady = window.is_steady_since(0, tolerated);
        let says = match evidence.verdict(goal, precision) {
            Verdict::Above => true,
            Verdict::Below => lengths.is_offered(evidence.offered, Ps(lengths.slice.0 * window.slices())),
            Verdict::Undecided => false,
        };
        // Counts before the queues are steady are misleading, even if the verdict is certain.
        if (enough && steady && says) || left == 0 {
            break evidence.error;
        }
        if left > 2 * SLICES_MIN
            && !steady
            && (left == most / 2 || (enough && window.has_become_steady(tolerated)))
        {
            window = Window::open(&mut trial, holds)?;
        }
    };
    let (account, summary) = trial.close()?;
    let mut judgment = judgment(account, error, goal, precision);
    if judgment.verdict == Verdict::Below && !lengths.is_offered(account.offered as f64, account.window) {
        judgment.verdict = Verdict::Undecided;
    }
    Ok((judgment, summary))
}

/// An open window: the observations at its start and after each slice.
struct Window {
    looks: Vec<TrialStatus>,
    holds: u64,
}

impl Window {
    fn open<T: Trial>(trial: &mut T, holds: u64) -> Result<Window, T::Error> {
        trial.open_window()?;
        Ok(Window { looks: vec![trial.advance(Ps::ZERO)?], holds })
    }

    fn slices(&self) -> u64 {
        self.looks.len() as u64 - 1
    }

    /// Offered frames, detected drops, and growth of the frames inside, between two observations.
    fn between(&self, from: usize, to: usize) -> (f64, f64, f64) {
        let (a, b) = (&self.looks[from], &self.looks[to]);
        let change = b.inside() as f64 - a.inside() as f64;
        ((b.offered - a.offered) as f64, (b.dropped - a.dropped) as f64, change)
    }

    fn evidence(&self) -> Evidence {
        let end = self.looks.len() - 1;
        let (offered, dropped, change) = self.between(0, end);
        // Growth beyond the total queue capacity is undetected loss.
        let unseen = (change - self.holds as f64).max(0.0);
        let stretch = (end / STRETCHES).max(1);
        let shares: Vec<f64> = (0..end / stretch)
            .map(|n| {
                let (offered, dropped, change) = self.between(end - (n + 1) * stretch, end - n * stretch);
                (dropped + change) / offered.max(1.0)
            })
            .collect();
        Evidence {
            offered,
            lost: dropped + unseen,
            change: change - unseen,
            error: chance(&shares, offered, dropped),
            latency: self.looks[end].latency,
        }
    }

    fn is_steady_since(&self, look: usize, tolerated: f64) -> bool {
        let (offered, _, change) = self.between(look, self.looks.len() - 1);
        change.abs() <= tolerated * offered
    }

    /// Whether the queues changed too much over the window but are steady now: a new window will be more
    /// accurate.
    fn has_become_steady(&self, tolerated: f64) -> bool {
        let end = self.looks.len() - 1;
        let recent = (end / 8).max(SLICES_MIN as usize);
        end >= 2 * recent && self.is_steady_since(end - recent, tolerated)
    }
}

/// The final result comes from the complete frame counts, after the trial has drained.
fn judgment(account: Account, error: f64, goal: &Goal, precision: Precision) -> Judgment {
    let (offered, lost) = (account.offered as f64, account.lost as f64);
    let change = account.occupancy_change() as f64;
    let evidence = Evidence { offered, lost, change, error, latency: account.latency };
    let offered = offered.max(1.0);
    Judgment {
        verdict: evidence.verdict(goal, precision),
        account,
        loss: lost / offered,
        loss_error: error,
        occupancy_change: change / offered,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: Precision = Precision(0.02);

    fn verdict(goal: &str, lost: f64, change: f64, error: f64) -> Verdict {
        let goal: Goal = goal.parse().unwrap();
        Evidence { offered: 10_000.0, lost, change, error, latency: None }.verdict(&goal, P)
    }

    #[test]
    fn a_loss_equal_to_the_goal_meets_it_and_one_more_frame_misses_it() {
        assert_eq!(verdict("1%", 100.0, 0.0, 0.0), Verdict::Below);
        assert_eq!(verdict("1%", 101.0, 0.0, 0.0), Verdict::Above);
        assert_eq!(verdict("ndr", 0.0, 0.0, 0.01), Verdict::Below);
        assert_eq!(verdict("ndr", 1.0, 0.0, 0.01), Verdict::Above);
    }

    #[test]
    fn queue_change_above_half_the_goal_is_undecided() {
        assert_eq!(verdict("1%", 0.0, 50.0, 0.0), Verdict::Below);
        assert_eq!(verdict("1%", 0.0, 51.0, 0.0), Verdict::Undecided);
        assert_eq!(verdict("1%", 0.0, -51.0, 0.0), Verdict::Undecided);
        assert_eq!(verdict("1%", 60.0, 45.0, 0.0), Verdict::Undecided);
        assert_eq!(verdict("1%", 150.0, -60.0, 0.0), Verdict::Undecided);
        assert_eq!(verdict("1%", 300.0, -60.0, 0.0), Verdict::Above);
        // No frame may be lost: half a percent of growth is a quarter of the precision.
        assert_eq!(verdict("ndr", 0.0, 50.0, 0.0), Verdict::Below);
        assert_eq!(verdict("ndr", 0.0, 51.0, 0.0), Verdict::Undecided);
    }

    #[test]
    fn a_loss_within_the_statistical_error_is_undecided() {
        assert_eq!(verdict("1%", 110.0, 0.0, 0.002), Verdict::Undecided);
        assert_eq!(verdict("1%", 90.0, 0.0, 0.002), Verdict::Undecided);
        assert_eq!(verdict("1%", 130.0, 0.0, 0.002), Verdict::Above);
        assert_eq!(verdict("1%", 70.0, 0.0, 0.002), Verdict::Below);
        assert_eq!(verdict("ndr", 0.0, 0.0, 0.011), Verdict::Undecided);
    }

    #[test]
    fn round_trips_beyond_the_bound_miss_the_goal_regardless_of_loss() {
        let goal = Goal { latency: Some("p99=20us".parse().unwrap()), ..("1%".parse().unwrap()) };
        let at = |low, high| {
            let latency = Some((Ps::from_us(low), Ps::from_us(high)));
            Evidence { offered: 1e4, lost: 0.0, change: 0.0, error: 0.0, latency }.verdict(&goal, P)
        };
        assert_eq!(
            [at(10, 20), at(10, 21), at(21, 30)],
            [Verdict::Below, Verdict::Undecided, Verdict::Above]
        );
    }

    #[test]
    fn frames_beyond_queue_capacity_count_as_lost() {
        let look = |offered, returned| TrialStatus { offered, returned, ..TrialStatus::default() };
        let evidence = |holds| {
            let evidence = Window { looks: vec![look(1000, 990), look(3000, 1500)], holds }.evidence();
            (evidence.lost, evidence.change)
        };
        assert_eq!(evidence(2000), (0.0, 1490.0));
        assert_eq!(evidence(1000), (490.0, 1000.0));
    }

    #[test]
    fn variation_between_stretches_increases_the_error() {
        assert_eq!(chance(&[0.02; 5], 1e9, 0.0), 4.5 * 1e-9);
        assert!((chance(&[0.01, 0.03, 0.01, 0.03], 1e9, 0.0) - 5.0 * 0.02 / 12f64.sqrt()).abs() < 1e-12);
        // 50 of 100 is what chance yields in half of all cases; three of four coin tosses prove nothing.
        assert_eq!(chance(&[0.5; 4], 96.0, 48.0), 5.0 * 5.0 / 96.0);
    }

    #[test]
    fn maximum_trial_is_twice_the_time_for_half_the_precision_to_fill_all_queues() {
        let lengths = Lengths::new(15_000_000, 10_000, 1_660, P);
        // FACTS' example: 1 % of 15 Mpps fills 1,660 frames in 11 ms.
        assert_eq!(lengths.longest.0 / 1_000_000_000, 22);
        assert_eq!(lengths.slice, Ps(83_333_333));
    }
}
