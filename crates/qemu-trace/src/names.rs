//! Registers by the numbers that ops have for them, and how they are renamed.
//!
//! General registers are 1 to 31, vector and floating-point ones 32 to 63, flags are one register, and an instruction set has
//! [`FURTHER`] to itself. An op writes one register and an instruction several, above all a result and the flags. So registers are
//! *renamed*: what an instruction writes together has one name, which stands for all of it until each is written again.

use doorbell_sim::op::{REGISTERS, Register};

/// The first general register.
pub const GENERAL: Register = 1;
/// The first vector register.
pub const VECTOR: Register = 32;
/// The flags, all together.
pub const FLAGS: Register = 64;
/// What an instruction set has besides, 16 of them.
pub const FURTHER: Register = 65;
/// What an instruction's first load fetches for it, its further ones,
pub(crate) const LOADED: Register = 81;
/// what it computes to store,
pub(crate) const RESULT: Register = 83;
/// and what joins registers where it reads more than an op does.
pub(crate) const JOINED: Register = 84;
/// From here on, names that stand for several registers.
const POOL: Register = 85;

/// What each register is called at the moment.
// The ChampSim reader has its own (trace/src/champsim/names.rs): it looks for a name through all that a file leaves free, which it
// knows beforehand, and may have to avoid some. Here the free ones are at hand, as each executed instruction asks for one.
#[derive(Debug)]
pub(crate) struct Names {
    of: [Register; POOL as usize],
    /// How many registers each name stands for.
    users: [u8; REGISTERS],
    free: Vec<Register>,
}

impl Names {
    pub(crate) fn new() -> Names {
        let mut names = Names { of: [0; POOL as usize], users: [0; REGISTERS], free: Vec::new() };
        for register in 1..POOL {
            names.of[usize::from(register)] = register;
            names.users[usize::from(register)] = 1;
        }
        names.free.extend(POOL..=u8::MAX);
        names
    }

    pub(crate) fn read(&self, register: Register) -> Register {
        self.of[usize::from(register)]
    }

    /// Names what an instruction writes; 0 if that is nothing.
    pub(crate) fn write(&mut self, written: &[Register]) -> Register {
        for register in written {
            let old = self.of[usize::from(*register)];
            self.users[usize::from(old)] -= 1;
            if old >= POOL && self.users[usize::from(old)] == 0 {
                self.free.push(old);
            }
        }
        let Some(first) = written.first() else { return 0 };
        let own = written.iter().copied().find(|register| self.users[usize::from(*register)] == 0);
        // There are more names than registers.
        let name = own.unwrap_or_else(|| self.free.pop().unwrap_or(*first));
        for register in written {
            self.of[usize::from(*register)] = name;
            self.users[usize::from(name)] += 1;
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_together_has_one_name_until_each_part_is_written_again() {
        let mut names = Names::new();
        let sum = names.write(&[1, FLAGS]);
        assert_eq!([names.read(1), names.read(FLAGS)], [sum, sum]);
        // Another result in the register leaves the flags' name to the flags.
        let moved = names.write(&[1]);
        assert_ne!(moved, sum);
        assert_eq!([names.read(1), names.read(FLAGS)], [moved, sum]);
        assert_eq!(names.write(&[]), 0);
    }

    #[test]
    fn a_name_never_stands_for_what_was_not_written_with_it() {
        let mut names = Names::new();
        for step in 0_u32..100_000 {
            let one = (step.wrapping_mul(2_654_435_761) >> 16) as u8 % 40 + 1;
            let name = names.write(&[one, FLAGS]);
            for register in 1..POOL {
                let is_together = register == one || register == FLAGS;
                assert_eq!(names.read(register) == name, is_together, "{step} {register}");
            }
        }
    }
}
