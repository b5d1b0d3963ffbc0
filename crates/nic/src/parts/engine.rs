//! DMA engine of one direction, shared by all queues: busy for a time per frame or buffer, and woken when it
//! becomes free.

use doorbell_sim::Ps;
use serde::{Deserialize, Serialize};

/// Whether an action is possible now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ready {
    Now,
    /// Later; a wake-up is scheduled.
    Later,
    /// Later; the caller must schedule a wake-up at this time.
    WakeAt(Ps),
}

/// The engine of one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Engine {
    free: Ps,
    /// Time of the last scheduled wake-up.
    wake: Ps,
}

impl Engine {
    /// Whether the engine accepts work now.
    pub fn ready(&mut self, now: Ps) -> Ready {
        if self.free <= now {
            Ready::Now
        } else if self.wake == self.free {
            Ready::Later
        } else {
            self.wake = self.free;
            Ready::WakeAt(self.free)
        }
    }

    /// Time at which the engine becomes free.
    pub fn free_at(&self) -> Ps {
        self.free
    }

    /// Makes the engine busy until `at`.
    pub fn busy_until(&mut self, at: Ps) {
        self.free = at;
    }

    /// Extends the engine's busy time by `time`.
    pub fn busy_for(&mut self, now: Ps, time: Ps) {
        self.free = self.free.max(now).saturating_add(time);
    }

    /// Whether a restored state is valid and has no time after `latest`.
    pub fn is_consistent(&self, latest: Ps) -> bool {
        self.free <= latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_engine_schedules_one_wake_up() {
        let mut engine = Engine::default();
        assert_eq!(engine.ready(Ps(0)), Ready::Now);
        engine.busy_for(Ps(5), Ps(10));
        engine.busy_for(Ps(7), Ps(10));
        assert_eq!([engine.ready(Ps(24)), engine.ready(Ps(24))], [Ready::WakeAt(Ps(25)), Ready::Later]);
        engine.busy_until(Ps(30));
        assert_eq!([engine.ready(Ps(29)), engine.ready(Ps(30))], [Ready::WakeAt(Ps(30)), Ready::Now]);
        assert!(engine.is_consistent(Ps(30)) && !engine.is_consistent(Ps(29)));
    }
}
