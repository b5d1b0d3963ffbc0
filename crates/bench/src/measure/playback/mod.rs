//! Playing traces: what is played on which configuration, and what a measurement of it says.
//!
//! | File | Question it answers |
//! |---|---|
//! | `run` | warm up, measure, compare with what the file holds |
//! | `results` | what stands in the result folder |

pub(crate) mod results;
pub(crate) mod run;

pub use results::{TRACE, write_played};
pub use run::{PlayedRun, ReadyTrace};
