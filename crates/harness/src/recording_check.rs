//! Checks the recorder calls of a machine. Every instruction is recorded once, in order. Events come after
//! recorded instructions, except for instructions of pending blocks. Blocks recorded by number must be in the
//! dictionary, with all pages known.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use doorbell_machine::{Machine, Recorder};
use doorbell_sim::memory::{LINE_BYTES, Walk};
use doorbell_sim::ram::PAGE_BYTES;
use doorbell_sim::{Allowance, NumberedBlocks, Op, PhysAddr};
use doorbell_trace::system::{BlockHint, DeviceEvent, EventKind, Step, instructions};

/// State of the recording.
#[derive(Debug, Default)]
struct Recording {
    /// RecordingCheck instructions of each hart.
    instructions: Vec<u64>,
    /// Fixed part of the ops of each numbered block.
    numbered: BTreeMap<(u16, u32), Vec<Op>>,
    /// Dictionary state of each hart.
    known: Vec<Dictionary>,
}

/// Blocks and pages of a hart that may be recorded by number.
#[derive(Debug, Default)]
struct Dictionary {
    era: u64,
    space: Option<u16>,
    blocks: BTreeSet<u32>,
    /// Physical page of each virtual page.
    pages: BTreeMap<u64, u64>,
    /// Blocks recorded in full in this era.
    full_blocks: u32,
}

/// Maximum number of full blocks per era, and limits of one batch of numbered blocks.
const FULL_BLOCKS_MAX: u32 = 300;
const BATCH_LIMITS: Allowance = Allowance { era: 0, instructions: 100, words: 64 };
/// Maximum number of instructions that are pending: a batch and one more block.
const PENDING_MAX: u64 = BATCH_LIMITS.instructions + 64;

impl Dictionary {
    fn record(&mut self, step: &Step, again: Option<BlockHint>, ops: &[Op]) {
        let uses =
            |op: &Op| [Some((op.pc, op.fetch.0)), op.class.is_memory().then_some((op.virt, op.phys.0))];
        let pages: Vec<_> = ops.iter().flat_map(uses).flatten().collect();
        let is_mapped = |known: &Dictionary, (virt, phys): &(u64, u64)| {
            known.pages.get(&(virt / PAGE_BYTES)).is_none_or(|frame| *frame == phys / PAGE_BYTES)
        };
        self.full_blocks += 1;
        let continues = self.era > 0 && self.full_blocks < FULL_BLOCKS_MAX && step.space == self.space;
        if !continues || !pages.iter().all(|page| is_mapped(self, page)) {
            *self = Dictionary { era: self.era + 1, space: step.space, ..Dictionary::default() };
            return;
        }
        self.pages.extend(pages.iter().map(|(virt, phys)| (virt / PAGE_BYTES, phys / PAGE_BYTES)));
        self.blocks.extend(again.map(|again| again.shape));
    }
}

struct CheckingRecorder(Arc<Mutex<Recording>>);

impl Recorder for CheckingRecorder {
    fn block(
        &mut self,
        hart: u16,
        step: &Step,
        again: Option<BlockHint>,
        ops: &[Op],
        walk: &mut dyn FnMut(u64) -> Walk,
    ) {
        let mut recording = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        recording.instructions[usize::from(hart)] += instructions(ops);
        assert!(!ops.is_empty() || step.trapped, "an empty block without a trap");
        let mut before: Option<Op> = None;
        for op in ops {
            if let Some(before) = before.filter(Op::ends_instruction) {
                assert_eq!(before.next_pc(), op.pc, "within a block each instruction follows the one before");
            }
            if step.space.is_none() {
                assert_eq!(PhysAddr(op.pc), op.fetch, "without translation, fetch addresses equal PCs");
            }
            before = Some(*op);
        }
        if let Some(op) = ops.first() {
            let walk = walk(op.pc);
            assert!(usize::from(walk.levels) <= walk.entries.len());
        }
        recording.known[usize::from(hart)].record(step, again, ops);
        let Some(again) = again else { return };
        assert_eq!(again.instructions, instructions(ops));
        let fixed: Vec<Op> = ops.iter().map(without_addresses).collect();
        let known = recording.numbered.entry((hart, again.shape)).or_insert_with(|| fixed.clone());
        assert_eq!(*known, fixed, "blocks of one number differ only in addresses");
    }

    fn allowance(&self, hart: u16) -> Allowance {
        let recording = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Allowance { era: recording.known[usize::from(hart)].era, ..BATCH_LIMITS }
    }

    fn repeat(&mut self, hart: u16, step: &Step, count: u64, blocks: &[u64]) -> Allowance {
        let mut recording = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = &recording.known[usize::from(hart)];
        assert_eq!((step.space, step.trapped), (known.space, false));
        let (mut found, mut words) = (0, 0);
        for (number, addresses) in NumberedBlocks(blocks) {
            assert!(known.blocks.contains(&number), "block {number} is not in the dictionary");
            assert!(
                found < BATCH_LIMITS.instructions && words < BATCH_LIMITS.words,
                "a batch exceeds its limits"
            );
            let ops = &recording.numbered[&(hart, number)];
            let differing: Vec<&Op> = ops.iter().filter(|op| differs(op)).collect();
            assert_eq!(differing.len(), addresses.len());
            for (op, virt) in differing.iter().zip(addresses).filter(|(op, _)| op.class.is_memory()) {
                assert!(
                    known.pages.contains_key(&(virt / PAGE_BYTES)),
                    "{virt:#x} is on a page that was not recorded"
                );
                assert!(virt % LINE_BYTES + u64::from(op.size) <= LINE_BYTES, "{virt:#x} crosses a line");
            }
            found += instructions(ops);
            words += 1 + addresses.len();
        }
        assert_eq!(found, count);
        recording.instructions[usize::from(hart)] += count;
        drop(recording);
        self.allowance(hart)
    }

    fn event(&mut self, event: &DeviceEvent) {
        let recording = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let has = recording.instructions[usize::from(event.hart)] + PENDING_MAX;
        assert!(event.after <= has, "an event after instruction {} of {has}", event.after);
        if let EventKind::Dma(dma) = event.what {
            assert!(!dma.is_write() || (event.after..=has).contains(&dma.visible), "{event:?} of {has}");
        }
    }
}

/// Whether an op's address differs between executions.
fn differs(op: &Op) -> bool {
    op.class.is_memory() || op.class.has_computed_target()
}

/// The op without the address that differs between executions.
fn without_addresses(op: &Op) -> Op {
    if differs(op) { Op { virt: 0, phys: PhysAddr(0), ..*op } } else { *op }
}

/// A recording in progress.
#[derive(Debug)]
pub struct RecordingCheck {
    recording: Arc<Mutex<Recording>>,
    start: Vec<u64>,
}

impl RecordingCheck {
    /// Starts recording.
    pub fn begin(machine: &mut Machine) -> RecordingCheck {
        let start: Vec<u64> = machine.harts().iter().map(|hart| hart.instructions()).collect();
        let known = start.iter().map(|_| Dictionary::default()).collect();
        let recording = Recording { instructions: vec![0; start.len()], known, ..Recording::default() };
        let recording = Arc::new(Mutex::new(recording));
        machine.record(Some(Box::new(CheckingRecorder(Arc::clone(&recording)))));
        RecordingCheck { recording, start }
    }

    /// Ends recording and checks the instruction counts. A device access is recorded when it begins. With
    /// timing models, unanswered accesses are recorded as well, and instructions executed without timing are
    /// not recorded.
    pub fn end(self, machine: &mut Machine) {
        machine.record(None);
        let recording = self.recording.lock().unwrap_or_else(PoisonError::into_inner);
        let executed = machine
            .harts()
            .iter()
            .zip(&self.start)
            .map(|(hart, start)| hart.instructions() - start + u64::from(hart.pending_mmio().is_some()));
        let executed: Vec<u64> = executed.collect();
        let unanswered = machine.stats().bus_errors;
        match machine.timing() {
            None => assert_eq!(recording.instructions, executed, "each instruction is recorded once"),
            Some(_) => assert!(
                recording
                    .instructions
                    .iter()
                    .zip(&executed)
                    .all(|(recorded, has)| *recorded <= has + unanswered),
                "{:?} recorded of {executed:?} executed",
                recording.instructions
            ),
        }
    }
}
