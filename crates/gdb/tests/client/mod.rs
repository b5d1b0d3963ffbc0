//! A protocol client for tests, and instruction encodings for its guest programs.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;

use doorbell_gdb::{Debuggee, Session, SessionState, Wire};
use doorbell_machine::{Limits, Machine, Outcome};
use doorbell_sim::Ps;
use gdbstub::conn::Connection;

/// Start of RAM.
pub const BASE: u64 = 0x8000_0000;
/// Limit of instructions without a stop, to detect hangs.
const INSTRUCTIONS_MAX: u64 = 1_000_000;

/// Instructions, encoded by the unprivileged manual's formats.
pub mod program {
    pub fn addi(rd: u32, rs1: u32, immediate: u32) -> u32 {
        immediate << 20 | rs1 << 15 | rd << 7 | 0x13
    }

    pub fn add(rd: u32, rs1: u32, rs2: u32) -> u32 {
        rs2 << 20 | rs1 << 15 | rd << 7 | 0x33
    }

    pub fn auipc(rd: u32) -> u32 {
        rd << 7 | 0x17
    }

    pub fn sd(value: u32, base: u32, offset: u32) -> u32 {
        (offset >> 5) << 25 | value << 20 | base << 15 | 3 << 12 | (offset & 31) << 7 | 0x23
    }

    pub fn ld(rd: u32, base: u32, offset: u32) -> u32 {
        offset << 20 | base << 15 | 3 << 12 | rd << 7 | 0x03
    }

    pub fn jump(offset: i32) -> u32 {
        let o = offset as u32;
        (o >> 20 & 1) << 31 | (o >> 1 & 0x3ff) << 21 | (o >> 11 & 1) << 20 | (o >> 12 & 0xff) << 12 | 0x6f
    }
}

pub fn ebreak() -> u32 {
    0x0010_0073
}

/// gem5's m5op `fail`: ends the run with the exit code in a1.
pub fn exit() -> u32 {
    0x22 << 25 | 0x7b
}

/// Both directions of a connection.
#[derive(Default)]
struct Bytes {
    to_stub: VecDeque<u8>,
    from_stub: VecDeque<u8>,
    closed: bool,
}

struct Pipe(Rc<RefCell<Bytes>>);

impl Connection for Pipe {
    type Error = io::Error;

    fn write(&mut self, byte: u8) -> io::Result<()> {
        self.0.borrow_mut().from_stub.push_back(byte);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Wire for Pipe {
    fn receive(&mut self, into: &mut VecDeque<u8>, _wait: bool) -> io::Result<bool> {
        let mut bytes = self.0.borrow_mut();
        into.extend(bytes.to_stub.drain(..));
        Ok(!bytes.closed)
    }
}

/// A client with its guest.
pub struct Client {
    pub debuggee: Debuggee,
    session: Session<Pipe>,
    bytes: Rc<RefCell<Bytes>>,
}

pub fn hex(value: u64) -> String {
    hex_bytes(&value.to_le_bytes())
}

pub fn hex_bytes(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Client {
    pub fn attach(machine: Machine) -> Client {
        let mut debuggee = Debuggee::new(machine);
        let bytes = Rc::<RefCell<Bytes>>::default();
        let session = Session::new(Pipe(bytes.clone()), &mut debuggee).unwrap();
        let mut client = Client { debuggee, session, bytes };
        assert_eq!(client.ask("QStartNoAckMode"), "OK");
        client.bytes.borrow_mut().to_stub.push_back(b'+');
        assert!(client.ask("qSupported:swbreak+;vContSupported+").contains("swbreak+"));
        assert!(client.ask("?")[1..].starts_with("05"));
        client
    }

    pub fn say(&mut self, packet: &str) {
        let sum = packet.bytes().fold(0u8, |sum, byte| sum.wrapping_add(byte));
        self.bytes.borrow_mut().to_stub.extend(format!("${packet}#{sum:02x}").bytes());
    }

    /// Sends a packet and runs the guest, if it may run, until the answer arrives.
    pub fn ask(&mut self, packet: &str) -> String {
        self.say(packet);
        self.answer()
    }

    fn answer(&mut self) -> String {
        let end = self.debuggee.machine.instructions() + INSTRUCTIONS_MAX;
        loop {
            let state = self.session.poll(&mut self.debuggee).unwrap();
            if let Some(answer) = self.take_answer() {
                return answer;
            }
            assert_eq!(state, SessionState::Running, "no answer");
            assert!(self.debuggee.machine.instructions() < end, "the guest does not stop");
            self.run_slice(1_000);
        }
    }

    fn run_slice(&mut self, instructions: u64) {
        let instructions = self.debuggee.machine.instructions() + instructions;
        let outcome = self.debuggee.run(&Limits { instructions, ..Limits::until(Ps::MAX) });
        self.session.report(&mut self.debuggee, outcome).unwrap();
        if let Outcome::M5Op { function: 0x22, args, .. } = outcome {
            self.session.exited(&mut self.debuggee, args[1] as u8).unwrap();
        }
    }

    /// Lets the guest run for some instructions without a stop.
    pub fn run_for(&mut self, instructions: u64) {
        self.run_with("vCont;c", instructions);
    }

    /// Resumes the guest with this packet and lets it run without a stop.
    pub fn run_with(&mut self, packet: &str, instructions: u64) {
        self.say(packet);
        assert_eq!(self.session.poll(&mut self.debuggee).unwrap(), SessionState::Running);
        self.run_slice(instructions);
        assert_eq!(self.take_answer(), None);
    }

    /// Sends Ctrl-C.
    pub fn interrupt(&mut self) -> String {
        self.bytes.borrow_mut().to_stub.push_back(3);
        let before = self.debuggee.machine.instructions();
        let answer = self.answer();
        assert_eq!(self.debuggee.machine.instructions(), before);
        answer
    }

    pub fn register(&mut self, number: usize) -> u64 {
        let answer = self.ask(&format!("p{number:x}"));
        u64::from_str_radix(&answer, 16).unwrap_or_else(|_| panic!("{answer}")).swap_bytes()
    }

    pub fn hang_up(&mut self) {
        self.bytes.borrow_mut().closed = true;
    }

    /// Lets the stub process the packets sent so far, and ignores errors.
    pub fn serve(&mut self) {
        let _ = self.session.poll(&mut self.debuggee);
    }

    pub fn is_detached(&mut self) -> bool {
        self.session.poll(&mut self.debuggee).unwrap() == SessionState::Detached
    }

    pub fn is_killed(&mut self) -> bool {
        self.session.poll(&mut self.debuggee).unwrap() == SessionState::Killed
    }

    /// The next received packet, with its checksum verified and run-length encoding expanded.
    fn take_answer(&mut self) -> Option<String> {
        let mut bytes = self.bytes.borrow_mut();
        let from = &mut bytes.from_stub;
        while from.front().is_some_and(|byte| *byte == b'+') {
            from.pop_front();
        }
        if from.is_empty() {
            return None;
        }
        assert_eq!(from.pop_front(), Some(b'$'));
        let end = from.iter().position(|byte| *byte == b'#').expect("packets arrive complete");
        let packet: Vec<u8> = from.drain(..end).collect();
        let trailer: Vec<u8> = from.drain(..3).collect();
        let sum = packet.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
        assert_eq!(String::from_utf8(trailer).unwrap(), format!("#{sum:02x}"));
        let mut answer = String::new();
        let mut packet = packet.into_iter();
        while let Some(byte) = packet.next() {
            match byte {
                b'*' => {
                    let last = answer.pop().unwrap();
                    let count = usize::from(packet.next().unwrap()) - 28;
                    answer.extend(std::iter::repeat_n(last, count));
                }
                b'}' => answer.push((packet.next().unwrap() ^ 0x20).into()),
                other => answer.push(other.into()),
            }
        }
        Some(answer)
    }
}
