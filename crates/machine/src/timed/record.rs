//! Recording of executed blocks and device events by a [`Recorder`]. A machine with timing models is recorded
//! in warming and detailed mode, a machine without them always. Recording does not change the run.
//!
//! The position of a device event is given relative to its anchor hart, the hart that last stored to a
//! device: the number of instructions that the hart had executed, and the time since the last of them
//! committed. A DMA write also records the first instruction of the anchor hart that could see the data: that
//! of the first block that begins after the write completed. Events are held back, in order, until this is
//! determined.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use doorbell_riscv::{Block, BlockDictionary, BlockOps, Hart, Stop};
use doorbell_sim::memory::Walk;
use doorbell_sim::ports::{DmaDirection, DmaPurpose, DmaRequest};
use doorbell_sim::{Allowance, Op, OpClass, OpSource, PhysAddr, Ps, Ram, TranslationFence};
use doorbell_trace::system::{BlockHint, DeviceEvent, Dma, EventKind, Step, StoreOrigin, instructions};

use super::Timing;
use crate::events::Event;
use crate::machine::Machine;

/// Receiver of recorded blocks and events.
pub trait Recorder: Send {
    /// Records a block that a hart executed. `walk` returns the page-table entries that a walk for an address
    /// reads.
    fn block(
        &mut self,
        hart: u16,
        step: &Step,
        hint: Option<BlockHint>,
        ops: &[Op],
        walk: &mut dyn FnMut(u64) -> Walk,
    );

    /// Returns the limits of the next call of [`repeat`](Recorder::repeat) for a hart. The default permits
    /// none.
    fn allowance(&self, _hart: u16) -> Allowance {
        Allowance::default()
    }

    /// Records repetitions of blocks recorded before: their numbers, each with its addresses. `step` belongs
    /// to the first one; address space and thread are the same for all. Returns the limits of the next call.
    fn repeat(&mut self, hart: u16, step: &Step, instructions: u64, blocks: &[u64]) -> Allowance {
        unreachable!(
            "{instructions} instructions of hart {hart} repeat without an allowance ({step:?}, {blocks:?})"
        );
    }

    /// Records a device event. Repeated blocks that were executed before it may be recorded after it.
    fn event(&mut self, event: &DeviceEvent);
}

/// Recorder that keeps only the ops, in memory. Clones share the buffer.
#[derive(Clone, Debug, Default)]
pub struct KeptOps(Arc<Mutex<Vec<Op>>>);

impl KeptOps {
    /// Takes the ops recorded since the last call.
    pub fn take(&self) -> Vec<Op> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Recorder for KeptOps {
    fn block(&mut self, _: u16, _: &Step, _: Option<BlockHint>, ops: &[Op], _: &mut dyn FnMut(u64) -> Walk) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(ops);
    }

    fn event(&mut self, _: &DeviceEvent) {}
}

/// Block ends kept per hart. An event refers to at most the last block and the wait after it.
const ENDS_KEPT: usize = 64;

/// Progress of a hart: the time and the number of instructions at which its last blocks ended.
pub(crate) struct Progress {
    /// Ring of the last ends, indexed by their number modulo `ENDS_KEPT`.
    ends: [(Ps, u64); ENDS_KEPT],
    /// Ends since the start.
    count: usize,
}

impl Default for Progress {
    fn default() -> Progress {
        Progress { ends: [(Ps::ZERO, 0); ENDS_KEPT], count: 0 }
    }
}

impl Progress {
    /// Records that instruction number `done` committed at `at`, or that its device access left the core. A
    /// later time for the same instruction, such as the completion of a device access, is ignored.
    pub fn reached(&mut self, done: u64, at: Ps) {
        if self.count == 0 || self.ends[(self.count - 1) % ENDS_KEPT].1 != done {
            self.ends[self.count % ENDS_KEPT] = (at, done);
            self.count += 1;
        }
    }

    /// The ends kept, latest first.
    fn recent_ends(&self) -> impl DoubleEndedIterator<Item = (Ps, u64)> {
        (self.count.saturating_sub(ENDS_KEPT)..self.count).rev().map(|number| self.ends[number % ENDS_KEPT])
    }

    /// Returns the end time of the block that contains instruction number `after`; `None` if it has not ended
    /// yet. Number 0 is the start of the recording.
    pub fn end_of(&self, after: u64) -> Option<Ps> {
        if after == 0 {
            return Some(
                self.recent_ends().next_back().filter(|end| end.1 == 0).map_or(Ps::ZERO, |end| end.0),
            );
        }
        self.recent_ends().take_while(|(_, done)| *done >= after).last().map(|(at, _)| at)
    }

    /// Returns the instruction count of the last block that ended by `now`, and the time since then.
    fn anchor(&self, now: Ps) -> (u64, Ps) {
        let end = self.recent_ends().find(|(at, _)| *at <= now).or(self.recent_ends().next_back());
        end.map_or((0, Ps::ZERO), |(at, done)| (done, now.saturating_sub(at)))
    }
}

/// Recording state of one hart.
#[derive(Default)]
struct RecordedHart {
    progress: Progress,
    done: u64,
    last_end: Option<Ps>,
    fence: Option<TranslationFence>,
    /// Dictionary of recorded blocks, for harts without a timing model.
    dictionary: BlockDictionary,
}

/// An active recording.
pub(crate) struct Recording {
    to: Box<dyn Recorder>,
    harts: Vec<RecordedHart>,
    /// Anchor hart of new events.
    anchor_hart: usize,
    /// Events not yet emitted, and the completion time of DMA writes.
    waiting: VecDeque<(DeviceEvent, Option<Ps>)>,
    /// Frames received and sent so far, per device.
    frames: Vec<[u64; 2]>,
    /// In-flight stores to devices, per register, with their origin; `None` for stores issued before the
    /// recording.
    stores: BTreeMap<u64, VecDeque<Option<StoreOrigin>>>,
}

/// An executed block or device access, with its start and end time.
pub(super) struct ExecutedBlock<'a> {
    pub hart: usize,
    pub ops: &'a [Op],
    pub trapped: bool,
    pub space: Option<u16>,
    pub start: Ps,
    pub end: Ps,
}

impl Recording {
    pub fn new(to: Box<dyn Recorder>, harts: usize) -> Recording {
        let harts = (0..harts).map(|_| RecordedHart::default()).collect();
        let (waiting, frames) = (VecDeque::new(), vec![[0; 2]; 256]);
        Recording { to, harts, anchor_hart: 0, waiting, frames, stores: BTreeMap::new() }
    }

    /// Adds a store that was in flight when the recording began.
    fn add_in_flight_store(&mut self, addr: PhysAddr) {
        self.stores.entry(addr.0).or_default().push_back(None);
    }

    /// Adds a store to a device; it is its hart's last instruction.
    fn store_leaves(&mut self, addr: PhysAddr, hart: u32) {
        let after = self.harts[hart as usize].done;
        let stored = (after > 0).then_some(StoreOrigin { hart: hart as u16, after });
        self.stores.entry(addr.0).or_default().push_back(stored);
    }

    /// Removes the oldest in-flight store to this register and returns its origin.
    fn store_arrives(&mut self, addr: PhysAddr) -> Option<StoreOrigin> {
        self.stores.get_mut(&addr.0)?.pop_front()?
    }

    /// Whether `id` is recorded: harts are, co-running programs are not.
    #[inline]
    pub fn records(&self, id: usize) -> bool {
        id < self.harts.len()
    }

    /// Runs a hart without a timing model, as [`Hart::run`] does. No event is handled during this call, so
    /// all of its blocks see the same DMA writes.
    pub fn run(&mut self, id: usize, hart: &mut Hart, ram: &mut Ram, until: u64) -> Stop {
        let start = hart.time();
        self.emit_visible(start);
        let mut slept = self.harts[id].last_end.map_or(Ps::ZERO, |end| start.saturating_sub(end));
        let has_slept = slept > Ps::ZERO;
        if has_slept {
            self.emit_deferred(id);
        }
        let Recording { to, harts, .. } = self;
        let RecordedHart { fence, dictionary, .. } = &mut harts[id];
        let (hart_id, retired) = (id as u16, hart.instructions());
        let stop = hart.run_recorded(ram, until, dictionary, |hart, ram, block| {
            let slept = std::mem::take(&mut slept);
            emit(to.as_mut(), hart_id, block, fence, slept, &mut |virt| hart.page_walk(ram, virt))
        });
        self.harts[id].done += hart.instructions() - retired;
        if has_slept {
            self.emit_deferred_after(id, &mut slept);
        }
        if slept == Ps::ZERO {
            self.reached(id, hart.time());
        }
        stop
    }

    /// Emits a hart's deferred blocks.
    fn emit_deferred(&mut self, id: usize) {
        self.emit_deferred_after(id, &mut Ps::default());
    }

    /// Like `emit_deferred`, for a hart that slept before these blocks.
    fn emit_deferred_after(&mut self, id: usize, slept: &mut Ps) {
        let RecordedHart { dictionary, fence, .. } = &mut self.harts[id];
        let Some(deferred) = dictionary.deferred() else { return };
        let slept = std::mem::take(slept);
        let allowance = emit(self.to.as_mut(), id as u16, deferred, fence, slept, &mut |_| Walk::default());
        dictionary.deferred_emitted(allowance);
    }

    /// Records a device access at which the hart stopped. Without `op` no device claims the address, and the
    /// hart traps.
    pub fn access(&mut self, id: usize, hart: &mut Hart, ram: &Ram, op: Option<Op>) {
        self.emit_deferred(id);
        let (at, space, ops) = (hart.time(), hart.address_space(), op.as_slice());
        let trapped = ops.is_empty();
        self.executed(&ExecutedBlock { hart: id, ops, trapped, space, start: at, end: at }, hart, ram);
        let allowance = self.to.allowance(id as u16);
        self.harts[id].dictionary.set_allowance(allowance);
    }

    pub(super) fn executed<S: OpSource>(
        &mut self,
        block: &ExecutedBlock<'_>,
        source: &mut S,
        world: &S::World,
    ) {
        self.emit_visible(block.start);
        // The hart stopped at a device access before executing anything; the access is recorded separately.
        if block.ops.is_empty() && !block.trapped {
            return;
        }
        // A device access is a block of its own.
        if let [op] = block.ops
            && op.class == OpClass::Device
            && op.flags & Op::WRITES != 0
        {
            self.anchor_hart = block.hart;
        }
        let hart = &mut self.harts[block.hart];
        let step = Step {
            trapped: block.trapped,
            space: block.space,
            thread: source.thread(),
            fence: hart.fence.take(),
            slept: hart.last_end.map_or(Ps::ZERO, |end| block.start.saturating_sub(end)),
        };
        self.to.block(block.hart as u16, &step, None, block.ops, &mut |virt| source.walk(world, virt));
        hart.done += instructions(block.ops);
        self.reached(block.hart, block.end);
    }

    /// Records that the hart's last instruction committed or that its device access completed.
    pub fn reached(&mut self, hart: usize, at: Ps) {
        let hart = &mut self.harts[hart];
        hart.last_end = Some(at);
        hart.progress.reached(hart.done, at);
    }

    pub fn fence(&mut self, hart: usize, fence: TranslationFence) {
        self.harts[hart].fence = Some(fence);
    }

    /// Records a DMA request issued at `now` that completes at `done`.
    pub fn dma(&mut self, device: u8, request: &DmaRequest, direction: DmaDirection, now: Ps, done: Ps) {
        let DmaRequest { addr, len, purpose, offset, .. } = *request;
        let data = match purpose {
            DmaPurpose::RxData => Some(0),
            DmaPurpose::TxData => Some(1),
            _ => None,
        };
        let frames = data.map(|data| &mut self.frames[usize::from(device)][data]);
        let frame = frames.map_or(0, |frames| {
            *frames += u64::from(offset == 0);
            frames.saturating_sub(1)
        });
        let took = done.saturating_sub(now);
        let dma = Dma { purpose, direction, addr, len, frame, offset, took, visible: 0 };
        self.device_event(device, now, EventKind::Dma(dma), dma.is_write().then_some(done));
    }

    /// Records a device event. `visible` is the completion time of a DMA write.
    pub fn device_event(&mut self, device: u8, now: Ps, what: EventKind, visible: Option<Ps>) {
        let hart = self.anchor_hart;
        let (after, since) = self.harts[hart].progress.anchor(now);
        let event = DeviceEvent { device, hart: hart as u16, after, since, what };
        if visible.is_none() && self.waiting.is_empty() {
            self.to.event(&event);
        } else {
            self.waiting.push_back((event, visible));
        }
    }

    /// Emits events up to the first DMA write that is not complete at `now`, when a block begins. Completed
    /// writes are visible to this block.
    fn emit_visible(&mut self, now: Ps) {
        while let Some((event, visible)) = self.waiting.front_mut() {
            if visible.is_some_and(|visible| visible > now) {
                return;
            }
            if let EventKind::Dma(dma) = &mut event.what
                && dma.is_write()
            {
                dma.visible = self.harts[usize::from(event.hart)].done;
            }
            self.to.event(event);
            self.waiting.pop_front();
        }
    }

    /// Emits all deferred blocks and waiting events.
    fn end(&mut self) {
        (0..self.harts.len()).for_each(|id| self.emit_deferred(id));
        self.emit_visible(Ps::MAX);
    }
}

/// Passes a block, or a batch of repeated blocks, to the recorder. `fence` is the translation fence before
/// the first block, and `slept` the hart's sleep before it. Returns the limits of the next batch.
fn emit(
    to: &mut dyn Recorder,
    hart: u16,
    block: Block<'_>,
    fence: &mut Option<TranslationFence>,
    slept: Ps,
    walk: &mut dyn FnMut(u64) -> Walk,
) -> Allowance {
    let Block { trapped, space, thread, .. } = block;
    let step = Step { trapped, space, thread, fence: std::mem::replace(fence, block.fence), slept };
    match block.ops {
        BlockOps::Numbered(blocks) => to.repeat(hart, &step, block.instructions, blocks),
        BlockOps::Listed(ops) => {
            let hint = block.number.map(|shape| BlockHint { shape, instructions: block.instructions });
            to.block(hart, &step, hint, ops, walk);
            to.allowance(hart)
        }
    }
}

impl Machine {
    /// Passes all executed blocks and device events from now on to `recorder`. A machine with timing models
    /// is recorded only in warming and detailed mode. A previous recorder gets its pending events and is
    /// dropped.
    pub fn record(&mut self, recorder: Option<Box<dyn Recorder>>) {
        let harts = self.harts.len();
        let in_flight = self.queue.events().filter_map(|event| match event {
            Event::DeviceWrite { addr, .. } => Some(*addr),
            _ => None,
        });
        let slot = match &mut self.timing {
            Some(timing) => &mut timing.recording,
            None => &mut self.recording,
        };
        if let Some(mut previous) = slot.take() {
            previous.end();
        }
        *slot = recorder.map(|recorder| Box::new(Recording::new(recorder, harts)));
        if let Some(recording) = slot {
            in_flight.for_each(|addr| recording.add_in_flight_store(addr));
        }
    }

    /// Adds a hart's store to a device to the recording, if there is one.
    pub(crate) fn record_store(&mut self, addr: PhysAddr, hart: u32) {
        if let Some(recording) = active_recording(self.timing.as_deref_mut(), self.recording.as_deref_mut()) {
            recording.store_leaves(addr, hart);
        }
    }

    /// Called when a store arrives at a device register. Returns the origin of the oldest store in flight to
    /// it.
    pub(crate) fn take_store_origin(&mut self, addr: PhysAddr) -> Option<StoreOrigin> {
        active_recording(self.timing.as_deref_mut(), self.recording.as_deref_mut())?.store_arrives(addr)
    }

    /// Adds a device event to the recording, if there is one.
    pub(crate) fn record_event(&mut self, device: u8, now: Ps, what: EventKind) {
        let (timing, own) = (self.timing.as_deref_mut(), self.recording.as_deref_mut());
        if let Some(recording) = active_recording(timing, own) {
            recording.device_event(device, now, what, None);
        }
    }
}

/// Returns the active recording: that of the timing models, or the machine's own if it has none.
pub(crate) fn active_recording<'a>(
    timing: Option<&'a mut Timing>,
    own: Option<&'a mut Recording>,
) -> Option<&'a mut Recording> {
    match timing {
        Some(timing) => timing.recording.as_deref_mut(),
        None => own,
    }
}
