//! Classes of line contents (code, network data by part, other), by which misses are broken down.
//!
//! Network data are classified by the last device access to the line, which is kept for each line of RAM.
//! Rings and data of other devices, such as disks, and interrupt messages are in the class "other". Code is
//! classified when it is fetched. A line keeps its class until a device uses it for something else.
//!
//! *Network data* is a narrower set, since buffers are reused for other purposes. A line becomes network data
//! when a device writes or reads it. A line of a received frame stops being network data when a core stores
//! to it: the contents are then the core's, until a device uses the line again. A line of a transmitted frame
//! (read by a device) stays network data: cores refill it for the next transmission, and other uses in
//! between are not distinguished. Descriptor lines stay network data as long as the ring exists.

use doorbell_sim::memory::DmaAccess;
use doorbell_sim::ports::DmaPurpose;
use serde::{Deserialize, Serialize};

use crate::paged::{self, Paged, Runs};

/// Class of a line's contents; see the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum DataClass {
    /// Neither code nor network data.
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
    /// Number of classes.
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

    /// Class of the data that a device accesses; `header_bytes` is the length of a frame's header.
    pub fn of(access: &DmaAccess, header_bytes: u32) -> DataClass {
        match access.purpose {
            DmaPurpose::RxDescriptor => DataClass::RxDescriptor,
            DmaPurpose::TxDescriptor => DataClass::TxDescriptor,
            DmaPurpose::RxData | DmaPurpose::TxData if access.offset < header_bytes => DataClass::Header,
            DmaPurpose::RxData | DmaPurpose::TxData => DataClass::Payload,
            DmaPurpose::Ring | DmaPurpose::Data | DmaPurpose::Interrupt => DataClass::Other,
        }
    }

    /// Whether it is a class of network data.
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

/// Kind of device access to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// Class of each line of RAM, four bits per line: the class, and two flags for headers and payload: read by a
/// device since its last write, or overwritten by a core since.
#[derive(Clone, Debug)]
pub(crate) struct LineClasses {
    pairs: Paged<u8>,
}

/// A line of a frame that a device read last.
const READ: u8 = 8;
/// A line of a frame that a core has overwritten since a device wrote it.
const OVERWRITTEN: u8 = 4;
/// Headers and payload with no flag set.
const HEADER: u8 = DataClass::Header as u8;
const PAYLOAD: u8 = DataClass::Payload as u8;

/// Saved classes: runs of equal pairs of lines.
pub(crate) type ClassRuns = Runs<u8>;

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

    /// Records that a device uses a line.
    #[inline]
    pub fn set(&mut self, line: u32, class: DataClass, access: Access) {
        let (pair, shift) = (self.pairs.at(line as usize / 2), 4 * (line & 1));
        let read = access == Access::Read && matches!(class, DataClass::Header | DataClass::Payload);
        let bits = class as u8 | if read { READ } else { 0 };
        *pair = *pair & !(0xf << shift) | bits << shift;
    }

    /// Records that a core stores to a line.
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
        self.pairs.runs()
    }

    /// Checks that the runs cover all lines and contain only valid classes.
    pub fn check(&self, runs: &ClassRuns) -> Result<(), String> {
        let pairs = paged::length(runs);
        if pairs != self.pairs.len() as u64 {
            return Err(format!(
                "the saved state has classes of {pairs} pairs of lines, the machine has {}",
                self.pairs.len()
            ));
        }
        let valid = |bits: u8| matches!(bits, 0 | 2..8) || matches!(bits ^ READ, HEADER | PAYLOAD);
        match runs.iter().find(|run| !valid(run.1 & 0xf) || !valid(run.1 >> 4)) {
            Some(run) => Err(format!("invalid line classes {:#x} in the saved state", run.1)),
            None => Ok(()),
        }
    }

    pub fn restore(&mut self, runs: &ClassRuns) {
        self.pairs.restore(runs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_of_a_frame_are_its_header() {
        let access = |kind, offset| DmaAccess::plain(0, kind, offset);
        for (kind, offset, class) in [
            (DmaPurpose::RxData, 0, DataClass::Header),
            (DmaPurpose::RxData, 63, DataClass::Header),
            (DmaPurpose::RxData, 64, DataClass::Payload),
            (DmaPurpose::TxData, 1400, DataClass::Payload),
            (DmaPurpose::RxDescriptor, 0, DataClass::RxDescriptor),
            (DmaPurpose::TxDescriptor, 0, DataClass::TxDescriptor),
            (DmaPurpose::Ring, 0, DataClass::Other),
            (DmaPurpose::Data, 0, DataClass::Other),
            (DmaPurpose::Interrupt, 0, DataClass::Other),
        ] {
            assert_eq!(DataClass::of(&access(kind, offset), 64), class);
        }
    }

    fn all(classes: &LineClasses) -> Vec<u8> {
        (0..classes.pairs.len()).map(|pair| classes.pairs.get(pair)).collect()
    }

    #[test]
    fn runs_end_where_the_class_changes_inside_a_block_or_at_its_edge() {
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
        let classes: Vec<u8> = (0..9).map(|line| restored.get(line) as u8).collect();
        assert_eq!(classes, [0, 0, 0, 3, 5, 0, 0, 0, 0]);
        assert!(LineClasses::new(20).check(&runs).is_err());
        assert!(restored.check(&vec![(5, 0x01)]).is_err(), "a device does not set the class code");
        assert!(restored.check(&vec![(5, 0xc0)]).is_err(), "descriptors cannot be marked overwritten");
    }

    #[test]
    fn received_lines_are_network_data_until_a_core_stores_and_sent_lines_stay() {
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
