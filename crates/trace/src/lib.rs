//! Instruction traces in files, for exchange with other simulators.
//!
//! [`system`] is Doorbell's own format for whole machines, [`champsim`] is ChampSim's. [`container`] reads
//! compressed files.

#![forbid(unsafe_code)]

mod batches;
pub mod champsim;
pub mod container;
mod scratch;
mod source;
pub mod system;
mod worker;
mod xz;

pub use scratch::Scratch;
pub use worker::Worker;
