//! What a line of memory holds, so that misses can be split: code, network data by part, everything else.
//!
//! Network data are known by the last device access to the line, which is kept for each line of RAM; code is known by
//! being fetched. A line keeps its class until a device uses it for something else.
//!
//! *Network data* are fewer, since buffers are used again for other things. A line becomes network data when a device writes or reads
//! it. One of a frame that was received stops being it when a core stores to it: its contents are the core's then, until a device uses the
//! line again. One that a device read, as it sent it, stays: cores fill it again for it to be read, and where they use it for anything else
//! meanwhile, that is not told apart. Descriptors stay, as long as there is a ring.

use doorbell_sim::memory::DmaAccess;
use doorbell_sim::ports::DmaKind;
use serde::{Deserialize, Serialize};

use crate::paged::Paged;

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum DataClass {
    /// Data that no device has touched.
    #[default]
    Other,
    /// Instructions.
    Code,
    /// The first bytes of a frame.
    Header,
    /// The rest of a frame.
    Payload,
    /// Receive descriptors.
    RxDescriptor,
    /// Transmit descriptors.
    TxDescriptor,
}

impl DataClass {
    /// How many classes there are.
    pub const COUNT: usize = DataClass::TxDescriptor as usize + 1;
    /// All, in the order of listings.
    pub const ALL: [DataClass; DataClass::COUNT] = [
        DataClass::Other,
        DataClass::Code,
        DataClass::Header,
        DataClass::Payload,
        DataClass::RxDescriptor,
        DataClass::TxDescriptor,
    ];

    /// The class of what a device accesses; `header_bytes` says how much of a frame is its header.
    pub fn of(access: &DmaAccess, header_bytes: u32) -> DataClass {
        match access.kind {
            DmaKind::RxDescriptorFetch | DmaKind::RxDescriptorWriteback => DataClass::RxDescriptor,
            DmaKind::TxDescriptorFetch | DmaKind::TxDescriptorWriteback => DataClass::TxDescriptor,
            DmaKind::RxData | DmaKind::TxData if access.offset < header_bytes => DataClass::Header,
            DmaKind::RxData | DmaKind::TxData => DataClass::Payload,
        }
    }

    /// Whether a device put it there or fetches it.
    pub const fn is_network(self) -> bool {
        self as u8 >= DataClass::Header as u8
    }

    pub(crate) const fn from_bits(bits: u8) -> DataClass {
        match bits {
            1 => DataClass::Code,
            2 => DataClass::Header,
            3 => DataClass::Payload,
            4 => DataClass::RxDescriptor,
            5 => DataClass::TxDescriptor,
            _ => DataClass::Other,
        }
    }
}

/// What a device does to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// The class of each line of RAM and whether it is network data, four bits a line: a class, and for headers and payload, whether a device
/// has read it since it wrote it, or else, whether a core has stored to it since.
#[derive(Clone, Debug)]
pub(crate) struct LineClasses {
    pairs: Paged<u8>,
}

/// A line of a frame that a device read last.
const READ: u8 = 8;
/// A line of a frame that a core has overwritten since a device wrote it.
const OVERWRITTEN: u8 = 4;
/// Headers and payload, with nothing else known of them.
const HEADER: u8 = DataClass::Header as u8;
const PAYLOAD: u8 = DataClass::Payload as u8;

/// What a snapshot keeps of them: runs of equal pairs of lines.
pub(crate) type ClassRuns = Vec<(u32, u8)>;

impl LineClasses {
    pub fn new(lines: u32) -> LineClasses {
        LineClasses { pairs: Paged::new((lines as usize).div_ceil(2)) }
    }

    #[inline]
    fn bits(&self, line: u32) -> u8 {
        self.pairs.get(line as usize / 2) >> (4 * (line & 1)) & 0xf
    }

    #[inline]
    pub fn get(&self, line: u32) -> DataClass {
        match self.bits(line) & 7 {
            bits @ 6.. => DataClass::from_bits(bits & !OVERWRITTEN),
            bits => DataClass::from_bits(bits),
        }
    }

    /// A device uses a line.
    #[inline]
    pub fn set(&mut self, line: u32, class: DataClass, access: Access) {
        let (pair, shift) = (self.pairs.at(line as usize / 2), 4 * (line & 1));
        let read = access == Access::Read && matches!(class, DataClass::Header | DataClass::Payload);
        let bits = class as u8 | if read { READ } else { 0 };
        *pair = *pair & !(0xf << shift) | bits << shift;
    }

    /// A core stores to a line.
    #[inline]
    pub fn stored(&mut self, line: u32) {
        if let HEADER | PAYLOAD = self.bits(line) {
            *self.pairs.at(line as usize / 2) |= OVERWRITTEN << (4 * (line & 1));
        }
    }

    /// Whether a line is network data; see the module.
    #[inline]
    pub fn is_network_data(&self, line: u32) -> bool {
        !matches!(self.bits(line), 0 | 6 | 7)
    }

    pub fn save(&self) -> ClassRuns {
        let mut runs = ClassRuns::new();
        let mut push = |len: usize, pair: u8| match runs.last_mut() {
            Some((count, last)) if *last == pair => *count += len as u32,
            _ => runs.push((len as u32, pair)),
        };
        for (len, piece) in self.pairs.pieces() {
            let Some(mut left) = piece else {
                push(len, 0);
                continue;
            };
            while let Some(&pair) = left.first() {
                let len = leading(left, pair);
                push(len, pair);
                left = &left[len..];
            }
        }
        runs
    }

    /// Says whether the runs are as many lines as there are, each with a class that exists.
    pub fn check(&self, runs: &ClassRuns) -> Result<(), String> {
        let pairs: u64 = runs.iter().map(|run| u64::from(run.0)).sum();
        if pairs != self.pairs.len() as u64 {
            return Err(format!("classes of {pairs} pairs of lines for {}", self.pairs.len()));
        }
        let known = |bits: u8| matches!(bits, 0 | 2..8) || matches!(bits ^ READ, HEADER | PAYLOAD);
        match runs.iter().find(|run| !known(run.1 & 0xf) || !known(run.1 >> 4)) {
            Some(run) => Err(format!("a pair of lines of the classes {:#x}", run.1)),
            None => Ok(()),
        }
    }

    pub fn restore(&mut self, runs: &ClassRuns) {
        self.pairs.clear();
        let mut first = 0;
        for (count, pair) in runs {
            self.pairs.fill(first, *count as usize, *pair);
            first += *count as usize;
        }
    }
}

/// How many pairs at the front are this one. Most of RAM is of one class, so whole blocks are compared first.
fn leading(pairs: &[u8], pair: u8) -> usize {
    const BLOCK: usize = 256;
    let blocks = pairs.chunks_exact(BLOCK).take_while(|block| **block == [pair; BLOCK]).count() * BLOCK;
    blocks + pairs[blocks..].iter().take_while(|other| **other == pair).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_of_a_frame_are_its_header() {
        let access = |kind, offset| DmaAccess::plain(0, kind, offset);
        for (kind, offset, class) in [
            (DmaKind::RxData, 0, DataClass::Header),
            (DmaKind::RxData, 63, DataClass::Header),
            (DmaKind::RxData, 64, DataClass::Payload),
            (DmaKind::TxData, 1400, DataClass::Payload),
            (DmaKind::RxDescriptorFetch, 0, DataClass::RxDescriptor),
            (DmaKind::TxDescriptorWriteback, 0, DataClass::TxDescriptor),
        ] {
            assert_eq!(DataClass::of(&access(kind, offset), 64), class);
        }
    }

    fn all(classes: &LineClasses) -> Vec<u8> {
        (0..classes.pairs.len()).map(|pair| classes.pairs.get(pair)).collect()
    }

    #[test]
    fn runs_end_where_the_class_changes_be_it_in_a_block_or_at_its_edge() {
        for at in [0, 1, 510, 511, 512, 513, 1023, 1024, 3999, 8191, 8192, 19_999] {
            let mut classes = LineClasses::new(20_000);
            classes.set(at, DataClass::Payload, Access::Write);
            let expected: ClassRuns =
                all(&classes).chunk_by(|a, b| a == b).map(|run| (run.len() as u32, run[0])).collect();
            assert_eq!(classes.save(), expected, "line {at}");
        }
    }

    #[test]
    fn each_line_keeps_its_own_class_across_a_save() {
        let mut classes = LineClasses::new(9);
        classes.set(3, DataClass::Header, Access::Write);
        classes.set(4, DataClass::TxDescriptor, Access::Read);
        classes.set(3, DataClass::Payload, Access::Write);
        let runs = classes.save();
        let mut restored = LineClasses::new(9);
        restored.check(&runs).unwrap();
        restored.restore(&runs);
        let seen: Vec<u8> = (0..9).map(|line| restored.get(line) as u8).collect();
        assert_eq!(seen, [0, 0, 0, 3, 5, 0, 0, 0, 0]);
        assert!(LineClasses::new(20).check(&runs).is_err());
        assert!(restored.check(&vec![(5, 0x01)]).is_err(), "code is not a device's");
        assert!(restored.check(&vec![(5, 0xc0)]).is_err(), "no ring is overwritten");
    }

    #[test]
    fn what_was_received_is_network_data_until_a_core_stores_to_it_and_what_is_sent_stays() {
        let mut classes = LineClasses::new(8);
        assert!(!classes.is_network_data(0));
        for (line, class) in [(2, DataClass::Header), (3, DataClass::Payload)] {
            classes.set(line, class, Access::Write);
            assert!(classes.is_network_data(line));
            classes.stored(line);
            classes.stored(line);
            assert_eq!((classes.is_network_data(line), classes.get(line)), (false, class));
            classes.set(line, class, Access::Read);
            classes.stored(line);
            assert_eq!((classes.is_network_data(line), classes.get(line)), (true, class));
            classes.set(line, class, Access::Write);
            classes.stored(line);
            assert!(!classes.is_network_data(line));
        }
        for (line, class) in [(4, DataClass::RxDescriptor), (5, DataClass::TxDescriptor)] {
            for access in [Access::Read, Access::Write] {
                classes.set(line, class, access);
                classes.stored(line);
                assert_eq!((classes.is_network_data(line), classes.get(line)), (true, class));
            }
        }
        let mut restored = LineClasses::new(8);
        restored.check(&classes.save()).unwrap();
        restored.restore(&classes.save());
        assert_eq!(all(&restored), all(&classes));
    }
}
