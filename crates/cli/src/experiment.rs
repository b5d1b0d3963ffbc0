//! An experiment as the commands see it: read from a file, measured point by point in processes of their own, and drawn.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, bail};
use doorbell_bench::Places;
use doorbell_study::experiment::{ExperimentFile, Identity, Plan, Progress, Store, Sweep, Table, sweep};

use crate::exit::Interrupted;
use crate::out::tell;
use crate::screen::Screen;
use crate::tally::Tally;

/// Who is told how far points are, and what they are part of, if there is anything else.
pub type Told<'a> = (&'a Screen, &'a Tally, &'a str);

/// An experiment, read and checked, and its points' identities.
pub struct Experiment<'a> {
    pub file: PathBuf,
    pub places: &'a Places,
    pub plan: Plan,
    pub identities: Vec<Identity>,
    pub out: PathBuf,
}

impl<'a> Experiment<'a> {
    /// Reads a file; without a result folder, results go to `results/` and the experiment's name.
    pub fn read(
        file: &Path,
        out: Option<&Path>,
        places: &'a Places,
        screen: &Screen,
    ) -> anyhow::Result<Experiment<'a>> {
        let plan = Plan::new(ExperimentFile::read(file, places)?)?;
        let identities = plan.identities(places, &mut |line| screen.say(line))?;
        let out = out.map_or_else(|| Path::new("results").join(plan.file.name()), Path::to_owned);
        Ok(Experiment { file: file.to_owned(), places, plan, identities, out })
    }

    /// Measures every point that is not done, `jobs` at once.
    pub fn measure(
        &self,
        store: &Store,
        jobs: usize,
        (screen, tally, of): Told,
        interrupted: &AtomicBool,
    ) -> anyhow::Result<Sweep> {
        store.remove_partial()?;
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let command = |index: usize| self.point_command(&program, index, screen.moves());
        let (points, mut done, mut to_do) = (&self.plan.points, 0, 0);
        // A figure's part is named before each of its lines; a sweep is alone.
        let (before, name, at_once) = match of {
            "" => (String::new(), self.plan.file.name(), format!(", {jobs} at once")),
            part => (format!("{part}: "), part, String::new()),
        };
        let named = |index: usize| format!("{of} point {index}").trim_start().to_owned();
        let mut tell = |event| match event {
            Progress::ToDo(count) => {
                to_do = count;
                let all = points.len();
                screen.say(&format!("{name}: {all} points, {count} to measure{at_once}"));
                tally.leave_out(all - count);
            }
            Progress::Damaged(index, problem) => {
                screen.say(&format!(
                    "{before}point {index} is measured again, because {problem}: {}",
                    points[index].describe()
                ));
            }
            Progress::Started(index) => tally.began(&named(index)),
            Progress::At(index, said) => tally.at(&named(index), said),
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
        let result = sweep(&self.plan, &self.identities, store, jobs, &command, interrupted, &mut tell);
        if result.interrupted {
            store.remove_partial()?;
        }
        Ok(result)
    }

    /// What measures a point in a process of its own, which says how far it is if anybody wants to know.
    fn point_command(&self, program: &Path, index: usize, tells: bool) -> Command {
        let mut command = Command::new(program);
        command.arg("--cache").arg(&self.places.cache);
        command.args(["sweep", "run", "--with-parent", "--quiet", "--index", &index.to_string()]);
        command.args(["--expect", &self.identities[index].0]);
        command.args(tells.then_some("--tell-progress"));
        command.arg("--out").arg(&self.out).arg(&self.file);
        command
    }

    /// The table of what is done.
    pub fn table(&self, store: &Store) -> anyhow::Result<Table> {
        Table::of(&self.plan, &self.identities, store).map_err(anyhow::Error::msg)
    }

    /// Says which points failed; an error if any did, or if the user stopped it.
    pub fn ended(&self, result: &Sweep) -> anyhow::Result<()> {
        for failure in &result.failures {
            let what = self.plan.points[failure.index].describe();
            tell!("point {} ({what}) failed: {}", failure.index, failure.problem);
        }
        if result.interrupted {
            return Err(
                Interrupted("the points that are done stay done, and the same command goes on").into()
            );
        }
        if !result.failures.is_empty() {
            let (failed, all) = (result.failures.len(), self.plan.points.len());
            bail!("{failed} of {all} points failed; the same command tries them again");
        }
        Ok(())
    }
}
