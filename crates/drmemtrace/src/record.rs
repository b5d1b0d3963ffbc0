//! A record: 12 bytes, little-endian: its type (2), a size (2) and a value (8). What types and markers there are, by DynamoRIO's numbers
//! (`trace_type_t`, `trace_marker_type_t` and `offline_file_type_t` in its `clients/drcachesim/common/trace_entry.h`).

/// Bytes of a record.
pub const RECORD_BYTES: usize = 12;
/// Bytes of an encoding that a record holds.
pub const ENCODING_BYTES: usize = 8;
/// The format's versions that are read.
pub const VERSIONS: std::ops::RangeInclusive<u64> = 1..=7;
/// From this version on a marker of a signal says at which address the program was interrupted.
pub const VERSION_INTERRUPTED: u64 = 3;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its type.
    pub kind: u16,
    /// Bytes of an access, instruction or encoding; of a marker, which one.
    pub size: u16,
    /// An address, a number, or an encoding's bytes.
    pub value: u64,
}

impl Record {
    /// From so many bytes.
    pub fn from_bytes(bytes: &[u8; RECORD_BYTES]) -> Record {
        let [kind0, kind1, size0, size1, value @ ..] = *bytes;
        Record {
            kind: u16::from_le_bytes([kind0, kind1]),
            size: u16::from_le_bytes([size0, size1]),
            value: u64::from_le_bytes(value),
        }
    }
}

/// What a file that begins with these bytes claims as its version, if it is of this format.
pub fn version(first: &[u8]) -> Option<u64> {
    let record = Record::from_bytes(first.get(..RECORD_BYTES)?.try_into().expect("so many bytes"));
    // ChampSim's first record would have an address of 2^32 times a small number and 25.
    let is_header = record.kind == kind::HEADER && record.size == 0 && record.value <= u64::from(u16::MAX);
    is_header.then_some(record.value)
}

/// Types of records that are told from others by more than [`Kind`] says.
pub mod kind {
    pub const PREFETCH_TO_WRITE: u16 = 8;
    pub const PREFETCH_OF_CODE: u16 = 9;
    pub const FOOTER: u16 = 26;
    pub const HEADER: u16 = 25;
}

/// What an instruction is known to be without its encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// No branch.
    Plain,
    /// A conditional branch: taken, not taken, or not told (before version 5).
    Conditional(Option<bool>),
    Jump,
    IndirectJump,
    Call,
    IndirectCall,
    Return,
}

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Load,
    Store,
    Prefetch {
        writes: bool,
        code: bool,
    },
    Instruction(Sort),
    /// One more round of a string instruction.
    Round,
    /// Of tracing as it goes on: several instructions in one record.
    Bundle,
    Encoding,
    Thread,
    ThreadExit,
    Process,
    Header,
    Footer,
    Marker,
    /// A flush of a cache by address, or what a simulator's prefetcher did: nothing that ops say.
    Beside,
}

impl Kind {
    /// Of a record's type; none if there is no such type.
    pub fn of(number: u16) -> Option<Kind> {
        use Kind::*;
        Some(match number {
            0 => Load,
            1 => Store,
            2..=7 | kind::PREFETCH_TO_WRITE | kind::PREFETCH_OF_CODE | 32..=46 => Prefetch {
                writes: matches!(number, kind::PREFETCH_TO_WRITE | 41..=46),
                code: matches!(number, kind::PREFETCH_OF_CODE | 35..=40),
            },
            // SYSENTER is 31.
            10 | 31 => Instruction(Sort::Plain),
            11 => Instruction(Sort::Jump),
            12 => Instruction(Sort::IndirectJump),
            13 => Instruction(Sort::Conditional(None)),
            14 => Instruction(Sort::Call),
            15 => Instruction(Sort::IndirectCall),
            16 => Instruction(Sort::Return),
            17 | 30 => Bundle,
            18..=21 | 27 => Beside,
            22 => Thread,
            23 => ThreadExit,
            24 => Process,
            kind::HEADER => Header,
            kind::FOOTER => Footer,
            28 => Marker,
            29 => Round,
            47 => Encoding,
            48 => Instruction(Sort::Conditional(Some(true))),
            49 => Instruction(Sort::Conditional(Some(false))),
            _ => return None,
        })
    }
}

/// Markers that mean something to a trace of ours; others say nothing that it could hold.
pub mod marker {
    pub const KERNEL_EVENT: u16 = 0;
    pub const KERNEL_TRANSFER: u16 = 1;
    pub const FILE_TYPE: u16 = 9;
    pub const VERSION: u16 = 12;
    pub const PHYSICAL_ADDRESS: u16 = 15;
    pub const FILTER_ENDPOINT: u16 = 23;
    pub const SYSTEM_CALL: u16 = 25;
    pub const SYSTEM_CALL_TRACE_START: u16 = 27;
    pub const SYSTEM_CALL_TRACE_END: u16 = 28;
    pub const BRANCH_TARGET: u16 = 29;
    pub const CONTEXT_SWITCH_START: u16 = 34;
    pub const CONTEXT_SWITCH_END: u16 = 35;
    pub const HARDWARE_EVENT: u16 = 43;
}

/// Bits of a file's type.
pub mod file_type {
    pub const FILTERED: u64 = 0x1 | 0x80 | 0x100;
    pub const INSTRUCTIONS_ONLY: u64 = 0x4;
    pub const AARCH64: u64 = 0x8;
    pub const ARM32: u64 = 0x10;
    pub const X86_32: u64 = 0x20;
    pub const X86_64: u64 = 0x40;
    pub const ENCODINGS: u64 = 0x200;
    /// Filtered up to a marker only.
    pub const FILTERED_AT_FIRST: u64 = 0x2000;
    pub const TEMPLATES: u64 = 0x4000;
    pub const REGDEPS: u64 = 0x2_0000;
    pub const WHOLE_SYSTEM: u64 = 0x4_0000;
}
