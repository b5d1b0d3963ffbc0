//! A recording of a machine that may do anything: each instruction is told once, in order, and each event after instructions that were.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use doorbell_machine::{Machine, Recorder};
use doorbell_sim::memory::Walk;
use doorbell_sim::{Op, OpClass, PhysAddr};
use doorbell_trace::system::{Again, DeviceEvent, Happening, Step, instructions};

/// What was told.
#[derive(Debug, Default)]
struct Told {
    /// Instructions of each hart.
    instructions: Vec<u64>,
    /// What blocks of a number are each time.
    numbered: BTreeMap<(u16, u32), Vec<Op>>,
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
        let Some(again) = again else { return };
        assert_eq!(again.instructions, instructions(ops));
        let fixed: Vec<Op> = ops.iter().map(without_addresses).collect();
        let known = told.numbered.entry((hart, again.shape)).or_insert_with(|| fixed.clone());
        assert_eq!(*known, fixed, "blocks of one number differ in nothing but addresses");
    }

    fn event(&mut self, event: &DeviceEvent) {
        let told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let has = told.instructions[usize::from(event.hart)];
        assert!(event.after <= has, "an event after instruction {} of {has}", event.after);
        if let Happening::Dma(dma) = event.what {
            assert!(!dma.write || (event.after..=has).contains(&dma.visible), "{event:?} of {has}");
        }
    }
}

/// An op as it is each time.
fn without_addresses(op: &Op) -> Op {
    let differs = matches!(op.class, OpClass::IndirectJump | OpClass::IndirectCall | OpClass::Return);
    match op.class.is_memory() || differs {
        true => Op { virt: 0, phys: PhysAddr(0), ..*op },
        false => *op,
    }
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
        let told = Told { instructions: vec![0; begun.len()], ..Told::default() };
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
