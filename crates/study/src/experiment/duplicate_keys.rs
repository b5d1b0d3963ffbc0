//! Rejects settings given twice in an experiment file, of which only one would take effect.

use doorbell_loadgen::Rate;

use super::file::ExperimentFile;
use super::plan::{Combination, ExperimentError};

/// Rejects seeds and rates in `set` or in a parameter: they have keys of their own, which would override
/// them. The points' labels would then be wrong.
pub(super) fn reject_duplicate_keys(
    file: &ExperimentFile,
    combinations: &[Combination],
) -> Result<(), ExperimentError> {
    let set = file.set.iter().filter_map(|assignment| assignment.split_once('='));
    let set = set.map(|(path, value)| (path.trim(), value.trim()));
    let varied = combinations.iter().flatten().map(|(path, value)| (path.as_str(), value.as_str()));
    let own_rates = |rates: &[String]| {
        rates.iter().any(|text| text.parse::<Rate>().is_ok_and(|rate| rate == Rate::Times(Rate::ONCE)))
    };
    let rates = match (&file.measure, &file.search) {
        // `1x` measures a network at its generators' own rates.
        (Some(measure), _) if file.network.is_none() || !own_rates(&measure.rates) => Some("measure.rates"),
        (_, Some(_)) => Some("search.min and search.max"),
        _ => None,
    };
    let is_rate = |key: &str| match file.network.is_some() {
        false => matches!(key, "loadgen.traffic.rate" | "loadgen.traffic.total"),
        true => {
            key == "loadgen.traffic.rate" || key.starts_with("generator.") && key.ends_with(".traffic.rate")
        }
    };
    for (path, value) in set.chain(varied) {
        for key in keys_in(path, value) {
            let instead = match key.as_str() {
                "run.seed" => "seeds = [1, 2], or seed and repetitions",
                key if is_rate(key) && file.trace.is_none() => match rates {
                    Some(rates) => rates,
                    None => continue,
                },
                _ => continue,
            };
            return Err(ExperimentError::File(format!(
                "{}: {key} has no effect here; write {instead} instead",
                file.name()
            )));
        }
    }
    Ok(())
}

/// The keys that a value sets: several if it is a table.
fn keys_in(path: &str, value: &str) -> Vec<String> {
    let table = format!("v = {value}").parse::<toml::Table>().ok();
    let Some(toml::Value::Table(table)) = table.and_then(|mut table| table.remove("v")) else {
        return vec![path.to_owned()];
    };
    table.iter().flat_map(|(key, value)| keys_in(&format!("{path}.{key}"), &value.to_string())).collect()
}
