//! From the raw stream to ops: what each instruction accessed, where it went, and where a trap must have been.
//!
//! A block is told when the next one begins: that says whether its last instruction branched, and whether there was a trap between. An
//! address that is reached from an instruction that cannot go there is a handler's; one that was reached so once is a handler's also where
//! a return or a jump through a register comes before it. Where an interrupt follows a branch, the branch is taken to go as it went
//! the last time. All that is for instruction sets whose traps the stream does not tell.

mod known;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use doorbell_sim::{Op, OpClass, Ps};

use crate::emit::{Emitter, Goes};
use crate::error::StreamError;
use crate::event::{Event, Executed, Recorder, Trap};
use crate::instruction::{Decoded, Flow, InstructionSet};
use crate::nic::{Follower, NicModel};
use crate::stream::{Access, Device, Item, Stream};
use crate::target::Target;
use known::Known;

/// The half of the addresses that is the kernel's, as Linux has it on all instruction sets.
const KERNEL: u64 = 1 << 63;
/// Of what a device does behind a block.
const BEHIND: u32 = u32::MAX;

/// How much was decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Instructions that were executed; one with a REP prefix is one.
    pub instructions: u64,
    /// As QEMU counts them: such a one as often as it moves something, and one that faults once more. A window is as long as this.
    pub begun: u64,
    /// Blocks, as QEMU makes them.
    pub blocks: u64,
    /// Of these, such as were known with all their ops.
    pub known: u64,
    /// Interrupts.
    pub interrupts: u64,
    /// Exceptions.
    pub exceptions: u64,
    /// Instructions that go to the operating system or back.
    pub system: u64,
    /// Writes by devices other than the NIC, which are not told.
    pub other_writes: u64,
}

/// A block that stands in memory.
#[derive(Debug)]
struct Block {
    instructions: Vec<Decoded>,
    known: Known,
}

/// The block that was executed last, until it is known where it went.
#[derive(Debug, Default)]
struct Last {
    block: usize,
    /// How many of its instructions began.
    begun: usize,
    accesses: Vec<Access>,
    devices: Vec<(u32, Device)>,
    /// How long the processor waited behind it.
    waited: Ps,
    is_there: bool,
}

impl Last {
    /// The accesses of its last instruction.
    fn own(&self) -> impl Iterator<Item = &Access> {
        self.accesses.iter().rev().take_while(|access| access.instruction as usize + 1 == self.begun)
    }
}

/// How the last instruction of a block ended.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    /// Where it goes; nowhere if it was not executed, and is none of the ops.
    goes: Option<Goes>,
    /// The next one is reached by this.
    trap: Option<Trap>,
}

impl Outcome {
    const FAULT: Outcome = Outcome { goes: None, trap: Some(Trap::Exception) };

    /// Whether the block is one behind which an interrupt or exception is taken.
    fn is_trapped(self) -> bool {
        matches!(self.trap, Some(Trap::Exception | Trap::Interrupt))
    }
}

/// Goes through a raw stream.
#[derive(Debug)]
pub struct Execution<R> {
    stream: Stream<R>,
    blocks: Vec<Block>,
    isa: Box<dyn InstructionSet>,
    emitter: Emitter,
    nic: Follower,
    is_begun: bool,
    last: Last,
    ops: Vec<Op>,
    /// Of the next block.
    state: Option<(bool, u64)>,
    /// What leads to it, and the address that its handler goes back to, if that was told.
    told: Option<(Trap, u64)>,
    space: u64,
    is_privileged: bool,
    handlers: BTreeMap<u64, Trap>,
    /// Those that have been told.
    pages: BTreeSet<(u64, u64, u64, u64)>,
    shapes: u32,
    counts: Counts,
}

impl<R: Read> Execution<R> {
    /// Begins with the stream's head.
    pub fn new(target: &Target, nic: &'static NicModel, input: R) -> Result<Execution<R>, StreamError> {
        Ok(Execution {
            stream: Stream::new(input)?,
            blocks: Vec::new(),
            isa: (target.isa)(),
            emitter: Emitter::default(),
            nic: Follower::new(nic),
            is_begun: false,
            last: Last::default(),
            ops: Vec::new(),
            state: None,
            told: None,
            space: 0,
            is_privileged: true,
            handlers: BTreeMap::new(),
            pages: BTreeSet::new(),
            shapes: 0,
            counts: Counts::default(),
        })
    }

    /// Reads on to the next block, and tells the recorder all that happened before it; false behind the end.
    pub fn step(&mut self, recorder: &mut impl Recorder) -> Result<bool, StreamError> {
        match self.stream.read()? {
            Item::Begin => self.is_begun = true,
            Item::Device(Device::Register { offset, value, .. }) if !self.is_begun => {
                self.nic.register(offset, value);
            }
            Item::Device(device) => self.last.devices.push((BEHIND, device)),
            Item::Trap { is_interrupt, address } => {
                let trap = if is_interrupt { Trap::Interrupt } else { Trap::Exception };
                self.told = Some((trap, address));
            }
            Item::State { is_privileged, space } => {
                self.state = Some((is_privileged, space));
                self.space = space;
            }
            Item::Slept(nanoseconds) => {
                let time = Ps(nanoseconds.saturating_mul(1000));
                self.last.waited = self.last.waited.saturating_add(time);
            }
            Item::Block(block, begun) => self.block(block as usize, begun as usize, recorder)?,
            Item::End(begun) => {
                self.counts.begun = begun;
                self.settle(None, recorder)?;
                self.counts.other_writes = self.nic.others();
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

    /// What has been decoded.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn block(
        &mut self,
        number: usize,
        begun: usize,
        recorder: &mut impl Recorder,
    ) -> Result<(), StreamError> {
        while self.blocks.len() <= number {
            let instructions = self.stream.instructions(self.blocks.len() as u32);
            let instructions = instructions.iter().map(|bytes| self.isa.decode(bytes)).collect();
            self.blocks.push(Block { instructions, known: Known::default() });
        }
        self.counts.blocks += 1;
        self.settle(Some(self.blocks[number].instructions[0].address), recorder)?;
        for walk in self.stream.walks().drain(..) {
            let (virt, page, entry) = walk.key();
            if self.pages.insert((self.space, virt, page, entry)) {
                recorder.event(Event::Page(self.space, walk))?;
            }
        }
        self.stream.exchange(&mut self.last.accesses, &mut self.last.devices);
        (self.last.block, self.last.begun, self.last.is_there) = (number, begun, begun > 0);
        Ok(())
    }

    /// Tells of the last block: the instruction at `next` came behind it, or nothing that is known.
    fn settle(&mut self, next: Option<u64>, recorder: &mut impl Recorder) -> Result<(), StreamError> {
        let mut last = std::mem::take(&mut self.last);
        let result = self.tell(&last, next, recorder);
        last.devices.clear();
        (last.waited, last.is_there) = (Ps::ZERO, false);
        self.last = last;
        result
    }

    fn tell(
        &mut self,
        last: &Last,
        next: Option<u64>,
        recorder: &mut impl Recorder,
    ) -> Result<(), StreamError> {
        let mut trap = None;
        if last.is_there {
            let decoded = self.blocks[last.block].instructions[last.begun - 1];
            let outcome = match (next, self.told) {
                (Some(next), Some((trap, address))) => trapped(&decoded, next, trap, address),
                (Some(next), None) => self.outcome(last, &decoded, next),
                // Nothing stops a block in its middle but a fault.
                (None, _) if self.has_stopped(last) => Outcome::FAULT,
                (None, _) => Outcome { goes: Some(Goes::On), trap: None },
            };
            trap = outcome.trap;
            if let Some(goes) = outcome.goes {
                let known = &mut self.blocks[last.block].instructions[last.begun - 1];
                known.went = if let Goes::To(target) = goes { target } else { decoded.behind() };
            }
            if last.devices.is_empty() {
                self.quickly(last, outcome, recorder)?;
            } else {
                self.slowly(last, outcome, recorder)?;
            }
        } else {
            self.devices(last, &last.devices, recorder)?;
        }
        if last.waited != Ps::ZERO {
            recorder.event(Event::Waited(last.waited))?;
        }
        self.arrive(next, trap, recorder)
    }

    /// A block during which devices did something.
    fn slowly(
        &mut self,
        last: &Last,
        outcome: Outcome,
        recorder: &mut impl Recorder,
    ) -> Result<(), StreamError> {
        let mut devices = &last.devices[..];
        let mut accesses = &last.accesses[..];
        self.emitter.names.begin();
        for at in 0..last.begun {
            let before = devices.iter().take_while(|(when, _)| *when as usize <= at).count();
            let (now, others) = devices.split_at(before);
            devices = others;
            if !now.is_empty() {
                self.executed(None, false, recorder)?;
                self.devices(last, now, recorder)?;
            }
            accesses = self.instruction(last, at, accesses, outcome);
        }
        self.executed(None, outcome.is_trapped(), recorder)?;
        let after = self.emitter.names.after();
        self.emitter.names.follow(after);
        self.devices(last, devices, recorder)
    }

    /// The ops of one of a block's instructions; the accesses that are not its own are left.
    fn instruction<'a>(
        &mut self,
        last: &Last,
        at: usize,
        accesses: &'a [Access],
        outcome: Outcome,
    ) -> &'a [Access] {
        let own = accesses.iter().take_while(|access| access.instruction as usize == at).count();
        let (own, others) = accesses.split_at(own);
        let is_last = at + 1 == last.begun;
        let Some(goes) = (if is_last { outcome.goes } else { Some(Goes::On) }) else { return others };
        self.emitter.emit(&self.blocks[last.block].instructions[at], own, goes, &mut self.ops);
        others
    }

    /// Hands on the ops that there are.
    fn executed(
        &mut self,
        shape: Option<u32>,
        trapped: bool,
        recorder: &mut impl Recorder,
    ) -> Result<(), StreamError> {
        if !self.ops.is_empty() || trapped {
            let instructions = self.ops.iter().filter(|op| op.ends_instruction()).count() as u64;
            self.counts.instructions += instructions;
            recorder.executed(&Executed { ops: &self.ops, instructions, shape, trapped })?;
            self.ops.clear();
        }
        Ok(())
    }

    /// What devices did, and what the NIC holds back.
    fn devices(
        &mut self,
        last: &Last,
        devices: &[(u32, Device)],
        recorder: &mut impl Recorder,
    ) -> Result<(), StreamError> {
        let mut result = Ok(());
        let mut tell = |happening| {
            if result.is_ok() {
                result = recorder.event(Event::Device(happening));
            }
        };
        for (when, device) in devices {
            // A register was stored to by the instruction that had begun last.
            let is_own = |access: &&Access| access.instruction.wrapping_add(1) == *when && access.is_io;
            let place = last.accesses.iter().find(|access| is_own(access) && access.is_store);
            self.nic.device(*device, place.map(|access| access.phys), &mut tell);
        }
        self.nic.flush(&mut tell);
        Ok(result?)
    }

    /// The next instruction is reached by a trap, or as usual.
    fn arrive(
        &mut self,
        next: Option<u64>,
        trap: Option<Trap>,
        recorder: &mut impl Recorder,
    ) -> Result<(), StreamError> {
        let Some(next) = next else { return Ok(()) };
        self.told = None;
        if let Some(trap) = trap {
            match trap {
                Trap::Interrupt => self.counts.interrupts += 1,
                Trap::Exception => self.counts.exceptions += 1,
                Trap::System => self.counts.system += 1,
            }
            if trap != Trap::System && next >= KERNEL {
                self.handlers.entry(next).or_insert(trap);
            }
            recorder.event(Event::Trap(trap))?;
        }
        if let Some((is_privileged, space)) = self.state.take() {
            self.is_privileged = is_privileged;
            self.emitter.privileged = is_privileged;
            recorder.event(Event::Space(is_privileged, space))?;
        }
        Ok(())
    }

    /// Whether the last block ended in its middle. What was executed by itself because it accesses a device ends its block as others
    /// do.
    fn has_stopped(&self, last: &Last) -> bool {
        let is_cut = last.begun < self.blocks[last.block].instructions.len();
        is_cut && !last.own().any(|access| access.is_io)
    }

    /// Where an instruction went, if the one at `next` was executed after it and nothing was told of a trap.
    fn outcome(&self, last: &Last, decoded: &Decoded, next: u64) -> Outcome {
        let behind = decoded.behind();
        let to = |target: u64| if target == behind { Goes::On } else { Goes::To(target) };
        let plain = |goes: Goes| Outcome { goes: Some(goes), trap: None };
        let trapped = |goes: Goes| {
            let has_faulted = decoded.accesses_memory && last.own().next().is_none();
            match self.known(next) {
                trap if trap == Trap::Exception || has_faulted || self.has_stopped(last) => Outcome::FAULT,
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

/// Whether an op accesses a device.
pub(crate) fn is_device(op: &Op) -> bool {
    op.class == OpClass::Device
}
