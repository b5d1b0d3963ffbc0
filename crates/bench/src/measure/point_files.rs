//! Files of a measured point in its result folder.

use doorbell_machine::Network;
use serde_json::{Map, Value, json};

use crate::error::RunError;
use crate::figures::counters::{MeasuredCounters, all_counters, stats_json};
use crate::figures::fingerprint::fingerprint;
use crate::measure::point::Point;
use crate::plan::config::RunConfig;
use crate::store::folder::{ResultFolder, pretty};
use crate::store::tables;
use crate::testbed::init_log;

impl ResultFolder {
    /// Writes a point's configuration, counters and observations.
    pub fn write_point(&self, point: &Point) -> Result<(), RunError> {
        for (name, contents) in &point.observed.files {
            self.write(name, contents)?;
        }
        init_log::write(self, &init_log::of_machine(&point.machine))?;
        let hash = self.write_config(&point.config)?;
        let latency = point.measurement.latency();
        self.write("latency.hgrm", &latency.to_hgrm())?;
        self.write("latency.csv", &latency.to_csv())?;
        self.write("batches.csv", &tables::batches(&point.summary.batches))?;
        if !point.summary.memory_over_time.is_empty() {
            self.write("memory.csv", &tables::memory(&point.summary.memory_over_time))?;
        }
        if !point.summary.streams.is_empty() {
            self.write("streams.csv", &tables::streams(&point.summary.streams))?;
        }
        if point.summary.streams.iter().any(|stream| stream.flows.is_some()) {
            let traffic = point.machine.ports()[0].loadgen.traffic();
            self.write("flows.csv", &tables::flows(traffic, point.measurement.streams()))?;
        }
        if let Some(fingerprint) = fingerprint(&point.machine) {
            self.write("fingerprint.json", &pretty(&fingerprint))?;
        }
        let sections: Map<String, Value> = point
            .machine
            .section_hashes()
            .into_iter()
            .map(|(name, hash)| (name, json!(format!("{hash:016x}"))))
            .collect();
        let part = (String::new(), &point.counters, all_counters(&point.machine));
        let mut stats = stats_json(&hash, [part]);
        stats.insert("state_section_hashes".to_owned(), Value::Object(sections));
        self.write("stats.json", &pretty(&Value::Object(stats)))
    }

    /// Writes the configuration, counters, consoles and fingerprints of a run of nodes. `counters` are those of
    /// each node at both ends of the measurement.
    pub(crate) fn write_nodes(
        &self,
        config: &RunConfig,
        network: &Network,
        counters: &[MeasuredCounters],
    ) -> Result<(), RunError> {
        let hash = self.write_config(config)?;
        let named = || network.config().nodes.iter().map(|(name, _)| name).zip(network.nodes());
        let prints = named().map(|(name, node)| Some((name.clone(), fingerprint(node)?)));
        if let Some(mut prints) = prints.collect::<Option<Map<String, Value>>>() {
            prints.extend(link_hashes(network));
            self.write("fingerprint.json", &pretty(&Value::Object(prints)))?;
        }
        init_log::write(self, &init_log::of_network(network))?;
        for (name, node) in named() {
            self.write(&format!("console-{name}.txt"), &node.console.text())?;
        }
        let parts = named()
            .zip(counters)
            .map(|((name, node), counters)| (format!("{name}."), counters, all_counters(node)));
        self.write("stats.json", &pretty(&Value::Object(stats_json(&hash, parts))))
    }
}

/// Frame counts and hashes of links whose sender is not a node. Frames sent by a node are in its fingerprint.
fn link_hashes(network: &Network) -> Option<(String, Value)> {
    let links: Map<String, Value> = network
        .non_node_wires()
        .filter_map(|(name, link)| {
            let wire = link.wire_hash()?;
            Some((name, json!({ "frames": wire.frames, "hash": format!("{:016x}", wire.hash) })))
        })
        .collect();
    (!links.is_empty()).then(|| ("links".to_owned(), Value::Object(links)))
}
