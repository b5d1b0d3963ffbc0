//! Which rate is tried next: a function of the trials so far and of nothing else, so that an answer does not depend on how
//! many trials run at once.
//!
//! The first trial is at the highest rate. If it misses the goal, what it delivers is a good guess of what the machine can do,
//! and the next two trials are a little below and a little above the rate that loses just the goal's share of that. If they
//! disagree, as they should, the search is over after three trials. If they do not, steps away from the guess grow, fourfold and then
//! twofold, until the answer is between two trials. A trial that misses the goal gives a new guess, which is tried while it lies between
//! the two, but twice at most; then the interval is halved. It is at once where round trips alone miss the goal: such a trial loses nothing,
//! so that it gives no guess.
//!
//! A machine need not lose more at every higher rate. The answer is then the crossing above the highest rate that meets the goal
//! below *all* that miss it: everything tried up to the interval met the goal (RFC 9971 takes inversions of loss the same way).
//! A dip that no trial fell into is not found.

use super::goal::{Goal, Precision};
use super::judge::Verdict;

/// A trial as the search sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// Frames offered a second.
    pub rate: u64,
    /// On which side of the answer that is.
    pub verdict: Verdict,
    /// Frames delivered a second.
    pub delivered: f64,
    /// It lost no more than the goal allows: its round trips alone missed it, and what it delivered says nothing of the answer.
    pub late: bool,
}

/// Between which rates the answer is sought, and how exactly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bracket {
    /// The lowest rate that is tried, in frames a second.
    pub min: u64,
    /// The highest.
    pub max: u64,
    /// How wide the interval may be at the end.
    pub precision: Precision,
    /// After so many trials the search ends in any case.
    pub trials_max: usize,
}

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The interval is as narrow as was asked.
    Precise,
    /// Even the highest rate meets the goal.
    AtHighest,
    /// Even the lowest rate misses it.
    BelowLowest,
    /// Trials between the interval's ends did not say on which side they are.
    Undecided,
    /// Too many trials.
    TooMany,
}

/// The interval that holds the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The highest rate that met the goal, below all that missed it. None did if there is none.
    pub low: Option<u64>,
    /// The lowest rate that missed it. None did if there is none.
    pub high: Option<u64>,
    /// Why there is no narrower one.
    pub ended: Ended,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Try(u64),
    Done(Answer),
}

/// The guess may be so much too low, as a share of the lowest rate that missed the goal: a machine that does nothing useful
/// any more when overloaded delivers nothing that says what it could do.
const FALL_MAX: u64 = 32;
/// The first trials beside the guess are so many precisions away from it: together less than one.
const BESIDE: f64 = 0.45;
/// Once the answer is between two trials, so many may miss the goal before guesses have proved to be bad ones.
const GUESSES: usize = 2;

/// What the trials so far say.
struct State<'a> {
    bracket: &'a Bracket,
    seen: &'a [Seen],
    low: Option<u64>,
    high: Option<Seen>,
}

/// Between which rates the answer is, as far as these trials say: the highest that met the goal below all that missed it, and the
/// lowest that missed it.
pub(super) fn between(seen: &[Seen]) -> (Option<u64>, Option<Seen>) {
    let missed = seen.iter().filter(|trial| trial.verdict == Verdict::Above);
    let high = missed.min_by_key(|trial| trial.rate).copied();
    let met = seen.iter().filter(|trial| trial.verdict == Verdict::Below).map(|trial| trial.rate);
    (met.filter(|rate| high.is_none_or(|high| *rate < high.rate)).max(), high)
}

/// What is to be done after these trials, in the order in which they were asked for.
pub(super) fn next(bracket: &Bracket, goal: &Goal, seen: &[Seen]) -> Next {
    let (low, high) = between(seen);
    let state = State { bracket, seen, low, high };
    let done = |ended| Next::Done(Answer { low, high: high.map(|high| high.rate), ended });
    if seen.is_empty() {
        return Next::Try(bracket.max);
    }
    let top = high.map_or(bracket.max, |high| high.rate);
    match low {
        Some(low) if low == bracket.max => return done(Ended::AtHighest),
        // Rates are whole frames a second.
        Some(low) if high.is_some() && (top - low) as f64 <= (bracket.precision.0 * top as f64).max(1.0) => {
            return done(Ended::Precise);
        }
        None if top == bracket.min => return done(Ended::BelowLowest),
        _ => {}
    }
    if seen.len() >= bracket.trials_max {
        return done(Ended::TooMany);
    }
    match state.wanted(goal) {
        Some(rate) if !seen.iter().any(|trial| trial.rate == rate) => Next::Try(rate),
        _ => done(Ended::Undecided),
    }
}

impl State<'_> {
    /// The rate that loses just the goal's share of what the lowest missing trial delivered, if that says anything.
    fn guess(&self, goal: &Goal) -> Option<f64> {
        let high = self.high.filter(|high| !high.late);
        high.map(|high| (high.delivered / (1.0 - goal.loss)).min(high.rate as f64))
    }

    /// Whether guesses have not led anywhere.
    fn is_past_guessing(&self) -> bool {
        let since = self.seen.iter().skip_while(|trial| trial.verdict != Verdict::Below);
        since.filter(|trial| trial.verdict == Verdict::Above).count() > GUESSES
    }

    fn count(&self, verdict: Verdict) -> i32 {
        self.seen.iter().filter(|trial| trial.verdict == verdict).count() as i32
    }

    /// The rate that says most; nothing if all that are left lie too close to some that said nothing.
    fn wanted(&self, goal: &Goal) -> Option<u64> {
        let precision = self.bracket.precision.0;
        let bottom = self.low.unwrap_or(0);
        let top = self.high.map_or(self.bracket.max, |high| high.rate);
        let undecided =
            self.seen.iter().filter(|trial| trial.verdict == Verdict::Undecided).map(|trial| trial.rate);
        let undecided: Vec<u64> = undecided.filter(|rate| (bottom..=top).contains(rate)).collect();
        // Between these nothing is known.
        let fog = undecided.iter().min().copied().zip(undecided.iter().max().copied());
        let Some(low) = self.low else {
            let below = fog.map_or(top, |(lowest, _)| lowest);
            return (below > self.bracket.min).then(|| self.down_from(below, goal));
        };
        let Some((lowest, highest)) = fog else { return Some(self.between(low, top, goal)) };
        let narrow = precision / 4.0 * top as f64;
        if (top - highest) as f64 > narrow && top != highest {
            Some(self.towards(highest, top, self.count(Verdict::Undecided) - 1))
        } else if (lowest - low) as f64 > narrow {
            Some(lowest - (self.towards(0, lowest - low, 0)).min((BESIDE * precision * lowest as f64) as u64))
        } else {
            None
        }
    }

    /// Below all that did not meet the goal: at the guess, less a distance that grows fourfold with the first and then twofold: the
    /// lowest that missed it has given a better guess. Without one, half of it.
    fn down_from(&self, below: u64, goal: &Goal) -> u64 {
        let (precision, min) = (self.bracket.precision.0, self.bracket.min);
        let failures = self.count(Verdict::Above) + self.count(Verdict::Undecided);
        let distance = match failures {
            ..=1 => BESIDE * precision,
            _ => BESIDE * precision * f64::powi(2.0, failures.min(15)),
        };
        let Some(guess) = self.guess(goal) else {
            return round(below as f64 / 2.0, below).clamp(min, (below - 1).max(min));
        };
        let wanted = (guess * (1.0 - distance).max(0.0)).min(below as f64 * (1.0 - BESIDE * precision));
        round(wanted, below).clamp((below / FALL_MAX).max(min), (below - 1).max(min))
    }

    /// Between one that met the goal and one that missed it: a little above the guess, or below it, if that says anything new.
    fn between(&self, low: u64, top: u64, goal: &Goal) -> u64 {
        let precision = self.bracket.precision.0;
        let guess = self.guess(goal);
        if guess.is_none() || self.is_past_guessing() {
            return round((low as f64 + top as f64) / 2.0, top).clamp(low + 1, (top - 1).max(low + 1));
        }
        if let (Some(guess), ..=2) = (guess, self.count(Verdict::Below)) {
            let news = low as f64 * (1.0 + precision / 4.0)..=top as f64 * (1.0 - precision / 4.0);
            for beside in [guess * (1.0 + BESIDE * precision), guess * (1.0 - BESIDE * precision)] {
                if news.contains(&beside) {
                    return round(beside, top).clamp(low + 1, (top - 1).max(low + 1));
                }
            }
        }
        self.towards(low, top, self.count(Verdict::Below))
    }

    /// Some steps up from `low`, each four times as far as the one before, but no further than half way to `top`.
    fn towards(&self, low: u64, top: u64, steps: i32) -> u64 {
        let step = BESIDE * self.bracket.precision.0 * 2.0 * f64::powi(4.0, (steps - 1).clamp(0, 15));
        let middle = (low as f64 + top as f64) / 2.0;
        let wanted = if low == 0 { middle } else { (low as f64 * (1.0 + step)).min(middle) };
        round(wanted, top).clamp(low + 1, (top - 1).max(low + 1))
    }
}

/// To four digits: rates are for people, too. Never up to `below`.
fn round(rate: f64, below: u64) -> u64 {
    let rate = rate.max(1.0) as u64;
    let unit = 10u64.pow(rate.ilog10().saturating_sub(4));
    let rounded = (rate + unit / 2) / unit * unit;
    if rounded < below { rounded } else { rate.min(below.saturating_sub(1)).max(1) }
}

/// The rates that may be asked for next, the first of them surely, whatever the trials that are not done yet will say; at most
/// `count`. Before the first trial nothing can be guessed.
pub(super) fn speculate(bracket: &Bracket, goal: &Goal, seen: &[Seen], count: usize) -> Vec<u64> {
    let mut rates = Vec::new();
    let mut futures = std::collections::VecDeque::from([seen.to_vec()]);
    let mut looked_at = 0;
    while let Some(future) = futures.pop_front() {
        looked_at += 1;
        let Next::Try(rate) = next(bracket, goal, &future) else { continue };
        if !rates.contains(&rate) {
            rates.push(rate);
        }
        if rates.len() >= count || looked_at > 8 * count || seen.is_empty() {
            break;
        }
        // What an overloaded trial would deliver is what the last one delivered.
        let before =
            future.iter().filter(|trial| trial.verdict == Verdict::Above).min_by_key(|trial| trial.rate);
        let delivered = before.map_or(rate as f64 / 2.0, |trial| trial.delivered.min(rate as f64));
        for (verdict, delivered) in [(Verdict::Below, rate as f64), (Verdict::Above, delivered)] {
            let mut further = future.clone();
            further.push(Seen { rate, verdict, delivered, late: false });
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

    fn seen(rate: u64, verdict: Verdict, delivered: f64) -> Seen {
        Seen { rate, verdict, delivered, late: false }
    }

    /// The trials of a search whose every answer is known.
    fn trials(bracket: &Bracket, goal: &Goal, says: impl Fn(u64) -> Seen) -> (Answer, Vec<Seen>) {
        let mut trials = Vec::new();
        loop {
            match next(bracket, goal, &trials) {
                Next::Done(answer) => return (answer, trials),
                Next::Try(rate) => trials.push(says(rate)),
            }
        }
    }

    #[test]
    fn round_trips_that_alone_miss_the_goal_halve_the_interval() {
        for (precision, most) in [(0.05, 12), (0.02, 13), (0.005, 15)] {
            let bracket =
                Bracket { min: 148_000, max: 148_000_000, precision: Precision(precision), ..BRACKET };
            for truth in [149_000, 700_000, 3_000_000, 9_700_000, 14_200_000, 60_000_000, 147_000_000] {
                let (answer, trials) = trials(&bracket, &msb(), |rate| match rate {
                    // Above this, frames are lost as well.
                    15_000_001.. if truth <= 15_000_000 => seen(rate, Verdict::Above, 15e6),
                    _ if rate <= truth => seen(rate, Verdict::Below, rate as f64),
                    _ => Seen { late: true, ..seen(rate, Verdict::Above, rate as f64) },
                });
                assert_eq!(answer.ended, Ended::Precise, "{truth}");
                assert!(answer.low.unwrap() <= truth && truth < answer.high.unwrap(), "{truth}: {answer:?}");
                let count = trials.len();
                assert!(count <= most + 4, "{truth} to {precision}: {count} trials");
            }
        }
    }

    /// As behind a queue that drops at random long before the machine is at its end.
    #[test]
    fn losses_that_hardly_grow_with_the_rate_do_not_lead_down_in_small_steps() {
        let bracket = Bracket { precision: Precision(0.05), ..BRACKET };
        for truth in [20_000, 200_000, 310_000, 700_000] {
            let (answer, trials) = trials(&bracket, &msb(), |rate| match rate <= truth {
                true => seen(rate, Verdict::Below, rate as f64),
                false => seen(rate, Verdict::Above, rate as f64 * 0.98),
            });
            assert_eq!(answer.ended, Ended::Precise, "{truth}");
            assert!(trials.len() <= 18, "{truth}: {} trials", trials.len());
        }
    }

    #[test]
    fn a_good_guess_is_confirmed_by_a_trial_on_each_side() {
        let mut trials = vec![seen(1_000_000, Verdict::Above, 198_000.0)];
        let Next::Try(below) = next(&BRACKET, &msb(), &trials) else { panic!() };
        assert_eq!(below, 198_200);
        trials.push(seen(below, Verdict::Below, below as f64));
        let Next::Try(above) = next(&BRACKET, &msb(), &trials) else { panic!() };
        assert_eq!(above, 201_800);
        trials.push(seen(above, Verdict::Above, 198_000.0));
        let answer = Answer { low: Some(below), high: Some(above), ended: Ended::Precise };
        assert_eq!(next(&BRACKET, &msb(), &trials), Next::Done(answer));
    }

    #[test]
    fn a_rate_of_a_few_frames_a_second_is_found_to_the_frame() {
        let bracket = Bracket { min: 1, max: 40, ..BRACKET };
        for truth in 1..40 {
            let mut trials = Vec::new();
            let answer = loop {
                match next(&bracket, &msb(), &trials) {
                    Next::Done(answer) => break answer,
                    Next::Try(rate) if rate > truth => trials.push(seen(rate, Verdict::Above, truth as f64)),
                    Next::Try(rate) => trials.push(seen(rate, Verdict::Below, rate as f64)),
                }
            };
            assert_eq!((answer.low, answer.high), (Some(truth), Some(truth + 1)), "{trials:?}");
        }
    }

    /// As gem5's machine does behind its I/O crossbar: overload brings more back than can be sustained without loss.
    #[test]
    fn a_guess_that_is_too_high_is_made_again_from_each_trial_that_misses_the_goal() {
        let bracket = Bracket { max: 100_000_000, precision: Precision(0.04), ..BRACKET };
        let mut trials = Vec::new();
        let answer = loop {
            match next(&bracket, &msb(), &trials) {
                Next::Done(answer) => break answer,
                Next::Try(rate) => trials.push(match rate {
                    ..27_200_000 => seen(rate, Verdict::Below, rate as f64),
                    28_000_000..30_000_000 => seen(rate, Verdict::Undecided, 28_500_000.0),
                    30_000_000.. => seen(rate, Verdict::Above, 29_100_000.0),
                    _ => seen(rate, Verdict::Above, rate as f64 * 0.97),
                }),
            }
        };
        assert_eq!(answer.ended, Ended::Precise, "{trials:?}");
        assert!((26_000_000..27_200_000).contains(&answer.low.unwrap()), "{answer:?}");
        // With steps that grow fourfold from the first guess it took nine.
        assert!(trials.len() <= 6, "{trials:#?}");
    }

    #[test]
    fn what_is_speculated_is_what_is_asked_for_when_the_guess_is_good() {
        let trials = vec![seen(1_000_000, Verdict::Above, 198_000.0)];
        assert_eq!(speculate(&BRACKET, &msb(), &trials, 2), [198_200, 201_800]);
        assert_eq!(speculate(&BRACKET, &msb(), &trials, 1), [198_200]);
    }

    #[test]
    fn a_rate_that_met_the_goal_above_one_that_missed_it_is_not_believed() {
        let trials = vec![
            seen(1_000_000, Verdict::Above, 800_000.0),
            seen(800_000, Verdict::Below, 800_000.0),
            seen(500_000, Verdict::Above, 400_000.0),
            seen(490_000, Verdict::Below, 490_000.0),
        ];
        let answer = Answer { low: Some(490_000), high: Some(500_000), ended: Ended::Precise };
        assert_eq!(next(&BRACKET, &msb(), &trials), Next::Done(answer));
    }

    #[test]
    fn around_a_rate_that_says_nothing_the_interval_stays_open() {
        let mut trials =
            vec![seen(1_000_000, Verdict::Above, 198_000.0), seen(198_200, Verdict::Undecided, 198_000.0)];
        let ended = loop {
            match next(&BRACKET, &msb(), &trials) {
                Next::Done(answer) => break answer,
                Next::Try(rate) => {
                    let verdict = match rate {
                        ..195_000 => Verdict::Below,
                        205_000.. => Verdict::Above,
                        _ => Verdict::Undecided,
                    };
                    trials.push(seen(rate, verdict, 198_000.0_f64.min(rate as f64)));
                }
            }
        };
        assert_eq!(ended.ended, Ended::Undecided);
        assert!((180_000..195_000).contains(&ended.low.unwrap()), "{ended:?}");
        assert!((205_000..222_000).contains(&ended.high.unwrap()), "{ended:?}");
        assert!(trials.len() < 25, "{}", trials.len());
    }
}
