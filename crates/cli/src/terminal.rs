//! The terminal as a console: each key goes to the guest; Ctrl-A X leaves.

use std::io::{IsTerminal, Read, Write};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

const CTRL_A: u8 = 1;

/// Standard input and output as a guest's console. Dropping it restores the terminal's mode.
pub struct Terminal {
    saved: Option<Termios>,
    open: bool,
    escaped: bool,
    /// The last byte received, if any.
    last: Option<u8>,
}

/// Input from the keyboard.
#[derive(Debug, PartialEq, Eq)]
pub enum Input {
    /// Bytes for the guest, possibly none.
    Bytes(Vec<u8>),
    /// End of piped input that was not empty.
    End {
        /// Whether the last line ended with a line break.
        whole_line: bool,
    },
    /// The user leaves the console.
    Quit,
    /// The user requests the progress; the bytes are for the guest.
    Status(Vec<u8>),
}

impl Terminal {
    /// Switches the terminal to raw mode, if standard input is one.
    pub fn open() -> anyhow::Result<Terminal> {
        let stdin = std::io::stdin();
        let saved = if stdin.is_terminal() { Some(tcgetattr(&stdin)?) } else { None };
        if let Some(mode) = &saved {
            let mut raw = mode.clone();
            raw.make_raw();
            tcsetattr(&stdin, OptionalActions::Now, &raw)?;
        }
        Ok(Terminal { saved, open: true, escaped: false, last: None })
    }

    /// Whether standard input is a terminal.
    pub fn is_interactive(&self) -> bool {
        self.saved.is_some()
    }

    /// Whether there is no more input.
    pub fn is_at_end(&self) -> bool {
        !self.open
    }

    /// Waits up to `wait_ms` for input.
    pub fn read(&mut self, wait_ms: u32) -> anyhow::Result<Input> {
        let wait = Timespec { tv_sec: 0, tv_nsec: i64::from(wait_ms) * 1_000_000 };
        if !self.open {
            std::thread::sleep(std::time::Duration::from_millis(u64::from(wait_ms)));
            return Ok(Input::Bytes(Vec::new()));
        }
        let stdin = std::io::stdin();
        let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut fds, Some(&wait)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(Input::Bytes(Vec::new())),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut buffer = [0; 256];
        let count = stdin.lock().read(&mut buffer)?;
        self.open = count > 0;
        self.last = buffer[..count].last().copied().or(self.last);
        if !self.open
            && !self.is_interactive()
            && let Some(last) = self.last
        {
            return Ok(Input::End { whole_line: b"\r\n".contains(&last) });
        }
        Ok(if self.is_interactive() {
            self.unescape(&buffer[..count])
        } else {
            Input::Bytes(buffer[..count].to_vec())
        })
    }

    /// Handles Ctrl-A X (leave), Ctrl-A S (progress) and Ctrl-A Ctrl-A (sends a Ctrl-A).
    fn unescape(&mut self, keys: &[u8]) -> Input {
        let (mut bytes, mut is_status) = (Vec::with_capacity(keys.len()), false);
        for key in keys {
            match (std::mem::take(&mut self.escaped), *key) {
                (true, b'x' | b'X') => return Input::Quit,
                (true, b's' | b'S') => is_status = true,
                (true, other) => bytes.push(other),
                (false, CTRL_A) => self.escaped = true,
                (false, other) => bytes.push(other),
            }
        }
        if is_status { Input::Status(bytes) } else { Input::Bytes(bytes) }
    }

    /// Prints output of the guest.
    pub fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(bytes)?;
        stdout.flush()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(mode) = &self.saved {
            // If the terminal has disappeared, there is nothing left to restore.
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, mode);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ctrl_a_x_leaves_s_requests_progress_and_ctrl_a_twice_sends_one() {
        let mut terminal = Terminal { saved: None, open: true, escaped: false, last: None };
        assert_eq!(terminal.unescape(b"ls\r\x01\x01"), Input::Bytes(b"ls\r\x01".to_vec()));
        assert_eq!(terminal.unescape(b"\x01"), Input::Bytes(Vec::new()));
        assert_eq!(terminal.unescape(b"s."), Input::Status(b".".to_vec()));
        assert_eq!(terminal.unescape(b"s\x01x"), Input::Quit);
    }
}
