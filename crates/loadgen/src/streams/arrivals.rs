//! Arrival processes: how a stream's frames are spread over time, apart from how fast they are on the whole.
//!
//! A process yields gaps whose mean is one, in units of frames; the stream's rate, constant or rising, makes times of
//! them (`clock`). So every process keeps its rate in the long run, and a ramp goes with any process. The nth gap is a
//! function of a hash of n: the inverse of the distribution where there is one in closed form, and Box and Muller's
//! transform for the normal distribution, over `libm`, whose results are the same on every platform.

use doorbell_sim::Ps;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::decimal::Decimal;
use crate::frame::hash;

/// How the distances between events are distributed about their mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Spacing {
    /// All alike.
    #[default]
    Constant,
    /// Exponentially, as between the events of a Poisson process.
    #[serde(alias = "exponential")]
    Poisson,
    /// Evenly, from (1 − spread) to (1 + spread) times the mean.
    Uniform {
        /// From 0 to 1.
        spread: Decimal,
    },
    /// Log-normally.
    Lognormal {
        /// The standard deviation of the logarithm, above 0 to 5.
        sigma: Decimal,
    },
    /// By Pareto's law, with a heavy tail.
    Pareto {
        /// The exponent of the tail, 1.05 to 100; the variance is infinite at 2 and below.
        shape: Decimal,
    },
}

/// When a stream's frames are due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Arrivals {
    /// At equal distances.
    Constant,
    /// Each frame somewhere, evenly, in a time of its own: these times are equal, and follow each other without a gap. So the rate is
    /// as exact as a constant one, and no program's pace can fall into step with the frames.
    #[default]
    Jitter,
    /// A Poisson process.
    #[serde(alias = "exponential")]
    Poisson,
    /// Evenly, from (1 − spread) to (1 + spread) times the mean.
    Uniform {
        /// From 0 to 1.
        spread: Decimal,
    },
    /// Log-normally.
    Lognormal {
        /// The standard deviation of the logarithm, above 0 to 5.
        sigma: Decimal,
    },
    /// By Pareto's law, with a heavy tail.
    Pareto {
        /// The exponent of the tail, 1.05 to 100.
        shape: Decimal,
    },
    /// Sends for a while, then is silent for a while. The rate is the mean over both.
    OnOff {
        /// The mean length of a time of sending.
        on: Ps,
        /// The mean length of a silence.
        off: Ps,
        /// How the lengths are distributed about their means.
        #[serde(default)]
        lengths: Spacing,
        /// How the frames are spread within a time of sending.
        #[serde(default)]
        gaps: Spacing,
    },
    /// Frames in bursts. The rate is the mean, so a burst begins each `frames` / rate.
    Bursts {
        /// Frames of a burst, 2 to 1048576.
        frames: u32,
        /// From the first bit of a frame to that of the next one in the burst. Without it, as fast as the line carries them.
        #[serde(default)]
        gap: Option<Ps>,
        /// How the distances between the beginnings of bursts are distributed about their mean.
        #[serde(default)]
        spacing: Spacing,
    },
}

/// A gap of one, in the fixed point of gaps and positions.
pub(crate) const ONE: u128 = 1 << FRACTION_BITS;
pub(crate) const FRACTION_BITS: u32 = 40;
/// Makes a second random number of a first.
const SECOND: u64 = 0x6a09_e667_f3bc_c909;

impl Spacing {
    /// Why no such distribution can be had, with the key to blame.
    pub(crate) fn problem(self) -> Option<String> {
        let out = |key: &str, value: Decimal, from: &str, to: &str| {
            Some(format!("{key} = {value} is out of range; it must be from {from} to {to}"))
        };
        match self {
            Spacing::Uniform { spread } if spread > Decimal::ONE => out("spread", spread, "0", "1"),
            Spacing::Lognormal { sigma } if sigma == Decimal(0) || sigma > Decimal(5_000_000) => {
                out("sigma", sigma, "0.000001", "5")
            }
            Spacing::Pareto { shape } if !(Decimal(1_050_000)..=Decimal(100_000_000)).contains(&shape) => {
                out("shape", shape, "1.05", "100")
            }
            _ => None,
        }
    }

    /// The gap that a random number stands for: mean one, as fixed point with [`FRACTION_BITS`] bits of fraction.
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

/// A number above 0 and up to 1.
fn unit(random: u64) -> f64 {
    ((random >> 11) + 1) as f64 / (1u64 << 53) as f64
}

/// A number of the standard normal distribution.
fn normal(random: u64) -> f64 {
    let radius = libm::sqrt(-2.0 * libm::log(unit(random)));
    radius * libm::cos(std::f64::consts::TAU * unit(hash(random ^ SECOND)))
}

impl Arrivals {
    /// How the events that a stream's positions count are spread: frames, or the beginnings of bursts.
    pub(crate) fn spacing(self) -> Spacing {
        match self {
            // Jitter is no matter of gaps: it is of places about equal distances.
            Arrivals::Constant | Arrivals::Jitter => Spacing::Constant,
            Arrivals::Poisson => Spacing::Poisson,
            Arrivals::Uniform { spread } => Spacing::Uniform { spread },
            Arrivals::Lognormal { sigma } => Spacing::Lognormal { sigma },
            Arrivals::Pareto { shape } => Spacing::Pareto { shape },
            Arrivals::OnOff { gaps, .. } => gaps,
            Arrivals::Bursts { spacing, .. } => spacing,
        }
    }

    /// Why there can be no such process, with the key to blame.
    pub(crate) fn problem(self) -> Option<String> {
        let own = match self {
            Arrivals::OnOff { on: Ps(0), .. } => Some("on is zero; nothing would be sent".to_owned()),
            Arrivals::OnOff { on, off, lengths, .. } => {
                let too_long = on.0.saturating_add(off.0) > 1_000 * Ps::PER_SECOND;
                let long = too_long.then(|| "on and off are more than \"1000s\" together".to_owned());
                long.or_else(|| lengths.problem().map(|problem| format!("lengths: {problem}")))
            }
            Arrivals::Bursts { frames, .. } if !(2..=1 << 20).contains(&frames) => {
                Some(format!("frames = {frames} is out of range; a burst has from 2 to 1048576"))
            }
            _ => None,
        };
        own.or_else(|| self.spacing().problem())
    }
}

#[cfg(test)]
#[path = "arrivals_tests.rs"]
mod tests;
