//! The measurement window: its phases, counts and observations.
//!
//! | File | Contents |
//! |---|---|
//! | `phases` | store keys, warm up, settle |
//! | `machine` | the window of a machine |
//! | `interval` | the window of a network |
//! | `drain` | frames in flight when a window ends |
//! | `losses` | frames lost in a network |
//! | `snapshot` | times of a machine at an edge |
//! | `transfer_counts` | payload moved between two nodes |
//! | `progress_series` | the same over time |
//! | `counting_run` | counts of a guest program |
//! | `ids_monitor` | counts of an IDS on a server's port |
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
