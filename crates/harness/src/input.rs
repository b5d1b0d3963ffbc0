//! Choices derived from a fuzzer's bytes.

/// A source of choices. When its bytes are exhausted, every choice is the first one.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    bytes: &'a [u8],
}

impl<'a> Input<'a> {
    /// Creates a source from `bytes`.
    pub fn new(bytes: &'a [u8]) -> Input<'a> {
        Input { bytes }
    }

    /// Whether all bytes are used.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut taken = [0; N];
        let count = N.min(self.bytes.len());
        let (head, rest) = self.bytes.split_at(count);
        taken[..count].copy_from_slice(head);
        self.bytes = rest;
        taken
    }

    /// An arbitrary byte.
    pub fn u8(&mut self) -> u8 {
        self.take::<1>()[0]
    }

    /// Arbitrary 16 bits.
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    /// Arbitrary 32 bits.
    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    /// Arbitrary 64 bits.
    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    /// A Boolean.
    pub fn flag(&mut self) -> bool {
        self.u8() & 1 != 0
    }

    /// A number below `bound`, which must not be zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        let value = if bound <= 1 << 8 { self.u8().into() } else { self.u64() };
        value % bound
    }

    /// One element of a list.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// A typical, extreme or arbitrary value.
    pub fn value(&mut self) -> u64 {
        match self.u8() % 8 {
            0 => 0,
            1 => u64::MAX,
            2 => 1 << (self.u8() % 64),
            3 => !(1 << (self.u8() % 64)),
            4 | 5 => self.u8().into(),
            6 => self.u32().into(),
            _ => self.u64(),
        }
    }
}
