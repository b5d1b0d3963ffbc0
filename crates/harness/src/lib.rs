//! Whatever a guest does, whatever a checkpoint or a configuration says: no panic, no endless loop, no
//! frame unaccounted for. This crate turns arbitrary bytes into such cases and checks a whole machine with them. The
//! fuzz targets in `fuzz/` and the tests of this crate share it, so that what a fuzzer finds becomes a file
//! that the ordinary tests replay.
//!
//! | Case | Bytes become |
//! |---|---|
//! | [`guest::run`] | a program in machine mode for the simulated hart, and traffic that arrives meanwhile |
//! | [`checkpoint::run`] | changes to a valid checkpoint, behind hashes that are made right again |
//! | [`config::run`] | values for the keys of a configuration |
//! | [`streams::run`] | a traffic file with streams |
//! | [`capture::run`] | a capture that a stream sends |
//! | [`champsim::run`] | a trace of ChampSim's |
//! | [`trace::run`] | a trace of our own format, changed behind checksums that are made right again |

#![forbid(unsafe_code)]

pub mod assembler;
pub mod bell;
pub mod capture;
pub mod champsim;
pub mod checkpoint;
pub mod config;
pub mod container;
pub mod disk;
pub mod guest;
pub mod input;
pub mod lent;
pub mod operations;
pub mod places;
pub mod recorded;
pub mod streams;
pub mod sweep;
pub mod targets;
pub mod trace;
pub mod watchdog;
