//! What the counters grew by between two moments: those of all cores together, or those of one.

use doorbell_machine::{Books, TopDown};
use doorbell_sim::stats::Stats;

use super::Moment;
use crate::config::RunConfig;

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
    hart: Option<usize>,
    pub frames: u64,
    pub instructions: u64,
    pub config: &'a RunConfig,
}

impl<'a> View<'a> {
    pub fn of_all(span: &'a Span<'a>) -> View<'a> {
        let Span { frames, instructions, config, .. } = *span;
        View { span, hart: None, frames, instructions, config }
    }

    pub fn of_hart(span: &'a Span<'a>, hart: usize) -> View<'a> {
        let view = View { hart: Some(hart), ..View::of_all(span) };
        View { instructions: view.grown("core.instructions"), ..view }
    }

    /// What a counter grew by. The names are this program's own: a group's, and a counter's in it.
    fn grown(&self, name: &str) -> u64 {
        let own = self.hart.map(|hart| format!("hart{hart}.{}", name.replace("hart.", "memory.")));
        let name = own.as_deref().unwrap_or(name);
        let at = |moment: &Moment| {
            *moment.counts.get(name).unwrap_or_else(|| panic!("there is no counter \"{name}\""))
        };
        at(&self.span.end) - at(&self.span.begin)
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
        let books = |moment: &Moment| match self.hart {
            Some(hart) => moment.books[hart].clone(),
            None => moment.books[..moment.own].iter().fold(Books::default(), |sum, books| sum.plus(books)),
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

    /// Core cycles, asleep or not.
    pub fn cycles(&self) -> f64 {
        match self.hart {
            Some(hart) => self.seconds() * self.config.hart(hart).core.frequency.0 as f64,
            None if !self.has_neighbours() => self.config.core_cycles(self.seconds()),
            None => {
                let harts = 0..self.span.end.own;
                harts.map(|hart| self.seconds() * self.config.hart(hart).core.frequency.0 as f64).sum()
            }
        }
    }
}
