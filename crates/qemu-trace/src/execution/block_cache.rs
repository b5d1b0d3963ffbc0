//! Cache of the ops of blocks executed before; only the addresses are updated.
//!
//! An entry applies if the same instructions made the same kinds of accesses, the last instruction had the
//! same kind of successor, and, if the block reads the flags, they have the same name. Blocks in which an
//! instruction loads or stores several times are not cached, because adjacent accesses are merged; nor are
//! blocks with device accesses.

use std::io::Read;

use doorbell_sim::op::Register;
use doorbell_sim::{Op, OpClass, PhysAddr};

use super::{Execution, Last, Outcome, StreamError, Successor, is_device};
use crate::event::{ExecutedOps, Recorder};
use crate::names::FlagsAfter;
use crate::stream::Access;

/// Limit of cached variants per block.
const VARIANTS_MAX: usize = 32;

/// Cached executions of a block; the last used variant is tried first.
#[derive(Debug, Default)]
pub(super) struct BlockCache {
    variants: Vec<Variant>,
    last: usize,
}

#[derive(Debug)]
struct Variant {
    started: usize,
    end: End,
    privileged: bool,
    /// Name of the flags before the block, if the block reads them.
    flags: Option<Register>,
    after: FlagsAfter,
    /// Kind of each access: instruction, size, and whether it is a store.
    accesses: Vec<(u32, u8, bool)>,
    ops: Vec<Op>,
    instructions: u64,
    /// Index of the op of each access.
    op_indices: Vec<u16>,
    shape: u32,
}

/// End of the block's execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Next,
    Target,
    Repeat,
    Faulted,
}

impl End {
    fn of(outcome: Outcome) -> End {
        match outcome.successor {
            None => End::Faulted,
            Some(Successor::Next) => End::Next,
            Some(Successor::Target(_)) => End::Target,
            Some(Successor::Repeat) => End::Repeat,
        }
    }
}

fn signature(access: &Access) -> (u32, u8, bool) {
    (access.instruction, access.size, access.is_store)
}

impl Variant {
    fn matches(&self, last: &Last, end: End, privileged: bool, flags: Register) -> bool {
        self.end == end
            && self.started == last.started
            && self.accesses.len() == last.accesses.len()
            && self.privileged == privileged
            && self.flags.is_none_or(|own| own == flags)
            && self
                .accesses
                .iter()
                .zip(&last.accesses)
                .all(|(own, access)| *own == signature(access) && !access.is_io)
    }
}

/// Index of the op of each access, if it is unambiguous.
fn op_indices(accesses: &[Access], ops: &[Op]) -> Option<Vec<u16>> {
    let mut op_indices = Vec::with_capacity(accesses.len());
    let mut from = 0;
    let has_own = |op: &Op| matches!(op.class, OpClass::Load | OpClass::Store | OpClass::Atomic);
    let mut accesses = accesses.iter().peekable();
    while let Some(access) = accesses.next() {
        let fits = |op: &Op| has_own(op) && op.virt == access.virt && op.size == access.size;
        let at = from + ops[from..].iter().position(fits)?;
        op_indices.push(at as u16);
        if ops[at].class == OpClass::Atomic {
            // The load and the store of an atomic op.
            let next = accesses.next_if(|next| next.is_store && next.virt == access.virt)?;
            op_indices.push(at as u16);
            if access.is_store || next.instruction != access.instruction {
                return None;
            }
        }
        from = at + 1;
    }
    let all = ops.iter().filter(|op| has_own(op)).count();
    let mut used = op_indices.clone();
    used.dedup();
    (used.len() == all && ops.len() <= usize::from(u16::MAX)).then_some(op_indices)
}

fn has_repeated_accesses(accesses: &[Access]) -> bool {
    accesses
        .windows(2)
        .any(|two| two[0].instruction == two[1].instruction && two[0].is_store == two[1].is_store)
}

impl<R: Read> Execution<R> {
    /// Handles a block without device activity, from the cache if possible.
    pub(super) fn emit_cached(
        &mut self,
        last: &Last,
        outcome: Outcome,
        recorder: &mut impl Recorder,
    ) -> Result<(), StreamError> {
        let end = End::of(outcome);
        let (privileged, flags) = (self.emitter.privileged, self.emitter.names.flags());
        let trapped = outcome.is_trapped();
        let cache = &mut self.blocks[last.block].cache;
        let fits = |variant: &Variant| variant.matches(last, end, privileged, flags);
        let found = match cache.variants.get(cache.last) {
            Some(variant) if fits(variant) => Some(cache.last),
            _ => cache.variants.iter().position(fits),
        };
        let Some(found) = found else { return self.add_variant(last, outcome, end, recorder) };
        cache.last = found;
        let variant = &mut cache.variants[found];
        for (access, place) in last.accesses.iter().zip(&variant.op_indices) {
            let op = &mut variant.ops[usize::from(*place)];
            (op.virt, op.phys) = (access.virt, PhysAddr(access.phys));
        }
        if let (Some(Successor::Target(target)), Some(op)) = (outcome.successor, variant.ops.last_mut())
            && op.is_taken()
        {
            op.virt = target;
        }
        self.emitter.names.apply(variant.after);
        self.counts.known += 1;
        self.counts.instructions += variant.instructions;
        let Variant { ops, instructions, shape, .. } = variant;
        let executed = ExecutedOps { ops, instructions: *instructions, shape: Some(*shape), trapped };
        Ok(recorder.executed(&executed)?)
    }

    /// Converts the block to ops, and caches them if possible.
    fn add_variant(
        &mut self,
        last: &Last,
        outcome: Outcome,
        end: End,
        recorder: &mut impl Recorder,
    ) -> Result<(), StreamError> {
        let privileged = self.emitter.privileged;
        let names = &mut self.emitter.names;
        let flags = names.flags();
        names.begin();
        let mut accesses = &last.accesses[..];
        for at in 0..last.started {
            accesses = self.instruction(last, at, accesses, outcome);
        }
        let names = &mut self.emitter.names;
        let (after, reads_flags) = (names.after(), names.depends_on_flags());
        names.apply(after);
        let trapped = outcome.is_trapped();
        let op_indices = op_indices(&last.accesses, &self.ops);
        let block = &mut self.blocks[last.block].cache;
        let is_odd = has_repeated_accesses(&last.accesses) || self.ops.iter().any(is_device);
        let shape = match op_indices {
            Some(op_indices) if !is_odd && block.variants.len() < VARIANTS_MAX => {
                let shape = self.shapes;
                self.shapes += 1;
                block.last = block.variants.len();
                block.variants.push(Variant {
                    started: last.started,
                    end,
                    privileged,
                    flags: reads_flags.then_some(flags),
                    after,
                    accesses: last.accesses.iter().map(signature).collect(),
                    ops: self.ops.clone(),
                    instructions: self.ops.iter().filter(|op| op.ends_instruction()).count() as u64,
                    op_indices,
                    shape,
                });
                Some(shape)
            }
            _ => None,
        };
        self.executed(shape, trapped, recorder)
    }
}
