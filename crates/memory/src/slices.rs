//! How a last-level cache in slices chooses a line's set: the lowest bits of the address choose it within a slice, and a hash of
//! all bits chooses the slice.
//!
//! The hash is Intel's, as it was found out: bit by bit the parity of some of the physical address's bits. Maurice et al., "Reverse
//! Engineering Intel Last-Level Cache Complex Addressing Using Performance Counters" (RAID 2015), for 2, 4 and 8 slices; the
//! fourth function is that of Skylake servers with 16 slices (McCalpin, "Mapping Addresses to L3/CHA Slices in Intel Processors",
//! TACC TR-2021-03). Numbers of slices that are no power of two have longer sequences and are not here. What it changes is which
//! lines compete: buffers at a regular distance no longer fill all sets alike, so that what does not fit is not found out by
//! all sets at once.

use doorbell_sim::memory::LINE_BYTES;
use doorbell_sim::ports::PhysAddr;

/// Bits of the physical address whose parity is a bit of the slice's number.
const BITS: [u64; 4] = [0x1b_5f57_5440, 0x2e_b5fa_a880, 0x3c_ccc9_3100, 0x11_aeeb_1200];

/// The most slices.
pub(crate) const SLICES_MAX: u32 = 1 << BITS.len();

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Slices {
    /// The functions, of the number of a line of the address space.
    functions: Vec<u64>,
    /// The number of RAM's first line.
    base: u64,
    /// Sets of a slice, as a shift.
    set_bits: u32,
}

impl Slices {
    /// So many slices, a power of two up to [`SLICES_MAX`], that have so many sets together, of RAM from `base` on.
    pub fn new(slices: u32, sets: u32, base: PhysAddr) -> Slices {
        assert!(slices.is_power_of_two() && (2..=SLICES_MAX.min(sets)).contains(&slices));
        let functions = &BITS[..slices.ilog2() as usize];
        Slices {
            functions: functions.iter().map(|bits| bits / LINE_BYTES).collect(),
            base: base.0 / LINE_BYTES,
            set_bits: sets.ilog2() - slices.ilog2(),
        }
    }

    /// The set of a line of RAM, counted over all slices.
    #[inline]
    pub fn set(&self, line: u32) -> u32 {
        let number = self.base + u64::from(line);
        let parity = |function: &u64| (number & function).count_ones() & 1;
        let slice = self.functions.iter().rev().fold(0, |slice, function| slice << 1 | parity(function));
        slice << self.set_bits | line & ((1 << self.set_bits) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_the_parity_of_the_published_bits_of_the_address() {
        // The bits as Maurice et al. list them, up to where RAM ends here.
        let listed: [&[u32]; 3] = [
            &[6, 10, 12, 14, 16, 17, 18, 20, 22, 24, 25, 26, 27, 28, 30, 32, 33, 35, 36],
            &[7, 11, 13, 15, 17, 19, 20, 21, 22, 23, 24, 26, 28, 29, 31, 33, 34, 35, 37],
            &[8, 12, 13, 16, 19, 22, 23, 26, 27, 30, 31, 34, 35, 36, 37],
        ];
        let base = 0x8000_0000;
        let slices = Slices::new(8, 16_384, PhysAddr(base));
        let mut rng = doorbell_sim::rng::Rng::stream(1, "slices");
        for _ in 0..10_000 {
            let line = rng.below(1 << 29) as u32;
            let address = base + u64::from(line) * 64;
            let odd = |bits: &[u32]| bits.iter().filter(|bit| address >> **bit & 1 == 1).count() as u32 & 1;
            let expected = odd(listed[0]) | odd(listed[1]) << 1 | odd(listed[2]) << 2;
            assert_eq!(slices.set(line), expected << 11 | line & 2047, "line {line:#x}");
        }
    }

    #[test]
    fn every_aligned_block_as_long_as_a_way_fills_each_set_once() {
        for (slices, sets) in [(2, 4096), (4, 8192), (8, 16_384), (16, 32_768)] {
            let hash = Slices::new(slices, sets, PhysAddr(0x8000_0000));
            for block in [0, 1, 5, 77] {
                let mut seen = vec![false; sets as usize];
                (0..sets).for_each(|line| seen[hash.set(block * sets + line) as usize] = true);
                assert!(seen.iter().all(|seen| *seen), "{slices} slices, block {block}");
            }
        }
    }
}
