//! All counters of a run, for `stats.json`: their increase during the measurement, and their totals at the
//! end of the run.

use std::collections::BTreeMap;

use doorbell_machine::Machine;
use doorbell_sim::Ps;
use doorbell_sim::stats::{Counter, Stats};
use serde_json::{Map, Value, json};

use crate::figures::timing;

/// Schema version of `stats.json`. Since version 2, `counters` has the increase during the measurement, and
/// `totals` the totals.
const SCHEMA_VERSION: u32 = 2;

/// Counters by hierarchical name.
pub(crate) type Counters = Vec<(String, Counter)>;

/// Counters of a machine, or of a trace player, at both ends of a measurement.
#[derive(Clone, Debug, Default)]
pub(crate) struct MeasuredCounters {
    seconds: f64,
    begin: BTreeMap<String, u64>,
    end: BTreeMap<String, u64>,
}

/// Counters at one time.
#[derive(Clone, Debug, Default)]
pub(crate) struct CountersAt {
    now: Ps,
    values: BTreeMap<String, u64>,
}

impl CountersAt {
    pub fn new(now: Ps, counters: Counters) -> CountersAt {
        let values = counters.into_iter().map(|(name, counter)| (name, counter.value)).collect();
        CountersAt { now, values }
    }

    pub fn of(machine: &Machine) -> CountersAt {
        CountersAt::new(machine.now(), all_counters(machine))
    }

    /// The measurement from this time to `end`.
    pub fn until(self, end: CountersAt) -> MeasuredCounters {
        let seconds = (end.now - self.now).as_secs_f64();
        MeasuredCounters { seconds, begin: self.values, end: end.values }
    }
}

/// Whether a counter is a peak. Its value in a measurement is not a difference.
fn is_peak(name: &str) -> bool {
    name.ends_with("_peak_bytes")
}

/// Whether a counter has only the measurement's frames. A frame's stages are counted when the frame returns,
/// possibly after the measurement, so a difference would miss some.
fn is_of_frames(name: &str) -> bool {
    name.contains(".stages.")
}

impl MeasuredCounters {
    /// Ticks of the guest's timer in the measurement, at all measured harts.
    pub fn timer_ticks(&self, machine: &Machine) -> u64 {
        let value = |values: &BTreeMap<String, u64>, name: &str| values.get(name).copied().unwrap_or(0);
        let names = (0..machine.measured_harts).map(|hart| format!("hart{hart}.timer_interrupts"));
        names.map(|name| value(&self.end, &name) - value(&self.begin, &name)).sum()
    }

    /// Increase of a counter during the measurement. `total` is its final value. `None` for peaks.
    fn increase(&self, name: &str, total: u64) -> Option<u64> {
        match name {
            _ if is_peak(name) => None,
            _ if is_of_frames(name) => Some(total),
            _ => {
                let at = |values: &BTreeMap<String, u64>| values.get(name).copied().unwrap_or(0);
                Some(at(&self.end).saturating_sub(at(&self.begin)))
            }
        }
    }
}

/// The contents of `stats.json`. Each part has a prefix for its counter names, its counts in the measurement,
/// and its totals at the end of the run.
pub(crate) fn stats_json<'a>(
    config_hash: &str,
    parts: impl IntoIterator<Item = (String, &'a MeasuredCounters, Counters)>,
) -> Map<String, Value> {
    let (mut counters, mut totals, mut seconds) = (Map::new(), Map::new(), 0.0);
    for (prefix, counted, all) in parts {
        seconds = counted.seconds;
        for (name, counter) in all {
            if let Some(value) = counted.increase(&name, counter.value) {
                let described = json!({ "value": value, "description": counter.description });
                counters.insert(format!("{prefix}{name}"), described);
            }
            let described = json!({ "value": counter.value, "description": counter.description });
            totals.insert(format!("{prefix}{name}"), described);
        }
    }
    let mut file = Map::new();
    file.insert("schema_version".to_owned(), json!(SCHEMA_VERSION));
    file.insert("config_hash".to_owned(), json!(config_hash));
    file.insert("measured_seconds".to_owned(), json!(seconds));
    file.insert("counters".to_owned(), Value::Object(counters));
    file.insert("totals".to_owned(), Value::Object(totals));
    file
}

/// All counters of a machine by hierarchical name, with their descriptions.
pub(crate) fn all_counters(machine: &Machine) -> Counters {
    let mut all = Vec::new();
    let mut add = |path: &str, counters: Vec<Counter>| {
        all.extend(counters.into_iter().map(|counter| (format!("{path}.{}", counter.name), counter)));
    };
    add("machine", machine.stats().counters());
    for (index, disk) in machine.disk_stats().iter().enumerate() {
        add(&format!("disk{index}"), disk.counters());
    }
    for (index, hart) in machine.harts().iter().enumerate() {
        add(&format!("hart{index}"), hart.stats().counters());
    }
    for plugged in machine.functions() {
        let name = plugged.name();
        let own = plugged.network().map_or(name.to_owned(), |_| format!("{name}.nic"));
        add(&own, plugged.counters());
        add(&format!("{name}.dma"), plugged.dma_stats().counters());
        for (purpose, direction, kind_name) in doorbell_machine::PATH_KINDS {
            // The functions of a device share an attachment, whose counters have the first function's name.
            let Some(attachment) = machine.own_attachment(plugged) else { continue };
            let way = if attachment.bus().is_some() { "bus" } else { "pcie" };
            add(&format!("{name}.{way}.{kind_name}"), attachment.counters(purpose, direction));
        }
    }
    for (index, port) in machine.ports().iter().enumerate() {
        add(&format!("port{index}.link_in"), port.link_in.stats().counters());
        add(&format!("port{index}.link_out"), port.link_out.stats().counters());
        add(&format!("port{index}.loadgen"), port.loadgen.stats().counters());
        add(&format!("port{index}.stages"), machine.stages[index].stats().counters());
    }
    if let Some(models) = timing::Models::of(machine) {
        all.extend(timing::TimingSnapshot::new(&models).counters());
    }
    all
}
