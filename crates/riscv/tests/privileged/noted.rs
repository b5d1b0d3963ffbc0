//! Noting: a hart that notes what it does is in the same state as one that does not, and the ops say what was done.

use doorbell_riscv::decode::decode;
use doorbell_riscv::{Hart, Stop, Turn};
use doorbell_sim::memory::LINE_BYTES;
use doorbell_sim::{Op, Ram};

use crate::random::Random;
use crate::saving::{assert_same, copy_of, endless};

fn answer(hart: &mut Hart) {
    match hart.pending_mmio().expect("an access is under way").store_value() {
        Some(_) => hart.complete_store(),
        None => hart.complete_load(hart.instructions().wrapping_mul(0x9e37_79b9_7f4a_7c15)),
    }
}

/// One retired instruction as the plain hart shows it: its address, the next one's, its bits, and the first operand.
struct Step {
    pc: u64,
    next: u64,
    bits: u32,
    base: u64,
}

/// Executes until an instruction has retired. Those that access devices leave no step, as they leave no op.
fn step(hart: &mut Hart, ram: &mut Ram) -> Option<Step> {
    let before = hart.instructions();
    loop {
        let pc = hart.pc();
        let mut bytes = [0; 4];
        hart.peek(ram, pc, &mut bytes).expect("the program is mapped");
        let bits = u32::from_le_bytes(bytes);
        let base = hart.reg(usize::from(decode(bits).rs1));
        let slot = hart.slots() + 1;
        match hart.run(ram, slot) {
            Stop::Mmio(_) => {
                answer(hart);
                return None;
            }
            Stop::Slot => {}
            stop => panic!("stopped with {stop:?}"),
        }
        if hart.instructions() > before {
            return Some(Step { pc, next: hart.pc(), bits, base });
        }
    }
}

#[test]
fn a_noting_hart_does_the_same_and_says_what() {
    let mut random = Random::new(7);
    for _ in 0..12 {
        let mut bench = endless(&mut random);
        let mut ram = copy_of(&bench.ram);
        let mut plain = Hart::new(crate::bench::config());
        plain.restore(bench.hart.save(&bench.ram), &ram).expect("a state just saved is whole");
        let mut ops = Vec::new();
        let mut traps = 0;
        for _ in 0..5_000 {
            ops.clear();
            let turn = bench.hart.run_noted(&mut bench.ram, 1 + random.below(70), &mut ops);
            traps += u32::from(turn == Turn::Trapped);
            let mut pieces = ops.iter();
            while let Some(first) = pieces.next() {
                let done = step(&mut plain, &mut ram).expect("the same instructions retire");
                let second = if first.ends_instruction() { None } else { pieces.next() };
                check(first, second, &done);
            }
            if matches!(turn, Turn::Stopped(Stop::Mmio(_))) {
                assert!(step(&mut plain, &mut ram).is_none(), "a device access");
                answer(&mut bench.hart);
            }
        }
        assert!(traps > 50 && plain.instructions() > 5_000, "{traps} traps");
        // A trap is behind the instruction before it: bring the plain hart there too.
        while plain.pc() != bench.hart.pc() {
            let slot = plain.slots() + 1;
            plain.run(&mut ram, slot);
        }
        // How many slots passed is the timing model's business where a hart notes.
        let slots = plain.slots().max(bench.hart.slots());
        plain.rebase(slots);
        bench.hart.rebase(slots);
        assert_same((&bench.hart, &bench.ram), (&plain, &ram), "noting changes what happens");
    }
}

fn check(op: &Op, second: Option<&Op>, done: &Step) {
    let inst = decode(done.bits);
    assert_eq!(op.pc, done.pc, "{inst:?}");
    let last = second.unwrap_or(op);
    assert_eq!(u64::from(last.length), u64::from(inst.len), "{inst:?}");
    if last.class.is_branch() {
        assert_eq!(last.next_pc(), done.next, "{inst:?}");
    }
    if op.class.is_memory() {
        let virt = done.base.wrapping_add(i64::from(inst.imm) as u64);
        assert_eq!(op.virt, virt, "{inst:?}");
        assert_eq!(op.phys.0, virt, "the program's pages lie where they are mapped");
        let bytes = u64::from(op.size) + second.map_or(0, |second| u64::from(second.size));
        assert_eq!(second.is_some(), virt % LINE_BYTES + bytes > LINE_BYTES, "split at a line's end only");
        if let Some(second) = second {
            assert_eq!((second.virt % LINE_BYTES, second.virt), (0, virt + u64::from(op.size)));
        }
    }
}
