//! Selects the next rate: a function of the completed trials only, so that the result does not depend on how
//! many trials run at once.
//!
//! The first trial is at the highest rate. If it misses the goal, its delivered rate gives a guess of the
//! machine's capacity. The next two trials are slightly below and slightly above the rate that loses exactly
//! the goal's share at that capacity. If one meets the goal and the other misses it, as expected, the search
//! is over after three trials. Otherwise, steps away from the guess grow, first fourfold and then twofold,
//! until the result is between two trials. A trial that misses the goal gives a new guess, which is tried if
//! it is between the two, but at most twice; after that, the interval is halved. The interval is halved at
//! once if only the round trips miss the goal: such a trial loses no frames, so it gives no guess.
//!
//! Loss need not increase with the rate on every machine. The result is then the crossing above the highest
//! rate that meets the goal and is below *all* rates that miss it. Every rate tried up to the interval met
//! the goal (RFC 9971 handles inversions of loss the same way). A dip between two trials is not found.

use super::goal::{Goal, Precision};
use super::judge::Verdict;

/// A trial as the search uses it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrialResult {
    /// Frames offered per second.
    pub rate: u64,
    /// Side of the goal's rate.
    pub verdict: Verdict,
    /// Frames delivered per second.
    pub delivered: f64,
    /// Only its round trips missed the goal. Its loss was within the goal, so its delivered rate does not
    /// indicate the capacity.
    pub late: bool,
}

/// Range of rates to search, and the precision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bracket {
    /// The lowest rate to try, in frames per second.
    pub min: u64,
    /// The highest rate to try.
    pub max: u64,
    /// Maximum width of the final interval.
    pub precision: Precision,
    /// Maximum number of trials.
    pub trials_max: usize,
}

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The interval has the requested precision.
    Precise,
    /// Even the highest rate meets the goal.
    AtHighest,
    /// Even the lowest rate misses it.
    BelowLowest,
    /// Trials between the ends of the interval were undecided.
    Undecided,
    /// The maximum number of trials was reached.
    TooMany,
}

/// The interval that contains the highest rate that meets the goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The highest rate that met the goal, below all that missed it. `None` if no rate met it.
    pub low: Option<u64>,
    /// The lowest rate that missed the goal. `None` if no rate missed it.
    pub high: Option<u64>,
    /// Why the search ended.
    pub ended: Ended,
}

/// Next action of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Try(u64),
    Done(Answer),
}

/// Maximum factor by which the guess may be too low, relative to the lowest rate that missed the goal. A
/// machine that collapses under overload delivers too little to show its capacity.
const FALL_MAX: u64 = 32;
/// Distance of the first trials from the guess, in precisions: the two distances add up to less than one.
const GUESS_OFFSET: f64 = 0.45;
/// Maximum number of misses after the first trial that met the goal, before the search stops using guesses.
const GUESSES: usize = 2;

/// SearchState of the search after some trials.
struct SearchState<'a> {
    bracket: &'a Bracket,
    results: &'a [TrialResult],
    low: Option<u64>,
    high: Option<TrialResult>,
}

/// Current interval: the highest rate that met the goal below all that missed it, and the lowest that missed
/// it.
pub(super) fn between(results: &[TrialResult]) -> (Option<u64>, Option<TrialResult>) {
    let missed = results.iter().filter(|trial| trial.verdict == Verdict::Above);
    let high = missed.min_by_key(|trial| trial.rate).copied();
    let met = results.iter().filter(|trial| trial.verdict == Verdict::Below).map(|trial| trial.rate);
    (met.filter(|rate| high.is_none_or(|high| *rate < high.rate)).max(), high)
}

/// Selects the next action after these trials, given in the order in which they were requested.
pub(super) fn next(bracket: &Bracket, goal: &Goal, results: &[TrialResult]) -> Next {
    let (low, high) = between(results);
    let state = SearchState { bracket, results, low, high };
    let done = |ended| Next::Done(Answer { low, high: high.map(|high| high.rate), ended });
    if results.is_empty() {
        return Next::Try(bracket.max);
    }
    let top = high.map_or(bracket.max, |high| high.rate);
    match low {
        Some(low) if low == bracket.max => return done(Ended::AtHighest),
        // Rates are whole frames per second.
        Some(low) if high.is_some() && (top - low) as f64 <= (bracket.precision.0 * top as f64).max(1.0) => {
            return done(Ended::Precise);
        }
        None if top == bracket.min => return done(Ended::BelowLowest),
        _ => {}
    }
    if results.len() >= bracket.trials_max {
        return done(Ended::TooMany);
    }
    match state.best_rate(goal) {
        Some(rate) if !results.iter().any(|trial| trial.rate == rate) => Next::Try(rate),
        _ => done(Ended::Undecided),
    }
}

impl SearchState<'_> {
    /// The rate that loses exactly the goal's share, given the delivered rate of the lowest trial that missed
    /// the goal. `None` if no trial missed it, or it missed by latency only.
    fn guess(&self, goal: &Goal) -> Option<f64> {
        let high = self.high.filter(|high| !high.late);
        high.map(|high| (high.delivered / (1.0 - goal.loss)).min(high.rate as f64))
    }

    /// Whether guesses have not narrowed the interval.
    fn is_past_guessing(&self) -> bool {
        let since = self.results.iter().skip_while(|trial| trial.verdict != Verdict::Below);
        since.filter(|trial| trial.verdict == Verdict::Above).count() > GUESSES
    }

    fn count(&self, verdict: Verdict) -> i32 {
        self.results.iter().filter(|trial| trial.verdict == verdict).count() as i32
    }

    /// The most informative rate; `None` if all remaining rates are too close to undecided trials.
    fn best_rate(&self, goal: &Goal) -> Option<u64> {
        let precision = self.bracket.precision.0;
        let bottom = self.low.unwrap_or(0);
        let top = self.high.map_or(self.bracket.max, |high| high.rate);
        let undecided =
            self.results.iter().filter(|trial| trial.verdict == Verdict::Undecided).map(|trial| trial.rate);
        let undecided: Vec<u64> = undecided.filter(|rate| (bottom..=top).contains(rate)).collect();
        // Rates between these are undecided.
        let undecided_range = undecided.iter().min().copied().zip(undecided.iter().max().copied());
        let Some(low) = self.low else {
            let below = undecided_range.map_or(top, |(lowest, _)| lowest);
            return (below > self.bracket.min).then(|| self.down_from(below, goal));
        };
        let Some((lowest, highest)) = undecided_range else { return Some(self.between(low, top, goal)) };
        let narrow = precision / 4.0 * top as f64;
        if (top - highest) as f64 > narrow && top != highest {
            Some(self.towards(highest, top, self.count(Verdict::Undecided) - 1))
        } else if (lowest - low) as f64 > narrow {
            Some(
                lowest
                    - (self.towards(0, lowest - low, 0))
                        .min((GUESS_OFFSET * precision * lowest as f64) as u64),
            )
        } else {
            None
        }
    }

    /// A rate below all that did not meet the goal: the guess less a distance, which grows fourfold once and
    /// then twofold, since the lowest miss has given a better guess. Without a guess, half of `below`.
    fn down_from(&self, below: u64, goal: &Goal) -> u64 {
        let (precision, min) = (self.bracket.precision.0, self.bracket.min);
        let failures = self.count(Verdict::Above) + self.count(Verdict::Undecided);
        let distance = match failures {
            ..=1 => GUESS_OFFSET * precision,
            _ => GUESS_OFFSET * precision * f64::powi(2.0, failures.min(15)),
        };
        let Some(guess) = self.guess(goal) else {
            return round(below as f64 / 2.0, below).clamp(min, (below - 1).max(min));
        };
        let wanted = (guess * (1.0 - distance).max(0.0)).min(below as f64 * (1.0 - GUESS_OFFSET * precision));
        round(wanted, below).clamp((below / FALL_MAX).max(min), (below - 1).max(min))
    }

    /// A rate between one that met the goal and one that missed it: slightly above or below the guess, if
    /// that narrows the interval.
    fn between(&self, low: u64, top: u64, goal: &Goal) -> u64 {
        let precision = self.bracket.precision.0;
        let guess = self.guess(goal);
        if guess.is_none() || self.is_past_guessing() {
            return round((low as f64 + top as f64) / 2.0, top).clamp(low + 1, (top - 1).max(low + 1));
        }
        if let (Some(guess), ..=2) = (guess, self.count(Verdict::Below)) {
            let news = low as f64 * (1.0 + precision / 4.0)..=top as f64 * (1.0 - precision / 4.0);
            for candidate in
                [guess * (1.0 + GUESS_OFFSET * precision), guess * (1.0 - GUESS_OFFSET * precision)]
            {
                if news.contains(&candidate) {
                    return round(candidate, top).clamp(low + 1, (top - 1).max(low + 1));
                }
            }
        }
        self.towards(low, top, self.count(Verdict::Below))
    }

    /// A few steps up from `low`, each four times as long as the previous one, but at most half way to `top`.
    fn towards(&self, low: u64, top: u64, steps: i32) -> u64 {
        let step = GUESS_OFFSET * self.bracket.precision.0 * 2.0 * f64::powi(4.0, (steps - 1).clamp(0, 15));
        let middle = (low as f64 + top as f64) / 2.0;
        let wanted = if low == 0 { middle } else { (low as f64 * (1.0 + step)).min(middle) };
        round(wanted, top).clamp(low + 1, (top - 1).max(low + 1))
    }
}

/// Rounds to five significant digits for readability. The result is less than `below`.
fn round(rate: f64, below: u64) -> u64 {
    let rate = rate.max(1.0) as u64;
    let unit = 10u64.pow(rate.ilog10().saturating_sub(4));
    let rounded = (rate + unit / 2) / unit * unit;
    if rounded < below { rounded } else { rate.min(below.saturating_sub(1)).max(1) }
}

/// Rates that may be requested next, at most `count`. The first one is certain, whatever the unfinished
/// trials yield. Before the first trial, only the highest rate is returned.
pub(super) fn speculate(bracket: &Bracket, goal: &Goal, results: &[TrialResult], count: usize) -> Vec<u64> {
    let mut rates = Vec::new();
    let mut futures = std::collections::VecDeque::from([results.to_vec()]);
    let mut looked_at = 0;
    while let Some(future) = futures.pop_front() {
        looked_at += 1;
        let Next::Try(rate) = next(bracket, goal, &future) else { continue };
        if !rates.contains(&rate) {
            rates.push(rate);
        }
        if rates.len() >= count || looked_at > 8 * count || results.is_empty() {
            break;
        }
        // An overloaded trial is assumed to deliver as much as the lowest trial that missed the goal.
        let before =
            future.iter().filter(|trial| trial.verdict == Verdict::Above).min_by_key(|trial| trial.rate);
        let delivered = before.map_or(rate as f64 / 2.0, |trial| trial.delivered.min(rate as f64));
        for (verdict, delivered) in [(Verdict::Below, rate as f64), (Verdict::Above, delivered)] {
            let mut further = future.clone();
            further.push(TrialResult { rate, verdict, delivered, late: false });
            futures.push_back(further);
        }
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::*;

    const BRACKET: Bracket =
        Bracket { min: 1_000, max: 1_000_000, precision: Precision(0.02), trials_max: 40 };

    fn msb() -> Goal {
        "msb".parse().unwrap()
    }

    fn result(rate: u64, verdict: Verdict, delivered: f64) -> TrialResult {
        TrialResult { rate, verdict, delivered, late: false }
    }

    /// Runs a search on a synthetic system and returns its trials.
    fn trials(
        bracket: &Bracket,
        goal: &Goal,
        says: impl Fn(u64) -> TrialResult,
    ) -> (Answer, Vec<TrialResult>) {
        let mut trials = Vec::new();
        loop {
            match next(bracket, goal, &trials) {
                Next::Done(answer) => return (answer, trials),
                Next::Try(rate) => trials.push(says(rate)),
            }
        }
    }

    #[test]
    fn trials_that_miss_only_the_latency_bound_halve_the_interval() {
        for (precision, most) in [(0.05, 12), (0.02, 13), (0.005, 15)] {
            let bracket =
                Bracket { min: 148_000, max: 148_000_000, precision: Precision(precision), ..BRACKET };
            for truth in [149_000, 700_000, 3_000_000, 9_700_000, 14_200_000, 60_000_000, 147_000_000] {
                let (answer, trials) = trials(&bracket, &msb(), |rate| match rate {
                    // Above this rate, frames are lost as well.
                    15_000_001.. if truth <= 15_000_000 => result(rate, Verdict::Above, 15e6),
                    _ if rate <= truth => result(rate, Verdict::Below, rate as f64),
                    _ => TrialResult { late: true, ..result(rate, Verdict::Above, rate as f64) },
                });
                assert_eq!(answer.ended, Ended::Precise, "{truth}");
                assert!(answer.low.unwrap() <= truth && truth < answer.high.unwrap(), "{truth}: {answer:?}");
                let count = trials.len();
                assert!(count <= most + 4, "{truth} to {precision}: {count} trials");
            }
        }
    }

    /// As behind a queue that drops at random long before the machine is saturated.
    #[test]
    fn slowly_growing_loss_does_not_cause_many_small_steps() {
        let bracket = Bracket { precision: Precision(0.05), ..BRACKET };
        for truth in [20_000, 200_000, 310_000, 700_000] {
            let (answer, trials) = trials(&bracket, &msb(), |rate| match rate <= truth {
                true => result(rate, Verdict::Below, rate as f64),
                false => result(rate, Verdict::Above, rate as f64 * 0.98),
            });
            assert_eq!(answer.ended, Ended::Precise, "{truth}");
            assert!(trials.len() <= 18, "{truth}: {} trials", trials.len());
        }
    }

    #[test]
    fn an_exact_guess_is_confirmed_by_one_trial_on_each_side() {
        let mut trials = vec![result(1_000_000, Verdict::Above, 198_000.0)];
        let Next::Try(below) = next(&BRACKET, &msb(), &trials) else { panic!() };
        assert_eq!(below, 198_200);
        trials.push(result(below, Verdict::Below, below as f64));
        let Next::Try(above) = next(&BRACKET, &msb(), &trials) else { panic!() };
        assert_eq!(above, 201_800);
        trials.push(result(above, Verdict::Above, 198_000.0));
        let answer = Answer { low: Some(below), high: Some(above), ended: Ended::Precise };
        assert_eq!(next(&BRACKET, &msb(), &trials), Next::Done(answer));
    }

    #[test]
    fn a_rate_of_a_few_frames_per_second_is_found_exactly() {
        let bracket = Bracket { min: 1, max: 40, ..BRACKET };
        for truth in 1..40 {
            let mut trials = Vec::new();
            let answer = loop {
                match next(&bracket, &msb(), &trials) {
                    Next::Done(answer) => break answer,
                    Next::Try(rate) if rate > truth => {
                        trials.push(result(rate, Verdict::Above, truth as f64))
                    }
                    Next::Try(rate) => trials.push(result(rate, Verdict::Below, rate as f64)),
                }
            };
            assert_eq!((answer.low, answer.high), (Some(truth), Some(truth + 1)), "{trials:?}");
        }
    }

    /// As with gem5's machine behind its I/O crossbar: an overload returns more frames than can be sustained
    /// without loss.
    #[test]
    fn a_guess_that_is_too_high_is_updated_by_each_miss() {
        let bracket = Bracket { max: 100_000_000, precision: Precision(0.04), ..BRACKET };
        let mut trials = Vec::new();
        let answer = loop {
            match next(&bracket, &msb(), &trials) {
                Next::Done(answer) => break answer,
                Next::Try(rate) => trials.push(match rate {
                    ..27_200_000 => result(rate, Verdict::Below, rate as f64),
                    28_000_000..30_000_000 => result(rate, Verdict::Undecided, 28_500_000.0),
                    30_000_000.. => result(rate, Verdict::Above, 29_100_000.0),
                    _ => result(rate, Verdict::Above, rate as f64 * 0.97),
                }),
            }
        };
        assert_eq!(answer.ended, Ended::Precise, "{trials:?}");
        assert!((26_000_000..27_200_000).contains(&answer.low.unwrap()), "{answer:?}");
        // With steps that grow fourfold from the first guess, it took nine.
        assert!(trials.len() <= 6, "{trials:#?}");
    }

    #[test]
    fn speculated_rates_are_the_requested_ones_if_the_guess_is_exact() {
        let trials = vec![result(1_000_000, Verdict::Above, 198_000.0)];
        assert_eq!(speculate(&BRACKET, &msb(), &trials, 2), [198_200, 201_800]);
        assert_eq!(speculate(&BRACKET, &msb(), &trials, 1), [198_200]);
    }

    #[test]
    fn a_rate_that_met_the_goal_above_a_miss_is_ignored() {
        let trials = vec![
            result(1_000_000, Verdict::Above, 800_000.0),
            result(800_000, Verdict::Below, 800_000.0),
            result(500_000, Verdict::Above, 400_000.0),
            result(490_000, Verdict::Below, 490_000.0),
        ];
        let answer = Answer { low: Some(490_000), high: Some(500_000), ended: Ended::Precise };
        assert_eq!(next(&BRACKET, &msb(), &trials), Next::Done(answer));
    }

    #[test]
    fn an_undecided_rate_keeps_the_interval_open() {
        let mut trials = vec![
            result(1_000_000, Verdict::Above, 198_000.0),
            result(198_200, Verdict::Undecided, 198_000.0),
        ];
        let ended = loop {
            match next(&BRACKET, &msb(), &trials) {
                Next::Done(answer) => break answer,
                Next::Try(rate) => {
                    let verdict = match rate {
                        ..195_000 => Verdict::Below,
                        205_000.. => Verdict::Above,
                        _ => Verdict::Undecided,
                    };
                    trials.push(result(rate, verdict, 198_000.0_f64.min(rate as f64)));
                }
            }
        };
        assert_eq!(ended.ended, Ended::Undecided);
        assert!((180_000..195_000).contains(&ended.low.unwrap()), "{ended:?}");
        assert!((205_000..222_000).contains(&ended.high.unwrap()), "{ended:?}");
        assert!(trials.len() < 25, "{}", trials.len());
    }
}
