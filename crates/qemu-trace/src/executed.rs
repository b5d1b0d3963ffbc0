//! From the raw stream to ops: what each instruction accessed, where it went, and where a trap must have been.
//!
//! A block's last instruction is known only when the next block begins: that says whether a branch was taken, and whether there was
//! a trap between. An address that is reached from an instruction that cannot go there is a handler's; one that was reached so
//! once is a handler's also where a return or a jump through a register comes before it. Where an interrupt follows a branch, the
//! branch is taken to go as it went the last time.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use crate::emit::{Emitter, Goes};
use crate::error::StreamError;
use crate::event::{Event, Recorder, Trap};
use crate::instruction::{Decoded, Flow, InstructionSet};
use crate::nic::{Follower, NicModel};
use crate::stream::{Access, Device, Item, Stream};
use crate::target::Target;

/// The half of the addresses that is the kernel's, as Linux has it on all instruction sets.
const KERNEL: u64 = 1 << 63;

/// How much was decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Instructions that were executed; one with a REP prefix is one.
    pub instructions: u64,
    /// Blocks, as QEMU makes them.
    pub blocks: u64,
    /// Interrupts.
    pub interrupts: u64,
    /// Exceptions.
    pub exceptions: u64,
    /// Instructions that go to the operating system or back.
    pub system: u64,
}

/// The last instruction of a block, until the next block begins.
#[derive(Debug, Default)]
struct Last {
    block: usize,
    instruction: usize,
    /// There were others behind it.
    is_cut: bool,
    accesses: Vec<Access>,
    devices: Vec<Device>,
}

/// Goes through a raw stream.
#[derive(Debug)]
pub struct Execution<R> {
    stream: Stream<R>,
    decoded: Vec<Vec<Decoded>>,
    isa: Box<dyn InstructionSet>,
    emitter: Emitter,
    nic: Follower,
    is_begun: bool,
    last: Last,
    has_last: bool,
    /// Where it should go on, if the last instruction has been told of already.
    expected: Option<u64>,
    /// Of the next block.
    state: Option<(bool, u64)>,
    is_privileged: bool,
    handlers: BTreeMap<u64, Trap>,
    /// Those that have been told.
    pages: BTreeSet<(u64, u64, u64)>,
    counts: Counts,
}

impl<R: Read> Execution<R> {
    /// Begins with the stream's head.
    pub fn new(target: &Target, nic: &'static NicModel, input: R) -> Result<Execution<R>, StreamError> {
        Ok(Execution {
            stream: Stream::new(input)?,
            decoded: Vec::new(),
            isa: (target.isa)(),
            emitter: Emitter::default(),
            nic: Follower::new(nic),
            is_begun: false,
            last: Last::default(),
            has_last: false,
            expected: None,
            state: None,
            is_privileged: true,
            handlers: BTreeMap::new(),
            pages: BTreeSet::new(),
            counts: Counts::default(),
        })
    }

    /// Tells the recorder all that happens up to and in the next block; false behind the end.
    pub fn step(&mut self, recorder: &mut impl Recorder) -> Result<bool, StreamError> {
        match self.stream.read()? {
            Item::Begin => self.is_begun = true,
            Item::Device(Device::Register(offset, value)) if !self.is_begun => {
                self.nic.register(offset, value);
            }
            Item::Device(device) => self.nic.device(device, recorder),
            Item::State { is_privileged, space } => self.state = Some((is_privileged, space)),
            Item::Idle => {
                self.settle(None, recorder);
                self.nic.flush(recorder);
            }
            Item::Block(block, begun) => self.block(block, begun, recorder),
            Item::End(_) => {
                self.settle(None, recorder);
                self.nic.flush(recorder);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Goes through all of it.
    pub fn run(&mut self, recorder: &mut impl Recorder) -> Result<Counts, StreamError> {
        while self.step(recorder)? {}
        Ok(self.counts)
    }

    fn block(&mut self, block: u32, begun: u32, recorder: &mut impl Recorder) {
        let number = block as usize;
        while self.decoded.len() <= number {
            let instructions = self.stream.instructions(self.decoded.len() as u32);
            let decoded = instructions.iter().map(|bytes| self.isa.decode(bytes));
            self.decoded.push(decoded.collect());
        }
        self.counts.blocks += 1;
        self.settle(Some(self.decoded[number][0].address), recorder);
        for walk in self.stream.walks().drain(..) {
            if self.pages.insert(walk.key()) {
                recorder.event(Event::Page(walk));
            }
        }
        let mut accesses = self.stream.accesses();
        let mut devices = self.stream.devices();
        for at in 0..begun {
            while let Some(((_, device), others)) = devices.split_first().filter(|((when, _), _)| *when <= at)
            {
                self.nic.device(*device, recorder);
                devices = others;
            }
            let own = accesses.iter().take_while(|access| access.instruction == at).count();
            let (own, others) = accesses.split_at(own);
            accesses = others;
            if at + 1 < begun {
                if self.nic.has_pending() {
                    self.nic.flush(recorder);
                }
                let decoded = &self.decoded[number][at as usize];
                self.emitter.emit(decoded, own, Goes::On, |op| recorder.op(op));
            } else {
                self.last.accesses.clear();
                self.last.accesses.extend_from_slice(own);
            }
        }
        self.last.devices.clear();
        self.last.devices.extend(devices.iter().map(|(_, device)| *device));
        if begun > 0 {
            self.counts.instructions += u64::from(begun) - 1;
            self.last.block = number;
            self.last.instruction = begun as usize - 1;
            self.last.is_cut = (begun as usize) < self.decoded[number].len();
            self.has_last = true;
        }
    }

    /// The last instruction was followed by the one at `next`, or by nothing that is known.
    fn settle(&mut self, next: Option<u64>, recorder: &mut impl Recorder) {
        let mut trap = None;
        if std::mem::take(&mut self.has_last) {
            if self.nic.has_pending() {
                self.nic.flush(recorder);
            }
            let decoded = self.decoded[self.last.block][self.last.instruction];
            let (goes, found) = self.outcome(&decoded, next);
            trap = found;
            if trap != Some(Trap::Exception) {
                self.counts.instructions += u64::from(goes != Goes::Again);
                let known = &mut self.decoded[self.last.block][self.last.instruction];
                if let Goes::To(target) = goes {
                    known.went = target;
                } else {
                    known.went = decoded.behind();
                }
                self.emitter.emit(&decoded, &self.last.accesses, goes, |op| recorder.op(op));
                if decoded.waits {
                    recorder.event(Event::Waits);
                }
            }
            self.expected = next.is_none().then(|| decoded.behind());
            for device in std::mem::take(&mut self.last.devices) {
                self.nic.device(device, recorder);
            }
        } else if let (Some(next), Some(expected)) = (next, self.expected.take()) {
            trap = (next != expected).then_some(Trap::Interrupt);
        }
        self.arrive(next, trap, recorder);
    }

    /// The next instruction is reached by a trap, or as usual.
    fn arrive(&mut self, next: Option<u64>, trap: Option<Trap>, recorder: &mut impl Recorder) {
        let Some(next) = next else { return };
        if self.nic.has_pending() {
            self.nic.flush(recorder);
        }
        if let Some(trap) = trap {
            match trap {
                Trap::Interrupt => self.counts.interrupts += 1,
                Trap::Exception => self.counts.exceptions += 1,
                Trap::System => self.counts.system += 1,
            }
            if trap != Trap::System && next >= KERNEL {
                self.handlers.entry(next).or_insert(trap);
            }
            recorder.event(Event::Trap(trap));
        }
        if let Some((is_privileged, space)) = self.state.take() {
            self.is_privileged = is_privileged;
            self.emitter.privileged = is_privileged;
            recorder.event(Event::Space(is_privileged, space));
        }
    }

    /// Where an instruction went, if the one at `next` was executed after it.
    fn outcome(&self, decoded: &Decoded, next: Option<u64>) -> (Goes, Option<Trap>) {
        let accesses = &self.last.accesses;
        let behind = decoded.behind();
        let Some(next) = next else {
            // Nothing stops a block in its middle but a fault.
            let has_faulted = self.last.is_cut && !accesses.iter().any(|access| access.is_io);
            return (Goes::On, has_faulted.then_some(Trap::Exception));
        };
        let to = |target: u64| if target == behind { Goes::On } else { Goes::To(target) };
        let trapped = || {
            let has_faulted = decoded.accesses_memory && accesses.is_empty();
            // What was executed by itself because it accesses a device ends its block as others do.
            let is_cut = self.last.is_cut && !accesses.iter().any(|access| access.is_io);
            let seen = if has_faulted || is_cut { Trap::Exception } else { self.known(next) };
            self.isa.handler(next).unwrap_or(seen)
        };
        match decoded.flow {
            // One interrupt follows the other.
            Flow::System if decoded.returns && self.handlers.contains_key(&next) => {
                (to(decoded.went), Some(self.known(next)))
            }
            Flow::System => (to(next), Some(Trap::System)),
            Flow::Next if next == behind => (Goes::On, None),
            Flow::Next if next == decoded.address && decoded.is_repeated => (Goes::Again, None),
            Flow::Next => (Goes::On, Some(trapped())),
            Flow::Direct(target) if next == target => (Goes::To(target), None),
            Flow::Direct(target) => (Goes::To(target), Some(trapped())),
            Flow::Branch(target) if next == target => (Goes::To(target), None),
            Flow::Branch(_) if next == behind => (Goes::On, None),
            Flow::Branch(_) => (to(decoded.went), Some(trapped())),
            Flow::Indirect => {
                let from_user = !self.is_privileged && next >= KERNEL;
                if from_user || self.handlers.contains_key(&next) {
                    (Goes::To(decoded.went), Some(trapped()))
                } else {
                    (Goes::To(next), None)
                }
            }
        }
    }

    /// What a handler is of.
    fn known(&self, handler: u64) -> Trap {
        let told = self.isa.handler(handler).or_else(|| self.handlers.get(&handler).copied());
        told.unwrap_or(Trap::Interrupt)
    }
}
