//! Headline figures of a comparison, and the differences that exceed the limit.

use std::str::FromStr;

use doorbell_results::figures::{DCA, DRAM, LLC, PACKET_COST};
use doorbell_results::{ComparedFigure, ComparedPoint, Comparison, FigureDifference};

use super::CompareError;
use crate::experiment::in_tables;

/// Figures shown first.
pub(super) const HEADLINE: [&str; 24] = [
    "low_mpps",
    "high_mpps",
    "offered_mpps",
    "delivered_mpps",
    "delivered_gbps",
    "drop_rate",
    "latency_ns.mean",
    "latency_ns.p50",
    "latency_ns.p99",
    "latency_ns.p99_9",
    "latency_ns.max",
    "answer_latency_ns.p50",
    "answer_latency_ns.p99",
    "goodput_gbps",
    "transfer.goodput_gbps",
    "transfer.transactions_per_second",
    "cycles",
    "ipc",
    "instructions_per_frame",
    PACKET_COST.cycles.path,
    PACKET_COST.saturation.path,
    LLC.misses_per_packet.path,
    DCA.leaks_per_packet.path,
    DRAM.mb_per_second.path,
];
/// Figures judged by default: neither input parameters nor figures based on a few frames.
const JUDGED: [&str; 12] = [
    "low_mpps",
    "delivered_mpps",
    "drop_rate",
    "latency_ns.mean",
    "latency_ns.p50",
    "latency_ns.p99",
    "goodput_gbps",
    "transfer.goodput_gbps",
    "transfer.transactions_per_second",
    "cycles",
    "ipc",
    "instructions_per_frame",
];

/// A share, written as a percentage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(pub f64);

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Share, String> {
        let wrong = || format!("\"{text}\" is not a share; write, for example, 2% or 0.5%");
        let number = text.strip_suffix('%').ok_or_else(wrong)?.trim().parse::<f64>().map_err(|_| wrong())?;
        if number.is_finite() && number >= 0.0 { Ok(Share(number / 100.0)) } else { Err(wrong()) }
    }
}

/// Request for a comparison.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CompareRequest {
    /// Maximum relative difference.
    pub fail_over: Option<Share>,
    /// Figures by name, or by the first parts of a name; default: a fixed list of performance figures.
    pub figures: Vec<String>,
}

impl CompareRequest {
    /// Whether a figure is among the named ones. Names of tables and of summaries are accepted.
    pub fn names(&self, figure: &str) -> bool {
        let is = |name: &String| {
            let name = in_tables(name);
            figure == name || figure.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with('.'))
        };
        self.figures.iter().any(is)
    }

    fn judges(&self, figure: &str) -> bool {
        if self.figures.is_empty() { JUDGED.contains(&figure) } else { self.names(figure) }
    }

    /// Adds the failures to the comparison.
    pub(super) fn judge(&self, comparison: &mut Comparison) -> Result<(), CompareError> {
        let all = || comparison.points.iter().flat_map(|point| &point.figures);
        for name in &self.figures {
            let alone = CompareRequest { figures: vec![name.clone()], fail_over: None };
            if !all().any(|figure| alone.names(&figure.name)) {
                let problem =
                    format!("--figure: no result has \"{name}\"; `doorbell compare --all` lists all figures");
                return Err(CompareError::Request(problem));
            }
        }
        let Some(Share(limit)) = self.fail_over else { return Ok(()) };
        let names: Vec<&str> = comparison.sides.iter().map(|side| side.name.as_str()).collect();
        let mut failures = Vec::new();
        let mut unjudged = Vec::new();
        for point in &comparison.points {
            let judged = point.figures.iter().filter(|figure| self.judges(&figure.name));
            let judged: Vec<&ComparedFigure> = judged.filter(|figure| is_present(figure)).collect();
            if judged.is_empty() {
                unjudged.push(if point.at.is_empty() { "the only point" } else { &point.at });
            }
            failures.extend(judged.into_iter().flat_map(|figure| failed(point, figure, limit, &names)));
        }
        if unjudged.len() == comparison.points.len() && comparison.unmatched.is_empty() {
            return Err(CompareError::NothingToJudge(format!(
                "no result has any of {}; choose a figure with --figure, from the list of `doorbell compare --all`",
                if self.figures.is_empty() { JUDGED.join(", ") } else { self.figures.join(", ") }
            )));
        }
        if !unjudged.is_empty() {
            comparison.notes.push(format!("there was nothing to judge at {}", unjudged.join("; ")));
        }
        let alone = |point: &doorbell_results::UnmatchedPoint| match point.at.strip_prefix("nothing at ") {
            Some(at) => format!("{} has nothing to compare at {at}", point.side),
            None => format!("only {} has {}", point.side, point.at),
        };
        failures.extend(comparison.unmatched.iter().map(alone));
        comparison.failures = failures;
        Ok(())
    }
}

/// Whether any side has a figure.
fn is_present(figure: &ComparedFigure) -> bool {
    figure.values.iter().any(Option::is_some)
}

/// Formats two values with five digits, or with all digits if five do not distinguish them.
fn distinct_digits(values: [f64; 2]) -> [String; 2] {
    let rounded = values.map(|value| format!("{value:.4e}").parse().unwrap_or(value));
    let shown = if rounded[0] == rounded[1] { values } else { rounded };
    shown.map(|value| value.to_string())
}

/// Failures of a figure: sides where it differs too much from the base, or is missing.
fn failed(point: &ComparedPoint, figure: &ComparedFigure, limit: f64, names: &[&str]) -> Vec<String> {
    let at = if point.at.is_empty() { String::new() } else { format!(" at {}", point.at) };
    let name = &figure.name;
    let mut failures = Vec::new();
    for (index, difference) in figure.differences.iter().enumerate() {
        let side = names[index + 1];
        if point.repetitions[index + 1] == 0 {
            continue;
        }
        match (figure.values[0], figure.values[index + 1], difference) {
            (Some(base), Some(value), Some(difference)) if is_over(name, difference, limit) => {
                let [value, base] = distinct_digits([value.value, base.value]);
                failures.push(format!("{side}{at}: {name} is {value} instead of {base}"));
            }
            (Some(_), None, _) => failures.push(format!("{side}{at}: it has no {name}")),
            (None, Some(_), _) => {
                failures.push(format!("{}{at}: it has no {name}, which {side} has", names[0]))
            }
            _ => {}
        }
    }
    failures
}

/// Whether a difference exceeds the limit and is not due to chance. Shares of frames are compared by absolute
/// difference: one lost frame in a million is not a doubling.
fn is_over(name: &str, difference: &FigureDifference, limit: f64) -> bool {
    let by = match (name.rsplit('.').next(), difference.relative) {
        (Some("drop_rate"), _) => difference.difference.abs(),
        (_, Some(relative)) => relative.abs(),
        (_, None) if difference.difference == 0.0 => 0.0,
        (_, None) => f64::INFINITY,
    };
    by > limit && difference.outside_both != Some(false)
}

#[cfg(test)]
mod tests {
    use super::distinct_digits;

    #[test]
    fn values_have_enough_digits_to_differ() {
        assert_eq!(distinct_digits([14.095713391859602, 19.999936670200533]), ["14.096", "20"]);
        assert_eq!(distinct_digits([129005.059, 0.0]), ["129010", "0"]);
        assert_eq!(distinct_digits([5.000001, 5.0]), ["5.000001", "5"]);
    }
}
