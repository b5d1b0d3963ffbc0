//! Searches for the highest rate at which a goal is met.
//!
//! | File | Question it answers |
//! |---|---|
//! | `goal` | the goal: how much loss, how much latency, how precise? |
//! | `judge` | is this rate above or below the goal's rate? How long must a trial run to decide? |
//! | `next` | which rate is tried next, and when is the search finished? |
//! | `run` | how are trials spread over cores? |
//! | `machine` | how is a trial made on a simulated machine? |
//! | `sizes` | which searches does a user request, and what is in their summary? |
//!
//! Only `machine` and `sizes` depend on the machine. The other modules use the traits [`System`] and
//! [`Trial`], and are tested with synthetic systems whose correct result is given.

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
pub use judge::{Judgment, Lengths, Verdict, least_frames};
pub use machine::{MachineSystem, frames_per_second, line_rate};
pub use next::{Answer, Bracket, Ended, TrialResult};
pub use run::{Cost, Event, Outcome, SearchResult, search};
pub use sizes::{Progress, SearchRequest, SizeResults, search_config, search_sizes, search_summary};

/// A system under load: creates trials, which are independent of each other.
pub trait System: Sync {
    /// Error of a trial.
    type Error: Send;
    /// Data that a trial returns in addition to its account.
    type Summary: Send;
    /// Type of its trials.
    type Trial<'a>: Trial<Error = Self::Error, Summary = Self::Summary>
    where
        Self: 'a;

    /// Loads the system at this many frames per second, and returns when it is warm. `stop` is set when the
    /// trial is no longer needed.
    fn begin<'a>(&'a self, rate: u64, stop: &'a AtomicBool) -> Result<Self::Trial<'a>, Self::Error>;

    /// Number of frames that its queues can hold at this rate.
    fn queues(&self, rate: u64) -> Queues;

    /// Frames per second that are due at this rate, over all ports.
    fn due(&self, rate: u64) -> u64 {
        rate
    }
}

/// Queue capacities, in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queues {
    /// Capacity that an overload fills before any frame is lost.
    pub before_loss: u64,
    /// Upper bound on all frames in flight.
    pub at_most: u64,
}

/// Counts since the start of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TrialStatus {
    /// Frames sent.
    pub offered: u64,
    /// Frames returned.
    pub returned: u64,
    /// Detected drops.
    pub dropped: u64,
    /// Lower and upper estimate of the percentile that the goal bounds, in the window; `None` if the goal has
    /// no bound.
    pub latency: Option<(Ps, Ps)>,
}

impl TrialStatus {
    /// Frames not accounted for: in queues, or lost undetected.
    fn inside(&self) -> u64 {
        self.offered.saturating_sub(self.returned + self.dropped)
    }
}

/// Frame counts of a window, complete when every frame has returned or is lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Account {
    /// Frames sent in the window.
    pub offered: u64,
    /// Frames sent in the window that never returned.
    pub lost: u64,
    /// Frames that returned in the window, whenever they were sent.
    pub arrived: u64,
    /// See [`TrialStatus::latency`].
    pub latency: Option<(Ps, Ps)>,
    /// Length of the window.
    pub window: Ps,
    /// Simulated time of the trial, including its warm-up.
    pub simulated: Ps,
}

impl Account {
    /// Growth of queue occupancy in the window, in frames, excluding lost frames.
    pub fn occupancy_change(&self) -> i64 {
        self.offered as i64 - self.lost as i64 - self.arrived as i64
    }
}

/// A load that runs until it is closed.
pub trait Trial {
    /// Error of the trial.
    type Error;
    /// Data returned in addition to the account.
    type Summary;

    /// Continues the load for this long.
    fn advance(&mut self, time: Ps) -> Result<TrialStatus, Self::Error>;
    /// Opens the window; a window that is already open is discarded.
    fn open_window(&mut self) -> Result<(), Self::Error>;
    /// Closes the window, stops the load, and waits for the frames in flight.
    fn close(self) -> Result<(Account, Self::Summary), Self::Error>;
}
