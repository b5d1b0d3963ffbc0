//! Arrival processes: the distribution of a stream's frames over time, independent of its rate.
//!
//! A process yields gaps with a mean of one frame; the stream's rate, constant or ramped, converts them to
//! times (`clock`). Every process therefore keeps its rate in the long run and can be combined with a ramp.
//! The nth gap is a function of a hash of n. It uses the inverse of the distribution function if that has a
//! closed form, and the Box-Muller transform for the normal distribution. `libm` gives the same results on
//! every platform.

use doorbell_sim::Ps;
use doorbell_sim::config::{OutOfRange, check};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::decimal::Decimal;
use crate::frame::hash;

/// Distribution of intervals about their mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Spacing {
    /// Constant.
    #[default]
    Constant,
    /// Exponential, as in a Poisson process.
    #[serde(alias = "exponential")]
    Poisson,
    /// Uniform, from (1 − spread) to (1 + spread) times the mean.
    Uniform {
        /// Relative spread, 0 to 1.
        spread: Decimal,
    },
    /// Log-normal.
    Lognormal {
        /// Standard deviation of the logarithm, above 0 to 5.
        sigma: Decimal,
    },
    /// Pareto (heavy tail).
    Pareto {
        /// Exponent of the tail, 1.05 to 100; the variance is infinite at 2 and below.
        shape: Decimal,
    },
}

/// Arrival process of a stream's frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Arrivals {
    /// Constant intervals.
    Constant,
    /// Time is divided into equal slots, one per frame; each frame is due at a uniformly random time in its
    /// slot. The rate is as exact as with constant intervals, and polling loops cannot synchronise with the
    /// frames.
    #[default]
    Jitter,
    /// A Poisson process.
    #[serde(alias = "exponential")]
    Poisson,
    /// Uniform intervals, from (1 − spread) to (1 + spread) times the mean.
    Uniform {
        /// Relative spread, 0 to 1.
        spread: Decimal,
    },
    /// Log-normal intervals.
    Lognormal {
        /// Standard deviation of the logarithm, above 0 to 5.
        sigma: Decimal,
    },
    /// Pareto intervals (heavy tail).
    Pareto {
        /// Exponent of the tail, 1.05 to 100.
        shape: Decimal,
    },
    /// Alternating on-periods and off-periods. The rate is the mean over both.
    OnOff {
        /// Mean length of an on-period.
        on: Ps,
        /// Mean length of an off-period.
        off: Ps,
        /// Distribution of both lengths.
        #[serde(default)]
        lengths: Spacing,
        /// Distribution of the frame intervals in an on-period.
        #[serde(default)]
        gaps: Spacing,
    },
    /// Frames in bursts. The rate is the mean, so on average a burst begins every `frames` / rate.
    Bursts {
        /// Frames per burst, 2 to 1048576.
        frames: u32,
        /// Time between the first bits of consecutive frames in a burst; line rate if not set.
        #[serde(default)]
        gap: Option<Ps>,
        /// Distribution of the intervals between the starts of bursts.
        #[serde(default)]
        spacing: Spacing,
    },
}

/// A gap of one frame in fixed point, as used for gaps and positions.
pub(crate) const ONE: u128 = 1 << FRACTION_BITS;
pub(crate) const FRACTION_BITS: u32 = 40;
/// Derives a second random number from the first.
const SECOND: u64 = 0x6a09_e667_f3bc_c909;

impl Spacing {
    /// Checks every value.
    pub(crate) fn validate(self) -> Result<(), OutOfRange> {
        match self {
            Spacing::Uniform { spread } => check("spread", &spread, ..=Decimal::ONE),
            Spacing::Lognormal { sigma } => check("sigma", &sigma, Decimal(1)..=Decimal(5_000_000)),
            Spacing::Pareto { shape } => check("shape", &shape, Decimal(1_050_000)..=Decimal(100_000_000)),
            Spacing::Constant | Spacing::Poisson => Ok(()),
        }
    }

    /// The gap for a random number: mean one, in fixed point with [`FRACTION_BITS`] fraction bits.
    pub(crate) fn gap(self, random: u64) -> u128 {
        let gap = match self {
            Spacing::Constant => return ONE,
            Spacing::Poisson => -libm::log(unit(random)),
            Spacing::Uniform { spread } => 1.0 + spread.value() * (2.0 * unit(random) - 1.0),
            Spacing::Lognormal { sigma } => {
                let sigma = sigma.value();
                libm::exp(sigma * normal(random) - sigma * sigma / 2.0)
            }
            Spacing::Pareto { shape } => {
                let shape = shape.value();
                (shape - 1.0) / shape * libm::exp(-libm::log(unit(random)) / shape)
            }
        };
        (gap * ONE as f64) as u128
    }
}

/// A uniform number above 0, up to 1.
fn unit(random: u64) -> f64 {
    ((random >> 11) + 1) as f64 / (1u64 << 53) as f64
}

/// A standard normal number.
fn normal(random: u64) -> f64 {
    let radius = libm::sqrt(-2.0 * libm::log(unit(random)));
    radius * libm::cos(std::f64::consts::TAU * unit(hash(random ^ SECOND)))
}

impl Arrivals {
    /// Distribution of the gaps between the events that positions count: frames or burst starts.
    pub(crate) fn spacing(self) -> Spacing {
        match self {
            // Jitter has constant gaps and random offsets.
            Arrivals::Constant | Arrivals::Jitter => Spacing::Constant,
            Arrivals::Poisson => Spacing::Poisson,
            Arrivals::Uniform { spread } => Spacing::Uniform { spread },
            Arrivals::Lognormal { sigma } => Spacing::Lognormal { sigma },
            Arrivals::Pareto { shape } => Spacing::Pareto { shape },
            Arrivals::OnOff { gaps, .. } => gaps,
            Arrivals::Bursts { spacing, .. } => spacing,
        }
    }

    /// Checks every value.
    pub(crate) fn validate(self) -> Result<(), String> {
        match self {
            Arrivals::OnOff { on: Ps(0), .. } => return Err("on is zero; nothing would be sent".to_owned()),
            Arrivals::OnOff { on, off, lengths, .. } => {
                if on.0.saturating_add(off.0) > 1_000 * Ps::PER_SECOND {
                    return Err("on and off together exceed \"1000s\"".to_owned());
                }
                lengths.validate().map_err(|problem| format!("lengths: {problem}"))?;
            }
            Arrivals::Bursts { frames, .. } => check("frames", &frames, 2..=1 << 20)?,
            _ => {}
        }
        Ok(self.spacing().validate()?)
    }
}

#[cfg(test)]
#[path = "arrivals_tests.rs"]
mod tests;
