//! Set index of a sliced last-level cache: the lowest address bits select the set in a slice, and a hash of
//! all bits selects the slice.
//!
//! The hash is Intel's. For a power-of-two number of slices, each bit of the slice number is the parity of
//! some bits of the physical address: Maurice et al., "Reverse Engineering Intel Last-Level Cache Complex
//! Addressing Using Performance Counters" (RAID 2015), for 2, 4 and 8 slices. The fourth function is that of
//! Skylake servers with 16 slices (McCalpin, "Mapping Addresses to L3/CHA Slices in Intel Processors", TACC
//! TR-2021-03). The lines of an aligned block of a way's size then all map to different sets.
//!
//! For other numbers of slices, a sequence of slices repeats with permuted elements: element numbers are
//! XORed with parities of the upper bits. The sequences for 18, 20 and 22 slices are McCalpin's, measured on
//! Skylake servers (`slices_18.txt` and so on, a digit of that base per cache line;
//! github.com/jdmccalpin/Intel_Address_Hash, folder Results). No sequence for ten slices is published; here
//! it is that for 20 with pairs of slices merged. With a sequence, neighbouring lines of the same index share
//! a slice about as often as by chance. Some sets then get none of a block's lines and some three, so a
//! region fills a few of many ways unevenly.
//!
//! The number of slices changes which lines conflict, and so does the placement of pages. `scatter` permutes
//! the pages, as on a machine that has run for a long time.

use doorbell_sim::memory::LINE_BYTES;
use doorbell_sim::ports::PhysAddr;

/// Physical address bits whose parity is a bit of the slice number.
const BITS: [u64; 4] = [0x1b_5f57_5440, 0x2e_b5fa_a880, 0x3c_ccc9_3100, 0x11_aeeb_1200];

/// A repeating sequence of slices with permuted elements.
struct Sequence {
    slices: u32,
    /// Slices of the lines from address 0 on, as digits.
    digits: &'static str,
    base: u32,
    /// Physical address bits whose parity is XORed to the element number, one mask per bit.
    exchanges: &'static [u64],
}

/// The published sequences.
const SEQUENCES: [Sequence; 4] = [
    Sequence { slices: 10, digits: SEQUENCE_20, base: 20, exchanges: &EXCHANGES_20 },
    Sequence { slices: 18, digits: SEQUENCE_18, base: 18, exchanges: &EXCHANGES_18 },
    Sequence { slices: 20, digits: SEQUENCE_20, base: 20, exchanges: &EXCHANGES_20 },
    Sequence { slices: 22, digits: SEQUENCE_22, base: 22, exchanges: &EXCHANGES_22 },
];
const SEQUENCE_18: &str = include_str!("slices_18.txt");
const SEQUENCE_20: &str = include_str!("slices_20.txt");
const SEQUENCE_22: &str = include_str!("slices_22.txt");
const EXCHANGES_18: [u64; 12] = [
    0x04_c8fc_0000,
    0x1d_0538_0000,
    0x26_2b8c_0000,
    0x04_1f50_0000,
    0x2c_6d78_0000,
    0x2c_d514_0000,
    0x21_d80c_0000,
    0x3b_3f48_0000,
    0x3a_0350_0000,
    0x30_3328_0000,
    0,
    0x14_69b4_0000,
];
const EXCHANGES_20: [u64; 8] = [
    0x3e_cbad_4000,
    0x03_5cf7_c000,
    0x38_7242_c000,
    0x0e_2f28_c000,
    0x1c_5e51_8000,
    0x38_bca3_0000,
    0x0f_b2eb_4000,
    0x1f_65d6_8000,
];
const EXCHANGES_22: [u64; 14] = [
    0x38_80c0_0000,
    0x34_33d0_0000,
    0x0f_1d60_0000,
    0x04_1f50_0000,
    0x10_2540_0000,
    0x2c_d510_0000,
    0x1d_9030_0000,
    0x12_09a0_0000,
    0x3a_0350_0000,
    0x0c_7b10_0000,
    0,
    0x14_69b0_0000,
    0,
    0x3c_4830_0000,
];

/// Supported numbers of slices.
pub(crate) const SLICES: [u32; 9] = [1, 2, 4, 8, 10, 16, 18, 20, 22];

/// Lines per page.
const PAGE_LINES: u64 = 64;
/// Bits of a page number: 256 GiB, the range of the measured sequences.
const PAGE_BITS: u32 = 26;

/// Slice and set of lines; see the module.
#[derive(Clone, Debug)]
pub(crate) struct Slices {
    hash: Hash,
    /// Whether pages are scattered.
    scatter: bool,
    /// Line number of the start of RAM.
    base: u64,
    /// Sets per slice, as a power of two.
    set_bits: u32,
}

/// Hash from line number to slice.
#[derive(Clone, Debug)]
enum Hash {
    /// A parity mask per bit.
    Parities(Vec<u64>),
    /// A sequence, and the parity masks that permute its elements.
    Sequence(Vec<u8>, Vec<u64>),
}

/// Parity of `number` under each mask, a bit per mask.
#[inline]
fn parities(number: u64, functions: &[u64]) -> u32 {
    functions.iter().rev().fold(0, |bits, function| bits << 1 | (number & function).count_ones() & 1)
}

impl Hash {
    fn of(slices: u32) -> Hash {
        let lines = |bits: &[u64]| bits.iter().map(|bits| bits / LINE_BYTES).collect();
        if slices.is_power_of_two() {
            return Hash::Parities(lines(&BITS[..slices.ilog2() as usize]));
        }
        let found = SEQUENCES.iter().find(|sequence| sequence.slices == slices);
        let Sequence { digits, base, exchanges, .. } = found.expect("the caller passes one of SLICES");
        let digit = |digit: char| digit.to_digit(*base).expect("the file has digits of this base");
        // Two of 20 slices form one of ten.
        let slice = |digit: u32| (digit * slices / base) as u8;
        let sequence: Vec<u8> = digits.lines().flat_map(str::chars).map(digit).map(slice).collect();
        assert!(sequence.len() == 1 << exchanges.len());
        Hash::Sequence(sequence, lines(exchanges))
    }

    #[inline]
    fn slice(&self, number: u64) -> u32 {
        match self {
            Hash::Parities(functions) => parities(number, functions),
            Hash::Sequence(sequence, exchanges) => {
                let element = number as usize ^ parities(number, exchanges) as usize;
                u32::from(sequence[element & (sequence.len() - 1)])
            }
        }
    }
}

/// Maps each page to a different page: two rounds of a multiplication by an odd number and an xor-shift, both
/// invertible. The multipliers are those of MurmurHash3's finaliser.
#[inline]
fn scattered(page: u64) -> u64 {
    let mask = (1 << PAGE_BITS) - 1;
    let mix = |page: u64, by: u64| {
        let page = page.wrapping_mul(by) & mask;
        page ^ page >> (PAGE_BITS / 2)
    };
    mix(mix(page & mask, 0x85eb_ca6b), 0xc2b2_ae35)
}

impl Slices {
    /// `slices` slices (one of [`SLICES`]) with `sets` sets in all, a power of two per slice. RAM starts at
    /// `base`.
    pub fn new(slices: u32, scatter: bool, sets: u32, base: PhysAddr) -> Slices {
        assert!(SLICES.contains(&slices) && sets.is_multiple_of(slices));
        let of_one = sets / slices;
        assert!(of_one.is_power_of_two());
        Slices { hash: Hash::of(slices), scatter, base: base.0 / LINE_BYTES, set_bits: of_one.ilog2() }
    }

    /// Input of the hash for a line of RAM.
    #[inline]
    fn number(&self, line: u32) -> u64 {
        let number = self.base + u64::from(line);
        match self.scatter {
            true => scattered(number / PAGE_LINES) * PAGE_LINES + number % PAGE_LINES,
            false => number,
        }
    }

    /// Slice of a line of RAM.
    #[inline]
    pub fn slice(&self, line: u32) -> u32 {
        self.hash.slice(self.number(line))
    }

    /// Set of a line of RAM, numbered over all slices.
    #[inline]
    pub fn set(&self, line: u32) -> u32 {
        let number = self.number(line);
        self.hash.slice(number) << self.set_bits | (number as u32) & ((1 << self.set_bits) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_the_parity_of_the_published_bits_of_the_address() {
        // The bits as Maurice et al. list them, up to the RAM size used here.
        let listed: [&[u32]; 3] = [
            &[6, 10, 12, 14, 16, 17, 18, 20, 22, 24, 25, 26, 27, 28, 30, 32, 33, 35, 36],
            &[7, 11, 13, 15, 17, 19, 20, 21, 22, 23, 24, 26, 28, 29, 31, 33, 34, 35, 37],
            &[8, 12, 13, 16, 19, 22, 23, 26, 27, 30, 31, 34, 35, 36, 37],
        ];
        let base = 0x8000_0000;
        let slices = Slices::new(8, false, 16_384, PhysAddr(base));
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
    fn an_aligned_block_of_a_way_s_size_fills_each_set_once() {
        for (slices, sets) in [(2, 4096), (4, 8192), (8, 16_384), (16, 32_768)] {
            let hash = Slices::new(slices, false, sets, PhysAddr(0x8000_0000));
            for block in [0, 1, 5, 77] {
                let mut filled = vec![false; sets as usize];
                (0..sets).for_each(|line| filled[hash.set(block * sets + line) as usize] = true);
                assert!(filled.iter().all(|filled| *filled), "{slices} slices, block {block}");
            }
        }
    }

    #[test]
    fn eighteen_slices_follow_the_measured_sequence_and_fill_a_block_unevenly() {
        let slices = Slices::new(18, false, 18 * 2048, PhysAddr(0));
        // The first lines of the measured sequence, and those from 256 KiB on, where element 1 is swapped
        // with 0, 3 with 2 and so on (bit 18 is in the masks of bits 0, 2, 5, 6 and 11).
        let slice = |line: u32| slices.set(line) >> 11;
        let first: Vec<u32> = (0..32).map(slice).collect();
        assert_eq!(first[..12], [0, 11, 2, 9, 7, 12, 5, 14, 1, 10, 3, 8]);
        assert_eq!(first[26..32], [10, 17, 7, 12, 17, 14]);
        let moved = |line: u32| slice(4096 + line);
        let bits = |all: &[u64; 12]| all.iter().enumerate().map(|(n, m)| (m >> 18 & 1) << n).sum::<u64>();
        let exchange = bits(&EXCHANGES_18) as u32;
        assert!(exchange != 0 && (0..4096).all(|line| moved(line) == slice(line ^ exchange)));
        // 4 MiB are 7/9 of two ways, with 11 index bits: with a random hash, 5.6 % of the lines would exceed
        // two per set.
        let mut taken = vec![0u32; 18 * 2048];
        (0..65_536).for_each(|line| taken[slices.set(line) as usize] += 1);
        let beyond: u32 = taken.iter().map(|lines| lines.saturating_sub(2)).sum();
        assert!(beyond > 65_536 / 50, "{beyond} lines beyond two");
    }

    #[test]
    fn hashes_of_10_20_and_22_slices_match_the_measured_sequences() {
        let first = |count: u32| {
            let slices = Slices::new(count, false, count * 2048, PhysAddr(0));
            [0, 1, 2, 16, 17, 22, 23].map(|line| slices.slice(line))
        };
        assert_eq!(first(20), [0, 11, 2, 1, 10, 4, 15]);
        assert_eq!(first(10), first(20).map(|slice| slice / 2));
        assert_eq!(first(22), [0, 1, 2, 17, 16, 5, 14]);
        for (count, least, most) in [(10, 3072, 3328), (20, 1536, 1664), (22, 1024, 1544)] {
            let slices = Slices::new(count, false, count * 2048, PhysAddr(0x8000_0000));
            let mut lines = vec![0; count as usize];
            (0..32_768).for_each(|line| lines[slices.slice(line) as usize] += 1);
            assert!(lines.iter().all(|lines| (least..=most).contains(lines)), "{count}: {lines:?}");
        }
    }

    #[test]
    fn scattering_permutes_pages_and_keeps_their_lines_together() {
        let mut used = vec![false; 1 << PAGE_BITS];
        (0..1 << PAGE_BITS).for_each(|page| used[scattered(page) as usize] = true);
        assert!(used.iter().all(|used| *used));
        // Without slices, a page's lines still fill consecutive sets.
        let slices = Slices::new(1, true, 4096, PhysAddr(0x8000_0000));
        for page in 0..1000 {
            let first = slices.set(page * 64);
            assert!(
                first.is_multiple_of(64) && (0..64).all(|line| slices.set(page * 64 + line) == first + line)
            );
        }
    }
}
