//! Parses the range of a parameter from its doc comment: "1 to 4096", "at most 1ms", "64B to 1GiB", "1, 2, 4 or 8". The
//! comment is the only documentation of the range; a test checks that values outside it are rejected.

use serde_json::{Map, Value};

/// The accepted values of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Range {
    /// Minimum and maximum, each optional; the flag also accepts 0, which the text must then mention.
    Between(Option<Bound>, Option<Bound>, bool),
    /// One of these.
    OneOf(Vec<Bound>),
}

/// An end of a range.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    number: f64,
    unit: String,
}

impl Range {
    /// The first range in a text whose numbers have one of these units, or no unit if `units` is empty.
    pub fn of(text: &str, units: &[&str]) -> Option<Range> {
        let tokens: Vec<&str> = text.split_whitespace().collect();
        (0..tokens.len()).find_map(|at| {
            let (first, used) = Bound::read(&tokens[at..], units)?;
            let (before, behind) = (&tokens[..at], &tokens[at + used..]);
            Range::from(before, first, behind, units)
        })
    }

    fn from(before: &[&str], first: Bound, behind: &[&str], units: &[&str]) -> Option<Range> {
        if let [.., "up", "to"] | [.., "at", "most"] | [.., "At", "most"] | [.., "Up", "to"] = before {
            return Some(Range::Between(None, Some(first), false));
        }
        if let [.., "at", "least"] | [.., "At", "least"] = before {
            return Some(Range::Between(Some(first), None, false));
        }
        if let Some(("to", rest)) = behind.split_first().map(|(word, rest)| (*word, rest)) {
            return Bound::read(rest, units).map(|(last, used)| {
                let or_none = first.number != 0.0 && rest[used..].contains(&"0");
                Range::Between(Some(first), Some(last), or_none)
            });
        }
        let (mut all, mut rest) = (vec![first], behind);
        while let Some((word, further)) = rest.split_first() {
            let is_last = *word == "or";
            let (next, used) = Bound::read(if is_last { further } else { rest }, units)?;
            all.push(next);
            if is_last {
                return Some(Range::OneOf(all));
            }
            rest = &rest[used..];
        }
        None
    }

    /// Puts it into the schema of a number.
    pub fn put_into(&self, schema: &mut Map<String, Value>) {
        let number = |bound: &Bound| match bound.number.fract() == 0.0 {
            true => Value::from(bound.number as i64),
            false => Value::from(bound.number),
        };
        match self {
            Range::Between(least, most, or_none) => {
                let least = least.iter().map(|bound| if *or_none { 0.into() } else { number(bound) });
                schema.extend(least.map(|least| ("minimum".to_owned(), least)));
                schema.extend(most.iter().map(|bound| ("maximum".to_owned(), number(bound))));
            }
            Range::OneOf(all) => {
                schema.insert("enum".to_owned(), all.iter().map(number).collect());
            }
        }
    }

    /// The range in words.
    pub fn text(&self) -> String {
        match self {
            Range::Between(Some(least), Some(most), or_none) => {
                format!("{} to {}{}", least.text(), most.text(), if *or_none { ", or 0" } else { "" })
            }
            Range::Between(Some(least), None, _) => format!("at least {}", least.text()),
            Range::Between(None, Some(most), _) => format!("at most {}", most.text()),
            Range::Between(None, None, _) => String::new(),
            Range::OneOf(all) => {
                let texts: Vec<String> = all.iter().map(Bound::text).collect();
                let (last, rest) = texts.split_last().expect("there are some");
                format!("{} or {last}", rest.join(", "))
            }
        }
    }

    /// Values just outside, as `--set` takes them.
    #[cfg(test)]
    pub fn outside(&self, is_whole: bool) -> Vec<String> {
        let step = |bound: &Bound| if is_whole { 1.0 } else { bound.number.abs().max(1.0) * 1e-3 };
        let spelt = |bound: &Bound, number: f64| Bound { number, ..bound.clone() }.text();
        // Times, sizes and rates are never negative.
        let below = |bound: &Bound| {
            let least = if bound.unit.is_empty() { f64::MIN } else { 0.0 };
            Some(bound.number - step(bound)).filter(|number| *number >= least).map(|n| spelt(bound, n))
        };
        let above = |bound: &Bound| spelt(bound, bound.number + step(bound));
        match self {
            Range::Between(least, most, or_none) => {
                let below = |bound: &Bound| below(bound).filter(|text| !(*or_none && text == "0"));
                least.iter().filter_map(below).chain(most.iter().map(above)).collect()
            }
            Range::OneOf(all) => all.last().map(above).into_iter().collect(),
        }
    }
}

impl Bound {
    /// Parses a number at the start of the tokens, and returns how many tokens it takes: the unit may be a separate token.
    fn read(tokens: &[&str], units: &[&str]) -> Option<(Bound, usize)> {
        let ends = |c: char| "\"`.,;:()".contains(c);
        let first = tokens.first()?.trim_start_matches(ends);
        let whole = first.trim_end_matches(ends);
        let split = whole.find(|c: char| !(c.is_ascii_digit() || ".,^".contains(c))).unwrap_or(whole.len());
        let (digits, unit) = whole.split_at(split);
        let number = number(digits)?;
        if unit.is_empty() && units.is_empty() {
            return Some((Bound { number, unit: String::new() }, 1));
        }
        if units.contains(&unit) {
            return Some((Bound { number, unit: unit.to_owned() }, 1));
        }
        let next = tokens.get(1)?.trim_end_matches(ends);
        let is_apart = unit.is_empty() && whole.len() == first.len() && units.contains(&next);
        is_apart.then(|| (Bound { number, unit: next.to_owned() }, 2))
    }

    fn text(&self) -> String {
        format!("{}{}", self.number, self.unit)
    }
}

/// Parses a number as comments write it: with commas between thousands, or as a power such as 2^20.
fn number(digits: &str) -> Option<f64> {
    match digits.split_once('^') {
        Some((base, power)) => Some(base.parse::<f64>().ok()?.powi(power.parse().ok()?)),
        None => digits.replace(',', "").parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range_text(text: &str, units: &[&str]) -> Option<String> {
        Range::of(text, units).map(|range| range.text())
    }

    #[test]
    fn first_range_with_a_matching_unit_is_found() {
        let time: &[&str] = &["ps", "ns", "us", "ms", "s"];
        for (text, units, range) in [
            ("Reorder buffer entries, 1 to 4096.", &[][..], "1 to 4096"),
            ("Ten of 5us. How far, from 10ns to 100us (docs).", time, "10ns to 100us"),
            ("Takes \"1ps\" to \"1s\".", time, "1ps to 1s"),
            ("Busy for a while, up to 1 ms.", time, "at most 1ms"),
            ("At most 100us.", time, "at most 100us"),
            ("Lanes: 1, 2, 4, 8, 12, 16 or 32.", &[], "1, 2, 4, 8, 12, 16 or 32"),
            ("Keys, 1 to 10,000,000; to 7.", &[], "1 to 10000000"),
            ("Buckets, a power of two up to 2^30.", &[], "at most 1073741824"),
            ("From 0.01 to 16.", &[], "0.01 to 16"),
            ("Entries, 16 to 65536; 0 leaves jumps to others.", &[], "16 to 65536, or 0"),
        ] {
            assert_eq!(range_text(text, units).as_deref(), Some(range), "{text}");
        }
        for (text, units) in [
            ("Half of 64 ways", &[][..]),
            ("The default, 20, is the real one: 8 of preamble", &[]),
            ("1 to 4096", time),
            ("16 bytes of memory each", &["B"]),
        ] {
            assert_eq!(range_text(text, units), None, "{text}");
        }
    }
}
