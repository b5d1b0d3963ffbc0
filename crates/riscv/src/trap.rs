//! Trap entry and return (privileged manual, chapters "Machine-Level ISA" and "Supervisor-Level ISA").

use doorbell_sim::log;

use crate::csr::{MSTATUS_MPP_SHIFT, mstatus};
use crate::hart::{Hart, Privilege};
use crate::trap_names::{Cause, Extension};

/// Synchronous exceptions, numbered as in `mcause`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)] // the manual's own names
pub enum Exception {
    InstructionAccessFault = 1,
    IllegalInstruction = 2,
    Breakpoint = 3,
    LoadAddressMisaligned = 4,
    LoadAccessFault = 5,
    StoreAddressMisaligned = 6,
    StoreAccessFault = 7,
    EcallFromUser = 8,
    EcallFromSupervisor = 9,
    EcallFromMachine = 11,
    InstructionPageFault = 12,
    LoadPageFault = 13,
    StorePageFault = 15,
}

const INTERRUPT: u64 = 1 << 63;

/// Interrupts from highest to lowest priority: MEI, MSI, MTI, SEI, SSI, STI.
pub(crate) const BY_PRIORITY: [u64; 6] = [11, 3, 7, 9, 1, 5];

const MACHINE_TIMER: u64 = 7;
const SUPERVISOR_TIMER: u64 = 5;

impl Hart {
    /// Takes an exception of the instruction at `pc`.
    pub(crate) fn raise(&mut self, exception: Exception, tval: u64, pc: u64) {
        self.counters.exceptions += 1;
        let cause = exception as u64;
        self.log_exception(exception, tval, pc);
        let delegated = self.privilege < Privilege::Machine && self.csr.medeleg >> cause & 1 != 0;
        self.enter_trap(delegated, cause, tval, pc);
    }

    /// Logs an exception; SBI and system calls with their number and arguments.
    fn log_exception(&self, exception: Exception, tval: u64, pc: u64) {
        let (now, id, x) = (self.time(), self.config.id, &self.x);
        let (a0, a1, a2) = (x[10], x[11], x[12]);
        match exception {
            Exception::EcallFromSupervisor => {
                let (extension, function) = (Extension(x[17]), x[16]);
                log!(now, Riscv, Debug, "hart{id}: SBI {extension} {function} ({a0:#x}, {a1:#x}, {a2:#x})");
            }
            Exception::EcallFromUser => {
                let number = x[17];
                log!(
                    now,
                    Riscv,
                    Trace,
                    "hart{id}: system call {number} ({a0:#x}, {a1:#x}, {a2:#x}) at {pc:#x}"
                );
            }
            other => {
                let cause = Cause(other as u64);
                log!(now, Riscv, Trace, "hart{id}: {cause} at {pc:#x}, tval {tval:#x}");
            }
        }
    }

    /// Takes the highest-priority pending and enabled interrupt. Returns whether there was one.
    pub(crate) fn take_interrupt(&mut self) -> bool {
        let pending = self.mip() & self.csr.mie;
        pending != 0 && self.take_one_of(pending)
    }

    /// A separate function, so that the run loop's check stays cheap.
    #[inline(never)]
    fn take_one_of(&mut self, pending: u64) -> bool {
        let (mie, sie) = (self.csr.mstatus & mstatus::MIE != 0, self.csr.mstatus & mstatus::SIE != 0);
        let to_machine = self.privilege < Privilege::Machine || mie;
        let to_supervisor =
            self.privilege < Privilege::Supervisor || (self.privilege == Privilege::Supervisor && sie);
        let machine = if to_machine { pending & !self.csr.mideleg } else { 0 };
        let supervisor = if to_supervisor { pending & self.csr.mideleg } else { 0 };
        let (enabled, delegated) = if machine != 0 { (machine, false) } else { (supervisor, true) };
        let Some(cause) = BY_PRIORITY.into_iter().find(|cause| enabled >> cause & 1 != 0) else {
            return false;
        };
        self.counters.interrupts += 1;
        // A machine timer interrupt that the firmware forwards to the supervisor is not counted twice.
        let forwarded = cause == MACHINE_TIMER && self.csr.mideleg >> SUPERVISOR_TIMER & 1 != 0;
        self.counters.timer_interrupts +=
            u64::from(!forwarded && matches!(cause, MACHINE_TIMER | SUPERVISOR_TIMER));
        let (id, pc) = (self.config.id, self.pc);
        log!(self.time(), Riscv, Trace, "hart{id}: {} at {pc:#x}", Cause(INTERRUPT | cause));
        self.enter_trap(delegated, INTERRUPT | cause, 0, self.pc);
        true
    }

    fn enter_trap(&mut self, to_supervisor: bool, cause: u64, tval: u64, pc: u64) {
        let csr = &mut self.csr;
        let status = csr.mstatus;
        let vector = if to_supervisor {
            csr.sepc = pc;
            csr.scause = cause;
            csr.stval = tval;
            let spie = if status & mstatus::SIE != 0 { mstatus::SPIE } else { 0 };
            let spp = if self.privilege == Privilege::Supervisor { mstatus::SPP } else { 0 };
            csr.mstatus = status & !(mstatus::SIE | mstatus::SPIE | mstatus::SPP) | spie | spp;
            self.privilege = Privilege::Supervisor;
            csr.stvec
        } else {
            csr.mepc = pc;
            csr.mcause = cause;
            csr.mtval = tval;
            let mpie = if status & mstatus::MIE != 0 { mstatus::MPIE } else { 0 };
            let mpp = (self.privilege as u64) << MSTATUS_MPP_SHIFT;
            csr.mstatus = status & !(mstatus::MIE | mstatus::MPIE | mstatus::MPP) | mpie | mpp;
            self.privilege = Privilege::Machine;
            csr.mtvec
        };
        let vectored = vector & 3 == 1 && cause & INTERRUPT != 0;
        self.pc = (vector & !3).wrapping_add(if vectored { 4 * (cause & !INTERRUPT) } else { 0 });
        self.context_changed();
    }

    /// MRET; `false` if it is illegal in the current mode.
    pub(crate) fn mret(&mut self) -> bool {
        if self.privilege != Privilege::Machine {
            return false;
        }
        let status = self.csr.mstatus;
        let target = Privilege::from_bits(status >> MSTATUS_MPP_SHIFT).unwrap_or(Privilege::User);
        let mie = if status & mstatus::MPIE != 0 { mstatus::MIE } else { 0 };
        let cleared =
            mstatus::MIE | mstatus::MPP | if target == Privilege::Machine { 0 } else { mstatus::MPRV };
        self.csr.mstatus = status & !cleared | mie | mstatus::MPIE;
        self.privilege = target;
        self.pc = self.csr.mepc;
        self.context_changed();
        true
    }

    /// SRET; `false` if it is illegal in the current mode.
    pub(crate) fn sret(&mut self) -> bool {
        let trapped = self.privilege == Privilege::Supervisor && self.csr.mstatus & mstatus::TSR != 0;
        if self.privilege < Privilege::Supervisor || trapped {
            return false;
        }
        let status = self.csr.mstatus;
        let sie = if status & mstatus::SPIE != 0 { mstatus::SIE } else { 0 };
        self.csr.mstatus = status & !(mstatus::SIE | mstatus::SPP | mstatus::MPRV) | sie | mstatus::SPIE;
        self.privilege = if status & mstatus::SPP != 0 { Privilege::Supervisor } else { Privilege::User };
        self.pc = self.csr.sepc;
        self.context_changed();
        true
    }
}
