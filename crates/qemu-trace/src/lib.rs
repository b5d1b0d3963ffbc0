//! What an unmodified machine executes under an unmodified QEMU, with its NIC's DMA, as ops.
//!
//! QEMU records what a guest takes from outside (`rr=record`), and replays it with a plugin (`tools/qemu-trace`), which writes down
//! each block, access and transfer of a window. [`stream`] reads that; an [`InstructionSet`](instruction::InstructionSet) knows the
//! instructions ([`x86`], [`aarch64`], [`riscv64`]), [`emit`] makes ops of what they did, [`executed`] puts both together, [`nic`] says
//! what the device's part means, [`event`] is what comes of it all, and [`trace`] writes that down. [`target`] lists the machines,
//! [`tools`] and [`guest`] fetch the programs.

#![forbid(unsafe_code)]

pub mod aarch64;
mod ahead;
pub mod emit;
pub mod error;
pub mod event;
pub mod executed;
pub mod guest;
pub mod instruction;
pub mod kept;
pub mod made_with;
pub mod names;
pub mod nic;
pub mod pages;
pub mod plugin;
pub mod recording;
pub mod replay;
pub mod riscv64;
pub mod stream;
pub mod target;
pub mod tools;
pub mod trace;
pub mod x86;
