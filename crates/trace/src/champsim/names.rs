//! Renames the registers of a ChampSim trace to those of the core.
//!
//! An op writes one register, a record up to four. An instruction's results therefore get one of the core's
//! registers, which represents all of the trace's registers written, until each is written again.

use doorbell_sim::op::{REGISTERS, Register};

use super::{FIRST_REGISTER, FLAGS, INSTRUCTION_POINTER, STACK_POINTER, Survey};

/// Default core register for each of the trace's. Doorbell's registers, which the writer numbers from
/// [`FIRST_REGISTER`], keep their numbers; the special ones follow, then all others.
static DEFAULT: [Register; REGISTERS] = default_names();

const fn default_names() -> [Register; REGISTERS] {
    let mut names = [0; REGISTERS];
    names[INSTRUCTION_POINTER as usize] = FIRST_REGISTER;
    names[FLAGS as usize] = FIRST_REGISTER + 1;
    names[STACK_POINTER as usize] = FIRST_REGISTER + 2;
    let mut next = FIRST_REGISTER + 3;
    let mut register: u8 = 0;
    while register < u8::MAX {
        register += 1;
        if register > FIRST_REGISTER && register < 2 * FIRST_REGISTER {
            names[register as usize] = register - FIRST_REGISTER;
        } else if names[register as usize] == 0 {
            names[register as usize] = next;
            // There are as many names as registers, so this overflows only after the last one.
            next = next.wrapping_add(1);
        }
    }
    names
}

/// Inverse of [`DEFAULT`]: the trace register whose default each core register is.
static NAMED: [u8; REGISTERS] = named();

const fn named() -> [u8; REGISTERS] {
    let (defaults, mut named) = (default_names(), [0; REGISTERS]);
    let mut register = 0;
    while register < REGISTERS {
        named[defaults[register] as usize] = register as u8;
        register += 1;
    }
    named
}

/// The trace register whose default `name` is.
pub(super) fn default_of(name: Register) -> u8 {
    NAMED[usize::from(name)]
}

/// Returns whether the branch type may depend on the register.
fn is_special(register: u8) -> bool {
    [STACK_POINTER, FLAGS, INSTRUCTION_POINTER].contains(&register)
}

/// Register renaming state; see the module.
pub(super) struct Names {
    of: [Register; REGISTERS],
    /// Number of trace registers that each core register represents. Registers that the trace never uses are
    /// not counted.
    users: [u8; REGISTERS],
}

impl Names {
    /// State before the first record of the surveyed trace.
    pub(super) fn new(survey: &Survey) -> Names {
        let mut names = Names { of: DEFAULT, users: [0; REGISTERS] };
        for (register, default) in DEFAULT.iter().enumerate() {
            names.users[usize::from(*default)] = u8::from(survey.names(register as u8));
        }
        names
    }

    /// Core register of a trace register.
    pub(super) fn of(&self, register: u8) -> Register {
        self.of[usize::from(register)]
    }

    /// A core register that represents none of the trace's; 0 if all are in use.
    pub(super) fn spare(&self) -> Register {
        self.free(&[]).unwrap_or(0)
    }

    /// A free register other than `not`. Integer registers and flags are preferred; the defaults of the
    /// special registers come last among these, so that a renamed register is not mistaken for a special one.
    fn free(&self, not: &[Register]) -> Option<Register> {
        (67..=u8::MAX).chain(64..67).chain(1..64).find(|name| self.is_free(*name, not))
    }

    fn is_free(&self, name: Register, not: &[Register]) -> bool {
        self.users[usize::from(name)] == 0 && !not.contains(&name)
    }

    /// Assigns a register other than `not` to an instruction's results; 0 if it writes none. `written` has no
    /// repeats.
    pub(super) fn write(&mut self, written: &[u8], not: &[Register]) -> Register {
        for register in written {
            self.users[usize::from(self.of(*register))] -= 1;
        }
        let mut defaults = written.iter().map(|register| DEFAULT[usize::from(*register)]);
        let name = defaults.find(|name| self.is_free(*name, not)).or_else(|| self.free(not));
        // A special register's default is not shared with other registers.
        let is_shared = |name: Register| written.len() > 1 && is_special(default_of(name));
        let name = if name.is_some_and(is_shared) { self.free(not).or(name) } else { name };
        // If all others are in use, only the register just released is left.
        let name = name.or_else(|| self.free(&[])).filter(|_| !written.is_empty()).unwrap_or(0);
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
    fn default_names_are_a_permutation_that_keeps_our_registers() {
        let mut names = DEFAULT.to_vec();
        names.sort_unstable();
        assert!(names.into_iter().eq(0..=u8::MAX));
        assert_eq!(DEFAULT[0], 0);
        assert!((0..=u8::MAX).all(|register| default_of(DEFAULT[usize::from(register)]) == register));
        assert!((1..FIRST_REGISTER).all(|own| DEFAULT[usize::from(FIRST_REGISTER + own)] == own));
        let others =
            [INSTRUCTION_POINTER, FLAGS, STACK_POINTER, 1, 5, 7, 24, 27, FIRST_REGISTER, 128, u8::MAX];
        let expected = [64, 65, 66, 67, 71, 72, 89, 90, 127, 128, 255];
        assert_eq!(others.map(|register| DEFAULT[usize::from(register)]), expected);
    }
}
