//! What a line of memory holds, so that misses can be split: code, network data by part, everything else.
//!
//! Network data are known by the last device access to the line, which is kept for each line of RAM; code is known by
//! being fetched. A line keeps its class until a device uses it for something else.

use doorbell_sim::memory::DmaAccess;
use doorbell_sim::ports::DmaKind;
use serde::{Deserialize, Serialize};

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

/// The class of each line of RAM, four bits a line.
#[derive(Clone, Debug)]
pub(crate) struct LineClasses {
    pairs: Vec<u8>,
}

/// What a snapshot keeps of them: runs of equal pairs of lines.
pub(crate) type ClassRuns = Vec<(u32, u8)>;

impl LineClasses {
    pub fn new(lines: u32) -> LineClasses {
        // Pages that no device has touched stay unallocated.
        LineClasses { pairs: vec![0; (lines as usize).div_ceil(2)] }
    }

    #[inline]
    pub fn get(&self, line: u32) -> DataClass {
        DataClass::from_bits(self.pairs[line as usize / 2] >> (4 * (line & 1)) & 0xf)
    }

    #[inline]
    pub fn set(&mut self, line: u32, class: DataClass) {
        let (pair, shift) = (&mut self.pairs[line as usize / 2], 4 * (line & 1));
        *pair = *pair & !(0xf << shift) | (class as u8) << shift;
    }

    pub fn save(&self) -> ClassRuns {
        let mut runs = ClassRuns::new();
        let mut left = self.pairs.as_slice();
        while let Some(&pair) = left.first() {
            let len = leading(left, pair);
            runs.push((len as u32, pair));
            left = &left[len..];
        }
        runs
    }

    /// Says whether the runs are as many lines as there are, each with a class that exists.
    pub fn check(&self, runs: &ClassRuns) -> Result<(), String> {
        let pairs: u64 = runs.iter().map(|run| u64::from(run.0)).sum();
        if pairs != self.pairs.len() as u64 {
            return Err(format!("classes of {pairs} pairs of lines for {}", self.pairs.len()));
        }
        let known = |bits: u8| bits == 0 || (2..DataClass::COUNT as u8).contains(&bits);
        match runs.iter().find(|run| !known(run.1 & 0xf) || !known(run.1 >> 4)) {
            Some(run) => Err(format!("a pair of lines of the classes {:#x}", run.1)),
            None => Ok(()),
        }
    }

    pub fn restore(&mut self, runs: &ClassRuns) {
        let mut pairs = Vec::with_capacity(self.pairs.len());
        for (count, pair) in runs {
            pairs.resize(pairs.len() + *count as usize, *pair);
        }
        self.pairs = pairs;
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
        let access = |kind, offset| DmaAccess { device: 0, kind, offset };
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

    #[test]
    fn runs_end_where_the_class_changes_be_it_in_a_block_or_at_its_edge() {
        for at in [0, 1, 510, 511, 512, 513, 1023, 1024, 3999] {
            let mut classes = LineClasses::new(4000);
            classes.set(at, DataClass::Payload);
            let expected: ClassRuns =
                classes.pairs.chunk_by(|a, b| a == b).map(|run| (run.len() as u32, run[0])).collect();
            assert_eq!(classes.save(), expected, "line {at}");
        }
    }

    #[test]
    fn each_line_keeps_its_own_class_across_a_save() {
        let mut classes = LineClasses::new(9);
        classes.set(3, DataClass::Header);
        classes.set(4, DataClass::TxDescriptor);
        classes.set(3, DataClass::Payload);
        let runs = classes.save();
        let mut restored = LineClasses::new(9);
        restored.check(&runs).unwrap();
        restored.restore(&runs);
        let seen: Vec<u8> = (0..9).map(|line| restored.get(line) as u8).collect();
        assert_eq!(seen, [0, 0, 0, 3, 5, 0, 0, 0, 0]);
        assert!(LineClasses::new(20).check(&runs).is_err());
        assert!(restored.check(&vec![(5, 0x01)]).is_err(), "code is not a device's");
    }
}
