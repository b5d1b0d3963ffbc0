//! Which register of the ops each of x86's is.
//!
//! An op writes one register and an instruction several, above all a result and the flags. So registers are *renamed*: what an
//! instruction writes together has one name, which stands for all of it until each is written again.

use doorbell_sim::op::{REGISTERS, Register};
use iced_x86::Register as X86;

const GENERAL: Register = 1;
const VECTOR: Register = 32;
/// The flags, all together.
pub(super) const FLAGS: Register = 64;
const STACK: Register = 65;
const MASK: Register = 73;
/// What an instruction's first load fetches for it, its further ones,
pub(super) const LOADED: Register = 81;
/// what it computes to store,
pub(super) const RESULT: Register = 83;
/// and what joins registers where it reads more than an op does.
pub(super) const JOINED: Register = 84;
/// From here on, names that stand for several registers.
const POOL: Register = 85;

/// The number of a register, 0 for those that nobody waits for: segments, the instruction pointer, control registers.
pub(super) fn number(register: X86) -> Register {
    let full = register.full_register();
    let place = full.number() as Register;
    match full {
        _ if full.is_gpr64() => GENERAL + place,
        _ if full.is_vector_register() => VECTOR + place,
        // MMX registers lie in the floating-point stack.
        _ if full.is_st() || full.is_mm() => STACK + place,
        _ if full.is_k() => MASK + place,
        _ => 0,
    }
}

/// The stack pointer.
pub(super) const STACK_POINTER: Register = GENERAL + 4;

/// What each register is called at the moment.
// The ChampSim reader has its own (trace/src/champsim/names.rs): it looks for a name through all that a file leaves free, which it
// knows beforehand, and may have to avoid some. Here the free ones are at hand, as each executed instruction asks for one.
#[derive(Debug)]
pub(super) struct Names {
    of: [Register; POOL as usize],
    /// How many registers each name stands for.
    users: [u8; REGISTERS],
    free: Vec<Register>,
}

impl Names {
    pub(super) fn new() -> Names {
        let mut names = Names { of: [0; POOL as usize], users: [0; REGISTERS], free: Vec::new() };
        for register in 1..POOL {
            names.of[usize::from(register)] = register;
            names.users[usize::from(register)] = 1;
        }
        names.free.extend(POOL..=u8::MAX);
        names
    }

    pub(super) fn read(&self, register: Register) -> Register {
        self.of[usize::from(register)]
    }

    /// Names what an instruction writes; 0 if that is nothing.
    pub(super) fn write(&mut self, written: &[Register]) -> Register {
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
    fn registers_have_numbers_whatever_part_of_them_is_named() {
        for part in [X86::RAX, X86::EAX, X86::AX, X86::AL, X86::AH] {
            assert_eq!(number(part), GENERAL);
        }
        assert_eq!(number(X86::R15D), 16);
        assert_eq!(number(X86::RSP), STACK_POINTER);
        assert_eq!(number(X86::XMM31), 63);
        assert_eq!(number(X86::YMM0), VECTOR);
        assert_eq!(number(X86::ST7), number(X86::MM7));
        assert_eq!(number(X86::K7), 80);
        for none in [X86::None, X86::CS, X86::RIP, X86::CR3] {
            assert_eq!(number(none), 0);
        }
    }

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
