//! The benchmarks, in the order in which help, documents and configurations have them.

use doorbell_loadgen::{Kind, Returned};

use super::{Benchmark, Nodes};
use crate::compute::{self, ComputeConfig};
use crate::dpdk::{self, DpdkConfig};
use crate::iperf::{self, IperfConfig};
use crate::kernel::{self, KernelConfig};
use crate::l3fwd::{self, L3fwdConfig};
use crate::memcached::{self, MemcachedDpdkConfig};
use crate::memcached_kernel::{self, MemcachedKernelConfig};
use crate::netperf::{self, NetperfConfig};
use crate::options::Section;
use crate::ovs::{self, OvsConfig};
use crate::pipeline::{self, StagesConfig};
use crate::playback::TRACE;
use crate::redis::{self, RedisConfig};
use crate::rxptx::{self, RxptxConfig};
use crate::testpmd::{self, TestpmdConfig};
use crate::touch::{self, TouchConfig};
use crate::transfer::{self, TransferConfig};
use crate::web::{self, WebConfig};

/// What all DPDK programs have.
pub(super) const DPDK: Section = Section::of::<DpdkConfig>();
const KERNEL: Section = Section::of::<KernelConfig>();
/// What all have that move something between two nodes.
const TRANSFER: Section = Section::of::<TransferConfig>();

/// What a network's file describes: no benchmark that can be called by a name.
pub const NETWORK: Benchmark = Benchmark {
    name: "network",
    summary: "nodes, switches and load generators on cables",
    nodes: Nodes::Network,
    image: "net",
    ready_marker: kernel::READY_MARKER,
    guest_words: |_| String::new(),
    options: &[],
    defaults: &[],
    returned: kernel::returned,
    preload: None,
    silent: false,
};

/// What stands in a benchmark's place where a trace is played: no benchmark that can be called by a name.
pub const PLAYED: Benchmark = Benchmark {
    name: TRACE,
    summary: "what a machine executed and its devices did, from a file",
    nodes: Nodes::One,
    image: "",
    ready_marker: "",
    guest_words: |_| String::new(),
    options: &[],
    defaults: &[],
    returned: |_| Returned::Any,
    preload: None,
    silent: true,
};

/// What benchmarks between two nodes have alike: what their programs are told, and when they are ready, their guests say.
const BETWEEN_NODES: Benchmark = Benchmark { defaults: iperf::DEFAULTS, ..NETWORK };

/// All benchmarks.
pub const BENCHMARKS: &[Benchmark] = &[
    Benchmark {
        name: "testpmd",
        summary: "DPDK's testpmd forwards every frame back: the path through NIC, PCIe, memory and a polling core",
        nodes: Nodes::One,
        image: "testpmd",
        ready_marker: testpmd::READY_MARKER,
        guest_words: testpmd::guest_words,
        options: &[DPDK, Section::of::<TestpmdConfig>()],
        defaults: &[],
        returned: testpmd::returned,
        preload: None,
        silent: false,
    },
    Benchmark {
        name: "l3fwd",
        summary: "DPDK's l3fwd routes every frame by longest prefix match",
        nodes: Nodes::One,
        image: "dpdk",
        ready_marker: l3fwd::READY_MARKER,
        guest_words: l3fwd::guest_words,
        options: &[DPDK, Section::of::<L3fwdConfig>()],
        defaults: l3fwd::DEFAULTS,
        returned: dpdk::routed,
        preload: None,
        silent: false,
    },
    Benchmark {
        name: "touchfwd",
        summary: "reads every byte of each frame, then sends it back",
        nodes: Nodes::One,
        image: "dpdk",
        ready_marker: dpdk::READY_MARKER,
        guest_words: touch::touchfwd,
        options: &[DPDK, Section::of::<TouchConfig>()],
        defaults: &[],
        returned: dpdk::swapped,
        preload: None,
        silent: false,
    },
    Benchmark {
        name: "touchdrop",
        summary: "reads every byte of each frame and drops it: delivered is what is in its memory",
        nodes: Nodes::One,
        image: "dpdk",
        ready_marker: dpdk::READY_MARKER,
        guest_words: touch::touchdrop,
        options: &[DPDK, Section::of::<TouchConfig>()],
        defaults: &[],
        returned: dpdk::kept,
        preload: None,
        silent: false,
    },
    Benchmark {
        name: "rxptx",
        summary: "receives a burst, works for a set time (rxptx.work), and sends the burst back",
        nodes: Nodes::One,
        image: "dpdk",
        ready_marker: dpdk::READY_MARKER,
        guest_words: rxptx::guest_words,
        options: &[DPDK, Section::of::<RxptxConfig>()],
        defaults: &[],
        returned: dpdk::swapped,
        preload: None,
        silent: false,
    },
    Benchmark {
        name: "pipeline",
        summary: "receives, works and transmits on cores of their own, over rings (stages.cores)",
        nodes: Nodes::One,
        image: "dpdk",
        ready_marker: dpdk::READY_MARKER,
        guest_words: pipeline::guest_words,
        options: &[DPDK, Section::of::<TouchConfig>(), Section::of::<StagesConfig>()],
        defaults: pipeline::DEFAULTS,
        returned: dpdk::swapped,
        preload: None,
        silent: false,
    },
    Benchmark {
        name: "ovs",
        summary: "Open vSwitch with DPDK joins ports in pairs: its threads, flows and caches of flows",
        nodes: Nodes::One,
        image: "ovs",
        ready_marker: dpdk::READY_MARKER,
        guest_words: ovs::guest_words,
        options: &[Section::of::<OvsConfig>()],
        defaults: ovs::DEFAULTS,
        returned: ovs::returned,
        preload: None,
        silent: false,
    },
    Benchmark {
        name: "ping",
        summary: "the kernel answers ICMP echo requests: interrupts, NAPI and the stack up to ICMP",
        nodes: Nodes::One,
        image: "net",
        ready_marker: kernel::READY_MARKER,
        guest_words: kernel::respond,
        options: &[KERNEL],
        defaults: kernel::PING,
        returned: kernel::returned,
        preload: None,
        silent: false,
    },
    Benchmark {
        name: "memcached-kernel",
        summary: "memcached answers GETs by UDP over the kernel's stack",
        nodes: Nodes::One,
        image: "net",
        ready_marker: kernel::READY_MARKER,
        guest_words: memcached_kernel::guest_words,
        options: &[KERNEL, Section::of::<MemcachedKernelConfig>()],
        defaults: kernel::MEMCACHED,
        returned: kernel::returned,
        preload: Some(Kind::MemcachedSet),
        silent: false,
    },
    Benchmark {
        name: "memcached-dpdk",
        summary: "a key-value store on DPDK answers the same GETs as memcached-kernel",
        nodes: Nodes::One,
        image: "dpdk",
        ready_marker: dpdk::READY_MARKER,
        guest_words: memcached::guest_words,
        options: &[DPDK, Section::of::<MemcachedDpdkConfig>()],
        defaults: kernel::MEMCACHED,
        returned: kernel::returned,
        preload: Some(Kind::MemcachedSet),
        silent: false,
    },
    Benchmark {
        name: "compute",
        summary: "a loop without input or output walks through a table (compute.table), for comparison",
        nodes: Nodes::One,
        image: "dpdk",
        ready_marker: dpdk::READY_MARKER,
        guest_words: compute::guest_words,
        options: &[Section::of::<ComputeConfig>()],
        defaults: &[],
        returned: compute::returned,
        preload: None,
        silent: true,
    },
    Benchmark {
        name: "iperf",
        summary: "iperf3 over TCP or UDP between two nodes on one cable: the kernel's network stack on both sides",
        nodes: Nodes::Two { guests: iperf::guests, run_up: |_| None, measure: iperf::measure },
        image: "net",
        options: &[KERNEL, Section::of::<IperfConfig>(), TRANSFER],
        ..BETWEEN_NODES
    },
    Benchmark {
        name: "netperf",
        summary: "netperf between two nodes on one cable: streams both ways, requests and responses by TCP and UDP",
        nodes: Nodes::Two { guests: netperf::guests, run_up: netperf::run_up, measure: netperf::measure },
        image: "netperf",
        options: &[KERNEL, Section::of::<NetperfConfig>(), TRANSFER],
        ..BETWEEN_NODES
    },
    Benchmark {
        name: "redis",
        summary: "redis-server answers GETs or SETs of redis-benchmark in a second node, one by one or in a pipeline",
        nodes: Nodes::Two {
            guests: redis::guests,
            run_up: transfer::run_up::<RedisConfig>,
            measure: transfer::measure_part::<RedisConfig>,
        },
        image: "servers",
        options: &[KERNEL, Section::of::<RedisConfig>(), TRANSFER],
        ..BETWEEN_NODES
    },
    Benchmark {
        name: "web",
        summary: "nginx answers the requests of wrk in a second node, over connections that stay",
        nodes: Nodes::Two {
            guests: web::guests,
            run_up: transfer::run_up::<WebConfig>,
            measure: transfer::measure_part::<WebConfig>,
        },
        image: "servers",
        options: &[KERNEL, Section::of::<WebConfig>(), TRANSFER],
        ..BETWEEN_NODES
    },
];
