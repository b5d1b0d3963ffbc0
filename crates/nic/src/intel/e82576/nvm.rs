//! The NVM (§3.3, §8.4): words that software reads through EERD, and access request and grant in EEC. Not
//! modelled: the serial protocol on EEC's pins, by which software writes the NVM.

use serde::{Deserialize, Serialize};

use super::bits::eec;
use super::identity::identity;
use crate::intel::eeprom;
use doorbell_wire::MacAddr;

/// Number of words, a power of two.
pub const WORDS: usize = 1024;
/// Number of words covered by the checksum.
const CHECKSUM_WORDS: usize = 64;

/// The NVM and EEC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Nvm {
    words: Vec<u16>,
    pins: u32,
}

impl Nvm {
    /// Creates an NVM with the factory contents for this address. `pause` is the drivers' default for PAUSE.
    pub fn new(mac: MacAddr, pause: bool) -> Nvm {
        let ids = identity();
        let mut words = vec![0xffffu16; WORDS];
        eeprom::put_station(&mut words, mac);
        for (at, word) in [
            (0x03, 0x0000), // compatibility: nothing special
            (0x04, 0x8911), // LEDs: their defaults
            (0x05, 0x1000), // version
            (0x0a, 0x4003), // initialisation control 1: valid, load the IDs below
            (0x0b, ids.subsystem),
            (0x0c, ids.subsystem_vendor),
            (0x0d, ids.device),
            (0x0e, ids.vendor),
            (0x0f, eeprom::control_2(pause)),
            (0x16, 0x0018), // MSI-X: 25 vectors
            (0x24, 0x0000), // initialisation control 3: no wake-up
            (0x37, 0xffff), // no alternate address
        ] {
            words[at] = word;
        }
        eeprom::set_checksum(&mut words[..CHECKSUM_WORDS]);
        Nvm { words, pins: 0 }
    }

    /// Returns the word at `address`, which wraps.
    pub fn word(&self, address: u32) -> u16 {
        self.words[address as usize % WORDS]
    }

    /// Returns the station address.
    pub fn mac(&self) -> [u8; 6] {
        eeprom::station(&self.words)
    }

    /// Whether a restored state is valid.
    pub fn is_consistent(&self) -> bool {
        self.words.len() == WORDS
    }

    /// Reads EEC: the NVM is present, and all settings are loaded from it.
    pub fn read_eec(&self) -> u32 {
        let granted = if self.pins & eec::REQ != 0 { eec::GNT } else { 0 };
        let size = (WORDS.trailing_zeros() - 6) << eec::SIZE_SHIFT;
        self.pins | granted | eec::PRES | eec::AUTO_RD | size
    }

    /// Writes EEC.
    pub fn write_eec(&mut self, value: u32) {
        self.pins = value & eec::WRITABLE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_words_add_up_to_the_checksum_and_hold_the_mac_address() {
        let nvm = Nvm::new(MacAddr([0x52, 0x54, 0, 0x12, 0x34, 0x56]), false);
        let words: Vec<u16> = (0..64).map(|address| nvm.word(address)).collect();
        assert_eq!(words.iter().fold(0u16, |sum, word| sum.wrapping_add(*word)), 0xbaba);
        assert_eq!((&words[..3], words[0x0d]), (&[0x5452, 0x1200, 0x5634][..], 0x10c9));
    }

    #[test]
    fn eec_grants_requests_and_reports_the_size() {
        let mut nvm = Nvm::new(MacAddr([2, 0, 0, 0, 0, 1]), false);
        assert_eq!(nvm.read_eec() & 0xffff, 4 << 11 | 0x300);
        nvm.write_eec(0x40);
        assert_eq!(nvm.read_eec() & 0xc0, 0xc0);
    }
}
