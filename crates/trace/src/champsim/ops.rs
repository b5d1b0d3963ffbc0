//! Conversion of ChampSim records to ops, with ChampSim's semantics.
//!
//! An instruction becomes one op or several: its loads, then its computation or branch, then its stores.
//! Every number but 0 is a register, and results are renamed ([`Names`]). An op reads three registers, a
//! record up to four: a record that reads four gets an additional op that joins three of them. An
//! instruction's computation, stores and branch depend on its loads. A branch depends on the previous branch
//! through the instruction pointer. The stack pointer is folded as in ChampSim (`do_stack_pointer_folding` in
//! its `ooo_cpu.cc`). Its updates by branches, memory accesses and constant steps cause no dependence, as
//! with a stack engine. A load depends on an earlier store only if the addresses are equal. If an instruction
//! has several loads, its result depends on the last.
//!
//! Flags that no model uses allow ops to be converted back to records: a register that passes a value within
//! an instruction ([`Op::INNER`]), and a folded stack pointer update ([`Op::MOVES_STACK`]).
//!
//! Ops depend on the [`Survey`] of the whole trace, the record itself, and the address of the next one.

use doorbell_sim::op::Register;
use doorbell_sim::{Op, OpClass, PhysAddr};

use super::names::Names;
use super::{Record, STACK_POINTER, Survey};

/// Converts records to ops. The last record has no successor and yields no ops.
pub fn ops(records: &[Record]) -> Vec<Op> {
    let each = || records.iter().map(|record| Ok::<Record, std::convert::Infallible>(*record));
    let Ok(survey) = Survey::of(each());
    let mut stream = OpStream::new(each(), survey);
    let mut ops = Vec::with_capacity(records.len());
    while let Ok(true) = stream.instruction(&mut ops) {}
    ops
}

/// Converts records to ops, instruction by instruction.
pub struct OpStream<I> {
    records: I,
    survey: Survey,
    names: Names,
    /// Record to be converted next, once the first has been read.
    current: Option<Record>,
}

impl<E, I: Iterator<Item = Result<Record, E>>> OpStream<I> {
    /// Converts records, all of which the survey covers.
    pub fn new(records: I, survey: Survey) -> OpStream<I> {
        let names = Names::new(&survey);
        OpStream { records, survey, names, current: None }
    }

    /// Appends the ops of the next instruction, the last of which ends it; `false` at the end. The last
    /// record has no successor and yields no ops.
    #[inline]
    pub fn instruction(&mut self, ops: &mut Vec<Op>) -> Result<bool, E> {
        if self.current.is_none() {
            self.current = self.records.next().transpose()?;
        }
        let Some(current) = &mut self.current else { return Ok(false) };
        match self.records.next() {
            Some(Ok(next)) => {
                convert(current, next.ip, &self.survey, &mut self.names, ops);
                *current = next;
                Ok(true)
            }
            Some(Err(error)) => Err(error),
            None => Ok(false),
        }
    }

    /// Appends the ops of up to `count` instructions; returns their number.
    pub fn instructions(&mut self, count: u64, ops: &mut Vec<Op>) -> Result<u64, E> {
        for done in 0..count {
            if !self.instruction(ops)? {
                return Ok(done);
            }
        }
        Ok(count)
    }
}

/// Up to four registers, in order.
#[derive(Clone, Copy, Default)]
pub(super) struct RegisterList {
    /// The registers; the rest is 0.
    pub all: [Register; 4],
    pub count: usize,
}

impl RegisterList {
    fn push(&mut self, register: Register) {
        self.all[self.count] = register;
        self.count += 1;
    }

    /// Adds a register, unless it is 0, already in the list, or the list is full.
    pub fn add(&mut self, register: Register) {
        if register != 0 && self.count < self.all.len() && !self.as_slice().contains(&register) {
            self.push(register);
        }
    }

    fn as_slice(&self) -> &[Register] {
        &self.all[..self.count]
    }
}

impl FromIterator<Register> for RegisterList {
    fn from_iter<T: IntoIterator<Item = Register>>(registers: T) -> RegisterList {
        let mut few = RegisterList::default();
        registers.into_iter().for_each(|register| few.push(register));
        few
    }
}

/// Result registers that later instructions depend on, without repeats.
fn written(record: &Record, is_branch: bool) -> RegisterList {
    let accesses = record.read.iter().chain(&record.written).fold(0, |any, address| any | address) != 0;
    let folded = is_branch || accesses || !record.reads_a_variable();
    let mut written = RegisterList::default();
    for register in record.destinations {
        let is_left_behind = folded && register == STACK_POINTER;
        if !is_left_behind {
            written.add(register);
        }
    }
    written
}

/// The first three registers.
fn reading(sources: &[Register]) -> [Register; 3] {
    let mut all = [0; 3];
    all.iter_mut().zip(sources).for_each(|(place, source)| *place = *source);
    all
}

/// Appends the ops of a record; `next` is the address of the following instruction.
fn convert(record: &Record, next: u64, survey: &Survey, names: &mut Names, ops: &mut Vec<Op>) {
    let class = record.branch();
    let taken = class.is_some_and(|class| class != OpClass::Branch || record.taken);
    let first = ops.len();
    let addresses = |all: &[u64; 4]| all.iter().filter(|address| **address != 0).count();
    let (loads, stores) = (addresses(&record.read), addresses(&record.written));

    let mut sources = RegisterList::default();
    for source in record.sources {
        // Zero entries are not counted, so the rest stays 0. Branch-free, because the branch would be
        // unpredictable.
        sources.all[sources.count] = names.of(source);
        sources.count += usize::from(source != 0);
    }
    let several = sources.count > 3 || stores > 0 || loads + usize::from(class.is_some()) > 1;
    // The result of one op must not overwrite a source of the next.
    let not = if several { sources } else { RegisterList::default() };
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
        // The remaining ops depend on the loads' sources through the last load.
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

/// [`Op::INNER`] if the result of an op is only used within its instruction.
fn inner(is_inner: bool) -> u8 {
    u8::from(is_inner) * Op::INNER
}

/// Length of an instruction in bytes.
fn length(record: &Record, class: Option<OpClass>, next: u64, taken: bool, survey: &Survey) -> u8 {
    let is_call = matches!(class, Some(OpClass::Call | OpClass::IndirectCall));
    let known = if is_call { survey.call_length(record.ip) } else { None };
    let distance = next.wrapping_sub(record.ip);
    match known {
        Some(length) => length,
        None if !taken && (1..=15).contains(&distance) => distance as u8,
        None => 4,
    }
}
