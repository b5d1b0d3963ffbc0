//! A hart's stream of a trace as a source of ops: what its core is fed from in place of a hart.

use doorbell_sim::memory::Walk;
use doorbell_sim::{BlockEnd, Clock, Op, OpClass, OpSource, PhysAddr, Ps, TranslationFence};
use doorbell_trace::system::{HartReader, Step, TraceError};

/// The stream stops: it comes to an access to a device.
#[derive(Clone, Copy, Debug)]
pub struct DeviceAccess(pub Op);

/// See the module. The block that comes next is read already, so that its address space and sleep are known.
pub struct HartStream {
    reader: HartReader,
    clock: Clock,
    /// When the last block was over.
    cycle: u64,
    /// How long the hart sleeps before the next one.
    slept: Ps,
    done: u64,
    ops: Vec<Op>,
    step: Option<Step>,
    failed: Option<TraceError>,
}

impl HartStream {
    /// From where the reader stands.
    pub fn new(reader: HartReader, clock: Clock) -> HartStream {
        let mut stream = HartStream {
            reader,
            clock,
            cycle: 0,
            slept: Ps::ZERO,
            done: 0,
            ops: Vec::new(),
            step: None,
            failed: None,
        };
        stream.advance();
        stream
    }

    /// The ops of the next block.
    pub fn next_ops(&self) -> &[Op] {
        &self.ops
    }

    /// The cycle in which the last block, or an access to a device behind it, was over.
    pub fn over(&self) -> u64 {
        self.cycle
    }

    /// The next block begins in this cycle, however long the hart sleeps.
    pub fn begin_at(&mut self, cycle: u64) {
        (self.cycle, self.slept) = (cycle, Ps::ZERO);
    }

    /// Why it ended, if not because there is no more.
    pub fn failure(&mut self) -> Option<TraceError> {
        self.failed.take()
    }

    /// Reads the next block.
    fn advance(&mut self) {
        self.ops.clear();
        match self.reader.next(&mut self.ops) {
            Ok(step) => self.step = step,
            Err(error) => (self.step, self.failed) = (None, Some(error)),
        }
        self.slept = self.step.map_or(Ps::ZERO, |step| step.slept);
    }
}

impl OpSource for HartStream {
    type World = ();
    type Stop = DeviceAccess;

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
        self.done
    }

    fn address_space(&self) -> Option<u16> {
        self.step.and_then(|step| step.space)
    }

    fn block(&mut self, (): &mut (), ops: &mut Vec<Op>) -> BlockEnd<DeviceAccess> {
        self.done = self.reader.position();
        self.slept = Ps::ZERO;
        if let [op] = self.ops[..]
            && op.class == OpClass::Device
        {
            return BlockEnd::Stopped(DeviceAccess(op));
        }
        ops.extend_from_slice(&self.ops);
        match self.step.is_some_and(|step| step.trapped) {
            true => BlockEnd::Trapped,
            false => BlockEnd::On,
        }
    }

    fn walk(&mut self, (): &(), virt: u64) -> Walk {
        self.reader.walk(virt)
    }

    /// The last that is asked about a block: the next one is read, before which the fence stood.
    fn take_translation_fence(&mut self) -> Option<TranslationFence> {
        self.advance();
        self.step.and_then(|step| step.fence)
    }

    fn thread(&self) -> u64 {
        self.step.map_or(0, |step| step.thread)
    }

    fn byte(&self, (): &(), _: PhysAddr) -> Option<u8> {
        None
    }
}
