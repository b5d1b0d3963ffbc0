//! A history: which processes, in which order, and what goes wrong, all from a seed.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use doorbell_sim::rng::Rng;

use crate::commands::{COMMANDS, Command, IMAGE_COMMANDS, Kind};
use crate::controller::{Controller, Event};
use crate::world::{Figures, World};

/// A history has at most so many processes at once, and in all.
const AT_ONCE_MAX: usize = 3;
const PROCESSES_MAX: u64 = 6;
/// One of so many operations, at the most frequent, is a kill, the beginning of a time without space, or an interrupt.
const RARITIES: [u64; 4] = [15, 40, 120, 1000];
/// How many operations a disk stays full.
const FULL_STEPS_MAX: u64 = 12;
/// A history that takes more operations than this does not come to an end.
const STEPS_MAX: usize = 60_000;
/// How many operations pass between two looks at what is in place.
const LOOK_EVERY: u64 = 25;

/// One of so many histories has builds of images among its processes, which take longer than everything else.
const IMAGES_EVERY: u64 = 4;

/// What the commands leave in a world in which nothing goes wrong.
pub struct Expected {
    figures: BTreeMap<&'static str, Figures>,
    /// What images are built from.
    archive: doorbell_archive::World,
}

/// How a history went.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// File operations.
    pub steps: usize,
    /// Processes begun.
    pub processes: usize,
    /// Processes killed.
    pub kills: usize,
    /// Operations that found the disk full.
    pub full: usize,
    /// Processes interrupted.
    pub interrupts: usize,
}

/// What every command leaves if nothing disturbs it, each in a world of its own.
pub fn expected(doorbell: &Path) -> anyhow::Result<Expected> {
    let archive = doorbell_archive::World::new();
    let leaves = |command: &Command| {
        Ok((command.name, World::new(doorbell, archive.dir.path())?.undisturbed(command)?))
    };
    let figures = COMMANDS.iter().chain(&IMAGE_COMMANDS).map(leaves).collect::<anyhow::Result<_>>()?;
    Ok(Expected { figures, archive })
}

/// Plays the history of a seed. An error is a fault that it found; `log` then holds every operation.
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
    let rarity = RARITIES[rng.below(RARITIES.len() as u64) as usize];
    let mut images = Rng::stream(seed, "images");
    let images = (images.below(IMAGES_EVERY) == 0).then_some(images);
    let with_images = images.is_some();
    let mut history = History {
        world: &world,
        controller,
        expected,
        running: BTreeMap::new(),
        to_begin: 2 + rng.below(PROCESSES_MAX - 1),
        full_for: 0,
        disturbed: Vec::new(),
        outcome: Outcome::default(),
        told: control.path(),
        rarity,
        rng,
        images,
    };
    let played = history.play();
    log.append(&mut history.controller.log);
    let outcome = history.outcome;
    drop(history);
    played?;
    check_afterwards(&world, expected, with_images)?;
    Ok(outcome)
}

/// Everything is asked for once more, undisturbed: it must come out as if nothing had happened, and leave nothing else.
fn check_afterwards(world: &World, expected: &Expected, images: bool) -> anyhow::Result<()> {
    for command in COMMANDS.iter().chain(IMAGE_COMMANDS.iter().filter(|_| images)) {
        let figures = world.undisturbed(command)?;
        compare(command, &expected.figures[command.name], &figures)
            .with_context(|| format!("{}, asked for once more when all was over", command.name))?;
    }
    world.is_tidy()
}

fn compare(command: &Command, expected: &Figures, found: &Figures) -> anyhow::Result<()> {
    for (name, content) in found {
        match expected.get(name) {
            None => bail!("{} left {name}, which it does not leave undisturbed", command.name),
            Some(other) if other != content => bail!("{name} of {} is not as undisturbed", command.name),
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
    /// The commands of the processes under way, by number.
    running: BTreeMap<usize, Command>,
    to_begin: u64,
    /// The disk is full for so many more operations.
    full_for: u64,
    /// Processes that were killed, interrupted or found the disk full: they may fail.
    disturbed: Vec<usize>,
    outcome: Outcome,
    told: &'a Path,
    rarity: u64,
    rng: Rng,
    /// Random numbers for builds of images, if there are any.
    images: Option<Rng>,
}

impl History<'_> {
    fn play(&mut self) -> anyhow::Result<()> {
        loop {
            let room = self.running.len() < AT_ONCE_MAX && self.to_begin > 0;
            if self.controller.held() == 0 || (room && self.rng.below(20) == 0) {
                if self.to_begin == 0 {
                    return self.look();
                }
                self.begin()?;
            } else {
                self.step()?;
            }
            self.reap()?;
            if self.rng.below(LOOK_EVERY) == 0 {
                self.look()?;
            }
            self.outcome.steps += 1;
            ensure!(self.outcome.steps < STEPS_MAX, "the processes do not come to an end");
        }
    }

    fn begin(&mut self) -> anyhow::Result<()> {
        self.to_begin -= 1;
        let mut command = COMMANDS[self.rng.below(COMMANDS.len() as u64) as usize];
        if let Some(rng) = &mut self.images
            && rng.below(2) == 0
        {
            command = IMAGE_COMMANDS[rng.below(IMAGE_COMMANDS.len() as u64) as usize];
        }
        let told = self.told.join(format!("told-{}", self.outcome.processes));
        self.outcome.processes += 1;
        let number = self.controller.begin(self.world.process(&command), &told)?;
        self.controller.log.push(format!("{number} begins: {}", command.name));
        self.running.insert(number, command);
        Ok(())
    }

    /// One operation of one process.
    fn step(&mut self) -> anyhow::Result<()> {
        let held = self.rng.below(self.controller.held() as u64) as usize;
        let (root, step) = self.controller.step(held);
        let writes = ["write ", "create-folder ", "link ", "lock "].iter().any(|word| step.starts_with(word));
        let is_write = step.starts_with("write ");
        let event = if self.full_for > 0 && writes {
            Event::Full(if is_write { self.rng.below(64) as usize } else { 0 })
        } else if self.rng.below(self.rarity) == 0 {
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

    /// Processes that have ended must have ended well, or with an error that has a reason.
    fn reap(&mut self) -> anyhow::Result<()> {
        for (number, status, told) in self.controller.reap()? {
            let command = self.running.remove(&number).context("only what runs ends")?;
            ensure!(!told.contains("panicked at"), "{} panicked: {told}", command.name);
            if status.success() {
                continue;
            }
            // Who was not disturbed may still be refused a folder that another one writes.
            let refused = told.contains("is being written by another run");
            let disturbed = self.disturbed.contains(&number);
            ensure!(disturbed || refused, "{} failed without a reason: {told}", command.name);
        }
        Ok(())
    }

    /// What is in place now must be whole, and some command's.
    fn look(&self) -> anyhow::Result<()> {
        let all = || COMMANDS.iter().chain(&IMAGE_COMMANDS);
        for command in all() {
            let Some(found) = self.world.whole(command)? else { continue };
            let whose = all().filter(|other| other.results == command.results);
            let fits = whose.clone().any(|other| {
                let expected = &self.expected.figures[other.name];
                match other.kind {
                    Kind::Whole(1) | Kind::Image => compare(other, expected, &found).is_ok(),
                    // Of several loads the first ones may be there, with a summary of these.
                    Kind::Whole(_) | Kind::Points => part_of(expected, &found),
                }
            });
            ensure!(fits, "{} holds what none of its commands leaves undisturbed", command.results);
        }
        Ok(())
    }
}

/// Whether all of these results are among those; the summary of all of them grows with them.
fn part_of(expected: &Figures, found: &Figures) -> bool {
    found.iter().all(|(name, content)| name == "summary.json" || expected.get(name) == Some(content))
}
