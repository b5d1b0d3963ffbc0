//! Core configuration, as written in configuration files. The defaults are the core of table I of the ISPASS
//! 2024 paper (4-wide, ROB/IQ 128/120, LQ/SQ 68/72, 256 + 256 registers, BiMode, BTB of 8192). Values not in
//! the table are common choices for a core of that size.

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

impl DeviceStores {
    fn is_posted(&self) -> bool {
        *self == DeviceStores::Posted
    }
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

/// A core pipeline. All times are in cycles; the clock frequency is set elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PipelineConfig {
    /// `out-of-order` or `in-order`.
    pub kind: CoreKind,
    /// Ops fetched per cycle, 1 to 16.
    pub fetch_width: u32,
    /// Ops decoded per cycle, 1 to 16.
    pub decode_width: u32,
    /// Ops renamed per cycle, 1 to 16 (out-of-order).
    pub rename_width: u32,
    /// Ops dispatched per cycle, 1 to 16 (out-of-order).
    pub dispatch_width: u32,
    /// Ops issued per cycle, 1 to 16; the width of an in-order core.
    pub issue_width: u32,
    /// Results written back per cycle, 1 to 16.
    pub writeback_width: u32,
    /// Ops committed per cycle, 1 to 16 (out-of-order).
    pub commit_width: u32,
    /// Minimum cycles from an op's completion to its commit, 1 to 20 (out-of-order).
    pub commit_cycles: u32,
    /// Cycles from an instruction's arrival from the instruction cache to dispatch (in-order: issue), 3 to 40.
    pub front_end_depth: u32,
    /// Ops between fetch and dispatch, 1 to 1024. Fewer than (depth + 2) × width throttle the front end.
    pub fetch_queue: u32,
    /// Cycles from the execution of a mispredicted branch (or a memory-order violation) to the next fetch, 1
    /// to 100.
    pub redirect_cycles: u32,
    /// Cycles from the arrival of a branch that missed in the BTB to the fetch of its target, 1 to 100.
    pub misfetch_cycles: u32,
    /// Cycles from an interrupt or exception to the next fetch, 1 to 1000.
    pub trap_cycles: u32,
    /// Execution latency of a CSR access or privileged instruction in cycles, 1 to 1000.
    pub serialising_cycles: u32,
    /// Reorder buffer entries, 1 to 4096.
    pub rob: u32,
    /// In-order cores: ops that can issue before the oldest of them is complete (loads: has its data), 1 to
    /// 4096. With 0 only uses of a value wait for it.
    pub in_order_window: u32,
    /// Issue queue entries, 1 to 4096.
    pub iq: u32,
    /// Load queue entries, 1 to 4096 (in-order: loads in flight).
    pub lq: u32,
    /// Store queue entries, 1 to 4096 (in-order: store buffer entries).
    pub sq: u32,
    /// Physical integer registers, 33 to 8192, including the architectural 32.
    pub int_registers: u32,
    /// Physical floating-point registers, 33 to 8192.
    pub float_registers: u32,
    /// Cycles from a load's or store's issue to its cache access, 1 to 20.
    pub address_cycles: u32,
    /// Latency of store-to-load forwarding in cycles, 1 to 100.
    pub forward_cycles: u32,
    /// `store-sets`, `wait` or `perfect`.
    pub memory_dependence: MemoryDependence,
    /// Entries of the table that maps an instruction address to its store set, a power of two from 16 to
    /// 65536.
    pub store_sets: u32,
    /// Loads after which the store sets are cleared, 1000 to 1000000000.
    pub store_set_clear: u64,
    /// `out-of-order` or `in-order`.
    pub store_drain: StoreDrain,
    /// `posted` or `ordered`: whether later stores wait until the root complex has acknowledged a store to a
    /// device.
    #[serde(skip_serializing_if = "DeviceStores::is_posted")]
    pub device_stores: DeviceStores,
    /// Stores sent to the cache per cycle, 1 to 16.
    pub drain_width: u32,
    /// Stores in flight to the cache, 1 to 64.
    pub drains_in_flight: u32,
    /// Decoded-instruction buffer next to the instruction cache.
    pub decoded: DecodedConfig,
    /// Functional units.
    pub units: UnitsConfig,
    /// Branch prediction.
    pub branch: BranchConfig,
    /// Address translation.
    pub tlb: TlbConfig,
}

impl Default for PipelineConfig {
    fn default() -> Self {
        PipelineConfig {
            kind: CoreKind::OutOfOrder,
            fetch_width: 4,
            decode_width: 4,
            rename_width: 4,
            dispatch_width: 4,
            issue_width: 4,
            writeback_width: 4,
            commit_width: 4,
            commit_cycles: 1,
            front_end_depth: 5,
            fetch_queue: 48,
            redirect_cycles: 1,
            misfetch_cycles: 2,
            trap_cycles: 8,
            serialising_cycles: 1,
            rob: 128,
            in_order_window: 0,
            iq: 120,
            lq: 68,
            sq: 72,
            int_registers: 256,
            float_registers: 256,
            address_cycles: 1,
            forward_cycles: 2,
            memory_dependence: MemoryDependence::StoreSets,
            store_sets: 1024,
            store_set_clear: 1 << 18,
            store_drain: StoreDrain::OutOfOrder,
            device_stores: DeviceStores::Posted,
            drain_width: 1,
            drains_in_flight: 6,
            decoded: DecodedConfig::default(),
            units: UnitsConfig::default(),
            branch: BranchConfig::default(),
            tlb: TlbConfig::default(),
        }
    }
}

/// Decoded-instruction buffer (op cache, DSB, DIB): a hit bypasses the instruction cache and the decoders.
/// Its capacity is sets × ways × window bytes of code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DecodedConfig {
    /// Sets, a power of two up to 4096; 0 for no buffer.
    pub sets: u32,
    /// Windows per set, 1 to 64, replaced least recently used first.
    pub ways: u32,
    /// Bytes of code per window, a power of two from 4 to 64.
    pub window: u32,
    /// Cycles from the fetch of a buffered window to its decoded ops, 1 to 20.
    pub latency: u32,
}

impl Default for DecodedConfig {
    fn default() -> Self {
        DecodedConfig { sets: 0, ways: 8, window: 16, latency: 1 }
    }
}

/// Functional units: their number, cycles from issue to result, and cycles between two starts on one unit (1:
/// pipelined).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct UnitsConfig {
    /// Integer units, 1 to 16.
    pub alus: u32,
    /// Branch units, 1 to 16; with 0 branches use the integer units.
    pub branch_units: u32,
    /// Integer multipliers, 1 to 16.
    pub multipliers: u32,
    /// Integer dividers, 1 to 16.
    pub dividers: u32,
    /// Floating-point adders, 1 to 16.
    pub float_adders: u32,
    /// Floating-point multipliers, which also do multiply-add, 1 to 16.
    pub float_multipliers: u32,
    /// Floating-point dividers, 1 to 16.
    pub float_dividers: u32,
    /// Loads issued per cycle, 1 to 16.
    pub load_ports: u32,
    /// Stores issued per cycle, 1 to 16; with 0 stores use the load ports.
    pub store_ports: u32,
    /// Latency of integer ops, 1 to 200 cycles.
    pub alu_cycles: u32,
    /// Latency of branches, 1 to 200 cycles.
    pub branch_cycles: u32,
    /// Latency of integer multiplication, 1 to 200 cycles.
    pub multiply_cycles: u32,
    /// Latency of integer division, 1 to 200 cycles.
    pub divide_cycles: u32,
    /// Latency of floating-point addition, 1 to 200 cycles.
    pub float_add_cycles: u32,
    /// Latency of floating-point multiplication, 1 to 200 cycles.
    pub float_multiply_cycles: u32,
    /// Latency of multiply-add, 1 to 200 cycles.
    pub float_fma_cycles: u32,
    /// Latency of floating-point division and square root, 1 to 200 cycles.
    pub float_divide_cycles: u32,
    /// Cycles between two multiplications on one multiplier, 1 to 200.
    pub multiply_interval: u32,
    /// Cycles between two divisions on one divider, 1 to 200.
    pub divide_interval: u32,
    /// Cycles between two starts on one floating-point adder, 1 to 200.
    pub float_add_interval: u32,
    /// Cycles between two starts on one floating-point multiplier, 1 to 200.
    pub float_multiply_interval: u32,
    /// Cycles between two divisions on one floating-point divider, 1 to 200.
    pub float_divide_interval: u32,
}

impl Default for UnitsConfig {
    fn default() -> Self {
        UnitsConfig {
            alus: 4,
            branch_units: 2,
            multipliers: 1,
            dividers: 1,
            float_adders: 2,
            float_multipliers: 2,
            float_dividers: 1,
            load_ports: 2,
            store_ports: 1,
            alu_cycles: 1,
            branch_cycles: 1,
            multiply_cycles: 3,
            divide_cycles: 20,
            float_add_cycles: 3,
            float_multiply_cycles: 4,
            float_fma_cycles: 5,
            float_divide_cycles: 12,
            multiply_interval: 1,
            divide_interval: 20,
            float_add_interval: 1,
            float_multiply_interval: 1,
            float_divide_interval: 12,
        }
    }
}

/// Branch prediction. All table sizes are powers of two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BranchConfig {
    /// `bimodal`, `bimode`, `tage` or `tournament`.
    pub direction: DirectionPredictor,
    /// Counters of the bimodal predictor, which is also the base of TAGE: 16 to 1048576.
    pub bimodal_entries: u32,
    /// Counters of BiMode's choice table, 16 to 1048576.
    pub bimode_choice_entries: u32,
    /// Counters of each of BiMode's two direction tables, 16 to 1048576.
    pub bimode_direction_entries: u32,
    /// Tagged tables of TAGE, 2 to 12.
    pub tage_tables: u32,
    /// Entries per tagged table, 64 to 65536.
    pub tage_entries: u32,
    /// Bits of a tag, 6 to 15.
    pub tage_tag_bits: u32,
    /// History bits of the first tagged table, 2 to 64.
    pub tage_history_min: u32,
    /// History bits of the last tagged table, above the first's and up to 480.
    pub tage_history_max: u32,
    /// Entries of the tournament predictor's local-history table, 16 to 65536.
    pub tournament_histories: u32,
    /// Counters of the tournament predictor's local part, indexed by local history, 16 to 1048576.
    pub tournament_local_entries: u32,
    /// Counters of the tournament predictor's global part, and of its chooser, 16 to 1048576.
    pub tournament_global_entries: u32,
    /// Entries of the branch target buffer, 16 to 1048576.
    pub btb_entries: u32,
    /// Associativity of the branch target buffer, 1 to 16.
    pub btb_ways: u32,
    /// Low address bits that are not used to index the branch target buffer, 0 to 6: 1 suits code with
    /// two-byte instructions, 2 code with four-byte instructions only.
    pub btb_set_shift: u32,
    /// Entries of the indirect-target predictor, 16 to 65536; with 0 indirect jumps use the BTB.
    pub indirect_entries: u32,
    /// Entries of the return stack, 1 to 256.
    pub return_stack: u32,
}

impl Default for BranchConfig {
    fn default() -> Self {
        BranchConfig {
            direction: DirectionPredictor::BiMode,
            bimodal_entries: 8192,
            bimode_choice_entries: 8192,
            bimode_direction_entries: 8192,
            tage_tables: 7,
            tage_entries: 1024,
            tage_tag_bits: 10,
            tage_history_min: 5,
            tage_history_max: 130,
            tournament_histories: 2048,
            tournament_local_entries: 2048,
            tournament_global_entries: 8192,
            btb_entries: 8192,
            btb_ways: 4,
            btb_set_shift: 1,
            indirect_entries: 512,
            return_stack: 16,
        }
    }
}

/// Address translation. Entries divided by ways are powers of two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TlbConfig {
    /// Entries of the instruction TLB, 1 to 4096.
    pub instruction_entries: u32,
    /// Associativity of the instruction TLB, 1 to 4096.
    pub instruction_ways: u32,
    /// Entries of the data TLB, 1 to 4096.
    pub data_entries: u32,
    /// Associativity of the data TLB, 1 to 4096.
    pub data_ways: u32,
    /// Entries of the shared second-level TLB, 1 to 65536; 0 for none.
    pub second_entries: u32,
    /// Associativity of the second-level TLB, 1 to 65536.
    pub second_ways: u32,
    /// Latency of the second-level TLB in cycles, 0 to 100.
    pub second_cycles: u32,
    /// Concurrent page walks, 1 to 8.
    pub walkers: u32,
    /// Entries of the page-walk cache (non-leaf page-table entries), 0 to 64.
    pub walk_cache: u32,
    /// The lowest page-table level in the page-walk cache, 1 to 4. With 1 (just above the leaves) a walk of a
    /// neighbouring page reads only its leaf; with 2 it reads two entries, as in ChampSim.
    pub walk_cache_from: u32,
    /// Page-fault penalty: extra cycles of a walk per page that had to be allocated for it, 0 to 100000. It
    /// applies only to page tables built during trace playback (`playback.pages`); a guest handles its own
    /// page faults.
    pub fault_cycles: u32,
}

impl Default for TlbConfig {
    fn default() -> Self {
        TlbConfig {
            instruction_entries: 64,
            instruction_ways: 4,
            data_entries: 64,
            data_ways: 4,
            second_entries: 1024,
            second_ways: 8,
            second_cycles: 6,
            walkers: 1,
            walk_cache: 16,
            walk_cache_from: 1,
            fault_cycles: 0,
        }
    }
}
