//! Who moves frames one way: busy with one for a time, and woken when it is free. The queues of a direction
//! share it.

use doorbell_sim::Ps;
use serde::{Deserialize, Serialize};

/// Whether something can be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ready {
    Now,
    /// Later; a wake-up is on its way.
    Later,
    /// Later; a wake-up has to be asked for then.
    WakeAt(Ps),
}

/// The engine of one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Engine {
    free: Ps,
    /// For when it was last woken.
    wake: Ps,
}

impl Engine {
    /// Whether it can take the next piece of work.
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

    /// When it is done with what it has.
    pub fn free_at(&self) -> Ps {
        self.free
    }

    /// It is busy until then.
    pub fn busy_until(&mut self, at: Ps) {
        self.free = at;
    }

    /// It is busy for so much longer.
    pub fn busy_for(&mut self, now: Ps, time: Ps) {
        self.free = self.free.max(now).saturating_add(time);
    }

    /// Whether a saved state is one that can exist, with no moment beyond `latest`.
    pub fn is_consistent(&self, latest: Ps) -> bool {
        self.free <= latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_finds_it_busy_is_woken_once_when_it_is_free() {
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
