//! Executing an instruction: when QEMU's state after it is known, or earlier.
//!
//! QEMU runs one hart for a time, then another. The state after the last instruction before a change of harts is
//! logged only when the hart's turn comes again. If that instruction accesses memory, other harts may see the effect (or
//! it theirs), so ours executes it at the change; all else waits until the state is known.
//!
//! QEMU's SC compares values: it succeeds where another hart's store has ended our reservation but left the
//! value. The architecture allows our hart to fail there, so QEMU's outcome is taken over, and counted. Only where it is
//! not known yet, at a change of harts, a difference ends the comparison.

use doorbell_riscv::inst::{Inst, Kind};
use doorbell_riscv::{Privilege, Stop};
use doorbell_sim::Ram;

use crate::side::Side;
use crate::state::{State, Trap};

/// An instruction that our hart has executed and that is not compared yet.
pub(crate) struct Early {
    pub inst: Inst,
    /// The privilege level at which it was executed.
    pub level: Privilege,
    pub stop: Stop,
}

fn accesses_memory(kind: Kind) -> bool {
    use Kind::*;
    let atomic = (LrW..=AmomaxuW).contains(&kind) || (LrD..=AmomaxuD).contains(&kind);
    (Lb..=Sd).contains(&kind) || atomic || matches!(kind, Flw | Fld | Fsw | Fsd)
}

impl Side {
    /// Another hart goes on: if this one's next instruction accesses memory, executes it now.
    pub fn leave(&mut self, ram: &mut Ram) {
        if !self.logged || self.early.is_some() {
            return;
        }
        let inst = self.decode_next(ram).0;
        if accesses_memory(inst.kind) {
            self.count("memory accesses executed before QEMU's state after them was known");
            self.early = Some(self.execute(ram, None));
        }
    }

    /// Executes one instruction, after which QEMU is in the state that is given if it is known.
    pub(crate) fn execute(&mut self, ram: &mut Ram, known: Option<(&State, Option<Trap>)>) -> Early {
        let inst = self.fetch(ram);
        let level = self.hart.privilege();
        let conditional = match inst.kind {
            Kind::ScW => Some(4),
            Kind::ScD => Some(8),
            _ => None,
        };
        let addr = self.hart.reg(inst.rs1.into());
        let value = self.hart.reg(inst.rs2.into()).to_le_bytes();
        let mut old = [0; 8];
        let readable = conditional.is_some_and(|len| self.hart.peek(ram, addr, &mut old[..len]).is_some());
        let stop = self.hart.run(ram, self.hart.slots() + 1);
        if let (Some(len), true, Some((after, None))) = (conditional, readable, known) {
            let rd = usize::from(inst.rd);
            let memory = match (self.hart.reg(rd), after.x[rd]) {
                (1, 0) => Some(("SC that succeeded only in QEMU, whose SC compares values", value)),
                (0, 1) => Some(("SC that failed only in QEMU", old)),
                _ => None,
            };
            if let Some((what, bytes)) = memory {
                self.count(what);
                self.hart.poke(ram, addr, &bytes[..len]);
                self.hart.set_reg(rd, after.x[rd]);
            }
        }
        Early { inst, level, stop }
    }

    /// QEMU turns out not to have executed the instruction that it logged: neither may ours have.
    pub(crate) fn not_executed(&self, before: &State) -> Result<(), String> {
        let Some(early) = &self.early else { return Ok(()) };
        Err(format!(
            "QEMU logged hart {}'s {:?} at {:#x}, did not say that it stopped before it, and let another hart run; \
             but it has not executed it",
            before.hart, early.inst.kind, before.pc
        ))
    }
}
