//! Systems that are ready to be measured: booted, or restored from a checkpoint.
//!
//! | File | Contents |
//! |---|---|
//! | `ready` | creates the checkpoint from which measurements start |
//! | `session` | testbed with one machine |
//! | `nodes` | testbed with several nodes |
//! | `system` | common interface of a machine and a network |
//! | `control` | progress display and interruption |
//! | `steady` | steady-state detection |
//! | `ticks` | wait for ticks of the guest's timer |
//! | `ramp` | start of a client's load before the checkpoint |
//! | `m5` | gem5's m5ops |
//! | `corunners` | traces played on extra cores |
//! | `disks` | disks of a machine |
//! | `links` | maximum time of a frame on a link |
//! | `init_log` | failed `init` lines |
//! | `boot_length` | duration of the last boot |
//! | `boot_lock` | boot lock: concurrent runs boot a guest once |
//! | `traces` | trace files to play |

pub(crate) mod boot_length;
pub(crate) mod boot_lock;
pub(crate) mod control;
pub(crate) mod corunners;
pub(crate) mod disks;
pub(crate) mod init_log;
pub(crate) mod links;
pub(crate) mod m5;
pub(crate) mod nodes;
pub(crate) mod ramp;
pub(crate) mod ready;
pub(crate) mod session;
pub(crate) mod steady;
pub(crate) mod system;
pub(crate) mod ticks;
pub(crate) mod traces;
