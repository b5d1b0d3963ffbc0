//! One trial: how long it must be until it says on which side of the goal a rate lies.
//!
//! A trial goes on in slices. After every slice the loss in its window is known to lie between two shares of the offered
//! frames: what was dropped, and that plus what the queues took in (or gave out). While a trial reaches its own steady
//! state the queues fill or empty; as soon as they no longer do, the window begins again. The rate is
//!
//! * *above* the one that is sought if even the lower of the two exceeds the goal,
//! * *below* if even the higher one does not, and the change of the queues is no more than half the goal: buffers hide overload,
//! * not known yet otherwise: the same trial goes on, and is undecided if it does not say within its longest time.
//!
//! A load that offered much less than its rate, since it ended, was paused or has long silences, met no goal at that rate: it is not known
//! either.
//!
//! "Exceeds" is by more than chance: by three standard errors of the slices' losses. A goal without loss has no half; there the queues may grow by a quarter of the precision: an overload
//! beyond that shows as growth, and one below is within the interval that is stated anyway. It is met if nothing at all is lost.
//!
//! What decides how long: enough frames for the goal (`least_frames`), and at most the time in which an overload of half
//! the precision fills everything that holds frames, twice over. Drops are counted while the trial goes on; what the
//! guest's software drops is not seen before the frames inside are more than it can hold, or the trial has ended and drained.

use doorbell_sim::Ps;

use super::goal::{Goal, Precision};
use super::{Account, Standing, Trial};

/// On which side of the sought rate a trial's rate is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Below it: the goal is met.
    Below,
    /// Above it: the goal is missed.
    Above,
    /// Not known.
    Undecided,
}

/// Into so many stretches at least a window is cut to see what chance does. Few and long: a driver takes and gives frames in
/// bursts, which say nothing.
const STRETCHES: usize = 4;
/// Slices before the first window.
const SETTLE_SLICES: u64 = 2;
/// A window has so many slices at least: a spread needs some.
const SLICES_MIN: u64 = 4;
/// A slice is no shorter.
const SLICE_MIN: Ps = Ps::from_us(50);
/// At low rates a window need not have its least number of frames: after this time it is long enough.
const LEAST_TIME_MAX: Ps = Ps::from_ms(100);

/// How long a trial at some rate may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// The time between two looks.
    pub slice: Ps,
    /// Frames that a window has at least.
    pub least_frames: u64,
    /// The longest time for the queues to settle and the window together.
    pub longest: Ps,
    /// Frames that the load is to offer a second, at all ports together.
    pub due: u64,
}

/// A load that offers less than this share of its rate says nothing of the rate.
const OFFERED_MIN: f64 = 0.9;

impl Lengths {
    /// For a rate in frames a second at a system in which an overload fills so much before anything is lost.
    pub fn new(rate: u64, least_frames: u64, before_loss: u64, precision: Precision) -> Lengths {
        let least_frames = least_frames.min((rate as f64 * LEAST_TIME_MAX.as_secs_f64()) as u64).max(1);
        let time_of = |frames: f64| Ps((frames / rate.max(1) as f64 * Ps::PER_SECOND as f64) as u64);
        let slice = time_of(least_frames as f64 / (2 * SLICES_MIN) as f64).max(SLICE_MIN);
        let fills = time_of(before_loss as f64 / (precision.0 / 2.0));
        let least = Ps(slice.0.saturating_mul(4 * SLICES_MIN));
        Lengths { slice, least_frames, longest: Ps(fills.0.saturating_mul(2)).max(least), due: rate }
    }

    /// Whether what was offered in a time is about what was due, as far as chance and rounding of few frames let one know.
    fn is_offered(&self, offered: f64, time: Ps) -> bool {
        let due = self.due as f64 * time.as_secs_f64();
        offered + 4.0 * due.sqrt() + 2.0 >= OFFERED_MIN * due
    }
}

/// Frames that a window needs at least for a goal: with a hundred lost at the goal, chance is a tenth of it; and without a loss
/// allowed, so many that a loss of a thousandth of a percent is seen.
pub fn least_frames(goal: &Goal) -> u64 {
    if goal.loss == 0.0 { 100_000 } else { (100.0 / goal.loss) as u64 }
}

/// What a trial said.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// On which side the rate is.
    pub verdict: Verdict,
    /// The window's account.
    pub account: Account,
    /// Lost frames as a share of the offered, corrected for the change in what the queues hold.
    pub loss: f64,
    /// By how much chance may have moved it.
    pub loss_error: f64,
    /// The change in what the queues hold, as a share of the offered.
    pub occupancy_change: f64,
}

/// What is known of a window.
struct Evidence {
    offered: f64,
    lost: f64,
    /// By how much the queues grew.
    change: f64,
    /// By how much chance may have moved the loss.
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

/// By how much chance may have moved the mean of shares, one a stretch of the window: three standard errors, and more while
/// they are few, as Student's distribution has it. A trial is looked at many times, so two would err too often. Where hardly
/// anything was lost the count itself is the larger chance.
fn chance(shares: &[f64], offered: f64, lost: f64) -> f64 {
    let n = shares.len() as f64;
    let mean = shares.iter().sum::<f64>() / n;
    let squares: f64 = shares.iter().map(|share| (share - mean) * (share - mean)).sum();
    let of_mean = if n > 1.0 { (squares / (n - 1.0) / n).sqrt() } else { 1.0 };
    let offered = offered.max(1.0);
    let of_count = (lost * (1.0 - lost / offered).max(0.0) + 1.0).sqrt() / offered;
    (3.0 + 6.0 / (n - 1.0).max(1.0)) * of_mean.max(of_count)
}

/// Watches a trial that has begun, and ends it when it has said what it can.
pub fn judge<T: Trial>(
    mut trial: T,
    goal: &Goal,
    precision: Precision,
    lengths: &Lengths,
    holds: u64,
) -> Result<(Judged, T::Remains), T::Error> {
    let most = lengths.longest.0 / lengths.slice.0;
    let mut left = most;
    trial.go_on(Ps(SETTLE_SLICES * lengths.slice.0))?;
    let tolerated = goal.tolerated_change(precision);
    let mut window = Window::open(&mut trial, holds)?;
    let error = loop {
        window.looks.push(trial.go_on(lengths.slice)?);
        left = left.saturating_sub(1);
        let evidence = window.evidence();
        let enough = window.slices() >= SLICES_MIN && evidence.offered >= lengths.least_frames as f64;
        let steady = window.is_steady_since(0, tolerated);
        let says = match evidence.verdict(goal, precision) {
            Verdict::Above => true,
            Verdict::Below => lengths.is_offered(evidence.offered, Ps(lengths.slice.0 * window.slices())),
            Verdict::Undecided => false,
        };
        // What is delivered before the queues are steady says little, even where the verdict is certain.
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
    let (account, remains) = trial.close()?;
    let mut judged = judged(account, error, goal, precision);
    if judged.verdict == Verdict::Below && !lengths.is_offered(account.offered as f64, account.window) {
        judged.verdict = Verdict::Undecided;
    }
    Ok((judged, remains))
}

/// A window while it goes on: what was seen at its begin and after each slice.
struct Window {
    looks: Vec<Standing>,
    holds: u64,
}

impl Window {
    fn open<T: Trial>(trial: &mut T, holds: u64) -> Result<Window, T::Error> {
        trial.open_window()?;
        Ok(Window { looks: vec![trial.go_on(Ps::ZERO)?], holds })
    }

    fn slices(&self) -> u64 {
        self.looks.len() as u64 - 1
    }

    /// Offered, known to be lost, and by how much what is inside grew, between two looks.
    fn between(&self, from: usize, to: usize) -> (f64, f64, f64) {
        let (a, b) = (&self.looks[from], &self.looks[to]);
        let change = b.inside() as f64 - a.inside() as f64;
        ((b.offered - a.offered) as f64, (b.dropped - a.dropped) as f64, change)
    }

    fn evidence(&self) -> Evidence {
        let end = self.looks.len() - 1;
        let (offered, dropped, change) = self.between(0, end);
        // What is beyond all that can be held was lost unseen.
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

    /// Whether the queues changed too much in the window, and do so no longer: a new one will say more.
    fn has_become_steady(&self, tolerated: f64) -> bool {
        let end = self.looks.len() - 1;
        let recent = (end / 8).max(SLICES_MIN as usize);
        end >= 2 * recent && self.is_steady_since(end - recent, tolerated)
    }
}

/// The last word is that of the account.
fn judged(account: Account, error: f64, goal: &Goal, precision: Precision) -> Judged {
    let (offered, lost) = (account.offered as f64, account.lost as f64);
    let change = account.occupancy_change() as f64;
    let evidence = Evidence { offered, lost, change, error, latency: account.latency };
    let offered = offered.max(1.0);
    Judged {
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
    fn the_goal_itself_is_met_and_one_frame_more_is_not() {
        assert_eq!(verdict("1%", 100.0, 0.0, 0.0), Verdict::Below);
        assert_eq!(verdict("1%", 101.0, 0.0, 0.0), Verdict::Above);
        assert_eq!(verdict("ndr", 0.0, 0.0, 0.01), Verdict::Below);
        assert_eq!(verdict("ndr", 1.0, 0.0, 0.01), Verdict::Above);
    }

    #[test]
    fn queues_that_change_by_more_than_half_the_goal_decide_nothing() {
        assert_eq!(verdict("1%", 0.0, 50.0, 0.0), Verdict::Below);
        assert_eq!(verdict("1%", 0.0, 51.0, 0.0), Verdict::Undecided);
        assert_eq!(verdict("1%", 0.0, -51.0, 0.0), Verdict::Undecided);
        assert_eq!(verdict("1%", 60.0, 45.0, 0.0), Verdict::Undecided);
        assert_eq!(verdict("1%", 150.0, -60.0, 0.0), Verdict::Undecided);
        assert_eq!(verdict("1%", 300.0, -60.0, 0.0), Verdict::Above);
        // Nothing may be lost: half a percent of growth is a quarter of the precision.
        assert_eq!(verdict("ndr", 0.0, 50.0, 0.0), Verdict::Below);
        assert_eq!(verdict("ndr", 0.0, 51.0, 0.0), Verdict::Undecided);
    }

    #[test]
    fn what_may_be_chance_decides_nothing() {
        assert_eq!(verdict("1%", 110.0, 0.0, 0.002), Verdict::Undecided);
        assert_eq!(verdict("1%", 90.0, 0.0, 0.002), Verdict::Undecided);
        assert_eq!(verdict("1%", 130.0, 0.0, 0.002), Verdict::Above);
        assert_eq!(verdict("1%", 70.0, 0.0, 0.002), Verdict::Below);
        assert_eq!(verdict("ndr", 0.0, 0.0, 0.011), Verdict::Undecided);
    }

    #[test]
    fn round_trips_beyond_the_bound_miss_the_goal_whatever_is_lost() {
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
    fn frames_beyond_what_can_be_held_are_lost() {
        let look = |offered, returned| Standing { offered, returned, ..Standing::default() };
        let evidence = |holds| {
            let evidence = Window { looks: vec![look(1000, 990), look(3000, 1500)], holds }.evidence();
            (evidence.lost, evidence.change)
        };
        assert_eq!(evidence(2000), (0.0, 1490.0));
        assert_eq!(evidence(1000), (490.0, 1000.0));
    }

    #[test]
    fn what_varies_from_stretch_to_stretch_may_be_chance() {
        assert_eq!(chance(&[0.02; 5], 1e9, 0.0), 4.5 * 1e-9);
        assert!((chance(&[0.01, 0.03, 0.01, 0.03], 1e9, 0.0) - 5.0 * 0.02 / 12f64.sqrt()).abs() < 1e-12);
        // 50 of 100 are as chance has it in half of all cases; three heads in four throws say nothing.
        assert_eq!(chance(&[0.5; 4], 96.0, 48.0), 5.0 * 5.0 / 96.0);
    }

    #[test]
    fn the_longest_trial_is_twice_what_half_the_precision_takes_to_fill_all_that_holds_frames() {
        let lengths = Lengths::new(15_000_000, 10_000, 1_660, P);
        // FACTS' example: 1 % of 15 Mpps fills 1,660 frames in 11 ms.
        assert_eq!(lengths.longest.0 / 1_000_000_000, 22);
        assert_eq!(lengths.slice, Ps(83_333_333));
    }
}
