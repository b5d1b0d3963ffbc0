//! DynamoRIO's synthetic encoding, used for traces of unpublished programs: registers read and written, and
//! instruction categories (`core/ir/isa_regdeps/encoding_common.h` and `dr_instr_category_t` in
//! `core/ir/instr_api.h`).
//!
//! | Bits of the first four bytes | Meaning |
//! |---|---|
//! | 0..4, 4..8 | numbers of registers written and read |
//! | 8, 9 | writes flags, reads flags |
//! | 10..32 | categories |
//!
//! If there are registers, the operand size follows, then the registers written, then those read. Address
//! registers are among those read. Categories are coarse: a division is plain arithmetic.

use doorbell_qemu_trace::instruction::Decoded;
use doorbell_qemu_trace::names::{FLAGS, FURTHER, GENERAL};
use doorbell_sim::OpClass;
use doorbell_sim::op::Register;

use crate::decode::class;
use crate::record::BranchKind;

const HEADER_BYTES: usize = 4;
/// Size of the operand-size field.
const SIZE_BYTES: usize = 1;

mod kind {
    pub const FLOAT: u32 = 0x1;
    pub const LOAD: u32 = 0x2;
    pub const STORE: u32 = 0x4;
    pub const SIMD: u32 = 0x10;
    pub const MOVE: u32 = 0x40;
    pub const MATH: u32 = 0x100;
}

/// Register numbers available to an instruction set: below [`FLAGS`], and from [`FURTHER`].
const LOW: u8 = FLAGS - GENERAL;
const HIGH: u8 = 16;

/// There may be more register IDs than numbers; the last ones share theirs.
fn number(id: u8) -> Register {
    match id {
        0..LOW => GENERAL + id,
        _ => FURTHER + (id - LOW) % HIGH,
    }
}

/// Decodes an encoding; `None` if it is too short.
pub fn decode(plain: Decoded, encoding: &[u8], sort: BranchKind) -> Option<Decoded> {
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
            // In arithmetic with a load, a register that is also written is usually the other operand. All
            // others are taken for address registers, because nothing distinguishes them.
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
