//! An experiment for the commands: reads it, measures its points in separate processes, and draws its plots.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, bail};
use doorbell_bench::CachePaths;
use doorbell_study::experiment::{ExperimentFile, Identity, Plan, Progress, Store, Sweep, Table, sweep};

use crate::exit::Interrupted;
use crate::out::errln;
use crate::screen::Screen;
use crate::tally::Tally;

/// A validated experiment with its points' identities.
pub struct Experiment<'a> {
    pub file: PathBuf,
    pub places: &'a CachePaths,
    pub plan: Plan,
    pub identities: Vec<Identity>,
    pub out: PathBuf,
}

impl<'a> Experiment<'a> {
    /// Reads a file. Without `out`, results go to `results/` and the experiment's name.
    pub fn read(
        file: &Path,
        out: Option<&Path>,
        places: &'a CachePaths,
        screen: &Screen,
    ) -> anyhow::Result<Experiment<'a>> {
        let plan = Plan::new(ExperimentFile::read(file, places)?)?;
        let identities = plan.identities(places, &mut |line| screen.say(line))?;
        let out = out.map_or_else(|| Path::new("results").join(plan.file.name()), Path::to_owned);
        Ok(Experiment { file: file.to_owned(), places, plan, identities, out })
    }

    /// Measures every unfinished point, at most `jobs` at once. `part` is the name of the figure's part, or empty.
    pub fn measure(
        &self,
        store: &Store,
        jobs: usize,
        screen: &Screen,
        tally: &Tally,
        part: &str,
        interrupted: &AtomicBool,
    ) -> anyhow::Result<Sweep> {
        store.remove_partial()?;
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let command = |index: usize| self.point_command(&program, index, screen.moves());
        let (points, mut done, mut to_do) = (&self.plan.points, 0, 0);
        // Messages of a figure's part start with its name; a sweep is alone.
        let (before, name, at_once) = match part {
            "" => (String::new(), self.plan.file.name(), format!(", {jobs} at once")),
            _ => (format!("{part}: "), part, String::new()),
        };
        let named = |index: usize| format!("{part} point {index}").trim_start().to_owned();
        let mut report = |event| match event {
            Progress::ToDo(count) => {
                to_do = count;
                let all = points.len();
                screen.say(&format!("{name}: {all} points, {count} to measure{at_once}"));
                tally.leave_out(all - count);
            }
            Progress::Damaged(index, problem) => {
                screen.say(&format!(
                    "{before}point {index} is measured again, because its results are damaged ({problem}): {}",
                    points[index].describe()
                ));
            }
            Progress::Started(index) => tally.started(&named(index)),
            Progress::At(index, text) => tally.at(&named(index), text),
            Progress::Done(index) => {
                done += 1;
                tally.ended(&named(index), true);
                screen.say(&format!("{before}{done}/{to_do} point {index}: {}", points[index].describe()));
            }
            Progress::Failed(index) => {
                tally.ended(&named(index), false);
                screen.say(&format!("{before}point {index} failed: {}", points[index].describe()));
            }
        };
        let result = sweep(&self.plan, &self.identities, store, jobs, &command, interrupted, &mut report);
        if result.interrupted {
            store.remove_partial()?;
        }
        Ok(result)
    }

    /// Command that measures a point in its own process. With `reports`, it prints its progress.
    fn point_command(&self, program: &Path, index: usize, reports: bool) -> Command {
        let mut command = Command::new(program);
        command.arg("--cache").arg(&self.places.cache);
        command.args(["sweep", "run", "--with-parent", "--quiet", "--index", &index.to_string()]);
        command.args(["--expect", &self.identities[index].0]);
        command.args(reports.then_some("--tell-progress"));
        command.arg("--out").arg(&self.out).arg(&self.file);
        command
    }

    /// Table of the finished points.
    pub fn table(&self, store: &Store) -> anyhow::Result<Table> {
        Table::of(&self.plan, &self.identities, store).map_err(anyhow::Error::msg)
    }

    /// Reports failed points. Returns an error if there are any, or if the user interrupted the sweep.
    pub fn ended(&self, result: &Sweep) -> anyhow::Result<()> {
        for failure in &result.failures {
            let what = self.plan.points[failure.index].describe();
            errln!("point {} ({what}) failed: {}", failure.index, failure.problem);
        }
        if result.interrupted {
            return Err(Interrupted("finished points are kept, and the same command continues").into());
        }
        if !result.failures.is_empty() {
            let (failed, all) = (result.failures.len(), self.plan.points.len());
            bail!("{failed} of {all} points failed; the same command tries them again");
        }
        Ok(())
    }
}
