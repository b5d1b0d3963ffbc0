//! A small client of QEMU's GDB stub that reads registers missing in the log (GDB remote serial protocol:
//! packets `$data#sum`, each acknowledged by `+`).

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// A connection to a stopped QEMU.
pub struct Gdb {
    stream: UnixStream,
    /// Register numbers by name.
    numbers: BTreeMap<String, usize>,
}

impl Gdb {
    /// Takes the connection and reads the register descriptions.
    pub fn new(stream: UnixStream) -> Result<Gdb> {
        let mut gdb = Gdb { stream, numbers: BTreeMap::new() };
        gdb.ask("qSupported:xmlRegisters=riscv")?;
        let target = gdb.document("target.xml")?;
        let mut next = 0;
        for annex in attribute_values(&target, "<xi:include ", "href") {
            let text = gdb.document(&annex)?;
            for element in text.split("<reg ").skip(1) {
                let element = element.split('>').next().unwrap_or("");
                if let Some(number) = attribute(element, "regnum") {
                    next = number.parse().context("invalid register number")?;
                }
                let name = attribute(element, "name").context("a register has no name")?;
                gdb.numbers.insert(name, next);
                next += 1;
            }
        }
        ensure!(gdb.numbers.contains_key("pc"), "QEMU's GDB stub describes no registers");
        Ok(gdb)
    }

    /// A register's value; `None` if QEMU has no such register or rejects reading it.
    pub fn register(&mut self, name: &str) -> Result<Option<u64>> {
        let Some(number) = self.numbers.get(name) else { return Ok(None) };
        let answer = self.ask(&format!("p{number:x}"))?;
        if answer.is_empty() || answer.starts_with('E') {
            return Ok(None);
        }
        let bytes =
            (0..answer.len().min(16)).step_by(2).map(|at| u8::from_str_radix(&answer[at..at + 2], 16));
        let mut value = [0; 8];
        for (place, byte) in value.iter_mut().zip(bytes) {
            *place = byte.with_context(|| format!("invalid answer {answer} for register {name}"))?;
        }
        Ok(Some(u64::from_le_bytes(value)))
    }

    /// Reads a document of the target description.
    fn document(&mut self, annex: &str) -> Result<String> {
        let mut text = String::new();
        loop {
            let part = self.ask(&format!("qXfer:features:read:{annex}:{:x},7f0", text.len()))?;
            match part.split_at_checked(1) {
                Some(("l", rest)) => return Ok(text + rest),
                Some(("m", rest)) => text += rest,
                _ => bail!("QEMU's GDB stub does not provide {annex}: {part}"),
            }
        }
    }

    /// Sets the timeout for answers.
    pub fn set_timeout(&mut self, timeout: Duration) -> Result<()> {
        Ok(self.stream.set_read_timeout(Some(timeout))?)
    }

    /// Selects the hart whose registers are read; QEMU numbers threads from 1 in the order of harts.
    pub fn select(&mut self, hart: usize) -> Result<()> {
        let answer = self.ask(&format!("Hg{:x}", hart + 1))?;
        ensure!(answer == "OK", "QEMU's GDB stub has no hart {hart}: {answer}");
        Ok(())
    }

    /// Runs the machine to the instruction at `addr`, on any hart.
    pub fn run_to(&mut self, addr: u64) -> Result<()> {
        for kind in ["Z", "z"] {
            let answer = self.ask(&format!("{kind}1,{addr:x},2"))?;
            ensure!(answer == "OK", "QEMU's GDB stub rejected a breakpoint at {addr:#x}: {answer}");
            if kind == "Z" {
                self.send("c")?;
                while !self.packet()?.starts_with('T') {}
            }
        }
        Ok(())
    }

    fn send(&mut self, packet: &str) -> Result<()> {
        let sum = packet.bytes().fold(0u8, u8::wrapping_add);
        Ok(write!(self.stream, "${packet}#{sum:02x}")?)
    }

    fn ask(&mut self, question: &str) -> Result<String> {
        self.send(question)?;
        loop {
            let answer = self.packet()?;
            // Stop reports arrive unrequested.
            if !answer.starts_with('T') {
                return Ok(answer);
            }
        }
    }

    fn packet(&mut self) -> Result<String> {
        while self.byte()? != b'$' {}
        let mut bytes = Vec::new();
        loop {
            match self.byte()? {
                b'#' => break,
                b'}' => bytes.push(self.byte()? ^ 0x20),
                byte => bytes.push(byte),
            }
        }
        for _checksum_digit in 0..2 {
            self.byte()?;
        }
        self.stream.write_all(b"+")?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn byte(&mut self) -> Result<u8> {
        let mut byte = [0];
        self.stream.read_exact(&mut byte).context("QEMU closed its GDB stub, or gave no answer in time")?;
        Ok(byte[0])
    }
}

/// The value of `name="value"` in an XML element.
fn attribute(element: &str, name: &str) -> Option<String> {
    let (_, rest) = element.split_once(&format!("{name}=\""))?;
    rest.split('"').next().map(str::to_owned)
}

fn attribute_values(text: &str, element: &str, name: &str) -> Vec<String> {
    text.split(element).skip(1).filter_map(|part| attribute(part.split('>').next()?, name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_in_their_elements() {
        let text =
            r#"<target><xi:include href="a.xml"/><other href="b.xml"/><xi:include href="c.xml"/></target>"#;
        assert_eq!(attribute_values(text, "<xi:include ", "href"), ["a.xml", "c.xml"]);
        assert_eq!(attribute(r#"name="ra" bitsize="64" regnum="1"/"#, "regnum").as_deref(), Some("1"));
    }
}
