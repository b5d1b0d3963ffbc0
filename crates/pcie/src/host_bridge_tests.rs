use super::*;
use crate::identity::Capability;
use AccessSize::{B1, B2, B4, B8};
use proptest::prelude::*;

const NIC: u64 = 1 << 15;

fn bridge(devices: &[u8]) -> HostBridge {
    let slots = devices.iter().map(|device| (*device, FunctionIdentity::intel_82540em())).collect();
    HostBridge::new(HostBridgeConfig::default(), slots).unwrap()
}

#[test]
fn a_bus_scan_finds_the_bridge_and_the_devices_and_nothing_else() {
    let mut bridge = bridge(&[1, 31]);
    let mut found = Vec::new();
    for slot in 0..1u64 << 16 {
        let id = bridge.config_read(slot << 12, B4);
        if id != 0xffff_ffff {
            found.push((slot >> 3, slot & 7, id));
        }
    }
    assert_eq!(found, [(0, 0, 0x0008_1b36), (1, 0, 0x100e_8086), (31, 0, 0x100e_8086)]);
    assert_eq!(bridge.stats.absent_functions, (1 << 16) - 3);
    assert_eq!(bridge.config_read(8, B4), 0x0600_0000);
    assert_eq!(bridge.config_read(2 << 15, B1), 0xff);
    assert_eq!(bridge.config_write(2 << 15, B4, 0).effects, ConfigEffects::default());
}

#[test]
fn accesses_are_decoded_by_what_software_assigned() {
    let mut bridge = bridge(&[1, 2]);
    assert!(bridge.config_write(NIC + 0x10, B4, 0x4000_0000).effects == ConfigEffects::default());
    assert_eq!(bridge.decode_memory(0x4000_0000), None, "memory is not enabled yet");
    let write = bridge.config_write(NIC + 0x04, B1, 0x6);
    assert_eq!((write.device, write.effects.decode_changed), (1, true));
    assert!(bridge.bus_master(1) && !bridge.bus_master(2) && !bridge.bus_master(9));
    for (addr, expected) in [
        (0x3fff_ffff, None),
        (0x4000_0000, Some(Decoded { device: 1, bar: 0, offset: 0 })),
        (0x4001_ffff, Some(Decoded { device: 1, bar: 0, offset: 0x1_ffff })),
        (0x4002_0000, None),
    ] {
        assert_eq!(bridge.decode_memory(addr), expected, "{addr:#x}");
    }
    bridge.config_write(2 * NIC + 0x14, B4, 0x1000);
    bridge.config_write(2 * NIC + 0x04, B2, 0x1);
    assert_eq!(bridge.decode_io(0x103f), Some(Decoded { device: 2, bar: 1, offset: 0x3f }));
    assert_eq!((bridge.decode_io(0x1040), bridge.decode_memory(0x1000)), (None, None));
}

#[test]
fn of_overlapping_registers_the_first_device_answers_until_it_moves_away() {
    let mut bridge = bridge(&[3, 5]);
    for device in [5, 3] {
        bridge.config_write(device * NIC + 0x10, B4, 0x4000_0000);
        bridge.config_write(device * NIC + 0x04, B1, 0x2);
    }
    assert_eq!(bridge.decode_memory(0x4000_0008).unwrap().device, 3);
    bridge.config_write(3 * NIC + 0x10, B4, 0x5000_0000);
    assert_eq!(bridge.decode_memory(0x4000_0008).unwrap().device, 5);
}

#[test]
fn pins_are_swizzled_over_four_sources_by_device_number() {
    let bridge = bridge(&[]);
    let routes: Vec<u32> = (0..5).map(|device| bridge.intx_irq(device, 1)).collect();
    assert_eq!(routes, [32, 33, 34, 35, 32]);
    assert_eq!((1..=4).map(|pin| bridge.intx_irq(3, pin)).collect::<Vec<_>>(), [35, 32, 33, 34]);
}

#[test]
fn devices_that_share_a_source_hold_it_until_the_last_lets_go() {
    let mut bridge = bridge(&[1, 5, 2]);
    assert!(bridge.set_interrupt(1, true) && bridge.set_interrupt(5, true));
    assert_eq!(bridge.intx_levels(), [(32, false), (33, true), (34, false), (35, false)]);
    bridge.set_interrupt(1, false);
    assert!(bridge.intx_levels()[1].1);
    let write = bridge.config_write(5 * NIC + 0x05, B1, 0x4);
    assert!(
        write.effects.interrupt_changed && !bridge.intx_levels()[1].1,
        "disabled by the command register"
    );
    assert!(!bridge.set_interrupt(5, false));
}

#[test]
fn a_sleeping_device_neither_decodes_nor_interrupts() {
    let mut bridge = bridge(&[1]);
    bridge.config_write(NIC + 0x10, B4, 0x4000_0000);
    bridge.config_write(NIC + 0x04, B1, 0x6);
    bridge.set_interrupt(1, true);
    let effects = bridge.config_write(NIC + 0xe0, B1, 0x3).effects;
    assert!(effects.decode_changed && effects.interrupt_changed && effects.bus_master_changed);
    assert_eq!((bridge.decode_memory(0x4000_0000), bridge.intx_levels()[1].1), (None, false));
    assert!(bridge.config_write(NIC + 0xe0, B1, 0x0).effects.reset);
}

#[test]
fn device_numbers_are_checked() {
    let nic = FunctionIdentity::intel_82540em;
    let config = HostBridgeConfig::default();
    assert_eq!(HostBridge::new(config, vec![(0, nic())]).unwrap_err(), SlotError::Range(0));
    assert_eq!(HostBridge::new(config, vec![(32, nic())]).unwrap_err(), SlotError::Range(32));
    assert_eq!(HostBridge::new(config, vec![(4, nic()), (4, nic())]).unwrap_err(), SlotError::Taken(4));
}

#[test]
fn a_saved_bridge_decodes_as_before_and_a_machine_with_other_devices_refuses_it() {
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
    let mut other = FunctionIdentity::intel_82540em();
    other.capabilities = vec![Capability::Msi { offset: 0xf0 }];
    assert!(HostBridge::new(HostBridgeConfig::default(), vec![(1, other)]).unwrap().restore(state).is_err());
    copy.reset();
    assert_eq!(copy.decode_memory(0x4000_0010), None);
}

#[test]
fn odd_accesses_are_counted() {
    let mut bridge = bridge(&[1]);
    assert_eq!(bridge.config_read(NIC + 2, B4), 0x0000_100e);
    bridge.config_read(NIC, B8);
    bridge.config_write(NIC + 5, B2, 0);
    assert_eq!((bridge.stats.odd_accesses, bridge.stats.config_reads, bridge.stats.config_writes), (3, 2, 1));
    assert_eq!(bridge.config_read(NIC + 0xfff, B4), 0xffff_ffff);
}

proptest! {
    #[test]
    fn decoding_agrees_with_asking_every_function(
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
            let naive = [1, 2, 4].into_iter().find_map(|device| {
                let base = bridge.function(device).unwrap().bar_base(0)?;
                let offset = addr.checked_sub(base).filter(|offset| *offset < 0x2_0000)?;
                Some(Decoded { device, bar: 0, offset })
            });
            prop_assert_eq!(bridge.decode_memory(addr), naive);
        }
    }
}
