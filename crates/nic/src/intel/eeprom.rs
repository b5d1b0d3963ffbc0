//! The serial EEPROM: a 93C46 of 64 words behind four pins in EECD (manual §5.2 to §5.6, §13.4.3)
//! and behind EERD (§13.4.4). Modelled: the Microwire protocol with READ, WRITE, ERASE, EWEN,
//! EWDS, ERAL and WRAL, and the request and grant of the pins. Not modelled: programming time
//! (the part is ready at once) and the hardware's own accesses.

use serde::{Deserialize, Serialize};

use doorbell_pcie::FunctionIdentity;
use doorbell_wire::MacAddr;

/// EECD, §13.4.3.
mod eecd {
    pub const SK: u32 = 1 << 0;
    pub const CS: u32 = 1 << 1;
    pub const DI: u32 = 1 << 2;
    pub const DO: u32 = 1 << 3;
    pub const FWE: u32 = 0b11 << 4;
    pub const REQ: u32 = 1 << 6;
    pub const GNT: u32 = 1 << 7;
    pub const PRES: u32 = 1 << 8;
}

/// Words in the part.
pub const WORDS: usize = 64;
/// Required sum of all words.
const CHECKSUM: u16 = 0xbaba;
/// Width of an address, and of a command (start bit, operation, address), in bits.
const ADDRESS_BITS: u32 = 6;
const COMMAND_BITS: u32 = 3 + ADDRESS_BITS;

/// State of the Microwire protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
enum Phase {
    /// Not selected, or waiting for the start bit.
    #[default]
    Idle,
    /// Shifting a command in: the bits so far and their number.
    Command { bits: u16, count: u8 },
    /// Shifting a word out: its address and the number of bits already output.
    Reading { address: u8, out: u8 },
    /// Shifting a word in. `None` is the address of a WRAL command, which writes all words.
    Writing { address: Option<u8>, bits: u16, count: u8 },
    /// The command has finished; DO signals "ready".
    Ready,
}

/// The EEPROM: pins and contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Eeprom {
    words: Vec<u16>,
    /// SK, CS, DI, FWE and REQ as last written.
    pins: u32,
    data_out: bool,
    write_enabled: bool,
    phase: Phase,
}

/// Writes the station address into the first three words.
pub(crate) fn put_station(words: &mut [u16], mac: MacAddr) {
    for (word, pair) in words.iter_mut().zip(mac.0.chunks_exact(2)) {
        *word = u16::from_le_bytes([pair[0], pair[1]]);
    }
}

/// Returns the station address in the first three words.
pub(crate) fn station(words: &[u16]) -> [u8; 6] {
    let mut mac = [0; 6];
    for (pair, word) in mac.chunks_exact_mut(2).zip(words) {
        pair.copy_from_slice(&word.to_le_bytes());
    }
    mac
}

/// Initialisation control 2, word 0x0f. Bits 13:12 are the driver's default for PAUSE: off, or on in both
/// directions.
pub(crate) fn control_2(pause: bool) -> u16 {
    if pause { 0x3000 } else { 0 }
}

/// Sets the last word so that all words add up to the checksum that drivers verify.
pub(crate) fn set_checksum(words: &mut [u16]) {
    if let Some((last, before)) = words.split_last_mut() {
        *last = before.iter().fold(CHECKSUM, |left, word| left.wrapping_sub(*word));
    }
}

impl Eeprom {
    /// Creates an EEPROM with the factory contents for this PCI identity and MAC address. `pause` is the
    /// drivers' default for PAUSE.
    pub fn new(mac: MacAddr, identity: &FunctionIdentity, pause: bool) -> Eeprom {
        let mut words = vec![0xffffu16; WORDS];
        put_station(&mut words, mac);
        words[0x03] = 0x0000; // compatibility: nothing special
        words[0x08] = 0xd00b; // printed board assembly number, high
        words[0x09] = 0xe110; // and low
        words[0x0a] = 0x4003; // initialisation control 1: valid, load the IDs below
        words[0x0b] = identity.subsystem;
        words[0x0c] = identity.subsystem_vendor;
        words[0x0d] = identity.device;
        words[0x0e] = identity.vendor;
        words[0x0f] = control_2(pause);
        words[0x24] = 0x0000; // initialisation control 3: no wake-up
        set_checksum(&mut words);
        Eeprom { words, pins: 0, data_out: true, write_enabled: false, phase: Phase::Idle }
    }

    /// Returns the word at `address`, which wraps at the part's six address bits.
    pub fn word(&self, address: u32) -> u16 {
        self.words[address as usize % WORDS]
    }

    /// Returns the station address.
    pub fn mac(&self) -> [u8; 6] {
        station(&self.words)
    }

    /// Whether a restored state is valid.
    pub fn is_consistent(&self) -> bool {
        self.words.len() == WORDS
    }

    /// Reads EECD.
    pub fn read_eecd(&self) -> u32 {
        let granted = if self.pins & eecd::REQ != 0 { eecd::GNT } else { 0 };
        let data_out = if self.data_out { eecd::DO } else { 0 };
        self.pins | granted | data_out | eecd::PRES
    }

    /// Writes EECD. The pins act only while access is granted.
    pub fn write_eecd(&mut self, value: u32) {
        let before = self.pins;
        self.pins = value & (eecd::SK | eecd::CS | eecd::DI | eecd::FWE | eecd::REQ);
        if self.pins & eecd::REQ == 0 {
            self.pins &= !(eecd::SK | eecd::CS | eecd::DI);
        }
        if self.pins & eecd::CS == 0 {
            self.phase = Phase::Idle;
            self.data_out = true;
            return;
        }
        if before & eecd::CS == 0 {
            self.phase = Phase::Idle;
        }
        if before & eecd::SK == 0 && self.pins & eecd::SK != 0 {
            self.clock(self.pins & eecd::DI != 0);
        }
    }

    /// Handles a rising clock edge with this level on the data input.
    fn clock(&mut self, data_in: bool) {
        let bit = u16::from(data_in);
        match self.phase {
            Phase::Idle if data_in => self.phase = Phase::Command { bits: 1, count: 1 },
            Phase::Idle => {}
            Phase::Command { bits, count } => {
                let (bits, count) = (bits << 1 | bit, count + 1);
                self.phase = Phase::Command { bits, count };
                if u32::from(count) == COMMAND_BITS {
                    self.execute(bits);
                }
            }
            Phase::Reading { address, out } => {
                self.data_out = self.word(address.into()) >> (15 - out) & 1 != 0;
                self.phase = match out {
                    15 => Phase::Reading { address: address.wrapping_add(1), out: 0 },
                    _ => Phase::Reading { address, out: out + 1 },
                };
            }
            Phase::Writing { address, bits, count } => {
                let (bits, count) = (bits << 1 | bit, count + 1);
                self.phase = Phase::Writing { address, bits, count };
                if count == 16 {
                    self.program(address, bits);
                }
            }
            Phase::Ready => {}
        }
    }

    /// Executes a complete command: start bit, two operation bits, address.
    fn execute(&mut self, command: u16) {
        let address = (command & 0x3f) as u8;
        match (command >> ADDRESS_BITS & 0b11, address >> 4) {
            (0b10, _) => {
                // DO is low from the last address bit's clock until the first data bit.
                self.data_out = false;
                self.phase = Phase::Reading { address, out: 0 };
            }
            (0b01, _) => self.phase = Phase::Writing { address: Some(address), bits: 0, count: 0 },
            (0b11, _) => self.program(Some(address), 0xffff),
            (_, 0b11) => self.finish_switch(true),
            (_, 0b00) => self.finish_switch(false),
            (_, 0b01) => self.phase = Phase::Writing { address: None, bits: 0, count: 0 },
            _ => self.program(None, 0xffff),
        }
    }

    fn finish_switch(&mut self, write_enabled: bool) {
        self.write_enabled = write_enabled;
        self.phase = Phase::Ready;
    }

    fn program(&mut self, address: Option<u8>, value: u16) {
        if self.write_enabled {
            match address {
                Some(address) => self.words[usize::from(address) % WORDS] = value,
                None => self.words.fill(value),
            }
        }
        self.data_out = true;
        self.phase = Phase::Ready;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intel::chip::Chip;

    fn identity() -> FunctionIdentity {
        crate::e82540::E82540::identity()
    }

    const SK: u32 = 1;
    const CS: u32 = 2;
    const DI: u32 = 4;
    const DO: u32 = 8;
    const REQ: u32 = 0x40;
    const GNT: u32 = 0x80;

    fn shift_out(part: &mut Eeprom, bits: u32, count: u32) {
        for i in (0..count).rev() {
            let data = if bits >> i & 1 != 0 { DI } else { 0 };
            part.write_eecd(REQ | CS | data);
            part.write_eecd(REQ | CS | data | SK);
            part.write_eecd(REQ | CS | data);
        }
    }

    fn shift_in(part: &mut Eeprom) -> u16 {
        (0..16).fold(0, |word, _| {
            part.write_eecd(REQ | CS | SK);
            let bit = u16::from(part.read_eecd() & DO != 0);
            part.write_eecd(REQ | CS);
            word << 1 | bit
        })
    }

    fn read(part: &mut Eeprom, address: u32) -> u16 {
        part.write_eecd(REQ);
        part.write_eecd(REQ | CS);
        shift_out(part, 0b110, 3);
        shift_out(part, address, 6);
        let word = shift_in(part);
        part.write_eecd(REQ);
        word
    }

    #[test]
    fn words_add_up_to_the_checksum_and_hold_the_mac_address() {
        let mut part = Eeprom::new(MacAddr([0x52, 0x54, 0, 0x12, 0x34, 0x56]), &identity(), false);
        let words: Vec<u16> = (0..64).map(|address| read(&mut part, address)).collect();
        assert_eq!(words.iter().fold(0u16, |sum, word| sum.wrapping_add(*word)), 0xbaba);
        assert_eq!(&words[..3], &[0x5452, 0x1200, 0x5634]);
        assert_eq!((words[0x0d], words[0x0e]), (0x100e, 0x8086));
    }

    #[test]
    fn pins_are_ignored_until_access_is_granted() {
        let mut part = Eeprom::new(MacAddr([2, 0, 0, 0, 0, 1]), &identity(), false);
        part.write_eecd(CS | SK | DI);
        assert_eq!(part.read_eecd() & (CS | SK | DI | GNT), 0);
        part.write_eecd(REQ);
        assert_ne!(part.read_eecd() & GNT, 0);
    }

    #[test]
    fn continued_clocking_reads_consecutive_words() {
        let mut part = Eeprom::new(MacAddr([2, 4, 6, 8, 10, 12]), &identity(), false);
        part.write_eecd(REQ | CS);
        shift_out(&mut part, 0b110_000000, 9);
        assert_eq!([shift_in(&mut part), shift_in(&mut part), shift_in(&mut part)], [0x0402, 0x0806, 0x0c0a]);
    }

    #[test]
    fn writes_and_erases_need_write_enable() {
        let mut part = Eeprom::new(MacAddr([2, 0, 0, 0, 0, 1]), &identity(), false);
        let mut command = |bits: u32, count: u32| {
            part.write_eecd(REQ | CS);
            shift_out(&mut part, bits, count);
            let ready = part.read_eecd() & DO != 0;
            part.write_eecd(REQ);
            (ready, part.word(5))
        };
        let write = 0b101_000101 << 16 | 0x1234;
        assert_eq!(command(write, 25), (true, 0xffff));
        command(0b100_110000, 9);
        assert_eq!(command(write, 25), (true, 0x1234));
        command(0b100_000000, 9);
        assert_eq!(command(0b111_000101, 9).1, 0x1234);
        command(0b100_110000, 9);
        assert_eq!(command(0b111_000101, 9).1, 0xffff);
    }
}
