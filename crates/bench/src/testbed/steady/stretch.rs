//! A part of a phase, long enough to be compared with others.

use std::collections::BTreeMap;

use super::seen::{QUEUES, Seen};
use super::series::{Level, Ratio, change};
use super::{MISSES, MISSES_OF_MEMORY, PACE, QUEUE_FRAMES, QUEUE_SHARE, SHARE};

/// What was seen in it.
#[derive(Debug)]
pub(super) struct Stretch {
    pub begin: Seen,
    pub frames: u64,
    instructions: u64,
    misses: BTreeMap<String, Ratio>,
    queues: [Level; QUEUES.len()],
    /// Frames a picosecond.
    pace: Ratio,
    /// Frames that moved to or from a buffer, and those of them whose buffer was new.
    buffers: (u64, u64),
    /// Whether all rings had gone round when it began.
    pub rings_round: bool,
}

impl Stretch {
    /// One that begins with this.
    pub fn begin(seen: &Seen, rings_round: bool) -> Stretch {
        Stretch {
            begin: seen.clone(),
            frames: 0,
            instructions: 0,
            misses: BTreeMap::new(),
            queues: [Level::default(); QUEUES.len()],
            pace: Ratio::default(),
            buffers: (0, 0),
            rings_round,
        }
    }

    /// A look, after the one before it.
    pub fn add(&mut self, before: &Seen, seen: &Seen, of_frames: bool) {
        let frames = seen.frames - before.frames;
        let instructions = seen.instructions - before.instructions;
        self.frames += frames;
        self.instructions += instructions;
        let base = if of_frames { frames } else { instructions / 1000 };
        for (name, now) in &seen.misses {
            let then = before.misses.get(name).copied().unwrap_or(0);
            self.misses.entry(name.clone()).or_default().add(now - then, base);
        }
        self.queues.iter_mut().zip(seen.queues).for_each(|(level, frames)| level.add(frames));
        self.pace.add(frames, (seen.now - before.now).0);
        self.buffers.0 += seen.buffers.used - before.buffers.used;
        self.buffers.1 += seen.buffers.new - before.buffers.new;
    }

    /// What misses are counted by.
    pub fn base(&self, of_frames: bool) -> u64 {
        if of_frames { self.frames } else { self.instructions / 1000 }
    }

    /// The share of frames in buffers that none had used.
    pub fn new_buffers(&self) -> f64 {
        if self.buffers.0 == 0 { 0.0 } else { self.buffers.1 as f64 / self.buffers.0 as f64 }
    }

    /// Both together, the other being the next one.
    pub fn plus(mut self, other: Stretch) -> Stretch {
        self.frames += other.frames;
        self.instructions += other.instructions;
        for (name, ratio) in other.misses {
            let own = self.misses.entry(name).or_default();
            *own = own.plus(&ratio);
        }
        for (own, level) in self.queues.iter_mut().zip(&other.queues) {
            *own = own.plus(level);
        }
        self.pace = self.pace.plus(&other.pace);
        self.buffers.0 += other.buffers.0;
        self.buffers.1 += other.buffers.1;
        self
    }
}

/// By how many times what is tolerated misses change over these stretches, where they do most.
pub(super) fn misses_change(of: &[&Stretch]) -> (f64, String) {
    let names = of.first().into_iter().flat_map(|stretch| stretch.misses.keys());
    worst(names.map(|name| {
        let ratios = of.iter().filter_map(|stretch| stretch.misses.get(name));
        let values: Vec<(f64, f64)> = ratios.map(|ratio| (ratio.value(), ratio.error())).collect();
        let least = MISSES
            .iter()
            .find(|(level, _)| name.starts_with(level))
            .map_or(MISSES_OF_MEMORY, |(_, least)| *least);
        let change = change(&values, |before, after| (SHARE * before.max(after)).max(least));
        (change.excess, format!("{name}: {:.3} after {:.3} misses", change.after, change.before))
    }))
}

/// The same of queues.
pub(super) fn queues_change(of: &[&Stretch]) -> (f64, String) {
    let frames = of.iter().map(|stretch| stretch.frames).min().unwrap_or(0);
    let least = (QUEUE_SHARE * frames as f64).max(QUEUE_FRAMES);
    worst(QUEUES.iter().enumerate().map(|(queue, name)| {
        let levels = of.iter().map(|stretch| &stretch.queues[queue]);
        let values: Vec<(f64, f64)> = levels.map(|level| (level.mean(), level.error())).collect();
        let change = change(&values, |_, _| least);
        (change.excess, format!("{name}: {:.0} after {:.0} frames", change.after, change.before))
    }))
}

/// The same of the number of frames.
pub(super) fn pace_change(of: &[&Stretch]) -> (f64, String) {
    let values: Vec<(f64, f64)> =
        of.iter().map(|stretch| (stretch.pace.value() * 1e6, stretch.pace.error() * 1e6)).collect();
    let change = change(&values, |before, after| (SHARE * before.max(after)).max(PACE));
    (change.excess, format!("{:.3} after {:.3} frames a µs", change.after, change.before))
}

fn worst(all: impl Iterator<Item = (f64, String)>) -> (f64, String) {
    all.reduce(|a, b| if b.0 > a.0 { b } else { a }).unwrap_or_default()
}
