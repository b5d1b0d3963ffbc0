//! The benchmarks, one folder each, and the list of all benchmarks. A folder contains
//!
//! | File | Contents |
//! |---|---|
//! | `mod.rs` | `BENCHMARK`, the entry of the registry; the options, their checks, and the guest's words |
//! | `guest/` | scripts of its guests; `NAME.toml`, the recipe of an image NAME, and the image's own files |
//! | `README.md` | its page of the book |
//! | `acceptance.rs` | whole runs of it |
//!
//! Images and programs that several benchmarks share are in `guest/` of the repository, and kinds of
//! benchmarks in [`crate::measure::kinds`].

use crate::measure::benchmark::Benchmark;

/// The modules and the table of these benchmarks. rustfmt does not find modules that a macro declares; format
/// them with `cargo fmt --all -- scenarios/*/mod.rs`.
macro_rules! benchmarks {
    ($($name:ident,)+) => {
        $(pub(crate) mod $name;)+

        /// All benchmarks, in the order of the help, the documents and the configuration's sections.
        pub const BENCHMARKS: &[Benchmark] = &[$($name::BENCHMARK),+];
    };
}

benchmarks! {
    testpmd,
    l3fwd,
    touchfwd,
    touchdrop,
    rxptx,
    pipeline,
    ovs,
    neighbour,
    ping,
    memcached_kernel,
    suricata,
    memcached_dpdk,
    compute,
    iperf,
    netperf,
    redis,
    web,
    nfs,
    nat,
}
