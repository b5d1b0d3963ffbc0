//! The window of a measurement: what happens in it, and what is counted and observed.
//!
//! | File | Contents |
//! |---|---|
//! | `phases` | store, warm up, settle |
//! | `machine` | the window of a machine |
//! | `interval` | the window of a network |
//! | `drain` | what is on its way when a window ends |
//! | `losses` | frames lost in a network |
//! | `snapshot` | counts of a machine at an edge |
//! | `transfer_counts` | what moved between two nodes |
//! | `progress_series` | the same over time |
//! | `counting_run` | asks a program what it has counted |
//! | `ids_monitor` | the same of a program beside a server |
//! | `observe` | traces, profiles, timelines |

pub(crate) mod counting_run;
pub(crate) mod drain;
pub(crate) mod ids_monitor;
pub(crate) mod interval;
pub(crate) mod losses;
pub(crate) mod machine;
pub(crate) mod observe;
pub(crate) mod phases;
pub(crate) mod progress_series;
pub(crate) mod snapshot;
pub(crate) mod transfer_counts;
