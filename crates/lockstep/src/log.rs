//! Reads QEMU's `-d exec,cpu` log: each block of lines is the state before one instruction; a following line
//! reports if the instruction was not executed.

use std::io::{self, BufRead};

use crate::state::{CSRS, State};

/// A log record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Logged {
    /// The state before an instruction.
    Before(Box<State>),
    /// The last logged instruction was not executed: an interrupt or a switch to another hart came first.
    Stopped,
}

/// Start of the line that reports an instruction as not executed.
const STOPPED: &[u8] = b"Stopped execution of TB chain before";

/// A stream of logged states.
pub struct Log<R> {
    input: R,
    line: Vec<u8>,
    /// Whether the log has floating-point registers (`-d fpu`).
    floats: bool,
}

fn hex(digits: &[u8]) -> Option<u64> {
    (digits.len() <= 16 && !digits.is_empty()).then_some(())?;
    digits.iter().try_fold(0, |value, digit| Some(value << 4 | u64::from((*digit as char).to_digit(16)?)))
}

/// The number in a register name such as `x10/a0`.
fn register(name: &[u8]) -> Option<usize> {
    let end = name.iter().position(|byte| *byte == b'/')?;
    std::str::from_utf8(&name[1..end]).ok()?.parse().ok().filter(|number| *number < 32)
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty())
}

impl<R: BufRead> Log<R> {
    /// Reads from `input`.
    pub fn new(input: R, floats: bool) -> Log<R> {
        Log { input, line: Vec::new(), floats }
    }

    /// The next record; `None` at the end of the log.
    pub fn read(&mut self) -> io::Result<Option<Logged>> {
        let mut state = State { f: self.floats.then(Box::default), ..State::default() };
        loop {
            self.line.clear();
            if self.input.read_until(b'\n', &mut self.line)? == 0 {
                return Ok(None);
            }
            if self.line.starts_with(STOPPED) {
                return Ok(Some(Logged::Stopped));
            }
            let mut words = words(&self.line);
            while let (Some(name), Some(value)) = (words.next(), words.next()) {
                let (Some(value), [first, rest @ ..]) = (hex(value), name) else { break };
                let numbered = rest.first().is_some_and(u8::is_ascii_digit);
                match (first, numbered, register(name).filter(|_| numbered)) {
                    (b'x', true, Some(number)) => {
                        state.x[number] = value;
                        if number == 31 && !self.floats {
                            return Ok(Some(Logged::Before(Box::new(state))));
                        }
                    }
                    (b'f', true, Some(number)) => {
                        if let Some(f) = &mut state.f {
                            f[number] = value;
                        }
                        if number == 31 && self.floats {
                            return Ok(Some(Logged::Before(Box::new(state))));
                        }
                    }
                    (b'p', false, _) if name == b"pc" => state.pc = value,
                    (b'm', false, _) if name == b"mhartid" => state.hart = value as usize,
                    _ => {
                        if let Some(position) = CSRS.iter().position(|(known, _)| known.as_bytes() == name) {
                            state.csr[position] = value;
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::index;

    #[test]
    fn a_block_of_lines_is_one_state_and_unknown_lines_are_ignored() {
        let mut text = String::from(
            "Trace 0: nothing\n pc       0000000080000004\n mhartid  0000000000000001\n mstatus  0000000a00000080\n",
        );
        for row in 0..8 {
            for column in 0..4 {
                let number = row * 4 + column;
                text += &format!(" x{number}/name {:016x}", number * 3);
            }
            text += "\n";
        }
        text += "Stopped execution of TB chain before 0x7f00 [0000000080000004] \n pc       12\n";
        let mut log = Log::new(text.as_bytes(), false);
        let Some(Logged::Before(state)) = log.read().unwrap() else { panic!("no state") };
        assert_eq!(
            (state.hart, state.pc, state.csr[index::MSTATUS], state.x[31]),
            (1, 0x8000_0004, 0xa_0000_0080, 93)
        );
        assert_eq!(log.read().unwrap(), Some(Logged::Stopped));
        assert_eq!(log.read().unwrap(), None);
    }
}
