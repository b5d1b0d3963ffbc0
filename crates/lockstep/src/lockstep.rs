//! The comparison of a machine: our harts, which share one memory, execute in the order of QEMU's log.
//!
//! An entry of the log is a hart's state before an instruction, which the hart executes then. The state after it is in the
//! same hart's next entry, perhaps many of other harts' later; see [`early`](crate::early).

use doorbell_riscv::Privilege;
use doorbell_sim::{Bytes, PhysAddr, Ram};

use crate::covered::Covered;
use crate::gdb::Gdb;
use crate::qemu::RAM_BASE;
use crate::side::Side;
use crate::state::State;

/// Our machine, as far as it is compared.
pub struct Lockstep {
    sides: Vec<Side>,
    ram: Ram,
    /// Whose entry was the last.
    running: usize,
    /// How often QEMU went from one hart to another.
    pub changes: u64,
}

/// What an entry of the log came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// It is from the boot ROM, or a hart's first.
    First,
    /// It repeats the hart's last one: QEMU had not executed the instruction.
    Repeated,
    /// An instruction, or an interrupt, had the same outcome on both.
    Compared,
}

impl Lockstep {
    /// Harts in their reset state with this memory.
    pub fn new(memory: &[u8], harts: usize, sstc: bool) -> Lockstep {
        let mut ram = Ram::new(PhysAddr(RAM_BASE), Bytes(memory.len() as u64), harts);
        for (page, bytes) in memory.chunks(4096).enumerate() {
            if bytes.iter().any(|byte| *byte != 0) {
                ram.store(PhysAddr(RAM_BASE + page as u64 * 4096), bytes);
            }
        }
        let sides = (0..harts).map(|id| Side::new(id, sstc)).collect();
        Lockstep { sides, ram, running: 0, changes: 0 }
    }

    /// Takes over all harts from a stopped QEMU.
    pub fn take_over(&mut self, gdb: &mut Gdb, floats: bool) -> anyhow::Result<()> {
        for (number, side) in self.sides.iter_mut().enumerate() {
            let state = side.take_over(gdb, number, floats)?;
            println!("hart {number} begins at {:#x} in {:?} mode", state.pc, side.hart.privilege());
            side.before = Some(state);
        }
        Ok(())
    }

    /// Goes on by one entry of the log.
    pub fn entry(&mut self, state: State) -> Result<Entry, String> {
        let number = state.hart;
        if number >= self.sides.len() {
            return Err(format!("QEMU logs hart {number}, and there are {}", self.sides.len()));
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
                side.take_back(&before)?;
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

    /// How many harts have been compared on at least so many instructions in supervisor mode.
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
            println!("changes of harts: {}", self.changes);
        }
        all.print();
    }
}
