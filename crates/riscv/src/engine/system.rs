//! Zicsr, Zifencei, the privileged instructions and gem5's m5ops. Each ends its block.

use doorbell_sim::{PhysAddr, Ram, TranslationFence};

use super::{Exit, Op};
use crate::csr::{Effect, mstatus};
use crate::hart::{Hart, Privilege, Stop};
use crate::trap::Exception;

const MIP: u16 = 0x344;
const SIP: u16 = 0x144;
const TIME: u16 = 0xc01;

impl Hart {
    /// Raises an illegal-instruction exception; `xtval` gets the instruction's bits.
    #[cold]
    pub(crate) fn illegal(&mut self, ram: &mut Ram, op: &Op) -> Exit {
        let pc = self.pc_of(op);
        let half = |hart: &mut Hart, ram: &mut Ram, virt: u64| {
            let phys = hart.translate_fetch(ram, virt).unwrap_or(PhysAddr(u64::MAX));
            ram.load::<2>(phys).map_or(0, |bytes| u64::from(u16::from_le_bytes(bytes)))
        };
        let low = half(self, ram, pc);
        let bits = if low & 3 == 3 { low | half(self, ram, pc.wrapping_add(2)) << 16 } else { low };
        self.trap_at(op, Exception::IllegalInstruction, bits)
    }

    /// Leaves the block before `op`, because the machine must act first.
    #[cold]
    fn leave_before(&mut self, op: &Op, exit: Exit) -> Exit {
        self.exit_op = op as *const Op as usize;
        self.pc = self.pc_of(op);
        exit
    }

    /// Moves `pc` past a block's last instruction.
    ///
    /// # Safety
    /// `op` ends a block, so that the following op holds the block's end.
    unsafe fn step_over(&mut self, op: *const Op) {
        // SAFETY: every block is followed by an op that holds its end.
        self.pc = self.pc_of(unsafe { &*op.add(1) });
    }
}

/// # Safety
/// As for [`Handler`](super::Handler).
pub(super) unsafe fn illegal(hart: &mut Hart, ram: &mut Ram, op: *const Op) -> Exit {
    // SAFETY: `op` is an op of a block.
    hart.illegal(ram, unsafe { &*op })
}

/// # Safety
/// As for [`Handler`](super::Handler).
pub(super) unsafe fn ecall(hart: &mut Hart, _ram: &mut Ram, op: *const Op) -> Exit {
    let exception = match hart.privilege {
        Privilege::User => Exception::EcallFromUser,
        Privilege::Supervisor => Exception::EcallFromSupervisor,
        Privilege::Machine => Exception::EcallFromMachine,
    };
    // SAFETY: `op` is an op of a block.
    hart.trap_at(unsafe { &*op }, exception, 0)
}

/// # Safety
/// As for [`Handler`](super::Handler).
pub(super) unsafe fn ebreak(hart: &mut Hart, _ram: &mut Ram, op: *const Op) -> Exit {
    // SAFETY: `op` is an op of a block.
    let op = unsafe { &*op };
    let pc = hart.pc_of(op);
    hart.trap_at(op, Exception::Breakpoint, pc)
}

/// # Safety
/// As for [`Handler`](super::Handler).
pub(super) unsafe fn mret(hart: &mut Hart, ram: &mut Ram, op: *const Op) -> Exit {
    // SAFETY: `op` is an op of a block.
    if hart.mret() { Exit::Changed } else { hart.illegal(ram, unsafe { &*op }) }
}

/// # Safety
/// As for [`Handler`](super::Handler).
pub(super) unsafe fn sret(hart: &mut Hart, ram: &mut Ram, op: *const Op) -> Exit {
    // SAFETY: `op` is an op of a block.
    if hart.sret() { Exit::Changed } else { hart.illegal(ram, unsafe { &*op }) }
}

/// WFI. In user mode, or in supervisor mode with TW, it is illegal (waiting has no time limit).
///
/// # Safety
/// As for [`Handler`](super::Handler).
pub(super) unsafe fn wfi(hart: &mut Hart, ram: &mut Ram, op: *const Op) -> Exit {
    let timed_out = hart.csr.mstatus & mstatus::TW != 0 && hart.privilege < Privilege::Machine;
    if hart.privilege == Privilege::User || timed_out {
        // SAFETY: `op` is an op of a block.
        return hart.illegal(ram, unsafe { &*op });
    }
    // SAFETY: WFI ends its block.
    unsafe { hart.step_over(op) };
    if hart.interrupt_pending() {
        return Exit::Changed;
    }
    hart.waiting = true;
    hart.stop = Stop::Wfi;
    Exit::Stop
}

/// # Safety
/// As for [`Handler`](super::Handler).
pub(super) unsafe fn sfence_vma(hart: &mut Hart, ram: &mut Ram, op: *const Op) -> Exit {
    let forbidden = hart.privilege == Privilege::Supervisor && hart.csr.mstatus & mstatus::TVM != 0;
    if hart.privilege == Privilege::User || forbidden {
        // SAFETY: `op` is an op of a block.
        return hart.illegal(ram, unsafe { &*op });
    }
    // SAFETY: SFENCE.VMA ends its block.
    let o = unsafe {
        hart.step_over(op);
        &*op
    };
    let named = |register: u8| (register != 0).then(|| hart.x[register as usize]);
    // The functional TLB is flushed at each change of address space, so that it needs no ASID.
    let (address, space) = (named(o.rs1), named(o.rs2).map(|asid| asid as u16));
    match address {
        None => hart.tlb.flush(),
        Some(address) => hart.tlb.flush_address(address),
    }
    hart.translation_fence = Some(TranslationFence { address, space });
    Exit::Changed
}

/// FENCE.I: decoded code is never stale, so only the block ends.
///
/// # Safety
/// As for [`Handler`](super::Handler).
pub(super) unsafe fn fence_i(hart: &mut Hart, _ram: &mut Ram, op: *const Op) -> Exit {
    // SAFETY: FENCE.I ends its block.
    unsafe { hart.step_over(op) };
    Exit::Changed
}

/// # Safety
/// As for [`Handler`](super::Handler).
pub(super) unsafe fn m5op(hart: &mut Hart, _ram: &mut Ram, op: *const Op) -> Exit {
    // SAFETY: an m5op ends its block.
    let o = unsafe {
        hart.step_over(op);
        &*op
    };
    hart.stop = Stop::M5Op { function: o.imm as u8, args: [hart.x[10], hart.x[11]] };
    Exit::Stop
}

/// How a CSR instruction combines old value and operand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CsrOp {
    Write,
    Set,
    Clear,
}

/// # Safety
/// As for [`Handler`](super::Handler).
unsafe fn csr(
    hart: &mut Hart,
    ram: &mut Ram,
    op: *const Op,
    what: CsrOp,
    operand: u64,
    writes: bool,
) -> Exit {
    // SAFETY: a CSR instruction ends its block.
    let o = unsafe { &*op };
    let number = o.imm as u16 & 0xfff;
    // The slots of the whole block are already counted.
    if number == TIME && hart.slots - 1 > hart.synced_slot {
        return hart.leave_before(o, Exit::Ahead);
    }
    if hart.needs_events(number) {
        return hart.leave_before(o, Exit::Events);
    }
    let Ok(old) = hart.read_csr(number, writes) else { return hart.illegal(ram, o) };
    // SEIP reads as input OR software bit, but only the software bit is modified and written back.
    let base = match number {
        MIP => hart.csr.mip,
        SIP => hart.csr.mip & hart.csr.mideleg,
        _ => old,
    };
    let new = match what {
        CsrOp::Write => operand,
        CsrOp::Set => base | operand,
        CsrOp::Clear => base & !operand,
    };
    let effect = if writes { hart.write_csr(number, new) } else { Effect::None };
    hart.x[o.rd as usize] = old;
    // SAFETY: a CSR instruction ends its block.
    unsafe { hart.step_over(op) };
    match effect {
        Effect::None => Exit::Next,
        Effect::Context => Exit::Changed,
        Effect::Timer => {
            hart.stop = Stop::Timer;
            Exit::Stop
        }
    }
}

macro_rules! csr_handlers {
    ($($name:ident, $immediate:ident: $what:expr;)*) => {$(
        /// # Safety
        /// As for [`Handler`](super::Handler).
        pub(super) unsafe fn $name(hart: &mut Hart, ram: &mut Ram, op: *const Op) -> Exit {
            // SAFETY: arguments are passed on.
            unsafe {
                let source = (*op).rs1;
                let operand = hart.x[source as usize];
                csr(hart, ram, op, $what, operand, source != 0 || $what == CsrOp::Write)
            }
        }
        /// # Safety
        /// As for [`Handler`](super::Handler).
        pub(super) unsafe fn $immediate(hart: &mut Hart, ram: &mut Ram, op: *const Op) -> Exit {
            // SAFETY: arguments are passed on.
            unsafe {
                let operand = (*op).rs1;
                csr(hart, ram, op, $what, u64::from(operand), operand != 0 || $what == CsrOp::Write)
            }
        }
    )*};
}

csr_handlers! {
    csrrw, csrrwi: CsrOp::Write;
    csrrs, csrrsi: CsrOp::Set;
    csrrc, csrrci: CsrOp::Clear;
}
