//! Registers by the numbers that ops have for them.
//!
//! General registers are 1 to 31, vector and floating-point ones 32 to 63, flags are one register, and an instruction set has
//! [`FURTHER`] to itself. An op writes one register, and an instruction often a result and the flags: the flags then go by the result's
//! name, until either is written again. Where that is the result alone, they are left without one: who reads them waits for nothing.

use doorbell_sim::op::{INNER_REGISTERS, Register};

/// The first general register.
pub const GENERAL: Register = 1;
/// The first vector register.
pub const VECTOR: Register = 32;
/// The flags, all together.
pub const FLAGS: Register = 64;
/// What an instruction set has besides, 16 of them.
pub const FURTHER: Register = 65;
/// What an instruction's first load fetches for it, its further ones,
pub(crate) const LOADED: Register = *INNER_REGISTERS.start();
/// what it computes to store,
pub(crate) const RESULT: Register = LOADED + 2;
/// and what joins registers where it reads more than an op does.
pub(crate) const JOINED: Register = LOADED + 3;

/// Under which name the flags are to be had, within a block and on to the next one.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    flags: Register,
    /// Since the block began: whether it was changed, whether it was asked for before that, and which registers were written.
    changed: bool,
    asked: bool,
    written: u128,
}

/// What a block does to the name of the flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlagsAfter {
    /// It is this one.
    Named(Register),
    /// It is the one before the block, unless that is among these (bits of registers).
    KeptUnless(u128),
}

impl Names {
    pub fn new() -> Names {
        Names { flags: FLAGS, changed: false, asked: false, written: 0 }
    }

    /// The name of the flags.
    pub fn flags(&self) -> Register {
        self.flags
    }

    /// A block begins.
    pub fn begin(&mut self) {
        (self.changed, self.asked, self.written) = (false, false, 0);
    }

    /// Whether what the block's ops are depends on the name of the flags before it.
    pub fn has_asked(&self) -> bool {
        self.asked
    }

    /// What the block has done since it began.
    pub fn after(&self) -> FlagsAfter {
        if self.changed { FlagsAfter::Named(self.flags) } else { FlagsAfter::KeptUnless(self.written) }
    }

    /// Does what a block did another time.
    pub fn follow(&mut self, after: FlagsAfter) {
        match after {
            FlagsAfter::Named(flags) => self.flags = flags,
            FlagsAfter::KeptUnless(written) if written >> self.flags & 1 != 0 => self.flags = FLAGS,
            FlagsAfter::KeptUnless(_) => {}
        }
    }

    /// The name of a register.
    pub fn read(&mut self, register: Register) -> Register {
        if register != FLAGS {
            return register;
        }
        self.asked |= !self.changed;
        if !self.changed && self.written >> self.flags & 1 != 0 { FLAGS } else { self.flags }
    }

    /// Names what an instruction writes together: its first register; 0 if that is nothing.
    pub fn write(&mut self, written: &[Register]) -> Register {
        let first = written.iter().copied().find(|register| *register != FLAGS);
        if written.contains(&FLAGS) {
            self.flags = first.unwrap_or(FLAGS);
            self.changed = true;
        } else if self.changed && written.contains(&self.flags) {
            self.flags = FLAGS;
        }
        for register in written {
            self.written |= 1 << (register & 127);
        }
        first.unwrap_or(written.first().copied().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_go_by_the_name_of_the_result_until_either_is_written_again() {
        let mut names = Names::new();
        names.begin();
        assert_eq!(names.write(&[3, FLAGS]), 3);
        assert_eq!(names.read(FLAGS), 3);
        assert_eq!((names.write(&[5]), names.read(FLAGS)), (5, 3));
        assert_eq!((names.write(&[3]), names.read(FLAGS)), (3, FLAGS));
        assert_eq!((names.write(&[FLAGS]), names.read(FLAGS)), (FLAGS, FLAGS));
        assert_eq!(names.write(&[]), 0);
        assert!(!names.has_asked());
    }

    #[test]
    fn a_block_that_is_followed_another_time_leaves_the_same_names() {
        let registers = [vec![1], vec![2, FLAGS], vec![FLAGS], vec![3, 4], vec![]];
        // Every block of three instructions, after each name that flags can have.
        for first in 0..125 {
            for before in [FLAGS, 1, 2, 3, 4] {
                let mut names = Names { flags: before, ..Names::new() };
                let mut other = names.clone();
                names.begin();
                for at in [first % 5, first / 5 % 5, first / 25] {
                    names.write(&registers[at]);
                }
                let after = names.after();
                other.follow(after);
                names.follow(after);
                assert_eq!(names.flags(), other.flags(), "{first} {before}");
            }
        }
    }
}
