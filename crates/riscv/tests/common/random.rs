//! Random numbers and operands from SplitMix64, identical on every host.
#![allow(dead_code)] // each test program uses a part of it

pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// An integer: of any magnitude, of either sign, often near a power of two.
    pub fn integer(&mut self) -> u64 {
        let value = self.next() >> self.below(64);
        match self.below(4) {
            0 => value.wrapping_neg(),
            1 => (1u64 << self.below(64)).wrapping_add(self.below(5)).wrapping_sub(2),
            _ => value,
        }
    }

    /// A double's bits: arbitrary, or with an exponent near a boundary.
    pub fn double(&mut self) -> u64 {
        let bits = self.next();
        let exponent = match self.below(8) {
            0 => return bits,
            1 => self.below(4),
            2 => 0x7fd - self.below(3),
            3 => 1023 + self.below(70),
            4 => 1023 - 126 - self.below(30),
            _ => 1023 - 4 + self.below(8),
        };
        let sparse = if self.below(2) == 0 { u64::MAX << self.below(52) } else { u64::MAX };
        bits & (1 << 63) | exponent << 52 | bits & sparse & ((1 << 52) - 1)
    }

    /// A single's bits, chosen like a double's.
    pub fn single(&mut self) -> u32 {
        let bits = self.next() as u32;
        let exponent = match self.below(8) {
            0 => return bits,
            1 => self.below(4) as u32,
            2 => 0xfd - self.below(3) as u32,
            3 => 127 + self.below(70) as u32,
            _ => 127 - 4 + self.below(8) as u32,
        };
        let sparse = if self.below(2) == 0 { u32::MAX << self.below(23) } else { u32::MAX };
        bits & (1 << 31) | exponent << 23 | bits & sparse & ((1 << 23) - 1)
    }
}

/// Boundary integers.
pub const INTEGERS: [u64; 22] = [
    0,
    1,
    2,
    3,
    31,
    32,
    63,
    64,
    0x7fff,
    0x8000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0x8000_0000_0000_0001,
    0xffff_ffff_7fff_ffff,
    0xffff_ffff_8000_0000,
    0xffff_ffff_ffff_fffe,
    0xffff_ffff_ffff_ffff,
    0x5555_5555_aaaa_aaaa,
];

/// Boundary doubles.
pub const DOUBLES: [u64; 40] = [
    0x0000_0000_0000_0000, // zero
    0x0000_0000_0000_0001, // smallest subnormal
    0x000f_ffff_ffff_ffff, // largest subnormal
    0x0010_0000_0000_0000, // smallest normal
    0x0010_0000_0000_0001,
    0x001f_ffff_ffff_ffff,
    0x3690_0000_0000_0000, // half the smallest subnormal single
    0x36a0_0000_0000_0000, // smallest subnormal single
    0x380f_ffff_ffff_ffff, // just below the smallest normal single
    0x380f_ffff_e000_0000,
    0x3810_0000_0000_0000, // smallest normal single
    0x3ca0_0000_0000_0000, // 2^-53
    0x3fdf_ffff_ffff_ffff, // just below a half
    0x3fe0_0000_0000_0000, // a half
    0x3fef_ffff_ffff_ffff,
    0x3ff0_0000_0000_0000, // one
    0x3ff0_0000_0000_0001,
    0x3ff8_0000_0000_0000, // one and a half
    0x4000_0000_0000_0000,
    0x4004_0000_0000_0000, // two and a half
    0x41df_ffff_ffc0_0000, // 2^31 - 1
    0x41df_ffff_ffe0_0000, // 2^31 - 1/2
    0x41e0_0000_0000_0000, // 2^31
    0x41e0_0000_0020_0000, // 2^31 + 1
    0x41ef_ffff_ffe0_0000, // 2^32 - 1
    0x41f0_0000_0000_0000, // 2^32
    0x4330_0000_0000_0001,
    0x43df_ffff_ffff_ffff, // below 2^63
    0x43e0_0000_0000_0000, // 2^63
    0x43ef_ffff_ffff_ffff, // below 2^64
    0x43f0_0000_0000_0000, // 2^64
    0x47ef_ffff_e000_0000, // largest single
    0x47ef_ffff_f000_0000, // halfway to overflow of single
    0x47f0_0000_0000_0000,
    0x7fef_ffff_ffff_ffff, // largest
    0x7ff0_0000_0000_0000, // infinity
    0x7ff8_0000_0000_0000, // canonical NaN
    0x7ff0_0000_0000_0001, // signalling NaN
    0x7fff_ffff_ffff_ffff,
    0x7ff4_0000_0000_0000,
];

/// Boundary singles.
pub const SINGLES: [u32; 32] = [
    0x0000_0000,
    0x0000_0001,
    0x007f_ffff,
    0x0080_0000,
    0x0080_0001,
    0x00ff_ffff,
    0x3380_0000, // 2^-24
    0x3eff_ffff,
    0x3f00_0000, // a half
    0x3f7f_ffff,
    0x3f80_0000, // one
    0x3f80_0001,
    0x3fc0_0000,
    0x4000_0000,
    0x4020_0000, // two and a half
    0x4b00_0001,
    0x4eff_ffff, // below 2^31
    0x4f00_0000, // 2^31
    0x4f7f_ffff,
    0x4f80_0000, // 2^32
    0x5eff_ffff,
    0x5f00_0000, // 2^63
    0x5f7f_ffff,
    0x5f80_0000, // 2^64
    0x7e80_0000,
    0x7f00_0000,
    0x7f7f_ffff,
    0x7f80_0000, // infinity
    0x7fc0_0000, // canonical NaN
    0x7f80_0001, // signalling NaN
    0x7fff_ffff,
    0x7fa0_0000,
];
