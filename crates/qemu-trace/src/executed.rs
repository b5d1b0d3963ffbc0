//! From the raw stream to ops: what each instruction accessed, where it went, and where a trap must have been.
//!
//! A block's last instruction is known only when the next block begins: that says whether a branch was taken, and whether there was
//! a trap between. An address that is reached from an instruction that cannot go there is a handler's; one that was reached so
//! once is a handler's also where a return or a jump through a register comes before it. Where an interrupt follows a branch, the
//! branch is taken to go as it went the last time. All that is for instruction sets whose traps the stream does not tell.

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
    /// What leads to it, and the address that its handler goes back to, if that was told.
    told: Option<(Trap, u64)>,
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
            told: None,
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
            Item::Trap { is_interrupt, address } => {
                let trap = if is_interrupt { Trap::Interrupt } else { Trap::Exception };
                self.told = Some((trap, address));
            }
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
            let outcome = match (next, self.told) {
                (Some(next), Some((trap, address))) => trapped(&decoded, next, trap, address),
                (Some(next), None) => self.outcome(&decoded, next),
                // Nothing stops a block in its middle but a fault.
                (None, _) if self.has_stopped() => Outcome::FAULT,
                (None, _) => Outcome { goes: Some(Goes::On), trap: None },
            };
            trap = outcome.trap;
            if let Some(goes) = outcome.goes {
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
            trap = self.told.map(|(trap, _)| trap).or((next != expected).then_some(Trap::Interrupt));
        }
        self.arrive(next, trap, recorder);
    }

    /// The next instruction is reached by a trap, or as usual.
    fn arrive(&mut self, next: Option<u64>, trap: Option<Trap>, recorder: &mut impl Recorder) {
        let Some(next) = next else { return };
        self.told = None;
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

    /// Whether the last block ended in its middle. What was executed by itself because it accesses a device ends its block as others
    /// do.
    fn has_stopped(&self) -> bool {
        self.last.is_cut && !self.last.accesses.iter().any(|access| access.is_io)
    }

    /// Where an instruction went, if the one at `next` was executed after it and nothing was told of a trap.
    fn outcome(&self, decoded: &Decoded, next: u64) -> Outcome {
        let behind = decoded.behind();
        let to = |target: u64| if target == behind { Goes::On } else { Goes::To(target) };
        let plain = |goes: Goes| Outcome { goes: Some(goes), trap: None };
        let trapped = |goes: Goes| {
            let has_faulted = decoded.accesses_memory && self.last.accesses.is_empty();
            match self.known(next) {
                trap if trap == Trap::Exception || has_faulted || self.has_stopped() => Outcome::FAULT,
                trap => Outcome { goes: Some(goes), trap: Some(trap) },
            }
        };
        match decoded.flow {
            // One interrupt follows the other.
            Flow::System if decoded.returns && self.handlers.contains_key(&next) => {
                Outcome { goes: Some(to(decoded.went)), trap: Some(self.known(next)) }
            }
            Flow::System => Outcome { goes: Some(to(next)), trap: Some(Trap::System) },
            Flow::Next if next == behind => plain(Goes::On),
            Flow::Next if next == decoded.address && decoded.is_repeated => plain(Goes::Again),
            Flow::Next => trapped(Goes::On),
            Flow::Direct(target) if next == target => plain(Goes::To(target)),
            Flow::Direct(target) => trapped(Goes::To(target)),
            Flow::Branch(target) if next == target => plain(Goes::To(target)),
            Flow::Branch(_) if next == behind => plain(Goes::On),
            Flow::Branch(_) => trapped(to(decoded.went)),
            Flow::Indirect => {
                let from_user = !self.is_privileged && next >= KERNEL;
                if from_user || self.handlers.contains_key(&next) {
                    trapped(Goes::To(decoded.went))
                } else {
                    plain(Goes::To(next))
                }
            }
        }
    }

    /// What a handler is of.
    fn known(&self, handler: u64) -> Trap {
        self.handlers.get(&handler).copied().unwrap_or(Trap::Interrupt)
    }
}

/// How the last instruction of a block ended.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    /// Where it goes; nowhere if it was not executed.
    goes: Option<Goes>,
    /// The next one is reached by this.
    trap: Option<Trap>,
}

impl Outcome {
    const FAULT: Outcome = Outcome { goes: None, trap: Some(Trap::Exception) };
}

/// How an instruction ended before a trap to the handler at `next`, which goes back to `address`: the instruction itself if it has
/// caused the trap, or the next one, be it that an interrupt came between or that the next one could not be fetched.
fn trapped(decoded: &Decoded, next: u64, trap: Trap, address: u64) -> Outcome {
    let to = |target: u64| match decoded.flow {
        Flow::Next => Goes::On,
        _ if target == decoded.behind() => Goes::On,
        _ => Goes::To(target),
    };
    match (decoded.flow, trap) {
        (Flow::System, Trap::Exception) if !decoded.returns => {
            Outcome { goes: Some(to(next)), trap: Some(Trap::System) }
        }
        (_, Trap::Exception) if address == decoded.address => Outcome::FAULT,
        _ => Outcome { goes: Some(to(address)), trap: Some(trap) },
    }
}
