//! Records of 12 bytes, little-endian: type (2), size (2) and value (8). Types and markers have DynamoRIO's
//! numbers (`trace_type_t`, `trace_marker_type_t` and `offline_file_type_t` in its
//! `clients/drcachesim/common/trace_entry.h`).

/// Record size.
pub const RECORD_BYTES: usize = 12;
/// Encoding bytes per record.
pub const ENCODING_BYTES: usize = 8;
/// Supported versions of the format.
pub const VERSIONS: std::ops::RangeInclusive<u64> = 1..=7;
/// First version in which the marker of a signal has the address at which the program was interrupted.
pub const VERSION_INTERRUPTED: u64 = 3;

/// A record; see the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Record type.
    pub kind: u16,
    /// Size of an access, instruction or encoding; for a marker, its type.
    pub size: u16,
    /// Address, number, or encoding bytes.
    pub value: u64,
}

impl Record {
    /// Parses a record.
    pub fn from_bytes(bytes: &[u8; RECORD_BYTES]) -> Record {
        let [kind0, kind1, size0, size1, value @ ..] = *bytes;
        Record {
            kind: u16::from_le_bytes([kind0, kind1]),
            size: u16::from_le_bytes([size0, size1]),
            value: u64::from_le_bytes(value),
        }
    }
}

/// Version in the header of a file that begins with these bytes, if it is of this format.
pub fn version(first: &[u8]) -> Option<u64> {
    let record = Record::from_bytes(first.get(..RECORD_BYTES)?.try_into().expect("12 bytes"));
    // In a ChampSim trace, the first address would be a multiple of 2^32 plus 25.
    let is_header = record.kind == kind::HEADER && record.size == 0 && record.value <= u64::from(u16::MAX);
    is_header.then_some(record.value)
}

/// Record types that are needed individually.
pub mod kind {
    pub const PREFETCH_TO_WRITE: u16 = 8;
    pub const PREFETCH_OF_CODE: u16 = 9;
    pub const FOOTER: u16 = 26;
    pub const HEADER: u16 = 25;
}

/// Branch type of an instruction, known without its encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BranchKind {
    /// Not a branch.
    Plain,
    /// Conditional branch: taken, not taken, or unknown (before version 5).
    Conditional(Option<bool>),
    Jump,
    IndirectJump,
    Call,
    IndirectCall,
    Return,
}

/// Record type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Load,
    Store,
    Prefetch {
        writes: bool,
        code: bool,
    },
    Instruction(BranchKind),
    /// Another iteration of a string instruction (DynamoRIO: no fetch).
    NoFetch,
    /// Online format only: several instructions in one record.
    Bundle,
    Encoding,
    Thread,
    ThreadExit,
    Process,
    Header,
    Footer,
    Marker,
    /// Cache flushes and hardware prefetches, which are ignored.
    Ignored,
}

impl Kind {
    /// Record type of a number; `None` if it is unknown.
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
            10 | 31 => Instruction(BranchKind::Plain),
            11 => Instruction(BranchKind::Jump),
            12 => Instruction(BranchKind::IndirectJump),
            13 => Instruction(BranchKind::Conditional(None)),
            14 => Instruction(BranchKind::Call),
            15 => Instruction(BranchKind::IndirectCall),
            16 => Instruction(BranchKind::Return),
            17 | 30 => Bundle,
            18..=21 | 27 => Ignored,
            22 => Thread,
            23 => ThreadExit,
            24 => Process,
            kind::HEADER => Header,
            kind::FOOTER => Footer,
            28 => Marker,
            29 => NoFetch,
            47 => Encoding,
            48 => Instruction(BranchKind::Conditional(Some(true))),
            49 => Instruction(BranchKind::Conditional(Some(false))),
            _ => return None,
        })
    }
}

/// Markers that are used; all others are ignored.
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

/// Bits of a file type.
pub mod file_type {
    pub const FILTERED: u64 = 0x1 | 0x80 | 0x100;
    pub const INSTRUCTIONS_ONLY: u64 = 0x4;
    pub const AARCH64: u64 = 0x8;
    pub const ARM32: u64 = 0x10;
    pub const X86_32: u64 = 0x20;
    pub const X86_64: u64 = 0x40;
    pub const ENCODINGS: u64 = 0x200;
    /// Filtered only up to a marker.
    pub const FILTERED_AT_FIRST: u64 = 0x2000;
    pub const TEMPLATES: u64 = 0x4000;
    pub const REGDEPS: u64 = 0x2_0000;
    pub const WHOLE_SYSTEM: u64 = 0x4_0000;
}
