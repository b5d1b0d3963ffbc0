//! Which of the core's registers stands for each of a trace's.
//!
//! An op writes one register, a record up to four, so registers are *renamed*: what an instruction writes gets one of the core's
//! registers, which stands for all of those of the trace until each is written again.

use doorbell_sim::op::{REGISTERS, Register};

use super::{FIRST_REGISTER, FLAGS, INSTRUCTION_POINTER, STACK_POINTER, Survey};

/// The core's register for one of the trace's while there is no reason for another. Ours, which the writer numbers from
/// [`FIRST_REGISTER`] on, come back as they were; the special ones follow them, and then all the others.
static USUAL: [Register; REGISTERS] = usual_names();

const fn usual_names() -> [Register; REGISTERS] {
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
            // There are as many names as registers, so that it overflows behind the last one.
            next = next.wrapping_add(1);
        }
    }
    names
}

/// Which of the trace's registers each of the core's is usually the name of: the other way round.
static NAMED: [u8; REGISTERS] = named();

const fn named() -> [u8; REGISTERS] {
    let (usual, mut named) = (usual_names(), [0; REGISTERS]);
    let mut register = 0;
    while register < REGISTERS {
        named[usual[register] as usize] = register as u8;
        register += 1;
    }
    named
}

/// The register of a ChampSim trace that one of the core's usually stands for.
pub(super) fn usually(name: Register) -> u8 {
    NAMED[usize::from(name)]
}

/// Whether what kind of branch an instruction is may hang on it.
fn is_special(register: u8) -> bool {
    [STACK_POINTER, FLAGS, INSTRUCTION_POINTER].contains(&register)
}

/// See the module.
pub(super) struct Names {
    of: [Register; REGISTERS],
    /// How many of the trace's registers each of the core's stands for. Those that the trace never names need none.
    users: [u8; REGISTERS],
}

impl Names {
    /// As they are before the first record of a trace that names the registers which the survey has seen.
    pub(super) fn new(survey: &Survey) -> Names {
        let mut names = Names { of: USUAL, users: [0; REGISTERS] };
        for (register, usual) in USUAL.iter().enumerate() {
            names.users[usize::from(*usual)] = u8::from(survey.names(register as u8));
        }
        names
    }

    /// What stands for a register of the trace's.
    pub(super) fn of(&self, register: u8) -> Register {
        self.of[usize::from(register)]
    }

    /// A register of the core's that stands for none of the trace's; 0 where the trace needs them all.
    pub(super) fn spare(&self) -> Register {
        self.free(&[]).unwrap_or(0)
    }

    /// Integer registers (and flags) come first, those that the special ones are usually called by last among them: a register that was
    /// renamed is not to be taken for one of these.
    fn free(&self, not: &[Register]) -> Option<Register> {
        (67..=u8::MAX).chain(64..67).chain(1..64).find(|name| self.is_free(*name, not))
    }

    fn is_free(&self, name: Register, not: &[Register]) -> bool {
        self.users[usize::from(name)] == 0 && !not.contains(&name)
    }

    /// Names what an instruction writes, each register once, if it can be none of `not`; 0 if it writes nothing.
    pub(super) fn write(&mut self, written: &[u8], not: &[Register]) -> Register {
        for register in written {
            self.users[usize::from(self.of(*register))] -= 1;
        }
        let mut usual = written.iter().map(|register| USUAL[usize::from(*register)]);
        let name = usual.find(|name| self.is_free(*name, not)).or_else(|| self.free(not));
        // A special register's is for none that is written with it.
        let is_shared = |name: Register| written.len() > 1 && is_special(usually(name));
        let name = if name.is_some_and(is_shared) { self.free(not).or(name) } else { name };
        // Where all others are taken, what has just been given up is left.
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
    fn every_register_has_a_usual_name_of_its_own_and_ours_come_back() {
        let mut names = USUAL.to_vec();
        names.sort_unstable();
        assert!(names.into_iter().eq(0..=u8::MAX));
        assert_eq!(USUAL[0], 0);
        assert!((0..=u8::MAX).all(|register| usually(USUAL[usize::from(register)]) == register));
        assert!((1..FIRST_REGISTER).all(|own| USUAL[usize::from(FIRST_REGISTER + own)] == own));
        let others =
            [INSTRUCTION_POINTER, FLAGS, STACK_POINTER, 1, 5, 7, 24, 27, FIRST_REGISTER, 128, u8::MAX];
        let expected = [64, 65, 66, 67, 71, 72, 89, 90, 127, 128, 255];
        assert_eq!(others.map(|register| USUAL[usize::from(register)]), expected);
    }
}
