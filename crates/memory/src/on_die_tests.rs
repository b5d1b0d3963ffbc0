//! On-die devices: at the last-level cache, and on the memory bus.

use doorbell_sim::Ps;
use doorbell_sim::memory::{AccessKind, CoreAccess, DmaAccess, DmaEntryPoint, HostMemory, Level};
use doorbell_sim::ports::PhysAddr;

use crate::dca::{DcaPolicy, Place};
use crate::device_tests::{BASE, LLC_STRIDE, System, core, data, in_llc, way, with_policy, write};

/// A system whose device 0 is on the die and enters at `entry`.
fn on_die(entry: DmaEntryPoint, policy: DcaPolicy) -> System {
    let mut system = with_policy(policy);
    system.set_entry(0, entry);
    system
}

fn flat(system: &System) -> u64 {
    system.traffic.memory_writes
}

#[test]
fn a_device_at_the_llc_takes_its_port_and_latency_and_no_root_complex_link() {
    let mut far = with_policy(DcaPolicy::default());
    let mut near = on_die(DmaEntryPoint::Llc, DcaPolicy::default());
    // 20 cycles at 2 GHz; the root complex adds 10 each way.
    assert_eq!(write(&mut near, 0), Ps::from_ns(10));
    assert_eq!(write(&mut far, 0), Ps::from_ns(10 + 5));
    let read = |system: &mut System| system.device_read(Ps::from_us(1), PhysAddr(BASE), 64, data(0));
    assert_eq!(read(&mut near), Ps::from_ns(1000 + 10));
    assert_eq!(read(&mut far), Ps::from_ns(1000 + 10 + 5 + 5));
}

#[test]
fn writes_of_a_device_at_the_llc_stay_there_with_dca_on_or_off() {
    for (policy, ways) in [(DcaPolicy::default(), 0..4), (DcaPolicy::off(), 4..16)] {
        let mut system = on_die(DmaEntryPoint::Llc, policy);
        for n in 0..12 {
            write(&mut system, n * LLC_STRIDE);
            assert!(ways.contains(&way(&system, n * LLC_STRIDE)), "the policy's ways, or the cores'");
        }
        assert_eq!(core(&mut system, 0, AccessKind::Load, 11 * LLC_STRIDE), Level::Llc);
        system.check_invariants().unwrap();
    }
    // Headers into the cache, payload to memory: the policy also applies to an on-die device.
    let split = DcaPolicy { payload: Place::Memory, ..DcaPolicy::default() };
    let mut system = on_die(DmaEntryPoint::Llc, split);
    system.device_write(Ps::ZERO, PhysAddr(BASE), 64, data(0));
    system.device_write(Ps::ZERO, PhysAddr(BASE + 64), 64, data(64));
    assert_eq!((in_llc(&system, 0), in_llc(&system, 64), flat(&system)), (true, false, 1));
    // The same for a device that enters at the LLC with headers only.
    for policy in [DcaPolicy::default(), DcaPolicy::off()] {
        let mut system = on_die(DmaEntryPoint::LlcHeaders, policy);
        system.device_write(Ps::ZERO, PhysAddr(BASE), 64, data(0));
        system.device_write(Ps::ZERO, PhysAddr(BASE + 64), 64, data(64));
        assert_eq!((in_llc(&system, 0), in_llc(&system, 64), flat(&system)), (true, false, 1));
    }
}

#[test]
fn a_write_on_the_memory_bus_goes_to_memory_and_invalidates_all_copies() {
    for kind in [AccessKind::Store, AccessKind::Load] {
        let mut system = on_die(DmaEntryPoint::MemoryBus, DcaPolicy::default());
        core(&mut system, 1, kind, 0);
        write(&mut system, 0);
        assert_eq!((in_llc(&system, 0), flat(&system)), (false, 1));
        assert_eq!(core(&mut system, 1, AccessKind::Load, 0), Level::Dram);
        system.check_invariants().unwrap();
    }
}

#[test]
fn a_read_on_the_memory_bus_is_served_by_a_cache_only_if_modified_there() {
    let read = |system: &mut System| {
        let before = system.traffic.memory_reads;
        let done = system.device_read(Ps::from_us(100), PhysAddr(BASE), 64, data(0));
        (system.traffic.memory_reads - before, done - Ps::from_us(100))
    };
    let new = || on_die(DmaEntryPoint::MemoryBus, DcaPolicy::default());
    let memory = Ps::from_ns(60);
    let mut nowhere = new();
    assert_eq!(read(&mut nowhere), (1, memory));
    assert!(!in_llc(&nowhere, 0), "it does not allocate");
    let mut clean = new();
    core(&mut clean, 0, AccessKind::Load, 0);
    assert_eq!(read(&mut clean), (1, memory));
    let mut in_l1 = new();
    core(&mut in_l1, 0, AccessKind::Store, 0);
    // A snoop of 20 cycles.
    assert_eq!(read(&mut in_l1), (0, Ps::from_ns(10)));
    // Another device, at the root complex, has written it into the LLC.
    let mut in_llc = new();
    in_llc.device_write(Ps::ZERO, PhysAddr(BASE), 64, DmaAccess { device: 1, ..data(0) });
    assert_eq!(read(&mut in_llc), (0, Ps::from_ns(10)), "the LLC's latency");
    assert_eq!(in_llc.devices.fresh_used_by_device, 1);
    for system in [nowhere, clean, in_l1, in_llc] {
        system.check_invariants().unwrap();
    }
}

#[test]
fn a_partial_write_on_the_memory_bus_merges_with_the_newest_copy() {
    let part = |system: &mut System| {
        let before = system.traffic.memory_reads;
        let done = system.device_write(Ps::from_us(100), PhysAddr(BASE + 16), 16, data(0));
        (system.traffic.memory_reads - before, done - Ps::from_us(100))
    };
    let mut system = on_die(DmaEntryPoint::MemoryBus, DcaPolicy::default());
    let (reads, done) = part(&mut system);
    assert!(reads == 1 && done >= Ps::from_ns(60), "memory is read first: {done}");
    core(&mut system, 0, AccessKind::Store, 0);
    assert_eq!(part(&mut system).0, 0, "a core has the newest copy");
    assert_eq!(core(&mut system, 0, AccessKind::Load, 0), Level::Dram);
    system.check_invariants().unwrap();
}

#[test]
fn timed_and_warming_accesses_of_on_die_devices_give_the_same_caches() {
    for entry in [DmaEntryPoint::Llc, DmaEntryPoint::LlcHeaders, DmaEntryPoint::MemoryBus] {
        let run = |timed: bool| {
            let mut system = on_die(entry, DcaPolicy::default());
            for n in 0..2000u64 {
                let (addr, now) = (PhysAddr(BASE + (n * 7919 % 4096) * 64), Ps::from_us(n));
                match (n % 3, timed) {
                    (0, true) => drop(system.device_write(now, addr, 64, data(0))),
                    (0, false) => system.warm_device_write(addr, 64, data(0)),
                    (1, true) => drop(system.device_read(now, addr, 64, data(0))),
                    (1, false) => system.warm_device_read(addr, 64, data(0)),
                    (_, true) => drop(core(&mut system, 0, AccessKind::Store, addr.0 - BASE)),
                    (..) => system.warm(0, CoreAccess { kind: AccessKind::Store, addr, pc: 0 }),
                }
            }
            system.check_invariants().unwrap();
            let lines: Vec<bool> = (0..4096).map(|n| in_llc(&system, n * 64)).collect();
            (lines, system.traffic.memory_writes, system.traffic.memory_reads)
        };
        assert_eq!(run(true), run(false), "{entry:?}");
    }
}
