//! Converts the raw stream to ops: accesses and successor of each instruction, and inferred traps.
//!
//! A block is emitted when the next one begins, because only then is it known whether its last instruction
//! branched and whether a trap followed. An address that an instruction cannot branch to is a trap handler.
//! An address once recognised this way is also taken for a handler when a return or an indirect jump precedes it.
//! If an interrupt follows a branch, the branch is assumed to repeat its last direction. This inference is for
//! instruction sets whose traps are not in the stream.

mod block_cache;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use doorbell_sim::{Op, OpClass, Ps};

use crate::emit::{Emitter, Successor};
use crate::error::StreamError;
use crate::event::{Event, ExecutedOps, Recorder, Trap};
use crate::instruction::{Decoded, Flow, InstructionSet};
use crate::nic::{Follower, NicModel};
use crate::stream::{Access, Device, Item, Stream};
use crate::target::Target;
use block_cache::BlockCache;

/// Kernel half of the address space, in Linux on all instruction sets.
const KERNEL: u64 = 1 << 63;
/// Marks a device event after the end of a block.
const AFTER_BLOCK: u32 = u32::MAX;

/// Totals of decoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Executed instructions; one with a REP prefix counts once.
    pub instructions: u64,
    /// Instructions as QEMU counts them, which is also the unit of a window: one per REP iteration, and one
    /// more for an instruction that faults.
    pub started: u64,
    /// Translation blocks of QEMU.
    pub blocks: u64,
    /// Blocks whose ops were in the cache.
    pub known: u64,
    /// Interrupts.
    pub interrupts: u64,
    /// Exceptions.
    pub exceptions: u64,
    /// System calls and returns.
    pub system: u64,
    /// DMA writes of devices other than the NIC, which are not recorded.
    pub other_writes: u64,
}

/// A block of code.
#[derive(Debug)]
struct Block {
    instructions: Vec<Decoded>,
    cache: BlockCache,
}

/// The last executed block, until its successor is known.
#[derive(Debug, Default)]
struct Last {
    block: usize,
    /// Number of its instructions that began.
    started: usize,
    accesses: Vec<Access>,
    devices: Vec<(u32, Device)>,
    /// Time that the processor waited after it.
    waited: Ps,
    is_valid: bool,
}

impl Last {
    /// Accesses of its last instruction.
    fn own(&self) -> impl Iterator<Item = &Access> {
        self.accesses.iter().rev().take_while(|access| access.instruction as usize + 1 == self.started)
    }
}

/// Outcome of a block's last instruction.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    /// Its successor; `None` if it was not executed and has no ops.
    successor: Option<Successor>,
    /// Trap that leads to the next instruction.
    trap: Option<Trap>,
}

impl Outcome {
    const FAULT: Outcome = Outcome { successor: None, trap: Some(Trap::Exception) };

    /// Returns whether an exception or interrupt follows the block.
    fn is_trapped(self) -> bool {
        matches!(self.trap, Some(Trap::Exception | Trap::Interrupt))
    }
}

/// Converts a raw stream to ops and events.
#[derive(Debug)]
pub struct Execution<R> {
    stream: Stream<R>,
    blocks: Vec<Block>,
    isa: Box<dyn InstructionSet>,
    emitter: Emitter,
    nic: Follower,
    has_started: bool,
    last: Last,
    ops: Vec<Op>,
    /// Pending privilege and address space of the next block.
    state: Option<(bool, u64)>,
    /// Reported trap before the next block, and the return address of its handler.
    reported_trap: Option<(Trap, u64)>,
    space: u64,
    is_privileged: bool,
    handlers: BTreeMap<u64, Trap>,
    /// Pages already recorded.
    pages: BTreeSet<(u64, u64, u64, u64)>,
    shapes: u32,
    counts: Counts,
}

impl<R: Read> Execution<R> {
    /// Reads the stream's header.
    pub fn new(target: &Target, nic: &'static NicModel, input: R) -> Result<Execution<R>, StreamError> {
        Ok(Execution {
            stream: Stream::new(input)?,
            blocks: Vec::new(),
            isa: (target.isa)(),
            emitter: Emitter::default(),
            nic: Follower::new(nic),
            has_started: false,
            last: Last::default(),
            ops: Vec::new(),
            state: None,
            reported_trap: None,
            space: 0,
            is_privileged: true,
            handlers: BTreeMap::new(),
            pages: BTreeSet::new(),
            shapes: 0,
            counts: Counts::default(),
        })
    }

    /// Reads up to the next block, and passes everything before it to the recorder; `false` at the end.
    pub fn step(&mut self, recorder: &mut impl Recorder) -> Result<bool, StreamError> {
        match self.stream.read()? {
            Item::Begin => self.has_started = true,
            Item::Device(Device::Register { offset, value, .. }) if !self.has_started => {
                self.nic.register(offset, value);
            }
            Item::Device(device) => self.last.devices.push((AFTER_BLOCK, device)),
            Item::Trap { is_interrupt, address } => {
                let trap = if is_interrupt { Trap::Interrupt } else { Trap::Exception };
                self.reported_trap = Some((trap, address));
            }
            Item::State { is_privileged, space } => {
                self.state = Some((is_privileged, space));
                self.space = space;
            }
            Item::Slept(nanoseconds) => {
                let time = Ps(nanoseconds.saturating_mul(1000));
                self.last.waited = self.last.waited.saturating_add(time);
            }
            Item::Block(block, started) => self.block(block as usize, started as usize, recorder)?,
            Item::End(started) => {
                self.counts.started = started;
                self.finish_block(None, recorder)?;
                self.counts.other_writes = self.nic.others();
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads the whole stream.
    pub fn run(&mut self, recorder: &mut impl Recorder) -> Result<Counts, StreamError> {
        while self.step(recorder)? {}
        Ok(self.counts)
    }

    fn block(
        &mut self,
        number: usize,
        started: usize,
        recorder: &mut impl Recorder,
    ) -> Result<(), StreamError> {
        while self.blocks.len() <= number {
            let instructions = self.stream.instructions(self.blocks.len() as u32);
            let instructions = instructions.iter().map(|bytes| self.isa.decode(bytes)).collect();
            self.blocks.push(Block { instructions, cache: BlockCache::default() });
        }
        self.counts.blocks += 1;
        self.finish_block(Some(self.blocks[number].instructions[0].address), recorder)?;
        for walk in self.stream.walks().drain(..) {
            let (virt, page, entry) = walk.key();
            if self.pages.insert((self.space, virt, page, entry)) {
                recorder.event(Event::Page(self.space, walk))?;
            }
        }
        self.stream.exchange(&mut self.last.accesses, &mut self.last.devices);
        (self.last.block, self.last.started, self.last.is_valid) = (number, started, started > 0);
        Ok(())
    }

    /// Finishes the last block. `next` is the address of the instruction after it, if known.
    fn finish_block(&mut self, next: Option<u64>, recorder: &mut impl Recorder) -> Result<(), StreamError> {
        let mut last = std::mem::take(&mut self.last);
        let result = self.emit_last(&last, next, recorder);
        last.devices.clear();
        (last.waited, last.is_valid) = (Ps::ZERO, false);
        self.last = last;
        result
    }

    fn emit_last(
        &mut self,
        last: &Last,
        next: Option<u64>,
        recorder: &mut impl Recorder,
    ) -> Result<(), StreamError> {
        let mut trap = None;
        if last.is_valid {
            let decoded = self.blocks[last.block].instructions[last.started - 1];
            let outcome = match (next, self.reported_trap) {
                (Some(next), Some((trap, address))) => trapped(&decoded, next, trap, address),
                (Some(next), None) => self.outcome(last, &decoded, next),
                // Only a fault stops a block before its end.
                (None, _) if self.has_stopped(last) => Outcome::FAULT,
                (None, _) => Outcome { successor: Some(Successor::Next), trap: None },
            };
            trap = outcome.trap;
            if let Some(successor) = outcome.successor {
                let instruction = &mut self.blocks[last.block].instructions[last.started - 1];
                instruction.last_successor =
                    if let Successor::Target(target) = successor { target } else { decoded.end() };
            }
            if last.devices.is_empty() {
                self.emit_cached(last, outcome, recorder)?;
            } else {
                self.with_devices(last, outcome, recorder)?;
            }
        } else {
            self.devices(last, &last.devices, recorder)?;
        }
        if last.waited != Ps::ZERO {
            recorder.event(Event::Waited(last.waited))?;
        }
        self.enter_next(next, trap, recorder)
    }

    /// Handles a block with device activity.
    fn with_devices(
        &mut self,
        last: &Last,
        outcome: Outcome,
        recorder: &mut impl Recorder,
    ) -> Result<(), StreamError> {
        let mut devices = &last.devices[..];
        let mut accesses = &last.accesses[..];
        self.emitter.names.begin();
        for at in 0..last.started {
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
        self.emitter.names.apply(after);
        self.devices(last, devices, recorder)
    }

    /// Appends the ops of one instruction; returns the accesses that belong to later ones.
    fn instruction<'a>(
        &mut self,
        last: &Last,
        at: usize,
        accesses: &'a [Access],
        outcome: Outcome,
    ) -> &'a [Access] {
        let own = accesses.iter().take_while(|access| access.instruction as usize == at).count();
        let (own, others) = accesses.split_at(own);
        let is_last = at + 1 == last.started;
        let Some(successor) = (if is_last { outcome.successor } else { Some(Successor::Next) }) else {
            return others;
        };
        self.emitter.emit(&self.blocks[last.block].instructions[at], own, successor, &mut self.ops);
        others
    }

    /// Passes the collected ops to the recorder.
    fn executed(
        &mut self,
        shape: Option<u32>,
        trapped: bool,
        recorder: &mut impl Recorder,
    ) -> Result<(), StreamError> {
        if !self.ops.is_empty() || trapped {
            let instructions = self.ops.iter().filter(|op| op.ends_instruction()).count() as u64;
            self.counts.instructions += instructions;
            recorder.executed(&ExecutedOps { ops: &self.ops, instructions, shape, trapped })?;
            self.ops.clear();
        }
        Ok(())
    }

    /// Passes device events to the recorder, including those that the NIC follower holds back.
    fn devices(
        &mut self,
        last: &Last,
        devices: &[(u32, Device)],
        recorder: &mut impl Recorder,
    ) -> Result<(), StreamError> {
        let mut result = Ok(());
        let mut emit = |event| {
            if result.is_ok() {
                result = recorder.event(Event::Device(event));
            }
        };
        for (when, device) in devices {
            // A register is written by the instruction that began last.
            let is_own = |access: &&Access| access.instruction.wrapping_add(1) == *when && access.is_io;
            let store = last.accesses.iter().find(|access| is_own(access) && access.is_store);
            self.nic.device(*device, store.map(|access| access.phys), &mut emit);
        }
        self.nic.flush(&mut emit);
        Ok(result?)
    }

    /// Proceeds to the next instruction, through a trap or not.
    fn enter_next(
        &mut self,
        next: Option<u64>,
        trap: Option<Trap>,
        recorder: &mut impl Recorder,
    ) -> Result<(), StreamError> {
        let Some(next) = next else { return Ok(()) };
        self.reported_trap = None;
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

    /// Returns whether the last block ended before its end. Instructions that QEMU executes alone, because
    /// they access a device, end their block normally.
    fn has_stopped(&self, last: &Last) -> bool {
        let is_cut = last.started < self.blocks[last.block].instructions.len();
        is_cut && !last.own().any(|access| access.is_io)
    }

    /// Outcome of an instruction followed by `next`, without a reported trap.
    fn outcome(&self, last: &Last, decoded: &Decoded, next: u64) -> Outcome {
        let end = decoded.end();
        let to = |target: u64| if target == end { Successor::Next } else { Successor::Target(target) };
        let plain = |successor: Successor| Outcome { successor: Some(successor), trap: None };
        let trapped = |successor: Successor| {
            let has_faulted = decoded.accesses_memory && last.own().next().is_none();
            match self.handler_trap(next) {
                trap if trap == Trap::Exception || has_faulted || self.has_stopped(last) => Outcome::FAULT,
                trap => Outcome { successor: Some(successor), trap: Some(trap) },
            }
        };
        match decoded.flow {
            // An interrupt directly after the return from another.
            Flow::System if decoded.returns && self.handlers.contains_key(&next) => {
                Outcome { successor: Some(to(decoded.last_successor)), trap: Some(self.handler_trap(next)) }
            }
            Flow::System => Outcome { successor: Some(to(next)), trap: Some(Trap::System) },
            Flow::Next if next == end => plain(Successor::Next),
            Flow::Next if next == decoded.address && decoded.is_repeated => plain(Successor::Repeat),
            Flow::Next => trapped(Successor::Next),
            Flow::Direct(target) if next == target => plain(Successor::Target(target)),
            Flow::Direct(target) => trapped(Successor::Target(target)),
            Flow::Branch(target) if next == target => plain(Successor::Target(target)),
            Flow::Branch(_) if next == end => plain(Successor::Next),
            Flow::Branch(_) => trapped(to(decoded.last_successor)),
            Flow::Indirect => {
                let from_user = !self.is_privileged && next >= KERNEL;
                if from_user || self.handlers.contains_key(&next) {
                    trapped(Successor::Target(decoded.last_successor))
                } else {
                    plain(Successor::Target(next))
                }
            }
        }
    }

    /// Trap type of a handler.
    fn handler_trap(&self, handler: u64) -> Trap {
        self.handlers.get(&handler).copied().unwrap_or(Trap::Interrupt)
    }
}

/// Outcome of an instruction before a trap to the handler at `next`, which returns to `address`. This is the
/// instruction itself if it caused the trap. Otherwise it is the next one, before which an interrupt came or
/// whose fetch failed.
fn trapped(decoded: &Decoded, next: u64, trap: Trap, address: u64) -> Outcome {
    let to = |target: u64| match decoded.flow {
        Flow::Next => Successor::Next,
        _ if target == decoded.end() => Successor::Next,
        _ => Successor::Target(target),
    };
    match (decoded.flow, trap) {
        (Flow::System, Trap::Exception) if !decoded.returns => {
            Outcome { successor: Some(to(next)), trap: Some(Trap::System) }
        }
        (_, Trap::Exception) if address == decoded.address => Outcome::FAULT,
        _ => Outcome { successor: Some(to(address)), trap: Some(trap) },
    }
}

/// Returns whether an op accesses a device.
pub(crate) fn is_device(op: &Op) -> bool {
    op.class == OpClass::Device
}
