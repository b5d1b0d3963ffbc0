use super::*;
use crate::identity::Capability;
use crate::testing::function;
use AccessSize::{B1, B2, B4, B8};
use proptest::prelude::*;

const NIC: u64 = 1 << 15;

fn nic(place: Place) -> Slot {
    Slot { place, identity: function() }
}

fn pci_bridge(place: Place) -> Slot {
    Slot { place, identity: FunctionIdentity::pci_bridge() }
}

fn with(slots: Vec<Slot>) -> HostBridge {
    HostBridge::new(slots).unwrap()
}

fn bridge(devices: &[u8]) -> HostBridge {
    with(devices.iter().map(|device| nic(Place::root(*device))).collect())
}

const fn behind(bridge: u8, device: u8) -> Place {
    Place { behind: Some(bridge), device, function: 0 }
}

/// ECAM offset of a function's configuration space.
const fn ecam(bus: u64, device: u64, function: u64) -> u64 {
    bus << 20 | device << 15 | function << 12
}

#[test]
fn a_bus_scan_finds_exactly_the_bridge_and_the_devices() {
    let mut bridge = bridge(&[1, 31]);
    let mut found = Vec::new();
    for slot in 0..1u64 << 16 {
        let id = bridge.config_read(slot << 12, B4);
        if id != 0xffff_ffff {
            found.push((slot >> 3, slot & 7, id));
        }
    }
    assert_eq!(found, [(0, 0, 0x0008_1b36), (1, 0, 0x0002_d00b), (31, 0, 0x0002_d00b)]);
    assert_eq!(bridge.stats.absent_functions, (1 << 16) - 3);
    assert_eq!(bridge.config_read(8, B4), 0x0600_0000);
    assert_eq!(bridge.config_read(2 << 15, B1), 0xff);
    assert_eq!(bridge.config_write(2 << 15, B4, 0), ConfigWrite::default());
}

#[test]
fn accesses_are_decoded_by_assigned_base_addresses() {
    let mut bridge = bridge(&[1, 2]);
    assert_eq!(bridge.config_write(NIC + 0x10, B4, 0x4000_0000), ConfigWrite::default());
    assert_eq!(bridge.decode_memory(0x4000_0000), None, "memory is not enabled yet");
    let write = bridge.config_write(NIC + 0x04, B1, 0x6);
    assert_eq!(write.bus_master_changed, [FunctionId(0)]);
    assert!(bridge.bus_master(FunctionId(0)) && !bridge.bus_master(FunctionId(1)));
    for (addr, expected) in [
        (0x3fff_ffff, None),
        (0x4000_0000, Some(Decoded { function: FunctionId(0), bar: 0, offset: 0 })),
        (0x4001_ffff, Some(Decoded { function: FunctionId(0), bar: 0, offset: 0x1_ffff })),
        (0x4002_0000, None),
    ] {
        assert_eq!(bridge.decode_memory(addr), expected, "{addr:#x}");
    }
    bridge.config_write(2 * NIC + 0x14, B4, 0x1000);
    bridge.config_write(2 * NIC + 0x04, B2, 0x1);
    assert_eq!(bridge.decode_io(0x103f), Some(Decoded { function: FunctionId(1), bar: 1, offset: 0x3f }));
    assert_eq!((bridge.decode_io(0x1040), bridge.decode_memory(0x1000)), (None, None));
}

#[test]
fn of_overlapping_registers_the_first_listed_function_responds() {
    let mut bridge = bridge(&[3, 5]);
    for device in [5, 3] {
        bridge.config_write(device * NIC + 0x10, B4, 0x4000_0000);
        bridge.config_write(device * NIC + 0x04, B1, 0x2);
    }
    assert_eq!(bridge.decode_memory(0x4000_0008).unwrap().function, FunctionId(0));
    bridge.config_write(3 * NIC + 0x10, B4, 0x5000_0000);
    assert_eq!(bridge.decode_memory(0x4000_0008).unwrap().function, FunctionId(1));
}

#[test]
fn pins_are_swizzled_over_four_sources_by_device_number() {
    let bridge = bridge(&[]);
    let routes: Vec<u32> = (0..5).map(|device| bridge.intx_irq(device, 1)).collect();
    assert_eq!(routes, [32, 33, 34, 35, 32]);
    assert_eq!((1..=4).map(|pin| bridge.intx_irq(3, pin)).collect::<Vec<_>>(), [35, 32, 33, 34]);
}

#[test]
fn a_shared_source_is_asserted_until_the_last_device_deasserts_it() {
    let mut bridge = bridge(&[1, 5, 2]);
    let [one, five] = [FunctionId(0), FunctionId(1)];
    assert!(bridge.set_interrupt(one, true) && bridge.set_interrupt(five, true));
    assert_eq!(bridge.intx_levels(), [(32, false), (33, true), (34, false), (35, false)]);
    bridge.set_interrupt(one, false);
    assert!(bridge.intx_levels()[1].1);
    let write = bridge.config_write(5 * NIC + 0x05, B1, 0x4);
    assert!(write.interrupt_changed && !bridge.intx_levels()[1].1, "disabled by the command register");
    assert!(!bridge.set_interrupt(five, false));
}

#[test]
fn a_sleeping_device_neither_decodes_nor_interrupts() {
    let mut bridge = bridge(&[1]);
    bridge.config_write(NIC + 0x10, B4, 0x4000_0000);
    bridge.config_write(NIC + 0x04, B1, 0x6);
    bridge.set_interrupt(FunctionId(0), true);
    let write = bridge.config_write(NIC + 0xe0, B1, 0x3);
    assert!(write.interrupt_changed && write.bus_master_changed == [FunctionId(0)] && write.reset.is_empty());
    assert_eq!((bridge.decode_memory(0x4000_0000), bridge.intx_levels()[1].1), (None, false));
    assert_eq!(bridge.config_write(NIC + 0xe0, B1, 0x0).reset, [FunctionId(0)]);
}

#[test]
fn invalid_trees_are_rejected() {
    let refused = |slots| HostBridge::new(slots).unwrap_err();
    let (host, four) = (Place::root(0), Place::root(4));
    assert_eq!(refused(vec![nic(host)]), SlotError::HostBridge(0, host));
    assert_eq!(refused(vec![nic(four), nic(four)]), SlotError::Taken(1, four));
    assert_eq!(refused(vec![nic(behind(0, 1))]), SlotError::NoBridge(0, behind(0, 1)));
    // A bridge cannot be behind itself, nor two behind each other.
    assert_eq!(refused(vec![pci_bridge(behind(0, 1))]), SlotError::NoBridge(0, behind(0, 1)));
    let two = vec![pci_bridge(four), nic(behind(1, 1)), pci_bridge(Place::root(5))];
    assert_eq!(refused(two), SlotError::NoBridge(1, behind(1, 1)));
    let lonely = Place { function: 3, ..four };
    assert_eq!(refused(vec![nic(lonely)]), SlotError::NoFunctionZero(0, lonely));
}

#[test]
fn each_function_of_a_multifunction_device_has_the_multifunction_bit() {
    let four = Place::root(4);
    let mut bridge = with(vec![nic(four), nic(Place { function: 3, ..four }), nic(Place::root(5))]);
    let kinds = [(4, 0), (4, 3), (5, 0)].map(|(device, f)| bridge.config_read(ecam(0, device, f) + 0x0e, B1));
    assert_eq!(kinds, [0x80, 0x80, 0]);
    assert_eq!(bridge.config_read(ecam(0, 4, 1), B4), 0xffff_ffff);
}

/// A bridge at device 2; behind it a NIC at device 3 and a second bridge at device 1, which has a NIC at
/// device 2.
fn two_bridges_deep() -> HostBridge {
    with(vec![pci_bridge(Place::root(2)), pci_bridge(behind(0, 1)), nic(behind(0, 3)), nic(behind(1, 2))])
}

/// The settings of an operating system's scan: bus numbers, windows, base addresses.
fn scanned() -> HostBridge {
    let mut bridge = two_bridges_deep();
    let (outer, inner) = (ecam(0, 2, 0), ecam(1, 1, 0));
    bridge.config_write(outer + 0x18, B4, 0x0002_0100);
    bridge.config_write(inner + 0x18, B4, 0x0002_0201);
    // The outer bridge forwards 2 MiB of memory, the inner one the second MiB of them; both I/O from 0x1000
    // to 0x1fff.
    bridge.config_write(outer + 0x20, B4, 0x4010_4000);
    bridge.config_write(inner + 0x20, B4, 0x4010_4010);
    for at in [outer, inner] {
        bridge.config_write(at + 0x1c, B2, 0x1010);
        bridge.config_write(at + 0x04, B2, 0x7);
    }
    for (at, memory, io) in [(ecam(1, 3, 0), 0x4000_0000, 0x1000), (ecam(2, 2, 0), 0x4010_0000, 0x1040)] {
        bridge.config_write(at + 0x10, B4, memory);
        bridge.config_write(at + 0x14, B4, io);
        bridge.config_write(at + 0x04, B2, 0x7);
    }
    bridge
}

#[test]
fn configuration_accesses_are_routed_by_assigned_bus_numbers() {
    let mut bridge = two_bridges_deep();
    assert_eq!(bridge.config_read(ecam(0, 2, 0), B4), 0x244e_8086);
    assert_eq!(bridge.config_read(ecam(0, 2, 0) + 0x08, B4), 0x0604_0092);
    assert_eq!(bridge.config_read(ecam(0, 2, 0) + 0x0e, B1), 1, "a type 1 header");
    assert_eq!(bridge.config_read(ecam(1, 3, 0), B4), 0xffff_ffff, "no bus has a number yet");
    let mut bridge = scanned();
    assert_eq!(bridge.config_read(ecam(1, 3, 0), B4), 0x0002_d00b);
    assert_eq!(bridge.config_read(ecam(1, 1, 0), B4), 0x244e_8086);
    assert_eq!(bridge.config_read(ecam(2, 2, 0), B4), 0x0002_d00b);
    for absent in [ecam(2, 3, 0), ecam(0, 3, 0), ecam(3, 2, 0), ecam(1, 3, 1)] {
        assert_eq!(bridge.config_read(absent, B4), 0xffff_ffff);
    }
    let names = [ecam(0, 2, 0), ecam(2, 2, 0), ecam(3, 0, 0)].map(|at| bridge.ecam_name(at + 0x19));
    assert_eq!(names, ["00:02.0 Secondary Bus Number", "02:02.0 Base Address 2", "03:00.0 Base Address 2"]);
    // With other bus numbers the same functions are found there.
    bridge.config_write(ecam(0, 2, 0) + 0x18, B4, 0x0009_0500);
    bridge.config_write(ecam(5, 1, 0) + 0x18, B4, 0x0009_0905);
    assert_eq!(bridge.config_read(ecam(9, 2, 0), B4), 0x0002_d00b);
    assert_eq!(bridge.config_read(ecam(2, 2, 0), B4), 0xffff_ffff);
}

#[test]
fn an_access_must_be_inside_all_windows_on_its_path() {
    let mut bridge = scanned();
    let (near, far) = (FunctionId(2), FunctionId(3));
    assert_eq!(bridge.decode_memory(0x4000_0010), Some(Decoded { function: near, bar: 0, offset: 0x10 }));
    assert_eq!(bridge.decode_memory(0x4010_0010), Some(Decoded { function: far, bar: 0, offset: 0x10 }));
    assert_eq!(bridge.decode_io(0x1041), Some(Decoded { function: far, bar: 1, offset: 1 }));
    // Moves the inner window away from the inner NIC.
    bridge.config_write(ecam(1, 1, 0) + 0x20, B4, 0x4000_4000);
    assert_eq!(bridge.decode_memory(0x4010_0010), None);
    assert!(bridge.decode_memory(0x4000_0010).is_some());
    // An address outside the plain window may be in the prefetchable one, also above 4 GiB.
    bridge.config_write(ecam(1, 1, 0) + 0x24, B4, 0x4010_4010);
    assert!(bridge.decode_memory(0x4010_0010).is_some());
    assert_eq!(bridge.config_read(ecam(1, 1, 0) + 0x24, B4), 0x4011_4011, "64-bit addresses");
    bridge.config_write(ecam(1, 1, 0) + 0x28, B4, 1);
    assert_eq!(bridge.decode_memory(0x4010_0010), None);
    // A bridge with memory disabled forwards no memory accesses, one with I/O disabled no I/O accesses.
    bridge.config_write(ecam(0, 2, 0) + 0x04, B2, 0x5);
    assert_eq!((bridge.decode_memory(0x4000_0010), bridge.decode_io(0x1001).is_some()), (None, true));
    bridge.config_write(ecam(0, 2, 0) + 0x04, B2, 0x6);
    assert_eq!((bridge.decode_memory(0x4000_0010).is_some(), bridge.decode_io(0x1001)), (true, None));
    // A base address register partly inside a window responds only there.
    bridge.config_write(ecam(1, 3, 0) + 0x10, B4, 0x400f_0000);
    bridge.config_write(ecam(0, 2, 0) + 0x20, B4, 0x4000_4000);
    assert!(bridge.decode_memory(0x400f_ffff).is_some() && bridge.decode_memory(0x4010_0000).is_none());
}

#[test]
fn dma_needs_bus_mastering_in_every_bridge_and_pins_rotate_at_each() {
    let mut bridge = scanned();
    let (near, far) = (FunctionId(2), FunctionId(3));
    assert!(bridge.bus_master(near) && bridge.bus_master(far));
    let write = bridge.config_write(ecam(1, 1, 0) + 0x04, B2, 0x3);
    assert_eq!(write.bus_master_changed, [FunctionId(1), far]);
    assert!(bridge.bus_master(near) && !bridge.bus_master(far));
    // INTA of device 3 is INTD at the outer bridge. INTA of device 2 is INTC at the inner bridge, which is
    // device 1, so INTD at the outer bridge. That is device 2: source 2 + 3.
    assert!(bridge.set_interrupt(near, true));
    let expected = bridge.intx_irq(2, 4);
    assert_eq!(bridge.intx_levels().into_iter().find(|(_, level)| *level), Some((expected, true)));
    bridge.set_interrupt(near, false);
    bridge.set_interrupt(far, true);
    assert_eq!(bridge.intx_levels().into_iter().find(|(_, level)| *level), Some((expected, true)));
}

#[test]
fn a_secondary_bus_reset_resets_all_functions_behind_the_bridge() {
    let mut bridge = scanned();
    let write = bridge.config_write(ecam(0, 2, 0) + 0x3e, B2, 0x40);
    assert_eq!(write.reset, [FunctionId(1), FunctionId(2), FunctionId(3)]);
    assert_eq!((bridge.decode_memory(0x4000_0010), bridge.bus_master(FunctionId(2))), (None, false));
    assert_eq!(bridge.config_read(ecam(1, 1, 0) + 0x18, B4), 0, "bus numbers are cleared");
    assert_eq!(bridge.config_write(ecam(0, 2, 0) + 0x3e, B2, 0x40).reset, [], "already in reset");
    assert_eq!(bridge.config_write(ecam(0, 2, 0) + 0x3e, B2, 0).reset, []);
    let saved = scanned().save();
    let mut copy = two_bridges_deep();
    copy.restore(saved.clone()).unwrap();
    assert_eq!((copy.save(), copy.decode_io(0x1041)), (saved, scanned().decode_io(0x1041)));
}

#[test]
fn a_restored_bridge_decodes_as_before_and_other_devices_reject_the_state() {
    let mut bridge = bridge(&[1]);
    bridge.config_write(NIC + 0x10, B4, 0x4000_0000);
    bridge.config_write(NIC + 0x04, B1, 0x2);
    let state: HostBridgeState = postcard::from_bytes(&postcard::to_stdvec(&bridge.save()).unwrap()).unwrap();
    let mut copy = self::bridge(&[1]);
    copy.restore(state.clone()).unwrap();
    assert_eq!(copy.decode_memory(0x4000_0010), bridge.decode_memory(0x4000_0010));
    assert!(copy.decode_memory(0x4000_0010).is_some());
    assert_eq!(copy.save(), bridge.save());
    assert!(self::bridge(&[2]).restore(state.clone()).is_err());
    let mut other = function();
    other.capabilities = vec![Capability::Msi { offset: 0xf0, messages: 1, wide: true, masks: false }];
    assert!(with(vec![Slot { place: Place::root(1), identity: other }]).restore(state).is_err());
    copy.reset();
    assert_eq!(copy.decode_memory(0x4000_0010), None);
}

#[test]
fn odd_accesses_are_counted() {
    let mut bridge = bridge(&[1]);
    assert_eq!(bridge.config_read(NIC + 2, B4), 0x0000_0002);
    bridge.config_read(NIC, B8);
    bridge.config_write(NIC + 5, B2, 0);
    assert_eq!((bridge.stats.odd_accesses, bridge.stats.config_reads, bridge.stats.config_writes), (3, 2, 1));
    assert_eq!(bridge.config_read(NIC + 0xfff, B4), 0xffff_ffff);
}

proptest! {
    #[test]
    fn decoding_matches_a_search_of_all_functions(
        writes in prop::collection::vec((1u64..5, 0usize..4, 0u64..8), 1..60),
        probes in prop::collection::vec(0u64..8 * 0x2_0000, 20),
    ) {
        let mut bridge = bridge(&[1, 2, 4]);
        for (device, what, value) in writes {
            let (at, value) = [
                (0x04, value),
                (0x10, 0x4000_0000 + value * 0x2_0000),
                (0x14, 0x40 + value * 0x40),
                (0xe0, value & 3),
            ][what];
            bridge.config_write(device * NIC + at, B4, value);
        }
        for probe in probes {
            let addr = 0x4000_0000 + probe;
            let naive = (0..3).map(FunctionId).find_map(|function| {
                let base = bridge.function(function).bar_base(0)?;
                let offset = addr.checked_sub(base).filter(|offset| *offset < 0x2_0000)?;
                Some(Decoded { function, bar: 0, offset })
            });
            prop_assert_eq!(bridge.decode_memory(addr), naive);
        }
    }
}
