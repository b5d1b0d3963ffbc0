//! `doorbell search --on slurm`: the search for each frame size is a task. The parameters are written as an
//! experiment next to the results, with one point per size; its results are combined into those of one
//! search.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use doorbell_bench::{Benchmark, CachePaths, RunConfig};
use doorbell_files::{remove, replace, sha256};
use doorbell_report::SearchSummary;
use doorbell_sim::Bytes;
use doorbell_study::experiment::{SearchSpec, State, Store};
use toml::{Table, Value};

use crate::cluster::Cluster;
use crate::experiment::Experiment;
use crate::out::errln;
use crate::screen::{Screen, interrupt_flag};

/// Parameters of the search, in the form of an experiment's file.
pub struct ClusterSearch<'a> {
    pub benchmark: &'static Benchmark,
    pub config: &'a RunConfig,
    pub sizes: &'a [Bytes],
    /// The table `[search]`.
    pub search: &'a SearchSpec,
    /// Path of the final results.
    pub out: &'a Path,
}

/// Results of the search.
pub struct ClusterSearchResult {
    /// A summary for each finished size.
    pub summaries: Vec<SearchSummary>,
    /// Reason why sizes are missing.
    pub error: Option<anyhow::Error>,
    /// Folder of the temporary experiment, not needed after the results are combined.
    folder: PathBuf,
}

impl ClusterSearch<'_> {
    fn experiment(&self) -> anyhow::Result<String> {
        let sizes = self.sizes.iter().map(|size| Value::from(format!("{}B", size.0))).collect();
        let table = |pairs: Vec<(&str, Value)>| -> Table {
            pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
        };
        let all = table(vec![
            ("name", "search".into()),
            ("benchmark", self.benchmark.name.into()),
            ("machine", "config.toml".into()),
            ("grid", table(vec![("loadgen.traffic.frame_size", Value::Array(sizes))]).into()),
            ("search", Value::try_from(self.search)?),
        ]);
        Ok(all.to_string())
    }

    /// Searches on the cluster. The folder's name is derived from all parameters, so that the same command
    /// continues in it.
    pub fn search(
        &self,
        cluster: &Cluster,
        places: &CachePaths,
        screen: &Screen,
    ) -> anyhow::Result<ClusterSearchResult> {
        let (text, config) = (self.experiment()?, self.config.to_toml());
        let name = &sha256(format!("{text}\n{config}").as_bytes())[..8];
        let mut folder = self.out.as_os_str().to_owned();
        folder.push(format!(".search-{name}"));
        let folder = PathBuf::from(folder);
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let file = folder.join("search.toml");
        for (path, text) in [(&folder.join("config.toml"), &config), (&file, &text)] {
            replace(path, text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
        }
        let interrupted = interrupt_flag()?;
        let experiment = Experiment::read(&file, Some(&folder), places, screen)?;
        let store = Store::open(&folder)?;
        let sweeps =
            cluster.measure(&[(&experiment, &store)], &folder, self.benchmark.name, screen, &interrupted)?;
        let error = experiment.ended(&sweeps[0]).err();
        let mut summaries = Vec::new();
        for identity in &experiment.identities {
            if store.state(identity) == State::Done {
                let text = store.read(identity, "summary.json").map_err(anyhow::Error::msg)?;
                summaries.push(SearchSummary::from_json(&String::from_utf8_lossy(&text))?);
            }
        }
        Ok(ClusterSearchResult { summaries, error, folder })
    }
}

impl ClusterSearchResult {
    /// Combines all sizes into one search, with this command line.
    pub fn combine(&self, preset: &str, command: String) -> anyhow::Result<SearchSummary> {
        let Some(first) = self.summaries.first() else { bail!("no frame size is finished") };
        let searches = self.summaries.iter().flat_map(|summary| summary.searches.clone()).collect();
        let host_seconds = self.summaries.iter().map(|summary| summary.host_seconds).sum();
        Ok(SearchSummary { preset: preset.to_owned(), command, host_seconds, searches, ..first.clone() })
    }

    /// Removes the temporary experiment once the results are published.
    pub fn clean_up(&self) {
        if let Err(error) = remove(&self.folder) {
            errln!("cannot remove {}: {error}", self.folder.display());
        }
    }
}
