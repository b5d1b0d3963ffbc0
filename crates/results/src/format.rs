//! Human-readable figures: thousands grouped, a suitable number of digits, SI prefixes. No locale.

/// Placeholder for a missing figure.
pub const NONE: &str = "–";

/// A text on one line, with control characters replaced.
pub fn one_line(text: &str) -> String {
    let printable: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    printable.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A whole number with grouped thousands.
pub fn grouped(value: u64) -> String {
    group_digits(&value.to_string())
}

/// Digits in groups of three.
pub fn group_digits(digits: &str) -> String {
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A non-negative value with a fixed number of decimals and grouped thousands.
pub fn fixed(value: f64, decimals: usize) -> String {
    // Not `max`, which may keep the sign of -0.0.
    let value = if value > 0.0 { value } else { 0.0 };
    let text = format!("{value:.decimals$}");
    match text.split_once('.') {
        Some((whole, fraction)) => format!("{}.{fraction}", group_digits(whole)),
        None => group_digits(&text),
    }
}

/// About three significant digits: 0.512, 9.41, 14.9, 231, 1,234.
pub fn short(value: f64) -> String {
    // At these limits, rounding with one decimal less still shows three digits.
    let decimals = match value {
        v if v >= 99.95 || v <= 0.0 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.9995 => 2,
        _ => 3,
    };
    fixed(value, decimals)
}

/// A count in at most five characters: 9,999, then 10.0k, 123k, 1.23M.
pub fn count(value: u64) -> String {
    if value < 10_000 {
        return grouped(value);
    }
    scaled(value as f64, &[(1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T"), (1e15, "P"), (1e18, "E")], "")
}

/// A time given in nanoseconds: 640 ns, 2.14 µs, 180 µs, 1.23 ms.
pub fn duration_ns(ns: f64) -> String {
    scaled(ns, &[(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")], " ")
}

/// A time given in seconds.
pub fn duration_s(seconds: f64) -> String {
    duration_ns(seconds * 1e9)
}

/// The value in the first of `units` that gives less than four digits before the decimal point.
fn scaled(value: f64, units: &[(f64, &str)], gap: &str) -> String {
    let (scale, unit) =
        units.iter().find(|(scale, _)| value / scale < 999.5).or(units.last()).copied().unwrap_or((1.0, ""));
    format!("{}{gap}{unit}", short(value / scale))
}

/// A loss ratio in percent with three decimals; nonzero loss is never shown as zero.
pub fn percent(ratio: Option<f64>) -> String {
    match ratio {
        None => NONE.to_owned(),
        Some(ratio) if ratio > 0.0 && ratio < 0.000_005 => "<0.001".to_owned(),
        Some(ratio) => fixed(ratio * 100.0, 3),
    }
}

/// A short percentage with its sign (after a non-breaking space), for labels: 0 %, 0.53 %, 36.7 %, 100 %.
pub fn percent_label(ratio: f64) -> String {
    match ratio * 100.0 {
        v if v <= 0.0 => "0\u{a0}%".to_owned(),
        v if v < 0.005 => "<0.01\u{a0}%".to_owned(),
        v if v < 9.995 => format!("{}\u{a0}%", fixed(v, 2)),
        v if v < 99.95 => format!("{}\u{a0}%", fixed(v, 1)),
        v => format!("{}\u{a0}%", fixed(v, 0)),
    }
}

/// An offered or delivered rate: 9.412, 0.500, 148.8.
pub fn rate(value: f64) -> String {
    fixed(value, if value >= 99.995 { 2 } else { 3 })
}

/// A rate without trailing zeros, for axis labels and prose: 1, 4.5, 14.88. A value that three decimals would
/// round to zero keeps two digits.
pub fn trimmed(value: f64) -> String {
    let decimals = if value > 0.0 && value < 5e-4 { 1 - value.log10().floor() as i32 } else { 3 };
    let text = fixed(value, decimals.unsigned_abs() as usize);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// An axis tick label: small values keep their digits, large ones are short, to fit next to the axis.
pub fn axis_label(value: f64) -> String {
    match value.abs() {
        0.0 => trimmed(value),
        // A tick has few digits; further digits are rounding errors of the sum of steps.
        small if small < 1e-4 => {
            let text = format!("{value:.3e}");
            let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            format!("{}e{exponent}", digits.trim_end_matches('0').trim_end_matches('.'))
        }
        small if small < 0.1 => format!("{value:.6}").trim_end_matches('0').to_owned(),
        large if large >= 1e7 => format!("{} M", trimmed(value / 1e6)),
        large if large >= 1e4 => format!("{} k", trimmed(value / 1e3)),
        _ => trimmed(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        let cases = [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")];
        for (value, text) in cases {
            assert_eq!(grouped(value), text);
        }
        assert_eq!(fixed(1234.56, 1), "1,234.6");
        assert_eq!(fixed(999_999.96, 1), "1,000,000.0");
        assert_eq!(fixed(-0.0, 1), "0.0");
    }

    #[test]
    fn rounding_never_gives_a_fourth_digit_before_the_unit_changes() {
        let cases =
            [(9_999, "9,999"), (10_000, "10.0k"), (99_950, "100k"), (999_499, "999k"), (999_500, "1.00M")];
        for (value, text) in cases {
            assert_eq!(count(value), text);
        }
        assert!(count(u64::MAX).chars().count() <= 5, "{}", count(u64::MAX));
        assert_eq!(duration_ns(999.4), "999 ns");
        assert_eq!(duration_ns(999.6), "1.00 µs");
        assert_eq!(duration_ns(2_140.0), "2.14 µs");
        assert_eq!(duration_ns(180_340.0), "180 µs");
        assert_eq!(duration_s(0.002), "2.00 ms");
        assert_eq!(duration_s(61.0), "61.0 s");
        assert_eq!(short(0.512), "0.512");
        assert_eq!(short(9.999), "10.0");
        assert_eq!(short(99.97), "100");
        assert_eq!(short(0.0), "0");
    }

    #[test]
    fn nonzero_loss_is_never_shown_as_zero() {
        assert_eq!(percent(Some(0.0)), "0.000");
        assert_eq!(percent(Some(1e-9)), "<0.001");
        assert_eq!(percent(Some(0.367_47)), "36.747");
        assert_eq!(percent(None), "–");
        assert_eq!(percent_label(1e-9), "<0.01\u{a0}%");
        assert_eq!(percent_label(0.0), "0\u{a0}%");
        assert_eq!(percent_label(0.3675), "36.8\u{a0}%");
        assert_eq!(percent_label(1.0), "100\u{a0}%");
    }

    #[test]
    fn ticks_of_small_values_are_distinct() {
        let step = 0.0002;
        let ticks: Vec<String> = (0..5).map(|n| axis_label(f64::from(n) * step)).collect();
        assert_eq!(ticks, ["0", "0.0002", "0.0004", "0.0006", "0.0008"]);
        assert_eq!(axis_label(3.0 * 2e-7), "6e-7");
        assert_eq!([axis_label(0.035), axis_label(0.5), axis_label(2e4)], ["0.035", "0.5", "20 k"]);
    }

    #[test]
    fn labels_have_no_trailing_zeros() {
        assert_eq!(trimmed(14.88), "14.88");
        assert_eq!(trimmed(10.0), "10");
        assert_eq!(trimmed(0.0), "0");
        assert_eq!([trimmed(0.000_1), trimmed(0.000_234)], ["0.0001", "0.00023"]);
        assert_eq!(trimmed(1500.0), "1,500");
    }
}
