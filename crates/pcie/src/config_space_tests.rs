//! Tests in the manner of the kernel's PCI code, and a comparison with a naive model.

use super::*;
use crate::identity::HeaderType;
use crate::testing::{everything, function};
use AccessSize::{B1, B2, B4, B8};
use proptest::prelude::*;

fn plain() -> ConfigSpace {
    ConfigSpace::new(function())
}

#[test]
fn header_rows_do_not_overlap_and_leave_only_reserved_bytes() {
    for kind in [HeaderType::Function, HeaderType::Bridge] {
        let mut named = [false; 64];
        for row in header(kind) {
            for at in row.offset..row.offset + row.bytes {
                assert!(!std::mem::replace(&mut named[usize::from(at)], true), "{}", row.name);
            }
        }
        let reserved: Vec<usize> = (0..64).filter(|at| !named[*at]).collect();
        assert_eq!(reserved, [0x35, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x3b], "{kind:?}");
    }
}

#[test]
fn the_identity_can_be_read_at_every_width() {
    let space = plain();
    assert_eq!(space.read(0, B4), 0x0002_d00b);
    assert_eq!((space.read(0, B2), space.read(2, B2), space.read(1, B1)), (0xd00b, 0x0002, 0xd0));
    assert_eq!(space.read(8, B4), 0x0200_0003);
    assert_eq!(space.read(0x2c, B4), 0x1100_d00b);
    assert_eq!(space.read(0x3d, B1), 1);
    assert_eq!(space.read(0, B8), 0x0010_0000_0002_d00b);
    assert_eq!(space.read(1, B4), 0x0000_02d0, "unaligned");
    assert_eq!(space.read(0xfe, B4), 0xffff_0000, "across the end");
    assert_eq!(space.read(0x100, B4), 0xffff_ffff);
    assert_eq!(space.read(u64::MAX, B8), u64::MAX);
    assert_eq!(ConfigSpace::new(everything()).read(0x100, B4), 0);
}

#[test]
fn the_upper_byte_of_the_command_register_can_be_written_alone() {
    let mut space = plain();
    space.write(0x04, B2, 0x0007);
    space.set_interrupt(true);
    let effects = space.write(0x05, B1, 0x04);
    assert_eq!(space.read(0x04, B2), 0x0407);
    assert!(effects.interrupt_changed && !effects.decode_changed && !space.interrupt_line());
    assert_eq!(space.read(0x06, B2) & 8, 8, "the status shows the interrupt even if disabled");
    assert!(space.write(0x05, B1, 0x00).interrupt_changed);
    assert!(space.interrupt_line());
    assert!(!space.set_interrupt(true) && space.set_interrupt(false));
    assert_eq!(space.read(0x06, B2) & 8, 0);
}

/// Linux's method: disable decoding, save, write ones, read, restore.
fn size_bar(space: &mut ConfigSpace, at: u64, type_mask: u64) -> u64 {
    let command = space.read(0x04, B2);
    space.write(0x04, B2, command & !0x3);
    let saved = space.read(at, B4);
    space.write(at, B4, 0xffff_ffff);
    let ones = space.read(at, B4);
    space.write(at, B4, saved);
    space.write(0x04, B2, command);
    assert_eq!(space.read(at, B4), saved);
    ones & !type_mask
}

#[test]
fn sizing_finds_the_size_of_each_register() {
    let mut space = plain();
    assert_eq!(!(size_bar(&mut space, 0x10, 0xf) as u32) + 1, 128 << 10);
    assert_eq!(!(size_bar(&mut space, 0x14, 0x3) as u32) + 1, 64);
    assert_eq!(space.read(0x14, B4), 1, "type bit of an I/O register");
    for at in [0x18, 0x1c, 0x20, 0x24, 0x30] {
        assert_eq!(size_bar(&mut space, at, 0), 0);
    }
    let mut all = ConfigSpace::new(everything());
    let low = size_bar(&mut all, 0x10, 0xf);
    let high = size_bar(&mut all, 0x14, 0);
    assert_eq!(!(high << 32 | low) + 1, 8 << 30);
    assert_eq!((all.read(0x10, B4), all.read(0x1c, B4), all.read(0x20, B4)), (0xc, 0x8, 0x4));
    assert_eq!(!(size_bar(&mut all, 0x18, 0x3) as u32) + 1, 256);
}

#[test]
fn a_register_decodes_only_when_enabled_and_assigned() {
    let mut space = plain();
    assert!(!space.write(0x04, B2, 0x3).decode_changed, "nothing is assigned yet");
    assert!(space.write(0x10, B4, 0x4001_0000).decode_changed);
    assert_eq!(space.bar_base(0), Some(0x4000_0000), "the low bits are not implemented");
    assert!(space.write(0x14, B4, 0x1040).decode_changed);
    assert_eq!(space.bar_base(1), Some(0x1040));
    space.write(0x04, B1, 0x2);
    assert_eq!((space.bar_base(0), space.bar_base(1)), (Some(0x4000_0000), None));
    assert!(!space.bus_master());
    assert!(space.write(0x04, B1, 0x6).bus_master_changed && space.bus_master());
    let mut all = ConfigSpace::new(everything());
    all.write(0x04, B1, 2);
    all.write(0x10, B8, 0x0000_0006_4000_0000);
    assert_eq!(all.bar_base(0), Some(0x6_0000_0000), "8 GiB need 33 low bits");
}

#[test]
fn d3hot_disables_the_function_and_waking_resets_it() {
    let mut space = plain();
    space.write(0x04, B2, 0x7);
    space.write(0x10, B4, 0x4000_0000);
    space.write(0x3c, B1, 33);
    space.set_interrupt(true);
    assert_eq!(space.read(0x34, B1), 0xdc);
    assert_eq!(space.read(0x06, B1) & 0x10, 0x10);
    assert_eq!(space.read(0xdc, B4), 0x4822_0001);
    let effects = space.write(0xe0, B2, 0x0103);
    assert_eq!(
        effects,
        ConfigEffects {
            decode_changed: true,
            bus_master_changed: true,
            interrupt_changed: true,
            power: Some(PowerState::D3Hot),
            ..ConfigEffects::default()
        }
    );
    assert_eq!(
        (space.power_state(), space.bar_base(0), space.bus_master()),
        (PowerState::D3Hot, None, false)
    );
    assert!(!space.interrupt_line());
    space.write(0xe0, B2, 0x0102);
    assert_eq!(space.read(0xe0, B2), 0x0103, "an unsupported state is discarded");
    let effects = space.write(0xe0, B2, 0x0100);
    assert_eq!((effects.reset, effects.power), (true, Some(PowerState::D0)));
    assert_eq!((space.read(0x04, B2), space.read(0x10, B4), space.read(0x3c, B1)), (0, 0, 0));
    assert_eq!(space.read(0xe0, B2), 0x0100, "the wake-up enable survives");
}

#[test]
fn a_function_with_no_soft_reset_keeps_its_registers_in_d3hot() {
    let mut all = ConfigSpace::new(everything());
    all.write(0x04, B2, 0x6);
    all.write(0x44, B1, 0x3);
    assert_eq!((all.power_state(), all.bus_master()), (PowerState::D3Hot, false));
    assert!(!all.write(0x44, B1, 0x0).reset);
    assert_eq!((all.read(0x04, B2), all.bus_master(), all.read(0x44, B1)), (0x6, true, 0x8));
}

#[test]
fn a_saved_function_restores_only_to_the_same_kind() {
    let mut space = plain();
    space.write(0x10, B4, 0x4000_0000);
    space.write(0x04, B2, 0x2);
    space.set_interrupt(true);
    let state: ConfigSpaceState = postcard::from_bytes(&postcard::to_stdvec(&space.save()).unwrap()).unwrap();
    let mut copy = self::plain();
    copy.restore(state.clone()).unwrap();
    assert_eq!((copy.bar_base(0), copy.interrupt_line()), (Some(0x4000_0000), true));
    assert!(ConfigSpace::new(everything()).restore(state.clone()).is_err());
    let mut short = state;
    short.bytes.pop();
    assert!(copy.restore(short).is_err());
}

#[test]
#[should_panic(expected = "impossible size")]
fn an_invalid_identity_panics() {
    let mut identity = function();
    identity.bars[0] = BarKind::Memory32 { bytes: 100, prefetchable: false };
    ConfigSpace::new(identity);
}

/// The function as a table of (offset, reset value, writable bits) per word, written by hand. Power
/// management is left out: its register has side effects.
const NAIVE: [(usize, u32, u32); 9] = [
    (0x00, 0x0002_d00b, 0),
    (0x04, 0x0010_0000, 0x0000_0507),
    (0x08, 0x0200_0003, 0),
    (0x0c, 0, 0x0000_00ff),
    (0x10, 0, 0xfffe_0000),
    (0x14, 1, 0xffff_ffc0),
    (0x2c, 0x1100_d00b, 0),
    (0x34, 0x0000_00dc, 0),
    (0x3c, 0x0000_0100, 0x0000_00ff),
];

proptest! {
    #[test]
    fn random_accesses_agree_with_bytes_and_write_masks(
        accesses in prop::collection::vec(
            (any::<bool>(), 0u64..0x110, 0usize..4, prop_oneof![any::<u64>(), Just(0), Just(u64::MAX)]),
            1..200,
        ),
    ) {
        let mut space = plain();
        let (mut bytes, mut masks) = ([0u8; 256], [0u8; 256]);
        for (at, reset, writable) in NAIVE {
            bytes[at..at + 4].copy_from_slice(&reset.to_le_bytes());
            masks[at..at + 4].copy_from_slice(&writable.to_le_bytes());
        }
        bytes[0xdc..0xe0].copy_from_slice(&0x4822_0001u32.to_le_bytes());
        for (write, at, size, value) in accesses {
            let size = [B1, B2, B4, B8][size];
            let in_power_control = |i: u64| (0xe0..0xe4).contains(&(at + i));
            if (0..size.bytes()).any(in_power_control) {
                continue;
            }
            if write {
                space.write(at, size, value);
                for i in 0..size.bytes() as usize {
                    let at = at as usize + i;
                    if at < 256 {
                        bytes[at] = bytes[at] & !masks[at] | (value >> (8 * i)) as u8 & masks[at];
                    }
                }
            }
            let mut expected = 0;
            for i in (0..size.bytes() as usize).rev() {
                expected = expected << 8 | u64::from(*bytes.get(at as usize + i).unwrap_or(&0xff));
            }
            prop_assert_eq!(space.read(at, size), expected, "{:#x}", at);
        }
    }

    #[test]
    fn arbitrary_writes_keep_a_function_and_its_saved_copy_consistent(
        accesses in prop::collection::vec((0u64..0x1010, 0usize..4, any::<u64>(), any::<bool>()), 1..100),
    ) {
        let mut space = ConfigSpace::new(everything());
        for (at, size, value, level) in accesses {
            let line = space.interrupt_line();
            let changed = space.set_interrupt(level);
            prop_assert_eq!(changed, space.interrupt_line() != line);
            let before = (0..6).map(|bar| space.bar_base(bar)).collect::<Vec<_>>();
            let effects = space.write(at, [B1, B2, B4, B8][size], value);
            let after = (0..6).map(|bar| space.bar_base(bar)).collect::<Vec<_>>();
            prop_assert_eq!(effects.decode_changed, before != after);
            let mut copy = ConfigSpace::new(everything());
            copy.restore(space.save()).unwrap();
            prop_assert_eq!(copy.save(), space.save());
        }
    }
}
