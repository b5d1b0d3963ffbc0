//! Axes: mapping of values to positions between 0 and 1, with ticks at round numbers.

use crate::svg::exact;

/// A labelled position on an axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    /// Position, in the axis's unit.
    pub value: f64,
    /// Label text.
    pub label: String,
}

/// Mapping of an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scale {
    /// From zero to a round number at or above the largest value, in steps of `step`.
    Linear {
        /// The end of the axis.
        max: f64,
        /// Distance between ticks.
        step: f64,
    },
    /// Between two round numbers around the values.
    Log {
        /// The start of the axis.
        min: f64,
        /// The end of the axis.
        max: f64,
    },
}

/// Format read by the page's script: "lin 0 16", "log 1 1000".
impl std::fmt::Display for Scale {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Scale::Linear { max, .. } => write!(out, "lin 0 {}", exact(*max)),
            Scale::Log { min, max } => write!(out, "log {} {}", exact(*min), exact(*max)),
        }
    }
}

/// Minimum ratio of the largest to the smallest value for a logarithmic axis.
const LOG_FROM_RATIO: f64 = 20.0;

impl Scale {
    /// An axis from zero with about `ticks` steps.
    pub fn linear(largest: f64, ticks: u32) -> Scale {
        let largest = if largest > 0.0 { largest } else { 1.0 };
        let step = nice_at_least(largest / f64::from(ticks) * 0.8);
        // A value up to a thousandth of a step beyond a tick still ends on that tick.
        let steps = (largest / step - 0.001).ceil().max(1.0);
        Scale::Linear { max: steps * step, step }
    }

    /// A logarithmic axis if the values need one, and a linear one otherwise.
    pub fn fitting(values: &[f64], ticks: u32) -> Scale {
        let largest = values.iter().copied().fold(0.0, f64::max);
        let smallest = values.iter().copied().fold(f64::INFINITY, f64::min);
        if smallest > 0.0 && largest / smallest > LOG_FROM_RATIO {
            Scale::Log { min: nice_at_most(smallest), max: nice_at_least(largest) }
        } else {
            Scale::linear(largest, ticks)
        }
    }

    /// A logarithmic axis around the positive values.
    pub fn log(values: &[f64]) -> Scale {
        let above_zero = || values.iter().copied().filter(|value| *value > 0.0);
        let largest = above_zero().fold(0.0, f64::max);
        if largest == 0.0 {
            return Scale::Log { min: 0.1, max: 1.0 };
        }
        let smallest = above_zero().fold(f64::INFINITY, f64::min);
        if smallest < largest && largest < NARROW_BELOW_RATIO * smallest {
            let step = nice_at_least((largest - smallest) / 4.0);
            // The start is above zero, as a logarithm requires, because a step is less than half of the
            // smallest value.
            return Scale::Log { min: (smallest / step).floor() * step, max: (largest / step).ceil() * step };
        }
        let min = nice_at_most(smallest);
        // A single value also needs an axis of non-zero length.
        Scale::Log { min, max: nice_at_least(largest).max(min * 2.0) }
    }

    /// Position of a value: 0 at the axis's start, 1 at its end, clamped.
    pub fn place(&self, value: f64) -> f64 {
        let place = match *self {
            Scale::Linear { max, .. } => value / max,
            Scale::Log { min, max } => (value.max(min) / min).ln() / (max / min).ln(),
        };
        place.clamp(0.0, 1.0)
    }

    /// The ticks, labelled by `label`.
    pub fn ticks(&self, label: impl Fn(f64) -> String) -> Vec<Tick> {
        let values: Vec<f64> = match *self {
            Scale::Linear { max, step } => {
                (0..=(max / step).round() as u32).map(|n| f64::from(n) * step).collect()
            }
            Scale::Log { min, max } => log_ticks(min, max),
        };
        values.into_iter().map(|value| Tick { value, label: label(value) }).collect()
    }

    /// Whether the axis is logarithmic.
    pub fn is_log(&self) -> bool {
        matches!(self, Scale::Log { .. })
    }
}

/// Maximum ratio of values for linear tick spacing on a logarithmic axis. Below it, 1, 2 and 5 of each decade
/// are too few ticks.
const NARROW_BELOW_RATIO: f64 = 2.0;
/// The same limit for the axis ends, which are up to a step beyond the values.
const STEPS_BELOW_RATIO: f64 = 2.6;

/// Ticks at 1, 2 and 5 of each decade; for many decades, only at decades or some of them.
fn log_ticks(min: f64, max: f64) -> Vec<f64> {
    let decades = (max / min).log10();
    if max < STEPS_BELOW_RATIO * min {
        let step = nice_at_least((max - min) / 5.0);
        let (first, last) = ((min / step - 0.001).ceil() as u64, (max / step + 0.001).floor() as u64);
        return (first..=last).map(|n| n as f64 * step).collect();
    }
    let digits: &[f64] = if decades < 3.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let every = if decades < 3.0 { 1 } else { (decades / 7.0).ceil() as usize };
    // The tolerance of a thousandth includes the ends despite rounding of powers of ten.
    let (low, high) = (min * 0.999, max * 1.001);
    let ticks = (min.log10().floor() as i32..=max.log10().ceil() as i32)
        .flat_map(|exponent| digits.iter().map(move |digit| digit * 10f64.powi(exponent)))
        .filter(|value| (low..=high).contains(value));
    ticks.step_by(every).collect()
}

/// The smallest of 1, 2, 5 times a power of ten that is at least `value` (within a thousandth).
fn nice_at_least(value: f64) -> f64 {
    let decade = 10f64.powi(value.log10().floor() as i32);
    let digit = [1.0, 2.0, 5.0].into_iter().find(|digit| digit * decade * 1.001 >= value);
    digit.unwrap_or(10.0) * decade
}

/// The largest of 1, 2, 5 times a power of ten that is at most `value`.
fn nice_at_most(value: f64) -> f64 {
    let decade = 10f64.powi(value.log10().floor() as i32);
    let digit = [5.0, 2.0, 1.0].into_iter().find(|digit| digit * decade * 0.999 <= value);
    digit.unwrap_or(1.0) * decade
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::{duration_ns, trimmed};
    use proptest::prelude::*;

    fn labels(scale: Scale) -> Vec<String> {
        scale.ticks(trimmed).into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn linear_ticks_count_in_ones_twos_and_fives() {
        assert_eq!(labels(Scale::linear(14.88, 6)), ["0", "2", "4", "6", "8", "10", "12", "14", "16"]);
        assert_eq!(labels(Scale::linear(36.7, 4)), ["0", "10", "20", "30", "40"]);
        assert_eq!(labels(Scale::linear(0.9, 4)), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        assert_eq!(labels(Scale::linear(10.0, 5)), ["0", "2", "4", "6", "8", "10"]);
    }

    #[test]
    fn an_axis_without_values_still_has_a_length() {
        let scale = Scale::linear(0.0, 5);
        assert_eq!(labels(scale), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        assert_eq!(scale.place(0.0), 0.0);
    }

    #[test]
    fn logarithmic_ticks_end_at_nice_numbers_around_the_values() {
        let scale = Scale::fitting(&[2_100.0, 180_000.0], 5);
        assert_eq!(scale, Scale::Log { min: 2_000.0, max: 200_000.0 });
        let labels: Vec<String> = scale.ticks(duration_ns).into_iter().map(|tick| tick.label).collect();
        assert_eq!(labels, ["2.00 µs", "5.00 µs", "10.0 µs", "20.0 µs", "50.0 µs", "100 µs", "200 µs"]);
        assert_eq!(scale.place(2_000.0), 0.0);
        assert!((scale.place(20_000.0) - 0.5).abs() < 1e-9);
        assert_eq!(scale.place(200_000.0), 1.0);
    }

    #[test]
    fn values_close_together_fill_a_logarithmic_axis() {
        let scale = Scale::log(&[27.434, 27.948, 28.71]);
        assert_eq!(labels(scale), ["27", "27.5", "28", "28.5", "29"]);
        assert!(scale.is_log() && scale.place(27.434) > 0.1 && scale.place(28.71) < 0.9);
        assert_eq!(labels(Scale::log(&[10.0, 19.9])), ["10", "12", "14", "16", "18", "20"]);
        assert_eq!(labels(Scale::log(&[23.496])), ["20", "30", "40", "50"], "a single value");
    }

    #[test]
    fn many_decades_have_at_most_one_tick_each() {
        assert_eq!(labels(Scale::fitting(&[1.0, 1e5], 5)), ["1", "10", "100", "1,000", "10,000", "100,000"]);
        assert_eq!(Scale::fitting(&[1.0, 1e12], 5).ticks(trimmed).len(), 7);
    }

    #[test]
    fn values_within_a_factor_of_twenty_stay_linear() {
        assert!(!Scale::fitting(&[10.0, 200.0], 5).is_log());
        assert!(Scale::fitting(&[10.0, 201.0], 5).is_log());
        assert!(!Scale::fitting(&[0.0, 201.0], 5).is_log(), "no logarithm of zero");
    }

    proptest! {
        #[test]
        fn every_axis_contains_its_values_and_has_few_ticks(
            values in prop::collection::vec((1u64..1000, -9i32..12), 1..9),
            ticks in 3u32..8,
        ) {
            let values: Vec<f64> = values.iter().map(|(m, e)| *m as f64 * 10f64.powi(*e)).collect();
            let largest = values.iter().copied().fold(0.0, f64::max);
            for scale in [Scale::linear(largest, ticks), Scale::fitting(&values, ticks)] {
                let ticks = scale.ticks(trimmed);
                prop_assert!((2..=14).contains(&ticks.len()), "{ticks:?}");
                prop_assert!(ticks.is_sorted_by(|a, b| a.value < b.value));
                let end = match scale { Scale::Linear { max, .. } | Scale::Log { max, .. } => max };
                prop_assert!(end * 1.01 >= largest && end <= largest * 10.0, "{scale:?} for {largest}");
                for value in &values {
                    prop_assert!((0.0..=1.0).contains(&scale.place(*value)));
                }
            }
        }
    }
}
