//! What the counters grew by between two moments: those of all cores together, or those of one.

use doorbell_machine::{Books, TopDown};
use doorbell_sim::stats::Stats;

use super::Moment;
use crate::config::RunConfig;

/// Between two moments, and what the measurement delivered.
pub(crate) struct Window<'a> {
    pub begin: Moment,
    pub end: Moment,
    pub frames: u64,
    pub instructions: u64,
    pub config: &'a RunConfig,
}

/// A window as it is looked at: all cores together, or one of them. What cores share belongs to none.
pub(super) struct View<'a> {
    window: &'a Window<'a>,
    hart: Option<usize>,
    pub frames: u64,
    pub instructions: u64,
    pub config: &'a RunConfig,
}

impl<'a> View<'a> {
    pub fn of_all(window: &'a Window<'a>) -> View<'a> {
        let Window { frames, instructions, config, .. } = *window;
        View { window, hart: None, frames, instructions, config }
    }

    pub fn of_hart(window: &'a Window<'a>, hart: usize) -> View<'a> {
        let view = View { hart: Some(hart), ..View::of_all(window) };
        View { instructions: view.grown("core.instructions"), ..view }
    }

    /// What a counter grew by. The names are this program's own: a group's, and a counter's in it.
    fn grown(&self, name: &str) -> u64 {
        let own = self.hart.map(|hart| format!("hart{hart}.{}", name.replace("hart.", "memory.")));
        let name = own.as_deref().unwrap_or(name);
        let at = |moment: &Moment| {
            *moment.counts.get(name).unwrap_or_else(|| panic!("there is no counter \"{name}\""))
        };
        at(&self.window.end) - at(&self.window.begin)
    }

    /// The same, to be divided.
    pub fn n(&self, name: &str) -> f64 {
        self.grown(name) as f64
    }

    /// Whether there is such a counter: what devices are attached by has some of its own.
    pub fn has(&self, name: &str) -> bool {
        self.window.end.counts.contains_key(name)
    }

    pub fn sum(&self, names: &[&str]) -> f64 {
        names.iter().map(|name| self.n(name)).sum()
    }

    pub fn top_down(&self) -> TopDown {
        let books = |moment: &Moment| match self.hart {
            Some(hart) => moment.books[hart].clone(),
            None => moment.books.iter().fold(Books::default(), |sum, books| sum.plus(books)),
        };
        books(&self.window.end).since(&books(&self.window.begin)).top_down()
    }

    pub fn seconds(&self) -> f64 {
        (self.window.end.now - self.window.begin.now).0 as f64 * 1e-12
    }

    /// Core cycles, asleep or not.
    pub fn cycles(&self) -> f64 {
        match self.hart {
            Some(hart) => self.seconds() * self.config.hart(hart).core.frequency.0 as f64,
            None => self.config.core_cycles(self.seconds()),
        }
    }
}
