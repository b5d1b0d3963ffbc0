//! A trace's ops, as ChampSim understands its records.
//!
//! An instruction is one op, or several: its loads, then what it computes or where it jumps, then its stores. Every number but 0 is
//! a register, and what an instruction writes is renamed ([`Names`]). An op reads three registers, a record up to four: one that
//! reads four is an op more, which joins three of them. What an instruction loads, its stores and its jump
//! wait for. A branch depends on the branch before it, through the instruction pointer. The stack pointer is folded as ChampSim
//! does it (`do_stack_pointer_folding` in its `ooo_cpu.cc`): branches, accesses to memory and constant steps leave it behind without
//! anybody's having to wait, as a stack engine does. A load overlaps a store only if it has the same address. Of several loads of
//! one instruction the last is what others wait for.
//!
//! What no op needs, and no model looks at, is told by flags, so that records can be made of ops again: a register that one op writes for
//! the others alone ([`Op::INNER`]), and a stack pointer that is left behind ([`Op::MOVES_STACK`]).
//!
//! Ops follow from what the whole trace is like ([`Survey`]) and, record by record, from one record and the address of the next.

use doorbell_sim::op::Register;
use doorbell_sim::{Op, OpClass, PhysAddr};

use super::names::Names;
use super::{Record, STACK_POINTER, Survey};

/// A trace's ops. The last record has no successor and leaves none.
pub fn ops(records: &[Record]) -> Vec<Op> {
    let each = || records.iter().map(|record| Ok::<Record, std::convert::Infallible>(*record));
    let Ok(survey) = Survey::of(each());
    let mut stream = OpStream::new(each(), survey);
    let mut ops = Vec::with_capacity(records.len());
    while let Ok(true) = stream.instruction(&mut ops) {}
    ops
}

/// Turns records into ops, one instruction after the other.
pub struct OpStream<I> {
    records: I,
    survey: Survey,
    names: Names,
    /// The record whose ops are next, once the first has been read.
    current: Option<Record>,
}

impl<E, I: Iterator<Item = Result<Record, E>>> OpStream<I> {
    /// Of records that were surveyed before, all of them from the first on.
    pub fn new(records: I, survey: Survey) -> OpStream<I> {
        let names = Names::new(&survey);
        OpStream { records, survey, names, current: None }
    }

    /// Appends the ops of the next instruction, the last of which ends it. `false` behind the last one: the trace's last
    /// record has no successor and leaves none.
    #[inline]
    pub fn instruction(&mut self, ops: &mut Vec<Op>) -> Result<bool, E> {
        if self.current.is_none() {
            self.current = self.records.next().transpose()?;
        }
        let Some(current) = &mut self.current else { return Ok(false) };
        match self.records.next() {
            Some(Ok(next)) => {
                one(current, next.ip, &self.survey, &mut self.names, ops);
                *current = next;
                Ok(true)
            }
            Some(Err(error)) => Err(error),
            None => Ok(false),
        }
    }

    /// Appends the ops of as many instructions, or of as many as there are left; how many they were.
    pub fn instructions(&mut self, count: u64, ops: &mut Vec<Op>) -> Result<u64, E> {
        for done in 0..count {
            if !self.instruction(ops)? {
                return Ok(done);
            }
        }
        Ok(count)
    }
}

/// A few registers, in order.
#[derive(Clone, Copy, Default)]
pub(super) struct Few {
    /// They, and none behind them.
    pub all: [Register; 4],
    pub count: usize,
}

impl Few {
    fn push(&mut self, register: Register) {
        self.all[self.count] = register;
        self.count += 1;
    }

    /// One that is not among them yet, if there is room for it.
    pub fn add(&mut self, register: Register) {
        if register != 0 && self.count < self.all.len() && !self.as_slice().contains(&register) {
            self.push(register);
        }
    }

    fn as_slice(&self) -> &[Register] {
        &self.all[..self.count]
    }
}

impl FromIterator<Register> for Few {
    fn from_iter<T: IntoIterator<Item = Register>>(registers: T) -> Few {
        let mut few = Few::default();
        registers.into_iter().for_each(|register| few.push(register));
        few
    }
}

/// The registers that an instruction writes for others to wait for, each once.
fn written(record: &Record, is_branch: bool) -> Few {
    let accesses = record.read.iter().chain(&record.written).fold(0, |any, address| any | address) != 0;
    let folded = is_branch || accesses || !record.reads_a_variable();
    let mut written = Few::default();
    for register in record.destinations {
        let is_left_behind = folded && register == STACK_POINTER;
        if !is_left_behind {
            written.add(register);
        }
    }
    written
}

/// The first three of them.
fn reading(sources: &[Register]) -> [Register; 3] {
    let mut all = [0; 3];
    all.iter_mut().zip(sources).for_each(|(place, source)| *place = *source);
    all
}

/// The ops of a record that is followed by the instruction at `next`.
fn one(record: &Record, next: u64, survey: &Survey, names: &mut Names, ops: &mut Vec<Op>) {
    let class = record.branch();
    let taken = class.is_some_and(|class| class != OpClass::Branch || record.taken);
    let first = ops.len();
    let addresses = |all: &[u64; 4]| all.iter().filter(|address| **address != 0).count();
    let (loads, stores) = (addresses(&record.read), addresses(&record.written));

    let mut sources = Few::default();
    for source in record.sources {
        // What stands for none is 0, as all behind the last one are. (Without a branch that nobody can predict.)
        sources.all[sources.count] = names.of(source);
        sources.count += usize::from(source != 0);
    }
    let several = sources.count > 3 || stores > 0 || loads + usize::from(class.is_some()) > 1;
    // What one op writes the next one must not read by mistake.
    let not = if several { sources } else { Few::default() };
    let written = written(record, class.is_some());
    let writes_stack = record.destinations.contains(&STACK_POINTER);
    let result = names.write(written.as_slice(), not.as_slice());
    let between = if result == 0 && several { names.spare() } else { result };

    let op = Op { pc: record.ip, fetch: PhysAddr(record.ip), ..Op::default() };
    if sources.count > 3 {
        let join = Op { destination: between, flags: Op::INNER, ..op };
        ops.push(Op { sources: reading(&sources.all[1..]), ..join });
        sources = [sources.all[0], between].into_iter().collect();
    }
    let access = |class: OpClass, address: u64, sources: &[Register]| Op {
        class,
        virt: address,
        phys: PhysAddr(address),
        size: 1,
        sources: reading(sources),
        ..op
    };
    for address in record.read.into_iter().filter(|address| *address != 0) {
        let loaded = if class.is_some() || stores > 0 { between } else { result };
        let load = access(OpClass::Load, address, sources.as_slice());
        ops.push(Op { destination: loaded, flags: inner(loaded != result), ..load });
    }
    if loads > 0 {
        // All that the loads waited for, they have waited for.
        sources = sources.as_slice().first().copied().into_iter().chain([between]).collect();
    }
    if let Some(class) = class {
        let flags = u8::from(taken) * Op::TAKEN;
        let sources = reading(sources.as_slice());
        ops.push(Op { class, sources, destination: result, virt: next, flags, ..op });
    } else if loads == 0 && (result != 0 || stores == 0) {
        ops.push(Op { sources: reading(sources.as_slice()), destination: result, ..op });
    }
    for address in record.written.into_iter().filter(|address| *address != 0) {
        ops.push(access(OpClass::Store, address, sources.as_slice()));
    }
    let length = length(record, class, next, taken, survey);
    let last = ops[first..].last_mut().expect("there is one at least");
    last.length = length;
    last.flags |= u8::from(writes_stack && !written.as_slice().contains(&STACK_POINTER)) * Op::MOVES_STACK;
}

/// The flags of an op that writes a register for its own instruction alone, or for others.
fn inner(is_inner: bool) -> u8 {
    u8::from(is_inner) * Op::INNER
}

/// Bytes of an instruction.
fn length(record: &Record, class: Option<OpClass>, next: u64, taken: bool, survey: &Survey) -> u8 {
    let is_call = matches!(class, Some(OpClass::Call | OpClass::IndirectCall));
    let known = if is_call { survey.call_length(record.ip) } else { None };
    let behind = next.wrapping_sub(record.ip);
    match known {
        Some(length) => length,
        None if !taken && (1..=15).contains(&behind) => behind as u8,
        None => 4,
    }
}
