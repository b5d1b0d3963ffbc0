//! Names of code: of a guest, whose memory is at hand, or of a trace, beside whose file they may lie.
//!
//! A trace has no memory in which to look for functions. So whoever records one of our machines leaves beside it a file of the
//! functions that were executed (`trace.symbols` beside `trace.dbt`): a line each place at which a block began, as *mode* (`f`irmware,
//! `k`ernel, `u`ser), *address* (a program's physical, the kernel's virtual), `p` if the object is a program or else `-`, *object* and
//! *function*, parted by tabs. Without it, code is named by its page.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use doorbell_sim::PhysAddr;
use doorbell_symbols::{Mode, Place, Symbols};

/// A block that began this far before an address is of the same function.
const REACH: u64 = 4096;

/// Whoever knows functions by address.
pub trait Names {
    /// The function at an address, given as virtual and physical address.
    fn place(&mut self, mode: Mode, virt: u64, phys: PhysAddr) -> Place;
}

impl Names for Symbols<'_> {
    fn place(&mut self, mode: Mode, virt: u64, phys: PhysAddr) -> Place {
        Symbols::place(self, mode, virt, phys)
    }
}

/// Functions that were executed, by where blocks began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedNames {
    places: BTreeMap<(char, u64), Place>,
}

fn letter(mode: Mode) -> char {
    match mode {
        Mode::Firmware => 'f',
        Mode::Kernel => 'k',
        Mode::User => 'u',
    }
}

fn address(mode: Mode, virt: u64, phys: PhysAddr) -> u64 {
    if mode == Mode::User { phys.0 } else { virt }
}

impl RecordedNames {
    /// Where the names of a trace lie.
    pub fn beside(trace: &Path) -> PathBuf {
        trace.with_extension("symbols")
    }

    /// Looks up where blocks began.
    pub fn of(
        blocks: impl IntoIterator<Item = (Mode, u64, PhysAddr)>,
        symbols: &mut impl Names,
    ) -> RecordedNames {
        let mut places = BTreeMap::new();
        for (mode, virt, phys) in blocks {
            let key = (letter(mode), address(mode, virt, phys));
            places.entry(key).or_insert_with(|| symbols.place(mode, virt, phys));
        }
        RecordedNames { places }
    }

    /// The text of the file.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for ((mode, addr), Place { object, function, is_program }) in &self.places {
            let program = if *is_program { 'p' } else { '-' };
            let _ = writeln!(text, "{mode}\t{addr:x}\t{program}\t{}\t{}", plain(object), plain(function));
        }
        text
    }

    /// Reads it; lines that are none are left out, since names are for people.
    pub fn from_text(text: &str) -> RecordedNames {
        let line = |line: &str| {
            let mut fields = line.split('\t');
            let mut next = || fields.next();
            let (mode, addr, program) = (next()?, next()?, next()?);
            let (object, function) = (next()?.to_owned(), next()?.to_owned());
            let key = (mode.chars().next()?, u64::from_str_radix(addr, 16).ok()?);
            Some((key, Place { object, function, is_program: program == "p" }))
        };
        RecordedNames { places: text.lines().filter_map(line).collect() }
    }
}

fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

impl Names for RecordedNames {
    fn place(&mut self, mode: Mode, virt: u64, phys: PhysAddr) -> Place {
        let at = address(mode, virt, phys);
        let (from, to) = ((letter(mode), at.saturating_sub(REACH)), (letter(mode), at));
        if let Some((_, place)) = self.places.range(from..=to).next_back() {
            return place.clone();
        }
        let object = match mode {
            Mode::Firmware => "firmware",
            Mode::Kernel => "kernel",
            Mode::User => "program",
        };
        Place {
            object: object.to_owned(),
            function: format!("[page {:#x}]", virt & !(REACH - 1)),
            is_program: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct ByNumber;

    impl Names for ByNumber {
        fn place(&mut self, mode: Mode, virt: u64, phys: PhysAddr) -> Place {
            let function = format!("f\t{virt:x}.{:x}", phys.0);
            Place { object: format!("{mode:?}"), function, is_program: mode == Mode::User }
        }
    }

    #[test]
    fn names_are_found_by_where_a_block_began_and_else_code_is_named_by_its_page() {
        let blocks = [
            (Mode::User, 0x5000_0010, PhysAddr(0x8000_0010)),
            (Mode::Kernel, 0xffff_ffff_8000_1000, PhysAddr(0x8020_1000)),
        ];
        let written = RecordedNames::of(blocks, &mut ByNumber);
        let mut read = RecordedNames::from_text(&format!("{}no line\n", written.to_text()));
        let mut function = |mode, virt, phys| read.place(mode, virt, PhysAddr(phys)).function;
        assert_eq!(
            function(Mode::User, 0x7000_0014, 0x8000_0014),
            "f 50000010.80000010",
            "wherever it is mapped"
        );
        assert_eq!(function(Mode::User, 0x7000_0008, 0x8000_0008), "[page 0x70000000]");
        assert_eq!(function(Mode::Kernel, 0xffff_ffff_8000_1ffc, 0), "f ffffffff80001000.80201000");
        assert_eq!(function(Mode::Kernel, 0xffff_ffff_8000_2004, 0), "[page 0xffffffff80002000]");
        assert_eq!(function(Mode::Firmware, 0x8000_0010, 0x8000_0010), "[page 0x80000000]");
        assert_eq!(RecordedNames::beside(Path::new("a/trace.dbt")), Path::new("a/trace.symbols"));
    }
}
