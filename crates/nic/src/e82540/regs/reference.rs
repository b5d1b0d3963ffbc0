//! The register reference page, generated from the table.

use std::fmt::Write as _;

use super::{Access, TABLE};

fn access_name(access: Access) -> &'static str {
    match access {
        Access::Rw => "RW",
        Access::Ro => "RO",
        Access::W1c => "W1C",
        Access::Rc => "RC",
        Access::RcW1c => "RC/W1C",
        Access::Wo => "WO",
        Access::Absent => "absent",
    }
}

/// All registers as a Markdown table.
pub fn register_reference() -> String {
    let mut page = String::from(
        "# Registers of the 82540EM model\n\n\
         Generated from the register table in `crates/nic`. Sections are those of Intel's manual 317453. Offsets in BAR 0; \
         an offset that is not listed reads as zero, ignores writes and is counted (`unknown_reads`, `unknown_writes`).\n\n\
         | Offset | Name | Access | Reset | Writable bits | Section | What it does here |\n|---|---|---|---|---|---|---|\n",
    );
    for register in TABLE {
        let last = register.offset + (register.count - 1) * register.stride;
        let (offset, name) = match register.count {
            1 => (format!("0x{:05x}", register.offset), register.name.to_owned()),
            n => (format!("0x{:05x}–0x{last:05x}", register.offset), format!("{}\\[{n}\\]", register.name)),
        };
        writeln!(
            page,
            "| {offset} | {name} | {} | 0x{:08x} | 0x{:08x} | {} | {} |",
            access_name(register.access),
            register.reset,
            register.mask,
            register.section,
            register.summary
        )
        .expect("writing to a string cannot fail");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_page_lists_every_register_once() {
        let page = register_reference();
        let rows = page.lines().filter(|line| line.starts_with("| 0x")).count();
        assert_eq!(rows, TABLE.len());
        assert!(page.contains("| 0x00100 | RCTL | RW | 0x00000000 | 0x06dfb3fe | 13.4.22 |"));
        assert!(page.contains("| 0x05200–0x053fc | MTA\\[128\\] | RW |"));
    }
}
