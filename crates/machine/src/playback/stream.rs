//! Op source of one hart of a trace, which feeds its core in place of an executing hart.
use doorbell_sim::memory::Walk;
use doorbell_sim::{
    BlockEnd, CoreCycle, CoreDomain, DomainClock, Op, OpClass, OpSource, PhysAddr, Ps, TranslationFence,
};
use doorbell_trace::system::Step;

use super::PlaybackError;
use super::pages::Tables;
use super::relocation::Relocation;
use super::source::BlockSource;

/// Stops a block: the next op is an access to a device.
#[derive(Clone, Copy, Debug)]
pub struct DeviceAccess(pub Op);

/// A hart's stream. The next block is read ahead, so that its address space and sleep are known.
pub(super) struct HartStream {
    source: BlockSource,
    relocation: Relocation,
    /// Page tables, if the trace has virtual addresses only.
    tables: Option<Tables>,
    clock: DomainClock<CoreDomain>,
    /// Cycle in which the last block ended.
    cycle: CoreCycle,
    /// Recorded sleep before the next block: in `slept` if replayed as is, in `asleep` if an event decides
    /// its end.
    slept: Ps,
    asleep: Option<Ps>,
    /// Whether the hart sleeps at all.
    sleeps: bool,
    /// Instructions of earlier rounds of the trace, of this round, and skipped ones.
    before: u64,
    done: u64,
    left_out: u64,
    /// Translation fence before a skipped block, not reported yet.
    skipped_fence: Option<TranslationFence>,
    /// Address space of the next block, as numbered in the trace.
    trace_space: u16,
    ops: Vec<Op>,
    /// Whether the timing model holds the block's ops.
    ops_lent: bool,
    step: Option<Step>,
    failed: Option<PlaybackError>,
}

impl HartStream {
    /// Starts at the position of the source. Fails if the first block cannot be read.
    pub fn new(
        source: BlockSource,
        relocation: Relocation,
        tables: Option<Tables>,
        clock: DomainClock<CoreDomain>,
    ) -> Result<HartStream, PlaybackError> {
        let mut stream = HartStream {
            source,
            relocation,
            tables,
            clock,
            cycle: CoreCycle::ZERO,
            slept: Ps::ZERO,
            asleep: None,
            sleeps: true,
            before: 0,
            done: 0,
            left_out: 0,
            skipped_fence: None,
            trace_space: 0,
            ops: Vec::new(),
            ops_lent: false,
            step: None,
            failed: None,
        };
        stream.advance();
        stream.failure().map_or(Ok(stream), Err)
    }

    /// Disables sleep. Events recorded during a sleep then come without delay.
    pub fn disable_sleep(&mut self) {
        (self.sleeps, self.slept) = (false, Ps::ZERO);
    }

    /// Restarts the trace. Fails if the first block cannot be read.
    pub fn start_over(&mut self, source: BlockSource) -> Result<(), PlaybackError> {
        self.before += self.done;
        (self.source, self.done) = (source, 0);
        self.advance();
        self.failure().map_or(Ok(()), Err)
    }

    /// The ops of the next block.
    #[inline]
    pub fn next_ops(&self) -> &[Op] {
        &self.ops
    }

    /// Instructions of this round, skipped or not: the position to which events refer.
    #[inline]
    pub fn position(&self) -> u64 {
        self.done
    }

    /// Ops read in this round of the trace.
    pub fn ops(&self) -> u64 {
        self.source.ops()
    }

    /// Cycle in which the last block, or a device access after it, ended.
    #[inline]
    pub fn end_cycle(&self) -> CoreCycle {
        self.cycle
    }

    /// Sets the cycle in which the next block begins, and drops its sleep.
    pub fn begin_at(&mut self, cycle: CoreCycle) {
        (self.cycle, self.slept, self.asleep) = (cycle, Ps::ZERO, None);
    }

    /// Recorded sleep before the next block, if an event decides its end.
    pub fn recorded_sleep(&self) -> Option<Ps> {
        self.asleep
    }

    /// Sleep before the next block.
    pub fn sleeps(&self) -> Ps {
        self.slept
    }

    /// Whether the recorded sleep before the next block is not replayed.
    pub fn skips_sleep(&self) -> bool {
        !self.sleeps && self.step.is_some_and(|step| step.slept > Ps::ZERO)
    }

    /// Lets an event decide when the sleep ends.
    pub fn defer_sleep(&mut self) {
        self.asleep = Some(std::mem::take(&mut self.slept));
    }

    /// Whether the next block has only ordinary ops: no exception, sleep, translation fence or device access.
    pub fn is_plain(&self) -> bool {
        let step = self.step.unwrap_or_default();
        !step.trapped
            && self.slept == Ps::ZERO
            && self.asleep.is_none()
            && step.fence.is_none()
            && !self.ops.iter().any(|op| op.class == OpClass::Device)
    }

    /// Skips the next block. Returns its number of instructions.
    pub fn skip(&mut self) -> u64 {
        let end = self.source.position();
        let instructions = end - self.done;
        (self.done, self.left_out) = (end, self.left_out + instructions);
        self.advance();
        // The fence comes before the next block, and is taken only after a block that is played.
        self.skipped_fence = self.step.and_then(|step| step.fence).or(self.skipped_fence);
        instructions
    }

    /// Skips blocks up to instruction `position` of this round, or to the end.
    pub fn skip_to(&mut self, position: u64) {
        while self.step.is_some() && self.done < position {
            self.done = self.source.position();
            self.advance();
        }
    }

    /// Sets the total of instructions played and the cycle in which the last block ended.
    pub fn set_progress(&mut self, instructions: u64, cycle: CoreCycle) {
        self.before = instructions.saturating_sub(self.done);
        (self.left_out, self.cycle) = (0, cycle);
    }

    /// Why the stream ended early, if so. To be checked after each block that may have been read, or a
    /// damaged trace looks ended.
    pub fn failure(&mut self) -> Option<PlaybackError> {
        self.failed.take()
    }

    /// Translates the block's virtual addresses with the page tables.
    fn translate(&mut self) {
        let (Some(tables), Some(_)) = (&mut self.tables, &self.step) else { return };
        let space = self.trace_space;
        for op in &mut self.ops {
            op.fetch = tables.translate(space, op.pc);
            if op.class.is_memory() {
                op.phys = tables.translate(space, op.virt);
            }
        }
        if tables.is_full() {
            (self.step, self.failed) = (None, Some(PlaybackError::Ram));
        }
    }

    /// Renumbers the address space and thread of a step. With page tables, a step without a space has space
    /// 0.
    fn relocated(&mut self, mut step: Step) -> Step {
        if self.tables.is_some() {
            self.trace_space = *step.space.get_or_insert(0);
        }
        step.space = step.space.map(|space| self.relocation.space(space));
        step.thread = self.relocation.thread(step.thread);
        if let Some(fence) = &mut step.fence {
            fence.space = fence.space.map(|space| self.relocation.space(space));
        }
        step
    }

    /// Reads the next block.
    fn advance(&mut self) {
        assert!(!self.ops_lent, "a block's ops must be returned before the next block is read");
        match self.source.next(&mut self.ops) {
            // Its step equals the previous one.
            Ok(Some(false)) if self.step.is_some() => {}
            Ok(Some(_)) => {
                let step = self.source.step();
                self.step = Some(self.relocated(step));
            }
            Ok(None) => self.step = None,
            Err(error) => (self.step, self.failed) = (None, Some(error)),
        }
        self.translate();
        match self.source.differing().filter(|_| self.tables.is_none()) {
            // The other ops were relocated when the block was first read.
            Some(differing) if !self.relocation.is_identity(self.source.accessed()) => {
                for at in differing {
                    let op = &mut self.ops[usize::from(*at)];
                    if op.class.is_memory() {
                        op.phys = self.relocation.relocate(op.phys);
                    }
                }
            }
            Some(_) => {}
            None => {
                for op in &mut self.ops {
                    op.fetch = self.relocation.relocate(op.fetch);
                    if op.class.is_memory() {
                        op.phys = self.relocation.relocate(op.phys);
                    }
                }
            }
        }
        self.slept = self.step.filter(|_| self.sleeps).map_or(Ps::ZERO, |step| step.slept);
        if self.relocation.is_full() {
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
    fn cycle(&self) -> CoreCycle {
        match self.slept {
            Ps::ZERO => self.cycle,
            slept => self.clock.edge_at_or_after(self.clock.edge(self.cycle).saturating_add(slept)),
        }
    }

    #[inline]
    fn set_cycle(&mut self, cycle: CoreCycle) {
        self.cycle = cycle;
    }

    #[inline]
    fn instructions(&self) -> u64 {
        self.before + self.done - self.left_out
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
        if ops.is_empty() {
            std::mem::swap(ops, &mut self.ops);
            self.ops_lent = true;
        } else {
            ops.extend_from_slice(&self.ops);
        }
        match self.step.is_some_and(|step| step.trapped) {
            true => BlockEnd::Trapped,
            false => BlockEnd::Continue,
        }
    }

    #[inline]
    fn take_back(&mut self, ops: &mut Vec<Op>) {
        if std::mem::take(&mut self.ops_lent) {
            std::mem::swap(ops, &mut self.ops);
        }
    }

    fn walk(&mut self, (): &(), virt: u64) -> Walk {
        let mut walk = match &self.tables {
            Some(tables) => tables.walk(self.trace_space, virt),
            None => self.source.walk(virt),
        };
        for entry in &mut walk.entries[..usize::from(walk.levels)] {
            *entry = self.relocation.relocate(*entry);
        }
        walk
    }

    /// Called last for each block: reads the next one, whose fence it returns.
    fn take_translation_fence(&mut self) -> Option<TranslationFence> {
        self.advance();
        let fence = self.step.and_then(|step| step.fence);
        match (self.skipped_fence.take(), fence) {
            // Two fences: flush everything.
            (Some(_), Some(_)) => Some(TranslationFence { address: None, space: None }),
            (skipped_fence, fence) => skipped_fence.or(fence),
        }
    }

    #[inline]
    fn thread(&self) -> u64 {
        self.step.map_or(0, |step| step.thread)
    }

    fn byte(&self, (): &(), _: PhysAddr) -> Option<u8> {
        None
    }
}
