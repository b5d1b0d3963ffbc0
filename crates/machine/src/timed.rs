//! Timed execution: harts execute block by block, and a core's timing model says when each block's last op commits.
//!
//! The hart that is earliest executes its next block, functionally and at once; its time is then the commit time of the
//! block's last op. So what a block reads of memory is what was there when the op before it committed: at most one drain
//! of the window (and one block) earlier than a real core would have read it. Reads of the time end a block before
//! them. Accesses to devices leave at the head of the window and execute as events, in order with all others.
//!
//! *Warming* teaches caches, predictors and TLBs what a functional run does, with functional time.

use doorbell_core::Core;
use doorbell_memory::MemorySystem;
use doorbell_memory::dram::Dram;
use doorbell_riscv::{Hart, MmioRequest, Stop, TranslationFence, Turn};
use doorbell_sim::memory::{
    AccessKind, CoreAccess, CoreMemory, DmaAccess, HostMemory, LINE_BYTES, Served, Walk,
};
use doorbell_sim::ports::DmaKind;
use doorbell_sim::{Op, OpClass, Phase, PhysAddr, Ps, Ram};
use serde::{Deserialize, Serialize};

use crate::config::MachineConfig;
use crate::events::Event;
use crate::machine::Machine;
use crate::run::{Limits, Outcome};

/// How a machine with timing models runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// Every instruction costs a slot; the models see nothing.
    #[default]
    Functional,
    /// The same, and the models learn from it.
    Warming,
    /// The models say when.
    Detailed,
}

/// The timing models of a machine's harts and of what they share.
pub struct Timing {
    pub(crate) mode: Mode,
    /// A core for each hart.
    pub cores: Vec<Core>,
    /// Caches, interconnect and memory.
    pub memory: MemorySystem<Dram>,
    /// The device access that each hart's core waits for.
    device: Vec<Option<Op>>,
    ops: Vec<Op>,
}

/// What surrounds one hart's core.
struct Around<'a> {
    id: usize,
    hart: &'a Hart,
    ram: &'a Ram,
    memory: &'a mut MemorySystem<Dram>,
}

impl CoreMemory for Around<'_> {
    fn access(&mut self, cycle: u64, access: CoreAccess) -> Served {
        self.memory.core_access(self.id, cycle, access)
    }

    fn walk(&mut self, virt: u64) -> Walk {
        self.hart.page_walk(self.ram, virt)
    }
}

impl Timing {
    /// Models that know nothing yet.
    pub(crate) fn new(config: &MachineConfig, ram: &Ram) -> Result<Timing, String> {
        let harts = config.platform.harts as usize;
        let clocks = vec![config.core.frequency; harts];
        let dram = Dram::new(&config.dram);
        Ok(Timing {
            mode: Mode::Functional,
            cores: (0..harts).map(|_| Core::new(&config.pipeline)).collect(),
            memory: MemorySystem::new(&config.memory, &clocks, ram.base(), ram.size(), dram)?,
            device: vec![None; harts],
            ops: Vec::with_capacity(256),
        })
    }

    /// Prices, or learns from, what a device moves. The lines of one request go to memory as they arrive.
    pub(crate) fn dma(
        &mut self,
        now: Ps,
        addr: PhysAddr,
        len: u32,
        write: bool,
        port: u8,
        kind: DmaKind,
    ) -> Ps {
        let mut done = now;
        let (mut at, end) = (addr.0, addr.0.saturating_add(u64::from(len)));
        while at < end {
            let next = (at / LINE_BYTES + 1) * LINE_BYTES;
            let bytes = (next.min(end) - at) as u32;
            let access = DmaAccess { device: port, kind, offset: (at - addr.0) as u32 };
            match (self.mode, write) {
                (Mode::Functional, _) => return now,
                (Mode::Warming, true) => self.memory.warm_device_write(PhysAddr(at), bytes, access),
                (Mode::Warming, false) => self.memory.warm_device_read(PhysAddr(at), bytes, access),
                (Mode::Detailed, true) => {
                    done = done.max(self.memory.device_write(now, PhysAddr(at), bytes, access));
                }
                (Mode::Detailed, false) => {
                    done = done.max(self.memory.device_read(now, PhysAddr(at), bytes, access));
                }
            }
            at = next;
        }
        done
    }

    fn warm_caches(&mut self, id: usize) {
        let mut fetched = None;
        for op in &self.ops {
            let line = op.fetch.0 / LINE_BYTES;
            if fetched != Some(line) {
                fetched = Some(line);
                self.memory.warm(id, CoreAccess { kind: AccessKind::Fetch, addr: op.fetch, pc: op.pc });
            }
            let kind = match op.class {
                OpClass::Load => AccessKind::Load,
                OpClass::Store | OpClass::Atomic => AccessKind::Store,
                _ => continue,
            };
            self.memory.warm(id, CoreAccess { kind, addr: op.phys, pc: op.pc });
        }
    }
}

impl Machine {
    /// The timing models, if the machine has them.
    pub fn timing(&self) -> Option<&Timing> {
        self.timing.as_deref()
    }

    /// How the machine runs from now on. Without timing models it always runs functionally.
    pub fn set_mode(&mut self, mode: Mode) {
        let Some(timing) = &mut self.timing else { return };
        timing.mode = mode;
        for (hart, core) in self.harts.iter_mut().zip(&mut timing.cores) {
            hart.set_synced_until(Ps::MAX);
            core.skip_to(hart.slots());
        }
    }

    /// Whether timing models watch.
    pub(crate) fn is_noting(&self) -> bool {
        self.timing.as_ref().is_some_and(|timing| timing.mode != Mode::Functional)
    }

    /// Runs with timing models; see [`Machine::run`].
    pub(crate) fn run_noting(&mut self, limits: &Limits) -> Outcome {
        loop {
            if let Some(outcome) = self.ended(limits) {
                return outcome;
            }
            let next_event = self.queue.next_time();
            let mut runnable: Vec<(Ps, usize)> = Vec::new();
            runnable.extend(
                self.harts
                    .iter()
                    .enumerate()
                    .filter(|(_, h)| Machine::can_run(h))
                    .map(|(i, h)| (h.time(), i)),
            );
            runnable.sort_unstable();
            let horizon = next_event.min(limits.time);
            match runnable.first() {
                Some(&(time, hart)) if time < horizon => {
                    if self.instructions() >= limits.instructions {
                        return Outcome::Instructions;
                    }
                    let until = runnable.get(1).map_or(horizon, |other| horizon.min(other.0));
                    self.run_hart_noting(hart, until, limits);
                }
                _ if next_event <= limits.time && next_event < Ps::MAX => self.handle_next_event(),
                None if next_event == Ps::MAX => return Outcome::Asleep,
                _ => {
                    self.reached = self.reached.max(limits.time);
                    return Outcome::Time;
                }
            }
        }
    }

    /// Executes blocks of a hart until its time has come to `until` or it stops for something.
    fn run_hart_noting(&mut self, index: usize, until: Ps, limits: &Limits) {
        let mut timing = self.timing.take().expect("the machine has timing models");
        let end = limits.instructions - self.instructions() + self.harts[index].instructions();
        let stop = loop {
            let hart = &mut self.harts[index];
            let left = end - hart.instructions();
            if hart.time() >= until || left == 0 {
                break None;
            }
            if let Turn::Stopped(stop) = timing.block(index, hart, &mut self.ram, left) {
                break Some(stop);
            }
        };
        if let Some(Stop::Mmio(request)) = stop
            && timing.mode == Mode::Detailed
        {
            timing.begin_device(index, &mut self.harts[index], &self.ram, request);
            let at = self.harts[index].time();
            self.queue.schedule(at, Phase::Mmio, Event::DeviceStart { hart: index as u32 });
            self.timing = Some(timing);
            return;
        }
        self.timing = Some(timing);
        if let Some(stop) = stop {
            self.act_on(index, stop, limits);
        }
    }

    /// A hart's access to a device leaves its core.
    pub(crate) fn device_start(&mut self, hart: u32) {
        let request =
            self.harts[hart as usize].pending_mmio().expect("a hart waits for each access under way");
        self.start_device_access(hart, request);
    }

    /// A device access is over at `now`: for a store, the root complex or the device beside it has it.
    pub(crate) fn device_over(&mut self, hart: u32, now: Ps) {
        let Some(timing) = &mut self.timing else { return };
        let Some(op) = timing.device[hart as usize].take() else { return };
        let (hart, core) = (&mut self.harts[hart as usize], &mut timing.cores[hart as usize]);
        core.end_device(&op, hart.slot_at(now));
        hart.rebase(core.now());
    }
}

impl Timing {
    /// Executes one block.
    fn block(&mut self, id: usize, hart: &mut Hart, ram: &mut Ram, left: u64) -> Turn {
        let core = &mut self.cores[id];
        if hart.slots() > core.now() && self.mode == Mode::Detailed {
            core.skip_to(hart.slots());
        }
        self.ops.clear();
        let turn = hart.run_noted(ram, left, &mut self.ops);
        let mut around = Around { id, hart, ram, memory: &mut self.memory };
        if self.mode == Mode::Warming {
            core.warm(&self.ops, &mut around);
            self.warm_caches(id);
        } else {
            core.execute(&self.ops, &mut around);
            if turn == Turn::Trapped {
                core.trap();
            }
            hart.rebase(core.now());
        }
        if let Some(fence) = hart.take_translation_fence() {
            let address = match fence {
                TranslationFence::All => None,
                TranslationFence::Address(virt) => Some(virt),
            };
            self.cores[id].flush_tlb(address, None);
        }
        turn
    }

    /// The op of a device access reaches the head of the window; the hart's time is when it leaves the core.
    fn begin_device(&mut self, id: usize, hart: &mut Hart, ram: &Ram, request: MmioRequest) {
        let op = Op {
            pc: hart.pc(),
            fetch: PhysAddr(hart.pc()),
            virt: request.addr.0,
            phys: request.addr,
            class: OpClass::Device,
            size: request.size.bytes() as u8,
            length: 4,
            flags: if request.store_value().is_some() { Op::WRITES } else { 0 },
            ..Op::default()
        };
        let mut around = Around { id, hart, ram, memory: &mut self.memory };
        let begun = self.cores[id].begin_device(&op, &mut around);
        self.memory.count_mmio(request.store_value().is_some());
        self.device[id] = Some(op);
        hart.rebase(begun);
    }
}
