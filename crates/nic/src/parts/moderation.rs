//! Moderation of one interrupt: a minimum interval between interrupts, and a delay after the first cause.

use doorbell_sim::Ps;
use serde::{Deserialize, Serialize};

use super::engine::Ready;
use super::timer::Timer;

/// Moderation of one interrupt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Moderation {
    /// Time of the last interrupt.
    last: Option<Ps>,
    /// Time since which an interrupt is pending, if one is.
    due: Option<Ps>,
    pub timer: Timer,
}

impl Moderation {
    /// Delivers a pending interrupt if `interval` has passed since the last one and `delay` since its first
    /// cause.
    pub fn deliver(&mut self, now: Ps, interval: Ps, delay: Ps) -> Ready {
        let ready = self.last.map_or(Ps::ZERO, |last| last.saturating_add(interval));
        let due = *self.due.get_or_insert(now);
        let ready = ready.max(due.saturating_add(delay));
        if now >= ready {
            self.cancel();
            self.last = Some(now);
            return Ready::Now;
        }
        self.timer.arm(ready).map_or(Ready::Later, Ready::WakeAt)
    }

    /// The interrupt is no longer pending.
    pub fn cancel(&mut self) {
        self.timer.cancel();
        self.due = None;
    }

    /// As after power-on, except that a scheduled wake-up stays pending.
    pub fn reset(&mut self) {
        self.cancel();
        self.last = None;
    }
}
