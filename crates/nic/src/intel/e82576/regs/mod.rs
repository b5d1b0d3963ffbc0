//! Register file: storage, look-up by offset and reset, all derived from the register table.

mod table;

use crate::parts::registers::{self, RegisterFile};

pub use crate::parts::registers::{Access, Register};
pub(crate) use table::lookup;
pub use table::{Reg, TABLE};

use super::bits::{dctl, txctl};

/// Second addresses of the ring registers of the first four queues, for drivers of older chips: alias and own
/// address.
const ALIASES: [(u64, u64); 2] = [(0x2800, 0xc000), (0x3800, 0xe000)];
/// Distance from one queue's registers to the next, at the alias and at the own address.
const ALIAS_STRIDE: u64 = 0x100;
const QUEUE_STRIDE: u64 = 0x40;
/// Number of queues whose registers have an alias.
const ALIAS_QUEUES: u64 = 4;

/// Returns a register's own offset if `offset` is an alias; otherwise `offset`.
pub(crate) fn canonical(offset: u64) -> u64 {
    for (alias, own) in ALIASES {
        let Some(within) = offset.checked_sub(alias) else { continue };
        let (queue, register) = (within / ALIAS_STRIDE, within % ALIAS_STRIDE);
        if queue < ALIAS_QUEUES && register < QUEUE_STRIDE {
            return own + queue * QUEUE_STRIDE + register;
        }
    }
    offset
}

/// Sets reset values that differ within an array (queue 0 is enabled) or that the table does not have.
pub(crate) fn set_first_queue(regs: &mut RegisterFile<Reg>) {
    for reg in [Reg::Rxdctl, Reg::Txdctl] {
        regs.set(reg, regs.get(reg) | dctl::ENABLE);
    }
    for queue in 0..super::QUEUES {
        regs.set_at(Reg::DcaTxctrl, queue, txctl::RESET);
    }
}

/// Returns all registers as a Markdown table.
pub fn register_reference() -> String {
    registers::reference(
        "# Registers of the 82576 model\n\n\
         Generated from the register table in `crates/nic`. Sections refer to Intel's datasheet 320961, whose text was not available. The \
         section numbers of CTRL, MDIC, IMC, SRRCTL and RXDCTL are those that published drivers cite. The section numbers of STATUS and CTRL_EXT, EICR to IMS, \
         RCTL, and RDBAL to RDT are derived from them and from the I210's datasheet, whose chapter has the same groups, with these \
         registers in sequence. For all other registers only the group is given, because other chips have more or fewer registers in between. \
         Offsets are in BAR 0; an offset that is not listed reads as zero, ignores writes and is counted \
         (`unknown_reads`, `unknown_writes`). The registers of queues 0 to 3, at 0xc000 + 0x40·n and 0xe000 + 0x40·n, are also accessible at \
         0x2800 + 0x100·n and 0x3800 + 0x100·n. [The page of the card](nic-82576.md) describes what is modelled.",
        TABLE,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_inside_the_window_and_do_not_overlap() {
        registers::check_table(TABLE, table::WINDOW_WORDS);
    }

    #[test]
    fn lookup_finds_every_register_at_its_offset_only() {
        for (i, register) in TABLE.iter().enumerate() {
            for n in 0..register.count {
                let (reg, index) = lookup(u64::from(register.offset + n * register.stride)).unwrap();
                assert_eq!((reg as usize, index), (i, n as usize), "{}", register.name);
            }
        }
        for hole in [0xc, 0xc4, 0x1000, 0x2800, 0x2820, 0xc01c, 0x20000, u64::MAX - 3] {
            assert!(lookup(hole).is_none(), "{hole:#x}");
        }
    }

    #[test]
    fn the_first_four_queues_have_a_second_address() {
        for (offset, own) in [(0x2800, 0xc000), (0x2b18, 0xc0d8), (0x3828, 0xe028), (0x2c00, 0x2c00)] {
            assert_eq!(canonical(offset), own, "{offset:#x}");
        }
        assert_eq!((canonical(0x2860), canonical(0x3c00), canonical(0)), (0x2860, 0x3c00, 0));
    }

    #[test]
    fn reference_page_lists_every_register_once() {
        let page = register_reference();
        let rows = page.lines().filter(|line| line.starts_with("| 0x")).count();
        assert_eq!(rows, TABLE.len());
    }
}
