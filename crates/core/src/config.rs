//! Core configuration, as written in configuration files. The defaults are the core of table I of the ISPASS
//! 2024 paper (4-wide, ROB/IQ 128/120, LQ/SQ 68/72, 256 + 256 registers, BiMode, BTB of 8192). Values not in
//! the table are common choices for a core of that size.

use doorbell_sim::config;
use doorbell_sim::config::{PowersOfTwo, is_default};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CoreKind {
    /// Issues an op when its operands and unit are available; commits in order.
    #[default]
    OutOfOrder,
    /// Issues in order and stalls when an operand is not available.
    InOrder,
}

/// Memory-dependence policy: when a load may pass older stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryDependence {
    /// Loads pass stores with unknown addresses unless the pair violated memory order before; a violation
    /// squashes the load and all younger ops.
    #[default]
    StoreSets,
    /// Loads wait for the addresses of all older stores.
    Wait,
    /// Loads wait only for the older stores that they depend on (oracle).
    Perfect,
}

/// The order in which committed stores leave the store queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StoreDrain {
    /// A store that misses does not delay others (RVWMO allows it).
    #[default]
    OutOfOrder,
    /// In program order (as TSO demands).
    InOrder,
}

/// Ordering of stores to devices within the core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceStores {
    /// A device store holds up nothing: it passes older stores to memory, later ones pass it, and fences
    /// order them (RVWMO).
    #[default]
    Posted,
    /// A device store holds up later stores. It occupies a store-queue entry and leaves after the older
    /// stores are written. Younger stores wait until the root complex has acknowledged it (strong uncacheable
    /// memory of x86-64: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 3, "Memory
    /// types").
    Ordered,
}

/// The direction predictor of conditional branches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DirectionPredictor {
    /// Two-bit counters indexed by address.
    Bimodal,
    /// A choice table and two tables indexed by address and history.
    #[default]
    BiMode,
    /// Tagged tables with geometrically growing histories.
    Tage,
    /// A local and a global predictor with a chooser (Alpha 21264).
    Tournament,
}

config! {
    /// A core pipeline. All times are in cycles; the clock frequency is set elsewhere.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct PipelineConfig {
        /// `out-of-order` or `in-order`.
        pub kind: CoreKind = CoreKind::OutOfOrder,
        /// Ops fetched per cycle, 1 to 16.
        pub fetch_width: u32 [1..=16] = 4,
        /// Ops decoded per cycle, 1 to 16.
        pub decode_width: u32 [1..=16] = 4,
        /// Ops renamed per cycle, 1 to 16 (out-of-order).
        pub rename_width: u32 [1..=16] = 4,
        /// Ops dispatched per cycle, 1 to 16 (out-of-order).
        pub dispatch_width: u32 [1..=16] = 4,
        /// Ops issued per cycle, 1 to 16; the width of an in-order core.
        pub issue_width: u32 [1..=16] = 4,
        /// Results written back per cycle, 1 to 16.
        pub writeback_width: u32 [1..=16] = 4,
        /// Ops committed per cycle, 1 to 16 (out-of-order).
        pub commit_width: u32 [1..=16] = 4,
        /// Minimum cycles from an op's completion to its commit, 1 to 20 (out-of-order).
        pub commit_cycles: u32 [1..=20] = 1,
        /// Cycles from an instruction's arrival from the instruction cache to dispatch (in-order: issue), 3
        /// to 40.
        pub front_end_depth: u32 [3..=40] = 5,
        /// Ops between fetch and dispatch, 1 to 1024. Fewer than (depth + 2) × width throttle the front end.
        pub fetch_queue: u32 [1..=1024] = 48,
        /// Cycles from the execution of a mispredicted branch (or a memory-order violation) to the next
        /// fetch, 1 to 100.
        pub redirect_cycles: u32 [1..=100] = 1,
        /// Cycles from the arrival of a branch that missed in the BTB to the fetch of its target, 1 to 100.
        pub misfetch_cycles: u32 [1..=100] = 2,
        /// Cycles from an interrupt or exception to the next fetch, 1 to 1000.
        pub trap_cycles: u32 [1..=1000] = 8,
        /// Execution latency of a CSR access or privileged instruction in cycles, 1 to 1000.
        pub serialising_cycles: u32 [1..=1000] = 1,
        /// Reorder buffer entries, 1 to 4096.
        pub rob: u32 [1..=4096] = 128,
        /// In-order cores: ops that can issue before the oldest of them is complete (loads: has its data), 1
        /// to 4096. With 0 only uses of a value wait for it.
        pub in_order_window: u32 [0..=4096] = 0,
        /// Issue queue entries, 1 to 4096.
        pub iq: u32 [1..=4096] = 120,
        /// Load queue entries, 1 to 4096 (in-order: loads in flight).
        pub lq: u32 [1..=4096] = 68,
        /// Store queue entries, 1 to 4096 (in-order: store buffer entries).
        pub sq: u32 [1..=4096] = 72,
        /// Physical integer registers, 33 to 8192, including the architectural 32.
        pub int_registers: u32 [33..=8192] = 256,
        /// Physical floating-point registers, 33 to 8192.
        pub float_registers: u32 [33..=8192] = 256,
        /// Cycles from a load's or store's issue to its cache access, 1 to 20.
        pub address_cycles: u32 [1..=20] = 1,
        /// Latency of store-to-load forwarding in cycles, 1 to 100.
        pub forward_cycles: u32 [1..=100] = 2,
        /// `store-sets`, `wait` or `perfect`.
        pub memory_dependence: MemoryDependence = MemoryDependence::StoreSets,
        /// Entries of the table that maps an instruction address to its store set, a power of two from 16 to
        /// 65536.
        pub store_sets: u32 [PowersOfTwo(16..=65536)] = 1024,
        /// Loads after which the store sets are cleared, 1000 to 1000000000.
        pub store_set_clear: u64 [1000..=1_000_000_000] = 1 << 18,
        /// `out-of-order` or `in-order`.
        pub store_drain: StoreDrain = StoreDrain::OutOfOrder,
        /// `posted` or `ordered`: whether later stores wait until the root complex has acknowledged a store
        /// to a device.
        #[serde(skip_serializing_if = "is_default")]
        pub device_stores: DeviceStores = DeviceStores::Posted,
        /// Stores sent to the cache per cycle, 1 to 16.
        pub drain_width: u32 [1..=16] = 1,
        /// Stores in flight to the cache, 1 to 64.
        pub drains_in_flight: u32 [1..=64] = 6,
        /// Decoded-instruction buffer next to the instruction cache.
        pub decoded: DecodedConfig = DecodedConfig::default(),
        /// Functional units.
        pub units: UnitsConfig = UnitsConfig::default(),
        /// Branch prediction.
        pub branch: BranchConfig = BranchConfig::default(),
        /// Address translation.
        pub tlb: TlbConfig = TlbConfig::default(),
    }
}

config! {
    /// Decoded-instruction buffer (op cache, DSB, DIB): a hit bypasses the instruction cache and the
    /// decoders. Its capacity is sets × ways × window bytes of code.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct DecodedConfig {
        /// Sets, a power of two up to 4096; 0 for no buffer.
        pub sets: u32 = 0,
        /// Windows per set, 1 to 64, replaced least recently used first.
        pub ways: u32 [1..=64] = 8,
        /// Bytes of code per window, a power of two from 4 to 64.
        pub window: u32 [PowersOfTwo(4..=64)] = 16,
        /// Cycles from the fetch of a buffered window to its decoded ops, 1 to 20.
        pub latency: u32 [1..=20] = 1,
    }
}

config! {
    /// Functional units: their number, cycles from issue to result, and cycles between two starts on one unit
    /// (1: pipelined).
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct UnitsConfig {
        /// Integer units, 1 to 16.
        pub alus: u32 [1..=16] = 4,
        /// Branch units, 1 to 16; with 0 branches use the integer units.
        pub branch_units: u32 [0..=16] = 2,
        /// Integer multipliers, 1 to 16.
        pub multipliers: u32 [1..=16] = 1,
        /// Integer dividers, 1 to 16.
        pub dividers: u32 [1..=16] = 1,
        /// Floating-point adders, 1 to 16.
        pub float_adders: u32 [1..=16] = 2,
        /// Floating-point multipliers, which also do multiply-add, 1 to 16.
        pub float_multipliers: u32 [1..=16] = 2,
        /// Floating-point dividers, 1 to 16.
        pub float_dividers: u32 [1..=16] = 1,
        /// Loads issued per cycle, 1 to 16.
        pub load_ports: u32 [1..=16] = 2,
        /// Stores issued per cycle, 1 to 16; with 0 stores use the load ports.
        pub store_ports: u32 [0..=16] = 1,
        /// Latency of integer ops, 1 to 200 cycles.
        pub alu_cycles: u32 [1..=200] = 1,
        /// Latency of branches, 1 to 200 cycles.
        pub branch_cycles: u32 [1..=200] = 1,
        /// Latency of integer multiplication, 1 to 200 cycles.
        pub multiply_cycles: u32 [1..=200] = 3,
        /// Latency of integer division, 1 to 200 cycles.
        pub divide_cycles: u32 [1..=200] = 20,
        /// Latency of floating-point addition, 1 to 200 cycles.
        pub float_add_cycles: u32 [1..=200] = 3,
        /// Latency of floating-point multiplication, 1 to 200 cycles.
        pub float_multiply_cycles: u32 [1..=200] = 4,
        /// Latency of multiply-add, 1 to 200 cycles.
        pub float_fma_cycles: u32 [1..=200] = 5,
        /// Latency of floating-point division and square root, 1 to 200 cycles.
        pub float_divide_cycles: u32 [1..=200] = 12,
        /// Cycles between two multiplications on one multiplier, 1 to 200.
        pub multiply_interval: u32 [1..=200] = 1,
        /// Cycles between two divisions on one divider, 1 to 200.
        pub divide_interval: u32 [1..=200] = 20,
        /// Cycles between two starts on one floating-point adder, 1 to 200.
        pub float_add_interval: u32 [1..=200] = 1,
        /// Cycles between two starts on one floating-point multiplier, 1 to 200.
        pub float_multiply_interval: u32 [1..=200] = 1,
        /// Cycles between two divisions on one floating-point divider, 1 to 200.
        pub float_divide_interval: u32 [1..=200] = 12,
    }
}

config! {
    /// Branch prediction. All table sizes are powers of two.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct BranchConfig {
        /// `bimodal`, `bimode`, `tage` or `tournament`.
        pub direction: DirectionPredictor = DirectionPredictor::BiMode,
        /// Counters of the bimodal predictor, which is also the base of TAGE: 16 to 1048576.
        pub bimodal_entries: u32 [PowersOfTwo(16..=1 << 20)] = 8192,
        /// Counters of BiMode's choice table, 16 to 1048576.
        pub bimode_choice_entries: u32 [PowersOfTwo(16..=1 << 20)] = 8192,
        /// Counters of each of BiMode's two direction tables, 16 to 1048576.
        pub bimode_direction_entries: u32 [PowersOfTwo(16..=1 << 20)] = 8192,
        /// Tagged tables of TAGE, 2 to 12.
        pub tage_tables: u32 [2..=12] = 7,
        /// Entries per tagged table, 64 to 65536.
        pub tage_entries: u32 [PowersOfTwo(64..=65536)] = 1024,
        /// Bits of a tag, 6 to 15.
        pub tage_tag_bits: u32 [6..=15] = 10,
        /// History bits of the first tagged table, 2 to 64.
        pub tage_history_min: u32 [2..=64] = 5,
        /// History bits of the last tagged table, above the first's and up to 480.
        pub tage_history_max: u32 = 130,
        /// Entries of the tournament predictor's local-history table, 16 to 65536.
        pub tournament_histories: u32 [PowersOfTwo(16..=65536)] = 2048,
        /// Counters of the tournament predictor's local part, indexed by local history, 16 to 1048576.
        pub tournament_local_entries: u32 [PowersOfTwo(16..=1 << 20)] = 2048,
        /// Counters of the tournament predictor's global part, and of its chooser, 16 to 1048576.
        pub tournament_global_entries: u32 [PowersOfTwo(16..=1 << 20)] = 8192,
        /// Entries of the branch target buffer, 16 to 1048576.
        pub btb_entries: u32 [PowersOfTwo(16..=1 << 20)] = 8192,
        /// Associativity of the branch target buffer, 1 to 16.
        pub btb_ways: u32 [1..=16] = 4,
        /// Low address bits that are not used to index the branch target buffer, 0 to 6: 1 suits code with
        /// two-byte instructions, 2 code with four-byte instructions only.
        pub btb_set_shift: u32 [0..=6] = 1,
        /// Entries of the indirect-target predictor, 16 to 65536; with 0 indirect jumps use the BTB.
        pub indirect_entries: u32 = 512,
        /// Entries of the return stack, 1 to 256.
        pub return_stack: u32 [1..=256] = 16,
    }
}

config! {
    /// Address translation. Entries divided by ways are powers of two.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct TlbConfig {
        /// Entries of the instruction TLB, 1 to 4096.
        pub instruction_entries: u32 = 64,
        /// Associativity of the instruction TLB, 1 to 4096.
        pub instruction_ways: u32 = 4,
        /// Entries of the data TLB, 1 to 4096.
        pub data_entries: u32 = 64,
        /// Associativity of the data TLB, 1 to 4096.
        pub data_ways: u32 = 4,
        /// Entries of the shared second-level TLB, 1 to 65536; 0 for none.
        pub second_entries: u32 = 1024,
        /// Associativity of the second-level TLB, 1 to 65536.
        pub second_ways: u32 = 8,
        /// Latency of the second-level TLB in cycles, 0 to 100.
        pub second_cycles: u32 [0..=100] = 6,
        /// Concurrent page walks, 1 to 8.
        pub walkers: u32 [1..=8] = 1,
        /// Entries of the page-walk cache (non-leaf page-table entries), 0 to 64.
        pub walk_cache: u32 [0..=64] = 16,
        /// The lowest page-table level in the page-walk cache, 1 to 4. With 1 (just above the leaves) a walk
        /// of a neighbouring page reads only its leaf; with 2 it reads two entries, as in ChampSim.
        pub walk_cache_from: u32 [1..=4] = 1,
        /// Page-fault penalty: extra cycles of a walk per page that had to be allocated for it, 0 to 100000.
        /// It applies only to page tables built during trace playback (`playback.pages`); a guest handles its
        /// own page faults.
        pub fault_cycles: u32 [0..=100_000] = 0,
    }
}
