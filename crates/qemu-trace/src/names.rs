//! Register numbers of ops.
//!
//! General registers are 1 to 31, vector and floating-point registers 32 to 63, flags are one register, and
//! the numbers from [`FURTHER`] are specific to the instruction set. An op writes one register, but an
//! instruction often a result and the flags. The flags then have the result's name until either is written
//! again. If only the result is written, the flags lose their name, and readers of the flags have no
//! dependence.

use doorbell_sim::op::{INNER_REGISTERS, Register};

/// First general register.
pub const GENERAL: Register = 1;
/// First vector register.
pub const VECTOR: Register = 32;
/// The flags, as one register.
pub const FLAGS: Register = 64;
/// First of 16 registers that are specific to the instruction set.
pub const FURTHER: Register = 65;
/// Result of an instruction's first load; later loads use the next number.
pub(crate) const LOADED: Register = *INNER_REGISTERS.start();
/// Computed data of a store.
pub(crate) const RESULT: Register = LOADED + 2;
/// Result of an op that joins excess sources.
pub(crate) const JOINED: Register = LOADED + 3;

/// Current name of the flags, across blocks.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    flags: Register,
    /// Since the block began: whether the name changed, whether it was read before that, and the registers
    /// written.
    changed: bool,
    flags_read: bool,
    written: u128,
}

/// Effect of a block on the name of the flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlagsAfter {
    /// The name is this register.
    Named(Register),
    /// The name is kept, unless this bit mask of registers contains it.
    KeptUnless(u128),
}

impl Names {
    pub fn new() -> Names {
        Names { flags: FLAGS, changed: false, flags_read: false, written: 0 }
    }

    /// Current name of the flags.
    pub fn flags(&self) -> Register {
        self.flags
    }

    /// Starts a block.
    pub fn begin(&mut self) {
        (self.changed, self.flags_read, self.written) = (false, false, 0);
    }

    /// Returns whether the block's ops depend on the name of the flags before it.
    pub fn depends_on_flags(&self) -> bool {
        self.flags_read
    }

    /// Effect of the block so far.
    pub fn after(&self) -> FlagsAfter {
        if self.changed { FlagsAfter::Named(self.flags) } else { FlagsAfter::KeptUnless(self.written) }
    }

    /// Applies the effect of a block.
    pub fn apply(&mut self, after: FlagsAfter) {
        match after {
            FlagsAfter::Named(flags) => self.flags = flags,
            FlagsAfter::KeptUnless(written) if written >> self.flags & 1 != 0 => self.flags = FLAGS,
            FlagsAfter::KeptUnless(_) => {}
        }
    }

    /// Name of a register.
    pub fn read(&mut self, register: Register) -> Register {
        if register != FLAGS {
            return register;
        }
        self.flags_read |= !self.changed;
        if !self.changed && self.written >> self.flags & 1 != 0 { FLAGS } else { self.flags }
    }

    /// Assigns a name to an instruction's results: its first register; 0 if it writes none.
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
    fn flags_have_the_name_of_the_result_until_either_is_rewritten() {
        let mut names = Names::new();
        names.begin();
        assert_eq!(names.write(&[3, FLAGS]), 3);
        assert_eq!(names.read(FLAGS), 3);
        assert_eq!((names.write(&[5]), names.read(FLAGS)), (5, 3));
        assert_eq!((names.write(&[3]), names.read(FLAGS)), (3, FLAGS));
        assert_eq!((names.write(&[FLAGS]), names.read(FLAGS)), (FLAGS, FLAGS));
        assert_eq!(names.write(&[]), 0);
        assert!(!names.depends_on_flags());
    }

    #[test]
    fn applying_a_block_effect_yields_the_same_name() {
        let registers = [vec![1], vec![2, FLAGS], vec![FLAGS], vec![3, 4], vec![]];
        // Every sequence of three instructions, after each name that the flags can have.
        for first in 0..125 {
            for before in [FLAGS, 1, 2, 3, 4] {
                let mut names = Names { flags: before, ..Names::new() };
                let mut other = names.clone();
                names.begin();
                for at in [first % 5, first / 5 % 5, first / 25] {
                    names.write(&registers[at]);
                }
                let after = names.after();
                other.apply(after);
                names.apply(after);
                assert_eq!(names.flags(), other.flags(), "{first} {before}");
            }
        }
    }
}
