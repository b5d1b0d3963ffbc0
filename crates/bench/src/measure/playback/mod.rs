//! Playing traces: what is played on which configuration, and what a measurement of it says.
//!
//! | File | Question it answers |
//! |---|---|
//! | `config` | which parameters have a meaning for a trace, and which are its own |
//! | `files` | which file is it, exactly |
//! | `run` | warm up, measure, compare with what the file holds |
//! | `results` | what stands in the result folder |

pub(crate) mod config;
pub(crate) mod files;
pub(crate) mod results;
pub(crate) mod run;

pub use config::{PlaybackConfig, Shape, Warmup};
pub(crate) use files::contents;
pub use files::{NamedTrace, Traces};

pub use results::{TRACE, write_played};
pub use run::{PlayedRun, ReadyTrace};
