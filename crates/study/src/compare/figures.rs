//! The figures of a point under flat names, with confidence intervals where available, and the mean of
//! repetitions.

use doorbell_results::{ComparedValue, Interval};
use serde_json::Value;

use crate::experiment::renamed;

/// Figures of a point.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Figures {
    /// Numbers, in the order of the summary.
    pub numbers: Vec<(String, ComparedValue)>,
    /// Textual values.
    pub words: Vec<(String, String)>,
    /// Hash of the final machine state; empty if unavailable.
    pub state: String,
    /// Whether intervals are too narrow, because parts of the measurement are correlated.
    pub correlated: bool,
    /// Why the measurement may not be steady.
    pub not_steady: Option<String>,
}

/// Fields that are not figures of the point: time series, lists of parts, and values shown elsewhere.
const LEFT_OUT: [&str; 18] = [
    "batches",
    "benchmark",
    "confidence_95",
    "config_hash",
    "files",
    "frame_size",
    "functions",
    "inversions_mpps",
    "kinds",
    "limit",
    "memory_over_time",
    "meanings",
    "not_steady",
    "place",
    "rate",
    "state_hash",
    "steady",
    "trials",
];
/// Lists left out of the path, because the names of their elements are unique.
const LEFT_OUT_OF_PATHS: [&str; 2] = ["groups", "figures"];

/// The figures of a run's point.
pub(super) fn of_point(point: &Value) -> Figures {
    let mut figures = Figures {
        state: point.get("state_hash").and_then(Value::as_str).unwrap_or_default().to_owned(),
        not_steady: point.get("not_steady").and_then(Value::as_str).map(str::to_owned),
        ..Figures::default()
    };
    walk("", point, &mut figures);
    let Some(confidence) = point.get("confidence_95").filter(|confidence| confidence.is_object()) else {
        return figures;
    };
    figures.correlated = confidence.get("correlated").and_then(Value::as_bool).unwrap_or(false);
    let number = |name: &str| point.get(name).and_then(Value::as_f64);
    // All frames have the same length, so bits have the same relative uncertainty as frames.
    let bits = number("delivered_gbps").zip(number("delivered_mpps").filter(|mpps| *mpps > 0.0));
    for (name, value) in &mut figures.numbers {
        let half = match name.strip_prefix("latency_ns.") {
            Some(of) => confidence.get("latency_ns").and_then(|all| all.get(of)).and_then(Value::as_f64),
            None if name == "delivered_gbps" => {
                let mpps = confidence.get("delivered_mpps").and_then(Value::as_f64);
                mpps.zip(bits).map(|(half, (gbps, mpps))| half * gbps / mpps)
            }
            None if name == "batches" || name == "correlated" => None,
            None => confidence.get(name.as_str()).and_then(Value::as_f64),
        };
        value.interval = half.map(|half| around(value.value, half));
    }
    figures
}

/// The figures of a search for one frame size: its result, and the point at its lower end.
pub(super) fn of_search(search: &Value) -> Figures {
    let at_low = search.get("at_low").filter(|point| point.is_object());
    let mut figures = at_low.map_or_else(Figures::default, of_point);
    let mut own = Figures::default();
    let mut answer = search.clone();
    if let Some(fields) = answer.as_object_mut() {
        fields.remove("at_low");
    }
    walk("", &answer, &mut own);
    let number = |name: &str| search.get(name).and_then(Value::as_f64);
    for (name, value) in &mut own.numbers {
        let ends = match name.as_str() {
            "low_mpps" => Some(("low_mpps", "high_mpps")),
            "low_gbps" => Some(("low_gbps", "high_gbps")),
            _ => None,
        };
        // If no rate missed the goal, the interval has no upper end.
        let between = |(low, high)| Some(Interval { low: number(low)?, high: number(high) });
        value.interval = ends.and_then(between);
    }
    own.numbers.append(&mut figures.numbers);
    own.words.append(&mut figures.words);
    Figures { numbers: own.numbers, words: own.words, ..figures }
}

fn around(value: f64, half: f64) -> Interval {
    Interval { low: value - half, high: Some(value + half) }
}

fn walk(prefix: &str, value: &Value, figures: &mut Figures) {
    let below = |name: &str| match prefix {
        "" => name.to_owned(),
        _ => format!("{prefix}.{name}"),
    };
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter().filter(|(name, _)| !LEFT_OUT.contains(&name.as_str())) {
                let path =
                    if LEFT_OUT_OF_PATHS.contains(&name.as_str()) { prefix.to_owned() } else { below(name) };
                walk(&path, value, figures);
            }
        }
        Value::Array(parts) => {
            for (index, part) in parts.iter().enumerate() {
                element(&below, index, part, figures);
            }
        }
        Value::Number(number) => {
            if let Some(value) = number.as_f64().filter(|value| value.is_finite()) {
                let value = ComparedValue { value, interval: None };
                figures.numbers.push((renamed(prefix.to_owned()), value));
            }
        }
        Value::Bool(truth) => {
            let value = ComparedValue { value: f64::from(u8::from(*truth)), interval: None };
            figures.numbers.push((renamed(prefix.to_owned()), value));
        }
        Value::String(text) => figures.words.push((renamed(prefix.to_owned()), text.clone())),
        Value::Null => {}
    }
}

/// Adds an element of a list, under its name, or its index if it has no name.
fn element(below: &dyn Fn(&str) -> String, index: usize, part: &Value, figures: &mut Figures) {
    let own = ["name", "title"].into_iter().find(|key| part.get(key).is_some_and(Value::is_string));
    let Some(key) = own else { return walk(&below(&index.to_string()), part, figures) };
    let path = below(part[key].as_str().unwrap_or_default());
    let mut fields = part.as_object().cloned().unwrap_or_default();
    fields.remove(key);
    match fields.get("value") {
        Some(value) if fields.len() == 1 => walk(&path, value, figures),
        _ => walk(&path, &Value::Object(fields), figures),
    }
}

/// Combines repetitions: means, with the confidence intervals given by their variance. Figures that are not
/// in all of them are left out.
pub(super) fn pooled(mut all: Vec<Figures>) -> Figures {
    if all.len() < 2 {
        return all.pop().unwrap_or_default();
    }
    let number = |figures: &Figures, key: &str| {
        figures.numbers.iter().find(|(name, _)| name == key).map(|(_, value)| value.value)
    };
    let mean = |name: &str| -> Option<ComparedValue> {
        let values: Vec<f64> = all.iter().map(|figures| number(figures, name)).collect::<Option<_>>()?;
        let count = values.len() as f64;
        let value = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|own| (own - value).powi(2)).sum::<f64>() / (count - 1.0);
        let half = student_97_5(values.len() - 1) * (variance / count).sqrt();
        Some(ComparedValue { value, interval: Some(around(value, half)) })
    };
    let names = all[0].numbers.iter().map(|(name, _)| name);
    Figures {
        numbers: names.filter_map(|name| Some((name.clone(), mean(name)?))).collect(),
        not_steady: all.iter().find_map(|figures| figures.not_steady.clone()),
        ..Figures::default()
    }
}

/// Student's t for 97.5 % (Abramowitz and Stegun, table 26.10); slightly too large from thirty degrees of
/// freedom.
pub(crate) fn student_97_5(degrees: usize) -> f64 {
    const TABLE: [f64; 29] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048,
        2.045,
    ];
    TABLE.get(degrees.saturating_sub(1)).copied().unwrap_or(2.042)
}
