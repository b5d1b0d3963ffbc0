//! SMT: two threads of an out-of-order core, each a [`Core`] of its own. The structures that they share are
//! moved to the active thread.
//!
//! Private: program counter and registers, return stack and branch histories, store sets, fetch queue.
//! Partitioned in halves: reorder buffer, load and store queue, in-flight stores to the cache, rename
//! registers; while one thread sleeps (WFI), the other has them all. Shared on demand: alternating fetch and
//! all other widths ([`shared`](crate::shared)), issue queue, units and ports, predictor tables, TLBs
//! (entries are tagged by thread), decoded instructions, and the core's
//! [`CoreMemory`](doorbell_sim::memory::CoreMemory).

use crate::accounts::Accounts;
use crate::common::Common;
use crate::config::{CoreKind, PipelineConfig};
use crate::out_of_order::OutOfOrder;
use crate::settle::settle;
use crate::shared::{Shared, SharedState};
use crate::stats::{Cause, CoreStats};
use crate::{Core, Engine};
use doorbell_sim::CoreCycle;

/// Unsettled stretches of slots allowed before they are settled.
const WAITING_MAX: usize = 256;

impl PipelineConfig {
    /// Whether two threads can share such a core; the error names the key and its legal values.
    pub fn validate_threads(&self) -> Result<(), String> {
        if self.kind != CoreKind::OutOfOrder {
            return Err("kind is in-order; a core with two threads must be out-of-order".into());
        }
        let sizes = [("rob", self.rob, 2), ("iq", self.iq, 8), ("lq", self.lq, 2), ("sq", self.sq, 2)];
        let registers = [("int_registers", self.int_registers), ("float_registers", self.float_registers)];
        // The registers must hold both threads' architectural state and one more each.
        for (key, value, low) in sizes.into_iter().chain(registers.map(|(key, value)| (key, value, 66))) {
            if value < low {
                return Err(format!(
                    "{key} is {value}; for a core with two threads it must be {low} or more"
                ));
            }
        }
        Ok(())
    }
}

impl Core {
    /// Creates the two threads of a core, in cycle 0. The configuration must also be valid for
    /// [threads](PipelineConfig::validate_threads).
    pub fn threads(config: &PipelineConfig) -> [Core; 2] {
        if let Err(problem) = config.validate().and_then(|()| config.validate_threads()) {
            panic!("core configuration is invalid: {problem}");
        }
        [0, 1].map(|thread| {
            let mut engine = OutOfOrder::of_thread(config, thread);
            engine.common_mut().shared = (thread == 0).then(|| Box::new(Shared::new(config)));
            Core {
                config: config.clone(),
                engine: Engine::OutOfOrder(engine),
                device: None,
                thread: Some(thread),
            }
        })
    }

    /// Makes this the active thread: moves the shared structures from the sibling to it. The caller passes,
    /// before each block, whether the sibling sleeps.
    pub fn take_turn(&mut self, sibling: &mut Core, sleeps: bool) {
        let thread = self.thread.expect("only a core with SMT threads has a sibling");
        let (Engine::OutOfOrder(own), Engine::OutOfOrder(other)) = (&mut self.engine, &mut sibling.engine)
        else {
            panic!("SMT threads must be out-of-order");
        };
        if own.common().shared.is_none() {
            own.exchange(other);
        }
        own.partition(&self.config, if sleeps { 1 } else { 2 });
        own.wake();
        if sleeps {
            other.common_mut().accounts.pass_slots(own.common().accounts.open, Cause::Idle);
        } else {
            other.partition(&self.config, 2);
        }
        let next = (!sleeps).then(|| other.common().front.next());
        let Common { accounts, front, shared, .. } = own.common_mut();
        let shared = shared.as_mut().expect("one of the threads holds the shared structures");
        shared.turn(thread, front.next(), next);
        if accounts.log.as_ref().is_some_and(|log| log.len() > WAITING_MAX) {
            settle(by_number(thread, accounts, &mut other.common_mut().accounts));
        }
    }

    /// The cycle by which threads are scheduled: the commit of the last op for a core without SMT, the next
    /// fetch for a thread. Ops of sibling threads are thus timed in fetch order.
    #[inline]
    pub fn clock(&self) -> CoreCycle {
        match (&self.thread, &self.engine) {
            (Some(_), Engine::OutOfOrder(core)) => core.common().front.next(),
            _ => self.now(),
        }
    }

    /// Whether a thread that is woken in this cycle has really slept. If its last op is still in flight, or
    /// it would not have fetched earlier anyway, it continues as if it had not slept. Call this before
    /// [`take_turn`](Core::take_turn), which delays its fetch until after the slots given to the sibling.
    #[inline]
    pub fn has_slept_until(&self, cycle: CoreCycle) -> bool {
        cycle > self.now().max(self.clock())
    }

    /// Statistics of a thread up to `cycle`, settled with its sibling's slots. `sleep` marks the threads that
    /// sleep until then.
    pub fn stats_with_sibling(&self, sibling: &Core, sleep: [bool; 2], cycle: CoreCycle) -> CoreStats {
        let thread = self.thread.expect("only a core with SMT threads has a sibling");
        let [mut own, mut other] = [self, sibling].map(|core| match &core.engine {
            Engine::OutOfOrder(core) => core.common().accounts.clone(),
            Engine::InOrder(_) => panic!("SMT threads must be out-of-order"),
        });
        for (accounts, _) in [(&mut own, sleep[0]), (&mut other, sleep[1])].into_iter().filter(|of| of.1) {
            accounts.pass(cycle, Cause::Idle);
        }
        settle(by_number(thread, &mut own, &mut other));
        CoreStats { books: own.books(), ..self.stats() }
    }

    /// The cycle up to which the slots of a sleeping thread were given to its sibling.
    pub(crate) fn slots_given_until(&self) -> CoreCycle {
        match (&self.thread, &self.engine) {
            (Some(_), Engine::OutOfOrder(core)) => core.common().accounts.open,
            _ => CoreCycle::ZERO,
        }
    }

    pub(crate) fn save_shared(&self) -> Option<Box<SharedState>> {
        match &self.engine {
            Engine::OutOfOrder(core) => core.common().shared.as_ref().map(|shared| Box::new(shared.save())),
            Engine::InOrder(_) => None,
        }
    }

    pub(crate) fn restored_shared(
        &self,
        state: Option<Box<SharedState>>,
    ) -> Result<Option<Box<Shared>>, String> {
        match (state, self.thread) {
            (None, _) => Ok(None),
            (Some(state), Some(_)) => Ok(Some(Box::new(Shared::new(&self.config).restored(*state)?))),
            (Some(_), None) => {
                Err("the saved SMT state belongs to another core configuration, with two threads".into())
            }
        }
    }

    /// Whether two restored threads belong to the same core: exactly one holds the shared structures, and
    /// their slots are settled up to the same cycle.
    pub fn is_sibling_of(&self, other: &Core) -> bool {
        let of = |core: &Core| match &core.engine {
            Engine::OutOfOrder(core) => {
                let Common { accounts, shared, .. } = core.common();
                accounts.log.as_ref().map(|log| (shared.is_some(), log.settled()))
            }
            Engine::InOrder(_) => None,
        };
        let (Some(own), Some(other)) = (of(self), of(other)) else { return false };
        own.0 != other.0 && own.1 == other.1
    }
}

/// The accounts of a thread and its sibling, ordered by thread number.
fn by_number<'a>(thread: usize, own: &'a mut Accounts, other: &'a mut Accounts) -> [&'a mut Accounts; 2] {
    if thread == 0 { [own, other] } else { [other, own] }
}
