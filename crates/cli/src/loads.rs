//! A run's results as they come: a folder for each load where there are several, and what is done in place whenever a load is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use doorbell_bench::{
    NO_TRAFFIC, PointSummary, ResultFolder, Results, RunConfig, RunIdentity, RunSummary, changes, limit,
    named,
};
use doorbell_files::list;
use doorbell_machine::Base;
use doorbell_report::{PageLinks, html_with};

use crate::exit::Asked;
use crate::inputs;
use crate::out::{out, outln};
use crate::run_args::{RunArgs, command_line};

/// What the page of several loads is called by those of each.
pub const ALL_LOADS: &str = "All loads";

/// The folder of one of several loads.
pub fn load(index: usize) -> String {
    format!("point-{index:02}")
}

/// The folded stacks in a folder, each with the name of its node, if it is a network's.
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
    asked: usize,
    points: Vec<PointSummary>,
    meanings: BTreeMap<String, String>,
    /// What runs: known from the first load that is done.
    ran: RunIdentity,
}

impl<'a> Loads<'a> {
    /// Begins the result folder of a run of so many loads.
    pub fn begin(
        args: &'a RunArgs,
        name: &'a str,
        config: &'a RunConfig,
        asked: usize,
    ) -> anyhow::Result<Loads<'a>> {
        inputs::keep_named(&args.output.out, config).asked()?;
        let results = inputs::begin(&args.output.out, &args.guest)?;
        let (points, meanings, ran) = Default::default();
        let base = args.common.base()?;
        Ok(Loads { args, name, base, config, results, asked, points, meanings, ran })
    }

    /// What is measured.
    pub fn name(&self) -> &str {
        self.name
    }

    /// Whether anything was written.
    pub fn has_files(&self) -> bool {
        list(self.folder().path()).is_ok_and(|names| !names.is_empty())
    }

    /// The whole run's folder.
    pub fn folder(&self) -> &ResultFolder {
        self.results.folder()
    }

    /// The folder of the load that is next (one of several has a folder of its own), and in it the capture of the wire, if one is
    /// wanted.
    pub fn next(&self) -> anyhow::Result<(ResultFolder, Option<PathBuf>)> {
        let folder = match self.asked {
            1 => self.folder().clone(),
            _ => self.folder().sub(&load(self.points.len()))?,
        };
        let capture = self.args.pcap.then(|| folder.path().join("wire.pcap"));
        Ok((folder, capture))
    }

    /// The next load is measured, and its files are in `folder`.
    pub fn done(
        &mut self,
        folder: &ResultFolder,
        config: &RunConfig,
        summary: PointSummary,
        meanings: BTreeMap<String, String>,
        ran: RunIdentity,
    ) -> anyhow::Result<()> {
        self.ran = ran;
        if self.asked > 1 {
            self.write_report(folder, config, vec![summary.clone()], meanings.clone())?;
        }
        self.points.push(summary);
        self.meanings = meanings;
        if self.asked > self.points.len() {
            self.write_whole()?;
            self.results.publish_so_far()?;
        }
        Ok(())
    }

    /// An error in the middle of several loads says what there is.
    pub fn but_some_are_done<R>(&self, result: anyhow::Result<R>) -> anyhow::Result<R> {
        let (done, path) = (self.points.len(), self.args.output.out.display());
        match done {
            0 => result,
            _ => result.with_context(|| format!("{done} of {} loads are done and in {path}", self.asked)),
        }
    }

    /// All loads are done: puts the results in place and prints them.
    pub fn finish(self, further: &str) -> anyhow::Result<()> {
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
        outln!("Results in {} ({}).", self.args.output.out.display(), named(&written));
        out!("{further}");
        Ok(())
    }

    /// Leaves what was written, though the run has failed, and tells where: a guest's console says why.
    pub fn keep_what_there_is(self) -> anyhow::Result<PathBuf> {
        Ok(self.results.publish_failed()?)
    }

    fn write_whole(&self) -> anyhow::Result<(RunSummary, String)> {
        let (points, meanings) = (self.points.clone(), self.meanings.clone());
        self.write_report(self.folder(), self.config, points, meanings)
    }

    /// Writes the summary of these points, with the meanings of their figures, and the report.
    fn write_report(
        &self,
        folder: &ResultFolder,
        config: &RunConfig,
        mut points: Vec<PointSummary>,
        meanings: BTreeMap<String, String>,
    ) -> anyhow::Result<(RunSummary, String)> {
        points.iter_mut().for_each(|point| point.limit = limit::of_point(point));
        let is_whole = folder.path() == self.folder().path();
        let missing = if is_whole { self.asked - self.points.len() } else { 0 };
        let base = self.base;
        let summary = RunSummary {
            benchmark: self.name.to_owned(),
            preset: base.name().to_owned(),
            changed: changes(base, config)?,
            doorbell_version: env!("CARGO_PKG_VERSION").to_owned(),
            command: command_line(),
            incomplete: (missing > 0).then(|| {
                format!("{missing} of {} loads were not measured: the run was ended early", self.asked)
            }),
            ran: self.ran.clone(),
            meanings,
            points,
        };
        let json = folder.write_summary(&summary)?;
        let stacks = stacks(folder.path());
        let beside = match (self.asked, is_whole) {
            (1, _) => PageLinks { stacks, ..PageLinks::default() },
            (_, false) => PageLinks { stacks, ..PageLinks::up(1, ALL_LOADS) },
            (_, true) => {
                let loads = (0..self.points.len()).map(|index| format!("{}/report.html", load(index)));
                PageLinks { loads: loads.collect(), ..PageLinks::default() }
            }
        };
        folder.write("report.html", &html_with(&summary, &folder.config_text()?, &beside))?;
        Ok((summary, json))
    }
}

/// What there is to say of a run in which nothing was offered.
fn without_traffic(name: &str, point: &PointSummary) -> String {
    let millions = point.instructions as f64 / 1e6;
    let status = point.exit_status.map_or_else(String::new, |status| format!("exit status {status}, "));
    format!(
        "{name}: {status}measured for {:.3} ms of simulated time, {millions:.1} M instructions, {:.3} a cycle",
        point.simulated_seconds * 1e3,
        point.ipc
    )
}
