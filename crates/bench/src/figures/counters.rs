//! Every counter of a run, for `stats.json`: what it grew by in the measurement, and its total when the run ended.

use std::collections::BTreeMap;

use doorbell_machine::Machine;
use doorbell_sim::Ps;
use doorbell_sim::stats::{Counter, Stats};
use serde_json::{Map, Value, json};

use crate::figures::timing;

/// Of `stats.json`. 2: counters are of the measurement, totals stand apart.
const SCHEMA_VERSION: u32 = 2;

/// Counters by hierarchical name.
pub(crate) type Counters = Vec<(String, Counter)>;

/// What the counters of a machine, or of a player of traces, had counted at both ends of a measurement.
#[derive(Clone, Debug, Default)]
pub(crate) struct MeasuredCounters {
    seconds: f64,
    begin: BTreeMap<String, u64>,
    end: BTreeMap<String, u64>,
}

/// The counters at a measurement's begin.
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

    /// From this moment to a later one.
    pub fn until(self, end: CountersAt) -> MeasuredCounters {
        let seconds = (end.now - self.now).as_secs_f64();
        MeasuredCounters { seconds, begin: self.values, end: end.values }
    }
}

/// A peak is no sum: what it was in a measurement is not what it grew by.
fn is_peak(name: &str) -> bool {
    name.ends_with("_peak_bytes")
}

/// Frames are joined to their stages when they come back, after the measurement, too; these books hold the frames of the measurement only.
fn is_of_frames(name: &str) -> bool {
    name.contains(".stages.")
}

impl MeasuredCounters {
    /// Ticks of the guest's timer in the measurement, at all measured harts.
    pub fn timer_ticks(&self, machine: &Machine) -> u64 {
        let grown = |values: &BTreeMap<String, u64>, name: &str| values.get(name).copied().unwrap_or(0);
        let names = (0..machine.measured_harts).map(|hart| format!("hart{hart}.timer_interrupts"));
        names.map(|name| grown(&self.end, &name) - grown(&self.begin, &name)).sum()
    }

    /// What a counter grew by in the measurement; `None` of one that cannot say.
    fn grown(&self, name: &str, total: u64) -> Option<u64> {
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

/// The contents of `stats.json`, of parts that each have a prefix for their names: what was counted in the measurement, and the totals
/// at the end of the run.
pub(crate) fn stats_json<'a>(
    config_hash: &str,
    parts: impl IntoIterator<Item = (String, &'a MeasuredCounters, Counters)>,
) -> Map<String, Value> {
    let (mut counters, mut totals, mut seconds) = (Map::new(), Map::new(), 0.0);
    for (prefix, counted, all) in parts {
        seconds = counted.seconds;
        for (name, counter) in all {
            if let Some(value) = counted.grown(&name, counter.value) {
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
        for (kind, kind_name) in doorbell_machine::PATH_KINDS {
            // Functions of one device share an attachment, which stands under the first one's name.
            let Some(attachment) = machine.own_attachment(plugged) else { continue };
            let way = if attachment.bus().is_some() { "bus" } else { "pcie" };
            add(&format!("{name}.{way}.{kind_name}"), attachment.counters(kind));
        }
    }
    for (index, port) in machine.ports().iter().enumerate() {
        add(&format!("port{index}.link_in"), port.link_in.stats().counters());
        add(&format!("port{index}.link_out"), port.link_out.stats().counters());
        add(&format!("port{index}.loadgen"), port.loadgen.stats().counters());
        add(&format!("port{index}.stages"), machine.stages[index].stats().counters());
    }
    if let Some(models) = timing::Models::of(machine) {
        all.extend(timing::counters(&models));
    }
    all
}
