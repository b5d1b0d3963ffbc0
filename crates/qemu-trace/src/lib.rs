//! What an unmodified machine executes under an unmodified QEMU, with its NIC's DMA, as ops.

#![forbid(unsafe_code)]

pub mod guest;
pub mod tools;
