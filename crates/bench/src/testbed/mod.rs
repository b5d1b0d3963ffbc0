//! Machines that are ready to be measured: booted, or restored from a checkpoint.
//!
//! | File | Contents |
//! |---|---|
//! | `ready` | from a plan to a checkpoint from which measurements start |
//! | `session` | one machine |
//! | `nodes` | machines on cables, or a network |
//! | `system` | what phases of a load see of either |
//! | `control` | how a run is watched and interrupted |
//! | `steady` | whether caches, queues and rates no longer change |
//! | `ticks` | ticks of the guest's timer |
//! | `ramp` | a load that is at its pace before measurements begin |
//! | `m5` | gem5's m5ops |
//! | `corunners` | traces that are played beside a machine |
//! | `disks` | disks of a machine |
//! | `links` | time of a frame on a link |
//! | `init_log` | failed `init` lines |
//! | `boot_length` | how long boots take |
//! | `boot_turn` | the lock by which runs boot a guest once |
//! | `traces` | trace files that are played |

pub(crate) mod boot_length;
pub(crate) mod boot_turn;
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
