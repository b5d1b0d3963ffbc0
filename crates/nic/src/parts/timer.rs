//! A timer for event queues that cannot cancel events. The deadline may move; a wake-up before the deadline
//! schedules the next one.

use doorbell_sim::Ps;
use serde::{Deserialize, Serialize};

/// A deadline, and the scheduled wake-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Timer {
    deadline: Option<Ps>,
    pending: Option<Ps>,
}

impl Timer {
    /// Sets the deadline. Returns the time of the wake-up that the caller must schedule, unless an earlier
    /// one is pending.
    #[must_use]
    pub fn arm(&mut self, deadline: Ps) -> Option<Ps> {
        self.deadline = Some(deadline);
        match self.pending {
            Some(pending) if pending <= deadline => None,
            _ => {
                self.pending = Some(deadline);
                Some(deadline)
            }
        }
    }

    /// Removes the deadline.
    pub fn cancel(&mut self) {
        self.deadline = None;
    }

    /// Whether a deadline is set.
    pub fn is_armed(&self) -> bool {
        self.deadline.is_some()
    }

    /// Handles a wake-up.
    pub fn wake(&mut self, now: Ps) -> Wake {
        if self.pending != Some(now) {
            return Wake::Ignore;
        }
        self.pending = None;
        match self.deadline {
            Some(deadline) if deadline <= now => {
                self.deadline = None;
                Wake::Expired
            }
            Some(deadline) => {
                self.pending = Some(deadline);
                Wake::Again(deadline)
            }
            None => Wake::Ignore,
        }
    }
}

/// Effect of a wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// None: the timer was cancelled or moved.
    Ignore,
    /// The deadline was moved: the caller must schedule another wake-up at this time.
    Again(Ps),
    /// The deadline is reached.
    Expired,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_moved_back_and_forth_expires_once() {
        let mut timer = Timer::default();
        assert_eq!(timer.arm(Ps(10)), Some(Ps(10)));
        assert_eq!(timer.arm(Ps(30)), None);
        assert_eq!(timer.wake(Ps(10)), Wake::Again(Ps(30)));
        assert_eq!(timer.arm(Ps(20)), Some(Ps(20)));
        assert_eq!(timer.wake(Ps(20)), Wake::Expired);
        assert_eq!(timer.wake(Ps(30)), Wake::Ignore);
        assert_eq!(timer.arm(Ps(40)), Some(Ps(40)));
        timer.cancel();
        assert_eq!(timer.wake(Ps(40)), Wake::Ignore);
        assert!(!timer.is_armed());
    }
}
