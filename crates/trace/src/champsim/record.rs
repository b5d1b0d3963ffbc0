//! Trace record: its bytes in both variants, and its branch type.

use doorbell_sim::OpClass;

use super::{FLAGS, INSTRUCTION_POINTER, STACK_POINTER};

/// Trace format of ChampSim. A file does not record it; ChampSim's option is `--cloudsuite`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Variant {
    /// `input_instr`: 64 bytes, up to two registers and two addresses written.
    #[default]
    Standard,
    /// `cloudsuite_instr`: 96 bytes, up to four of each, and an address space.
    CloudSuite,
}

/// Record size of the larger variant.
pub const RECORD_BYTES_MAX: usize = 96;
const SOURCES: usize = 4;
/// Offsets of the flags *is a branch* and *was taken*.
const FLAG_BYTES: [usize; 2] = [8, 9];
const REGISTERS_AT: usize = 10;

impl Variant {
    /// Both variants.
    pub const ALL: [Variant; 2] = [Variant::Standard, Variant::CloudSuite];

    /// Variant for an option `cloudsuite`.
    pub const fn of(cloudsuite: bool) -> Variant {
        if cloudsuite { Variant::CloudSuite } else { Variant::Standard }
    }

    /// Record size, padding included.
    pub const fn record_bytes(self) -> usize {
        match self {
            Variant::Standard => 64,
            Variant::CloudSuite => RECORD_BYTES_MAX,
        }
    }

    /// Limit of registers written, and of addresses written.
    pub const fn destinations(self) -> usize {
        match self {
            Variant::Standard => 2,
            Variant::CloudSuite => 4,
        }
    }

    /// Name in options and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Variant::Standard => "standard",
            Variant::CloudSuite => "cloudsuite",
        }
    }

    /// The other variant.
    pub const fn other(self) -> Variant {
        match self {
            Variant::Standard => Variant::CloudSuite,
            Variant::CloudSuite => Variant::Standard,
        }
    }

    /// The addresses follow the registers, aligned to eight bytes as a C compiler does.
    const fn addresses_at(self) -> usize {
        (REGISTERS_AT + self.destinations() + SOURCES).next_multiple_of(8)
    }

    const fn asid_at(self) -> usize {
        self.addresses_at() + 8 * (self.destinations() + SOURCES)
    }
}

/// An instruction. In a standard record, the last two destinations and written addresses are 0, and so is the
/// address space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Address.
    pub ip: u64,
    /// Whether it is a branch.
    pub is_branch: bool,
    /// Whether the branch was taken.
    pub taken: bool,
    /// Registers written.
    pub destinations: [u8; 4],
    /// Registers read.
    pub sources: [u8; 4],
    /// Address space number.
    pub asid: [u8; 2],
    /// Addresses written.
    pub written: [u64; 4],
    /// Addresses read.
    pub read: [u64; 4],
}

/// A record writes more registers or addresses than its variant allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

/// Fits a list into `room` entries: unchanged if the rest is 0, otherwise with the zeros removed.
fn kept<T: Copy + Default + PartialEq>(all: &[T; 4], room: usize) -> Result<[T; 4], NoRoom> {
    let none = T::default();
    if all[room..].iter().all(|one| *one == none) {
        return Ok(*all);
    }
    let mut kept = [none; 4];
    let mut count = 0;
    for one in all.iter().filter(|one| **one != none) {
        kept[count] = *one;
        count += 1;
    }
    if count > room { Err(NoRoom) } else { Ok(kept) }
}

/// As [`kept`], but truncated if necessary; returns whether it was.
fn first<T: Copy + Default + PartialEq>(all: &[T; 4], room: usize) -> ([T; 4], bool) {
    match kept(all, room) {
        Ok(kept) => (kept, false),
        Err(NoRoom) => {
            let mut first = [T::default(); 4];
            let some = all.iter().filter(|one| **one != T::default()).take(room);
            first.iter_mut().zip(some).for_each(|(place, one)| *place = *one);
            (first, true)
        }
    }
}

impl Record {
    /// Appends the record's bytes. The standard variant omits the address space.
    pub fn put(&self, variant: Variant, to: &mut Vec<u8>) -> Result<(), NoRoom> {
        let room = variant.destinations();
        let (destinations, written) = (kept(&self.destinations, room)?, kept(&self.written, room)?);
        let begin = to.len();
        to.extend(self.ip.to_le_bytes());
        to.extend([u8::from(self.is_branch), u8::from(self.taken)]);
        to.extend(&destinations[..room]);
        to.extend(self.sources);
        to.resize(begin + variant.addresses_at(), 0);
        for address in written[..room].iter().chain(&self.read) {
            to.extend(address.to_le_bytes());
        }
        if variant == Variant::CloudSuite {
            to.extend(self.asid);
        }
        to.resize(begin + variant.record_bytes(), 0);
        Ok(())
    }

    /// Parses a record. Padding is ignored.
    #[inline]
    pub fn from_bytes(variant: Variant, bytes: &[u8]) -> Record {
        assert_eq!(bytes.len(), variant.record_bytes(), "the bytes of one record");
        match variant {
            Variant::Standard => Record::parse::<2>(variant, bytes),
            Variant::CloudSuite => Record {
                asid: [bytes[variant.asid_at()], bytes[variant.asid_at() + 1]],
                ..Record::parse::<4>(variant, bytes)
            },
        }
    }

    /// Parses a record with `ROOM` destinations.
    fn parse<const ROOM: usize>(variant: Variant, bytes: &[u8]) -> Record {
        let word = |place: usize| {
            let at = variant.addresses_at() + 8 * place;
            u64::from_le_bytes(bytes[at..at + 8].try_into().expect("a slice of eight bytes"))
        };
        let mut record = Record {
            ip: u64::from_le_bytes(bytes[..8].try_into().expect("a slice of eight bytes")),
            is_branch: bytes[FLAG_BYTES[0]] != 0,
            taken: bytes[FLAG_BYTES[1]] != 0,
            ..Record::default()
        };
        for place in 0..ROOM {
            record.destinations[place] = bytes[REGISTERS_AT + place];
            record.written[place] = word(place);
        }
        for place in 0..SOURCES {
            record.sources[place] = bytes[REGISTERS_AT + ROOM + place];
            record.read[place] = word(ROOM + place);
        }
        record
    }

    /// The first flag byte that is neither 0 nor 1: its offset and value. Files that are no traces rarely
    /// pass.
    pub(super) fn wrong_flag(bytes: &[u8]) -> Option<(usize, u8)> {
        FLAG_BYTES.into_iter().map(|at| (at, bytes[at])).find(|(_, value)| *value > 1)
    }

    /// Truncates the record to the variant's limits; returns whether it lost anything.
    pub(super) fn truncated_to(self, variant: Variant) -> (Record, bool) {
        let room = variant.destinations();
        let (destinations, registers_left) = first(&self.destinations, room);
        let (written, addresses_left) = first(&self.written, room);
        (Record { destinations, written, ..self }, registers_left || addresses_left)
    }

    /// Branch type as ChampSim derives it; `None` if the record does not write the instruction pointer.
    #[inline]
    pub(super) fn branch(&self) -> Option<OpClass> {
        among(&self.destinations, INSTRUCTION_POINTER).then(|| self.branch_kind())
    }

    /// Branch type of a branch. Not inlined, because most instructions are no branches.
    #[inline(never)]
    fn branch_kind(&self) -> OpClass {
        let other = self.reads_a_variable();
        let reads = |register| among(&self.sources, register);
        let [sp, ip, flags] = [STACK_POINTER, INSTRUCTION_POINTER, FLAGS].map(reads);
        match (sp, ip, among(&self.destinations, STACK_POINTER)) {
            (false, _, _) if !flags && !other => OpClass::Jump,
            (false, false, _) if !flags => OpClass::IndirectJump,
            (true, true, true) if other => OpClass::IndirectCall,
            (true, true, true) => OpClass::Call,
            (true, false, true) => OpClass::Return,
            _ => OpClass::Branch,
        }
    }

    /// Returns whether it reads a register other than the special ones.
    #[inline]
    pub(super) fn reads_a_variable(&self) -> bool {
        let special = [0, STACK_POINTER, FLAGS, INSTRUCTION_POINTER];
        self.sources.iter().fold(false, |found, source| found | !among(&special, *source))
    }
}

/// Returns whether the list has the register. Branch-free, because the branches would be unpredictable.
#[inline]
fn among(registers: &[u8; 4], register: u8) -> bool {
    registers.iter().fold(false, |found, other| found | (*other == register))
}
