//! The rules of direct cache access, one by one, and the latency of a device's access.

use doorbell_sim::memory::{AccessKind, CoreAccess, DmaAccess, HostMemory, Level};
use doorbell_sim::ports::{DmaPurpose, PhysAddr};
use doorbell_sim::{Bytes, Hertz, Ps};

use crate::backing::FlatMemory;
use crate::class::DataClass;
use crate::coherence::config::CoherenceKind;
use crate::config::{Inclusion, MemoryConfig};
use crate::dca::{DcaPolicy, DeviceDca, Invalidate, Place};
use crate::plain_cycles::core_access;
use crate::system::MemorySystem;
use crate::ways::WayMask;

pub(crate) type System = MemorySystem<FlatMemory>;

pub(crate) const BASE: u64 = 0x8000_0000;
/// Lines this far apart map to the same set of the LLC.
pub(crate) const LLC_STRIDE: u64 = 16 << 10;

/// An LLC of 256 sets and 16 ways; cores' lines in ways 4 to 15, devices' in 0 to 3.
fn config() -> MemoryConfig {
    let mut config = MemoryConfig::default();
    config.coherence.kind = CoherenceKind::Ideal;
    config.llc.size = Bytes(256 << 10);
    config.llc.core_ways = "4-15".parse().unwrap();
    config
}

fn system(config: &MemoryConfig) -> System {
    let memory = FlatMemory::new(Ps::from_ns(60), Ps::from_ns(4));
    let clocks = [Hertz(3_000_000_000), Hertz(3_000_000_000)];
    MemorySystem::new(config, &clocks, PhysAddr(BASE), Bytes(64 << 20), memory).unwrap()
}

pub(crate) fn with_policy(policy: DcaPolicy) -> System {
    let mut config = config();
    config.dca.policy = policy;
    system(&config)
}

pub(crate) fn data(offset: u32) -> DmaAccess {
    DmaAccess::plain(0, DmaPurpose::RxData, offset)
}

pub(crate) fn write(system: &mut System, offset: u64) -> Ps {
    system.device_write(Ps::ZERO, PhysAddr(BASE + offset), 64, data(0))
}

pub(crate) fn core(system: &mut System, hart: usize, kind: AccessKind, offset: u64) -> Level {
    core_access(system, hart, 100_000, CoreAccess { kind, addr: PhysAddr(BASE + offset), pc: 0 }).level
}

pub(crate) fn in_llc(system: &System, offset: u64) -> bool {
    system.llc.tags.find((offset / 64) as u32).is_some()
}

fn is_dirty(system: &System, offset: u64) -> bool {
    let slot = system.llc.tags.find((offset / 64) as u32);
    slot.is_some_and(|slot| system.llc.tags.flags(slot).is_dirty())
}

pub(crate) fn way(system: &System, offset: u64) -> usize {
    system.llc.tags.find((offset / 64) as u32).unwrap().way() as usize
}

#[test]
fn a_full_line_write_that_hits_a_way_outside_the_dca_ways_updates_it_in_place() {
    let mut system = system(&config());
    core(&mut system, 0, AccessKind::Load, 0);
    let before = way(&system, 0);
    assert!(before >= 4);
    write(&mut system, 0);
    assert_eq!(way(&system, 0), before);
    assert!(is_dirty(&system, 0));
    assert_eq!((system.devices.updates, system.devices.allocations), (1, 0));
}

#[test]
fn a_full_line_write_that_misses_allocates_in_the_dca_ways_only() {
    let mut system = system(&config());
    for n in 0..12 {
        core(&mut system, 0, AccessKind::Load, n * LLC_STRIDE);
    }
    for n in 20..28 {
        write(&mut system, n * LLC_STRIDE);
        assert!(way(&system, n * LLC_STRIDE) < 4);
    }
    assert!((0..12).all(|n| in_llc(&system, n * LLC_STRIDE)), "cores' lines stay");
    assert!((24..28).all(|n| in_llc(&system, n * LLC_STRIDE)), "the last four written are there");
    assert_eq!(system.devices.allocations, 8);
    assert_eq!(system.devices.leaks, 4, "the first four have leaked");
    assert_eq!((system.devices.leaks_header, system.traffic.memory_writes), (4, 4));
}

#[test]
fn core_fills_stay_in_the_core_ways() {
    let mut system = system(&config());
    for n in 0..4 {
        write(&mut system, n * LLC_STRIDE);
    }
    for n in 20..60 {
        core(&mut system, 0, AccessKind::Load, n * LLC_STRIDE);
    }
    assert!((0..4).all(|n| in_llc(&system, n * LLC_STRIDE)));
}

#[test]
fn private_copies_are_invalidated_whether_the_write_hits_or_misses() {
    let mut system = system(&config());
    for (kind, offset) in [(AccessKind::Store, 0), (AccessKind::Fetch, 64), (AccessKind::Load, 128)] {
        core(&mut system, 1, kind, offset);
        write(&mut system, offset);
        assert_eq!(core(&mut system, 1, AccessKind::Load, offset), Level::Llc);
    }
    assert_eq!(system.devices.private_invalidations, 3);
    assert_eq!(system.traffic.memory_writes, 0, "overwritten lines are not written back");
}

#[test]
fn a_partial_write_merges_with_a_dirty_private_copy_without_reading_memory() {
    let mut system = system(&config());
    core(&mut system, 0, AccessKind::Store, 0);
    let reads = system.traffic.memory_reads;
    system.device_write(Ps::from_us(40), PhysAddr(BASE + 16), 16, data(16));
    assert_eq!(system.traffic.memory_reads, reads);
    assert!(is_dirty(&system, 0));
    assert_eq!(system.devices.rfo_hits, 1);
}

#[test]
fn a_partial_write_of_an_uncached_line_reads_memory_and_allocates() {
    let mut system = system(&config());
    let done = system.device_write(Ps::ZERO, PhysAddr(BASE), 16, data(0));
    let full = write(&mut system, 64);
    assert_eq!((system.traffic.memory_reads, system.devices.rfo_misses), (1, 1));
    assert!(is_dirty(&system, 0) && way(&system, 0) < 4);
    assert!(done >= full + Ps::from_ns(60) - Ps(500), "{done} is {full} plus memory's latency");
}

#[test]
fn a_read_is_served_by_a_dirty_private_copy_which_keeps_its_state() {
    let mut system = system(&config());
    core(&mut system, 0, AccessKind::Store, 0);
    let reads = system.traffic.memory_reads;
    system.device_read(Ps::from_us(100), PhysAddr(BASE), 64, data(0));
    assert_eq!((system.traffic.memory_reads, system.traffic.snoops), (reads, 1));
    let store = CoreAccess { kind: AccessKind::Store, addr: PhysAddr(BASE), pc: 0 };
    assert_eq!(core_access(&mut system, 0, 1_000_000, store).level, Level::L1, "hart 0 still owns the line");
    assert!(!is_dirty(&system, 0), "the newest copy stays in the private cache");
}

#[test]
fn a_read_from_memory_allocates_only_if_the_policy_says_so() {
    for read_allocate in [false, true] {
        let mut system = with_policy(DcaPolicy { read_allocate, ..DcaPolicy::default() });
        system.device_read(Ps::ZERO, PhysAddr(BASE), 64, data(0));
        assert_eq!(in_llc(&system, 0), read_allocate);
        assert!(!is_dirty(&system, 0));
    }
}

#[test]
fn with_dca_off_writes_go_to_memory_and_invalidate_copies_and_reads_still_snoop() {
    let mut system = with_policy(DcaPolicy::off());
    core(&mut system, 0, AccessKind::Load, 0);
    assert!(in_llc(&system, 0));
    write(&mut system, 0);
    assert!(!in_llc(&system, 0));
    assert_eq!((system.devices.to_memory, system.traffic.memory_writes), (1, 1));
    assert_eq!(core(&mut system, 0, AccessKind::Store, 0), Level::Dram);
    let reads = system.traffic.memory_reads;
    system.device_read(Ps::from_us(100), PhysAddr(BASE), 64, data(0));
    assert_eq!((system.traffic.memory_reads, system.traffic.snoops), (reads, 2));
}

#[test]
fn with_dca_off_a_partial_write_merges_with_a_dirty_copy_and_goes_to_memory() {
    let mut system = with_policy(DcaPolicy::off());
    core(&mut system, 0, AccessKind::Store, 0);
    let reads = system.traffic.memory_reads;
    system.device_write(Ps::ZERO, PhysAddr(BASE), 8, data(0));
    assert_eq!((system.traffic.memory_reads, system.traffic.memory_writes), (reads, 1));
    system.device_write(Ps::ZERO, PhysAddr(BASE + 64), 8, data(0));
    assert_eq!(
        (system.traffic.memory_reads, system.traffic.memory_writes),
        (reads + 1, 2),
        "merged with memory's copy"
    );
}

#[test]
fn with_place_update_a_hit_is_updated_and_a_miss_goes_to_memory() {
    let policy = DcaPolicy { headers: Place::Update, ..DcaPolicy::default() };
    let mut system = with_policy(policy);
    core(&mut system, 0, AccessKind::Load, 0);
    write(&mut system, 0);
    write(&mut system, 64);
    assert!(is_dirty(&system, 0) && !in_llc(&system, 64));
    assert_eq!((system.devices.updates, system.devices.to_memory), (1, 1));
}

#[test]
fn header_only_caches_the_first_bytes_and_writes_the_rest_to_memory() {
    let policy = DcaPolicy { payload: Place::Memory, header_bytes: 128, ..DcaPolicy::default() };
    let mut system = with_policy(policy);
    for offset in (0..512).step_by(64) {
        system.device_write(Ps::ZERO, PhysAddr(BASE + offset), 64, data(offset as u32));
    }
    let there: Vec<bool> = (0..8).map(|n| in_llc(&system, 64 * n)).collect();
    assert_eq!(there, [true, true, false, false, false, false, false, false]);
}

#[test]
fn invalidate_sent_drops_transmitted_lines_from_all_caches_without_write_back() {
    let read = |system: &mut System, kind, offset: u64, bytes| {
        let access = DmaAccess::plain(0, kind, 0);
        system.device_read(Ps::from_us(50), PhysAddr(BASE + offset), bytes, access);
    };
    for (invalidate, stays) in [(Invalidate::Never, true), (Invalidate::Sent, false)] {
        let mut system = with_policy(DcaPolicy { invalidate, ..DcaPolicy::default() });
        // Dirty in a core's caches; dirty in the LLC (device-written); clean in a core's caches; in no cache.
        core(&mut system, 0, AccessKind::Store, 0);
        write(&mut system, 64);
        core(&mut system, 1, AccessKind::Load, 128);
        let written = system.stats().traffic.memory_writes;
        (0..4).for_each(|line| read(&mut system, DmaPurpose::TxData, 64 * line, 60));
        let there = |system: &mut System, offset| {
            in_llc(system, offset) || core(system, 0, AccessKind::Load, offset) != Level::Dram
        };
        assert_eq!([0, 64, 128].map(|offset| there(&mut system, offset)), [stays; 3]);
        let stats = system.stats();
        assert_eq!((stats.devices.dropped, stats.devices.dropped_dirty), if stays { (0, 0) } else { (3, 2) });
        assert_eq!(stats.traffic.memory_writes, written);
        let devices = stats.devices;
        assert_eq!(
            (devices.fresh_lines, devices.fresh_used_by_device),
            (1, 1),
            "a transmission counts as a use"
        );
    }
}

#[test]
fn invalidate_sent_keeps_descriptors_and_lines_read_from_the_middle() {
    let mut system = with_policy(DcaPolicy { invalidate: Invalidate::Sent, ..DcaPolicy::default() });
    for (kind, offset) in
        [(DmaPurpose::TxDescriptor, 0), (DmaPurpose::RxDescriptor, 64), (DmaPurpose::TxData, 130)]
    {
        core(&mut system, 0, AccessKind::Store, offset);
        system.device_read(Ps::from_us(50), PhysAddr(BASE + offset), 16, DmaAccess::plain(0, kind, 0));
        let load = CoreAccess { kind: AccessKind::Load, addr: PhysAddr(BASE + offset), pc: 0 };
        assert_eq!(core_access(&mut system, 0, 300_000, load).level, Level::L1, "{kind:?}");
    }
    assert_eq!(system.stats().devices.dropped, 0);
}

#[test]
fn invalidate_returned_drops_lines_that_are_wholly_in_the_returned_buffer() {
    for (invalidate, drops) in
        [(Invalidate::Sent, false), (Invalidate::Returned, true), (Invalidate::Both, true)]
    {
        let mut system = with_policy(DcaPolicy { invalidate, ..DcaPolicy::default() });
        // Dirty in a core, dirty in the LLC, clean in both.
        core(&mut system, 0, AccessKind::Store, 0);
        write(&mut system, 64);
        core(&mut system, 1, AccessKind::Load, 128);
        let written = system.stats().traffic.memory_writes;
        // From the middle of line 0 to the middle of line 2: only line 1 is wholly in the buffer.
        system.buffer_returned(0, PhysAddr(BASE + 32), 128);
        assert_eq!(in_llc(&system, 64), !drops, "{invalidate:?}");
        assert_eq!(system.stats().devices.dropped, u64::from(drops));
        system.buffer_returned(0, PhysAddr(BASE), 192);
        let devices = system.stats().devices;
        assert_eq!((devices.dropped, devices.dropped_dirty), if drops { (3, 2) } else { (0, 0) });
        assert_eq!(system.stats().traffic.memory_writes, written);
        let load = CoreAccess { kind: AccessKind::Load, addr: PhysAddr(BASE), pc: 0 };
        let level = core_access(&mut system, 0, 300_000, load).level;
        assert_eq!(level, if drops { Level::Dram } else { Level::L1 });
        // A buffer smaller than a line, an uncached one, one outside RAM, one whose end overflows.
        for (addr, bytes) in [(BASE + 3, 60), (BASE + 4096, 2048), (0, 2048), (u64::MAX - 63, u64::MAX)] {
            system.buffer_returned(0, PhysAddr(addr), bytes);
        }
        assert_eq!(system.stats().devices.dropped, devices.dropped);
    }
}

#[test]
fn unused_lines_of_a_returned_buffer_are_counted_as_dropped() {
    for place in [Place::Allocate, Place::L2] {
        let policy = DcaPolicy {
            invalidate: Invalidate::Returned,
            headers: place,
            payload: place,
            ..DcaPolicy::default()
        };
        let mut system = with_policy(policy);
        write(&mut system, 0);
        write(&mut system, 64);
        core(&mut system, 0, AccessKind::Load, 64);
        system.buffer_returned(0, PhysAddr(BASE), 128);
        let counted = system.stats().devices;
        assert_eq!((counted.fresh_lines, counted.fresh_used_by_core, counted.fresh_dropped), (2, 1, 1));
        system.check_invariants().unwrap();
    }
}

#[test]
fn each_device_has_its_own_policy_which_can_change_at_run_time() {
    let mut config = config();
    config.dca.devices = vec![DeviceDca { device: 1, policy: DcaPolicy::off() }];
    let mut system = system(&config);
    let of = |device| DmaAccess::plain(device, DmaPurpose::RxData, 0);
    system.device_write(Ps::ZERO, PhysAddr(BASE), 64, of(0));
    system.device_write(Ps::ZERO, PhysAddr(BASE + 64), 64, of(1));
    assert!(in_llc(&system, 0) && !in_llc(&system, 64));
    let ways = WayMask(0b1000_0000);
    system.set_policy(Some(1), DcaPolicy { ways, ..DcaPolicy::default() }).unwrap();
    system.device_write(Ps::ZERO, PhysAddr(BASE + 64), 64, of(1));
    assert_eq!(way(&system, 64), 7);
    let refused = system.set_policy(None, DcaPolicy { ways: WayMask(1 << 20), ..DcaPolicy::default() });
    assert!(refused.unwrap_err().contains("0 to 15"));
}

#[test]
fn l2_placement_puts_a_line_into_the_l2_of_the_configured_hart() {
    for inclusion in [Inclusion::Inclusive, Inclusion::NonInclusive, Inclusion::Exclusive] {
        let mut config = config();
        config.llc.inclusion = inclusion;
        config.dca.policy = DcaPolicy { headers: Place::L2, l2_hart: 1, ..DcaPolicy::default() };
        let mut system = system(&config);
        write(&mut system, 0);
        assert_eq!(in_llc(&system, 0), inclusion == Inclusion::Inclusive);
        system.check_invariants().unwrap();
        assert_eq!(core(&mut system, 1, AccessKind::Load, 0), Level::L2);
        assert_eq!(system.devices.fresh_used_by_core, 1);
        assert_eq!(core(&mut system, 0, AccessKind::Load, 0), Level::Peer, "hart 1 has the newest copy");
    }
}

#[test]
fn a_written_line_counts_as_used_once_by_its_first_user() {
    let mut system = system(&config());
    (0..3).for_each(|n| {
        write(&mut system, 64 * n);
    });
    core(&mut system, 0, AccessKind::Load, 0);
    system.device_read(Ps::from_us(1), PhysAddr(BASE), 64, data(0));
    system.device_read(Ps::from_us(1), PhysAddr(BASE + 64), 64, data(0));
    write(&mut system, 128);
    let counted = &system.devices;
    assert_eq!(
        (counted.fresh_used_by_core, counted.fresh_used_by_device, counted.fresh_overwritten, counted.leaks),
        (1, 1, 1, 0)
    );
    system.check_invariants().unwrap();
}

#[test]
fn misses_and_occupancy_are_split_by_class() {
    let mut system = with_policy(DcaPolicy { payload: Place::Memory, ..DcaPolicy::default() });
    for (n, kind) in
        [DmaPurpose::RxData, DmaPurpose::RxData, DmaPurpose::RxDescriptor, DmaPurpose::TxDescriptor]
            .into_iter()
            .enumerate()
    {
        let access = DmaAccess::plain(0, kind, if n == 1 { 64 } else { 0 });
        system.device_write(Ps::ZERO, PhysAddr(BASE + 64 * n as u64), 64, access);
    }
    assert_eq!(system.occupancy(), [0, 0, 1, 0, 1, 1], "the payload went to memory");
    (0..4).for_each(|n| {
        core(&mut system, 0, AccessKind::Load, 64 * n);
    });
    core(&mut system, 0, AccessKind::Load, 4096);
    core(&mut system, 0, AccessKind::Fetch, 8192);
    let stats = system.stats();
    let (l1d, llc) = (&stats.harts[0].l1d, &stats.llc);
    assert_eq!((l1d.misses_header, l1d.misses_payload, l1d.misses_other), (1, 1, 1));
    assert_eq!((l1d.misses_rx_descriptor, l1d.misses_tx_descriptor), (1, 1));
    assert_eq!(stats.harts[0].l1i.misses_code, 1);
    assert_eq!((llc.misses, llc.misses_payload, llc.misses_other, llc.misses_code), (3, 1, 1, 1));
    assert_eq!(stats.harts[0].core.network_accesses, 4);
    assert_eq!(system.occupancy()[DataClass::Code as usize], 1);
}

#[test]
fn loads_of_lines_that_a_core_overwrote_are_not_loads_of_network_data() {
    let mut system = system(&config());
    write(&mut system, 0);
    let loads = |system: &System| system.stats().harts[0].core.network_loads;
    let load = CoreAccess { kind: AccessKind::Load, addr: PhysAddr(BASE), pc: 0 };
    let took = core_access(&mut system, 0, 100_000, load).at - 100_000;
    assert_eq!((loads(&system), system.stats().harts[0].core.network_load_cycles), (1, took));
    core(&mut system, 0, AccessKind::Store, 8);
    core(&mut system, 0, AccessKind::Load, 0);
    assert_eq!(loads(&system), 1, "a core has overwritten the line");
    system.device_read(Ps::ZERO, PhysAddr(BASE), 64, data(0));
    core(&mut system, 0, AccessKind::Store, 8);
    core(&mut system, 0, AccessKind::Load, 0);
    assert_eq!(loads(&system), 2, "a transmitted line is refilled for the next transmission");
    write(&mut system, 0);
    core(&mut system, 0, AccessKind::Load, 0);
    core(&mut system, 0, AccessKind::Walk, 0);
    assert_eq!((loads(&system), system.stats().harts[0].core.network_accesses), (3, 7));
}

#[test]
fn uncore_events_are_counted_as_hits_and_misses_of_the_llc() {
    let mut system = system(&config());
    write(&mut system, 0);
    write(&mut system, 0);
    system.device_write(Ps::ZERO, PhysAddr(BASE), 16, data(0));
    system.device_write(Ps::ZERO, PhysAddr(BASE + 64), 16, data(0));
    system.device_read(Ps::ZERO, PhysAddr(BASE), 64, data(0));
    system.device_read(Ps::ZERO, PhysAddr(BASE + 128), 64, data(0));
    system.count_mmio(true);
    system.count_mmio(false);
    let counted = &system.devices;
    assert_eq!((counted.itom_hits, counted.itom_misses), (1, 1));
    assert_eq!((counted.rfo_hits, counted.rfo_misses), (1, 1));
    assert_eq!((counted.pcierdcur_hits, counted.pcierdcur_misses), (1, 1));
    assert_eq!((counted.wil, counted.prd), (1, 1));
}

/// At 2 GHz: 10 cycles from the root complex, 20 for the LLC, 10 back; memory 60 ns.
#[test]
fn an_unloaded_device_access_takes_the_sum_of_its_latencies() {
    let mut system = system(&config());
    let at = |ns| Ps::from_ns(ns);
    assert_eq!(write(&mut system, 0), at(15), "to the LLC and its look-up");
    let read =
        |system: &mut System, now, offset| system.device_read(now, PhysAddr(BASE + offset), 64, data(0));
    assert_eq!(read(&mut system, at(1_000), 0), at(1_020), "plus the way back");
    assert_eq!(read(&mut system, at(2_000), 64), at(2_080), "plus memory");
    core(&mut system, 0, AccessKind::Store, 0);
    assert_eq!(
        read(&mut system, Ps::from_us(200), 0),
        Ps::from_us(200) + at(30),
        "plus 20 cycles to a core's cache"
    );
}

#[test]
fn device_write_bandwidth_is_limited_by_the_link_and_the_llc_ports() {
    for (bytes_per_cycle, ports, cycles_per_line) in [(16, 2, 4), (64, 1, 1), (64, 2, 1), (32, 1, 2)] {
        let mut config = config();
        (config.interconnect.io_bytes_per_cycle, config.llc.ports) = (bytes_per_cycle, ports);
        let mut system = system(&config);
        let done: Vec<Ps> = (0..1000).map(|n| write(&mut system, 64 * n)).collect();
        let expected = Ps(500 * cycles_per_line * 999);
        assert_eq!(done[999] - done[0], expected, "{bytes_per_cycle} bytes per cycle, {ports} ports");
    }
}

#[test]
fn reads_of_a_line_in_flight_merge_and_read_memory_once() {
    let mut system = system(&config());
    let first = system.device_read(Ps::ZERO, PhysAddr(BASE), 16, data(0));
    let second = system.device_read(Ps::from_ns(5), PhysAddr(BASE + 16), 16, data(0));
    assert_eq!((second, system.devices.merges, system.traffic.memory_reads), (first, 1, 1));
    system.device_read(Ps::from_ns(500), PhysAddr(BASE), 16, data(0));
    assert_eq!(system.traffic.memory_reads, 2, "a later read goes to memory again");
}

#[test]
fn an_access_outside_ram_is_counted_and_completes() {
    let mut system = system(&config());
    for addr in [0, BASE - 1, BASE + (64 << 20), u64::MAX] {
        assert!(system.device_read(Ps::ZERO, PhysAddr(addr), 64, data(0)) > Ps::ZERO);
        assert!(system.device_write(Ps::ZERO, PhysAddr(addr), 64, data(0)) > Ps::ZERO);
        let access = CoreAccess { kind: AccessKind::Load, addr: PhysAddr(addr), pc: 0 };
        assert!(core_access(&mut system, 0, 10, access).at > 10);
    }
    assert_eq!((system.devices.outside_ram, system.harts[0].stats.outside_ram), (8, 4));
}
