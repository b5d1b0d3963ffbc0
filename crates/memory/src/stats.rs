//! Counters of the memory system.

use doorbell_sim::memory::Level;
use doorbell_sim::stats::Stats;
use serde::{Deserialize, Serialize};

use crate::class::DataClass;
use crate::coherence::stats::{DirectoryStats, SharingStats};

doorbell_sim::stats! {
    /// Counters of one cache. Demand accesses are the sum of hits, misses and merges.
    pub struct CacheStats {
        /// Accesses by cores, prefetches not included.
        accesses,
        /// Accesses that hit.
        hits,
        /// Accesses that missed and went to the next level.
        misses,
        /// Accesses whose line was in flight; they waited for it.
        merges,
        /// Store misses to a line that was present but read-only.
        upgrades,
        /// Misses of data that no device has touched.
        misses_other,
        /// Misses of instructions.
        misses_code,
        /// Misses of packet headers.
        misses_header,
        /// Misses of packet payload.
        misses_payload,
        /// Misses of receive descriptors.
        misses_rx_descriptor,
        /// Misses of transmit descriptors.
        misses_tx_descriptor,
        /// Lines filled.
        fills,
        /// Lines evicted to make room.
        evictions,
        /// Lines invalidated: by other cores' stores, by devices, or by the replacement in a larger inclusive
        /// cache.
        invalidations,
        /// Dirty lines written back to the level below.
        write_backs,
        /// Requests from prefetchers of upper levels.
        prefetch_requests,
        /// Prefetches issued by this cache's own prefetcher.
        prefetches,
        /// Prefetches dropped because all miss registers were in use.
        prefetches_dropped,
        /// Software prefetches, not included in accesses.
        software_prefetches,
        /// Software prefetches whose line was present or in flight.
        software_prefetches_there,
        /// Software prefetches dropped because all miss registers were in use.
        software_prefetches_dropped,
        /// Prefetched lines that were used, whichever prefetcher fetched them.
        prefetches_useful,
        /// Useful prefetches whose line was still in flight at its first use.
        prefetches_late,
        /// Prefetched lines that left the cache unused.
        prefetches_useless,
        /// Cycles for which miss registers were in use, summed over registers.
        mshr_cycles,
        /// Cycles for which misses waited for a miss register.
        mshr_wait_cycles,
        /// Cycles for which accesses waited for a port.
        port_wait_cycles,
        /// Cycles for which evictions waited for a write-back buffer.
        buffer_wait_cycles,
        /// Requests for a time before the recorded bookings of ports, miss registers and buffers (for the
        /// last-level cache, links too). They are served as if that time had no bookings, so possibly too
        /// early.
        late_requests,
    }
}

impl CacheStats {
    /// Counts a miss.
    pub(crate) fn missed(&mut self, class: DataClass) {
        self.misses += 1;
        *match class {
            DataClass::Other => &mut self.misses_other,
            DataClass::Code => &mut self.misses_code,
            DataClass::Header => &mut self.misses_header,
            DataClass::Payload => &mut self.misses_payload,
            DataClass::RxDescriptor => &mut self.misses_rx_descriptor,
            DataClass::TxDescriptor => &mut self.misses_tx_descriptor,
        } += 1;
    }
}

doorbell_sim::stats! {
    /// Counters of one core's accesses.
    pub struct CoreStats {
        /// Loads, stores and page walks.
        data_accesses,
        /// Latency of data accesses from request to data, summed, in core cycles.
        data_access_cycles,
        /// Data accesses to lines that a device last used for a packet or a descriptor.
        network_accesses,
        /// Latency of network accesses, summed, in core cycles.
        network_access_cycles,
        /// Loads of network data: device-written lines that no core has overwritten, device-read lines, and
        /// descriptors.
        network_loads,
        /// Latency of network loads, summed, in core cycles.
        network_load_cycles,
        /// Fetches of instructions.
        fetches,
        /// Latency of fetches, summed, in core cycles.
        fetch_cycles,
        /// Accesses served by the first level.
        from_l1,
        /// Accesses served by the second level.
        from_l2,
        /// Accesses served by the last level.
        from_llc,
        /// Accesses served by another core's cache.
        from_peer,
        /// Accesses served by memory.
        from_dram,
        /// Page walk accesses that entered at the second level.
        walks_at_l2,
        /// CRd: instruction line requests that hit the LLC.
        crd_hits,
        /// CRd: instruction line requests that missed the LLC.
        crd_misses,
        /// DRd: line requests of loads and page walks that hit the LLC.
        drd_hits,
        /// DRd: line requests of loads and page walks that missed the LLC.
        drd_misses,
        /// RFO: requests to write a line, or for the right to write it, that hit the LLC.
        rfo_hits,
        /// RFO: requests to write a line, or for the right to write it, that missed the LLC.
        rfo_misses,
        /// Line requests of prefetchers and prefetch instructions that hit the LLC.
        prefetch_hits,
        /// Line requests of prefetchers and prefetch instructions that missed the LLC.
        prefetch_misses,
        /// Accesses to addresses that are not RAM.
        outside_ram,
    }
}

impl CoreStats {
    /// Counts a request at the LLC. A request for a line in flight counts as a hit if the LLC has allocated
    /// the line.
    #[inline]
    pub(crate) fn count_llc_request(&mut self, prefetch: bool, code: bool, own: bool, hit: bool) {
        *match (prefetch, code, own, hit) {
            (true, _, _, true) => &mut self.prefetch_hits,
            (true, _, _, false) => &mut self.prefetch_misses,
            (false, true, _, true) => &mut self.crd_hits,
            (false, true, _, false) => &mut self.crd_misses,
            (false, false, true, true) => &mut self.rfo_hits,
            (false, false, true, false) => &mut self.rfo_misses,
            (false, false, false, true) => &mut self.drd_hits,
            (false, false, false, false) => &mut self.drd_misses,
        } += 1;
    }

    #[inline]
    pub(crate) fn served(&mut self, level: Level) {
        *match level {
            Level::L1 => &mut self.from_l1,
            Level::L2 => &mut self.from_l2,
            Level::Llc => &mut self.from_llc,
            Level::Peer => &mut self.from_peer,
            Level::Dram => &mut self.from_dram,
        } += 1;
    }
}

doorbell_sim::stats! {
    /// Counters of devices' accesses, and of the use of lines that devices wrote into caches.
    pub struct DeviceStats {
        /// ItoM: writes of a whole line that hit the LLC.
        itom_hits,
        /// ItoM: writes of a whole line that missed the LLC.
        itom_misses,
        /// RFO: partial line writes that hit the LLC.
        rfo_hits,
        /// RFO: partial line writes that missed the LLC.
        rfo_misses,
        /// PCIeRdCur: reads that hit the LLC.
        pcierdcur_hits,
        /// PCIeRdCur: reads that missed the LLC.
        pcierdcur_misses,
        /// PRd: a core's reads of device registers.
        prd,
        /// WiL: a core's writes of device registers.
        wil,
        /// Reads that merged with a read in flight of the same line.
        merges,
        /// Written lines that were updated in place in the LLC.
        updates,
        /// Written lines that were allocated in the LLC.
        allocations,
        /// Written lines placed in a core's L2.
        private_placements,
        /// Written lines that went to memory.
        to_memory,
        /// Writes that invalidated copies in private caches.
        private_invalidations,
        /// Device-written lines that entered a cache. Each is counted by one of the next five counters, or is
        /// still cached unused.
        fresh_lines,
        /// Device-written lines first used by a core.
        fresh_used_by_core,
        /// Device-written lines that a device read before any core.
        fresh_used_by_device,
        /// Device-written lines that a device wrote again before any use.
        fresh_overwritten,
        /// Device-written lines dropped before any use (`invalidate`).
        fresh_dropped,
        /// DMA leaks: device-written lines evicted to memory before any use.
        leaks,
        /// DMA leaks of packet headers.
        leaks_header,
        /// DMA leaks of packet payload.
        leaks_payload,
        /// DMA leaks of descriptors.
        leaks_descriptor,
        /// DMA leaks of interrupt messages, and of rings and data of devices other than NICs.
        leaks_other,
        /// Lines dropped from caches after a device consumed them (`invalidate`).
        dropped,
        /// Dropped lines that were dirty: each saved a write-back to memory.
        dropped_dirty,
        /// Read latencies of devices, summed: from the request at the root complex to the data there, in
        /// picoseconds.
        read_ps,
        /// Write latencies of devices, summed: from the request at the root complex until visible, in
        /// picoseconds.
        write_ps,
        /// Accesses to addresses that are not RAM.
        outside_ram,
    }
}

doorbell_sim::stats! {
    /// Counters of one device's accesses.
    pub struct DeviceAccount {
        /// Lines read, whole or partial.
        lines_read,
        /// Lines read that hit the LLC.
        lines_read_from_llc,
        /// Lines written, whole or partial.
        lines_written,
        /// Lines written that hit the LLC.
        lines_written_in_llc,
    }
}

impl DeviceStats {
    pub(crate) fn leaked(&mut self, class: DataClass) {
        self.leaks += 1;
        match class {
            DataClass::Header => self.leaks_header += 1,
            DataClass::Payload => self.leaks_payload += 1,
            DataClass::RxDescriptor | DataClass::TxDescriptor => self.leaks_descriptor += 1,
            DataClass::Other | DataClass::Code => self.leaks_other += 1,
        }
    }
}

doorbell_sim::stats! {
    /// Traffic on the interconnect and to memory.
    pub struct TrafficStats {
        /// Bytes of lines from cores to the LLC.
        core_to_llc_bytes,
        /// Bytes of lines from the LLC or other cores to cores.
        llc_to_core_bytes,
        /// Bytes from devices.
        device_in_bytes,
        /// Bytes to devices.
        device_out_bytes,
        /// Requests that found copies in private caches.
        snoops,
        /// Lines sent from one core's cache to another's.
        peer_transfers,
        /// Lines read from memory.
        memory_reads,
        /// Lines written to memory.
        memory_writes,
        /// Dirty lines evicted from the LLC.
        llc_write_backs,
    }
}

/// Misses at each level. Beyond the first level, instructions, data and page walks are one count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Misses {
    /// Fetches that missed the first level.
    pub l1i: u64,
    /// Loads, stores and page walks that missed the first level.
    pub l1d: u64,
    /// Misses of the second level.
    pub l2: u64,
    /// Misses of the last level.
    pub llc: u64,
}

/// Counters of one core and its private caches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HartStats {
    /// The core's accesses.
    pub core: CoreStats,
    /// First-level instruction cache.
    pub l1i: CacheStats,
    /// First-level data cache.
    pub l1d: CacheStats,
    /// Second-level cache.
    pub l2: CacheStats,
    /// Lines taken from other cores.
    pub sharing: SharingStats,
}

/// All counters of the memory system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryStats {
    /// Per hart.
    pub harts: Vec<HartStats>,
    /// The last-level cache, in cycles of the interconnect.
    pub llc: CacheStats,
    /// The directory, if there is one.
    pub directory: DirectoryStats,
    /// Devices.
    pub devices: DeviceStats,
    /// Interconnect and memory.
    pub traffic: TrafficStats,
}

impl MemoryStats {
    /// Counts since `earlier`, on the same machine.
    pub fn since(&self, earlier: &MemoryStats) -> MemoryStats {
        let harts = self.harts.iter().zip(&earlier.harts);
        let hart = |(now, then): (&HartStats, &HartStats)| HartStats {
            core: now.core.since(&then.core),
            l1i: now.l1i.since(&then.l1i),
            l1d: now.l1d.since(&then.l1d),
            l2: now.l2.since(&then.l2),
            sharing: now.sharing.since(&then.sharing),
        };
        MemoryStats {
            harts: harts.map(hart).collect(),
            llc: self.llc.since(&earlier.llc),
            directory: self.directory.since(&earlier.directory),
            devices: self.devices.since(&earlier.devices),
            traffic: self.traffic.since(&earlier.traffic),
        }
    }
}
