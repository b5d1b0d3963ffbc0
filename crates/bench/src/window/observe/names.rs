//! Function names by address: from the memory of a guest, or from the symbol file of a trace.
//!
//! A trace does not contain the guest's memory. A recording of one of our machines therefore also writes a file of the
//! executed functions (`trace.symbols` next to `trace.dbt`). It has a line per block start, with fields separated by
//! tabs: *mode* (`f`irmware, `k`ernel, `u`ser), *address* (physical for a program, virtual for the kernel), `p` if the
//! object is a program or else `-`, *object* and *function*. Without the file, code is named by its page.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use doorbell_sim::PhysAddr;
use doorbell_symbols::{Mode, Place, Symbols};

/// An address belongs to the function of the last block start at most this far before it.
const REACH: u64 = 4096;

/// Looks up functions by address.
pub trait Names {
    /// The function at an address, given as virtual and physical address.
    fn place(&mut self, mode: Mode, virt: u64, phys: PhysAddr) -> Place;
}

impl Names for Symbols<'_> {
    fn place(&mut self, mode: Mode, virt: u64, phys: PhysAddr) -> Place {
        Symbols::place(self, mode, virt, phys)
    }
}

/// Executed functions, by the addresses of block starts.
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
    /// Path of the symbol file of a trace.
    pub fn path_for(trace: &Path) -> PathBuf {
        trace.with_extension("symbols")
    }

    /// Looks up the functions at block starts.
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

    /// The text of the symbol file.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for ((mode, addr), Place { object, function, is_program }) in &self.places {
            let program = if *is_program { 'p' } else { '-' };
            let _ = writeln!(text, "{mode}\t{addr:x}\t{program}\t{}\t{}", plain(object), plain(function));
        }
        text
    }

    /// Parses a symbol file. Invalid lines are ignored, since names only affect readability.
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

/// A text without control characters, for one field.
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
    fn code_is_named_by_the_last_block_start_or_else_by_its_page() {
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
            "at any virtual address"
        );
        assert_eq!(function(Mode::User, 0x7000_0008, 0x8000_0008), "[page 0x70000000]");
        assert_eq!(function(Mode::Kernel, 0xffff_ffff_8000_1ffc, 0), "f ffffffff80001000.80201000");
        assert_eq!(function(Mode::Kernel, 0xffff_ffff_8000_2004, 0), "[page 0xffffffff80002000]");
        assert_eq!(function(Mode::Firmware, 0x8000_0010, 0x8000_0010), "[page 0x80000000]");
        assert_eq!(RecordedNames::path_for(Path::new("a/trace.dbt")), Path::new("a/trace.symbols"));
    }
}
