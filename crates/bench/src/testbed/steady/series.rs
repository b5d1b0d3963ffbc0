//! Series of looks, cut into stretches, and whether a stretch differs from another by more than chance.

/// Two stretches differ by chance if it is by no more standard errors than this.
const CHANCE: f64 = 3.0;

/// What is counted for each of something else, look by look: its value and by how much chance may have moved it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ratio {
    looks: f64,
    n: f64,
    base: f64,
    nn: f64,
    nb: f64,
    bb: f64,
}

impl Ratio {
    /// So many since the last look, for so much of the base.
    pub fn add(&mut self, n: u64, base: u64) {
        let (n, base) = (n as f64, base as f64);
        self.looks += 1.0;
        self.n += n;
        self.base += base;
        self.nn += n * n;
        self.nb += n * base;
        self.bb += base * base;
    }

    pub fn value(&self) -> f64 {
        if self.base == 0.0 { 0.0 } else { self.n / self.base }
    }

    /// The standard error, by what the looks leave over when the value is taken out of them.
    pub fn error(&self) -> f64 {
        if self.base == 0.0 || self.looks < 2.0 {
            return 0.0;
        }
        let value = self.value();
        let rest = (self.nn - 2.0 * value * self.nb + value * value * self.bb).max(0.0);
        (rest * self.looks / (self.looks - 1.0)).sqrt() / self.base
    }

    /// Of both together.
    pub fn plus(mut self, other: &Ratio) -> Ratio {
        let sums = [other.looks, other.n, other.base, other.nn, other.nb, other.bb];
        let own = [&mut self.looks, &mut self.n, &mut self.base, &mut self.nn, &mut self.nb, &mut self.bb];
        own.into_iter().zip(sums).for_each(|(own, other)| *own += other);
        self
    }
}

/// A level, look by look.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Level {
    looks: f64,
    sum: f64,
    squares: f64,
}

impl Level {
    pub fn add(&mut self, level: u64) {
        let level = level as f64;
        self.looks += 1.0;
        self.sum += level;
        self.squares += level * level;
    }

    pub fn mean(&self) -> f64 {
        if self.looks == 0.0 { 0.0 } else { self.sum / self.looks }
    }

    pub fn error(&self) -> f64 {
        if self.looks < 2.0 {
            return 0.0;
        }
        let rest = (self.squares - self.sum * self.mean()).max(0.0);
        (rest / (self.looks - 1.0) / self.looks).sqrt()
    }

    /// Of both together.
    pub fn plus(mut self, other: &Level) -> Level {
        self.looks += other.looks;
        self.sum += other.sum;
        self.squares += other.squares;
        self
    }
}

/// How much successive values change: where they do most, by how many times what is tolerated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub excess: f64,
    pub before: f64,
    pub after: f64,
}

/// The largest change of these values, each with its standard error: of each beside the one before it, and of the last beside the
/// first. What chance does is judged by the middle ones of the errors: a step within a stretch would hide in its own.
pub(super) fn change(of: &[(f64, f64)], tolerated: impl Fn(f64, f64) -> f64) -> Change {
    let mut errors: Vec<f64> = of.iter().map(|(_, error)| *error).collect();
    errors.sort_by(f64::total_cmp);
    let middle = errors.len() / 2;
    let error = match errors.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => errors[middle],
        _ => (errors[middle - 1] + errors[middle]) / 2.0,
    };
    let chance = CHANCE * std::f64::consts::SQRT_2 * error;
    let ends = of.first().zip(of.last());
    let last = of.last().map_or(0.0, |(value, _)| *value);
    let none = Change { excess: 0.0, before: last, after: last };
    of.iter().zip(of.iter().skip(1)).chain(ends).fold(none, |worst, (before, after)| {
        let (before, after) = (before.0, after.0);
        let excess = (after - before).abs() / tolerated(before, after).max(chance);
        if excess > worst.excess { Change { excess, before, after } } else { worst }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(counts: &[(u64, u64)]) -> Ratio {
        let mut ratio = Ratio::default();
        counts.iter().for_each(|(n, base)| ratio.add(*n, *base));
        ratio
    }

    #[test]
    fn what_goes_with_its_base_has_no_error_and_what_does_not_has_one() {
        let even = ratio(&[(10, 5), (40, 20), (2, 1), (0, 0)]);
        assert_eq!((even.value(), even.error()), (2.0, 0.0));
        // Residuals of 1 and −1 over two looks: √(2 · 2/1) over a base of 20.
        let uneven = ratio(&[(21, 10), (19, 10)]);
        assert_eq!(uneven.value(), 2.0);
        assert!((uneven.error() - 2.0 / 20.0).abs() < 1e-12);
        assert_eq!((ratio(&[]).value(), ratio(&[(3, 0)]).error()), (0.0, 0.0));
    }

    #[test]
    fn two_together_are_as_one_that_saw_all() {
        let looks = [(21, 10), (19, 10), (5, 3), (8, 1)];
        let (all, parts) = (ratio(&looks), ratio(&looks[..1]).plus(&ratio(&looks[1..])));
        assert_eq!((parts.value(), parts.error()), (all.value(), all.error()));
    }

    #[test]
    fn what_is_tolerated_and_chance_are_no_change() {
        let excess = |of: &[(f64, f64)]| change(of, |a, b| (0.02 * a.max(b)).max(0.02)).excess;
        assert!(excess(&[(10.0, 0.0), (10.2, 0.0)]) <= 1.0 && excess(&[(10.0, 0.0), (10.3, 0.0)]) > 1.0);
        assert!(excess(&[(0.01, 0.0), (0.03, 0.0)]) <= 1.0);
        // Each step is small, and all together are not.
        let drift = [1.0, 1.015, 1.03, 1.045].map(|value| (value, 0.0));
        assert!(excess(&drift) > 1.0 && excess(&drift[..2]) <= 1.0);
        let noisy = [8.0, 5.0, 7.0, 6.0].map(|value| (value, 1.0));
        assert!(excess(&noisy) <= 1.0);
        // The first one's own step makes its error large.
        assert!(excess(&[(8.0, 5.0), (5.0, 0.1), (5.0, 0.1), (5.0, 0.1)]) > 1.0);
        assert!(excess(&[]) == 0.0 && excess(&[(1.0, 0.0)]) == 0.0);
    }

    #[test]
    fn a_level_that_rises_all_the_time_changes_and_one_that_swings_does_not() {
        let of = |levels: &mut dyn Iterator<Item = u64>| {
            let mut level = Level::default();
            levels.for_each(|one| level.add(one));
            (level.mean(), level.error())
        };
        let rising = |from: u64| of(&mut (from..from + 160).step_by(10));
        assert!(change(&[rising(0), rising(160)], |_, _| 4.0).excess > 1.0);
        let swings = |phase: u64| of(&mut (0..16).map(|n| (n + phase) % 2 * 100));
        assert!(change(&[swings(0), swings(1)], |_, _| 4.0).excess < 1.0);
        assert_eq!(swings(0).0, 50.0);
    }
}
