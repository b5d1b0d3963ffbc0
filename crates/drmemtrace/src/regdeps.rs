//! DynamoRIO's synthetic encoding, in which traces are published whose programs are not: which registers an instruction reads and writes,
//! and what kinds it is of (`core/ir/isa_regdeps/encoding_common.h` and `dr_instr_category_t` in `core/ir/instr_api.h`).
//!
//! | Bits of the first four bytes | What |
//! |---|---|
//! | 0..4, 4..8 | registers written, registers read |
//! | 8, 9 | writes flags, reads flags |
//! | 10..32 | kinds |
//!
//! Behind them, if there are registers, stand the size of an operand, the registers written, and those read. What addresses are made of is
//! among those read. Kinds are coarse: a division is as any arithmetic.

use doorbell_qemu_trace::instruction::Decoded;
use doorbell_qemu_trace::names::{FLAGS, FURTHER, GENERAL};
use doorbell_sim::OpClass;
use doorbell_sim::op::Register;

use crate::decode::class;
use crate::record::Sort;

const HEADER_BYTES: usize = 4;
/// The size of an operand.
const SIZE_BYTES: usize = 1;

mod kind {
    pub const FLOAT: u32 = 0x1;
    pub const LOAD: u32 = 0x2;
    pub const STORE: u32 = 0x4;
    pub const SIMD: u32 = 0x10;
    pub const MOVE: u32 = 0x40;
    pub const MATH: u32 = 0x100;
}

/// Names that an instruction set has for itself: below [`FLAGS`], and [`FURTHER`].
const LOW: u8 = FLAGS - GENERAL;
const HIGH: u8 = 16;

/// An instruction set has more registers in all than there are names: the last ones share theirs.
fn number(id: u8) -> Register {
    match id {
        0..LOW => GENERAL + id,
        _ => FURTHER + (id - LOW) % HIGH,
    }
}

/// What an encoding says; none if it is too short for what it claims.
pub fn decode(plain: Decoded, encoding: &[u8], sort: Sort) -> Option<Decoded> {
    let header = u32::from_le_bytes(encoding.get(..HEADER_BYTES)?.try_into().expect("four bytes"));
    let (written, read) = ((header & 0xf) as usize, (header >> 4 & 0xf) as usize);
    let registers = match written + read {
        0 => &[][..],
        count => encoding.get(HEADER_BYTES + SIZE_BYTES..)?.get(..count)?,
    };
    let is = |kinds: u32| header >> 10 & kinds != 0;
    let mut decoded = plain;
    decoded.accesses_memory = is(kind::LOAD | kind::STORE);
    decoded.class = match class(sort) {
        Some(class) => class,
        None if is(kind::FLOAT | kind::SIMD) => OpClass::FloatAdd,
        None => OpClass::Int,
    };
    decoded.is_move = class(sort).is_none() && (is(kind::MOVE) || decoded.accesses_memory && !is(kind::MATH));
    let is_load = is(kind::LOAD) && !is(kind::STORE);
    for (place, id) in registers.iter().enumerate() {
        match place {
            _ if place < written => decoded.writes.add(number(*id)),
            // What arithmetic takes besides is mostly what it writes, too; else nothing tells it from what an address is made of.
            _ if is_load && !(is(kind::MATH) && registers[..written].contains(id)) => {
                decoded.address_registers.add(number(*id));
            }
            _ => decoded.reads.add(number(*id)),
        }
    }
    if header & 1 << 9 != 0 {
        decoded.reads.add(FLAGS);
    }
    if header & 1 << 8 != 0 {
        decoded.writes.add(FLAGS);
    }
    Some(decoded)
}
