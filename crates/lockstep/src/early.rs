//! Executing an instruction: when QEMU's state after it is known, or earlier.
//!
//! QEMU runs one hart for a time, then another. The state after the last instruction before a change of harts is
//! logged only when the hart's turn comes again. If that instruction accesses memory, other harts may see the effect (or
//! it theirs), so ours must execute at the change; all else waits until the state is known.
//!
//! Two of QEMU's ways then need care. It may have logged an instruction that it did not come to execute, because an
//! interrupt or the end of the turn came first: a load is taken back, and of a store no such case is known, so it ends the
//! comparison. And its SC compares values: it succeeds where another hart's store has ended our reservation but left
//! the value. The architecture allows our hart to fail there, so QEMU's outcome is taken over, and counted.

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

fn only_loads(kind: Kind) -> bool {
    use Kind::*;
    (Lb..=Lwu).contains(&kind) || matches!(kind, Flw | Fld | LrW | LrD)
}

fn accesses_memory(kind: Kind) -> bool {
    use Kind::*;
    let atomic = (LrW..=AmomaxuW).contains(&kind) || (LrD..=AmomaxuD).contains(&kind);
    only_loads(kind) || atomic || (Sb..=Sd).contains(&kind) || matches!(kind, Fsw | Fsd)
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

    /// Executes one instruction.
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
            let (ours, theirs) = (self.hart.reg(rd), after.x[rd]);
            let memory = match (ours, theirs) {
                (1, 0) => Some(("SC that succeeded only in QEMU, whose SC compares values", value)),
                (0, 1) => Some(("SC that failed only in QEMU", old)),
                _ => None,
            };
            if let Some((what, bytes)) = memory {
                self.count(what);
                self.hart.poke(ram, addr, &bytes[..len]);
                self.hart.set_reg(rd, theirs);
            }
        }
        Early { inst, level, stop }
    }

    /// QEMU did not execute the instruction that it logged: neither shall ours have.
    pub(crate) fn take_back(&mut self, before: &State) -> Result<(), String> {
        let Some(early) = self.early.take() else { return Ok(()) };
        if !only_loads(early.inst.kind) {
            return Err(format!(
                "QEMU logged hart {}'s {:?} at {:#x}, let another hart run, and had not executed it; \
                 ours cannot take it back",
                before.hart, early.inst.kind, before.pc
            ));
        }
        self.count("loads taken back");
        if matches!(early.stop, Stop::Mmio(_)) {
            self.hart.complete_load(0);
        }
        for (number, value) in before.x.iter().enumerate() {
            self.hart.set_reg(number, *value);
        }
        for (number, value) in before.f.iter().flat_map(|f| f.iter().enumerate()) {
            self.hart.set_freg(number, *value);
        }
        self.hart.set_pc(before.pc);
        // A trap that ours took cannot be taken back: the comparison tells.
        self.check(before, before)
    }
}
