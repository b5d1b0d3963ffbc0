//! Access to QEMU's devices through its test protocol (`-qtest`). Tests apply the same operations to a device
//! of this project and to QEMU's, and compare the results. No processor runs in QEMU, and time only advances
//! on command.

#![forbid(unsafe_code)]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use doorbell_sim::AccessSize;

/// A QEMU process that waits for commands; it is killed on drop.
#[derive(Debug)]
pub struct Qtest {
    process: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Qtest {
    /// Starts QEMU's machine `virt` with additional options.
    pub fn start(options: &[&str]) -> Qtest {
        let common = "-M virt -display none -bios none -serial null -monitor none -nodefaults \
                      -qtest stdio -qtest-log /dev/null";
        let mut process = doorbell_oracle::qemu()
            .args(common.split_whitespace())
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("QEMU starts");
        let commands = process.stdin.take().expect("it is a pipe");
        let answers = BufReader::new(process.stdout.take().expect("it is a pipe"));
        Qtest { process, commands, answers }
    }

    /// Reads a register.
    pub fn read(&mut self, addr: u64, size: AccessSize) -> u64 {
        number(&self.command(&format!("read{} {addr:#x}", letter(size))))
    }

    /// Writes a register.
    pub fn write(&mut self, addr: u64, size: AccessSize, value: u64) {
        self.command(&format!("write{} {addr:#x} {:#x}", letter(size), value & size.mask()));
    }

    /// Reads memory.
    pub fn peek(&mut self, addr: u64, len: usize) -> Vec<u8> {
        let answer = self.command(&format!("read {addr:#x} {len:#x}"));
        let digits = answer.trim_start_matches("0x");
        (0..len).map(|at| number(&digits[2 * at..2 * at + 2]) as u8).collect()
    }

    /// Writes memory.
    pub fn poke(&mut self, addr: u64, bytes: &[u8]) {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        self.command(&format!("write {addr:#x} {:#x} 0x{hex}", bytes.len()));
    }

    fn command(&mut self, command: &str) -> String {
        writeln!(self.commands, "{command}").expect("QEMU accepts commands");
        loop {
            let mut line = String::new();
            let len = self.answers.read_line(&mut line).expect("QEMU answers");
            assert_ne!(len, 0, "QEMU ended at: {command}");
            if let Some(rest) = line.strip_prefix("OK") {
                return rest.trim().to_owned();
            }
            assert!(line.starts_with("IRQ"), "{command}: {line}");
        }
    }
}

impl Drop for Qtest {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn number(hex: &str) -> u64 {
    u64::from_str_radix(hex.trim_start_matches("0x"), 16).expect("QEMU answers in hexadecimal")
}

fn letter(size: AccessSize) -> char {
    match size {
        AccessSize::B1 => 'b',
        AccessSize::B2 => 'w',
        AccessSize::B4 => 'l',
        AccessSize::B8 => 'q',
    }
}
