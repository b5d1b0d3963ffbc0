//! Register file: storage, look-up by offset and reset, all derived from the register table.

mod table;

use crate::parts::registers;

pub use crate::parts::registers::{Access, Register};
pub(crate) use table::lookup;
pub use table::{Reg, TABLE};

/// Returns all registers as a Markdown table.
pub fn register_reference() -> String {
    registers::reference(
        "# Registers of the 82540EM model\n\n\
         Generated from the register table in `crates/nic`. Sections refer to Intel's manual 317453. Offsets are in BAR 0; \
         an offset that is not listed reads as zero, ignores writes and is counted (`unknown_reads`, `unknown_writes`).",
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
        for hole in [0xc, 0x1c, 0x24, 0x5008, 0x5480, 0x20000, u64::MAX - 3] {
            assert!(lookup(hole).is_none(), "{hole:#x}");
        }
    }

    #[test]
    fn reference_page_lists_every_register_once() {
        let page = register_reference();
        let rows = page.lines().filter(|line| line.starts_with("| 0x")).count();
        assert_eq!(rows, TABLE.len());
        assert!(page.contains("| 0x00100 | RCTL | RW | 0x00000000 | 0x06dfb3fe | 13.4.22 |"));
        assert!(page.contains("| 0x05200–0x053fc | MTA\\[128\\] | RW |"));
    }
}
