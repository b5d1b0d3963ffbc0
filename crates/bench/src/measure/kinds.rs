//! Kinds of benchmarks: the entries on which those of the scenarios are based, and the sections of the
//! configuration that all benchmarks of a kind have.

use doorbell_loadgen::Returned;
use doorbell_sim::Ps;

use crate::measure::benchmark::{Benchmark, Nodes};
use crate::measure::playback::TRACE;
use crate::measure::transfer::{self, TransferConfig, Transfers};
use crate::plan::dpdk::DpdkConfig;
use crate::plan::kernel::{self, KernelConfig};
use crate::plan::options::{Options, Section};
use crate::plan::workload::READY_MARKER;

/// Section of all DPDK programs.
pub(crate) const DPDK: Section = Section::of::<DpdkConfig>();
/// Section of all programs over the kernel's network stack.
pub(crate) const KERNEL: Section = Section::of::<KernelConfig>();
/// Section of all benchmarks with a transfer between two nodes.
pub(crate) const TRANSFER: Section = Section::of::<TransferConfig>();

/// Entry for a network described by a file. It cannot be selected by name.
pub const NETWORK: Benchmark = Benchmark {
    name: "network",
    summary: "nodes, switches and load generators on cables",
    nodes: Nodes::Network,
    image: "net",
    ready_marker: READY_MARKER,
    guest_words: |_| String::new(),
    options: &[],
    defaults: &[],
    // The request protocol checks the answers.
    returned: |_| Returned::Any,
    preload: None,
    silent: false,
    pause: |_| kernel::PAUSE,
    rings: |_| None,
    counting: None,
    check: |_| Ok(()),
    remark: |_| None,
};

/// Entry for trace playback. It cannot be selected by name.
pub const PLAYED: Benchmark = Benchmark {
    name: TRACE,
    summary: "plays a recorded trace of a machine's instructions and device activity from a file",
    nodes: Nodes::One,
    image: "",
    ready_marker: "",
    silent: true,
    ..NETWORK
};

/// A DPDK program that polls descriptor rings.
pub(crate) const DPDK_PROGRAM: Benchmark = Benchmark {
    nodes: Nodes::One,
    image: "dpdk",
    options: &[DPDK],
    returned: |_| Returned::MacSwap,
    pause: |_| Ps::ZERO,
    rings: |config| Some(config.options::<DpdkConfig>().rings()),
    ..NETWORK
};

/// A program over the kernel's network stack.
pub(crate) const KERNEL_PROGRAM: Benchmark = Benchmark { nodes: Nodes::One, options: &[KERNEL], ..NETWORK };

/// A transfer between nodes. Their guests define the command line and the ready marker of each node. TCP
/// needs some milliseconds to reach its steady state on a timed machine.
pub(crate) const BETWEEN_NODES: Benchmark =
    Benchmark { defaults: &["run.settle=5ms", "run.window=20ms"], ..NETWORK };

impl Nodes {
    /// A server in node 0 and its client in node 1, with a load that does not end by itself.
    pub(crate) const fn transfer<T: Options + Transfers>() -> Nodes {
        Nodes::Joined {
            guests: transfer::guests::<T>,
            ramp: transfer::ramp::<T>,
            measure: transfer::measure_part::<T>,
        }
    }
}
