//! Comparison of a machine: our harts share one memory and execute in the order of QEMU's log.
//!
//! A log entry is a hart's state before an instruction, which the hart then executes. The state after it is
//! in the same hart's next entry, perhaps after many entries of other harts; see [`early`](crate::early).

use doorbell_riscv::Privilege;
use doorbell_sim::{Bytes, PhysAddr, Ram};

use crate::covered::Covered;
use crate::gdb::Gdb;
use crate::qemu::RAM_BASE;
use crate::side::Side;
use crate::state::State;

/// Our side of the comparison: harts and memory.
pub struct Lockstep {
    sides: Vec<Side>,
    ram: Ram,
    /// The hart of the last entry.
    running: usize,
    /// Number of switches between harts in QEMU's log.
    pub changes: u64,
}

/// The result of a log entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// An entry from the boot ROM, or a hart's first entry.
    First,
    /// A repetition of the hart's last entry: QEMU had not executed the instruction.
    Repeated,
    /// An instruction or interrupt with the same outcome on both sides.
    Compared,
}

impl Lockstep {
    /// Harts in their reset state with this memory.
    pub fn new(memory: &[u8], harts: usize, sstc: bool, aia: bool) -> Lockstep {
        let mut ram = Ram::new(PhysAddr(RAM_BASE), Bytes(memory.len() as u64), harts);
        for (page, bytes) in memory.chunks(4096).enumerate() {
            if bytes.iter().any(|byte| *byte != 0) {
                ram.store(PhysAddr(RAM_BASE + page as u64 * 4096), bytes);
            }
        }
        let sides = (0..harts).map(|id| Side::new(id, sstc, aia)).collect();
        Lockstep { sides, ram, running: 0, changes: 0 }
    }

    /// Takes over the state of all harts from a stopped QEMU.
    pub fn take_over(&mut self, gdb: &mut Gdb, floats: bool) -> anyhow::Result<()> {
        for (number, side) in self.sides.iter_mut().enumerate() {
            let state = side.take_over(gdb, number, floats)?;
            println!("hart {number} starts at {:#x} in {:?} mode", state.pc, side.hart.privilege());
            side.before = Some(state);
        }
        Ok(())
    }

    /// Notes that QEMU stopped before the last logged instruction.
    pub fn stopped(&mut self) {
        self.sides[self.running].logged = false;
    }

    /// Processes one log entry.
    pub fn entry(&mut self, state: State) -> Result<Entry, String> {
        let number = state.hart;
        if number >= self.sides.len() {
            return Err(format!("QEMU logs hart {number}, but the machine has {} harts", self.sides.len()));
        }
        if number != self.running {
            self.sides[self.running].leave(&mut self.ram);
            self.running = number;
            self.changes += 1;
        }
        let side = &mut self.sides[number];
        let outcome = match side.before.take() {
            None if state.pc != RAM_BASE => return Ok(Entry::First),
            None => {
                side.adopt(&state)?;
                Entry::First
            }
            Some(before) if before.same_but_pending(&state) => {
                side.not_executed(&before)?;
                Entry::Repeated
            }
            Some(before) => {
                side.advance(&mut self.ram, &before, &state)?;
                Entry::Compared
            }
        };
        side.logged = true;
        side.before = Some(state);
        Ok(outcome)
    }

    /// Number of harts that were compared on at least `instructions` instructions in supervisor mode.
    pub fn supervised(&self, instructions: u64) -> usize {
        self.sides.iter().filter(|side| side.covered.at(Privilege::Supervisor) >= instructions).count()
    }

    /// Prints what the comparison covered.
    pub fn summarise(&self) {
        let mut all = Covered::default();
        for (number, side) in self.sides.iter().enumerate() {
            for (level, times) in &side.covered.levels {
                println!("hart {number} in {level:?} mode: {times} instructions");
            }
            all.add(&side.covered);
        }
        if self.sides.len() > 1 {
            println!("hart switches: {}", self.changes);
        }
        all.print();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::CSRS;

    const DATA: u64 = RAM_BASE + 0x800;
    /// Address of hart 1's program; hart 0's is at the start of RAM.
    const OTHER: u64 = RAM_BASE + 0x400;

    /// `sd a1, 0(a0)`, `sd zero, 0(a0)`, `ld a2, 0(a0)`, `lr.d a2, (a0)`, `sc.d a3, a1, (a0)` and `addi a4, a4, 1`.
    const SD: u32 = 0x00b5_3023;
    const SD_ZERO: u32 = 0x0005_3023;
    const LD: u32 = 0x0005_3603;
    const LR: u32 = 0x1005_362f;
    const SC: u32 = 0x18b5_36af;
    const ADDI: u32 = 0x0017_0713;

    /// A machine whose harts execute these programs, and each hart's state before the first instruction, with
    /// the data address in a0 and a number in a1.
    fn machine(programs: [&[u32]; 2]) -> (Lockstep, [State; 2]) {
        let mut memory = vec![0; 4096];
        for (program, base) in programs.into_iter().zip([RAM_BASE, OTHER]) {
            for (at, word) in program.iter().enumerate() {
                let offset = (base - RAM_BASE) as usize + 4 * at;
                memory[offset..offset + 4].copy_from_slice(&word.to_le_bytes());
            }
        }
        let mut ours = Lockstep::new(&memory, 2, true, false);
        let states = [RAM_BASE, OTHER].map(|pc| {
            let hart = usize::from(pc == OTHER);
            let mut state = State { hart, pc, ..State::default() };
            (state.x[10], state.x[11]) = (DATA, 5 + hart as u64);
            for (value, (_, number)) in state.csr.iter_mut().zip(CSRS) {
                *value = ours.sides[hart].hart.csr(number).unwrap();
            }
            ours.sides[hart].adopt(&state).unwrap();
            ours.sides[hart].before = Some(state.clone());
            state
        });
        (ours, states)
    }

    /// The state after an instruction that writes a register.
    fn next(state: &State, register: usize, value: u64) -> State {
        let mut after = State { pc: state.pc + 4, ..state.clone() };
        after.x[register] = value;
        after
    }

    #[test]
    fn a_store_before_a_hart_switch_is_visible_to_the_next_hart() {
        let (mut ours, [zero, one]) = machine([&[SD], &[LD]]);
        ours.entry(zero.clone()).unwrap();
        ours.entry(one.clone()).unwrap();
        assert_eq!(ours.entry(next(&one, 12, 5)), Ok(Entry::Compared));
        assert_eq!(ours.entry(next(&zero, 0, 0)), Ok(Entry::Compared));
    }

    #[test]
    fn a_load_before_a_hart_switch_does_not_see_later_stores() {
        let (mut ours, [zero, one]) = machine([&[LD], &[SD]]);
        ours.entry(zero.clone()).unwrap();
        ours.entry(one.clone()).unwrap();
        ours.entry(next(&one, 0, 0)).unwrap();
        assert_eq!(ours.entry(next(&zero, 12, 0)), Ok(Entry::Compared));
    }

    #[test]
    fn an_access_that_qemu_stopped_at_executes_in_the_harts_next_turn() {
        let (mut ours, [zero, one]) = machine([&[LD], &[SD]]);
        ours.entry(zero.clone()).unwrap();
        ours.stopped();
        ours.entry(one.clone()).unwrap();
        ours.entry(next(&one, 0, 0)).unwrap();
        assert_eq!(ours.entry(zero.clone()), Ok(Entry::Repeated));
        assert_eq!(ours.entry(next(&zero, 12, 6)), Ok(Entry::Compared));
    }

    #[test]
    fn an_access_neither_executed_nor_stopped_at_is_an_error() {
        let (mut ours, [zero, one]) = machine([&[SD], &[ADDI]]);
        ours.entry(zero.clone()).unwrap();
        ours.entry(one.clone()).unwrap();
        assert!(ours.entry(zero).unwrap_err().contains("has not executed it"));
    }

    #[test]
    fn an_instruction_without_memory_access_waits_for_qemus_state() {
        let (mut ours, [zero, one]) = machine([&[ADDI], &[ADDI]]);
        ours.entry(zero.clone()).unwrap();
        ours.entry(one.clone()).unwrap();
        assert_eq!(ours.sides[0].hart.pc(), RAM_BASE);
        assert_eq!(ours.entry(zero.clone()), Ok(Entry::Repeated));
        assert_eq!(ours.entry(next(&zero, 14, 1)), Ok(Entry::Compared));
    }

    #[test]
    fn an_sc_that_succeeds_only_in_qemu_is_counted_and_adopted() {
        let (mut ours, [zero, one]) = machine([&[LR, ADDI, SC, LD], &[SD_ZERO]]);
        ours.entry(zero.clone()).unwrap();
        let zero = next(&zero, 12, 0);
        ours.entry(zero.clone()).unwrap();
        ours.entry(one.clone()).unwrap();
        // Clears hart 0's reservation but keeps the value, which QEMU's SC does not notice.
        assert_eq!(ours.entry(next(&one, 0, 0)), Ok(Entry::Compared));
        let zero = next(&zero, 14, 1);
        ours.entry(zero.clone()).unwrap();
        let zero = next(&zero, 13, 0);
        assert_eq!(ours.entry(zero.clone()), Ok(Entry::Compared));
        assert_eq!(ours.entry(next(&zero, 12, 5)), Ok(Entry::Compared));
        let injected = &ours.sides[0].covered.injected;
        assert_eq!(
            injected.iter().find(|(what, _)| what.starts_with("SC")).map(|(_, times)| *times),
            Some(1)
        );
    }

    #[test]
    fn a_mismatch_of_an_early_sc_is_explained() {
        let (mut ours, [zero, one]) = machine([&[SC], &[ADDI]]);
        ours.entry(zero.clone()).unwrap();
        ours.entry(one).unwrap();
        // Our SC failed, because it has no reservation.
        let text = ours.entry(next(&zero, 13, 0)).unwrap_err();
        assert!(text.contains("before QEMU's outcome was known"), "{text}");
    }

    #[test]
    fn a_wrong_register_is_reported_with_its_hart_number() {
        let (mut ours, [zero, one]) = machine([&[ADDI], &[ADDI]]);
        ours.entry(zero).unwrap();
        ours.entry(one.clone()).unwrap();
        let text = ours.entry(next(&one, 14, 2)).unwrap_err();
        assert!(text.contains("hart 1's instruction at 0x80000400"), "{text}");
        assert!(text.contains("x14"), "{text}");
    }
}
