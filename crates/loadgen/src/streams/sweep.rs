//! Field sweeps: a header field that varies from frame to frame and so defines flows. The nth value is a
//! function of n or, for random orders, of a hash of n.
//!
//! Zipf's law (value k, counted from 1, has a probability proportional to 1/k^skew) uses the alias method of
//! Walker and Vose: one random number and one look-up per draw. The table is computed once, with `libm`.

use doorbell_sim::config::check;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::decimal::Decimal;
use crate::frame::hash;

/// A header field that varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Field {
    /// Source MAC address: its lower three bytes.
    SourceMac,
    /// Destination MAC address: its lower three bytes.
    DestinationMac,
    /// Source IP address: all of an IPv4 address, the lower eight bytes of an IPv6 address.
    SourceIp,
    /// Destination IP address: as for the source.
    DestinationIp,
    /// The source port.
    SourcePort,
    /// The destination port.
    DestinationPort,
    /// ID of the innermost VLAN.
    Vlan,
}

impl Field {
    /// Number of values of the field.
    pub(crate) fn capacity(self, is_ipv6: bool) -> u64 {
        match self {
            Field::SourceMac | Field::DestinationMac => 1 << 24,
            Field::SourceIp | Field::DestinationIp if is_ipv6 => u64::MAX,
            Field::SourceIp | Field::DestinationIp => 1 << 32,
            Field::SourcePort | Field::DestinationPort => 1 << 16,
            Field::Vlan => 1 << 12,
        }
    }
}

/// Order of the values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Order {
    /// Ascending from the stream's own value, then again from there.
    #[default]
    Increment,
    /// Descending from the stream's own value, then again from there.
    Decrement,
    /// Random, all values equally likely.
    Random,
    /// Random by Zipf's law, the first value most often.
    Zipf {
        /// Exponent, 0 to 10: the kth value has a probability proportional to 1/k^skew.
        skew: Decimal,
    },
}

/// Configuration of a varying field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SweepConfig {
    /// The field.
    pub field: Field,
    /// Number of values including the stream's own, at least 1.
    pub count: u64,
    /// Difference between consecutive values, at least 1.
    #[serde(default = "one")]
    pub step: u64,
    /// Order of the values.
    #[serde(default)]
    pub order: Order,
    /// Number of consecutive frames with one value, at least 1.
    #[serde(default = "one")]
    pub every: u64,
}

fn one() -> u64 {
    1
}

/// A table of this size takes about 16 MiB.
const ZIPF_COUNT_MAX: u64 = 1 << 20;
const SKEW_MAX: Decimal = Decimal(10_000_000);

impl SweepConfig {
    /// An ascending sweep with step one.
    pub fn upwards(field: Field, count: u64) -> SweepConfig {
        SweepConfig { field, count, step: 1, order: Order::Increment, every: 1 }
    }

    /// Checks every value.
    pub(crate) fn validate(&self, is_ipv6: bool) -> Result<(), String> {
        let most = self.field.capacity(is_ipv6);
        for (key, value) in [("count", self.count), ("step", self.step), ("every", self.every)] {
            check(key, &value, 1..)?;
        }
        if (self.count - 1).checked_mul(self.step).is_none_or(|span| span >= most) {
            return Err(format!(
                "count = {} with step = {} exceeds the field's {most} values; reduce count or step",
                self.count, self.step
            ));
        }
        match self.order {
            Order::Zipf { .. } if self.count > ZIPF_COUNT_MAX => Err(format!(
                "count = {} is too large for Zipf's law; the maximum is {ZIPF_COUNT_MAX}",
                self.count
            )),
            Order::Zipf { skew } => Ok(check("skew", &skew, ..=SKEW_MAX)?),
            _ => Ok(()),
        }
    }
}

/// Chooses a sweep's values.
#[derive(Clone, Debug)]
pub(crate) struct Sweep {
    pub(crate) config: SweepConfig,
    key: u64,
    zipf: Option<Zipf>,
}

impl Sweep {
    pub(crate) fn new(config: SweepConfig, key: u64) -> Sweep {
        let zipf = match config.order {
            Order::Zipf { skew } => Some(Zipf::new(config.count, skew.value())),
            _ => None,
        };
        Sweep { config, key, zipf }
    }

    /// Value number, from 0, of the stream's frame `index`.
    pub(crate) fn choice(&self, index: u64) -> u64 {
        let turn = if self.config.every == 1 { index } else { index / self.config.every };
        match (self.config.order, &self.zipf) {
            (Order::Zipf { .. }, Some(zipf)) => zipf.draw(hash(self.key ^ turn)),
            (Order::Random, _) => below(self.config.count, hash(self.key ^ turn)).0,
            _ => turn % self.config.count,
        }
    }

    /// Difference of the choice from the stream's own value, in two's complement.
    pub(crate) fn distance(&self, choice: u64) -> u64 {
        let distance = choice.wrapping_mul(self.config.step);
        if self.config.order == Order::Decrement { distance.wrapping_neg() } else { distance }
    }
}

/// A number below `bound`, and 64 bits of the position within its share.
fn below(bound: u64, random: u64) -> (u64, u64) {
    let product = u128::from(random) * u128::from(bound);
    ((product >> 64) as u64, product as u64)
}

/// Sampler for Zipf's law.
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    /// Per column: the threshold (in 2^-64) up to which it yields itself, and the alternative above it.
    columns: Vec<(u64, u32)>,
}

impl Zipf {
    pub(crate) fn new(count: u64, skew: f64) -> Zipf {
        let weights: Vec<f64> = (1..=count).map(|k| libm::pow(k as f64, -skew)).collect();
        // Smallest first, to minimise rounding errors.
        let sum: f64 = weights.iter().rev().sum();
        let mut shares: Vec<f64> = weights.iter().map(|weight| weight / sum * count as f64).collect();
        let mut columns = vec![(u64::MAX, 0); count as usize];
        let (mut small, mut large): (Vec<usize>, Vec<usize>) =
            (0..shares.len()).partition(|k| shares[*k] < 1.0);
        while let (Some(poor), Some(&rich)) = (small.pop(), large.last()) {
            columns[poor] = ((shares[poor] * 18_446_744_073_709_551_616.0) as u64, rich as u32);
            shares[rich] -= 1.0 - shares[poor];
            if shares[rich] < 1.0 {
                large.pop();
                small.push(rich);
            }
        }
        // Remaining columns have a share of one, except for rounding, and yield themselves.
        Zipf { columns }
    }

    pub(crate) fn draw(&self, random: u64) -> u64 {
        let (column, within) = below(self.columns.len() as u64, random);
        let (threshold, other) = self.columns[column as usize];
        if within <= threshold { column } else { u64::from(other) }
    }
}

#[cfg(test)]
#[path = "sweep_tests.rs"]
mod tests;
