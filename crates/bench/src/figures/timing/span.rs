//! Increase of counters between two times, for all cores together or for one core.

use std::ops::Range;

use doorbell_machine::{Books, TopDown};
use doorbell_sim::stats::Stats;

use super::TimingSnapshot;
use crate::plan::config::RunConfig;

/// Whether a counter belongs to a core's private caches, which its threads share.
fn is_private(name: &str) -> bool {
    ["memory.", "l1i.", "l1d.", "l2.", "sharing."].iter().any(|group| name.starts_with(group))
}

/// A measurement: counters at both ends, and the frames and instructions between them.
pub(crate) struct Span<'a> {
    pub begin: TimingSnapshot,
    pub end: TimingSnapshot,
    pub frames: u64,
    pub instructions: u64,
    pub config: &'a RunConfig,
}

/// A span of all cores together, or of one core. Shared resources belong to no single core.
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

    /// All threads of a core; without SMT, its hart.
    pub fn of_core(span: &'a Span<'a>, core: usize) -> View<'a> {
        let threads = span.config.platform.threads as usize;
        View::of_harts(span, core * threads..(core + 1) * threads)
    }

    fn of_harts(span: &'a Span<'a>, harts: Range<usize>) -> View<'a> {
        let view = View { harts: Some(harts), ..View::of_all(span) };
        View { instructions: view.increase("core.instructions"), ..view }
    }

    /// Whether the view covers all measured cores.
    pub fn is_of_all(&self) -> bool {
        self.harts.is_none()
    }

    /// Increase of the counter with this full path.
    fn increase_of_path(&self, path: &str) -> u64 {
        let at = |snapshot: &TimingSnapshot| {
            *snapshot.counts.get(path).unwrap_or_else(|| panic!("there is no counter \"{path}\""))
        };
        at(&self.span.end) - at(&self.span.begin)
    }

    /// Increase of a hart's counter.
    fn increase_of_hart(&self, hart: usize, name: &str) -> u64 {
        self.increase_of_path(&format!("hart{hart}.{name}"))
    }

    /// Increase of the counter `name`, given as `group.counter`, in the cores of this view.
    fn increase(&self, name: &str) -> u64 {
        let Some(harts) = &self.harts else { return self.increase_of_path(name) };
        let name = name.replace("hart.", "memory.");
        let threads = self.config.platform.threads as usize;
        match threads > 1 && is_private(&name) {
            true => self.increase_of_path(&format!("core{}.{name}", harts.start / threads)),
            false => harts.clone().map(|hart| self.increase_of_hart(hart, &name)).sum(),
        }
    }

    /// Increase of a counter as a float, for ratios.
    pub fn n(&self, name: &str) -> f64 {
        self.increase(name) as f64
    }

    /// Whether this counter exists. Counters of links and buses depend on the attachment.
    pub fn has(&self, name: &str) -> bool {
        self.span.end.counts.contains_key(name)
    }

    /// Increase of the counter `counter` in each component whose path starts with `path`.
    pub fn each(&self, path: &str, counter: &str) -> Vec<f64> {
        let is_one = |name: &&String| name.starts_with(path) && name.rsplit('.').next() == Some(counter);
        self.span.end.counts.keys().filter(is_one).map(|name| self.n(name)).collect()
    }

    /// Increase of several counters, summed.
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
        let books = |snapshot: &TimingSnapshot| {
            snapshot.books[self.own()].iter().fold(Books::default(), |sum, books| sum.plus(books))
        };
        books(&self.span.end).since(&books(&self.span.begin))
    }

    pub fn seconds(&self) -> f64 {
        (self.span.end.now - self.span.begin.now).0 as f64 * 1e-12
    }

    /// Whether there are cores that run co-runners.
    pub fn has_neighbours(&self) -> bool {
        self.span.end.own < self.span.end.books.len()
    }

    /// The harts of the view.
    fn own(&self) -> Range<usize> {
        self.harts.clone().unwrap_or(0..self.span.end.own)
    }

    /// A view of each hart.
    pub fn harts(&self) -> impl Iterator<Item = View<'a>> {
        self.own().map(|hart| View::of_hart(self.span, hart))
    }

    /// A view of each hart that polls receive rings.
    pub fn polling(&self) -> Vec<View<'a>> {
        self.harts().filter(|w| w.n("polls.packets") + w.n("polls.polls") > 0.0).collect()
    }

    /// Core cycles with at least one thread awake, as a lower bound: for each core, the awake cycles of the
    /// thread that sleeps least.
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

    /// Core cycles, asleep or not, from the cores' own accounting: it ends at the boundary of an instruction
    /// block and is the sum of the CPI stack. For a core with several threads, the maximum over its threads.
    pub fn cycles(&self) -> f64 {
        match &self.harts {
            Some(harts) => {
                let each = harts.clone().map(|hart| self.increase_of_hart(hart, "core.cycles"));
                each.max().unwrap_or(0) as f64
            }
            None => self.n("core.cycles"),
        }
    }
}
