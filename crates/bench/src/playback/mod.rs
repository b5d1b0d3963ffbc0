//! Playing traces: what is played on which configuration, and what a measurement of it says.
//!
//! | File | Question it answers |
//! |---|---|
//! | `config` | which parameters have a meaning for a trace, and which are its own |
//! | `resolve` | what machine and overrides make of them |
//! | `files` | which file is it, exactly |
//! | `run` | warm up, measure, compare with what the file holds |
//! | `results` | what stands in the result folder |

mod config;
mod files;
mod resolve;
mod results;
mod run;

pub use config::{PlaybackConfig, Shape, Warmup};
pub(crate) use files::contents;
pub use files::{NamedTrace, Traces};
pub use resolve::resolve_played;
pub use results::{TRACE, write_played};
pub use run::{PlayedRun, ReadyTrace};
