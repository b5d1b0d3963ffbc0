//! Register tables: a chip's table is the only definition of its registers. The enum of the registers,
//! look-up by offset, storage, reset and the reference page are derived from it.

use std::fmt::{self, Write as _};
use std::marker::PhantomData;

use crate::stats::Statistic;

/// How software may use a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Readable and writable, in the bits of the write mask.
    Rw,
    /// Read-only; writes are ignored.
    Ro,
    /// Writing a one clears the bit.
    W1c,
    /// Read and clear; writes are ignored.
    Rc,
    /// Reading clears, and so does writing ones.
    RcW1c,
    /// Write-only; reads as zero.
    Wo,
    /// A window without function: accesses are accepted, reads return zero.
    Absent,
}

impl Access {
    /// Name in the reference page.
    fn name(self) -> &'static str {
        match self {
            Access::Rw => "RW",
            Access::Ro => "RO",
            Access::W1c => "W1C",
            Access::Rc => "RC",
            Access::RcW1c => "RC/W1C",
            Access::Wo => "WO",
            Access::Absent => "absent",
        }
    }
}

/// One row of a table: a register, or an array of equal registers.
#[derive(Clone, Copy, Debug)]
pub struct Register {
    /// The name in the manual.
    pub name: &'static str,
    /// Byte offset of the first register in BAR 0.
    pub offset: u32,
    /// Number of registers.
    pub count: u32,
    /// Bytes from one register to the next.
    pub stride: u32,
    /// Value after reset.
    pub reset: u32,
    /// Bits that software can write.
    pub mask: u32,
    /// Access by software.
    pub access: Access,
    /// Section of the manual.
    pub section: &'static str,
    /// Purpose, and what is modelled.
    pub summary: &'static str,
    /// It is one of the statistics registers.
    pub statistic: bool,
}

impl Register {
    /// Whether it is one of the statistics registers.
    pub fn is_statistic(&self) -> bool {
        self.statistic
    }
}

/// Whether a section belongs to a chapter, that is, starts with the chapter's number.
pub(crate) const fn is_in(section: &str, chapter: &str) -> bool {
    let (section, chapter) = (section.as_bytes(), chapter.as_bytes());
    let mut at = 0;
    while at < chapter.len() {
        if at >= section.len() || section[at] != chapter[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// Returns the index of each register's first storage word, followed by the total number of words. `N` is the
/// number of rows plus one.
pub(crate) const fn slots<const N: usize>(table: &[Register]) -> [u16; N] {
    let mut slots = [0u16; N];
    let mut row = 0;
    while row < table.len() {
        let words = if matches!(table[row].access, Access::Absent) { 0 } else { table[row].count as u16 };
        slots[row + 1] = slots[row] + words;
        row += 1;
    }
    slots
}

/// Returns for each word of the window its register's row plus one; zero for a word without register.
pub(crate) const fn words<const N: usize>(table: &[Register]) -> [u8; N] {
    let mut words = [0u8; N];
    let mut row = 0;
    while row < table.len() {
        let mut n = 0;
        while n < table[row].count {
            words[((table[row].offset + n * table[row].stride) / 4) as usize] = row as u8 + 1;
            n += 1;
        }
        row += 1;
    }
    words
}

/// Enum of a chip's registers; its variants are the rows of the table.
pub trait RegisterId: Copy + fmt::Debug + PartialEq + Send + 'static {
    /// The table.
    const TABLE: &'static [Register];
    /// Index of each register's first storage word, followed by the total number of words.
    const SLOTS: &'static [u16];
    /// Row number.
    fn row(self) -> usize;
    /// Bits that software can write.
    fn mask(self) -> u32 {
        Self::TABLE[self.row()].mask
    }
}

/// Declares a chip's enum, table and look-up. Arguments: window size in bytes, chapter of the statistics
/// registers, rows.
macro_rules! registers {
    ($window:expr, $statistics:literal; $($id:ident $name:literal $offset:literal [$count:literal x $stride:literal] $access:ident $reset:literal $mask:literal $section:literal $summary:literal;)*) => {
        /// A register (or array of registers) of the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        #[allow(missing_docs)]
        pub enum Reg { $($id),* }

        /// Every register, by [`Reg`] and by offset.
        pub const TABLE: &[$crate::parts::registers::Register] = &[$($crate::parts::registers::Register {
            name: $name, offset: $offset, count: $count, stride: $stride, reset: $reset, mask: $mask,
            access: $crate::parts::registers::Access::$access, section: $section, summary: $summary,
            statistic: $crate::parts::registers::is_in($section, $statistics),
        }),*];

        const ALL: &[Reg] = {
            use Reg as Id;
            &[$(Id::$id),*]
        };

        /// Words in BAR 0.
        pub(crate) const WINDOW_WORDS: usize = ($window / 4) as usize;
        const SLOTS: [u16; TABLE.len() + 1] = $crate::parts::registers::slots(TABLE);
        static LOOKUP: [u8; WINDOW_WORDS] = $crate::parts::registers::words(TABLE);

        impl $crate::parts::registers::RegisterId for Reg {
            const TABLE: &'static [$crate::parts::registers::Register] = TABLE;
            const SLOTS: &'static [u16] = &SLOTS;

            fn row(self) -> usize {
                self as usize
            }
        }

        impl Reg {
            /// The register's row in the table.
            pub const fn info(self) -> &'static $crate::parts::registers::Register {
                &TABLE[self as usize]
            }
        }

        /// The register at a byte offset that is a multiple of four, and its index within an array.
        pub(crate) fn lookup(offset: u64) -> Option<(Reg, usize)> {
            let number = *LOOKUP.get(usize::try_from(offset / 4).ok()?)?;
            let reg = *ALL.get(usize::from(number).checked_sub(1)?)?;
            let info = reg.info();
            Some((reg, ((offset as u32 - info.offset) / info.stride) as usize))
        }
    };
}
pub(crate) use registers;

/// Stored register values. Values that depend on the current state are computed elsewhere.
#[derive(Clone, Debug)]
pub struct RegisterFile<R> {
    words: Box<[u32]>,
    /// Totals that reads and resets removed from each word. For observers only; not saved.
    cleared: Box<[u64]>,
    of: PhantomData<R>,
}

impl<R: RegisterId> RegisterFile<R> {
    pub fn new() -> Self {
        let words = usize::from(R::SLOTS[R::TABLE.len()]);
        let mut regs = RegisterFile {
            words: vec![0; words].into_boxed_slice(),
            cleared: vec![0; words].into_boxed_slice(),
            of: PhantomData,
        };
        regs.reset();
        regs
    }

    /// Sets every register to its reset value.
    pub fn reset(&mut self) {
        for (row, register) in R::TABLE.iter().enumerate() {
            let words = usize::from(R::SLOTS[row])..usize::from(R::SLOTS[row + 1]);
            if register.is_statistic() {
                for word in words.clone() {
                    self.cleared[word] += u64::from(self.words[word]);
                }
            }
            self.words[words].fill(register.reset);
        }
    }

    fn slot(reg: R, index: usize) -> usize {
        usize::from(R::SLOTS[reg.row()]) + index
    }

    pub fn get(&self, reg: R) -> u32 {
        self.words[Self::slot(reg, 0)]
    }

    pub fn set(&mut self, reg: R, value: u32) {
        self.words[Self::slot(reg, 0)] = value;
    }

    pub fn at(&self, reg: R, index: usize) -> u32 {
        self.words[Self::slot(reg, index)]
    }

    pub fn set_at(&mut self, reg: R, index: usize, value: u32) {
        self.words[Self::slot(reg, index)] = value;
    }

    /// Values of all registers of an array.
    pub fn array(&self, reg: R) -> &[u32] {
        &self.words[usize::from(R::SLOTS[reg.row()])..usize::from(R::SLOTS[reg.row() + 1])]
    }

    /// Whether any of `bits` is set.
    pub fn has(&self, reg: R, bits: u32) -> bool {
        self.get(reg) & bits != 0
    }

    /// Increments a counter.
    pub fn count(&mut self, reg: R) {
        self.count_at(reg, 0, 1);
    }

    /// Adds to a counter of an array.
    pub fn count_at(&mut self, reg: R, index: usize, more: u32) {
        self.set_at(reg, index, self.at(reg, index).saturating_add(more));
    }

    /// Adds to a 64-bit counter.
    pub fn count_bytes(&mut self, low: R, high: R, bytes: usize) {
        let value = u64::from(self.get(high)) << 32 | u64::from(self.get(low));
        let value = value.saturating_add(bytes as u64);
        self.set(low, value as u32);
        self.set(high, (value >> 32) as u32);
    }

    /// Clears a statistics register. [`statistics`](RegisterFile::statistics) still includes its value.
    pub fn clear_statistic(&mut self, reg: R) {
        self.take_at(reg, 0);
    }

    /// Reads and clears a statistics register of an array.
    pub fn take_at(&mut self, reg: R, index: usize) -> u32 {
        let slot = Self::slot(reg, index);
        let value = std::mem::take(&mut self.words[slot]);
        self.cleared[slot] += u64::from(value);
        value
    }

    /// Sum of a row's statistics registers, as if they had never been cleared.
    fn total(&self, row: usize) -> u64 {
        let words = usize::from(R::SLOTS[row])..usize::from(R::SLOTS[row + 1]);
        words.map(|word| self.cleared[word] + u64::from(self.words[word])).sum()
    }

    /// Returns all statistics in the order of the table.
    pub fn statistics(&self) -> Vec<Statistic> {
        let mut all = Vec::new();
        let mut low_half = 0;
        for (row, register) in R::TABLE.iter().enumerate().filter(|(_, register)| register.is_statistic()) {
            let value = self.total(row);
            if register.access == Access::Ro {
                // The low half: it precedes the high half in the table; reads of the high half clear both.
                low_half = value;
                continue;
            }
            let (name, meaning, value) = match register.summary.split_once(", high half") {
                Some((meaning, _)) => {
                    (register.name.trim_end_matches('H'), meaning, (value << 32).wrapping_add(low_half))
                }
                None => (register.name, register.summary.trim_end_matches('.'), value),
            };
            all.push(Statistic { name: name.to_owned(), meaning, value });
        }
        all
    }

    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Restores saved words. Returns false if their number is wrong.
    pub fn restore(&mut self, words: &[u32]) -> bool {
        let valid = words.len() == self.words.len();
        if valid {
            self.words.copy_from_slice(words);
        }
        valid
    }
}

/// Index of the counter, among the six by frame size, for a frame of `bytes` bytes, FCS included.
pub(crate) fn size_class(bytes: usize) -> usize {
    [64, 127, 255, 511, 1023].partition_point(|most| *most < bytes)
}

/// Returns the reference page: a head, and all registers as a Markdown table.
pub(crate) fn reference(head: &str, table: &[Register]) -> String {
    let mut page = format!(
        "{head}\n\n| Offset | Name | Access | Reset | Writable bits | Section | What it does here |\n|---|---|---|---|---|---|---|\n"
    );
    for register in table {
        let last = register.offset + (register.count - 1) * register.stride;
        let (offset, name) = match register.count {
            1 => (format!("0x{:05x}", register.offset), register.name.to_owned()),
            n => (format!("0x{:05x}–0x{last:05x}", register.offset), format!("{}\\[{n}\\]", register.name)),
        };
        writeln!(
            page,
            "| {offset} | {name} | {} | 0x{:08x} | 0x{:08x} | {} | {} |",
            register.access.name(),
            register.reset,
            register.mask,
            register.section,
            register.summary
        )
        .expect("writing to a string cannot fail");
    }
    page
}

/// Asserts the properties that every table must have.
#[cfg(test)]
pub(crate) fn check_table(table: &[Register], window_words: usize) {
    let mut owner = vec![None; window_words];
    for register in table {
        assert!(register.offset.is_multiple_of(4) && register.stride.is_multiple_of(4));
        for n in 0..register.count {
            let word = ((register.offset + n * register.stride) / 4) as usize;
            assert_eq!(owner[word].replace(register.name), None, "{} overlaps", register.name);
        }
        let read_only = matches!(register.access, Access::Ro | Access::Rc | Access::Absent);
        assert!(!read_only || register.mask == 0, "{}", register.name);
        assert!(!register.section.is_empty() && !register.summary.is_empty());
    }
}
