//! Rates as configured, and the exact due time of the nth frame.

use std::fmt;
use std::str::FromStr;

use doorbell_sim::units::{UnitError, parse_scaled};
use doorbell_sim::{BitsPerSec, Ps};
use doorbell_wire::LinkConfig;

/// Transmit rate.
///
/// | Text | Meaning |
/// |---|---|
/// | `5Mpps` | frames per second |
/// | `10Gbps` or `10Gbps-l2` | bits per second at layer 2: the frame with its FCS |
/// | `10Gbps-l1` | bits per second at layer 1: with preamble and gap |
/// | `40%` | share of the link's maximum frame rate at this frame size |
/// | `2x` | multiple of the streams' own rates; only for the total of all streams |
///
/// With several frame sizes, bits and percent refer to the mean size. A rate above the link rate is allowed;
/// frames then leave back to back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Frames per second.
    Frames(u64),
    /// Bits per second at layer 2.
    BitsL2(BitsPerSec),
    /// Bits per second at layer 1.
    BitsL1(BitsPerSec),
    /// Millionths of a percent of the link's maximum frame rate.
    Line(u64),
    /// Millionths of the streams' own rates.
    Times(u64),
}

impl Rate {
    const EXPECTED: &'static str = "a rate such as \"5Mpps\", \"10Gbps\", \"10Gbps-l1\" or \"40%\"";
    const FRAMES: [(&'static str, u64); 4] =
        [("pps", 1), ("kpps", 1_000), ("Mpps", 1_000_000), ("Gpps", 1_000_000_000)];
    const PERCENT: u64 = 1_000_000;
    /// Factor one: the streams' own rates, unscaled.
    pub const ONCE: u64 = 1_000_000;
    const UNITS: [(&'static str, u64); 11] = [
        Self::FRAMES[0],
        Self::FRAMES[1],
        Self::FRAMES[2],
        Self::FRAMES[3],
        ("bps", 1),
        ("kbps", 1_000),
        ("Mbps", 1_000_000),
        ("Gbps", 1_000_000_000),
        ("Tbps", 1_000_000_000_000),
        ("%", Self::PERCENT),
        ("x", Self::ONCE),
    ];

    /// The mean frame period in picoseconds, as a fraction, for frames whose lengths (without FCS) repeat
    /// `round`.
    fn period(self, round: &[usize], link: &LinkConfig) -> (u128, u128) {
        let second = u128::from(Ps::PER_SECOND);
        let frames = round.len() as u128;
        let l2: u128 = round.iter().map(|frame_len| bits_l2(*frame_len)).sum();
        let l1: u128 = round.iter().map(|frame_len| 8 * u128::from(link.wire_bytes(*frame_len))).sum();
        let (numerator, denominator) = match self {
            Rate::Frames(rate) => (second, u128::from(rate)),
            Rate::BitsL2(rate) => (l2 * second, u128::from(rate.0) * frames),
            Rate::BitsL1(rate) => (l1 * second, u128::from(rate.0) * frames),
            Rate::Line(share) => (
                l1 * second * u128::from(100 * Self::PERCENT),
                u128::from(link.rate.0) * u128::from(share) * frames,
            ),
            Rate::Times(_) => unreachable!("validated traffic has an absolute rate"),
        };
        reduced(numerator, denominator)
    }
}

fn reduced(numerator: u128, denominator: u128) -> (u128, u128) {
    let divisor = greatest_common_divisor(numerator, denominator);
    (numerator / divisor, denominator / divisor)
}

fn bits_l2(frame_len: usize) -> u128 {
    8 * (frame_len as u128 + doorbell_sim::Frame::FCS_BYTES as u128)
}

fn greatest_common_divisor(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

impl FromStr for Rate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Rate, UnitError> {
        let trimmed = text.trim();
        let layer_1 = trimmed.strip_suffix("bps-l1").is_some();
        let layer = if layer_1 { "-l1" } else { "-l2" };
        let plain = if trimmed.ends_with("bps-l1") || trimmed.ends_with("bps-l2") {
            trimmed.trim_end_matches(layer)
        } else {
            trimmed
        };
        let fail = |problem: String| UnitError { text: text.to_owned(), problem, expected: Self::EXPECTED };
        let value = parse_scaled(plain, &Self::UNITS, Self::EXPECTED).map_err(|error| fail(error.problem))?;
        if value == 0 {
            return Err(fail("is zero".to_owned()));
        }
        Ok(if plain.ends_with('%') {
            Rate::Line(value)
        } else if plain.ends_with('x') {
            Rate::Times(value)
        } else if plain.ends_with("pps") {
            Rate::Frames(value)
        } else if layer_1 {
            Rate::BitsL1(BitsPerSec(value))
        } else {
            Rate::BitsL2(BitsPerSec(value))
        })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Rate::Frames(frames) => {
                let mut units = Self::FRAMES.iter().rev();
                let (unit, scale) =
                    units.find(|(_, scale)| frames.is_multiple_of(*scale)).unwrap_or(&Self::FRAMES[0]);
                write!(f, "{}{unit}", frames / scale)
            }
            Rate::BitsL2(rate) => write!(f, "{rate}"),
            Rate::BitsL1(rate) => write!(f, "{rate}-l1"),
            Rate::Line(share) => write!(f, "{}%", decimal(share)),
            Rate::Times(share) => write!(f, "{}x", decimal(share)),
        }
    }
}

/// Formats millionths as a decimal number.
fn decimal(millionths: u64) -> String {
    let (whole, fraction) = (millionths / 1_000_000, format!("{:06}", millionths % 1_000_000));
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{whole}{point}{fraction}")
}

doorbell_sim::text_serde!(Rate);
doorbell_sim::text_schema!(
    Rate,
    "a rate such as \"5Mpps\", \"10Gbps\" (layer 2), \"10Gbps-l1\", \"40%\" of the line, or \"2x\" the streams' own rates",
    &["pps", "kpps", "Mpps", "bps", "kbps", "Mbps", "Gbps", "%", "x"]
);

/// Due times at a constant rate. The nth time is computed from n, so there is no drift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pacing {
    start: Ps,
    /// The period in picoseconds is `numerator / denominator`.
    numerator: u128,
    denominator: u128,
}

impl Pacing {
    /// Frames of `frame_len` bytes (without FCS) at `rate`, the first at `start`.
    pub fn new(start: Ps, rate: Rate, frame_len: usize, link: &LinkConfig) -> Pacing {
        Pacing::of_round(start, rate, &[frame_len], link)
    }

    /// Frames whose lengths (without FCS) repeat those in `round`.
    pub fn of_round(start: Ps, rate: Rate, round: &[usize], link: &LinkConfig) -> Pacing {
        let (numerator, denominator) = rate.period(round, link);
        Pacing { start, numerator, denominator }
    }

    /// A clock that runs at `speed` millionths of real time: `offset` converts picoseconds.
    pub(crate) fn of_clock(speed: u64) -> Pacing {
        let (numerator, denominator) = reduced(u128::from(Rate::ONCE), u128::from(speed));
        Pacing { start: Ps::ZERO, numerator, denominator }
    }

    /// Scales the rate exactly by `times` millionths.
    pub(crate) fn scaled_by_millionths(self, times: u64) -> Pacing {
        let by = |number: u128, factor: u64| number.checked_mul(u128::from(factor));
        match (by(self.numerator, Rate::ONCE), by(self.denominator, times)) {
            (Some(numerator), Some(denominator)) => {
                let (numerator, denominator) = reduced(numerator, denominator);
                Pacing { numerator, denominator, ..self }
            }
            _ => self.scaled(times as f64 / Rate::ONCE as f64),
        }
    }

    /// Scales the rate by `factor`, with a relative error of 2^-52.
    pub(crate) fn scaled(self, factor: f64) -> Pacing {
        const DENOMINATOR: u128 = 1 << 50;
        let period = self.numerator as f64 / self.denominator as f64 / factor;
        let (numerator, denominator) = reduced(((period * DENOMINATOR as f64) as u128).max(1), DENOMINATOR);
        Pacing { numerator, denominator, ..self }
    }

    /// Due time of frame `n`, counted from 0, rounded down to a picosecond; [`Ps::MAX`] if out of range.
    pub fn nth(&self, n: u64) -> Ps {
        self.start.saturating_add(Ps(self.offset(u128::from(n), 0).unwrap_or(u64::MAX)))
    }

    /// Duration of `frames` and `fraction` / 2^40 frame periods; none if out of range.
    pub(crate) fn offset(&self, frames: u128, fraction: u64) -> Option<u64> {
        let mut product = frames.checked_mul(self.numerator)?;
        if fraction != 0 {
            let fraction = u128::from(fraction);
            // Shifted to avoid overflow, which loses less than 2^-48 of a period.
            let part = match self.numerator >> 88 {
                0 => (fraction * self.numerator) >> 40,
                _ => fraction * (self.numerator >> 40),
            };
            product = product.checked_add(part)?;
        }
        match (u64::try_from(product), u64::try_from(self.denominator)) {
            // The usual case; a 128-bit division takes several times as long.
            (Ok(product), Ok(denominator)) => Some(product / denominator),
            _ => u64::try_from(product / self.denominator).ok(),
        }
    }

    /// Frames per second, for reports.
    pub fn frames_per_second(&self) -> f64 {
        Ps::PER_SECOND as f64 * self.denominator as f64 / self.numerator as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rate(text: &str) -> Rate {
        text.parse().unwrap()
    }

    #[test]
    fn rates_parse_in_all_units() {
        for (text, parsed, shown) in [
            ("5Mpps", Rate::Frames(5_000_000), "5Mpps"),
            ("14.88 Mpps", Rate::Frames(14_880_000), "14880kpps"),
            ("10Gbps", Rate::BitsL2(BitsPerSec(10_000_000_000)), "10Gbps"),
            ("10Gbps-l2", Rate::BitsL2(BitsPerSec(10_000_000_000)), "10Gbps"),
            ("2.5Gbps-l1", Rate::BitsL1(BitsPerSec(2_500_000_000)), "2500Mbps-l1"),
            ("40%", Rate::Line(40_000_000), "40%"),
            ("33.3%", Rate::Line(33_300_000), "33.3%"),
            ("0.000001%", Rate::Line(1), "0.000001%"),
            ("2.5x", Rate::Times(2_500_000), "2.5x"),
        ] {
            assert_eq!((rate(text), parsed.to_string().as_str()), (parsed, shown));
            assert_eq!(rate(shown), parsed);
        }
    }

    #[test]
    fn error_of_invalid_rate_shows_examples() {
        for text in
            ["5", "5Mfps", "", "0Mpps", "0%", "0x", "10Gbps-l3", "5Mpps-l1", "40%-l1", "1e9pps", "-5Mpps"]
        {
            let error = text.parse::<Rate>().unwrap_err().to_string();
            assert!(error.contains("10Gbps-l1") && error.contains(&format!("\"{text}\"")), "{error}");
        }
    }

    #[test]
    fn rate_units_are_consistent() {
        let link = LinkConfig { rate: "10Gbps".parse().unwrap(), ..LinkConfig::default() };
        let pace = |text: &str| Pacing::new(Ps::ZERO, rate(text), 60, &link);
        // 64 B at 10 Gbps: 67.2 ns per frame on the line, 51.2 ns without preamble and gap.
        assert_eq!(pace("100%").nth(10), Ps(672_000));
        assert_eq!(pace("10Gbps-l1"), pace("100%"));
        assert_eq!(pace("10Gbps").nth(10), Ps(512_000));
        assert_eq!(pace("40%").nth(2), Ps(336_000));
        assert_eq!(pace("5Mpps").nth(5), Ps(1_000_000));
        assert!((pace("100%").frames_per_second() / 14_880_952.38 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn due_times_do_not_drift_over_a_billion_frames() {
        let link = LinkConfig::default();
        let pacing = Pacing::new(Ps(5), rate("3Mpps"), 60, &link);
        // 10⁹ frames at 3 Mpps are 333 1/3 s.
        assert_eq!(pacing.nth(1_000_000_000), Ps(5 + 333_333_333_333_333));
        assert_eq!(pacing.nth(3_000_000), Ps(5 + Ps::PER_SECOND));
        let line = Pacing::new(Ps::ZERO, rate("100%"), 60, &link);
        assert_eq!(line.nth(1_000_000_000), Ps(6_720_000_000_000));
    }

    #[test]
    fn out_of_range_due_time_is_never() {
        let pacing = Pacing::new(Ps::ZERO, rate("1pps"), 60, &LinkConfig::default());
        assert_eq!(pacing.nth(u64::MAX), Ps::MAX);
        let slow = Pacing::new(Ps::ZERO, rate("0.000001%"), 16_380, &LinkConfig::default());
        assert_eq!(slow.nth(u64::MAX), Ps::MAX);
    }

    proptest! {
        #[test]
        fn nth_due_time_is_floor_of_n_periods(pps in 1u64..400_000_000, n in 0u64..10_000_000) {
            let pacing = Pacing::new(Ps::ZERO, Rate::Frames(pps), 60, &LinkConfig::default());
            let t = u128::from(pacing.nth(n).0);
            let exact = u128::from(n) * 1_000_000_000_000;
            prop_assert!(t * u128::from(pps) <= exact && exact < (t + 1) * u128::from(pps));
        }

        #[test]
        fn every_rate_round_trips_through_text(value in 1u64..u64::MAX / 2, kind in 0u8..5) {
            let rate = match kind {
                0 => Rate::Frames(value),
                1 => Rate::BitsL2(BitsPerSec(value)),
                2 => Rate::BitsL1(BitsPerSec(value)),
                3 => Rate::Line(value),
                _ => Rate::Times(value),
            };
            prop_assert_eq!(rate.to_string().parse::<Rate>().unwrap(), rate);
        }
    }
}
