//! Goal of a search: the highest rate that loses at most a share of the frames and keeps round trips within a
//! bound.

use std::fmt;
use std::str::FromStr;

use doorbell_sim::Ps;

/// Default arrival process of a search: RFC 2544 (section 20) tests with RFC 1242's constant load (section
/// 3.4), frames at equal intervals. Like a benchmark's default, it can be overridden by the user's settings.
pub const SEARCH_ARRIVALS: &str = "loadgen.traffic.arrivals=constant";

/// Share of frames that may be lost, and bound on round trips.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// Name by which it was requested.
    pub name: Name,
    /// Lost frames as a share of offered frames.
    pub loss: f64,
    /// Bound on round trips.
    pub latency: Option<LatencyBound>,
}

/// Name of a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// Maximum sustainable bandwidth: 1 % ("Userspace Networking in gem5").
    Msb,
    /// Non-drop rate: nothing is lost (RFC 2544's throughput).
    Ndr,
    /// Partial drop rate: 0.5 %.
    Pdr,
    /// Any other share.
    Loss,
}

impl Goal {
    /// Maximum change in queue occupancy within a valid window, as a share of offered frames.
    pub(super) fn tolerated_change(&self, precision: Precision) -> f64 {
        if self.loss > 0.0 { self.loss / 2.0 } else { precision.0 / 4.0 }
    }
}

impl FromStr for Goal {
    type Err = String;
    fn from_str(text: &str) -> Result<Goal, String> {
        let named = |name, loss| Ok(Goal { name, loss, latency: None });
        match text.trim().to_ascii_lowercase().as_str() {
            "msb" => named(Name::Msb, 0.01),
            "ndr" => named(Name::Ndr, 0.0),
            "pdr" => named(Name::Pdr, 0.005),
            other => match percent(other) {
                Some(loss) if (0.0..1.0).contains(&loss) => named(Name::Loss, loss),
                _ => Err(format!(
                    "\"{text}\" is not a goal: write msb (1 % lost), ndr (nothing lost), pdr (0.5 %), or a \
                     share such as 0.1%"
                )),
            },
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name {
            Name::Msb => write!(f, "MSB (at most 1 % lost")?,
            Name::Ndr => write!(f, "NDR (nothing lost")?,
            Name::Pdr => write!(f, "PDR (at most 0.5 % lost")?,
            Name::Loss => write!(f, "at most {} % lost", self.loss * 100.0)?,
        }
        if let Some(bound) = &self.latency {
            write!(f, ", {bound}")?;
        }
        if self.name == Name::Loss { Ok(()) } else { write!(f, ")") }
    }
}

/// A percentile of round trips and its upper bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyBound {
    /// The percentile as a fraction.
    pub percentile: (u64, u64),
    /// The upper bound.
    pub at_most: Ps,
}

impl FromStr for LatencyBound {
    type Err = String;
    fn from_str(text: &str) -> Result<LatencyBound, String> {
        let wrong =
            || format!("\"{text}\" is not a latency bound: write a percentile and a time, such as p99=20us");
        let (percentile, time) = text.split_once('=').ok_or_else(wrong)?;
        let digits = percentile.trim().strip_prefix('p').ok_or_else(wrong)?.replace('_', ".");
        let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
        let all = format!("{whole}{fraction}");
        let scale =
            u32::try_from(fraction.len()).ok().and_then(|n| 10u64.checked_pow(n)).ok_or_else(wrong)?;
        if all.is_empty() || !all.bytes().all(|b| b.is_ascii_digit()) || fraction.len() > 6 {
            return Err(wrong());
        }
        let percentile = (all.parse::<u64>().map_err(|_| wrong())?, 100 * scale);
        if percentile.0 == 0 || percentile.0 >= percentile.1 {
            return Err(format!("\"{text}\": a percentile must be between 0 and 100, such as p99=20us"));
        }
        let at_most: Ps = time.parse().map_err(|error| format!("\"{text}\": {error}"))?;
        Ok(LatencyBound { percentile, at_most })
    }
}

impl fmt::Display for LatencyBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (numerator, denominator) = self.percentile;
        write!(
            f,
            "p{} of round trips at most {}",
            numerator as f64 * 100.0 / denominator as f64,
            self.at_most
        )
    }
}

/// Width of the resulting interval, as a share of its upper end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Precision(pub f64);

impl FromStr for Precision {
    type Err = String;
    fn from_str(text: &str) -> Result<Precision, String> {
        match percent(text) {
            Some(share) if (0.0005..=0.5).contains(&share) => Ok(Precision(share)),
            _ => Err(format!("\"{text}\" is not a precision: write a share from 0.05% to 50%, such as 2%")),
        }
    }
}

/// Parses a share written in percent.
fn percent(text: &str) -> Option<f64> {
    let number: f64 = text.trim().strip_suffix('%')?.trim().parse().ok()?;
    number.is_finite().then_some(number / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_parse_by_name_or_by_share() {
        let loss = |text: &str| text.parse::<Goal>().map(|goal| goal.loss);
        assert_eq!(["msb", "NDR", "pdr", "0.1%"].map(loss), [Ok(0.01), Ok(0.0), Ok(0.005), Ok(0.001)]);
        for wrong in ["", "mbs", "1", "-1%", "100%", "nan%", "inf%"] {
            assert!(loss(wrong).unwrap_err().contains("msb"), "{wrong}");
        }
        assert_eq!("0.1%".parse::<Goal>().unwrap().to_string(), "at most 0.1 % lost");
    }

    #[test]
    fn a_latency_bound_has_a_percentile_and_a_time() {
        let bound: LatencyBound = "p99.9=20us".parse().unwrap();
        assert_eq!(bound, LatencyBound { percentile: (999, 1000), at_most: Ps::from_us(20) });
        assert_eq!(bound.to_string(), "p99.9 of round trips at most 20us");
        assert_eq!("p50=1ms".parse::<LatencyBound>().unwrap().percentile, (50, 100));
        for wrong in ["p99", "99=1us", "p=1us", "p0=1us", "p100=1us", "p99=1", "pxx=1us", "p9.9999999=1us"] {
            assert!(wrong.parse::<LatencyBound>().unwrap_err().contains(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_precision_is_a_share_within_its_limits() {
        assert_eq!("2%".parse(), Ok(Precision(0.02)));
        for wrong in ["2", "0%", "51%", "0.01%", "x%"] {
            assert!(wrong.parse::<Precision>().unwrap_err().contains("2%"), "{wrong}");
        }
    }
}
