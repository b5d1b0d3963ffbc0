//! The benchmarks with their options, and the list of all benchmarks.
//!
//! | File | Contents |
//! |---|---|
//! | `registry` | the list |
//! | `worker` | the multi-core program that several benchmarks use |
//! | the others | one benchmark each |

pub(crate) mod compute;
pub(crate) mod iperf;
pub(crate) mod l3fwd;
pub(crate) mod memcached;
pub(crate) mod memcached_kernel;
pub(crate) mod nat;
pub(crate) mod neighbour;
pub(crate) mod netperf;
pub(crate) mod nfs;
pub(crate) mod ovs;
pub(crate) mod pipeline;
pub(crate) mod redis;
pub(crate) mod registry;
pub(crate) mod rxptx;
pub(crate) mod suricata;
pub(crate) mod testpmd;
pub(crate) mod touch;
pub(crate) mod web;
pub(crate) mod worker;
