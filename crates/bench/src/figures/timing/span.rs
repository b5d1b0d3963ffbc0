//! Increase of counters between two times, for all cores together or for one core.

use std::ops::Range;

use doorbell_machine::{DramStats, HartStats};
use doorbell_sim::stats::Stats;

use super::TimingSnapshot;
use super::snapshot::{AttachedCounts, HartCounts};
use crate::plan::config::RunConfig;

/// A measurement: counters at both ends, and the frames and instructions between them.
pub(crate) struct Span<'a> {
    pub begin: TimingSnapshot,
    pub end: TimingSnapshot,
    pub frames: u64,
    pub instructions: u64,
    pub config: &'a RunConfig,
}

impl Span<'_> {
    /// Increase of the counters of several harts or cores, by their numbers.
    fn sum<S: Stats>(&self, numbers: Range<usize>, of: impl Fn(&TimingSnapshot, usize) -> &S) -> S {
        let increase = |number| of(&self.end, number).since(of(&self.begin, number));
        S::sum(numbers.map(increase))
    }
}

/// A span of all cores together, or of one core. Shared resources belong to no single core.
pub(super) struct View<'a> {
    span: &'a Span<'a>,
    /// The harts: all measured ones, one, or the threads of one core.
    harts: Range<usize>,
    /// Whether the view covers all measured cores.
    pub is_of_all: bool,
    /// Counters of the harts, summed.
    pub own: HartCounts,
    /// Counters of the caches of the harts' cores, summed.
    pub private: HartStats,
    /// Core cycles, asleep or not, from the cores' own accounting: it ends at the boundary of an instruction
    /// block and is the sum of the CPI stack. For a core with several threads, the maximum over its threads.
    pub cycles: u64,
    pub frames: u64,
    pub instructions: u64,
    pub config: &'a RunConfig,
}

impl<'a> View<'a> {
    pub fn of_all(span: &'a Span<'a>) -> View<'a> {
        let view = View::of_harts(span, 0..span.end.own);
        let (cycles, instructions) = (view.own.core.books.cycles, span.instructions);
        View { is_of_all: true, cycles, instructions, ..view }
    }

    pub fn of_hart(span: &'a Span<'a>, hart: usize) -> View<'a> {
        View::of_harts(span, hart..hart + 1)
    }

    /// All threads of a core; without SMT, its hart.
    pub fn of_core(span: &'a Span<'a>, core: usize) -> View<'a> {
        let threads = span.end.threads;
        View::of_harts(span, core * threads..(core + 1) * threads)
    }

    fn of_harts(span: &'a Span<'a>, harts: Range<usize>) -> View<'a> {
        let Span { begin, end, frames, config, .. } = span;
        let own = HartCounts {
            core: span.sum(harts.clone(), |at, hart| &at.harts[hart].core),
            polls: span.sum(harts.clone(), |at, hart| &at.harts[hart].polls),
            rounds: span.sum(harts.clone(), |at, hart| &at.harts[hart].rounds),
        };
        let cores = harts.start / end.threads..harts.end.div_ceil(end.threads);
        let private = HartStats {
            core: span.sum(cores.clone(), |at, core| &at.memory.harts[core].core),
            l1i: span.sum(cores.clone(), |at, core| &at.memory.harts[core].l1i),
            l1d: span.sum(cores.clone(), |at, core| &at.memory.harts[core].l1d),
            l2: span.sum(cores.clone(), |at, core| &at.memory.harts[core].l2),
            sharing: span.sum(cores, |at, core| &at.memory.harts[core].sharing),
        };
        let cycles = |hart: usize| end.harts[hart].core.books.cycles - begin.harts[hart].core.books.cycles;
        View {
            cycles: harts.clone().map(cycles).max().unwrap_or(0),
            instructions: own.core.counts.instructions,
            own,
            private,
            is_of_all: false,
            frames: *frames,
            config,
            span,
            harts,
        }
    }

    /// Increase of a shared resource's counters.
    pub fn shared<S: Stats + 'a>(&self, of: impl Fn(&'a TimingSnapshot) -> &'a S) -> S {
        of(&self.span.end).since(of(&self.span.begin))
    }

    /// Increase of the counters of each of several shared resources of one kind.
    pub fn each<S: Stats + 'a, I: Iterator<Item = &'a S>>(
        &self,
        of: impl Fn(&'a TimingSnapshot) -> I,
    ) -> Vec<S> {
        of(&self.span.end).zip(of(&self.span.begin)).map(|(now, then)| now.since(then)).collect()
    }

    /// Increase of the counters of each memory channel.
    pub fn dram(&self) -> Vec<DramStats> {
        self.each(|at| at.dram.iter())
    }

    /// Increase of the counters of each attachment.
    pub fn attached(&self) -> Vec<AttachedCounts> {
        let all = self.span.end.attached.iter().zip(&self.span.begin.attached);
        all.map(|(now, then)| now.since(then)).collect()
    }

    /// The counters at the end, which show the machine's parts.
    pub fn end(&self) -> &'a TimingSnapshot {
        &self.span.end
    }

    pub fn seconds(&self) -> f64 {
        (self.span.end.now - self.span.begin.now).0 as f64 * 1e-12
    }

    /// Whether there are cores that run co-runners.
    pub fn has_neighbours(&self) -> bool {
        self.span.end.own < self.span.end.harts.len()
    }

    /// Misses in the LLC of the cores' requests. Unlike the LLC's own counter, these include some lines in
    /// flight and requests for the right to write, but none of co-runners.
    pub fn llc_request_misses(&self) -> u64 {
        let core = &self.private.core;
        core.crd_misses + core.drd_misses + core.rfo_misses
    }

    /// A view of each hart.
    pub fn harts(&self) -> impl Iterator<Item = View<'a>> {
        self.harts.clone().map(|hart| View::of_hart(self.span, hart))
    }

    /// A view of each hart that polls receive rings.
    pub fn polling(&self) -> Vec<View<'a>> {
        self.harts().filter(|w| w.own.polls.packets + w.own.polls.polls > 0).collect()
    }

    /// Core cycles with at least one thread awake, as a lower bound: for each core, the awake cycles of the
    /// thread that sleeps least.
    pub fn awake_cycles_of_cores(&self) -> f64 {
        let threads = self.span.end.threads;
        let mut most = vec![0.0; self.span.end.harts.len().div_ceil(threads)];
        for w in self.harts() {
            let core = w.harts.start / threads;
            most[core] = f64::max(most[core], w.awake_cycles());
        }
        most.iter().sum()
    }

    /// Core cycles without sleep. A sleep that spans the whole measurement may have one cycle more than it.
    pub fn awake_cycles(&self) -> f64 {
        self.cycles as f64 - self.own.core.books.cpi_idle as f64
    }
}
