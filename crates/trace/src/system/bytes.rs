//! Variable-length integers in a chunk's columns: seven bits per byte, lowest first; the top bit is set on
//! all bytes but the last. Signed values are zigzag-encoded (0, -1, 1, -2 …), so that small differences of
//! either sign are short.

/// A column ends within a number, or a number exceeds 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Appends a number.
#[inline]
pub fn put(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

/// Appends the difference of two numbers, which wraps.
#[inline]
pub fn put_difference(to: &mut Vec<u8>, value: u64, from: u64) {
    let difference = value.wrapping_sub(from) as i64;
    put(to, (difference << 1 ^ difference >> 63) as u64);
}

/// A column being read.
#[derive(Debug, Default)]
pub struct Column {
    bytes: Vec<u8>,
    at: usize,
}

impl Column {
    /// Starts at the beginning.
    pub fn new(bytes: Vec<u8>) -> Column {
        Column { bytes, at: 0 }
    }

    /// Returns whether the column is used up.
    pub fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// The next byte.
    #[inline]
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        let byte = *self.bytes.get(self.at).ok_or(Malformed)?;
        self.at += 1;
        Ok(byte)
    }

    /// The next number.
    #[inline]
    pub fn take(&mut self) -> Result<u64, Malformed> {
        let first = self.byte()?;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        let (mut value, mut shift) = (u64::from(first & 0x7f), 7);
        loop {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 || shift > 63 {
                return Err(Malformed);
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
            shift += 7;
        }
    }

    /// The next number, stored as its difference from `from`.
    #[inline]
    pub fn take_difference(&mut self, from: u64) -> Result<u64, Malformed> {
        let folded = self.take()?;
        Ok(from.wrapping_add(folded >> 1 ^ (folded & 1).wrapping_neg()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_and_differences_come_back(value in any::<u64>(), shift in 0..64u32, from in any::<u64>()) {
            let value = value >> shift;
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            put_difference(&mut bytes, value, from);
            let mut column = Column::new(bytes);
            prop_assert_eq!(column.take(), Ok(value));
            prop_assert_eq!(column.take_difference(from), Ok(value));
            prop_assert!(column.is_empty());
            prop_assert_eq!(column.take(), Err(Malformed));
        }
    }

    #[test]
    fn a_number_of_more_than_64_bits_is_malformed() {
        let largest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(Column::new(largest.to_vec()).take(), Ok(u64::MAX));
        let mut larger = largest;
        larger[9] = 2;
        assert_eq!(Column::new(larger.to_vec()).take(), Err(Malformed));
        assert_eq!(Column::new(vec![0x80; 12]).take(), Err(Malformed));
    }
}
