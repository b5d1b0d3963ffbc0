//! Ethernet addresses (IEEE 802 §8.2).

use std::fmt;
use std::str::FromStr;

/// A 48-bit MAC address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// The broadcast address.
    pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);

    /// Whether it is a group address (multicast or broadcast): the first bit on the wire is 1.
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 == 1
    }

    /// Returns the address `count` further on. The manufacturer's part does not change.
    pub fn plus(self, count: usize) -> MacAddr {
        let MacAddr([a, b, c, high, middle, low]) = self;
        let own = u32::from_be_bytes([0, high, middle, low]).wrapping_add(count as u32).to_be_bytes();
        MacAddr([a, b, c, own[1], own[2], own[3]])
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Error in a text that should be a MAC address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a MAC address; expected six bytes in hexadecimal such as \"52:54:00:12:34:56\"")]
pub struct MacAddrError(String);

impl FromStr for MacAddr {
    type Err = MacAddrError;
    fn from_str(text: &str) -> Result<MacAddr, MacAddrError> {
        let error = || MacAddrError(text.to_owned());
        let mut bytes = [0; 6];
        let mut parts = text.trim().split([':', '-']);
        for byte in &mut bytes {
            let part = parts.next().filter(|p| p.len() == 2 && p.bytes().all(|c| c.is_ascii_hexdigit()));
            *byte = u8::from_str_radix(part.ok_or_else(error)?, 16).map_err(|_| error())?;
        }
        if parts.next().is_some() { Err(error()) } else { Ok(MacAddr(bytes)) }
    }
}

doorbell_sim::text_serde!(MacAddr, [u8; 6]);
doorbell_sim::text_schema!(MacAddr, "an Ethernet address such as \"52:54:00:12:34:56\"", &[]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mac_address_parses_with_colons_or_dashes_only() {
        let address = MacAddr([0x52, 0x54, 0, 0x12, 0x34, 0x5f]);
        assert_eq!("52:54:00:12:34:5F".parse(), Ok(address));
        assert_eq!("52-54-00-12-34-5f".parse(), Ok(address));
        assert_eq!(address.to_string(), "52:54:00:12:34:5f");
        for wrong in ["", "52:54:00:12:34", "52:54:00:12:34:56:78", "52:54:00:12:34:5", "52:54:00:12:34:+5"] {
            assert!(wrong.parse::<MacAddr>().unwrap_err().to_string().contains("six bytes"), "{wrong}");
        }
    }
}
