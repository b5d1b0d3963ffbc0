//! `fingerprint.json`: hashes of a run's behaviour, and counters, to compare versions (`tests/golden`).

use doorbell_machine::Machine;
use serde_json::{Map, Value, json};

use crate::figures::counters::all_counters;

/// A machine's fingerprint with all non-zero counters. `None` unless the fingerprint was enabled before the
/// run.
pub fn fingerprint(machine: &Machine) -> Option<Value> {
    let mut value = json!(machine.fingerprint()?);
    let counters: Map<String, Value> = all_counters(machine)
        .into_iter()
        .filter(|(_, counter)| counter.value != 0)
        .map(|(name, counter)| (name, json!(counter.value)))
        .collect();
    value["counters"] = Value::Object(counters);
    Some(value)
}
