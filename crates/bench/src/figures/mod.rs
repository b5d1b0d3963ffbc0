//! Figures computed from a machine's counters: per frame, per port and per timing model.
//!
//! | File | Contents |
//! |---|---|
//! | `counters` | every counter of a machine, for `stats.json` |
//! | `nic_totals` | frames lost at NICs and links, by cause |
//! | `ports` | figures of each port |
//! | `timing` | figures of cores, caches, interconnect and DRAM |
//! | `core_counts` | instructions and cycles between two times |
//! | `host_cost` | host time and instructions of a run |
//! | `fingerprint` | fingerprint for comparing two runs |

pub(crate) mod core_counts;
pub(crate) mod counters;
pub(crate) mod fingerprint;
pub(crate) mod host_cost;
pub(crate) mod nic_totals;
pub(crate) mod ports;
pub(crate) mod timing;
