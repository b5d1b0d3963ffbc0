//! Two threads of an out-of-order core, each a [`Core`] of its own: what they share is where the turn is.
//!
//! Of each: program counter and registers, return stack and histories of branches, store sets, fetch queue. In halves: reorder
//! buffer, load and store queue, the ways from there to the cache, rename registers; who is alone, because the other one sleeps (WFI), has all.
//! Shared by whoever comes: fetch in turns and all other widths ([`shared`](crate::shared)), issue queue, units and ports, predictors'
//! tables, TLBs (entries are tagged by thread), decoded instructions, and whatever the core's [`CoreMemory`](doorbell_sim::memory::CoreMemory) has.

use crate::accounts::Accounts;
use crate::common::Common;
use crate::config::{CoreKind, PipelineConfig};
use crate::out_of_order::OutOfOrder;
use crate::settle::settle;
use crate::shared::{Shared, SharedState};
use crate::stats::{Cause, CoreStats};
use crate::{Core, Engine};

/// As many stretches of slots may wait to be settled.
const WAITING_MAX: usize = 256;

impl PipelineConfig {
    /// Whether two threads can share such a core; the error names the key and what it can be.
    pub fn validate_threads(&self) -> Result<(), String> {
        if self.kind != CoreKind::OutOfOrder {
            return Err("kind is in-order; a core with two threads must be out-of-order".into());
        }
        let sizes = [("rob", self.rob, 2), ("iq", self.iq, 8), ("lq", self.lq, 2), ("sq", self.sq, 2)];
        let registers = [("int_registers", self.int_registers), ("float_registers", self.float_registers)];
        // Both threads' architectural registers, and one more for each.
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
    /// The two threads of a core, in cycle 0. The configuration must be valid for [threads](PipelineConfig::validate_threads), too.
    pub fn threads(config: &PipelineConfig) -> [Core; 2] {
        if let Err(problem) = config.validate().and_then(|()| config.validate_threads()) {
            panic!("a core was built from a configuration that is not valid: {problem}");
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

    /// It is this thread's turn: whatever is asked of it from now on finds what it shares with its sibling, until it is that one's turn.
    /// Whether the sibling sleeps must be said at each block.
    pub fn take_turn(&mut self, sibling: &mut Core, sleeps: bool) {
        let thread = self.thread.expect("a core without threads has no sibling");
        let (Engine::OutOfOrder(own), Engine::OutOfOrder(other)) = (&mut self.engine, &mut sibling.engine)
        else {
            panic!("the threads of a core are of one kind");
        };
        if own.common().shared.is_none() {
            own.exchange(other);
        }
        own.part(&self.config, if sleeps { 1 } else { 2 });
        own.wake();
        if sleeps {
            other.common_mut().accounts.rest(own.common().accounts.open, Cause::Idle);
        } else {
            other.part(&self.config, 2);
        }
        let next = (!sleeps).then(|| other.common().front.next());
        let Common { accounts, front, shared, .. } = own.common_mut();
        let shared = shared.as_mut().expect("one of the threads has what they share");
        shared.turn(thread, front.next(), next);
        if accounts.log.as_ref().is_some_and(|log| log.len() > WAITING_MAX) {
            settle(in_order(thread, accounts, &mut other.common_mut().accounts));
        }
    }

    /// The cycle by which a core's threads take turns, and with others': of one that has no sibling, the commit of the last op; of a thread,
    /// the next fetch, so that the threads' ops are priced in the order in which they are fetched.
    #[inline]
    pub fn clock(&self) -> u64 {
        match (&self.thread, &self.engine) {
            (Some(_), Engine::OutOfOrder(core)) => core.common().front.next(),
            _ => self.now(),
        }
    }

    /// Whether who sleeps, and is woken in this cycle, has slept: one whose last op is still on its way, or that would not have fetched
    /// before, goes on as if it had not. To be asked before its turn, in which its fetch is put off until after what its sibling had of the
    /// core meanwhile.
    #[inline]
    pub fn has_slept_until(&self, cycle: u64) -> bool {
        cycle > self.now().max(self.clock())
    }

    /// What a thread has counted up to `cycle`, and its sibling, for the slots are both's. Of the two, those that sleep do so until then.
    pub fn stats_beside(&self, sibling: &Core, sleep: [bool; 2], cycle: u64) -> CoreStats {
        let thread = self.thread.expect("a core without threads has no sibling");
        let [mut own, mut other] = [self, sibling].map(|core| match &core.engine {
            Engine::OutOfOrder(core) => core.common().accounts.clone(),
            Engine::InOrder(_) => panic!("the threads of a core are out of order"),
        });
        for (accounts, _) in [(&mut own, sleep[0]), (&mut other, sleep[1])].into_iter().filter(|of| of.1) {
            accounts.pass(cycle, Cause::Idle);
        }
        settle(in_order(thread, &mut own, &mut other));
        CoreStats { books: own.books(), ..self.stats() }
    }

    /// Until when the slots of a thread that slept are its sibling's.
    pub(crate) fn rested_until(&self) -> u64 {
        match (&self.thread, &self.engine) {
            (Some(_), Engine::OutOfOrder(core)) => core.common().accounts.open,
            _ => 0,
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
            (Some(_), None) => Err("the parts that threads share are of another core".into()),
        }
    }

    /// Whether two threads that were restored are of one core: one of them has the turn, and their slots are settled alike.
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

/// A thread's books and its sibling's, by their numbers.
fn in_order<'a>(thread: usize, own: &'a mut Accounts, other: &'a mut Accounts) -> [&'a mut Accounts; 2] {
    if thread == 0 { [own, other] } else { [other, own] }
}
