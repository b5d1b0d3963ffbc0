//! A hart's stream of a trace as a source of ops: what its core is fed from in relocation of a hart.

use doorbell_sim::memory::Walk;
use doorbell_sim::{BlockEnd, Clock, Op, OpClass, OpSource, PhysAddr, Ps, TranslationFence};
use doorbell_trace::system::Step;

use super::PlaybackError;
use super::pages::Tables;
use super::relocation::Relocation;
use super::source::BlockSource;

/// The stream stops: it comes to an access to a device.
#[derive(Clone, Copy, Debug)]
pub struct DeviceAccess(pub Op);

/// See the module. The block that comes next is read already, so that its address space and sleep are known.
pub(super) struct HartStream {
    source: BlockSource,
    relocation: Relocation,
    /// Where pages lie, if the trace does not say so.
    tables: Option<Tables>,
    clock: Clock,
    /// When the last block was over.
    cycle: u64,
    /// How long the hart sleeps before the next one; or slept, where something else says how long it does.
    slept: Ps,
    asleep: Option<Ps>,
    /// Whether it does.
    sleeps: bool,
    /// Instructions of the trace's rounds before this one, and of this one; those that were not played.
    before: u64,
    done: u64,
    left_out: u64,
    /// What software said of translations before a block that was not played.
    skipped_fence: Option<TranslationFence>,
    /// The next block's address space, as the trace has it.
    trace_space: u16,
    ops: Vec<Op>,
    /// Whether whoever prices a block has its ops.
    ops_lent: bool,
    step: Option<Step>,
    failed: Option<PlaybackError>,
}

impl HartStream {
    /// From where the source stands, unless its first block cannot be read.
    pub fn new(
        source: BlockSource,
        relocation: Relocation,
        tables: Option<Tables>,
        clock: Clock,
    ) -> Result<HartStream, PlaybackError> {
        let mut stream = HartStream {
            source,
            relocation,
            tables,
            clock,
            cycle: 0,
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

    /// The hart is never asleep: what woke it has happened when it would have slept.
    pub fn disable_sleep(&mut self) {
        (self.sleeps, self.slept) = (false, Ps::ZERO);
    }

    /// The trace starts over, unless its first block cannot be read now.
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

    /// Instructions of this round of the trace, left out or not: what events are told by.
    #[inline]
    pub fn position(&self) -> u64 {
        self.done
    }

    /// Ops read in this round of the trace.
    pub fn ops(&self) -> u64 {
        self.source.ops()
    }

    /// The cycle in which the last block, or an access to a device behind it, was over.
    #[inline]
    pub fn over(&self) -> u64 {
        self.cycle
    }

    /// The next block begins in this cycle, however long the hart sleeps.
    pub fn begin_at(&mut self, cycle: u64) {
        (self.cycle, self.slept, self.asleep) = (cycle, Ps::ZERO, None);
    }

    /// How long the hart slept before the next block, where something else says how long it does.
    pub fn recorded_sleep(&self) -> Option<Ps> {
        self.asleep
    }

    /// How long it sleeps before the next block.
    pub fn sleeps(&self) -> Ps {
        self.slept
    }

    /// Whether it slept before the next block when it was recorded, and does not now.
    pub fn skips_sleep(&self) -> bool {
        !self.sleeps && self.step.is_some_and(|step| step.slept > Ps::ZERO)
    }

    /// Something else says how long.
    pub fn defer_sleep(&mut self) {
        self.asleep = Some(std::mem::take(&mut self.slept));
    }

    /// Whether the next block does no more than its ops: no exception, sleep or fence of translations, no access to a device.
    pub fn is_plain(&self) -> bool {
        let step = self.step.unwrap_or_default();
        !step.trapped
            && self.slept == Ps::ZERO
            && self.asleep.is_none()
            && step.fence.is_none()
            && !self.ops.iter().any(|op| op.class == OpClass::Device)
    }

    /// The next block is not played.
    pub fn skip(&mut self) -> u64 {
        let behind = self.source.position();
        let instructions = behind - self.done;
        (self.done, self.left_out) = (behind, self.left_out + instructions);
        self.advance();
        // Before the next one it may stand, and is asked for only behind a block that is played.
        self.skipped_fence = self.step.and_then(|step| step.fence).or(self.skipped_fence);
        instructions
    }

    /// Goes on, without playing it, until so many instructions of this round are behind it, or to the end.
    pub fn skip_to(&mut self, position: u64) {
        while self.step.is_some() && self.done < position {
            self.done = self.source.position();
            self.advance();
        }
    }

    /// It has played so many instructions in all, and its last block was over in this cycle.
    pub fn set_progress(&mut self, instructions: u64, cycle: u64) {
        self.before = instructions.saturating_sub(self.done);
        (self.left_out, self.cycle) = (0, cycle);
    }

    /// Why it ended, if not because there is no more: to be asked whenever the next block may have been read, or damage would skip_to for the
    /// trace's end.
    pub fn failure(&mut self) -> Option<PlaybackError> {
        self.failed.take()
    }

    /// Addresses are virtual ones, and lie where the tables say.
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

    /// A step with the numbers of address space and thread that the trace's have here. With tables, spaces that it does not tell are one.
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
        assert!(!self.ops_lent, "what a block is made of comes back before the next one");
        match self.source.next(&mut self.ops) {
            // What is told of it is what was told of the last one.
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
            // The others lie where they were moved to when the block came before.
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

    /// The last that is asked about a block: the next one is read, before which the fence stood.
    fn take_translation_fence(&mut self) -> Option<TranslationFence> {
        self.advance();
        let fence = self.step.and_then(|step| step.fence);
        match (self.skipped_fence.take(), fence) {
            // Both, and more.
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
