//! Timing models of a machine: one core model per hart, and the memory system that cores and devices share.
//!
//! Instructions are executed functionally; these models compute their timing. A run can switch between three
//! modes at any time. *Functional*: every instruction takes one slot of the core's clock, and the models are
//! not updated. *Warming*: time advances by a fixed number of instructions per cycle, and caches, predictors
//! and TLBs are trained. *Detailed*: the models determine the time.
//!
//! [`run`](self::run) runs timed harts, [`feed`](self::feed) other op sources. [`saved`](self::saved) is the
//! checkpoint state, and [`watch`](self::watch) observes a run.

mod buffers;
mod calls;
mod feed;
#[cfg(test)]
mod fetch_tests;
mod guest_events;
#[cfg(test)]
mod paged;
mod polls;
#[cfg(test)]
mod prefetch_tests;
mod profile;
mod record;
mod run;
mod saved;
#[cfg(test)]
mod source_tests;
pub(crate) mod threads;
#[cfg(test)]
mod threads_tests;
#[cfg(test)]
pub(crate) mod unequal_tests;
#[cfg(test)]
mod walk_tests;
#[cfg(test)]
mod warming_tests;
mod watch;

use doorbell_core::{Core, CoreStats, Learning};
use doorbell_memory::dram::Dram;
use doorbell_memory::{HartSide, MemorySystem};
use doorbell_platform::map;
use doorbell_sim::memory::{
    AccessKind, CoreAccess, CoreMemory, DmaAccess, LINE_BYTES, Prefetched, Served, Walk, each_line,
};
use doorbell_sim::ports::{DmaDirection, DmaRequest};
use doorbell_sim::{
    Bytes, CoreCycle, CoreDomain, DomainClock, Learner, Op, OpSource, Phase, PhysAddr, Ps, log,
};
use serde::{Deserialize, Serialize};

use crate::config::MachineConfig;
use crate::events::Event;
use crate::functions::{FUNCTIONS_MAX, PluggedFunction};
use crate::harts_config::HartParts;
use crate::machine::Machine;
use crate::playback;

pub use buffers::BufferUse;
pub use calls::{CallNode, Domain};
pub use guest_events::{GUEST_EVENTS, GuestEvent};
pub use polls::{PollStats, RoundStats};
pub use profile::{BlockCost, Cost, Profile};
pub use record::{KeptOps, Recorder};
pub(crate) use record::{Progress, Recording, active_recording};
pub(crate) use run::{device_op, earliest};
pub use watch::{Activity, LoggedOp, WatchReport, WatchRequest};

use buffers::Buffers;
use polls::Polls;

/// Execution mode of a machine with timing models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// Every instruction takes one slot; the models are not updated.
    #[default]
    Functional,
    /// Instructions take a fixed time and train the models.
    Warming,
    /// The models determine the time.
    Detailed,
}

/// Timing model of one hart. Its private caches are in the memory system.
struct TimedHart {
    core: Core,
    clock: DomainClock<CoreDomain>,
    /// The pending device access.
    device: Option<Op>,
    /// The address space last set in the core.
    space: Option<u16>,
    pace: WarmingPace,
}

/// Fixed rate of a hart in warming mode.
struct WarmingPace {
    /// Instructions per thousand cycles.
    rate: u64,
    /// Duration of a block by its number of instructions, in thousandths of a cycle.
    times: [u64; SHORT_BLOCK],
    /// Fraction of a cycle carried over to the next block, in thousandths.
    remainder: u64,
}

/// Entries of the duration table; most blocks have fewer instructions.
const SHORT_BLOCK: usize = 32;

impl TimedHart {
    fn new(mut core: Core, parts: &HartParts) -> TimedHart {
        core.set_address_space(None);
        TimedHart {
            core,
            clock: DomainClock::new(parts.core.frequency),
            device: None,
            space: None,
            pace: WarmingPace::new(parts.core.warming_ipc),
        }
    }

    /// Advances to the cycle of a mode change. The cycles until then count as idle if the previous mode was
    /// detailed (the hart slept), and not at all otherwise.
    fn advance_to_cycle(&mut self, cycle: CoreCycle, was_timed: bool) {
        if was_timed { self.core.skip_to(cycle) } else { self.core.skip_untimed_to(cycle) }
    }
}

impl WarmingPace {
    fn new(ipc: f64) -> WarmingPace {
        let rate = (ipc * 1000.0).round() as u64;
        WarmingPace { rate, times: std::array::from_fn(|done| done as u64 * 1_000_000 / rate), remainder: 0 }
    }

    /// Returns the whole core cycles that `instructions` take. The fraction is carried over to the next call.
    #[inline]
    fn cycles(&mut self, instructions: u64) -> u64 {
        let tabulated = self.times.get(instructions as usize).copied();
        let passed = tabulated.unwrap_or_else(|| instructions * 1_000_000 / self.rate) + self.remainder;
        self.remainder = passed % 1000;
        passed / 1000
    }
}

/// Timing models of a machine's harts and of the memory system.
pub struct Timing {
    mode: Mode,
    /// Microarchitecture hash; saved models with another hash do not fit.
    config_hash: u64,
    harts: Vec<TimedHart>,
    /// SMT threads per core; threads of a core share its caches.
    threads: usize,
    /// Whether each hart sleeps, for its SMT sibling.
    asleep: Vec<bool>,
    /// Caches, interconnect and memory.
    pub memory: MemorySystem<Dram>,
    /// Statistics of receive-ring polls. Observer.
    polls: Polls,
    /// Packet buffers used in this warm-up. Observer.
    buffers: Buffers,
    ops: Vec<Op>,
    /// Profile, pipeline log and activity. Observer.
    watch: Option<Box<watch::Watch>>,
    /// Records executed blocks and device events. Observer.
    recording: Option<Box<record::Recording>>,
}

/// Trains the models of one hart in warming mode.
struct Warming<'a> {
    id: usize,
    core: Learning<'a>,
    pace: &'a mut WarmingPace,
    memory: &'a mut MemorySystem<Dram>,
    /// The code page and code line of the block's previous instruction.
    page: Option<u64>,
    line: Option<u64>,
}

impl Learner for Warming<'_> {
    #[inline]
    fn instruction(&mut self, pc: u64, fetch: PhysAddr, walk: impl FnOnce(u64) -> Walk) {
        let (page, line) = (Some(pc >> 12), Some(fetch.0 / LINE_BYTES));
        if page != self.page {
            self.page = page;
            self.core.fetch(pc, walk);
        }
        if line != self.line {
            self.line = line;
            self.memory.warm(self.id, CoreAccess { kind: AccessKind::Fetch, addr: fetch, pc });
        }
    }

    #[inline]
    fn data(&mut self, access: CoreAccess, virt: u64, walk: impl FnOnce(u64) -> Walk) {
        self.core.data(virt, walk);
        self.memory.warm(self.id, access);
    }

    fn prefetch(&mut self, access: CoreAccess, virt: u64, walk: impl FnOnce(u64) -> Walk) {
        self.core.data(virt, walk);
        self.memory.warm_prefetch(self.id, access);
    }

    #[inline]
    fn branch(&mut self, op: &Op) {
        self.core.branch(op);
    }

    #[inline]
    fn end_block(&mut self, instructions: u64, trapped: bool) -> u64 {
        (self.page, self.line) = (None, None);
        // A trap takes time even without instructions: simulated time must advance for a guest that only
        // traps.
        self.pace.cycles(instructions.max(u64::from(trapped)))
    }
}

/// The memory system and the op source, as one core accesses them.
struct CoreContext<'a, S: OpSource> {
    id: usize,
    source: &'a mut S,
    world: &'a S::World,
    memory: &'a mut MemorySystem<Dram>,
}

impl<S: OpSource> CoreMemory for CoreContext<'_, S> {
    #[inline]
    fn access(&mut self, cycle: CoreCycle, access: CoreAccess) -> Served {
        self.memory.core_access(self.id, cycle, access)
    }

    fn prefetch(&mut self, cycle: CoreCycle, access: CoreAccess) -> Prefetched {
        self.memory.core_prefetch(self.id, cycle, access)
    }

    fn walk(&mut self, virt: u64) -> Walk {
        self.source.walk(self.world, virt)
    }
}

impl Timing {
    /// Builds cold models. The configuration must be valid.
    pub(crate) fn new(config: &MachineConfig) -> Result<Timing, String> {
        let own = (PhysAddr(map::RAM_BASE), config.platform.ram);
        let memory = if config.trace_cores == 0 { own } else { playback::memory() };
        Timing::with_memory(config, memory, (config.platform.harts / config.platform.threads) as usize)
    }

    /// Like [`Timing::new`], with memory at `base` of size `ram`. At most `sharing` cores share memory.
    fn with_memory(
        config: &MachineConfig,
        (base, ram): (PhysAddr, Bytes),
        sharing: usize,
    ) -> Result<Timing, String> {
        let harts: Vec<HartParts> = (0..config.cores_with_corunners()).map(|id| config.hart(id)).collect();
        let threads = config.platform.threads as usize;
        let sides: Vec<HartSide> = harts.iter().step_by(threads).map(HartParts::private_memory).collect();
        let dram = Dram::new(&config.memory.dram);
        let mut memory_config = threads::core_memory_config(&config.memory, threads);
        memory_config.coherence.kind = memory_config.coherence.kind_for(sharing);
        let mut memory = MemorySystem::with_harts(&memory_config, &sides, base, ram, dram)?;
        let nics = config.platform.nics as usize;
        for device in 0..nics + FUNCTIONS_MAX {
            let attach = if device < nics { config.port(device).attach } else { config.attach.clone() };
            memory.set_entry(device as u8, attach.entry());
        }
        Ok(Timing {
            mode: Mode::Functional,
            config_hash: config.microarchitecture_hash(),
            memory,
            polls: Polls::new(harts.len()),
            buffers: Buffers::default(),
            asleep: vec![false; harts.len()],
            harts: threads::timed_harts(&harts, threads),
            threads,
            ops: Vec::with_capacity(256),
            watch: None,
            recording: None,
        })
    }

    /// Returns the execution mode.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// A hart's core model.
    pub fn core(&self, hart: usize) -> &Core {
        &self.harts[hart].core
    }

    /// Statistics of a hart's polls of receive rings.
    pub fn polls(&self, hart: usize) -> &PollStats {
        self.polls.stats(hart)
    }

    /// Statistics of a hart's polling rounds that found packets, from which the cost per packet is fitted.
    pub fn rounds(&self, hart: usize) -> &RoundStats {
        self.polls.rounds(hart)
    }

    /// Packet buffers used by devices since warming began.
    pub fn buffer_use(&self) -> BufferUse {
        self.buffers.uses()
    }

    /// Updates the caches for a DMA transfer, without timing.
    pub(crate) fn warm_dma(&mut self, request: &DmaRequest, access: DmaAccess, direction: DmaDirection) {
        self.buffers.count(request);
        each_line(request.addr, u64::from(request.len), |line, bytes, offset| {
            let access = access.advanced_by(offset);
            match direction {
                DmaDirection::Read => self.memory.warm_device_read(line, bytes, access),
                DmaDirection::Write => self.memory.warm_device_write(line, bytes, access),
            }
        });
    }
}

impl Machine {
    /// Returns the timing models, if the machine has any.
    pub fn timing(&self) -> Option<&Timing> {
        self.timing.as_deref()
    }

    /// Statistics of a hart's core up to the present. A hart in WFI counts as idle until now. `None` without
    /// timing models.
    pub fn core_stats(&self, hart: usize) -> Option<CoreStats> {
        let detailed = self.mode() == Mode::Detailed;
        let all: Vec<bool> = self.harts.iter().map(|hart| detailed && hart.is_waiting()).collect();
        // Other harts may have run ahead, but an event may wake a sleeping hart at an earlier time.
        let present = self.complete_until();
        match self.harts.get(hart) {
            Some(own) => Some(self.timing()?.core_stats(hart, &all, CoreCycle::new(own.slot_at(present)))),
            None => Some(self.timing()?.core(hart).stats()),
        }
    }

    /// Returns the execution mode.
    pub fn mode(&self) -> Mode {
        self.timing.as_ref().map_or(Mode::Functional, |timing| timing.mode)
    }

    /// Sets the execution mode. No effect without timing models: such a machine always runs functionally.
    pub fn set_mode(&mut self, mode: Mode) {
        let now = self.queue.now();
        (0..self.harts.len()).for_each(|hart| self.update_guest_events(hart));
        let Some(timing) = &mut self.timing else { return };
        if mode == Mode::Warming && timing.mode != Mode::Warming {
            timing.buffers.reset();
        }
        let was_timed = std::mem::replace(&mut timing.mode, mode) == Mode::Detailed;
        timing.polls.watch(self.functions.iter().flat_map(PluggedFunction::polled_rings));
        for (id, hart) in self.harts.iter_mut().enumerate() {
            hart.set_synced_until(Ps::MAX);
            if mode != Mode::Detailed {
                timing.complete_device_early(id, hart.cycle());
                timing.source_sleeps(id);
            }
            timing.harts[id].advance_to_cycle(hart.cycle(), was_timed);
        }
        for attachment in &mut self.attachments {
            attachment.set_timed(mode == Mode::Detailed, now);
        }
        self.follow_guest_events();
        self.turns.restart();
        self.set_corunner_mode(now.max(self.reached));
    }

    pub(crate) fn begin_dca_schedule(&mut self, now: Ps) {
        if self.mode() == Mode::Detailed {
            for (index, change) in (0..).zip(&self.config.memory.dca.schedule) {
                self.queue.schedule(now + change.after, Phase::Control, Event::DcaChange { index });
            }
        }
    }

    /// Applies an entry of `memory.dca.schedule`. An index from another configuration's checkpoint that is
    /// out of range is ignored.
    pub(crate) fn change_dca(&mut self, now: Ps, index: usize) {
        let Some(timing) = &mut self.timing else { return };
        let Some(change) = self.config.memory.dca.schedule.get(index) else { return };
        let policy = threads::core_policy(&change.policy, timing.threads);
        log!(now, Machine, Info, "entry {index} of memory.dca.schedule applied");
        let set = timing.memory.set_policy(change.device, policy);
        set.expect("the schedule was validated");
    }

    /// Whether the mode updates the timing models (warming or detailed).
    pub(crate) fn uses_timing(&self) -> bool {
        self.mode() != Mode::Functional
    }
}
