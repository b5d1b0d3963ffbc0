//! What decides a run: its configuration, and what a guest boots. Nothing here runs a machine.
//!
//! | File | Contents |
//! |---|---|
//! | `config` | the whole configuration |
//! | `options` | sections that belong to benchmarks |
//! | `length` | how long a phase lasts |
//! | `members` | the members of a network |
//! | `drive` | what drives the node that is tested |
//! | `kernel` | options of the guest's kernel |
//! | `dpdk` | options of DPDK programs |
//! | `cores` | programs on several cores |
//! | `workload` | what a machine boots, and when it is ready |
//! | `counting` | programs that count the frames that they have seen |
//! | `playback` | how a trace is played |

pub(crate) mod config;
pub(crate) mod cores;
pub(crate) mod counting;
pub(crate) mod dpdk;
pub(crate) mod drive;
pub(crate) mod kernel;
pub(crate) mod length;
pub(crate) mod members;
pub(crate) mod options;
pub(crate) mod playback;
pub(crate) mod workload;
