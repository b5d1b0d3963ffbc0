//! Ops of blocks that have been executed before: what differs from one time to the next are addresses, and they are put in.
//!
//! That holds where the same instructions made the same kinds of accesses, the last one went the same way, and the flags had the same name
//! if the block asks for it. An instruction that loads or stores several times is not dealt with so, as neighbours among its accesses
//! are joined; nor is one that accesses a device.

use std::io::Read;

use doorbell_sim::op::Register;
use doorbell_sim::{Op, OpClass, PhysAddr};

use super::{Execution, Goes, Last, Outcome, StreamError, is_device};
use crate::event::{Executed, Recorder};
use crate::names::FlagsAfter;
use crate::stream::Access;

/// So many kinds of executions of a block are kept.
const VARIANTS_MAX: usize = 32;

/// What is known of a block's executions; the one that was seen last is tried first.
#[derive(Debug, Default)]
pub(super) struct Known {
    variants: Vec<Variant>,
    last: usize,
}

#[derive(Debug)]
struct Variant {
    begun: usize,
    end: End,
    privileged: bool,
    /// The name of the flags before, if that matters.
    flags: Option<Register>,
    after: FlagsAfter,
    /// What each access is.
    accesses: Vec<(u32, u8, bool)>,
    ops: Vec<Op>,
    instructions: u64,
    /// Which op each access belongs to.
    places: Vec<u16>,
    shape: u32,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    On,
    To,
    Again,
    Faulted,
}

impl End {
    fn of(outcome: Outcome) -> End {
        match outcome.goes {
            None => End::Faulted,
            Some(Goes::On) => End::On,
            Some(Goes::To(_)) => End::To,
            Some(Goes::Again) => End::Again,
        }
    }
}

fn what(access: &Access) -> (u32, u8, bool) {
    (access.instruction, access.size, access.is_store)
}

impl Variant {
    fn fits(&self, last: &Last, end: End, privileged: bool, flags: Register) -> bool {
        self.end == end
            && self.begun == last.begun
            && self.accesses.len() == last.accesses.len()
            && self.privileged == privileged
            && self.flags.is_none_or(|own| own == flags)
            && self
                .accesses
                .iter()
                .zip(&last.accesses)
                .all(|(own, access)| *own == what(access) && !access.is_io)
    }
}

/// Which op each access belongs to, if that can be told.
fn places(accesses: &[Access], ops: &[Op]) -> Option<Vec<u16>> {
    let mut places = Vec::with_capacity(accesses.len());
    let mut from = 0;
    let has_own = |op: &Op| matches!(op.class, OpClass::Load | OpClass::Store | OpClass::Atomic);
    let mut accesses = accesses.iter().peekable();
    while let Some(access) = accesses.next() {
        let fits = |op: &Op| has_own(op) && op.virt == access.virt && op.size == access.size;
        let at = from + ops[from..].iter().position(fits)?;
        places.push(at as u16);
        if ops[at].class == OpClass::Atomic {
            // Its load and its store.
            let next = accesses.next_if(|next| next.is_store && next.virt == access.virt)?;
            places.push(at as u16);
            if access.is_store || next.instruction != access.instruction {
                return None;
            }
        }
        from = at + 1;
    }
    let all = ops.iter().filter(|op| has_own(op)).count();
    let mut used = places.clone();
    used.dedup();
    (used.len() == all && ops.len() <= usize::from(u16::MAX)).then_some(places)
}

fn several(accesses: &[Access]) -> bool {
    accesses
        .windows(2)
        .any(|two| two[0].instruction == two[1].instruction && two[0].is_store == two[1].is_store)
}

impl<R: Read> Execution<R> {
    /// A block during which devices did nothing.
    pub(super) fn quickly(
        &mut self,
        last: &Last,
        outcome: Outcome,
        recorder: &mut impl Recorder,
    ) -> Result<(), StreamError> {
        let end = End::of(outcome);
        let (privileged, flags) = (self.emitter.privileged, self.emitter.names.flags());
        let trapped = outcome.is_trapped();
        let known = &mut self.blocks[last.block].known;
        let fits = |variant: &Variant| variant.fits(last, end, privileged, flags);
        let found = match known.variants.get(known.last) {
            Some(variant) if fits(variant) => Some(known.last),
            _ => known.variants.iter().position(fits),
        };
        let Some(found) = found else { return self.learn(last, outcome, end, recorder) };
        known.last = found;
        let variant = &mut known.variants[found];
        for (access, place) in last.accesses.iter().zip(&variant.places) {
            let op = &mut variant.ops[usize::from(*place)];
            (op.virt, op.phys) = (access.virt, PhysAddr(access.phys));
        }
        if let (Some(Goes::To(target)), Some(op)) = (outcome.goes, variant.ops.last_mut())
            && op.is_taken()
        {
            op.virt = target;
        }
        self.emitter.names.follow(variant.after);
        self.counts.known += 1;
        self.counts.instructions += variant.instructions;
        let Variant { ops, instructions, shape, .. } = variant;
        let executed = Executed { ops, instructions: *instructions, shape: Some(*shape), trapped };
        Ok(recorder.executed(&executed)?)
    }

    /// Makes the ops, and keeps them if they can be used another time.
    fn learn(
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
        for at in 0..last.begun {
            accesses = self.instruction(last, at, accesses, outcome);
        }
        let names = &mut self.emitter.names;
        let (after, asked) = (names.after(), names.has_asked());
        names.follow(after);
        let trapped = outcome.is_trapped();
        let places = places(&last.accesses, &self.ops);
        let block = &mut self.blocks[last.block].known;
        let is_odd = several(&last.accesses) || self.ops.iter().any(is_device);
        let shape = match places {
            Some(places) if !is_odd && block.variants.len() < VARIANTS_MAX => {
                let shape = self.shapes;
                self.shapes += 1;
                block.last = block.variants.len();
                block.variants.push(Variant {
                    begun: last.begun,
                    end,
                    privileged,
                    flags: asked.then_some(flags),
                    after,
                    accesses: last.accesses.iter().map(what).collect(),
                    ops: self.ops.clone(),
                    instructions: self.ops.iter().filter(|op| op.ends_instruction()).count() as u64,
                    places,
                    shape,
                });
                Some(shape)
            }
            _ => None,
        };
        self.executed(shape, trapped, recorder)
    }
}
