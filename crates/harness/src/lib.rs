//! Turns arbitrary bytes into test cases for a whole machine, and checks that no guest, checkpoint or
//! configuration causes a panic, an endless loop or an unaccounted frame. The fuzz targets in `fuzz/` and the
//! tests of this crate share it, so that a fuzzer's finding becomes a file that the ordinary tests replay.
//!
//! | Case | Bytes become |
//! |---|---|
//! | [`guest::run`] | a program in machine mode for the simulated hart, with traffic arriving |
//! | [`checkpoint::run`] | changes to a valid checkpoint, with recomputed hashes |
//! | [`config::run`] | values for the keys of a configuration |
//! | [`streams::run`] | a traffic file with streams |
//! | [`capture::run`] | a capture that a stream sends |
//! | [`champsim::run`] | a ChampSim trace |
//! | [`trace::run`] | a Doorbell trace, changed, with recomputed checksums |

#![forbid(unsafe_code)]

pub mod addresses;
pub mod assembler;
pub mod capture;
pub mod champsim;
pub mod checkpoint;
pub mod config;
pub mod container;
pub mod disk;
pub mod guest;
pub mod input;
pub mod interrupter;
pub mod machine_pool;
pub mod operations;
pub mod recording_check;
pub mod streams;
pub mod sweep;
pub mod targets;
pub mod trace;
pub mod watchdog;
