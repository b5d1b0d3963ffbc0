//! Figures of the caches, of DRAM, and of devices' lines in the LLC. The uncore events are those of the FD.io
//! paper.

use doorbell_machine::{CacheStats, DramStats};
use doorbell_results::TimingFigures;
use doorbell_results::figures::{ACCESS_TIME, Cache, DCA, DRAM, OCCUPANCY, UNCORE};
use doorbell_sim::stats::Stats;

use super::models::Models;
use super::span::View;
use crate::ratio::ratio;

/// Classes of cache lines by their data, in the memory system's order: name in figures, and description.
pub(super) const CLASSES: [(&str, &str); 6] = [
    ("other", "other data"),
    ("code", "code"),
    ("header", "packet headers"),
    ("payload", "packet payload"),
    ("rx_descriptor", "receive descriptors"),
    ("tx_descriptor", "transmit descriptors"),
];

/// Figures of a level of private caches.
pub(super) fn cache(w: &View, keys: &Cache, stats: &CacheStats, g: &mut TimingFigures) {
    figures_of_cache(w, keys, stats, stats.misses, false, g);
}

/// Figures of the LLC. Its own counters include co-runners; with co-runners, figures from them are left out.
pub(super) fn llc(w: &View, keys: &Cache, g: &mut TimingFigures) {
    let (stats, is_mixed) = (w.shared(|at| &at.memory.llc), w.has_neighbours());
    let misses = if is_mixed { w.llc_request_misses() } else { stats.misses };
    figures_of_cache(w, keys, &stats, misses, is_mixed, g);
}

fn figures_of_cache(
    w: &View,
    keys: &Cache,
    stats: &CacheStats,
    misses: u64,
    is_mixed: bool,
    g: &mut TimingFigures,
) {
    let (kilo, frames) = (w.instructions as f64 / 1e3, w.frames);
    let own = |value: Option<f64>| value.filter(|_| !is_mixed);
    g.put(keys.mpki, ratio(misses, kilo));
    g.put(keys.misses_per_packet, ratio(misses, frames));
    let by_class = [
        stats.misses_other,
        stats.misses_code,
        stats.misses_header,
        stats.misses_payload,
        stats.misses_rx_descriptor,
        stats.misses_tx_descriptor,
    ];
    for ((class, what), misses) in CLASSES.into_iter().zip(by_class) {
        g.put_for(keys.misses_of_class, class, what, own(ratio(misses, frames)));
    }
    g.put(keys.hit_rate, own(ratio(stats.hits, stats.accesses)));
    g.put(keys.merge_rate, own(ratio(stats.merges, stats.accesses)));
    g.put(keys.write_backs_per_packet, own(ratio(stats.write_backs, frames)));
    let software = stats.software_prefetches;
    let not_fetched = stats.software_prefetches_there + stats.software_prefetches_dropped;
    let fetched = (stats.prefetches + software) as f64 - not_fetched as f64;
    if fetched > 0.0 {
        g.put(keys.prefetches_pki, ratio(fetched, kilo));
        let (used, left) = (stats.prefetches_useful, stats.prefetches_useless);
        g.put(keys.prefetch_accuracy, ratio(used, used + left));
    }
    if software > 0 {
        g.put(keys.software_prefetches_per_packet, ratio(software, frames));
        g.put(keys.software_prefetches_dropped, ratio(stats.software_prefetches_dropped, software));
    }
}

pub(super) fn access_times(w: &View, g: &mut TimingFigures) {
    let (core, hart) = (&w.own.core.counts, &w.private.core);
    let from_cache = core.loads as f64 - core.forwards as f64;
    g.put(ACCESS_TIME.load_cycles, ratio(core.load_cycles, from_cache));
    g.put(ACCESS_TIME.network_load_cycles, ratio(hart.network_load_cycles, hart.network_loads));
    let (cycles, accesses) = (hart.data_access_cycles + hart.fetch_cycles, hart.data_accesses + hart.fetches);
    g.put(ACCESS_TIME.access_cycles, ratio(cycles, accesses));
    g.put(ACCESS_TIME.data_access_cycles, ratio(hart.data_access_cycles, hart.data_accesses));
    g.put(ACCESS_TIME.network_loads, ratio(hart.network_loads, from_cache));
    let served = core.loads_l1 + core.loads_l2 + core.loads_llc + core.loads_peer + core.loads_dram;
    g.put(ACCESS_TIME.from_l1, ratio(core.loads_l1, served));
    g.put(ACCESS_TIME.from_l2, ratio(core.loads_l2, served));
    g.put(ACCESS_TIME.from_llc, ratio(core.loads_llc, served));
    g.put(ACCESS_TIME.from_peer, ratio(core.loads_peer, served));
    g.put(ACCESS_TIME.from_dram, ratio(core.loads_dram, served));
}

pub(super) fn occupancy(w: &View, models: &Models, g: &mut TimingFigures) {
    let (core, cycles) = (&w.own.core.counts, w.awake_cycles());
    g.put(OCCUPANCY.rob, ratio(core.rob_cycles, cycles));
    g.put(OCCUPANCY.iq, ratio(core.iq_cycles, cycles));
    g.put(OCCUPANCY.lq, ratio(core.lq_cycles, cycles));
    g.put(OCCUPANCY.sq, ratio(core.sq_cycles, cycles));
    let of_cores = w.awake_cycles_of_cores();
    g.put(OCCUPANCY.l1d_mshrs, ratio(w.private.l1d.mshr_cycles, of_cores));
    g.put(OCCUPANCY.l2_mshrs, ratio(w.private.l2.mshr_cycles, of_cores));
    let memory = &w.config.memory;
    let shared = w.seconds() * memory.interconnect.clock.0 as f64;
    g.put(OCCUPANCY.llc_mshrs, ratio(w.shared(|at| &at.memory.llc).mshr_cycles, shared));
    let lines = memory.llc.size.0 / 64;
    for ((class, what), held) in CLASSES.into_iter().zip(models.timing.memory.occupancy()) {
        g.put_for(OCCUPANCY.llc_class, class, what, ratio(held, lines));
    }
}

pub(super) fn dram(w: &View, frames: u64, g: &mut TimingFigures) {
    let seconds = w.seconds();
    let gbps = |bytes: u64| ratio(bytes as f64 * 8e-9, seconds);
    let channels = w.dram();
    let all = DramStats::sum(channels.iter().cloned());
    g.put(DRAM.read_gbps, gbps(all.bytes_read));
    g.put(DRAM.write_gbps, gbps(all.bytes_written));
    g.put(DRAM.mb_per_second, ratio((all.bytes_read + all.bytes_written) as f64 * 1e-6, seconds));
    let busy = all.busy_ps as f64 * 1e-12;
    g.put(DRAM.share, ratio(busy, seconds * w.config.memory.dram.channels as f64));
    for (number, channel) in channels.iter().enumerate() {
        let number = &number.to_string();
        g.put_for(DRAM.channel_read_gbps, number, number, gbps(channel.bytes_read));
        g.put_for(DRAM.channel_write_gbps, number, number, gbps(channel.bytes_written));
    }
    g.put(DRAM.row_hit_rate, ratio(all.row_hits, all.row_hits + all.row_closed + all.row_conflicts));
    g.put(DRAM.bytes_read_per_packet, ratio(all.bytes_read, frames));
    g.put(DRAM.bytes_written_per_packet, ratio(all.bytes_written, frames));
}

/// Uncore events, per packet. Device events include those of co-runners' devices, and accesses to device
/// registers those of all cores.
pub(super) fn uncore(w: &View, memory_frames: u64, device_frames: u64, g: &mut TimingFigures) {
    let (device, core) = (w.shared(|at| &at.memory.devices), &w.private.core);
    for (key, hits, misses, frames) in [
        (UNCORE.itom, device.itom_hits, device.itom_misses, device_frames),
        (UNCORE.device_rfo, device.rfo_hits, device.rfo_misses, device_frames),
        (UNCORE.pcierdcur, device.pcierdcur_hits, device.pcierdcur_misses, device_frames),
        (UNCORE.crd, core.crd_hits, core.crd_misses, w.frames),
        (UNCORE.drd, core.drd_hits, core.drd_misses, w.frames),
        (UNCORE.core_rfo, core.rfo_hits, core.rfo_misses, w.frames),
        (UNCORE.prefetch, core.prefetch_hits, core.prefetch_misses, w.frames),
    ] {
        g.put_for(key, "hit", "hit", ratio(hits, frames));
        g.put_for(key, "miss", "missed", ratio(misses, frames));
    }
    let writes = device.itom_hits + device.itom_misses;
    g.put(UNCORE.itom_hit_percent, ratio(100.0 * device.itom_hits as f64, writes));
    g.put(UNCORE.prd, ratio(device.prd, memory_frames));
    g.put(UNCORE.wil, ratio(device.wil, memory_frames));
}

pub(super) fn dca(w: &View, memory_frames: u64, device_frames: u64, g: &mut TimingFigures) {
    let device = w.shared(|at| &at.memory.devices);
    let per_packet = |count: u64| ratio(count, device_frames);
    g.put(DCA.updates_per_packet, per_packet(device.updates));
    g.put(DCA.allocations_per_packet, per_packet(device.allocations));
    g.put(DCA.to_l2_per_packet, per_packet(device.private_placements));
    g.put(DCA.to_memory_per_packet, per_packet(device.to_memory));
    g.put(DCA.private_invalidations_per_packet, per_packet(device.private_invalidations));
    g.put(DCA.device_merges_per_packet, per_packet(device.merges));
    let merges = w.shared(|at| &at.memory.llc).merges;
    g.put(DCA.core_merges_per_packet, ratio(merges, memory_frames.min(device_frames)));
    g.put(DCA.leaks_per_packet, per_packet(device.leaks));
    g.put(DCA.header_leaks_per_packet, per_packet(device.leaks_header));
    g.put(DCA.payload_leaks_per_packet, per_packet(device.leaks_payload));
    g.put(DCA.descriptor_leaks_per_packet, per_packet(device.leaks_descriptor));
    // Possible ends of a device-written line in a cache. Lines that are still cached unused have no end yet.
    let used = device.fresh_used_by_core + device.fresh_used_by_device;
    let ended = used + device.fresh_overwritten + device.fresh_dropped + device.leaks;
    g.put(DCA.leak_rate, ratio(device.leaks, ended));
    g.put(DCA.used_by_core, ratio(device.fresh_used_by_core, ended));
    g.put(DCA.overwritten, ratio(device.fresh_overwritten, ended));
}
