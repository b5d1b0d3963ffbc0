//! Sums of samples in a stretch, and the test whether stretches differ significantly.

/// Standard errors by which two stretches may differ by chance.
const CHANCE: f64 = 3.0;

/// A ratio estimator over samples, such as misses per frame: its value and standard error.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ratio {
    samples: f64,
    n: f64,
    base: f64,
    nn: f64,
    nb: f64,
    bb: f64,
}

impl Ratio {
    /// Adds a sample: the increase of the count and of its base since the previous one.
    pub fn add(&mut self, n: u64, base: u64) {
        let (n, base) = (n as f64, base as f64);
        self.samples += 1.0;
        self.n += n;
        self.base += base;
        self.nn += n * n;
        self.nb += n * base;
        self.bb += base * base;
    }

    pub fn value(&self) -> f64 {
        if self.base == 0.0 { 0.0 } else { self.n / self.base }
    }

    /// The standard error, from the residuals of the samples.
    pub fn error(&self) -> f64 {
        if self.base == 0.0 || self.samples < 2.0 {
            return 0.0;
        }
        let value = self.value();
        let rest = (self.nn - 2.0 * value * self.nb + value * value * self.bb).max(0.0);
        (rest * self.samples / (self.samples - 1.0)).sqrt() / self.base
    }

    /// The ratio over the samples of both.
    pub fn plus(mut self, other: &Ratio) -> Ratio {
        let sums = [other.samples, other.n, other.base, other.nn, other.nb, other.bb];
        let own = [&mut self.samples, &mut self.n, &mut self.base, &mut self.nn, &mut self.nb, &mut self.bb];
        own.into_iter().zip(sums).for_each(|(own, other)| *own += other);
        self
    }
}

/// A sampled level: its mean and standard error.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Level {
    samples: f64,
    sum: f64,
    squares: f64,
}

impl Level {
    pub fn add(&mut self, level: u64) {
        let level = level as f64;
        self.samples += 1.0;
        self.sum += level;
        self.squares += level * level;
    }

    pub fn mean(&self) -> f64 {
        if self.samples == 0.0 { 0.0 } else { self.sum / self.samples }
    }

    pub fn error(&self) -> f64 {
        if self.samples < 2.0 {
            return 0.0;
        }
        let rest = (self.squares - self.sum * self.mean()).max(0.0);
        (rest / (self.samples - 1.0) / self.samples).sqrt()
    }

    /// The level over the samples of both.
    pub fn plus(mut self, other: &Level) -> Level {
        self.samples += other.samples;
        self.sum += other.sum;
        self.squares += other.squares;
        self
    }
}

/// The largest change in a series of values; `excess` is its ratio to the tolerated change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub excess: f64,
    pub before: f64,
    pub after: f64,
}

/// The largest change between successive values, and between the first and the last; each value has its
/// standard error. The change due to chance follows from the median error: a step within a stretch would
/// otherwise hide behind the large error of that stretch.
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
    fn standard_error_is_zero_for_counts_proportional_to_their_base() {
        let even = ratio(&[(10, 5), (40, 20), (2, 1), (0, 0)]);
        assert_eq!((even.value(), even.error()), (2.0, 0.0));
        // Residuals of 1 and −1 over two samples: √(2 · 2/1) over a base of 20.
        let uneven = ratio(&[(21, 10), (19, 10)]);
        assert_eq!(uneven.value(), 2.0);
        assert!((uneven.error() - 2.0 / 20.0).abs() < 1e-12);
        assert_eq!((ratio(&[]).value(), ratio(&[(3, 0)]).error()), (0.0, 0.0));
    }

    #[test]
    fn sum_of_two_ratios_equals_one_ratio_over_all_samples() {
        let samples = [(21, 10), (19, 10), (5, 3), (8, 1)];
        let (all, parts) = (ratio(&samples), ratio(&samples[..1]).plus(&ratio(&samples[1..])));
        assert_eq!((parts.value(), parts.error()), (all.value(), all.error()));
    }

    #[test]
    fn changes_within_the_tolerance_or_by_chance_have_no_excess() {
        let excess = |of: &[(f64, f64)]| change(of, |a, b| (0.02 * a.max(b)).max(0.02)).excess;
        assert!(excess(&[(10.0, 0.0), (10.2, 0.0)]) <= 1.0 && excess(&[(10.0, 0.0), (10.3, 0.0)]) > 1.0);
        assert!(excess(&[(0.01, 0.0), (0.03, 0.0)]) <= 1.0);
        // Each step is small, but their sum is not.
        let drift = [1.0, 1.015, 1.03, 1.045].map(|value| (value, 0.0));
        assert!(excess(&drift) > 1.0 && excess(&drift[..2]) <= 1.0);
        let noisy = [8.0, 5.0, 7.0, 6.0].map(|value| (value, 1.0));
        assert!(excess(&noisy) <= 1.0);
        // A step within the first stretch makes its error large.
        assert!(excess(&[(8.0, 5.0), (5.0, 0.1), (5.0, 0.1), (5.0, 0.1)]) > 1.0);
        assert!(excess(&[]) == 0.0 && excess(&[(1.0, 0.0)]) == 0.0);
    }

    #[test]
    fn rising_level_has_excess_and_oscillating_level_has_none() {
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
