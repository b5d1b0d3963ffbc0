//! Records what an unmodified machine executes under unmodified QEMU, with its NIC's DMA, as ops.
//!
//! QEMU records the guest's external inputs (`rr=record`) and replays them with a plugin
//! (`tools/qemu-trace`), which writes each block, access and transfer of a window. [`stream`] reads this. An
//! [`InstructionSet`](instruction::InstructionSet) ([`x86`], [`aarch64`], [`riscv64`]) decodes the
//! instructions, [`emit`] converts them to ops, and [`executed`] combines both. [`nic`] interprets the device
//! activity, [`event`] is the result, and [`trace`] writes it. [`target`] lists the machines; [`tools`] and
//! [`guest`] fetch the programs.

#![forbid(unsafe_code)]

pub mod aarch64;
mod ahead;
pub mod emit;
pub mod error;
pub mod event;
pub mod execution;
pub mod guest;
pub mod instruction;
pub mod made_with;
pub mod names;
pub mod nic;
pub mod pages;
pub mod plugin;
pub mod recording;
pub mod recording_cache;
pub mod replay;
pub mod riscv64;
pub mod stream;
pub mod target;
pub mod tools;
pub mod trace;
pub mod x86;
