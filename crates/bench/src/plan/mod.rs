//! The inputs of a run: its configuration and the guest's software. No module here simulates anything.
//!
//! | File | Contents |
//! |---|---|
//! | `config` | the whole configuration |
//! | `resolved` | a validated configuration, from which runs are planned |
//! | `options` | sections that belong to benchmarks |
//! | `length` | length of a phase |
//! | `members` | the members of a network |
//! | `drive` | traffic source of the tested node: load generator or second node |
//! | `kernel` | options of the guest's kernel |
//! | `dpdk` | options of DPDK programs |
//! | `cores` | programs on several cores |
//! | `worker` | the multi-core DPDK program that several benchmarks use |
//! | `workload` | software that a machine boots, and its ready condition |
//! | `counting` | programs that count the frames that they process |
//! | `playback` | options of trace playback |

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
pub(crate) mod resolved;
pub(crate) mod worker;
pub(crate) mod workload;
