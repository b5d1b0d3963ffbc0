//! Receive and send functions of DPDK drivers. They are static, and Debian strips its drivers, but the
//! running program reveals them. For each Ethernet port, DPDK keeps an entry in the array `rte_eth_fp_ops`,
//! exported by `librte_ethdev`; the inline functions in programs call the driver through it. This works for
//! every build of every driver.
//!
//! The layout of an entry is in DPDK's `rte_ethdev_core.h` and part of its ABI. In DPDK 24.11 (ABI 25) it has
//! two lines of 64 bytes, one to receive and one to send, each starting with two pointers to queue data.

use crate::modules::{Peek, word};

/// The array's name.
pub const ARRAY: &str = "rte_eth_fp_ops";

/// Number of ports in the array (`RTE_MAX_ETHPORTS`, as Debian builds it).
const PORTS: u64 = 32;
/// Bytes of a port's entry.
const ENTRY_BYTES: u64 = 128;
/// Function pointers of an entry, by offset.
const FUNCTIONS: [(u64, &str); 3] = [(16, "rx_pkt_burst"), (80, "tx_pkt_burst"), (88, "tx_pkt_prepare")];

/// How a file accesses the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Array {
    /// The array is at this address, copied to the program's own data.
    Here(u64),
    /// The array's address is at this address, in the file's global offset table.
    Pointed(u64),
}

/// The functions of all ports, in the memory of a program that has loaded the file at `base`: their addresses
/// and their field names.
pub fn functions(array: Array, base: u64, peek: Peek) -> Vec<(u64, &'static str)> {
    let at = match array {
        Array::Here(addr) => Some(base.wrapping_add(addr)),
        Array::Pointed(slot) => word(peek, base.wrapping_add(slot)),
    };
    let Some(at) = at else { return Vec::new() };
    let places =
        (0..PORTS).flat_map(|port| FUNCTIONS.map(|(offset, name)| (port * ENTRY_BYTES + offset, name)));
    let found = places.filter_map(|(offset, name)| Some((word(peek, at.wrapping_add(offset))?, name)));
    found.filter(|(addr, _)| *addr != 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_every_port_are_read_directly_or_through_the_got() {
        let memory = |addr: u64, into: &mut [u8]| {
            let value: u64 = match addr {
                0x5000_0010 => 0x7000_0000,
                0x7000_0010 | 0x7000_0090 => 0x1111,
                0x7000_0050 => 0x2222,
                0x7000_00d8 => 0x3333,
                0x7000_0000..0x7000_1000 => 0,
                _ => return false,
            };
            into.copy_from_slice(&value.to_le_bytes());
            true
        };
        let found = [
            (0x1111, "rx_pkt_burst"),
            (0x2222, "tx_pkt_burst"),
            (0x1111, "rx_pkt_burst"),
            (0x3333, "tx_pkt_prepare"),
        ];
        assert_eq!(functions(Array::Pointed(0x10), 0x5000_0000, &memory), found);
        assert_eq!(functions(Array::Here(0x2000_0000), 0x5000_0000, &memory), found);
        assert_eq!(functions(Array::Pointed(0x18), 0x5000_0000, &memory), []);
    }
}
