//! SMT threads: harts 2k and 2k + 1 share core k and its caches (`platform.threads`). The memory system is
//! indexed by core.

use doorbell_core::{Core, CoreStats};
use doorbell_memory::{DcaPolicy, MemoryConfig};
use doorbell_riscv::Hart;
use doorbell_sim::CoreCycle;

use super::{TimedHart, Timing};
use crate::harts_config::HartParts;
use crate::machine::Machine;

/// Builds the timing models of harts, with `threads` harts per core.
pub(super) fn timed_harts(harts: &[HartParts], threads: usize) -> Vec<TimedHart> {
    let cores = harts.chunks(threads).flat_map(|harts| match harts {
        [_] => vec![Core::new(&harts[0].pipeline)],
        _ => Core::threads(&harts[0].pipeline).into(),
    });
    cores.zip(harts).map(|(core, parts)| TimedHart::new(core, parts)).collect()
}

/// Converts hart numbers in a memory configuration to core numbers.
pub(crate) fn core_memory_config(config: &MemoryConfig, threads: usize) -> MemoryConfig {
    let mut config = config.clone();
    let dca = &mut config.dca;
    let devices = dca.devices.iter_mut().map(|entry| &mut entry.policy);
    let changes = dca.schedule.iter_mut().map(|change| &mut change.policy);
    for policy in devices.chain(changes).chain([&mut dca.policy]) {
        policy.l2_hart /= threads as u32;
    }
    for hart in dca.queues.iter_mut().filter_map(|entry| entry.l2_hart.as_mut()) {
        *hart /= threads as u32;
    }
    config
}

/// Converts the hart number in a DCA policy to a core number.
pub(super) fn core_policy(policy: &DcaPolicy, threads: usize) -> DcaPolicy {
    DcaPolicy { l2_hart: policy.l2_hart / threads as u32, ..policy.clone() }
}

impl Timing {
    /// SMT threads per core.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The core of a hart, as numbered in the memory system.
    #[inline]
    pub fn core_of(&self, hart: usize) -> usize {
        hart / self.threads
    }

    /// The other thread of a hart's core, if cores have two threads.
    fn sibling(&self, hart: usize) -> Option<usize> {
        (self.threads > 1).then_some(hart ^ 1)
    }

    /// Updates whether a hart's sibling sleeps, before the hart continues.
    pub(super) fn update_sibling_sleep(&mut self, hart: usize, harts: &[Hart]) {
        if let Some(sibling) = self.sibling(hart) {
            let other = &harts[sibling];
            self.asleep[sibling] = other.pending_mmio().is_none() && !Machine::can_run(other);
        }
    }

    /// Makes a hart the active thread of its core: moves the shared structures from its sibling to it.
    #[inline]
    pub(super) fn take_core(&mut self, hart: usize) {
        if let Some(sibling) = self.sibling(hart) {
            let sleeps = self.asleep[sibling];
            let core = &mut self.harts[hart / 2 * 2..][..2];
            let (first, second) = core.split_at_mut(1);
            let (first, second) = (&mut first[0].core, &mut second[0].core);
            match hart % 2 {
                0 => first.take_turn(second, sleeps),
                _ => second.take_turn(first, sleeps),
            }
        }
    }

    /// Checks after a restore that the threads of each core have matching state.
    pub(super) fn check_turns(&self) -> Result<(), String> {
        let alike = |core: &[TimedHart]| core[0].core.is_sibling_of(&core[1].core);
        match self.threads == 1 || self.harts.chunks(2).all(alike) {
            true => Ok(()),
            false => Err("the saved states of a core's two threads do not match".into()),
        }
    }

    /// Statistics of a hart's core up to `cycle`; `asleep` marks sleeping harts.
    pub(crate) fn core_stats(&self, hart: usize, asleep: &[bool], cycle: CoreCycle) -> CoreStats {
        let core = self.core(hart);
        let sleeps = |hart: usize| asleep[hart] && self.core(hart).has_slept_until(cycle);
        match self.sibling(hart) {
            Some(sibling) => {
                core.stats_with_sibling(self.core(sibling), [sleeps(hart), sleeps(sibling)], cycle)
            }
            None if sleeps(hart) => core.stats_until(cycle),
            None => core.stats(),
        }
    }
}
