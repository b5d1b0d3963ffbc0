//! A machine's harts, with cached values derived from their state. Values are recomputed only for harts that
//! were borrowed mutably: in each turn or event, usually one of many harts.

use std::ops::{Deref, DerefMut, Index, IndexMut};

use doorbell_riscv::Hart;
use doorbell_sim::Ps;

use crate::machine::Machine;

/// A slice of harts that marks a hart as changed when it is borrowed mutably.
pub(crate) struct Harts {
    all: Vec<Hart>,
    /// One bit per hart, at most 64: the hart may have changed since the last refresh.
    changed: u64,
    /// Time of each hart that can run; [`Ps::MAX`] for a hart that waits for an event.
    ready: Vec<Ps>,
    /// Instructions retired per hart; `instructions` is their sum.
    retired: Vec<u64>,
    instructions: u64,
}

impl Harts {
    pub fn new(all: Vec<Hart>) -> Harts {
        let (ready, retired) = (vec![Ps::MAX; all.len()], vec![0; all.len()]);
        let mut harts = Harts { all, changed: 0, ready, retired, instructions: 0 };
        harts.all_changed();
        harts
    }

    pub fn into_vec(self) -> Vec<Hart> {
        self.all
    }

    /// Time of each hart that can run; [`Ps::MAX`] for a hart that waits for an event.
    #[inline]
    pub fn ready(&mut self) -> &[Ps] {
        self.refresh();
        &self.ready
    }

    /// Instructions retired by all harts.
    #[inline]
    pub fn instructions(&mut self) -> u64 {
        self.refresh();
        self.instructions
    }

    #[inline]
    fn refresh(&mut self) {
        while self.changed != 0 {
            let index = self.changed.trailing_zeros() as usize;
            self.changed &= self.changed - 1;
            let hart = &self.all[index];
            self.ready[index] = if Machine::can_run(hart) { hart.time() } else { Ps::MAX };
            let retired = std::mem::replace(&mut self.retired[index], hart.instructions());
            self.instructions += hart.instructions() - retired;
        }
    }

    fn all_changed(&mut self) {
        self.changed = u64::MAX >> (64 - self.all.len());
    }
}

impl Deref for Harts {
    type Target = [Hart];

    fn deref(&self) -> &[Hart] {
        &self.all
    }
}

impl DerefMut for Harts {
    fn deref_mut(&mut self) -> &mut [Hart] {
        self.all_changed();
        &mut self.all
    }
}

impl Index<usize> for Harts {
    type Output = Hart;

    #[inline]
    fn index(&self, index: usize) -> &Hart {
        &self.all[index]
    }
}

impl IndexMut<usize> for Harts {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut Hart {
        self.changed |= 1 << index;
        &mut self.all[index]
    }
}

#[cfg(test)]
mod tests {
    use doorbell_sim::{Bytes, Ps};

    use crate::config::MachineConfig;
    use crate::machine::Machine;

    #[test]
    fn cached_values_follow_all_changes_of_harts() {
        let mut config = MachineConfig::default();
        config.platform.harts = 3;
        config.platform.ram = Bytes(64 << 20);
        let mut machine = Machine::new(config, 1).unwrap();
        let check = |machine: &mut Machine| {
            let ready = |hart| if Machine::can_run(hart) { hart.time() } else { Ps::MAX };
            let ready: Vec<Ps> = machine.harts.iter().map(ready).collect();
            assert_eq!(machine.harts.ready(), ready);
            let retired = machine.instructions();
            assert_eq!(machine.harts.instructions(), retired);
        };
        check(&mut machine);
        machine.harts[1].skip_to(700);
        check(&mut machine);
        machine.harts.iter_mut().for_each(|hart| hart.skip_to(1_000 + hart.slots()));
        check(&mut machine);
        machine.run(&crate::run::Limits { instructions: 10, ..crate::run::Limits::until(Ps(1_000_000)) });
        check(&mut machine);
    }
}
