//! Traces: executed instructions in a file, for other simulators and from them.
//!
//! Today one format: [`champsim`], written and read.

#![forbid(unsafe_code)]

pub mod champsim;
