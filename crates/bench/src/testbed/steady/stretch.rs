//! A stretch: a part of a phase that is long enough to be compared with others.

use std::collections::BTreeMap;

use super::sample::{QUEUES, Sample};
use super::series::{Level, Ratio, change};
use super::{MISSES, MISSES_OF_MEMORY, PACE, QUEUE_FRAMES, QUEUE_SHARE, SHARE};

/// Sums over a stretch.
#[derive(Debug)]
pub(super) struct Stretch {
    pub begin: Sample,
    pub frames: u64,
    instructions: u64,
    misses: BTreeMap<String, Ratio>,
    queues: [Level; QUEUES.len()],
    /// Frames per picosecond.
    pace: Ratio,
    /// Frames transferred to or from a buffer, and the number of them whose buffer was new.
    buffers: (u64, u64),
    /// Whether all rings had wrapped around when it began.
    pub rings_round: bool,
}

impl Stretch {
    /// Starts a stretch at a sample.
    pub fn begin(sample: &Sample, rings_round: bool) -> Stretch {
        Stretch {
            begin: sample.clone(),
            frames: 0,
            instructions: 0,
            misses: BTreeMap::new(),
            queues: [Level::default(); QUEUES.len()],
            pace: Ratio::default(),
            buffers: (0, 0),
            rings_round,
        }
    }

    /// Adds the change from the sample `before` to the sample `now`.
    pub fn add(&mut self, before: &Sample, now: &Sample, of_frames: bool) {
        let frames = now.frames - before.frames;
        let instructions = now.instructions - before.instructions;
        self.frames += frames;
        self.instructions += instructions;
        let base = if of_frames { frames } else { instructions / 1000 };
        for (name, misses) in &now.misses {
            let then = before.misses.get(name).copied().unwrap_or(0);
            self.misses.entry(name.clone()).or_default().add(misses - then, base);
        }
        self.queues.iter_mut().zip(now.queues).for_each(|(level, frames)| level.add(frames));
        self.pace.add(frames, (now.now - before.now).0);
        self.buffers.0 += now.buffers.used - before.buffers.used;
        self.buffers.1 += now.buffers.new - before.buffers.new;
    }

    /// Base of the miss counts: frames, or thousands of instructions.
    pub fn base(&self, of_frames: bool) -> u64 {
        if of_frames { self.frames } else { self.instructions / 1000 }
    }

    /// Share of frames whose buffer was used for the first time.
    pub fn new_buffers(&self) -> f64 {
        if self.buffers.0 == 0 { 0.0 } else { self.buffers.1 as f64 / self.buffers.0 as f64 }
    }

    /// Merges the next stretch into this one.
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

/// The largest change of misses over these stretches as a multiple of the tolerated one, with its
/// description.
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

/// The same for queues.
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

/// The same for the frame rate.
pub(super) fn pace_change(of: &[&Stretch]) -> (f64, String) {
    let values: Vec<(f64, f64)> =
        of.iter().map(|stretch| (stretch.pace.value() * 1e6, stretch.pace.error() * 1e6)).collect();
    let change = change(&values, |before, after| (SHARE * before.max(after)).max(PACE));
    (change.excess, format!("{:.3} after {:.3} frames per µs", change.after, change.before))
}

fn worst(all: impl Iterator<Item = (f64, String)>) -> (f64, String) {
    all.reduce(|a, b| if b.0 > a.0 { b } else { a }).unwrap_or_default()
}
