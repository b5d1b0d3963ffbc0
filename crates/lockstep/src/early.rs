//! Execution of an instruction, after or before QEMU's next state is known.
//!
//! QEMU runs one hart for a time, then another. The state after the last instruction before a hart switch is
//! logged only in the hart's next turn. If that instruction accesses memory, other harts may see its effect
//! (or it theirs), so our hart executes it at the switch. All other instructions wait until the state is
//! known.
//!
//! QEMU's SC compares values: it succeeds if another hart's store has cleared our reservation but left the
//! value unchanged. The architecture permits our hart to fail there, so QEMU's outcome is adopted and
//! counted. Only at a hart switch, where the outcome is not known yet, a difference ends the comparison.

use doorbell_riscv::inst::{Inst, Kind};
use doorbell_riscv::{Privilege, Stop};
use doorbell_sim::Ram;

use crate::side::Side;
use crate::state::{State, Trap};

/// An instruction that our hart has executed but that is not compared yet.
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
    /// At a switch to another hart: executes this hart's next instruction now if it accesses memory.
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

    /// Executes one instruction; `known` is QEMU's state after it, if available.
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

    /// Checks that our hart has not executed an instruction that QEMU logged but did not execute.
    pub(crate) fn not_executed(&self, before: &State) -> Result<(), String> {
        let Some(early) = &self.early else { return Ok(()) };
        Err(format!(
            "QEMU logged hart {}'s {:?} at {:#x} without a stop record and switched harts, but has not executed it",
            before.hart, early.inst.kind, before.pc
        ))
    }
}
