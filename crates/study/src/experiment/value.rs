//! Table cells, and conversion of values with units to numbers.

use super::plan::ExperimentError;

/// A cell of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Empty.
    None,
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// Text.
    Text(String),
}

impl Cell {
    /// The cell as a number.
    pub fn number(&self) -> Option<f64> {
        match self {
            Cell::Int(value) => Some(*value as f64),
            Cell::Float(value) => Some(*value),
            Cell::None | Cell::Text(_) => None,
        }
    }

    /// The cell as text; an empty cell yields the empty string.
    pub fn text(&self) -> String {
        match self {
            Cell::None => String::new(),
            Cell::Int(value) => value.to_string(),
            Cell::Float(value) => value.to_string(),
            Cell::Text(text) => text.clone(),
        }
    }

    /// Converts a JSON scalar; a Boolean becomes 0 or 1. Lists and objects yield `None`.
    pub fn of_json(value: &serde_json::Value) -> Option<Cell> {
        Some(match value {
            serde_json::Value::Null => Cell::None,
            serde_json::Value::Bool(truth) => Cell::Int(i64::from(*truth)),
            serde_json::Value::Number(number) => match number.as_i64() {
                Some(whole) => Cell::Int(whole),
                None => Cell::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            serde_json::Value::String(text) => Cell::Text(text.clone()),
            serde_json::Value::Array(_) | serde_json::Value::Object(_) => return None,
        })
    }
}

/// Formats a TOML value as the right-hand side of `--set`.
pub(crate) fn as_set(path: &str, value: &toml::Value) -> Result<String, ExperimentError> {
    match value {
        toml::Value::String(text) => Ok(text.clone()),
        toml::Value::Table(_) => {
            let problem = format!(
                "\"{path}\" is a table; write the full path with dots, in quotes, such as \"nic.rx_fifo\""
            );
            Err(ExperimentError::File(problem))
        }
        other => Ok(other.to_string()),
    }
}

/// Units of the same quantity, and their size relative to the first one.
const FAMILIES: [&[(&str, f64)]; 6] = [
    &[("B", 1.0), ("KiB", 1024.0), ("MiB", 1_048_576.0), ("GiB", 1_073_741_824.0)],
    &[("ps", 1.0), ("ns", 1e3), ("us", 1e6), ("ms", 1e9), ("s", 1e12)],
    &[("Hz", 1.0), ("kHz", 1e3), ("MHz", 1e6), ("GHz", 1e9)],
    &[("bps", 1.0), ("kbps", 1e3), ("Mbps", 1e6), ("Gbps", 1e9), ("Tbps", 1e12)],
    &[("pps", 1.0), ("kpps", 1e3), ("Mpps", 1e6), ("Gpps", 1e9)],
    &[("%", 1.0)],
];

/// A number with its unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantity {
    number: f64,
    family: Option<(usize, usize)>,
}

impl Quantity {
    /// Parses a quantity such as `48KiB`, `3 GHz` or `12`.
    pub fn parse(text: &str) -> Option<Quantity> {
        let text = text.trim();
        let split = text.find(|c: char| !(c.is_ascii_digit() || "+-.eE_".contains(c))).unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let number: f64 = number.replace('_', "").parse().ok()?;
        let unit = unit.trim();
        if unit.is_empty() {
            return Some(Quantity { number, family: None });
        }
        FAMILIES.iter().enumerate().find_map(|(index, family)| {
            let place = family.iter().position(|(name, _)| *name == unit)?;
            Some(Quantity { number, family: Some((index, place)) })
        })
    }
}

/// Converts texts to numbers of one unit, the smallest that occurs in them. `None` unless all are of one
/// family.
pub(super) fn in_one_unit(texts: &[String]) -> Option<(Vec<f64>, &'static str)> {
    let quantities: Vec<Quantity> = texts.iter().map(|text| Quantity::parse(text)).collect::<Option<_>>()?;
    let Some((family, _)) = quantities.first()?.family else {
        let plain = quantities.iter().all(|quantity| quantity.family.is_none());
        return plain.then(|| (quantities.iter().map(|quantity| quantity.number).collect(), ""));
    };
    let places =
        quantities.iter().map(|quantity| quantity.family.filter(|own| own.0 == family).map(|own| own.1));
    let places: Vec<usize> = places.collect::<Option<_>>()?;
    let (unit, scale) = FAMILIES[family][*places.iter().min()?];
    let numbers = quantities.iter().zip(&places);
    Some((
        numbers.map(|(quantity, place)| quantity.number * FAMILIES[family][*place].1 / scale).collect(),
        unit,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(texts: &[&str]) -> Option<(Vec<f64>, &'static str)> {
        in_one_unit(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn quantities_of_one_family_convert_to_their_smallest_unit() {
        assert_eq!(numbers(&["512KiB", "1MiB"]), Some((vec![512.0, 1024.0], "KiB")));
        assert_eq!(numbers(&["3GHz", "1.5GHz"]), Some((vec![3.0, 1.5], "GHz")));
        assert_eq!(numbers(&["32", "128"]), Some((vec![32.0, 128.0], "")));
        assert_eq!(numbers(&["300ns", "1us"]), Some((vec![300.0, 1000.0], "ns")));
        assert_eq!(numbers(&["40%", "5Mpps"]), None);
        assert_eq!(numbers(&["0-3", "0-7"]), None);
        assert_eq!(numbers(&["true", "false"]), None);
    }
}
