//! Traces: executed instructions in a file, for other simulators and from them.
//!
//! [`system`] is a format of our own, of whole machines; [`champsim`] is ChampSim's. [`container`] takes compressed files apart.

#![forbid(unsafe_code)]

mod batches;
pub mod champsim;
pub mod container;
mod scratch;
mod source;
pub mod system;
mod xz;

pub use scratch::Scratch;
