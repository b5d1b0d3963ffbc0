//! Recording: what harts executed and what devices did goes to a [`Recorder`]: of a machine with timing models while they watch, of one
//! without always. A run is the same with it and without.
//!
//! A device's event is told by a hart's instructions: after how many it happened, and how long after the last of them. The hart is the one
//! that last stored to a device. Of a write it is also told from which of its instructions on that hart could see it: those of blocks that
//! begin when it is in memory. That is known later, so events wait, in order, until it is.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use doorbell_riscv::{Block, BlockDictionary, BlockOps, Hart, Stop};
use doorbell_sim::memory::Walk;
use doorbell_sim::ports::{DmaKind, DmaRequest};
use doorbell_sim::{Allowance, Op, OpClass, OpSource, PhysAddr, Ps, Ram, TranslationFence};
use doorbell_trace::system::{BlockHint, DeviceEvent, Dma, EventKind, Step, StoreOrigin, instructions};

use super::Timing;
use crate::events::Event;
use crate::machine::Machine;

/// Who takes what is recorded.
pub trait Recorder: Send {
    /// A hart executed a block, of which more may be known. `walk` says which page-table entries a walk for an address reads.
    fn block(
        &mut self,
        hart: u16,
        step: &Step,
        again: Option<BlockHint>,
        ops: &[Op],
        walk: &mut dyn FnMut(u64) -> Walk,
    );

    /// What may be told of a hart by [`again`](Recorder::again) from now on; nothing, unless it says more.
    fn allowance(&self, _hart: u16) -> Allowance {
        Allowance::default()
    }

    /// A hart executed blocks again that are known: their numbers, each with its addresses. The step is the first one's; of the others space
    /// and thread are the same. Says what may be told so from now on.
    fn again(&mut self, hart: u16, step: &Step, instructions: u64, blocks: &[u64]) -> Allowance {
        unreachable!("{instructions} instructions of hart {hart} are not known ({step:?}, {blocks:?})");
    }

    /// A device did something. Blocks that were executed before may be told behind it, as long as they may be told by numbers.
    fn event(&mut self, event: &DeviceEvent);
}

/// Keeps ops in memory, and nothing else. Its clones keep the same.
#[derive(Clone, Debug, Default)]
pub struct KeptOps(Arc<Mutex<Vec<Op>>>);

impl KeptOps {
    /// What was kept since this was asked last.
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

/// Ends of a hart's blocks that are known: an event is never further behind than a block and a wait.
const ENDS: usize = 64;

/// How far a hart has come: when its last blocks ended, after how many instructions.
pub(crate) struct Progress {
    /// The last ones, each at its number, and how many there have been.
    ends: [(Ps, u64); ENDS],
    count: usize,
}

impl Default for Progress {
    fn default() -> Progress {
        Progress { ends: [(Ps::ZERO, 0); ENDS], count: 0 }
    }
}

impl Progress {
    /// The hart's last instruction committed, or its access to a device left the core: what is said later of the same one, such as when
    /// the answer was there, moves nothing.
    pub fn reached(&mut self, done: u64, at: Ps) {
        if self.count == 0 || self.ends[(self.count - 1) % ENDS].1 != done {
            self.ends[self.count % ENDS] = (at, done);
            self.count += 1;
        }
    }

    /// Those that are known, the last one first.
    fn known(&self) -> impl DoubleEndedIterator<Item = (Ps, u64)> {
        (self.count.saturating_sub(ENDS)..self.count).rev().map(|number| self.ends[number % ENDS])
    }

    /// When instruction number `after` was over: of one that ends no block, when its block was; `None` before. What came before the first
    /// is over from the beginning.
    pub fn end_of(&self, after: u64) -> Option<Ps> {
        if after == 0 {
            return Some(self.known().next_back().filter(|end| end.1 == 0).map_or(Ps::ZERO, |end| end.0));
        }
        self.known().take_while(|(_, done)| *done >= after).last().map(|(at, _)| at)
    }

    /// The last block that ended by `now`: after how many instructions, and how long ago.
    fn anchor(&self, now: Ps) -> (u64, Ps) {
        let end = self.known().find(|(at, _)| *at <= now).or(self.known().next_back());
        end.map_or((0, Ps::ZERO), |(at, done)| (done, now.saturating_sub(at)))
    }
}

/// A hart that is recorded.
#[derive(Default)]
struct Recorded {
    progress: Progress,
    done: u64,
    over: Option<Ps>,
    fence: Option<TranslationFence>,
    /// Blocks that were told, where no timing model has their ops.
    known: BlockDictionary,
}

/// A recording under way.
pub(crate) struct Recording {
    to: Box<dyn Recorder>,
    harts: Vec<Recorded>,
    /// By which hart's instructions events are told.
    teller: usize,
    /// Events, and when the writes among them are done.
    waiting: VecDeque<(DeviceEvent, Option<Ps>)>,
    /// Frames of each device so far, received and sent.
    frames: Vec<[u64; 2]>,
    /// Stores to devices that have not arrived, by register: whose they are, unless the recording did not see them leave.
    stores: BTreeMap<u64, VecDeque<Option<StoreOrigin>>>,
}

/// A block, or an access to a device, with the time it took.
pub(super) struct Executed<'a> {
    pub hart: usize,
    pub ops: &'a [Op],
    pub trapped: bool,
    pub space: Option<u16>,
    pub begun: Ps,
    pub over: Ps,
}

impl Recording {
    pub fn new(to: Box<dyn Recorder>, harts: usize) -> Recording {
        let harts = (0..harts).map(|_| Recorded::default()).collect();
        let (waiting, frames) = (VecDeque::new(), vec![[0; 2]; 256]);
        Recording { to, harts, teller: 0, waiting, frames, stores: BTreeMap::new() }
    }

    /// A store had left before the recording began.
    fn had_left(&mut self, addr: PhysAddr) {
        self.stores.entry(addr.0).or_default().push_back(None);
    }

    /// A store to a device leaves its hart, whose last instruction it is.
    fn leaves(&mut self, addr: PhysAddr, hart: u32) {
        let after = self.harts[hart as usize].done;
        let stored = (after > 0).then_some(StoreOrigin { hart: hart as u16, after });
        self.stores.entry(addr.0).or_default().push_back(stored);
    }

    /// The first that left arrives.
    fn arrives(&mut self, addr: PhysAddr) -> Option<StoreOrigin> {
        self.stores.get_mut(&addr.0)?.pop_front()?
    }

    /// Whether it is of this hart, and not of a program beside the machine's.
    #[inline]
    pub fn records(&self, id: usize) -> bool {
        id < self.harts.len()
    }

    /// Runs a hart that no timing model watches, as [`Hart::run`] does. Memory changes by events alone, so all of its blocks see the same
    /// writes of devices, and nothing happens between them.
    pub fn run(&mut self, id: usize, hart: &mut Hart, ram: &mut Ram, until: u64) -> Stop {
        let begun = hart.time();
        self.settle(begun);
        let mut slept = self.harts[id].over.map_or(Ps::ZERO, |over| begun.saturating_sub(over));
        let has_slept = slept > Ps::ZERO;
        if has_slept {
            self.tell_held(id);
        }
        let Recording { to, harts, .. } = self;
        let Recorded { fence, known, .. } = &mut harts[id];
        let (id_told, retired) = (id as u16, hart.instructions());
        let stop = hart.run_recorded(ram, until, known, |hart, ram, block| {
            let slept = std::mem::take(&mut slept);
            tell(to.as_mut(), id_told, block, (fence, slept), &mut |virt| hart.page_walk(ram, virt))
        });
        self.harts[id].done += hart.instructions() - retired;
        if has_slept {
            self.tell_slept(id, &mut slept);
        }
        if slept == Ps::ZERO {
            self.reached(id, hart.time());
        }
        stop
    }

    /// Tells what of a hart is held back.
    fn tell_held(&mut self, id: usize) {
        self.tell_slept(id, &mut Ps::default());
    }

    /// The same, of a hart that slept before.
    fn tell_slept(&mut self, id: usize, slept: &mut Ps) {
        let Recorded { known, fence, .. } = &mut self.harts[id];
        let Some(held) = known.deferred() else { return };
        let slept = std::mem::take(slept);
        let allowance = tell(self.to.as_mut(), id as u16, held, (fence, slept), &mut |_| Walk::default());
        known.deferred_emitted(allowance);
    }

    /// The hart has come to an access to a device, and waits for it; or to one that nothing answers, which is a trap.
    pub fn access(&mut self, id: usize, hart: &mut Hart, ram: &Ram, op: Option<Op>) {
        self.tell_held(id);
        let (at, space, ops) = (hart.time(), hart.address_space(), op.as_slice());
        let trapped = ops.is_empty();
        self.executed(&Executed { hart: id, ops, trapped, space, begun: at, over: at }, hart, ram);
        let allowance = self.to.allowance(id as u16);
        self.harts[id].known.set_allowance(allowance);
    }

    pub(super) fn executed<S: OpSource>(&mut self, block: &Executed<'_>, source: &mut S, world: &S::World) {
        self.settle(block.begun);
        // A hart that only came to an access to a device, which is told by itself.
        if block.ops.is_empty() && !block.trapped {
            return;
        }
        // An access to a device is told alone.
        if let [op] = block.ops
            && op.class == OpClass::Device
            && op.flags & Op::WRITES != 0
        {
            self.teller = block.hart;
        }
        let hart = &mut self.harts[block.hart];
        let step = Step {
            trapped: block.trapped,
            space: block.space,
            thread: source.thread(),
            fence: hart.fence.take(),
            slept: hart.over.map_or(Ps::ZERO, |over| block.begun.saturating_sub(over)),
        };
        self.to.block(block.hart as u16, &step, None, block.ops, &mut |virt| source.walk(world, virt));
        hart.done += instructions(block.ops);
        self.reached(block.hart, block.over);
    }

    /// The hart's last instruction committed, or its access to a device was answered.
    pub fn reached(&mut self, hart: usize, at: Ps) {
        let hart = &mut self.harts[hart];
        hart.over = Some(at);
        hart.progress.reached(hart.done, at);
    }

    pub fn fence(&mut self, hart: usize, fence: TranslationFence) {
        self.harts[hart].fence = Some(fence);
    }

    /// A device asks memory for something at `now`, which is done later.
    pub fn dma(&mut self, device: u8, request: &DmaRequest, write: bool, now: Ps, done: Ps) {
        let DmaRequest { addr, len, kind, offset, .. } = *request;
        let direction = match kind {
            DmaKind::RxData => Some(0),
            DmaKind::TxData => Some(1),
            _ => None,
        };
        let frames = direction.map(|direction| &mut self.frames[usize::from(device)][direction]);
        let frame = frames.map_or(0, |frames| {
            *frames += u64::from(offset == 0);
            frames.saturating_sub(1)
        });
        let took = done.saturating_sub(now);
        let what = EventKind::Dma(Dma { kind, write, addr, len, frame, offset, took, visible: 0 });
        self.happened(device, now, what, write.then_some(done));
    }

    /// Anything else happened at a device.
    pub fn happened(&mut self, device: u8, now: Ps, what: EventKind, visible: Option<Ps>) {
        let hart = self.teller;
        let (after, since) = self.harts[hart].progress.anchor(now);
        let event = DeviceEvent { device, hart: hart as u16, after, since, what };
        if visible.is_none() && self.waiting.is_empty() {
            self.to.event(&event);
        } else {
            self.waiting.push_back((event, visible));
        }
    }

    /// Blocks that begin at `now` see all writes that are done by then.
    fn settle(&mut self, now: Ps) {
        while let Some((event, visible)) = self.waiting.front_mut() {
            if visible.is_some_and(|visible| visible > now) {
                return;
            }
            if let EventKind::Dma(dma) = &mut event.what
                && dma.write
            {
                dma.visible = self.harts[usize::from(event.hart)].done;
            }
            self.to.event(event);
            self.waiting.pop_front();
        }
    }

    /// Tells all that is still to be told.
    fn end(&mut self) {
        (0..self.harts.len()).for_each(|id| self.tell_held(id));
        self.settle(Ps::MAX);
    }
}

/// Tells a recorder of a hart's block, or of some that are told by numbers: of the first, what was declared void before it, and how long the
/// hart slept. Says what may be told by numbers from then on.
fn tell(
    to: &mut dyn Recorder,
    hart: u16,
    block: Block<'_>,
    (fence, slept): (&mut Option<TranslationFence>, Ps),
    walk: &mut dyn FnMut(u64) -> Walk,
) -> Allowance {
    let Block { trapped, space, thread, .. } = block;
    let step = Step { trapped, space, thread, fence: std::mem::replace(fence, block.fence), slept };
    match block.ops {
        BlockOps::Numbered(blocks) => to.again(hart, &step, block.instructions, blocks),
        BlockOps::Listed(ops) => {
            let again = block.number.map(|shape| BlockHint { shape, instructions: block.instructions });
            to.block(hart, &step, again, ops, walk);
            to.allowance(hart)
        }
    }
}

impl Machine {
    /// Gives all that harts execute and devices do from now on to `recorder`, where timing models watch, or everywhere if there are none;
    /// the one before, if any, gets the rest of what it waits for, and is dropped.
    pub fn record(&mut self, recorder: Option<Box<dyn Recorder>>) {
        let harts = self.harts.len();
        let had_left = self.queue.events().filter_map(|event| match event {
            Event::DeviceWrite { addr, .. } => Some(*addr),
            _ => None,
        });
        let place = match &mut self.timing {
            Some(timing) => &mut timing.recording,
            None => &mut self.recording,
        };
        if let Some(mut before) = place.take() {
            before.end();
        }
        *place = recorder.map(|recorder| Box::new(Recording::new(recorder, harts)));
        if let Some(recording) = place {
            had_left.for_each(|addr| recording.had_left(addr));
        }
    }

    /// A hart's store to a device leaves it, for a recording.
    pub(crate) fn record_store(&mut self, addr: PhysAddr, hart: u32) {
        if let Some(recording) = under_way(self.timing.as_deref_mut(), self.recording.as_deref_mut()) {
            recording.leaves(addr, hart);
        }
    }

    /// The first store to this register that left arrives: whose it is.
    pub(crate) fn recorded_store(&mut self, addr: PhysAddr) -> Option<StoreOrigin> {
        under_way(self.timing.as_deref_mut(), self.recording.as_deref_mut())?.arrives(addr)
    }

    /// An event at a function, for a recording.
    pub(crate) fn record_event(&mut self, device: u8, now: Ps, what: EventKind) {
        let (timing, own) = (self.timing.as_deref_mut(), self.recording.as_deref_mut());
        if let Some(recording) = under_way(timing, own) {
            recording.happened(device, now, what, None);
        }
    }
}

/// The recording under way: the timing models', or else the machine's own.
pub(crate) fn under_way<'a>(
    timing: Option<&'a mut Timing>,
    own: Option<&'a mut Recording>,
) -> Option<&'a mut Recording> {
    match timing {
        Some(timing) => timing.recording.as_deref_mut(),
        None => own,
    }
}
