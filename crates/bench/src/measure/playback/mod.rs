//! Measurement of played traces.
//!
//! | File | Contents |
//! |---|---|
//! | `run` | warm-up, measurement, and check that the whole trace was played |
//! | `results` | files in the result folder |

pub(crate) mod results;
pub(crate) mod run;

pub use results::{TRACE, write_played};
pub use run::{PlayedRun, ReadyTrace};
