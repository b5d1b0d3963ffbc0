//! The result folder. Each file appears whole or not at all.

use std::path::{Path, PathBuf};

use doorbell_files::{create_folders, replace};
use doorbell_machine::Network;
use serde_json::{Map, Value, json};

use crate::config::RunConfig;
use crate::error::RunError;
use crate::fingerprint::fingerprint;
use crate::measure::{Point, all_counters};
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
        std::fs::read_to_string(&path).map_err(RunError::io("read", &path))
    }

    /// Writes a point's configuration and counters, and what else was observed.
    pub fn write_point(&self, point: &Point) -> Result<(), RunError> {
        for (name, contents) in &point.observed.files {
            self.write(name, contents)?;
        }
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
        let mut stats = Map::new();
        for (name, counter) in all_counters(&point.machine) {
            stats.insert(name, json!({ "value": counter.value, "description": counter.description }));
        }
        let sections: Map<String, Value> = point
            .machine
            .section_hashes()
            .into_iter()
            .map(|(name, hash)| (name, json!(format!("{hash:016x}"))))
            .collect();
        let all = json!({ "config_hash": hash, "counters": stats, "state_section_hashes": sections });
        self.write("stats.json", &pretty(&all))
    }

    /// Writes the configuration of a run of two nodes, and what [`write_network`](Self::write_network) does.
    pub fn write_nodes(&self, config: &RunConfig, network: &Network) -> Result<(), RunError> {
        let hash = self.write_config(config)?;
        self.write_network(&hash, network)
    }

    /// Writes counters and guests' consoles of a network's run.
    pub fn write_network(&self, hash: &str, network: &Network) -> Result<(), RunError> {
        let named = || network.config().nodes.iter().map(|(name, _)| name).zip(network.nodes());
        let prints = named().map(|(name, node)| Some((name.clone(), fingerprint(node)?)));
        if let Some(mut prints) = prints.collect::<Option<Map<String, Value>>>() {
            prints.extend(links_heard(network));
            self.write("fingerprint.json", &pretty(&Value::Object(prints)))?;
        }
        let mut stats = Map::new();
        for (name, node) in named() {
            for (counter, value) in all_counters(node) {
                let described = json!({ "value": value.value, "description": value.description });
                stats.insert(format!("{name}.{counter}"), described);
            }
            self.write(&format!("console-{name}.txt"), &node.console.text())?;
        }
        self.write("stats.json", &pretty(&json!({ "config_hash": hash, "counters": stats })))
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
