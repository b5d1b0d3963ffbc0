//! The Toeplitz hash of receive side scaling (Microsoft, "RSS hashing types" and "Verifying the RSS hash
//! calculation"). For each set bit of the input, the 32 bits of the key from that position on are XORed into
//! the hash.

/// Length of a key in bytes. The input is four bytes shorter at most: two IPv6 addresses and two ports.
pub(crate) const KEY_BYTES: usize = 40;
const INPUT_BYTES: usize = KEY_BYTES - 4;

/// A key as look-up tables, one look-up per input byte.
#[derive(Clone, Debug)]
pub(crate) struct Toeplitz(Box<[[u32; 256]]>);

impl Toeplitz {
    /// Computes the tables of a key.
    pub fn new(key: [u8; KEY_BYTES]) -> Toeplitz {
        let window = |bit: usize| {
            let bytes = &key[bit / 8..];
            let mut wide = 0u64;
            for at in 0..5 {
                wide = wide << 8 | u64::from(bytes.get(at).copied().unwrap_or(0));
            }
            (wide >> (8 - bit % 8)) as u32
        };
        let table = (0..INPUT_BYTES).map(|at| {
            let mut row = [0u32; 256];
            for (value, hash) in row.iter_mut().enumerate() {
                for bit in (0..8).filter(|bit| value >> (7 - bit) & 1 != 0) {
                    *hash ^= window(8 * at + bit);
                }
            }
            row
        });
        Toeplitz(table.collect())
    }

    /// Hash of the concatenated parts.
    pub fn hash(&self, parts: [&[u8]; 2]) -> u32 {
        let bytes = parts.into_iter().flatten();
        bytes.zip(&self.0).fold(0, |hash, (byte, row)| hash ^ row[usize::from(*byte)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; KEY_BYTES] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
        0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
        0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];

    /// Microsoft's verification suite: source address and port, destination address and port, hash of the
    /// addresses, hash of addresses and ports.
    #[test]
    fn hashes_match_the_published_verification_suite() {
        let hash = Toeplitz::new(KEY);
        let v4 = [
            ([66u8, 9, 149, 187], 2794u16, [161u8, 142, 100, 80], 1766u16, 0x323e_8fc2u32, 0x51cc_c178u32),
            ([199, 92, 111, 2], 14230, [65, 69, 140, 83], 4739, 0xd718_262a, 0xc626_b0ea),
            ([24, 19, 198, 95], 12898, [12, 22, 207, 184], 38024, 0xd2d0_a5de, 0x5c2b_394a),
            ([38, 27, 205, 30], 48228, [209, 142, 163, 6], 2217, 0x8298_9176, 0xafc7_327f),
            ([153, 39, 163, 191], 44251, [202, 188, 127, 2], 1303, 0x5d18_09c5, 0x10e8_28a2),
        ];
        for (source, source_port, destination, port, addresses, all) in v4 {
            let both = [source, destination].concat();
            let ports = [source_port.to_be_bytes(), port.to_be_bytes()].concat();
            assert_eq!((hash.hash([&both, &[]]), hash.hash([&both, &ports])), (addresses, all));
        }
        let v6 = [
            ("3ffe:2501:200:1fff::7", 2794, "3ffe:2501:200:3::1", 1766, 0x2cc1_8cd5u32, 0x4020_7d3du32),
            ("3ffe:501:8::260:97ff:fe40:efab", 14230, "ff02::1", 4739, 0x0f0c_461c, 0xdde5_1bbf),
            (
                "3ffe:1900:4545:3:200:f8ff:fe21:67cf",
                44251,
                "fe80::200:f8ff:fe21:67cf",
                38024,
                0x4b61_e985,
                0x02d1_feef,
            ),
        ];
        for (source, source_port, destination, port, addresses, all) in v6 {
            let octets = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().octets();
            let both = [octets(source), octets(destination)].concat();
            let ports = [u16::to_be_bytes(source_port), u16::to_be_bytes(port)].concat();
            assert_eq!((hash.hash([&both, &[]]), hash.hash([&both, &ports])), (addresses, all), "{source}");
        }
    }
}
