//! A descriptor ring as its registers describe it (manual §3.2.6 and §3.4). A ring whose head or
//! tail lies outside its length, or whose length is zero, does not move: hardware would run off
//! into other memory, the model stands still and counts.

use crate::dma::DESCRIPTOR_BYTES;
use crate::regs::{Reg, Regs};

/// Which ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Receive,
    Transmit,
}

/// A ring that can be worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ring {
    pub base: u64,
    /// Number of descriptors, never zero.
    pub count: u32,
    pub head: u32,
    pub tail: u32,
}

impl Ring {
    /// The ring in the registers, or none if it makes no sense.
    pub fn read(regs: &Regs, direction: Direction) -> Option<Ring> {
        let [low, high, length, head, tail] = match direction {
            Direction::Receive => [Reg::Rdbal, Reg::Rdbah, Reg::Rdlen, Reg::Rdh, Reg::Rdt],
            Direction::Transmit => [Reg::Tdbal, Reg::Tdbah, Reg::Tdlen, Reg::Tdh, Reg::Tdt],
        };
        let base = u64::from(regs.get(high)) << 32 | u64::from(regs.get(low));
        let count = regs.get(length) / DESCRIPTOR_BYTES;
        let (head, tail) = (regs.get(head), regs.get(tail));
        (head < count && tail < count).then_some(Ring { base, count, head, tail })
    }

    /// Steps from index `from` forward to index `to`.
    pub fn distance(&self, from: u32, to: u32) -> u32 {
        if to >= from { to - from } else { to + self.count - from }
    }

    /// The index `steps` (at most one round) after `index`.
    pub fn after(&self, index: u32, steps: u32) -> u32 {
        let sum = index + steps;
        if sum >= self.count { sum - self.count } else { sum }
    }

    /// Where the descriptor at `index` lies. Addresses wrap like the bus's 64 bits.
    pub fn address(&self, index: u32) -> u64 {
        self.base.wrapping_add(u64::from(index) * u64::from(DESCRIPTOR_BYTES))
    }

    /// Whether software has given away all but the one descriptor that it must keep: (tail + 1) mod N = head.
    pub fn is_full(&self) -> bool {
        self.after(self.tail, 1) == self.head
    }
}

/// Descriptors in a cache line of 64 bytes: the least that a fetch ahead of need asks for.
pub(crate) const LINE_DESCRIPTORS: u32 = 4;

/// The three thresholds of RXDCTL or TXDCTL in descriptors (§13.4.43, §13.4.46). A cache line is
/// taken as 64 bytes, four descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Thresholds {
    pub prefetch: u32,
    pub host: u32,
    pub write_back: u32,
}

impl Thresholds {
    pub fn read(value: u32) -> Thresholds {
        let unit = if value & crate::bits::dctl::GRAN != 0 { 1 } else { 4 };
        let field = |shift: u32| (value >> shift & 0x3f) * unit;
        Thresholds { prefetch: field(0), host: field(8), write_back: field(16) }
    }

    /// Whether to fetch, with `cached` descriptors unprocessed on the chip and `available` in memory (§3.2.5, §3.4.1):
    /// always when the chip has none, otherwise when it has few and memory has enough.
    pub fn fetch(&self, cached: u32, available: u32) -> bool {
        available > 0 && (cached == 0 || cached < self.prefetch && available >= self.host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(length: u32, head: u32, tail: u32) -> Option<Ring> {
        let mut regs = Regs::new();
        for (reg, value) in
            [(Reg::Tdbah, 1), (Reg::Tdbal, 0x1000), (Reg::Tdlen, length), (Reg::Tdh, head), (Reg::Tdt, tail)]
        {
            regs.set(reg, value);
        }
        Ring::read(&regs, Direction::Transmit)
    }

    #[test]
    fn a_ring_that_makes_no_sense_is_none() {
        assert_eq!(ring(0, 0, 0), None);
        assert_eq!(ring(128, 8, 0), None);
        assert_eq!(ring(128, 0, 8), None);
        assert_eq!(ring(128, 7, 0).unwrap().base, 0x1_0000_1000);
    }

    #[test]
    fn distances_and_steps_go_round() {
        let ring = ring(128, 6, 5).unwrap();
        assert_eq!((ring.distance(6, 5), ring.distance(2, 2), ring.after(6, 3)), (7, 0, 1));
        assert_eq!(ring.address(3), 0x1_0000_1030);
        assert!(ring.is_full());
    }

    #[test]
    fn thresholds_count_lines_or_descriptors() {
        assert_eq!(Thresholds::read(0x0001_0000).write_back, 4);
        let thresholds = Thresholds::read(0x0103_0408);
        assert_eq!((thresholds.prefetch, thresholds.host, thresholds.write_back), (8, 4, 3));
        assert!(thresholds.fetch(0, 1) && thresholds.fetch(7, 4));
        assert!(!thresholds.fetch(7, 3) && !thresholds.fetch(8, 9) && !thresholds.fetch(0, 0));
    }
}
