//! Address mapping: from an address to channel, rank, bank group, bank and row.
//!
//! Each bit of a place is the XOR of some bits of the line number, hashes included. A line's place is
//! therefore the XOR of the places of the 6-bit digits of its number, each digit taken alone. These are
//! precomputed.

use super::config::{DramConfig, HashRows};
use super::timing::DramTiming;

/// Address fields, in the order of [`NAMES`].
const NAMES: [&str; 6] = ["row", "rank", "bank", "bank_group", "column", "channel"];
const ROW: usize = 0;
const RANK: usize = 1;
const BANK: usize = 2;
const GROUP: usize = 3;
const COLUMN: usize = 4;
const CHANNEL: usize = 5;

/// A run of address bits of one field.
#[derive(Clone, Copy, Debug)]
struct Piece {
    part: usize,
    /// Lowest bit, in the line number.
    from: u32,
    mask: u64,
    /// Position in its field.
    to: u32,
}

/// Location of a line in a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// Row in the bank.
    pub row: u64,
    /// Bank in the channel, numbered over all ranks and groups.
    pub bank: u16,
    /// Rank and bank group in one number; command distances depend on it.
    pub group: u8,
}

/// Number of bits of [`Place::group`] for the bank group; the bits above are the rank.
pub(super) const GROUP_BITS: u32 = 3;

impl Place {
    pub fn rank(self) -> usize {
        usize::from(self.group >> GROUP_BITS)
    }
}

/// Bits per digit of a line number.
const DIGIT_BITS: u32 = 6;
const DIGITS: usize = 1 << DIGIT_BITS;

/// A digit's contribution to a place: the row, and the rest packed as in [`Share::place`].
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    row: u64,
    rest: u64,
}

impl Share {
    fn new(channel: usize, place: Place) -> Share {
        let rest = u64::from(place.bank) | u64::from(place.group) << 16 | (channel as u64) << 32;
        Share { row: place.row, rest }
    }

    #[inline]
    fn place(self) -> (usize, Place) {
        let Share { row, rest } = self;
        ((rest >> 32) as usize, Place { row, bank: rest as u16, group: (rest >> 16) as u8 })
    }
}

/// Address mapping; see the module.
#[derive(Clone, Debug)]
pub(super) struct Mapping {
    /// Indexed by the digit's position, lowest first, and by its value.
    shares: Vec<[Share; DIGITS]>,
}

impl Mapping {
    /// Parses the configuration's order of fields.
    pub fn new(config: &DramConfig, timing: &DramTiming) -> Result<Mapping, String> {
        let rule = Rule::new(config, timing)?;
        let share = |from: u32, digit: usize| {
            let (channel, place) = rule.place((digit as u64) << from);
            Share::new(channel, place)
        };
        let shares = (0..u64::BITS).step_by(DIGIT_BITS as usize);
        let shares = shares.map(|from| std::array::from_fn(|digit| share(from, digit))).collect();
        Ok(Mapping { shares })
    }

    /// Channel of a line, given by its number, and location in it.
    #[inline]
    pub fn place(&self, line: u64) -> (usize, Place) {
        let (mut rest, mut all) = (line, Share::default());
        for shares in &self.shares {
            let share = shares[rest as usize % DIGITS];
            all.row ^= share.row;
            all.rest ^= share.rest;
            rest >>= DIGIT_BITS;
            if rest == 0 {
                break;
            }
        }
        all.place()
    }
}

/// The mapping from all bits of a line number, which the digits' contributions are computed by.
#[derive(Clone, Debug)]
struct Rule {
    pieces: Vec<Piece>,
    bank_bits: u32,
    group_bits: u32,
    channel_mask: u64,
    /// Position of the line number's bits above the channel's.
    channel_above: u32,
    channel_bits: u32,
    bank_hash: bool,
    bank_hash_rows: HashRows,
    channel_hash: bool,
}

impl Rule {
    fn new(config: &DramConfig, timing: &DramTiming) -> Result<Rule, String> {
        let mut left = [0; 6];
        left[ROW] = timing.rows.trailing_zeros();
        left[RANK] = config.ranks.trailing_zeros();
        left[BANK] = timing.banks_per_group.trailing_zeros();
        left[GROUP] = timing.bank_groups.trailing_zeros();
        left[COLUMN] = timing.lines_per_row.trailing_zeros();
        left[CHANNEL] = config.channels.trailing_zeros();
        let bits = left;
        let words = words(&config.mapping)?;
        let explicit = |part: usize| words.iter().filter(|w| w.0 == part).filter_map(|w| w.1).sum::<u32>();
        let mut pieces = Vec::new();
        let mut from = 0;
        for &(part, count) in words.iter().rev() {
            // A field without a number of bits takes the bits that its other pieces leave.
            let count = count.unwrap_or(bits[part].saturating_sub(explicit(part)));
            if count > left[part] {
                return Err(mapping_error(&format!("{} has {} bits", NAMES[part], bits[part])));
            }
            let to = bits[part] - left[part];
            left[part] -= count;
            pieces.push(Piece { part, from, mask: (1 << count) - 1, to });
            from += count;
        }
        if let Some(part) = (0..NAMES.len()).find(|part| left[*part] > 0) {
            return Err(mapping_error(&format!(
                "{} of the {} bits of {} are missing",
                left[part], bits[part], NAMES[part]
            )));
        }
        if let Some(top) = pieces.last_mut()
            && top.part == ROW
        {
            // Memory beyond the devices' capacity gets additional rows.
            top.mask = u64::MAX >> top.from;
        }
        let channel_above = pieces.iter().filter(|piece| piece.part == CHANNEL).map(|piece| piece.from).max();
        Ok(Rule {
            channel_above: channel_above.unwrap_or(0) + bits[CHANNEL],
            pieces: pieces.into_iter().filter(|piece| piece.mask != 0).collect(),
            bank_bits: bits[BANK],
            group_bits: bits[GROUP],
            channel_mask: config.channels - 1,
            channel_bits: bits[CHANNEL],
            bank_hash: config.bank_hash,
            bank_hash_rows: config.bank_hash_rows,
            channel_hash: config.channel_hash,
        })
    }

    fn place(&self, line: u64) -> (usize, Place) {
        let mut parts = [0u64; 6];
        for piece in &self.pieces {
            parts[piece.part] |= (line >> piece.from & piece.mask) << piece.to;
        }
        let [row, rank, mut bank, mut group, _, mut channel] = parts;
        if self.bank_hash {
            let row = self.hashing(row);
            group ^= row & ((1 << self.group_bits) - 1);
            bank ^= row >> self.group_bits & ((1 << self.bank_bits) - 1);
        }
        if self.channel_hash && self.channel_bits > 0 {
            // XOR of all groups of `channel_bits` bits.
            let (mut above, mut width) = (line >> self.channel_above, self.channel_bits);
            while width < u64::BITS {
                above ^= above >> width;
                width *= 2;
            }
            channel ^= above & self.channel_mask;
        }
        let in_channel = (rank << self.group_bits | group) << self.bank_bits | bank;
        let place = Place { row, bank: in_channel as u16, group: (rank << GROUP_BITS | group) as u8 };
        (channel as usize, place)
    }

    /// The row bits that are input to the bank hash.
    fn hashing(&self, row: u64) -> u64 {
        let mut width = self.bank_bits + self.group_bits;
        if self.bank_hash_rows == HashRows::Low || width == 0 {
            return row;
        }
        let mut folded = row;
        while width < u64::BITS {
            folded ^= folded >> width;
            width *= 2;
        }
        folded
    }
}

fn mapping_error(problem: &str) -> String {
    format!(
        "mapping: {problem}; it must name {} from an address's highest bit to its lowest, each once or in \
         pieces such as column:2",
        NAMES.join(", ")
    )
}

/// The fields named in the text, each with its number of bits if given.
fn words(text: &str) -> Result<Vec<(usize, Option<u32>)>, String> {
    let mut found: Vec<(usize, Option<u32>)> = Vec::new();
    for word in text.split_whitespace() {
        let (name, count) = word.split_once(':').map_or((word, None), |(name, count)| (name, Some(count)));
        let part = NAMES.iter().position(|field| *field == name);
        let part = part.ok_or_else(|| mapping_error(&format!("\"{name}\" is not a field of an address")))?;
        let count = match count.map(str::parse::<u32>) {
            None => None,
            Some(Ok(count)) if (1..=32).contains(&count) => Some(count),
            Some(_) => {
                return Err(mapping_error(&format!("\"{word}\" must have a number of bits from 1 to 32")));
            }
        };
        if count.is_none() && found.contains(&(part, None)) {
            return Err(mapping_error(&format!("{name} is named twice")));
        }
        found.push((part, count));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(text: &str, hash: bool) -> Result<Mapping, String> {
        let config = DramConfig {
            mapping: text.to_owned(),
            channels: 4,
            bank_hash: hash,
            channel_hash: hash,
            ..DramConfig::default()
        };
        Mapping::new(&config, &config.timing())
    }

    #[test]
    fn fields_are_mapped_in_the_configured_order() {
        let mapping = mapping("row rank bank column:5 bank_group channel column:2", false).unwrap();
        let line = |row: u64, rank: u64, bank: u64, high: u64, group: u64, channel: u64, low: u64| {
            (((((row << 1 | rank) << 2 | bank) << 5 | high) << 2 | group) << 2 | channel) << 2 | low
        };
        let (channel, place) = mapping.place(line(77_777, 1, 2, 9, 3, 2, 1));
        assert_eq!((channel, place), (2, Place { row: 77_777, bank: 16 + 3 * 4 + 2, group: 8 + 3 }));
        assert_eq!(place.rank(), 1);
    }

    #[test]
    fn the_digit_tables_give_the_place_of_the_whole_number() {
        let mut random = doorbell_sim::rng::Rng::stream(1, "mapping");
        for text in
            ["row rank bank column:5 bank_group channel column:2", "channel bank bank_group rank row column"]
        {
            for (hash, rows) in [(false, HashRows::Low), (true, HashRows::Low), (true, HashRows::All)] {
                let config = DramConfig {
                    mapping: text.to_owned(),
                    channels: 8,
                    bank_hash: hash,
                    bank_hash_rows: rows,
                    channel_hash: hash,
                    ..DramConfig::default()
                };
                let (mapping, rule) = (
                    Mapping::new(&config, &config.timing()).unwrap(),
                    Rule::new(&config, &config.timing()).unwrap(),
                );
                for _ in 0..10_000 {
                    let line = random.next_u64() >> random.below(64);
                    assert_eq!(mapping.place(line), rule.place(line), "{text} {hash} {rows:?} {line:x}");
                }
            }
        }
    }

    #[test]
    fn hashing_permutes_lines() {
        for text in ["row rank bank column bank_group channel", "channel bank bank_group rank row column"] {
            for hash in [false, true] {
                let mapping = mapping(text, hash).unwrap();
                let mut rows = std::collections::BTreeMap::new();
                for line in 0..1u64 << 17 {
                    *rows.entry(mapping.place(line)).or_insert(0) += 1;
                }
                assert!(rows.values().all(|lines| *lines == 128), "{text}");
            }
        }
        let hashed = mapping("row rank bank bank_group column channel", true).unwrap();
        let banks: std::collections::BTreeSet<u16> =
            (0..16).map(|row| hashed.place(row << 14).1.bank).collect();
        assert_eq!(banks.len(), 16, "rows a bank's stride apart map to different banks");
    }

    /// The reference: XOR of the row's pieces that have as many bits as bank and bank group together.
    #[test]
    fn a_hash_of_all_the_rows_bits_is_the_xor_of_its_pieces() {
        let of = |rows: HashRows| {
            let config = DramConfig {
                mapping: "row rank column bank bank_group channel".to_owned(),
                channels: 4,
                bank_hash_rows: rows,
                channel_hash: false,
                ..DramConfig::default()
            };
            Mapping::new(&config, &config.timing()).unwrap()
        };
        let (low, all) = (of(HashRows::Low), of(HashRows::All));
        let mut differ = 0;
        for row in (0..65_536u64).step_by(37) {
            let pieces = row & 15 ^ row >> 4 & 15 ^ row >> 8 & 15 ^ row >> 12;
            let place = |mapping: &Mapping, row: u64| mapping.place(row << 14).1;
            let bank = |number: u64| ((number & 3) << 2 | number >> 2 & 3) as u16;
            assert_eq!(place(&all, row).bank, bank(pieces), "row {row}");
            assert_eq!(place(&low, row).bank, bank(row & 15), "row {row}");
            assert_eq!(place(&all, row).row, row);
            differ += u32::from(place(&all, row).bank != place(&low, row).bank);
        }
        assert!(differ > 1_500, "most rows beyond the sixteenth map to another bank: {differ}");
        // The lowest rows have only the lowest piece.
        assert!((0..16).all(|row| all.place(row << 14) == low.place(row << 14)));
    }

    #[test]
    fn an_invalid_order_is_rejected_with_the_reason() {
        for (text, problem) in [
            ("row rank bank column bank_group", "2 of the 2 bits of channel are missing"),
            ("row rank bank column bank_group channel planet", "\"planet\" is not a field"),
            ("row rank bank column:9 bank_group channel", "column has 7 bits"),
            ("row row rank bank column bank_group channel", "row is named twice"),
            ("row rank bank column:x bank_group channel", "must have a number of bits"),
            ("row rank bank column:3 bank_group channel", "4 of the 7 bits of column are missing"),
        ] {
            let error = mapping(text, true).unwrap_err();
            assert!(error.starts_with("mapping: ") && error.contains(problem), "{error}");
        }
    }
}
