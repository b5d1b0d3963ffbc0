//! Table of all benchmarks, in the order of the help, the documents and the configuration's sections.

use doorbell_loadgen::{Kind, Returned};
use doorbell_sim::Ps;

use super::{Benchmark, Nodes};
use crate::measure::playback::TRACE;
use crate::measure::transfer::{self, TransferConfig};
use crate::plan::cores;
use crate::plan::dpdk::{self, DpdkConfig};
use crate::plan::kernel::{self, KernelConfig};
use crate::plan::options::Section;
use crate::scenarios::compute::{self, ComputeConfig};
use crate::scenarios::iperf::{self, IperfConfig};
use crate::scenarios::l3fwd::{self, L3fwdConfig};
use crate::scenarios::memcached::{self, MemcachedDpdkConfig};
use crate::scenarios::memcached_kernel::{self, MemcachedKernelConfig};
use crate::scenarios::nat::{self, NatConfig};
use crate::scenarios::neighbour::{self, NeighbourConfig};
use crate::scenarios::netperf::{self, NetperfConfig};
use crate::scenarios::nfs::NfsConfig;
use crate::scenarios::ovs::{self, OvsConfig};
use crate::scenarios::pipeline::{self, StagesConfig};
use crate::scenarios::redis::RedisConfig;
use crate::scenarios::rxptx::{self, RxptxConfig};
use crate::scenarios::suricata::{self, SuricataConfig};
use crate::scenarios::testpmd::{self, TestpmdConfig};
use crate::scenarios::touch::{self, TouchConfig};
use crate::scenarios::web::WebConfig;

/// Section of all DPDK programs.
pub(super) const DPDK: Section = Section::of::<DpdkConfig>();
/// Section of all programs over the kernel's network stack.
const KERNEL: Section = Section::of::<KernelConfig>();
/// Section of all benchmarks with a transfer between two nodes.
const TRANSFER: Section = Section::of::<TransferConfig>();

/// Entry for a network described by a file. It is not in [`BENCHMARKS`], so it cannot be selected by name.
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
    pause: |_| kernel::PAUSE,
    rings: |_| None,
    counting: None,
    check: |_| Ok(()),
    remark: |_| None,
};

/// Entry for trace playback. It is not in [`BENCHMARKS`], so it cannot be selected by name.
pub const PLAYED: Benchmark = Benchmark {
    name: TRACE,
    summary: "plays a recorded trace of a machine's instructions and device activity from a file",
    nodes: Nodes::One,
    image: "",
    ready_marker: "",
    returned: |_| Returned::Any,
    silent: true,
    ..NETWORK
};

/// Base of benchmarks between two nodes. Their guests define the command line and the ready marker of each
/// node.
const BETWEEN_NODES: Benchmark = Benchmark { defaults: iperf::DEFAULTS, ..NETWORK };

/// Base of DPDK programs that poll descriptor rings.
const DPDK_PROGRAM: Benchmark = Benchmark {
    nodes: Nodes::One,
    image: "dpdk",
    ready_marker: dpdk::READY_MARKER,
    returned: dpdk::swapped,
    pause: |_| Ps::ZERO,
    rings: |config| Some(config.options::<DpdkConfig>().rings()),
    ..NETWORK
};

/// Base of programs over the kernel's network stack.
const KERNEL_PROGRAM: Benchmark = Benchmark { nodes: Nodes::One, options: &[KERNEL], ..NETWORK };

/// All benchmarks.
pub const BENCHMARKS: &[Benchmark] = &[
    Benchmark {
        name: "testpmd",
        summary: "DPDK's testpmd forwards every frame back: the path through NIC, PCIe, memory and a polling core",
        image: "testpmd",
        ready_marker: testpmd::READY_MARKER,
        guest_words: testpmd::guest_words,
        options: &[DPDK, Section::of::<TestpmdConfig>()],
        returned: testpmd::returned,
        check: |config| dpdk::check_jumbo_program(config.options::<TestpmdConfig>().queues(), config),
        remark: testpmd::remark,
        ..DPDK_PROGRAM
    },
    Benchmark {
        name: "l3fwd",
        summary: "DPDK's l3fwd routes every frame by longest prefix match",
        ready_marker: l3fwd::READY_MARKER,
        guest_words: l3fwd::guest_words,
        options: &[DPDK, Section::of::<L3fwdConfig>()],
        defaults: l3fwd::DEFAULTS,
        returned: dpdk::routed,
        check: l3fwd::check,
        remark: |config| {
            cores::remark_of_addresses("l3fwd.cores", config.options::<L3fwdConfig>().cores, config)
        },
        ..DPDK_PROGRAM
    },
    Benchmark {
        name: "touchfwd",
        summary: "reads every byte of each frame, then sends it back",
        guest_words: touch::touchfwd,
        options: &[DPDK, Section::of::<TouchConfig>()],
        check: |config| dpdk::check_own_program(config.options::<TouchConfig>().cores, config),
        remark: |config| cores::remark("touch.cores", config.options::<TouchConfig>().cores, config),
        ..DPDK_PROGRAM
    },
    Benchmark {
        name: "touchdrop",
        summary: "reads every byte of each frame and drops it; a frame is delivered when it is in guest memory",
        guest_words: touch::touchdrop,
        options: &[DPDK, Section::of::<TouchConfig>()],
        returned: dpdk::sink,
        check: |config| dpdk::check_own_program(config.options::<TouchConfig>().cores, config),
        remark: |config| cores::remark("touch.cores", config.options::<TouchConfig>().cores, config),
        ..DPDK_PROGRAM
    },
    Benchmark {
        name: "rxptx",
        summary: "receives a burst, works for a set time (rxptx.work), and sends the burst back",
        guest_words: rxptx::guest_words,
        options: &[DPDK, Section::of::<RxptxConfig>()],
        pause: |config| config.options::<RxptxConfig>().work,
        check: |config| dpdk::check_own_program(config.options::<RxptxConfig>().cores, config),
        remark: |config| cores::remark("rxptx.cores", config.options::<RxptxConfig>().cores, config),
        ..DPDK_PROGRAM
    },
    Benchmark {
        name: "pipeline",
        summary: "separate cores receive, work and transmit, connected by rings (stages.cores)",
        guest_words: pipeline::guest_words,
        options: &[DPDK, Section::of::<TouchConfig>(), Section::of::<StagesConfig>()],
        defaults: pipeline::DEFAULTS,
        check: |config| dpdk::check_own_program(config.options::<StagesConfig>().cores.unwrap_or(1), config),
        remark: |config| {
            cores::remark("stages.cores", config.options::<StagesConfig>().cores.unwrap_or(1), config)
        },
        ..DPDK_PROGRAM
    },
    Benchmark {
        name: "ovs",
        summary: "Open vSwitch with DPDK connects ports in pairs: PMD threads, flows and flow caches",
        image: "ovs",
        guest_words: ovs::guest_words,
        options: &[Section::of::<OvsConfig>()],
        defaults: ovs::DEFAULTS,
        returned: ovs::returned,
        rings: |config| Some(config.options::<OvsConfig>().rings()),
        remark: ovs::remark,
        ..DPDK_PROGRAM
    },
    Benchmark {
        name: "neighbour",
        summary: "touchfwd next to programs that use much cache or bandwidth (neighbour.cores, .table, .pattern)",
        image: "neighbour",
        guest_words: neighbour::guest_words,
        options: &[DPDK, Section::of::<TouchConfig>(), Section::of::<NeighbourConfig>()],
        defaults: neighbour::DEFAULTS,
        check: |config| dpdk::check_own_program(config.options::<TouchConfig>().cores, config),
        remark: |config| cores::remark("touch.cores", config.options::<TouchConfig>().cores, config),
        ..DPDK_PROGRAM
    },
    Benchmark {
        name: "ping",
        summary: "the kernel answers ICMP echo requests: interrupts, NAPI and the stack up to ICMP",
        guest_words: kernel::respond,
        defaults: kernel::PING,
        ..KERNEL_PROGRAM
    },
    Benchmark {
        name: "memcached-kernel",
        summary: "memcached answers GETs over UDP and the kernel's stack",
        guest_words: memcached_kernel::guest_words,
        options: &[KERNEL, Section::of::<MemcachedKernelConfig>()],
        defaults: kernel::MEMCACHED,
        preload: Some(Kind::MemcachedSet),
        remark: memcached_kernel::remark,
        ..KERNEL_PROGRAM
    },
    Benchmark {
        name: "suricata",
        summary: "an intrusion detection system monitors a copy of the traffic; a frame is delivered when decoded",
        image: "suricata",
        guest_words: suricata::guest_words,
        options: &[KERNEL, Section::of::<SuricataConfig>()],
        defaults: suricata::DEFAULTS,
        returned: dpdk::sink,
        counting: Some(&suricata::COUNTING),
        ..KERNEL_PROGRAM
    },
    Benchmark {
        name: "memcached-dpdk",
        summary: "a key-value store on DPDK answers the same GETs as memcached-kernel",
        guest_words: memcached::guest_words,
        options: &[DPDK, Section::of::<MemcachedDpdkConfig>()],
        defaults: kernel::MEMCACHED,
        returned: kernel::returned,
        preload: Some(Kind::MemcachedSet),
        check: memcached::check,
        remark: memcached::remark,
        ..DPDK_PROGRAM
    },
    Benchmark {
        name: "compute",
        summary: "a loop without I/O walks through a table (compute.table), for comparison",
        nodes: Nodes::One,
        image: "dpdk",
        ready_marker: dpdk::READY_MARKER,
        guest_words: compute::guest_words,
        options: &[Section::of::<ComputeConfig>()],
        returned: compute::returned,
        silent: true,
        ..NETWORK
    },
    Benchmark {
        name: "iperf",
        summary: "iperf3 over TCP or UDP between two nodes on one cable: the kernel's network stack on both sides",
        nodes: Nodes::Joined {
            guests: transfer::guests::<IperfConfig>,
            ramp: |_| None,
            measure: iperf::measure,
        },
        image: "net",
        options: &[KERNEL, Section::of::<IperfConfig>(), TRANSFER],
        ..BETWEEN_NODES
    },
    Benchmark {
        name: "netperf",
        summary: "netperf between two nodes on one cable: streams in both directions, requests over TCP and UDP",
        nodes: Nodes::Joined { guests: netperf::guests, ramp: netperf::ramp, measure: netperf::measure },
        image: "netperf",
        options: &[KERNEL, Section::of::<NetperfConfig>(), TRANSFER, Section::of::<SuricataConfig>()],
        ..BETWEEN_NODES
    },
    Benchmark {
        name: "redis",
        summary: "redis-server answers GETs or SETs of redis-benchmark in a second node, optionally pipelined",
        nodes: Nodes::Joined {
            guests: transfer::guests::<RedisConfig>,
            ramp: transfer::ramp::<RedisConfig>,
            measure: transfer::measure_part::<RedisConfig>,
        },
        image: "servers",
        options: &[KERNEL, Section::of::<RedisConfig>(), TRANSFER],
        ..BETWEEN_NODES
    },
    Benchmark {
        name: "web",
        summary: "nginx or Apache serves wrk in a second node over persistent connections",
        nodes: Nodes::Joined {
            guests: transfer::guests::<WebConfig>,
            ramp: transfer::ramp::<WebConfig>,
            measure: transfer::measure_part::<WebConfig>,
        },
        image: "servers",
        options: &[KERNEL, Section::of::<WebConfig>(), TRANSFER],
        ..BETWEEN_NODES
    },
    Benchmark {
        name: "nfs",
        summary: "Linux's NFS server receives files that programs in a second node write block by block",
        nodes: Nodes::Joined {
            guests: transfer::guests::<NfsConfig>,
            ramp: transfer::ramp::<NfsConfig>,
            measure: transfer::measure_part::<NfsConfig>,
        },
        image: "nfs",
        options: &[KERNEL, Section::of::<NfsConfig>(), TRANSFER],
        ..BETWEEN_NODES
    },
    Benchmark {
        name: "nat",
        summary: "a Linux gateway with two ports translates addresses between client and server: netperf, web",
        nodes: Nodes::Joined { guests: nat::guests, ramp: nat::ramp, measure: nat::measure },
        image: "nat",
        options: &[
            KERNEL,
            Section::of::<NetperfConfig>(),
            Section::of::<WebConfig>(),
            TRANSFER,
            Section::of::<NatConfig>(),
        ],
        defaults: nat::DEFAULTS,
        ..BETWEEN_NODES
    },
];
