//! Results of a run as they arrive: one folder per load if there are several, published after each finished
//! load.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use doorbell_bench::{
    NO_TRAFFIC, Observe, PointSummary, ResultFolder, Results, RunConfig, RunIdentity, RunSummary, list_names,
    run_summary,
};
use doorbell_files::list;
use doorbell_image::DebugSymbols;
use doorbell_machine::Base;
use doorbell_report::{PageLinks, html_with};

use crate::exit::OrUsageError;
use crate::inputs;
use crate::out::{out, outln};
use crate::run_args::{RunArgs, command_line};

/// Title of the page of all loads, used in links from the pages of single loads.
pub const ALL_LOADS: &str = "All loads";

/// Name of the folder of one load among several.
pub fn load(index: usize) -> String {
    format!("point-{index:02}")
}

/// The folded stacks in a folder, each with the name of its node in a network.
pub fn stacks(folder: &Path) -> Vec<(String, String)> {
    let mut names: Vec<String> =
        list(folder).unwrap_or_default().iter().map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    let of_node = |name: &str| {
        let node = name.strip_prefix("functions")?.strip_suffix(".folded")?;
        Some(node.trim_start_matches('-').to_owned())
    };
    let read = |name: String| Some((of_node(&name)?, std::fs::read_to_string(folder.join(&name)).ok()?));
    names.into_iter().filter_map(read).collect()
}

/// The results of one `doorbell run`.
pub struct Loads<'a> {
    args: &'a RunArgs,
    name: &'a str,
    base: &'a Base,
    config: &'a RunConfig,
    results: Results,
    load_count: usize,
    points: Vec<PointSummary>,
    meanings: BTreeMap<String, String>,
    /// Provenance of the results, set when the first load is finished.
    ran: RunIdentity,
}

impl<'a> Loads<'a> {
    /// Begins the result folder of a run with this number of loads.
    pub fn begin(
        args: &'a RunArgs,
        name: &'a str,
        config: &'a RunConfig,
        load_count: usize,
    ) -> anyhow::Result<Loads<'a>> {
        inputs::keep_named(&args.output.out, config).or_usage_error()?;
        let results = inputs::begin(&args.output.out, &args.guest)?;
        let (points, meanings, ran) = Default::default();
        let base = args.common.base()?;
        Ok(Loads { args, name, base, config, results, load_count, points, meanings, ran })
    }

    /// Name of the benchmark or script.
    pub fn name(&self) -> &str {
        self.name
    }

    /// Whether any files were written.
    pub fn has_files(&self) -> bool {
        list(self.folder().path()).is_ok_and(|names| !names.is_empty())
    }

    /// Folder of the whole run.
    pub fn folder(&self) -> &ResultFolder {
        self.results.folder()
    }

    /// Folder of the next load (a subfolder if there are several), and the observations with files in it.
    pub fn next(&self, symbols: &[DebugSymbols]) -> anyhow::Result<(ResultFolder, Observe)> {
        let folder = match self.load_count {
            1 => self.folder().clone(),
            _ => self.folder().sub(&load(self.points.len()))?,
        };
        let capture = self.args.pcap.then(|| folder.path().join("wire.pcap"));
        let mut observe = self.args.observe.observe(capture, folder.path())?;
        observe.symbols.extend(symbols.iter().map(|symbols| symbols.folder.clone()));
        Ok((folder, observe))
    }

    /// Adds the results of the next load, whose files are in `folder`.
    pub fn done(
        &mut self,
        folder: &ResultFolder,
        config: &RunConfig,
        summary: PointSummary,
        meanings: BTreeMap<String, String>,
        ran: RunIdentity,
    ) -> anyhow::Result<()> {
        self.ran = ran;
        if self.load_count > 1 {
            self.write_report(folder, config, vec![summary.clone()], meanings.clone())?;
        }
        self.points.push(summary);
        self.meanings = meanings;
        if self.load_count > self.points.len() {
            self.write_whole()?;
            self.results.publish_so_far()?;
        }
        Ok(())
    }

    /// Adds to an error how many loads are finished.
    pub fn with_finished_count<R>(&self, result: anyhow::Result<R>) -> anyhow::Result<R> {
        let (done, path) = (self.points.len(), self.args.output.out.display());
        match done {
            0 => result,
            _ => result.with_context(|| {
                format!("{done} of {} loads are finished; their results are in {path}", self.load_count)
            }),
        }
    }

    /// Publishes and prints the results after all loads are finished.
    pub fn finish(self, extra: &str) -> anyhow::Result<()> {
        let (summary, json) = self.write_whole()?;
        let written = self.results.publish()?;
        if self.args.output.json {
            out!("{json}");
            return Ok(());
        }
        match summary.points.as_slice() {
            [point] if point.rate == NO_TRAFFIC => {
                outln!("{}", without_traffic(self.name, point));
                out!("{}{}", doorbell_report::unsupported_text(point), doorbell_report::profile_text(point));
            }
            _ => out!("{}", doorbell_report::table(&summary)),
        }
        outln!("Results in {} ({}).", self.args.output.out.display(), list_names(&written));
        out!("{extra}");
        Ok(())
    }

    /// Keeps the files of a failed run, and returns their folder: a guest's console shows the cause.
    pub fn keep_partial(self) -> anyhow::Result<PathBuf> {
        Ok(self.results.publish_failed()?)
    }

    fn write_whole(&self) -> anyhow::Result<(RunSummary, String)> {
        let (points, meanings) = (self.points.clone(), self.meanings.clone());
        self.write_report(self.folder(), self.config, points, meanings)
    }

    /// Writes the report and the summary of these points, with the descriptions of their figures.
    fn write_report(
        &self,
        folder: &ResultFolder,
        config: &RunConfig,
        points: Vec<PointSummary>,
        meanings: BTreeMap<String, String>,
    ) -> anyhow::Result<(RunSummary, String)> {
        let is_whole = folder.path() == self.folder().path();
        let missing = if is_whole { self.load_count - self.points.len() } else { 0 };
        let ran = self.ran.clone();
        let mut summary = run_summary(self.name, command_line(), self.base, config, ran, meanings, points)?;
        summary.incomplete = (missing > 0).then(|| {
            let all = self.load_count;
            format!("{missing} of {all} loads were not measured, because the run ended early")
        });
        let json = folder.write_summary(&summary)?;
        let stacks = stacks(folder.path());
        let links = match (self.load_count, is_whole) {
            (1, _) => PageLinks { stacks, ..PageLinks::default() },
            (_, false) => PageLinks { stacks, ..PageLinks::up(1, ALL_LOADS) },
            (_, true) => {
                let loads = (0..self.points.len()).map(|index| format!("{}/report.html", load(index)));
                PageLinks { loads: loads.collect(), ..PageLinks::default() }
            }
        };
        folder.write("report.html", &html_with(&summary, &folder.config_text()?, &links))?;
        Ok((summary, json))
    }
}

/// Summary line of a run without offered load.
fn without_traffic(name: &str, point: &PointSummary) -> String {
    let millions = point.instructions as f64 / 1e6;
    let status = point.exit_status.map_or_else(String::new, |status| format!("exit status {status}, "));
    format!(
        "{name}: {status}measured for {:.3} ms of simulated time, {millions:.1} M instructions, {:.3} per cycle",
        point.simulated_seconds * 1e3,
        point.ipc
    )
}
