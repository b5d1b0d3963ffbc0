//! Each register after a reset, after zeros, and after ones; other names of registers.

use std::collections::BTreeSet;

use doorbell_nic::e82576::regs::{Register, TABLE};

use super::Both;
use super::differences::{AFTER_RESET, Kind, named, of_bits};
use crate::driver::GPIE;

/// GPIE.MULTIPLE_MSIX.
const SEVERAL_VECTORS: u32 = 1 << 4;
/// CTRL.RST and PHY_RST.
const RESETS: u32 = 1 << 26 | 1 << 31;

/// The first and the last register of a row: their offsets.
fn ends(row: &Register) -> BTreeSet<u64> {
    [0, row.count - 1].map(|index| u64::from(row.offset + index * row.stride)).into()
}

#[test]
fn every_register_has_after_a_reset_what_qemus_has() {
    let mut both = Both::new();
    let mut wrong = Vec::new();
    for row in TABLE {
        let named = AFTER_RESET.iter().find(|(name, ..)| *name == row.name);
        for n in 0..row.count {
            let [ours, qemu] = both.read(u64::from(row.offset + n * row.stride));
            let expected = named.map_or(ours == qemu, |(_, own, theirs, _)| (ours, qemu) == (*own, *theirs));
            if !expected {
                wrong.push(format!("{}[{n}]: {ours:#010x}, QEMU {qemu:#010x}; named {named:?}", row.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_register_holds_what_qemus_holds() {
    let mut both = Both::new();
    let mut wrong = Vec::new();
    let mut met = BTreeSet::new();
    for row in TABLE {
        for offset in ends(row) {
            let ones =
                if row.name.starts_with("CTRL") && row.name != "CTRL_EXT" { !RESETS } else { u32::MAX };
            let mut after = |value: u32| {
                both.reset();
                both.write(GPIE, if row.name.starts_with("EI") { SEVERAL_VECTORS } else { 0 });
                both.write(offset, value);
                both.read(offset)
            };
            let ([zeros, their_zeros], [ones, their_ones]) = (after(0), after(ones));
            let kind = of_bits(row.name);
            met.extend(kind.map(|_| row.name));
            let expected = match kind {
                None => (zeros, ones) == (their_zeros, their_ones),
                Some(Kind::Reserved) => zeros == their_zeros && ones & !their_ones == 0 && ones != their_ones,
                Some(Kind::ReadOnly) => zeros == ones && their_zeros == 0,
                Some(Kind::Absent) => their_zeros == 0 && their_ones == 0 && ones != 0,
                Some(Kind::Single(values, _)) => values == [zeros, their_zeros, ones, their_ones],
            };
            if !expected {
                wrong.push(format!(
                    "{} at {offset:#x}: after zeros {zeros:#x}, QEMU {their_zeros:#x}; after ones {ones:#x}, QEMU {their_ones:#x}: {kind:?}",
                    row.name
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(met.len(), named(), "each register that is named is in the table");
}

#[test]
fn the_first_four_queues_are_found_where_older_drivers_look_as_qemus_are() {
    let mut both = Both::new();
    for (alias, own) in [(0x2800, 0xc000), (0x3800, 0xe000)] {
        for queue in 0..4u64 {
            for register in [0x0, 0x4, 0x8, 0x10, 0x18, 0x28] {
                let value = if register == 0x28 { queue as u32 + 1 } else { 0x80 << queue };
                both.write(alias + 0x100 * queue + register, value);
                let (there, here) =
                    (both.read(alias + 0x100 * queue + register), both.read(own + 0x40 * queue + register));
                assert_eq!((there, here[0]), (here, here[1]), "{alias:#x}, queue {queue}, {register:#x}");
            }
        }
    }
}
