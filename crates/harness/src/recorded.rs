//! A recording of a machine that may do anything: each instruction is told once, in order, and each event after instructions that were, but for
//! those of blocks that are held back. What is told by numbers is known, and lies on pages that are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use doorbell_machine::{Machine, Recorder};
use doorbell_sim::memory::{LINE_BYTES, Walk};
use doorbell_sim::ram::PAGE_BYTES;
use doorbell_sim::{Allowance, NumberedBlocks, Op, PhysAddr};
use doorbell_trace::system::{Again, DeviceEvent, Happening, Step, instructions};

/// What was told.
#[derive(Debug, Default)]
struct Told {
    /// Instructions of each hart.
    instructions: Vec<u64>,
    /// What blocks of a number are each time.
    numbered: BTreeMap<(u16, u32), Vec<Op>>,
    /// What may be told of each hart by numbers.
    known: Vec<Known>,
}

/// What may be told of a hart by numbers.
#[derive(Debug, Default)]
struct Known {
    era: u64,
    space: Option<u16>,
    blocks: BTreeSet<u32>,
    /// Where pages lie.
    pages: BTreeMap<u64, u64>,
    /// How many blocks were told in full in this era.
    told: u32,
}

/// An era ends after so many blocks that were told in full, if not before; and so much is told at once.
const TOLD_MAX: u32 = 300;
const AT_ONCE: Allowance = Allowance { era: 0, instructions: 100, words: 64 };
/// Before so many are held back, and a block more, they are told.
const HELD_MAX: u64 = AT_ONCE.instructions + 64;

impl Known {
    fn tell(&mut self, step: &Step, again: Option<Again>, ops: &[Op]) {
        let uses =
            |op: &Op| [Some((op.pc, op.fetch.0)), op.class.is_memory().then_some((op.virt, op.phys.0))];
        let pages: Vec<_> = ops.iter().flat_map(uses).flatten().collect();
        let lies = |known: &Known, (virt, phys): &(u64, u64)| {
            known.pages.get(&(virt / PAGE_BYTES)).is_none_or(|frame| *frame == phys / PAGE_BYTES)
        };
        self.told += 1;
        let goes_on = self.era > 0 && self.told < TOLD_MAX && step.space == self.space;
        if !goes_on || !pages.iter().all(|page| lies(self, page)) {
            *self = Known { era: self.era + 1, space: step.space, ..Known::default() };
            return;
        }
        self.pages.extend(pages.iter().map(|(virt, phys)| (virt / PAGE_BYTES, phys / PAGE_BYTES)));
        self.blocks.extend(again.map(|again| again.shape));
    }
}

struct Listener(Arc<Mutex<Told>>);

impl Recorder for Listener {
    fn block(
        &mut self,
        hart: u16,
        step: &Step,
        again: Option<Again>,
        ops: &[Op],
        walk: &mut dyn FnMut(u64) -> Walk,
    ) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.instructions[usize::from(hart)] += instructions(ops);
        assert!(!ops.is_empty() || step.trapped, "a block of nothing");
        let mut before: Option<Op> = None;
        for op in ops {
            if let Some(before) = before.filter(Op::ends_instruction) {
                assert_eq!(before.next_pc(), op.pc, "within a block each instruction follows the one before");
            }
            if step.space.is_none() {
                assert_eq!(
                    PhysAddr(op.pc),
                    op.fetch,
                    "without translation instructions lie at their addresses"
                );
            }
            before = Some(*op);
        }
        if let Some(op) = ops.first() {
            let walk = walk(op.pc);
            assert!(usize::from(walk.levels) <= walk.entries.len());
        }
        told.known[usize::from(hart)].tell(step, again, ops);
        let Some(again) = again else { return };
        assert_eq!(again.instructions, instructions(ops));
        let fixed: Vec<Op> = ops.iter().map(without_addresses).collect();
        let known = told.numbered.entry((hart, again.shape)).or_insert_with(|| fixed.clone());
        assert_eq!(*known, fixed, "blocks of one number differ in nothing but addresses");
    }

    fn allowance(&self, hart: u16) -> Allowance {
        let told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Allowance { era: told.known[usize::from(hart)].era, ..AT_ONCE }
    }

    fn again(&mut self, hart: u16, step: &Step, count: u64, blocks: &[u64]) -> Allowance {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = &told.known[usize::from(hart)];
        assert_eq!((step.space, step.trapped), (known.space, false));
        let (mut found, mut words) = (0, 0);
        for (number, addresses) in NumberedBlocks(blocks) {
            assert!(known.blocks.contains(&number), "block {number} is not known");
            assert!(found < AT_ONCE.instructions && words < AT_ONCE.words, "too much at once");
            let ops = &told.numbered[&(hart, number)];
            let differing: Vec<&Op> = ops.iter().filter(|op| differs(op)).collect();
            assert_eq!(differing.len(), addresses.len());
            for (op, virt) in differing.iter().zip(addresses).filter(|(op, _)| op.class.is_memory()) {
                assert!(
                    known.pages.contains_key(&(virt / PAGE_BYTES)),
                    "{virt:#x} is on a page that was not told"
                );
                assert!(virt % LINE_BYTES + u64::from(op.size) <= LINE_BYTES, "{virt:#x} crosses a line");
            }
            found += instructions(ops);
            words += 1 + addresses.len();
        }
        assert_eq!(found, count);
        told.instructions[usize::from(hart)] += count;
        drop(told);
        self.allowance(hart)
    }

    fn event(&mut self, event: &DeviceEvent) {
        let told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let has = told.instructions[usize::from(event.hart)] + HELD_MAX;
        assert!(event.after <= has, "an event after instruction {} of {has}", event.after);
        if let Happening::Dma(dma) = event.what {
            assert!(!dma.write || (event.after..=has).contains(&dma.visible), "{event:?} of {has}");
        }
    }
}

/// Whether an op has another address each time.
fn differs(op: &Op) -> bool {
    op.class.is_memory() || op.class.has_computed_target()
}

/// An op as it is each time.
fn without_addresses(op: &Op) -> Op {
    if differs(op) { Op { virt: 0, phys: PhysAddr(0), ..*op } } else { *op }
}

/// A recording under way.
#[derive(Debug)]
pub struct Recorded {
    told: Arc<Mutex<Told>>,
    begun: Vec<u64>,
}

impl Recorded {
    /// Begins one.
    pub fn begin(machine: &mut Machine) -> Recorded {
        let begun: Vec<u64> = machine.harts().iter().map(|hart| hart.instructions()).collect();
        let known = begun.iter().map(|_| Known::default()).collect();
        let told = Told { instructions: vec![0; begun.len()], known, ..Told::default() };
        let told = Arc::new(Mutex::new(told));
        machine.record(Some(Box::new(Listener(Arc::clone(&told)))));
        Recorded { told, begun }
    }

    /// Ends it. An access to a device is told when it begins. With timing models so is one that nothing answers, and what is executed
    /// without them is not told.
    pub fn end(self, machine: &mut Machine) {
        machine.record(None);
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let begun_by_now = machine
            .harts()
            .iter()
            .zip(&self.begun)
            .map(|(hart, begun)| hart.instructions() - begun + u64::from(hart.pending_mmio().is_some()));
        let executed: Vec<u64> = begun_by_now.collect();
        let unanswered = machine.stats().bus_errors;
        match machine.timing() {
            None => assert_eq!(told.instructions, executed, "each instruction is told once"),
            Some(_) => assert!(
                told.instructions.iter().zip(&executed).all(|(told, has)| *told <= has + unanswered),
                "{:?} were told of {executed:?}",
                told.instructions
            ),
        }
    }
}
