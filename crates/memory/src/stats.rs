//! What the memory system counts.

use doorbell_sim::memory::Level;
use doorbell_sim::stats::Stats;
use serde::{Deserialize, Serialize};

use crate::class::DataClass;
use crate::coherence::stats::{DirectoryStats, SharingStats};

doorbell_sim::stats! {
    /// What one cache counts. Hits, misses and merges are all of its demand accesses.
    pub struct CacheStats {
        /// Accesses by cores, prefetches not included.
        accesses,
        /// Accesses that found their line there.
        hits,
        /// Accesses that had to ask further away.
        misses,
        /// Accesses that found their line on its way and waited for it.
        merges,
        /// Misses by stores whose line was there but readable only.
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
        /// Lines put in.
        fills,
        /// Lines that left to make room.
        evictions,
        /// Lines taken away: by other cores' stores, by devices, by a larger cache that has to include this one.
        invalidations,
        /// Dirty lines sent to the level below.
        write_backs,
        /// Requests from prefetchers of the levels above.
        prefetch_requests,
        /// Lines that this cache's own prefetcher asked for.
        prefetches,
        /// Prefetches given up because all miss registers were held.
        prefetches_dropped,
        /// Software prefetches, which are none of the accesses.
        software_prefetches,
        /// Of these, lines that were there or on their way.
        software_prefetches_there,
        /// Software prefetches given up because all miss registers were held.
        software_prefetches_dropped,
        /// Prefetched lines that were used, whoever prefetched them.
        prefetches_useful,
        /// Of these, lines that were still on their way.
        prefetches_late,
        /// Prefetched lines that left unused.
        prefetches_useless,
        /// Cycles for which miss registers were held, summed over registers.
        mshr_cycles,
        /// Cycles for which misses waited for a miss register.
        mshr_wait_cycles,
        /// Cycles for which accesses waited for a port.
        port_wait_cycles,
        /// Cycles for which evictions waited for a write-back buffer.
        buffer_wait_cycles,
        /// Requests from before what ports, miss registers and buffers remember (for the last-level cache links too). They are served as
        /// if nothing had been booked then, so possibly too early.
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
    /// What one core's accesses come to.
    pub struct CoreStats {
        /// Loads, stores and page walks.
        data_accesses,
        /// Their time from request to data, summed, in core cycles.
        data_access_cycles,
        /// Those of lines that a device used last as a packet's or a descriptor's.
        network_accesses,
        /// Their time, summed, in core cycles.
        network_access_cycles,
        /// Loads of network data: what a device wrote and no core has overwritten, what a device reads, and descriptors.
        network_loads,
        /// Their time, summed, in core cycles.
        network_load_cycles,
        /// Fetches of instructions.
        fetches,
        /// Their time, summed, in core cycles.
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
        /// Page walks' accesses that entered at the second level.
        walks_at_l2,
        /// CRd: lines of instructions asked of the LLC, which had them.
        crd_hits,
        /// CRd: lines of instructions asked of the LLC, which had them not.
        crd_misses,
        /// DRd: lines asked of the LLC to be read, for loads and page walks, which it had.
        drd_hits,
        /// DRd: lines asked of the LLC to be read, for loads and page walks, which it had not.
        drd_misses,
        /// RFO: lines asked of the LLC to be written, or the right to write them, which it had.
        rfo_hits,
        /// RFO: lines asked of the LLC to be written, or the right to write them, which it had not.
        rfo_misses,
        /// Lines that prefetchers and prefetch instructions asked of the LLC, which had them.
        prefetch_hits,
        /// Lines that prefetchers and prefetch instructions asked of the LLC, which had them not.
        prefetch_misses,
        /// Accesses to addresses that are not RAM.
        outside_ram,
    }
}

impl CoreStats {
    /// Counts a request of the LLC. One for a line that is on its way hits if there is room for the line in the LLC already.
    #[inline]
    pub(crate) fn asked(&mut self, prefetch: bool, code: bool, own: bool, hit: bool) {
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
    /// What devices' accesses come to, and what became of the lines that they wrote into caches.
    pub struct DeviceStats {
        /// ItoM: writes of a whole line that the LLC had.
        itom_hits,
        /// ItoM: writes of a whole line that the LLC had not.
        itom_misses,
        /// RFO: writes of a part of a line that the LLC had.
        rfo_hits,
        /// RFO: writes of a part of a line that the LLC had not.
        rfo_misses,
        /// PCIeRdCur: reads of a line that the LLC had.
        pcierdcur_hits,
        /// PCIeRdCur: reads of a line that the LLC had not.
        pcierdcur_misses,
        /// PRd: a core's reads of device registers.
        prd,
        /// WiL: a core's writes of device registers.
        wil,
        /// Reads that joined one of the same line that was on its way.
        merges,
        /// Written lines that were updated where they stood in the LLC.
        updates,
        /// Written lines for which room was made in the LLC.
        allocations,
        /// Written lines that went to a core's L2.
        private_placements,
        /// Written lines that went to memory.
        to_memory,
        /// Copies in private caches that a write took away.
        private_invalidations,
        /// Written lines that became unused contents of a cache: each of them is in one of the next five, or still there.
        fresh_lines,
        /// Of these, lines that a core used.
        fresh_used_by_core,
        /// Of these, lines that a device read before any core.
        fresh_used_by_device,
        /// Of these, lines that a device wrote again before any use.
        fresh_overwritten,
        /// Of these, lines that were dropped before any use (`invalidate`).
        fresh_dropped,
        /// DMA leaks: of these, lines that had left for memory before any use.
        leaks,
        /// DMA leaks of packet headers.
        leaks_header,
        /// DMA leaks of packet payload.
        leaks_payload,
        /// DMA leaks of descriptors.
        leaks_descriptor,
        /// Lines dropped from caches when a device had consumed them (`invalidate`).
        dropped,
        /// Of these, lines that memory had not got: so many write-backs were saved.
        dropped_dirty,
        /// Reads from devices, summed: from the request at the root complex to the data there, in picoseconds.
        read_ps,
        /// Writes from devices, summed: from the request at the root complex until visible, in picoseconds.
        write_ps,
        /// Accesses to addresses that are not RAM.
        outside_ram,
    }
}

doorbell_sim::stats! {
    /// What one device's accesses come to.
    pub struct DeviceAccount {
        /// Lines read, or parts of lines.
        lines_read,
        /// Of these, lines that the LLC had.
        lines_read_from_llc,
        /// Lines written, or parts of lines.
        lines_written,
        /// Of these, lines that the LLC had.
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
            DataClass::Other | DataClass::Code => {}
        }
    }
}

doorbell_sim::stats! {
    /// What went over the interconnect and to memory.
    pub struct TrafficStats {
        /// Bytes of lines from cores to the LLC.
        core_to_llc_bytes,
        /// Bytes of lines from the LLC or other cores to cores.
        llc_to_core_bytes,
        /// Bytes from devices.
        device_in_bytes,
        /// Bytes to devices.
        device_out_bytes,
        /// Requests that had to wait for copies in private caches.
        snoops,
        /// Lines that one core's cache gave to another's.
        peer_transfers,
        /// Lines read from memory.
        memory_reads,
        /// Lines written to memory.
        memory_writes,
        /// Lines that left the LLC dirty.
        llc_write_backs,
    }
}

/// Misses at each level; those of instructions, data and page walks are one figure beyond the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Misses {
    /// Fetches that missed the first level.
    pub l1i: u64,
    /// Loads, stores and page walks that missed the first level.
    pub l1d: u64,
    /// What missed the second level.
    pub l2: u64,
    /// What missed the last level.
    pub llc: u64,
}

/// One core and its private caches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HartStats {
    /// Its accesses.
    pub core: CoreStats,
    /// Its first-level instruction cache.
    pub l1i: CacheStats,
    /// Its first-level data cache.
    pub l1d: CacheStats,
    /// Its second-level cache.
    pub l2: CacheStats,
    /// What it takes from other cores.
    pub sharing: SharingStats,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryStats {
    /// Each core.
    pub harts: Vec<HartStats>,
    /// The last-level cache, in cycles of the interconnect.
    pub llc: CacheStats,
    /// The directory, where there is one.
    pub directory: DirectoryStats,
    /// Devices.
    pub devices: DeviceStats,
    /// Interconnect and memory.
    pub traffic: TrafficStats,
}

impl MemoryStats {
    /// What was counted since `earlier`, of the same machine.
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
