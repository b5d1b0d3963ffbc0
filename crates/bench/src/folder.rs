//! The result folder. Each file appears whole or not at all.

use std::path::{Path, PathBuf};

use doorbell_files::{create_folders, replace};
use doorbell_machine::Network;
use serde_json::{Map, Value, json};

use crate::config::RunConfig;
use crate::counters::{MeasuredCounters, all_counters, stats_json};
use crate::error::RunError;
use crate::fingerprint::fingerprint;
use crate::init_log;
use crate::measure::Point;
use crate::tables;
use doorbell_results::RunSummary;

/// A folder that results are written to.
#[derive(Clone, Debug)]
pub struct ResultFolder {
    path: PathBuf,
    /// Where it is going to be, for messages.
    shown: PathBuf,
}

impl ResultFolder {
    /// Makes the folder, if need be, and checks that it can be written, before any time is spent.
    pub fn create(path: &Path) -> Result<ResultFolder, RunError> {
        create_folders(path).map_err(RunError::io("create the result folder", path))?;
        tempfile::tempfile_in(path).map_err(RunError::io("write to the result folder", path))?;
        Ok(ResultFolder { path: path.to_owned(), shown: path.to_owned() })
    }

    /// The same folder, which is going to be at another place.
    pub(crate) fn shown_as(self, shown: &Path) -> ResultFolder {
        ResultFolder { shown: shown.to_owned(), ..self }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A folder inside it.
    pub fn sub(&self, name: &str) -> Result<ResultFolder, RunError> {
        Ok(ResultFolder::create(&self.path.join(name))?.shown_as(&self.shown.join(name)))
    }

    /// Where a file of this name is going to be.
    pub fn shown(&self, name: &str) -> PathBuf {
        self.shown.join(name)
    }

    /// Writes a file, replacing one that is there.
    pub fn write(&self, name: &str, contents: &str) -> Result<(), RunError> {
        self.write_bytes(name, contents.as_bytes())
    }

    /// Writes a file that is no text, replacing one that is there.
    pub fn write_bytes(&self, name: &str, contents: &[u8]) -> Result<(), RunError> {
        let target = self.path.join(name);
        replace(&target, contents).map_err(RunError::io("write", target))
    }

    /// Writes a configuration with its hash, which it returns.
    pub fn write_config(&self, config: &RunConfig) -> Result<String, RunError> {
        let hash = config.hash();
        self.write("config.toml", &format!("# config_hash = \"{hash}\"\n\n{}", config.to_toml()))?;
        Ok(hash)
    }

    /// The configuration as `config.toml` has it; of several loads, which have one each, the first one's.
    pub fn config_text(&self) -> Result<String, RunError> {
        let own = self.path().join("config.toml");
        let path = if own.is_file() { own } else { self.path().join("point-00/config.toml") };
        doorbell_files::read_text(&path).map_err(RunError::io("read", &path))
    }

    /// Writes a point's configuration and counters, and what else was observed.
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

    /// Writes the configuration of a run of two nodes, and what [`write_network`](Self::write_network) does.
    pub(crate) fn write_nodes(
        &self,
        config: &RunConfig,
        network: &Network,
        counters: &[MeasuredCounters],
    ) -> Result<(), RunError> {
        let hash = self.write_config(config)?;
        self.write_network(&hash, network, counters)
    }

    /// Writes counters and guests' consoles of a network's run. `counters` has those of each node at both ends of the measurement.
    fn write_network(
        &self,
        hash: &str,
        network: &Network,
        counters: &[MeasuredCounters],
    ) -> Result<(), RunError> {
        let named = || network.config().nodes.iter().map(|(name, _)| name).zip(network.nodes());
        let prints = named().map(|(name, node)| Some((name.clone(), fingerprint(node)?)));
        if let Some(mut prints) = prints.collect::<Option<Map<String, Value>>>() {
            prints.extend(links_heard(network));
            self.write("fingerprint.json", &pretty(&Value::Object(prints)))?;
        }
        init_log::write(self, &init_log::of_network(network))?;
        for (name, node) in named() {
            self.write(&format!("console-{name}.txt"), &node.console.text())?;
        }
        let parts = named()
            .zip(counters)
            .map(|((name, node), counters)| (format!("{name}."), counters, all_counters(node)));
        self.write("stats.json", &pretty(&Value::Object(stats_json(hash, parts))))
    }

    /// Writes the summary. With a single point its figures stand at the top as well.
    pub fn write_summary(&self, summary: &RunSummary) -> Result<String, RunError> {
        let text = summary.to_json();
        self.write("summary.json", &text)?;
        Ok(text)
    }
}

/// What went over links whose sender is no node: a node's fingerprint has its own.
fn links_heard(network: &Network) -> Option<(String, Value)> {
    let links: Map<String, Value> = network
        .wires_of_others()
        .filter_map(|(name, link)| {
            let heard = link.heard()?;
            Some((name, json!({ "frames": heard.frames, "hash": format!("{:016x}", heard.hash) })))
        })
        .collect();
    (!links.is_empty()).then(|| ("links".to_owned(), Value::Object(links)))
}

/// JSON as people like to read it.
pub(crate) fn pretty(value: &Value) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("a JSON value can be written");
    text.push('\n');
    text
}
