//! Fingerprint of a run: hashes of what the guest, its users and stations on the wire can observe,
//! independent of how the simulator stores its state. Two versions with different state layouts that simulate
//! the same have the same fingerprint.

use std::collections::BTreeMap;

use doorbell_riscv::{Hart, SHOWN_CSRS};
use serde::Serialize;
use xxhash_rust::xxh3::Xxh3;

use crate::machine::Machine;

/// The floating-point CSR: rounding mode and exception flags.
const FCSR: u16 = 0x003;

/// A run's fingerprint, without its counters. Hashes are 64-bit XXH3 in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fingerprint {
    /// Simulated time at the end.
    pub now_ps: u64,
    /// Hash of the non-zero RAM pages and their addresses.
    pub ram: String,
    /// Hash of the data written to each disk.
    pub disks: Vec<String>,
    /// The harts.
    pub harts: Vec<HartFingerprint>,
    /// Frames on each link, by port and direction: departure and arrival times and bytes.
    pub wires: BTreeMap<String, WireFingerprint>,
    /// Hash of the console output.
    pub console: String,
}

/// Final state of a hart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HartFingerprint {
    /// Local time of the hart.
    pub time_ps: u64,
    /// Instructions retired.
    pub instructions: u64,
    /// The program counter.
    pub pc: String,
    /// Hash of privilege level, integer and floating-point registers, and CSRs.
    pub registers: String,
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WireFingerprint {
    /// Number of frames.
    pub frames: u64,
    /// Hash of all frames.
    pub hash: String,
}

impl Machine {
    /// Starts to hash the frames on all links, for the fingerprint. An observer: changes no state.
    pub fn start_wire_hashes(&mut self) {
        for port in &mut self.ports {
            port.link_in.start_hash();
            port.link_out.start_hash();
        }
    }

    /// The fingerprint; `None` unless [`start_wire_hashes`](Machine::start_wire_hashes) was called.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        let mut wires = BTreeMap::new();
        for (index, port) in self.ports.iter().enumerate() {
            for (direction, link) in [("in", &port.link_in), ("out", &port.link_out)] {
                let hash = link.wire_hash()?;
                let print = WireFingerprint { frames: hash.frames, hash: digits(hash.hash) };
                wires.insert(format!("port{index}.{direction}"), print);
            }
        }
        let mut ram = Xxh3::new();
        for page in self.pages_not_zero() {
            ram.update(&page.to_le_bytes());
            ram.update(&self.ram.page(page));
        }
        Some(Fingerprint {
            now_ps: self.now().0,
            ram: digits(ram.digest()),
            disks: self.disks.iter().map(|disk| digits(disk.medium().written_hash())).collect(),
            harts: self.harts.iter().map(hart).collect(),
            wires,
            console: digits(self.console.hash()),
        })
    }
}

fn hart(hart: &Hart) -> HartFingerprint {
    let mut registers = Xxh3::new();
    let mut take = |value: u64| registers.update(&value.to_le_bytes());
    take(hart.privilege() as u64);
    (0..32).for_each(|number| take(hart.reg(number)));
    (0..32).for_each(|number| take(hart.freg(number)));
    take(hart.csr(FCSR).unwrap_or(0));
    SHOWN_CSRS.iter().for_each(|(_, number)| take(hart.csr(*number).unwrap_or(0)));
    HartFingerprint {
        time_ps: hart.time().0,
        instructions: hart.instructions(),
        pc: digits(hart.pc()),
        registers: digits(registers.digest()),
    }
}

fn digits(hash: u64) -> String {
    format!("{hash:016x}")
}
