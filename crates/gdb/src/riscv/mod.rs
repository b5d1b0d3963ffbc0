//! The instruction set's part of the debugger's target: registers, privilege levels, and their description.

mod description;
mod registers;

pub(crate) use description::target_description;
pub(crate) use doorbell_riscv::Privilege;
pub(crate) use gdbstub_arch::riscv::Riscv64 as Isa;
pub(crate) type CoreRegisters = gdbstub_arch::riscv::reg::RiscvCoreRegs<u64>;
