//! The figures of the timing models: one definition each, with its place in `summary.json`, its unit and its
//! meaning. Measuring code stores values under these keys, reports and analyses read them by the same keys.

/// The unit of a figure, which also states how it is derived from counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A sum over the measurement: events, packets, instructions or cycles.
    Count,
    /// A share from 0 to 1.
    Share,
    /// A share from 0 to 100.
    Percent,
    /// A quotient without a unit, such as instructions per cycle.
    Ratio,
    /// A mean per delivered packet.
    PerPacket,
    /// A mean per thousand instructions.
    PerKilo,
    /// A mean per instruction.
    PerInstruction,
    /// A mean number of core cycles.
    Cycles,
    /// A mean time in nanoseconds.
    Nanoseconds,
    /// A mean number of used entries.
    Entries,
    /// A rate in 10⁹ bits per second.
    Gbps,
    /// A rate in 10⁶ bytes per second.
    MegabytesPerSecond,
    /// A rate in 10⁶ instructions per second.
    Mips,
    /// A rate of events per second.
    PerSecond,
}

/// A figure of the timing models. If there are several instances of it, such as one per memory channel or per
/// class of lines, its name has `{}` in the place of the instance's name, its meaning in that of the instance's
/// description. Such a key is not stored itself: [`TimingFigures::put_for`](crate::TimingFigures::put_for)
/// stores an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FigureKey {
    /// Its group in `summary.json`.
    pub group: &'static str,
    /// Its name in the group.
    pub name: &'static str,
    /// Its name in tables of sweeps and comparisons: `timing.group.name`.
    pub path: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Its meaning, with the unit.
    pub meaning: &'static str,
}

impl FigureKey {
    /// Whether there are several instances of it.
    pub fn has_instances(&self) -> bool {
        self.name.contains("{}")
    }
}

/// Declares groups of figures: a struct of keys, and a constant for each group that has these figures.
macro_rules! figures {
    ($($Keys:ident($($GROUP:ident = $group:literal),+) $fields:tt)+) => {
        $(
            figures!(@keys $Keys($($group),+) $fields);
            $(figures!(@group $Keys $GROUP $group $fields);)+
        )+

        /// The keys of all figures.
        pub fn all() -> Vec<FigureKey> {
            [$($($GROUP.keys()),+),+].concat()
        }
    };
    (@keys $Keys:ident($($group:literal),+) { $($field:ident $(as $name:literal)?: $unit:ident, $meaning:literal;)+ }) => {
        #[doc = concat!("Keys of figures of" $(, " *", $group, "*")+, ".")]
        #[derive(Clone, Copy, Debug)]
        pub struct $Keys {
            $(#[doc = $meaning] pub $field: FigureKey,)+
        }

        impl $Keys {
            /// The keys, in display order.
            pub fn keys(&self) -> Vec<FigureKey> {
                vec![$(self.$field),+]
            }
        }
    };
    (@group $Keys:ident $GROUP:ident $group:literal { $($field:ident $(as $name:literal)?: $unit:ident, $meaning:literal;)+ }) => {
        #[doc = concat!("Keys of the group *", $group, "*.")]
        pub const $GROUP: $Keys = $Keys {
            $($field: FigureKey {
                group: $group,
                name: figures!(@name $field $($name)?),
                path: concat!("timing.", $group, ".", figures!(@name $field $($name)?)),
                unit: Unit::$unit,
                meaning: $meaning,
            },)+
        };
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $name:literal) => { $name };
}

figures! {
    Pace(PACE = "pace") {
        cycles: Count, "core cycles, asleep or not";
        instructions: Count, "instructions retired";
        ipc: Ratio, "instructions per cycle, without sleep (WFI)";
        asleep_share: Share, "share of cycles asleep";
    }
    PaceOfThreads(PACE_OF_THREADS = "pace") {
        cycles: Count, "core cycles, asleep or not";
        instructions: Count, "instructions retired by all threads";
        ipc: Ratio, "instructions of all threads per core cycle";
    }
    PacketCost(PACKET_COST = "packet cost") {
        instructions: PerPacket, "instructions per delivered packet, empty polls included";
        cycles: PerPacket,
            "core cycles per delivered packet, with empty polls, without sleep (WFI); each thread's cycles count";
        ipc: Ratio, "instructions per cycle, with empty polls, without sleep";
        core_cycles: PerPacket, "the same, with each core's cycles counted once for all its threads";
        core_ipc: Ratio, "instructions of all threads per core cycle";
        busy_instructions: PerPacket, "instructions per delivered packet, without empty polls";
        busy_cycles: PerPacket,
            "core cycles per delivered packet, without empty polls and sleep; each thread's cycles count";
        busy_ipc: Ratio, "instructions per cycle, without empty polls and sleep";
        empty_polls: PerPacket, "polls of a receive ring that found nothing, per delivered packet";
        busy_share: Share,
            "share of all cycles outside empty polls and sleep; it reaches 1 when each poll finds a packet, long before the core is \
             saturated";
        full_burst_instructions: PerPacket,
            "estimated instructions per received packet if each poll found a full burst (dpdk.burst): the fixed cost of a polling round \
             divided by the burst, and the cost of each packet, by least squares over the rounds";
        full_burst_cycles: PerPacket, "core cycles for these instructions at busy_ipc";
        saturation: Share,
            "share of the polling cores' cycles that the received packets would take in full bursts; at 1 the cores have no capacity left";
        saturation_is_bound: Share,
            "share of these cores whose fixed cost of a polling round cannot be determined, because all rounds found the same number of \
             packets or their costs depend on earlier rounds: saturation is then an upper bound, and may be twice the true value";
        most_saturated: Share, "saturation of the most saturated of these cores";
    }
    TopDown(TOP_DOWN = "top-down") {
        retiring: Share, "share of dispatch slots of ops that were committed";
        bad_speculation: Share, "share lost to mispredicted branches, memory-order violations and traps";
        frontend_bound: Share, "share empty because the front end delivered no op";
        backend_bound: Share,
            "share empty because ROB, issue queue, load or store queue or registers were full";
    }
    TopDown2(TOP_DOWN_2 = "top-down, level 2") {
        retiring: Share, "share of dispatch slots of ops that were committed";
        branch_mispredicts: Share, "bad speculation: mispredicted branches";
        machine_clears: Share, "bad speculation: memory-order violations and traps";
        fetch_latency: Share, "frontend bound: cycles without any op";
        fetch_bandwidth: Share, "frontend bound: cycles with some ops, but fewer than the width";
        memory_bound: Share, "backend bound: loads, stores, translations, devices";
        core_bound: Share, "backend bound: execution, dependences, serialising instructions";
    }
    TopDown3(TOP_DOWN_3 = "top-down, level 3") {
        icache: Share, "fetch latency: the instruction cache";
        itlb: Share, "fetch latency: translations of instructions' addresses";
        misfetches: Share, "fetch latency: direct branches that missed in the BTB";
        refill: Share, "fetch latency: other front-end causes, such as refills";
        l1_bound: Share, "memory bound: loads served by L1 or the store queue";
        l2_bound: Share, "memory bound: loads served by L2";
        llc_bound: Share, "memory bound: loads served by the LLC";
        peer_bound: Share, "memory bound: loads served by another core's cache";
        dram_bound: Share, "memory bound: loads served by memory";
        store_bound: Share, "memory bound: a full store queue, and atomics that wait for it";
        dtlb: Share, "memory bound: translations of data addresses";
        device_bound: Share, "memory bound: accesses to device registers";
        divider: Share, "core bound: divisions, and ops that wait for a divider";
        ports: Share, "core bound: busy units and issue ports";
        latency: Share, "core bound: chains of dependent ops";
        serialising: Share, "core bound: serialising instructions";
    }
    CpiStack(CPI_STACK = "CPI stack") {
        base: PerInstruction, "cycles per instruction spent on commit";
        branch: PerInstruction, "cycles per instruction spent on mispredicted branches";
        clear: PerInstruction, "cycles per instruction spent on memory-order violations and traps";
        misfetch: PerInstruction, "cycles per instruction spent on direct branches that missed in the BTB";
        icache: PerInstruction, "cycles per instruction spent on the instruction cache";
        itlb: PerInstruction, "cycles per instruction spent on the instruction TLB";
        fetch: PerInstruction, "cycles per instruction spent on the rest of the front end";
        execute: PerInstruction, "cycles per instruction spent on dependences and latencies of execution";
        divider: PerInstruction, "cycles per instruction spent on divisions";
        ports: PerInstruction, "cycles per instruction spent on busy units and issue ports";
        l1: PerInstruction, "cycles per instruction spent on loads served by L1 or the store queue";
        l2: PerInstruction, "cycles per instruction spent on loads served by L2";
        llc: PerInstruction, "cycles per instruction spent on loads served by the LLC";
        peer: PerInstruction, "cycles per instruction spent on loads served by another core's cache";
        dram: PerInstruction, "cycles per instruction spent on loads served by memory";
        dtlb: PerInstruction, "cycles per instruction spent on data translations";
        store: PerInstruction, "cycles per instruction spent on stores";
        serialise: PerInstruction, "cycles per instruction spent on serialising instructions";
        device: PerInstruction, "cycles per instruction spent on accesses to device registers";
        idle: PerInstruction, "cycles per instruction spent on sleep (WFI)";
    }
    Core(CORE = "core") {
        branch_mpki: PerKilo, "mispredicted branches per thousand instructions";
        branch_miss_rate: Share, "mispredicted share of branches";
        replays_pki: PerKilo, "memory-order violations per thousand instructions";
        forwarded_loads: Share, "share of loads served by the store queue";
        itlb_mpki: PerKilo, "instruction TLB misses per thousand instructions";
        dtlb_mpki: PerKilo, "data TLB misses per thousand instructions";
        walk_cycles: Cycles, "cycles per page walk";
    }
    Cache(L1I = "L1I", L1D = "L1D", L2 = "L2", LLC = "LLC") {
        mpki: PerKilo, "misses of core accesses per thousand instructions";
        misses_per_packet: PerPacket, "misses of core accesses per delivered packet";
        misses_of_class as "{}_misses_per_packet": PerPacket, "misses of {} per delivered packet";
        hit_rate: Share, "share of accesses that hit";
        merge_rate: Share, "share of accesses whose line was in flight";
        write_backs_per_packet: PerPacket,
            "dirty lines written back to the level below, per delivered packet";
        prefetches_pki: PerKilo, "prefetched lines per thousand instructions";
        prefetch_accuracy: Share,
            "used share of the prefetched lines that were used or left the cache unused";
        software_prefetches_per_packet: PerPacket, "prefetch instructions per delivered packet";
        software_prefetches_dropped: Share, "share of these dropped because no miss register was free";
    }
    AccessTime(ACCESS_TIME = "access time") {
        load_cycles: Cycles, "mean core cycles from a load's cache access to its data";
        network_load_cycles: Cycles,
            "the same for loads of network data: lines that a device wrote and no core has overwritten, lines that a device read, and \
             descriptors";
        access_cycles: Cycles,
            "AMAT: mean core cycles from request to data of all cache accesses (fetches, loads, stores and page walks)";
        data_access_cycles: Cycles, "the same without fetches";
        network_loads: Share, "share of loads of network data";
        from_l1: Share, "share of loads served by this level";
        from_l2: Share, "share of loads served by this level";
        from_llc: Share, "share of loads served by this level";
        from_peer: Share, "share of loads served by this level";
        from_dram: Share, "share of loads served by this level";
    }
    Occupancy(OCCUPANCY = "queue occupancy") {
        rob: Entries, "mean number of used entries of the ROB, over cycles awake";
        iq: Entries, "mean number of used entries of the issue queue, over cycles awake";
        lq: Entries, "mean number of used entries of the load queue, over cycles awake";
        sq: Entries, "mean number of used entries of the store queue, over cycles awake";
        l1d_mshrs: Entries, "mean number of used miss registers of L1D";
        l2_mshrs: Entries, "mean number of used miss registers of L2";
        llc_mshrs: Entries, "mean number of used miss registers of the LLC";
        llc_class as "llc_{}": Share, "share of the LLC's lines with {} at the end";
    }
    Dram(DRAM = "DRAM") {
        read_gbps: Gbps, "Gbps read from all channels";
        write_gbps: Gbps, "Gbps written to all channels";
        mb_per_second: MegabytesPerSecond, "million bytes per second read from and written to all channels";
        share: Share, "share of all channels' peak bandwidth used by reads and writes";
        channel_read_gbps as "read_gbps_{}": Gbps, "Gbps read from channel {}";
        channel_write_gbps as "write_gbps_{}": Gbps, "Gbps written to channel {}";
        row_hit_rate: Share, "share of column commands to an open row";
        bytes_read_per_packet: PerPacket, "bytes read from DRAM per delivered packet";
        bytes_written_per_packet: PerPacket, "bytes written to DRAM per delivered packet";
    }
    Pcie(PCIE = "PCI Express") {
        up_tlps_per_packet: PerPacket, "transaction-layer packets from the NIC per delivered packet";
        up_bytes_per_packet: PerPacket,
            "their bytes from the NIC per delivered packet, including headers and framing";
        up_gbps: Gbps, "Gbps on the links from the NIC, including acknowledgements and flow control";
        up_share: Share, "used share of the links' bandwidth from the NIC";
        down_tlps_per_packet: PerPacket, "transaction-layer packets to the NIC per delivered packet";
        down_bytes_per_packet: PerPacket,
            "their bytes to the NIC per delivered packet, including headers and framing";
        down_gbps: Gbps, "Gbps on the links to the NIC, including acknowledgements and flow control";
        down_share: Share, "used share of the links' bandwidth to the NIC";
        posted_wait_share: Share,
            "share of time in which the next write from the NIC waited for posted credits (pcie.posted_headers, pcie.posted_data); \
             one write waits at a time";
        payload_bytes_per_packet: PerPacket,
            "bytes of data and descriptors moved by DMA in both directions, per delivered packet";
        read_bytes_per_packet: PerPacket,
            "bytes that the NIC reads (frames to send and descriptors), per delivered packet";
        written_bytes_per_packet: PerPacket,
            "bytes that the NIC writes (received frames and descriptors), per delivered packet";
        read_round_trip_ns: Nanoseconds, "mean time from a DMA read request to the end of its completions";
        write_visible_ns: Nanoseconds,
            "mean time per write packet from its first byte on the link until it is visible";
    }
    Buses(BUSES = "buses") {
        read_round_trip_ns: Nanoseconds,
            "mean time per transaction from a DMA read request to its last byte";
        write_visible_ns: Nanoseconds,
            "mean time per transaction from a DMA write's first cycle until it is visible";
        stage_up_gbps as "{}_up_gbps": Gbps, "Gbps of data from {}; bus 0 is next to the device";
        stage_up_busy as "{}_up_busy": Share,
            "share of time taken by transfers in this direction, and by reads that hold the bus";
        stage_down_gbps as "{}_down_gbps": Gbps, "Gbps of data to {}; bus 0 is next to the device";
        stage_down_busy as "{}_down_busy": Share,
            "share of time taken by transfers in this direction, and by reads that hold the bus";
    }
    Uncore(UNCORE = "uncore events") {
        itom as "ItoM_{}": PerPacket,
            "whole-line writes of devices that {} in the LLC, per delivered packet";
        device_rfo as "RFO_{}": PerPacket,
            "partial-line writes of devices that {} in the LLC, per delivered packet";
        pcierdcur as "PCIeRdCur_{}": PerPacket,
            "line reads of devices that {} in the LLC, per delivered packet";
        crd as "CRd_{}": PerPacket,
            "instruction line requests of cores that {} in the LLC, per delivered packet";
        drd as "DRd_{}": PerPacket,
            "line requests of cores' loads and page walks that {} in the LLC, per delivered packet";
        core_rfo as "core_RFO_{}": PerPacket,
            "cores' requests to write a line, or for the right to write it, that {} in the LLC, per delivered packet";
        prefetch as "prefetch_{}": PerPacket,
            "line requests of cores' prefetchers and prefetch instructions that {} in the LLC, per delivered packet";
        itom_hit_percent as "ItoM_hit_percent": Percent,
            "percentage of devices' whole-line writes that hit in the LLC";
        prd as "PRd": PerPacket, "reads of device registers by cores, per delivered packet";
        wil as "WiL": PerPacket, "writes of device registers by cores, per delivered packet";
    }
    Dca(DCA = "direct cache access") {
        updates_per_packet: PerPacket,
            "device-written lines updated in place in the LLC, per delivered packet";
        allocations_per_packet: PerPacket,
            "device-written lines allocated in the LLC's DCA ways, per delivered packet";
        to_l2_per_packet: PerPacket, "device-written lines placed in a core's L2, per delivered packet";
        to_memory_per_packet: PerPacket, "device-written lines that went to memory, per delivered packet";
        private_invalidations_per_packet: PerPacket,
            "device writes that invalidated copies in private caches, per delivered packet";
        device_merges_per_packet: PerPacket,
            "device reads that joined the miss register of a line in flight to the LLC, per delivered packet";
        core_merges_per_packet: PerPacket, "the same for accesses of cores, without prefetches";
        leaks_per_packet: PerPacket,
            "DMA leaks: device-written lines evicted to memory before any use, per delivered packet";
        header_leaks_per_packet: PerPacket, "DMA leaks of packet headers, per delivered packet";
        payload_leaks_per_packet: PerPacket, "DMA leaks of packet payload, per delivered packet";
        descriptor_leaks_per_packet: PerPacket, "DMA leaks of descriptors, per delivered packet";
        leak_rate: Share,
            "DMA leaks as a share of device-written lines that were used, overwritten, dropped or leaked";
        used_by_core: Share, "share of these lines that a core used first";
        overwritten: Share, "share of these lines that a device overwrote before any use";
    }
    SharedLines(SHARED_LINES = "shared lines") {
        hit_pki: PerKilo, "lines from another core's cache, unmodified there, per thousand instructions";
        hit_per_packet: PerPacket, "the same per delivered packet";
        hitm_pki: PerKilo, "lines from another core's cache, modified there, per thousand instructions";
        hitm_per_packet: PerPacket, "the same per delivered packet";
        true_sharing_pki: PerKilo,
            "misses after another core's store, on a word that other cores have written since, per thousand instructions";
        true_sharing_per_packet: PerPacket, "the same per delivered packet";
        false_sharing_pki: PerKilo,
            "misses after another core's store, on a word that no other core has written since, per thousand instructions";
        false_sharing_per_packet: PerPacket, "the same per delivered packet";
        ping_pong_pki: PerKilo,
            "lines obtained for writing from a core that had obtained them for writing from this one, per thousand instructions";
        ping_pong_per_packet: PerPacket, "the same per delivered packet";
        hitm_of_class as "{}_hitm_per_packet": PerPacket, "hitm of {}, per delivered packet";
    }
    Directory(DIRECTORY = "directory") {
        snoops_pki: PerKilo, "snoops sent to private caches, per thousand instructions";
        snoops_per_packet: PerPacket, "the same per delivered packet";
        forwards_pki: PerKilo, "snoops that returned the line, per thousand instructions";
        forwards_per_packet: PerPacket, "the same per delivered packet";
        back_invalidations_pki: PerKilo,
            "lines invalidated in private caches because the directory was full, per thousand instructions";
        back_invalidations_per_packet: PerPacket, "the same per delivered packet";
    }
    Fabric(FABRIC = "fabric") {
        request_hops_per_packet: PerPacket,
            "link traversals of requests and snoops, per delivered packet";
        line_hops_per_packet: PerPacket, "link traversals of lines of 64 bytes, per delivered packet";
        wait_cycles_per_packet: PerPacket,
            "interconnect cycles for which requests and lines waited for links, per delivered packet";
        mean_link_use: Share, "share of the links' bandwidth used by lines, mean of all links";
        busiest_link_use: Share, "the same for the busiest link";
        slice_imbalance: Ratio,
            "accesses to the busiest slice over the mean of all slices: 1 if all are equal";
    }
    OwnPackets(OWN_PACKETS = "own packets") {
        packets: Count, "packets that this core's polls of receive rings found";
        per_second: PerSecond, "the same per second";
        busy_cycles: PerPacket, "core cycles of this core per packet, without empty polls and sleep";
        busy_instructions: PerPacket, "instructions of this core per packet, without empty polls";
        empty_polls: Count, "polls of a receive ring that found nothing";
        empty_share: Share, "share of cycles taken by empty polls";
    }
    CoreBalance(CORE_BALANCE = "cores") {
        polling: Count, "cores that poll receive rings";
        imbalance: Ratio,
            "packets of the core with the most packets over the mean of the polling cores: 1 if all are equal";
    }
    Neighbours(NEIGHBOURS = "neighbours") {
        mips: Mips, "million instructions per second retired by all neighbours together";
        ipc: Ratio, "instructions per cycle of their cores";
        llc_mpki: PerKilo, "their misses in the last level per thousand instructions";
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_figures_have_the_same_path() {
        // Cores with threads share the group of the pace.
        let keys = all().into_iter().filter(|key| !PACE_OF_THREADS.keys().contains(key));
        let paths: Vec<&str> = keys.map(|key| key.path).collect();
        assert_eq!(paths.iter().collect::<BTreeSet<_>>().len(), paths.len());
        assert_eq!(PACKET_COST.saturation.path, "timing.packet cost.saturation");
        assert_eq!(L2.mpki.path, "timing.L2.mpki");
    }

    #[test]
    fn a_figure_of_an_instance_has_its_name_and_meaning() {
        let mut figures = crate::TimingFigures::default();
        figures.put(L2.mpki, Some(1.5));
        figures.put_for(L2.misses_of_class, "header", "packet headers", None);
        assert_eq!((figures.get(L2.mpki), figures.get(L1D.mpki)), (Some(1.5), None));
        let meanings: Vec<(String, String)> = figures.meanings().collect();
        let (name, meaning) = &meanings[1];
        assert_eq!(name, "L2.header_misses_per_packet");
        assert_eq!(meaning, "misses of packet headers per delivered packet");
    }

    #[test]
    fn names_show_their_units() {
        for key in all() {
            let expected = match key.name {
                name if name.ends_with("_per_packet") => Unit::PerPacket,
                name if name.ends_with("_share") => Unit::Share,
                name if name.ends_with("_gbps") => Unit::Gbps,
                name if name.ends_with("_ns") => Unit::Nanoseconds,
                name if name.ends_with("pki") => Unit::PerKilo,
                _ => continue,
            };
            assert_eq!(key.unit, expected, "{}", key.path);
        }
    }
}
