//! Searches for the highest rate at which a goal is met.
//!
//! | File | Question it answers |
//! |---|---|
//! | `goal` | what is sought: how much loss, how late, how exactly? |
//! | `judge` | is this rate below or above the one that is sought? How long must a trial be to know? |
//! | `next` | which rate is tried next, and when is the answer known? |
//! | `run` | how are trials spread over cores? |
//! | `machine` | how is a trial made on a simulated machine? |
//! | `sizes` | which searches does a user ask for, and what do they say in the end? |
//!
//! Only `machine` and `sizes` know one: the others know the traits [`System`] and [`Trial`], and are tested with systems whose answer
//! is known.

mod goal;
mod judge;
mod machine;
mod next;
mod run;
mod sizes;

#[cfg(test)]
mod search_tests;
#[cfg(test)]
mod synthetic;

use std::sync::atomic::AtomicBool;

use doorbell_sim::Ps;

pub use goal::{Goal, LatencyBound, Precision, SEARCH_ARRIVALS};
pub use judge::{Judged, Lengths, Verdict, least_frames};
pub use machine::{MachineSystem, frames_per_second, line_rate};
pub use next::{Answer, Bracket, Ended, Seen};
pub use run::{Cost, Event, Found, Outcome, search};
pub use sizes::{Progress, SearchRequest, Searched, search_sizes, search_summary, searched};

/// What is loaded: it makes trials, each independent of all others.
pub trait System: Sync {
    /// What can go wrong.
    type Error: Send;
    /// What a trial leaves besides its account.
    type Remains: Send;
    /// A trial of it.
    type Trial<'a>: Trial<Error = Self::Error, Remains = Self::Remains>
    where
        Self: 'a;

    /// Loads it at so many frames a second, and returns when it is warm. `stop` is set when nobody wants the trial any more.
    fn begin<'a>(&'a self, rate: u64, stop: &'a AtomicBool) -> Result<Self::Trial<'a>, Self::Error>;

    /// How many frames its queues can hold at this rate.
    fn queues(&self, rate: u64) -> Queues;

    /// Frames that are due a second at this rate, wherever they are offered.
    fn due(&self, rate: u64) -> u64 {
        rate
    }
}

/// How many frames queues can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queues {
    /// What an overload fills before anything is lost.
    pub before_loss: u64,
    /// All that can be on its way at once, for certain.
    pub at_most: u64,
}

/// What is known of a load while it goes on, counted since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Standing {
    /// Frames sent.
    pub offered: u64,
    /// Frames that are back.
    pub returned: u64,
    /// Frames known to be lost.
    pub dropped: u64,
    /// Between which times the percentile lies that the goal bounds, in the window; nothing if it bounds none.
    pub latency: Option<(Ps, Ps)>,
}

impl Standing {
    /// Frames not accounted for: in queues, or lost unseen.
    fn inside(&self) -> u64 {
        self.offered.saturating_sub(self.returned + self.dropped)
    }
}

/// The account of a window's frames, when all of them are back or lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Account {
    /// Frames sent in the window.
    pub offered: u64,
    /// Of these, those that never came back.
    pub lost: u64,
    /// Frames that came back in the window, whenever they were sent.
    pub arrived: u64,
    /// See [`Standing::latency`].
    pub latency: Option<(Ps, Ps)>,
    /// Length of the window.
    pub window: Ps,
    /// Simulated time of the trial, its warm-up included.
    pub simulated: Ps,
}

impl Account {
    /// By how many frames the queues grew in the window, lost frames aside.
    pub fn occupancy_change(&self) -> i64 {
        self.offered as i64 - self.lost as i64 - self.arrived as i64
    }
}

/// A load that goes on until it is ended.
pub trait Trial {
    /// What can go wrong.
    type Error;
    /// What it leaves besides its account.
    type Remains;

    /// Goes on for this long.
    fn go_on(&mut self, time: Ps) -> Result<Standing, Self::Error>;
    /// Begins the window; one that has begun already is forgotten.
    fn open_window(&mut self) -> Result<(), Self::Error>;
    /// Ends the window and the load, and waits for what is on its way.
    fn close(self) -> Result<(Account, Self::Remains), Self::Error>;
}
