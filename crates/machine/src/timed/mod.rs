//! The timing models of a machine: a core for each hart, and the memory that they share with the devices.
//!
//! What happens is executed functionally; what it costs is asked here, in three ways that a run can change between at any
//! moment. *Functional*: every instruction takes a slot of the core's clock, and the models see nothing. *Warming*: time
//! goes by a fixed number of instructions a cycle, and caches, predictors and TLBs learn. *Detailed*: the models say when.
//! How a timed hart runs is in [`run`](self::run), how other sources of ops than harts do in [`feed`](self::feed), what a checkpoint keeps in [`saved`](self::saved), how a run is watched in
//! [`watch`](self::watch).

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
use doorbell_sim::ports::DmaRequest;
use doorbell_sim::{Bytes, Clock, Learner, Op, OpSource, Phase, PhysAddr, Ps, log};
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
pub(crate) use record::{Progress, Recording, under_way};
pub(crate) use run::device_op;
pub use watch::{Activity, LoggedOp, WatchRequest, Watched};

use buffers::Buffers;
use polls::Polls;

/// How a machine with timing models runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// Every instruction costs a slot; the models see nothing.
    #[default]
    Functional,
    /// Instructions cost a fixed time, and the models learn from them.
    Warming,
    /// The models say when.
    Detailed,
}

/// One hart's timing models; its private caches are in the memory system.
struct TimedHart {
    core: Core,
    clock: Clock,
    /// The device access that the core waits for.
    device: Option<Op>,
    /// The address space that the core was told of.
    space: Option<u16>,
    pace: Pace,
}

/// How fast a hart runs while it warms up.
struct Pace {
    /// Instructions of a thousand cycles.
    rate: u64,
    /// How long so many instructions take, in thousandths of a cycle.
    times: [u64; SHORT],
    /// What is left of a cycle, in thousandths.
    rest: u64,
}

/// Instructions of the usual block, and some more.
const SHORT: usize = 32;

impl TimedHart {
    fn new(mut core: Core, parts: &HartParts) -> TimedHart {
        core.set_address_space(None);
        TimedHart {
            core,
            clock: Clock::new(parts.core.frequency),
            device: None,
            space: None,
            pace: Pace::new(parts.core.warming_ipc),
        }
    }

    /// Goes on from this cycle, in another mode: until then it slept, or it was not timed.
    fn come_to(&mut self, cycle: u64, was_timed: bool) {
        if was_timed { self.core.skip_to(cycle) } else { self.core.skip_untimed_to(cycle) }
    }
}

impl Pace {
    fn new(ipc: f64) -> Pace {
        let rate = (ipc * 1000.0).round() as u64;
        Pace { rate, times: std::array::from_fn(|done| done as u64 * 1_000_000 / rate), rest: 0 }
    }

    /// The core cycles that so many instructions take, whole ones; what is left is kept for the next.
    #[inline]
    fn cycles(&mut self, instructions: u64) -> u64 {
        let known = self.times.get(instructions as usize).copied();
        let passed = known.unwrap_or_else(|| instructions * 1_000_000 / self.rate) + self.rest;
        self.rest = passed % 1000;
        passed / 1000
    }
}

/// The timing models of a machine's harts and of what they share.
pub struct Timing {
    mode: Mode,
    /// Of the configuration, by which saved models are recognised.
    config_hash: u64,
    harts: Vec<TimedHart>,
    /// How many of them are threads of one core, whose caches they share; and which of them sleep, as far as it matters to siblings.
    threads: usize,
    asleep: Vec<bool>,
    /// Caches, interconnect and memory.
    pub memory: MemorySystem<Dram>,
    /// What polls of receive rings come to. An observer.
    polls: Polls,
    /// Which packet buffers have been used in this warm-up. An observer.
    buffers: Buffers,
    ops: Vec<Op>,
    /// An observer, if there is one.
    watch: Option<Box<watch::Watch>>,
    /// What is executed and what devices do goes there. An observer.
    recording: Option<Box<record::Recording>>,
}

/// What learns from one hart's blocks.
struct Warming<'a> {
    id: usize,
    core: Learning<'a>,
    pace: &'a mut Pace,
    memory: &'a mut MemorySystem<Dram>,
    /// The page and the line of the block's last instruction.
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
        // A trap takes time too, or a guest that does nothing else would stand still.
        self.pace.cycles(instructions.max(u64::from(trapped)))
    }
}

/// What surrounds one hart's core: `source` is what it is fed from.
struct Around<'a, S: OpSource> {
    id: usize,
    source: &'a mut S,
    world: &'a S::World,
    memory: &'a mut MemorySystem<Dram>,
}

impl<S: OpSource> CoreMemory for Around<'_, S> {
    #[inline]
    fn access(&mut self, cycle: u64, access: CoreAccess) -> Served {
        self.memory.core_access(self.id, cycle, access)
    }

    fn prefetch(&mut self, cycle: u64, access: CoreAccess) -> Prefetched {
        self.memory.core_prefetch(self.id, cycle, access)
    }

    fn walk(&mut self, virt: u64) -> Walk {
        self.source.walk(self.world, virt)
    }
}

impl Timing {
    /// Models that know nothing yet. The configuration has to be valid.
    pub(crate) fn new(config: &MachineConfig) -> Result<Timing, String> {
        let own = (PhysAddr(map::RAM_BASE), config.platform.ram);
        let memory = if config.beside == 0 { own } else { playback::memory() };
        Timing::over_memory(config, memory, (config.platform.harts / config.platform.threads) as usize)
    }

    /// The same, over memory that begins there and is so large, of which no more cores than so many share any.
    fn over_memory(
        config: &MachineConfig,
        (base, ram): (PhysAddr, Bytes),
        sharing: usize,
    ) -> Result<Timing, String> {
        let harts: Vec<HartParts> = (0..config.cores_and_beside()).map(|id| config.hart(id)).collect();
        let threads = config.platform.threads as usize;
        let sides: Vec<HartSide> = harts.iter().step_by(threads).map(HartParts::memory_side).collect();
        let dram = Dram::new(&config.memory.dram);
        let mut of_cores = threads::of_cores(&config.memory, threads);
        of_cores.coherence.kind = of_cores.coherence.kind_for(sharing);
        let mut memory = MemorySystem::with_harts(&of_cores, &sides, base, ram, dram)?;
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
            harts: threads::timed(&harts, threads),
            threads,
            ops: Vec::with_capacity(256),
            watch: None,
            recording: None,
        })
    }

    /// How the machine runs.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// A hart's core.
    pub fn core(&self, hart: usize) -> &Core {
        &self.harts[hart].core
    }

    /// What a hart's polls of receive rings came to.
    pub fn polls(&self, hart: usize) -> &PollStats {
        self.polls.stats(hart)
    }

    /// Its rounds of polling that found packets, for what packets cost.
    pub fn rounds(&self, hart: usize) -> &RoundStats {
        self.polls.rounds(hart)
    }

    /// The packet buffers that devices have used since the caches began to warm up.
    pub fn buffer_use(&self) -> BufferUse {
        self.buffers.uses()
    }

    /// The caches learn what a device moves.
    pub(crate) fn warm_dma(&mut self, request: &DmaRequest, access: DmaAccess, write: bool) {
        self.buffers.note(request);
        each_line(request.addr, u64::from(request.len), |line, bytes, offset| {
            let access = access.advanced_by(offset);
            match write {
                true => self.memory.warm_device_write(line, bytes, access),
                false => self.memory.warm_device_read(line, bytes, access),
            }
        });
    }
}

impl Machine {
    /// The timing models, if the machine has them.
    pub fn timing(&self) -> Option<&Timing> {
        self.timing.as_deref()
    }

    /// What a hart's core has counted up to the present: one that waits for an interrupt has been idle until now. `None`
    /// without timing models.
    pub fn core_stats(&self, hart: usize) -> Option<CoreStats> {
        let detailed = self.mode() == Mode::Detailed;
        let all: Vec<bool> = self.harts.iter().map(|hart| detailed && hart.is_waiting()).collect();
        // Other harts may have come further: what wakes one that sleeps may be before that.
        let present = self.complete_until();
        match self.harts.get(hart) {
            Some(own) => Some(self.timing()?.core_stats(hart, &all, own.slot_at(present))),
            None => Some(self.timing()?.core(hart).stats()),
        }
    }

    /// How the machine runs.
    pub fn mode(&self) -> Mode {
        self.timing.as_ref().map_or(Mode::Functional, |timing| timing.mode)
    }

    /// How the machine runs from now on. Without timing models it always runs functionally.
    pub fn set_mode(&mut self, mode: Mode) {
        let now = self.queue.now();
        self.tell_all_guest_events();
        let Some(timing) = &mut self.timing else { return };
        if mode == Mode::Warming && timing.mode != Mode::Warming {
            timing.buffers.forget();
        }
        let was_timed = std::mem::replace(&mut timing.mode, mode) == Mode::Detailed;
        timing.polls.watch(self.functions.iter().flat_map(PluggedFunction::polled_rings));
        for (id, hart) in self.harts.iter_mut().enumerate() {
            hart.set_synced_until(Ps::MAX);
            if mode != Mode::Detailed {
                timing.cut_device(id, hart.slots());
                timing.rests(id);
            }
            timing.harts[id].come_to(hart.slots(), was_timed);
        }
        for attachment in &mut self.attachments {
            attachment.set_timed(mode == Mode::Detailed, now);
        }
        self.follow_guest_events();
        self.turns.restart();
        self.set_mode_beside(now.max(self.reached));
    }

    pub(crate) fn begin_dca_schedule(&mut self, now: Ps) {
        if self.mode() == Mode::Detailed {
            for (index, change) in (0..).zip(&self.config.memory.dca.schedule) {
                self.queue.schedule(now + change.after, Phase::Control, Event::DcaChange { index });
            }
        }
    }

    /// An entry of the schedule comes into force; one of another configuration's, out of a checkpoint, has no meaning here.
    pub(crate) fn change_dca(&mut self, now: Ps, index: usize) {
        let Some(timing) = &mut self.timing else { return };
        let Some(change) = self.config.memory.dca.schedule.get(index) else { return };
        let policy = threads::policy_of_cores(&change.policy, timing.threads);
        log!(now, Machine, Info, "entry {index} of the schedule of direct cache access is in force");
        let set = timing.memory.set_policy(change.device, policy);
        set.expect("the schedule was validated");
    }

    /// Whether timing models watch.
    pub(crate) fn is_noting(&self) -> bool {
        self.mode() != Mode::Functional
    }
}
