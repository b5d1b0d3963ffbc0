//! The register file: storage, look-up by offset and reset, all computed from the table.

mod reference;
mod table;

pub use reference::register_reference;
pub use table::{Access, Reg, Register, TABLE};

use table::ALL;

/// Words in BAR 0.
const WINDOW_WORDS: usize = (crate::e82540::identity::MMIO_BYTES / 4) as usize;

/// First storage word of each register, and after the last the number of words.
const SLOTS: [u16; TABLE.len() + 1] = {
    let mut slots = [0u16; TABLE.len() + 1];
    let mut i = 0;
    while i < TABLE.len() {
        let words = if matches!(TABLE[i].access, Access::Absent) { 0 } else { TABLE[i].count as u16 };
        slots[i + 1] = slots[i] + words;
        i += 1;
    }
    slots
};

/// For each word of the window one more than the number of its register, or zero.
static LOOKUP: [u8; WINDOW_WORDS] = {
    let mut lookup = [0u8; WINDOW_WORDS];
    let mut i = 0;
    while i < TABLE.len() {
        let mut n = 0;
        while n < TABLE[i].count {
            lookup[((TABLE[i].offset + n * TABLE[i].stride) / 4) as usize] = i as u8 + 1;
            n += 1;
        }
        i += 1;
    }
    lookup
};

impl Register {
    /// Whether it is one of the statistics registers (§13.7).
    pub fn is_statistic(&self) -> bool {
        self.section.starts_with("13.7.")
    }
}

impl Reg {
    /// The register's row in the table.
    pub const fn info(self) -> &'static Register {
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

/// The values behind the registers. What depends on the moment (STATUS, EECD) is computed instead.
#[derive(Clone, Debug)]
pub(crate) struct Regs {
    words: Box<[u32]>,
    /// What reading and resetting took from each statistics register. An observer: not part of the saved state.
    cleared: Box<[u64]>,
}

impl Regs {
    pub fn new() -> Regs {
        let mut regs = Regs {
            words: vec![0; usize::from(SLOTS[TABLE.len()])].into_boxed_slice(),
            cleared: vec![0; TABLE.len()].into_boxed_slice(),
        };
        regs.reset();
        regs
    }

    /// Gives every register the value that the table names.
    pub fn reset(&mut self) {
        for (i, register) in TABLE.iter().enumerate() {
            if register.is_statistic() {
                self.cleared[i] += u64::from(self.words[usize::from(SLOTS[i])]);
            }
            self.words[usize::from(SLOTS[i])..usize::from(SLOTS[i + 1])].fill(register.reset);
        }
    }

    fn slot(reg: Reg, index: usize) -> usize {
        usize::from(SLOTS[reg as usize]) + index
    }

    pub fn get(&self, reg: Reg) -> u32 {
        self.words[Self::slot(reg, 0)]
    }

    pub fn set(&mut self, reg: Reg, value: u32) {
        self.words[Self::slot(reg, 0)] = value;
    }

    pub fn at(&self, reg: Reg, index: usize) -> u32 {
        self.words[Self::slot(reg, index)]
    }

    pub fn set_at(&mut self, reg: Reg, index: usize, value: u32) {
        self.words[Self::slot(reg, index)] = value;
    }

    /// All registers of an array.
    pub fn array(&self, reg: Reg) -> &[u32] {
        &self.words[usize::from(SLOTS[reg as usize])..usize::from(SLOTS[reg as usize + 1])]
    }

    /// Whether any of `bits` is set.
    pub fn has(&self, reg: Reg, bits: u32) -> bool {
        self.get(reg) & bits != 0
    }

    /// Sets a statistics register to zero; what it held is kept for [`total`](Regs::total).
    pub fn clear_statistic(&mut self, reg: Reg) {
        self.cleared[reg as usize] += u64::from(self.get(reg));
        self.set(reg, 0);
    }

    /// What a statistics register would hold if nothing had ever cleared it.
    pub fn total(&self, index: usize) -> u64 {
        self.cleared[index] + u64::from(self.words[usize::from(SLOTS[index])])
    }

    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Takes over saved words; false if their number is wrong.
    pub fn restore(&mut self, words: &[u32]) -> bool {
        let fits = words.len() == self.words.len();
        if fits {
            self.words.copy_from_slice(words);
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_registers_overlap_and_all_lie_in_the_window() {
        let mut owner = vec![None; WINDOW_WORDS];
        for register in TABLE {
            assert!(register.offset.is_multiple_of(4) && register.stride.is_multiple_of(4));
            for n in 0..register.count {
                let word = ((register.offset + n * register.stride) / 4) as usize;
                assert_eq!(owner[word].replace(register.name), None, "{} overlaps", register.name);
            }
        }
    }

    #[test]
    fn every_register_is_found_at_its_offset_and_only_there() {
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
    fn read_only_registers_have_no_writable_bits_and_resets_fit() {
        for register in TABLE {
            let read_only = matches!(register.access, Access::Ro | Access::Rc | Access::Absent);
            assert!(!read_only || register.mask == 0, "{}", register.name);
            assert!(!register.section.is_empty() && !register.summary.is_empty());
        }
    }
}
