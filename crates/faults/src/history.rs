//! A history: the order of processes and faults, all determined by a seed.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use doorbell_sim::rng::Rng;

use crate::commands::{COMMANDS, Command, IMAGE_COMMANDS, Kind};
use crate::controller::{Controller, Event};
use crate::world::{Figures, World};

/// Maximum number of processes at once and in total.
const CONCURRENT_MAX: usize = 3;
const PROCESSES_MAX: u64 = 6;
/// A fault (kill, disk full or interrupt) happens once in this number of operations; one value is chosen per
/// history.
const OPERATIONS_PER_FAULT: [u64; 4] = [15, 40, 120, 1000];
/// Maximum number of operations for which the disk stays full.
const FULL_STEPS_MAX: u64 = 12;
/// A history with more operations than this is considered endless.
const STEPS_MAX: usize = 60_000;
/// Mean number of operations between two checks of the results.
const CHECK_EVERY: u64 = 25;

/// One in this number of histories includes image builds, which take longer than everything else.
const IMAGES_EVERY: u64 = 4;

/// Results of the commands in a world without faults.
pub struct Expected {
    figures: BTreeMap<&'static str, Figures>,
    /// Package archive for image builds.
    archive: doorbell_archive::World,
}

/// Counts of a history.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// File operations.
    pub steps: usize,
    /// Processes started.
    pub processes: usize,
    /// Processes killed.
    pub kills: usize,
    /// Operations that failed because the disk was full.
    pub full: usize,
    /// Processes interrupted.
    pub interrupts: usize,
}

/// Runs every command without faults, each in its own world.
pub fn expected(doorbell: &Path) -> anyhow::Result<Expected> {
    let archive = doorbell_archive::World::new();
    let leaves = |command: &Command| {
        Ok((command.name, World::new(doorbell, archive.dir.path())?.undisturbed(command)?))
    };
    let figures = COMMANDS.iter().chain(&IMAGE_COMMANDS).map(leaves).collect::<anyhow::Result<_>>()?;
    Ok(Expected { figures, archive })
}

/// Plays the history of a seed. Returns an error for a detected fault; `log` then contains every operation.
pub fn play(
    seed: u64,
    doorbell: &Path,
    expected: &Expected,
    log: &mut Vec<String>,
) -> anyhow::Result<Outcome> {
    let world = World::new(doorbell, expected.archive.dir.path())?;
    let control = tempfile::tempdir()?;
    let controller = Controller::new(control.path())?;
    let mut rng = Rng::stream(seed, "faults");
    let operations_per_fault = OPERATIONS_PER_FAULT[rng.below(OPERATIONS_PER_FAULT.len() as u64) as usize];
    let mut images = Rng::stream(seed, "images");
    let images = (images.below(IMAGES_EVERY) == 0).then_some(images);
    let with_images = images.is_some();
    let mut history = History {
        world: &world,
        controller,
        expected,
        running: BTreeMap::new(),
        to_start: 2 + rng.below(PROCESSES_MAX - 1),
        full_for: 0,
        disturbed: Vec::new(),
        outcome: Outcome::default(),
        output_folder: control.path(),
        operations_per_fault,
        rng,
        images,
    };
    let played = history.play();
    log.append(&mut history.controller.log);
    let outcome = history.outcome;
    drop(history);
    played?;
    check_after_history(&world, expected, with_images)?;
    Ok(outcome)
}

/// Repeats every command without faults: results must be as expected, and no other files may be left.
fn check_after_history(world: &World, expected: &Expected, images: bool) -> anyhow::Result<()> {
    for command in COMMANDS.iter().chain(IMAGE_COMMANDS.iter().filter(|_| images)) {
        let figures = world.undisturbed(command)?;
        compare(command, &expected.figures[command.name], &figures)
            .with_context(|| format!("{}, repeated after the history", command.name))?;
    }
    world.check_no_leftovers()
}

fn compare(command: &Command, expected: &Figures, found: &Figures) -> anyhow::Result<()> {
    for (name, content) in found {
        match expected.get(name) {
            None => bail!("{} left {name}, which is not among its expected results", command.name),
            Some(other) if other != content => {
                bail!("{name} of {} differs from the undisturbed result", command.name)
            }
            Some(_) => {}
        }
    }
    let missing = expected.keys().find(|name| !found.contains_key(*name));
    ensure!(missing.is_none(), "{} did not leave {}", command.name, missing.map_or("", |name| name));
    Ok(())
}

struct History<'a> {
    world: &'a World,
    controller: Controller,
    expected: &'a Expected,
    /// Commands of the running processes, by number.
    running: BTreeMap<usize, Command>,
    to_start: u64,
    /// Number of operations for which the disk stays full.
    full_for: u64,
    /// Processes that were killed, interrupted or found the disk full: they may fail.
    disturbed: Vec<usize>,
    outcome: Outcome,
    output_folder: &'a Path,
    operations_per_fault: u64,
    rng: Rng,
    /// Random numbers for image builds, if the history has any.
    images: Option<Rng>,
}

impl History<'_> {
    fn play(&mut self) -> anyhow::Result<()> {
        loop {
            let room = self.running.len() < CONCURRENT_MAX && self.to_start > 0;
            if self.controller.held_count() == 0 || (room && self.rng.below(20) == 0) {
                if self.to_start == 0 {
                    return self.check_results();
                }
                self.begin()?;
            } else {
                self.step()?;
            }
            self.reap()?;
            if self.rng.below(CHECK_EVERY) == 0 {
                self.check_results()?;
            }
            self.outcome.steps += 1;
            ensure!(self.outcome.steps < STEPS_MAX, "the processes do not end");
        }
    }

    fn begin(&mut self) -> anyhow::Result<()> {
        self.to_start -= 1;
        let mut command = COMMANDS[self.rng.below(COMMANDS.len() as u64) as usize];
        if let Some(rng) = &mut self.images
            && rng.below(2) == 0
        {
            command = IMAGE_COMMANDS[rng.below(IMAGE_COMMANDS.len() as u64) as usize];
        }
        let output = self.output_folder.join(format!("output-{}", self.outcome.processes));
        self.outcome.processes += 1;
        let number = self.controller.begin(self.world.process(&command), &output)?;
        self.controller.log.push(format!("{number} begins: {}", command.name));
        self.running.insert(number, command);
        Ok(())
    }

    /// Lets one process perform one operation.
    fn step(&mut self) -> anyhow::Result<()> {
        let held = self.rng.below(self.controller.held_count() as u64) as usize;
        let (root, step) = self.controller.step(held);
        let writes = ["write ", "create-folder ", "link ", "lock "].iter().any(|word| step.starts_with(word));
        let is_write = step.starts_with("write ");
        let event = if self.full_for > 0 && writes {
            Event::Full(if is_write { self.rng.below(64) as usize } else { 0 })
        } else if self.rng.below(self.operations_per_fault) == 0 {
            match self.rng.below(4) {
                0 | 1 => Event::Kill,
                2 => Event::Interrupt,
                _ => {
                    self.full_for = 1 + self.rng.below(FULL_STEPS_MAX);
                    Event::Go
                }
            }
        } else {
            Event::Go
        };
        self.full_for = self.full_for.saturating_sub(1);
        match event {
            Event::Kill => self.outcome.kills += 1,
            Event::Full(_) => self.outcome.full += 1,
            Event::Interrupt => self.outcome.interrupts += 1,
            Event::Go => {}
        }
        if event != Event::Go {
            self.disturbed.push(root);
        }
        self.controller.decide(held, event)
    }

    /// Checks that ended processes succeeded, or failed for a valid reason.
    fn reap(&mut self) -> anyhow::Result<()> {
        for (number, status, output) in self.controller.reap()? {
            let command = self.running.remove(&number).context("an ended process is not in the list")?;
            ensure!(!output.contains("panicked at"), "{} panicked: {output}", command.name);
            if status.success() {
                continue;
            }
            // An undisturbed process may be refused a folder that another one is writing.
            let refused = output.contains("is being written by another run");
            let disturbed = self.disturbed.contains(&number);
            ensure!(disturbed || refused, "{} failed without a reason: {output}", command.name);
        }
        Ok(())
    }

    /// Checks that current results are complete and belong to some command.
    fn check_results(&self) -> anyhow::Result<()> {
        let all = || COMMANDS.iter().chain(&IMAGE_COMMANDS);
        for command in all() {
            let Some(found) = self.world.complete_results(command)? else { continue };
            let sharing = all().filter(|other| other.results == command.results);
            let is_expected = sharing.clone().any(|other| {
                let expected = &self.expected.figures[other.name];
                match other.kind {
                    Kind::Whole(1) | Kind::Image => compare(other, expected, &found).is_ok(),
                    // With several loads, only the first ones may exist yet, with a matching summary.
                    Kind::Whole(_) | Kind::Points => part_of(expected, &found),
                }
            });
            ensure!(
                is_expected,
                "{} contains results that none of its commands produces without faults",
                command.results
            );
        }
        Ok(())
    }
}

/// Whether `found` is a subset of `expected`; the summary grows with the results.
fn part_of(expected: &Figures, found: &Figures) -> bool {
    found.iter().all(|(name, content)| name == "summary.json" || expected.get(name) == Some(content))
}
