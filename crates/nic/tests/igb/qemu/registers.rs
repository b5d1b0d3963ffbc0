//! Registers after reset, after writing zeros, and after writing ones; register aliases.

use std::collections::BTreeSet;

use doorbell_nic::e82576::regs::{Register, TABLE};

use super::Both;
use super::differences::{AFTER_RESET, Kind, bit_difference, listed_count};
use crate::igb::driver::GPIE;

/// GPIE.MULTIPLE_MSIX.
const MULTIPLE_VECTORS: u32 = 1 << 4;
/// CTRL.RST and PHY_RST.
const RESETS: u32 = 1 << 26 | 1 << 31;

/// Offsets of the first and the last register of a row.
fn ends(row: &Register) -> BTreeSet<u64> {
    [0, row.count - 1].map(|index| u64::from(row.offset + index * row.stride)).into()
}

#[test]
fn reset_values_match_qemus() {
    let mut both = Both::new();
    let mut wrong = Vec::new();
    for row in TABLE {
        let listed = AFTER_RESET.iter().find(|(name, ..)| *name == row.name);
        for n in 0..row.count {
            let [ours, qemu] = both.read(u64::from(row.offset + n * row.stride));
            let expected = listed.map_or(ours == qemu, |(_, own, theirs, _)| (ours, qemu) == (*own, *theirs));
            if !expected {
                wrong.push(format!("{}[{n}]: {ours:#010x}, QEMU {qemu:#010x}; listed {listed:?}", row.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn writable_bits_match_qemus() {
    let mut both = Both::new();
    let mut wrong = Vec::new();
    let mut differing = BTreeSet::new();
    for row in TABLE {
        for offset in ends(row) {
            let ones =
                if row.name.starts_with("CTRL") && row.name != "CTRL_EXT" { !RESETS } else { u32::MAX };
            let mut after = |value: u32| {
                both.reset();
                both.write(GPIE, if row.name.starts_with("EI") { MULTIPLE_VECTORS } else { 0 });
                both.write(offset, value);
                both.read(offset)
            };
            let ([zeros, their_zeros], [ones, their_ones]) = (after(0), after(ones));
            let kind = bit_difference(row.name);
            differing.extend(kind.map(|_| row.name));
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
    assert_eq!(differing.len(), listed_count(), "a listed register is not in the table");
}

#[test]
fn the_first_four_queues_have_aliases_like_qemus() {
    let mut both = Both::new();
    for (alias, own) in [(0x2800, 0xc000), (0x3800, 0xe000)] {
        for queue in 0..4u64 {
            for register in [0x0, 0x4, 0x8, 0x10, 0x18, 0x28] {
                let value = if register == 0x28 { queue as u32 + 1 } else { 0x80 << queue };
                both.write(alias + 0x100 * queue + register, value);
                let at_alias = both.read(alias + 0x100 * queue + register);
                let at_own = both.read(own + 0x40 * queue + register);
                assert_eq!(
                    (at_alias, at_own[0]),
                    (at_own, at_own[1]),
                    "{alias:#x}, queue {queue}, {register:#x}"
                );
            }
        }
    }
}
