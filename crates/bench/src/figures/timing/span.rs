//! What the counters grew by between two moments: those of all cores together, or those of one.

use std::ops::Range;

use doorbell_machine::{Books, TopDown};
use doorbell_sim::stats::Stats;

use super::Moment;
use crate::plan::config::RunConfig;

/// Whether a counter is of a core's own caches, which its threads share.
fn is_private(name: &str) -> bool {
    ["memory.", "l1i.", "l1d.", "l2.", "sharing."].iter().any(|group| name.starts_with(group))
}

/// Between two moments, and what the measurement delivered.
pub(crate) struct Span<'a> {
    pub begin: Moment,
    pub end: Moment,
    pub frames: u64,
    pub instructions: u64,
    pub config: &'a RunConfig,
}

/// A span as it is looked at: all cores together, or one of them. What cores share belongs to none.
pub(super) struct View<'a> {
    span: &'a Span<'a>,
    /// One hart, or the threads of one core.
    harts: Option<Range<usize>>,
    pub frames: u64,
    pub instructions: u64,
    pub config: &'a RunConfig,
}

impl<'a> View<'a> {
    pub fn of_all(span: &'a Span<'a>) -> View<'a> {
        let Span { frames, instructions, config, .. } = *span;
        View { span, harts: None, frames, instructions, config }
    }

    pub fn of_hart(span: &'a Span<'a>, hart: usize) -> View<'a> {
        View::of_harts(span, hart..hart + 1)
    }

    /// All threads of a core, if cores have some; of a core without, its hart.
    pub fn of_core(span: &'a Span<'a>, core: usize) -> View<'a> {
        let threads = span.config.platform.threads as usize;
        View::of_harts(span, core * threads..(core + 1) * threads)
    }

    fn of_harts(span: &'a Span<'a>, harts: Range<usize>) -> View<'a> {
        let view = View { harts: Some(harts), ..View::of_all(span) };
        View { instructions: view.grown("core.instructions"), ..view }
    }

    /// Whether it is of the whole machine.
    pub fn is_of_all(&self) -> bool {
        self.harts.is_none()
    }

    /// What a counter grew by, by its full path.
    fn between(&self, path: &str) -> u64 {
        let at = |moment: &Moment| {
            *moment.counts.get(path).unwrap_or_else(|| panic!("there is no counter \"{path}\""))
        };
        at(&self.span.end) - at(&self.span.begin)
    }

    /// The same of a hart's.
    fn of(&self, hart: usize, name: &str) -> u64 {
        self.between(&format!("hart{hart}.{name}"))
    }

    /// What a counter grew by. The names are this program's own: a group's, and a counter's in it.
    fn grown(&self, name: &str) -> u64 {
        let grown = |name: &str| self.between(name);
        let Some(harts) = &self.harts else { return grown(name) };
        let name = name.replace("hart.", "memory.");
        let threads = self.config.platform.threads as usize;
        match threads > 1 && is_private(&name) {
            true => grown(&format!("core{}.{name}", harts.start / threads)),
            false => harts.clone().map(|hart| self.of(hart, &name)).sum(),
        }
    }

    /// The same, to be divided.
    pub fn n(&self, name: &str) -> f64 {
        self.grown(name) as f64
    }

    /// Whether there is such a counter: what devices are attached by has some of its own.
    pub fn has(&self, name: &str) -> bool {
        self.span.end.counts.contains_key(name)
    }

    /// What a counter grew by of each of several, whose paths begin alike.
    pub fn each(&self, path: &str, counter: &str) -> Vec<f64> {
        let one = |name: &&String| name.starts_with(path) && name.rsplit('.').next() == Some(counter);
        self.span.end.counts.keys().filter(one).map(|name| self.n(name)).collect()
    }

    pub fn sum(&self, names: &[&str]) -> f64 {
        names.iter().map(|name| self.n(name)).sum()
    }

    pub fn top_down(&self) -> TopDown {
        self.books().top_down()
    }

    /// The third level; see [`Books::top_down_3`].
    pub fn top_down_3(&self) -> [Vec<(&'static str, u64)>; 3] {
        self.books().top_down_3()
    }

    fn books(&self) -> Books {
        let books = |moment: &Moment| {
            moment.books[self.own()].iter().fold(Books::default(), |sum, books| sum.plus(books))
        };
        books(&self.span.end).since(&books(&self.span.begin))
    }

    pub fn seconds(&self) -> f64 {
        (self.span.end.now - self.span.begin.now).0 as f64 * 1e-12
    }

    /// Whether there are cores that are not summed up.
    pub fn has_neighbours(&self) -> bool {
        self.span.end.own < self.span.end.books.len()
    }

    /// The harts that it is of.
    fn own(&self) -> Range<usize> {
        self.harts.clone().unwrap_or(0..self.span.end.own)
    }

    /// Each of its harts.
    pub fn harts(&self) -> impl Iterator<Item = View<'a>> {
        self.own().map(|hart| View::of_hart(self.span, hart))
    }

    /// Each of them that polls receive rings.
    pub fn polling(&self) -> Vec<View<'a>> {
        self.harts().filter(|w| w.n("polls.packets") + w.n("polls.polls") > 0.0).collect()
    }

    /// Cycles of cores in which a thread of theirs is awake, at the least: as many as that of its threads has which sleeps least.
    pub fn awake_cycles_of_cores(&self) -> f64 {
        let threads = self.config.platform.threads as usize;
        let mut most = vec![0.0; self.span.end.books.len().div_ceil(threads)];
        for hart in self.own() {
            let awake = View::of_hart(self.span, hart).awake_cycles();
            most[hart / threads] = f64::max(most[hart / threads], awake);
        }
        most.iter().sum()
    }

    /// Core cycles without sleep.
    pub fn awake_cycles(&self) -> f64 {
        self.cycles() - self.n("core.cpi_idle")
    }

    /// Core cycles, asleep or not: those that the cores' own books have, which end behind a block of instructions and are the sum of the CPI
    /// stack. Of a core's threads, as many as the one has that has come farthest.
    pub fn cycles(&self) -> f64 {
        match &self.harts {
            Some(harts) => harts.clone().map(|hart| self.of(hart, "core.cycles")).max().unwrap_or(0) as f64,
            None => self.n("core.cycles"),
        }
    }
}
