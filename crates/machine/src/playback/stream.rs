//! A hart's stream of a trace as a source of ops: what its core is fed from in place of a hart.

use doorbell_sim::memory::Walk;
use doorbell_sim::{BlockEnd, Clock, Op, OpClass, OpSource, PhysAddr, Ps, TranslationFence};
use doorbell_trace::system::Step;

use super::PlaybackError;
use super::place::Place;
use super::source::BlockSource;

/// The stream stops: it comes to an access to a device.
#[derive(Clone, Copy, Debug)]
pub struct DeviceAccess(pub Op);

/// See the module. The block that comes next is read already, so that its address space and sleep are known.
pub(super) struct HartStream {
    source: BlockSource,
    place: Place,
    clock: Clock,
    /// When the last block was over.
    cycle: u64,
    /// How long the hart sleeps before the next one.
    slept: Ps,
    /// Instructions of the trace's rounds before this one, and of this one.
    before: u64,
    done: u64,
    ops: Vec<Op>,
    step: Option<Step>,
    failed: Option<PlaybackError>,
}

impl HartStream {
    /// From where the source stands.
    pub fn new(source: BlockSource, place: Place, clock: Clock) -> HartStream {
        let mut stream = HartStream {
            source,
            place,
            clock,
            cycle: 0,
            slept: Ps::ZERO,
            before: 0,
            done: 0,
            ops: Vec::new(),
            step: None,
            failed: None,
        };
        stream.advance();
        stream
    }

    /// The trace starts over.
    pub fn start_over(&mut self, source: BlockSource) {
        self.before += self.done;
        (self.source, self.done) = (source, 0);
        self.advance();
    }

    /// The ops of the next block.
    #[inline]
    pub fn next_ops(&self) -> &[Op] {
        &self.ops
    }

    /// Instructions of this round of the trace: what events are told by.
    #[inline]
    pub fn position(&self) -> u64 {
        self.done
    }

    /// The cycle in which the last block, or an access to a device behind it, was over.
    #[inline]
    pub fn over(&self) -> u64 {
        self.cycle
    }

    /// The next block begins in this cycle, however long the hart sleeps.
    pub fn begin_at(&mut self, cycle: u64) {
        (self.cycle, self.slept) = (cycle, Ps::ZERO);
    }

    /// Why it ended, if not because there is no more.
    pub fn failure(&mut self) -> Option<PlaybackError> {
        self.failed.take()
    }

    /// Reads the next block.
    fn advance(&mut self) {
        self.ops.clear();
        match self.source.next(&mut self.ops) {
            Ok(step) => self.step = step,
            Err(error) => (self.step, self.failed) = (None, Some(error)),
        }
        for op in &mut self.ops {
            op.fetch = self.place.of(op.fetch);
            if op.class.is_memory() {
                op.phys = self.place.of(op.phys);
            }
        }
        if let Some(step) = &mut self.step {
            step.space = step.space.map(|space| self.place.space(space));
            step.thread = self.place.thread(step.thread);
            if let Some(fence) = &mut step.fence {
                fence.space = fence.space.map(|space| self.place.space(space));
            }
        }
        self.slept = self.step.map_or(Ps::ZERO, |step| step.slept);
        if self.place.is_full() {
            (self.step, self.failed) = (None, Some(PlaybackError::Memory));
        }
    }
}

impl OpSource for HartStream {
    type World = ();
    type Stop = DeviceAccess;

    #[inline]
    fn is_ready(&self) -> bool {
        self.step.is_some()
    }

    #[inline]
    fn cycle(&self) -> u64 {
        match self.slept {
            Ps::ZERO => self.cycle,
            slept => self.clock.edge_at_or_after(self.clock.edge(self.cycle).saturating_add(slept)),
        }
    }

    #[inline]
    fn set_cycle(&mut self, cycle: u64) {
        self.cycle = cycle;
    }

    #[inline]
    fn instructions(&self) -> u64 {
        self.before + self.done
    }

    #[inline]
    fn address_space(&self) -> Option<u16> {
        self.step.and_then(|step| step.space)
    }

    fn block(&mut self, (): &mut (), ops: &mut Vec<Op>) -> BlockEnd<DeviceAccess> {
        self.done = self.source.position();
        self.slept = Ps::ZERO;
        if let [op] = self.ops[..]
            && op.class == OpClass::Device
        {
            return BlockEnd::Stopped(DeviceAccess(op));
        }
        match ops.is_empty() {
            true => std::mem::swap(ops, &mut self.ops),
            false => ops.extend_from_slice(&self.ops),
        }
        match self.step.is_some_and(|step| step.trapped) {
            true => BlockEnd::Trapped,
            false => BlockEnd::On,
        }
    }

    fn walk(&mut self, (): &(), virt: u64) -> Walk {
        let mut walk = self.source.walk(virt);
        for entry in &mut walk.entries[..usize::from(walk.levels)] {
            *entry = self.place.of(*entry);
        }
        walk
    }

    /// The last that is asked about a block: the next one is read, before which the fence stood.
    fn take_translation_fence(&mut self) -> Option<TranslationFence> {
        self.advance();
        self.step.and_then(|step| step.fence)
    }

    #[inline]
    fn thread(&self) -> u64 {
        self.step.map_or(0, |step| step.thread)
    }

    fn byte(&self, (): &(), _: PhysAddr) -> Option<u8> {
        None
    }
}
