//! I and M extensions: register arithmetic, jumps and branches.

use doorbell_sim::Ram;

use super::{Exit, Op, next};
use crate::hart::Hart;

/// Defines handlers for `rd = f(rs1, rs2)` and `rd = f(rs1, imm)`; the immediate is sign-extended.
macro_rules! arithmetic {
    ($($name:ident: |$a:ident, reg $b:ident| $value:expr;)*) => {$(
        /// # Safety
        /// As for [`Handler`](super::Handler).
        pub(super) unsafe fn $name(hart: &mut Hart, ram: &mut Ram, op: *const Op) -> Exit {
            // SAFETY: `op` is an op of a block, and arithmetic never ends one.
            unsafe {
                let o = &*op;
                let ($a, $b) = (hart.x[o.rs1 as usize], hart.x[o.rs2 as usize]);
                hart.x[o.rd as usize] = $value;
                next(hart, ram, op)
            }
        }
    )*};
    ($($name:ident: |$a:ident, imm $b:ident| $value:expr;)*) => {$(
        /// # Safety
        /// As for [`Handler`](super::Handler).
        pub(super) unsafe fn $name(hart: &mut Hart, ram: &mut Ram, op: *const Op) -> Exit {
            // SAFETY: `op` is an op of a block, and arithmetic never ends one.
            unsafe {
                let o = &*op;
                let ($a, $b) = (hart.x[o.rs1 as usize], i64::from(o.imm) as u64);
                hart.x[o.rd as usize] = $value;
                next(hart, ram, op)
            }
        }
    )*};
}

/// A 32-bit result, sign-extended.
#[inline(always)]
fn word(value: u64) -> u64 {
    i64::from(value as i32) as u64
}

arithmetic! {
    add: |a, reg b| a.wrapping_add(b);
    sub: |a, reg b| a.wrapping_sub(b);
    sll: |a, reg b| a << (b & 63);
    slt: |a, reg b| u64::from((a as i64) < b as i64);
    sltu: |a, reg b| u64::from(a < b);
    xor: |a, reg b| a ^ b;
    srl: |a, reg b| a >> (b & 63);
    sra: |a, reg b| (a as i64 >> (b & 63)) as u64;
    or: |a, reg b| a | b;
    and: |a, reg b| a & b;
    addw: |a, reg b| word(a.wrapping_add(b));
    subw: |a, reg b| word(a.wrapping_sub(b));
    sllw: |a, reg b| word(a << (b & 31));
    srlw: |a, reg b| word(u64::from(a as u32 >> (b & 31)));
    sraw: |a, reg b| i64::from(a as i32 >> (b & 31)) as u64;
    mul: |a, reg b| a.wrapping_mul(b);
    mulh: |a, reg b| ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64;
    mulhsu: |a, reg b| (i128::from(a as i64).wrapping_mul(b as i128) >> 64) as u64;
    mulhu: |a, reg b| ((u128::from(a) * u128::from(b)) >> 64) as u64;
    div: |a, reg b| if b == 0 { u64::MAX } else { (a as i64).wrapping_div(b as i64) as u64 };
    divu: |a, reg b| a.checked_div(b).unwrap_or(u64::MAX);
    rem: |a, reg b| if b == 0 { a } else { (a as i64).wrapping_rem(b as i64) as u64 };
    remu: |a, reg b| a.checked_rem(b).unwrap_or(a);
    mulw: |a, reg b| word(a.wrapping_mul(b));
    divw: |a, reg b| if b as i32 == 0 { u64::MAX } else { i64::from((a as i32).wrapping_div(b as i32)) as u64 };
    divuw: |a, reg b| (a as u32).checked_div(b as u32).map_or(u64::MAX, |q| word(u64::from(q)));
    remw: |a, reg b| if b as i32 == 0 { word(a) } else { i64::from((a as i32).wrapping_rem(b as i32)) as u64 };
    remuw: |a, reg b| word(u64::from((a as u32).checked_rem(b as u32).unwrap_or(a as u32)));
}

arithmetic! {
    addi: |a, imm b| a.wrapping_add(b);
    slti: |a, imm b| u64::from((a as i64) < b as i64);
    sltiu: |a, imm b| u64::from(a < b);
    xori: |a, imm b| a ^ b;
    ori: |a, imm b| a | b;
    andi: |a, imm b| a & b;
    slli: |a, imm b| a << (b & 63);
    srli: |a, imm b| a >> (b & 63);
    srai: |a, imm b| (a as i64 >> (b & 63)) as u64;
    addiw: |a, imm b| word(a.wrapping_add(b));
    slliw: |a, imm b| word(a << (b & 31));
    srliw: |a, imm b| word(u64::from(a as u32 >> (b & 31)));
    sraiw: |a, imm b| i64::from(a as i32 >> (b & 31)) as u64;
}

/// A hint changes nothing; prefetches are handled by the timing models.
///
/// # Safety
/// As for [`Handler`](super::Handler).
pub(super) unsafe fn hint(hart: &mut Hart, ram: &mut Ram, op: *const Op) -> Exit {
    // SAFETY: a hint does not end a block.
    unsafe { next(hart, ram, op) }
}

/// # Safety
/// As for [`Handler`](super::Handler).
pub(super) unsafe fn lui(hart: &mut Hart, ram: &mut Ram, op: *const Op) -> Exit {
    // SAFETY: LUI does not end a block.
    unsafe {
        hart.x[(*op).rd as usize] = i64::from((*op).imm) as u64;
        next(hart, ram, op)
    }
}

/// # Safety
/// As for [`Handler`](super::Handler).
pub(super) unsafe fn auipc(hart: &mut Hart, ram: &mut Ram, op: *const Op) -> Exit {
    // SAFETY: AUIPC does not end a block.
    unsafe {
        hart.x[(*op).rd as usize] = hart.block_pc.wrapping_add(i64::from((*op).imm) as u64);
        next(hart, ram, op)
    }
}

/// FENCE: no effect, because the functional hart executes in order and its accesses are visible at once.
///
/// # Safety
/// As for [`Handler`](super::Handler).
pub(super) unsafe fn fence(hart: &mut Hart, ram: &mut Ram, op: *const Op) -> Exit {
    // SAFETY: FENCE does not end a block.
    unsafe { next(hart, ram, op) }
}

/// # Safety
/// As for [`Handler`](super::Handler).
pub(super) unsafe fn jal(hart: &mut Hart, _ram: &mut Ram, op: *const Op) -> Exit {
    // SAFETY: `op` is an op of a block.
    let o = unsafe { &*op };
    hart.x[o.rd as usize] = hart.pc_of(o).wrapping_add(u64::from(o.rs2));
    hart.pc = hart.block_pc.wrapping_add(i64::from(o.imm) as u64);
    Exit::Taken
}

/// # Safety
/// As for [`Handler`](super::Handler).
pub(super) unsafe fn jalr(hart: &mut Hart, _ram: &mut Ram, op: *const Op) -> Exit {
    // SAFETY: `op` is an op of a block.
    let o = unsafe { &*op };
    let target = hart.x[o.rs1 as usize].wrapping_add(i64::from(o.imm) as u64) & !1;
    hart.x[o.rd as usize] = hart.pc_of(o).wrapping_add(u64::from(o.rs2));
    hart.pc = target;
    Exit::Indirect
}

macro_rules! branches {
    ($($name:ident: |$a:ident, $b:ident| $taken:expr;)*) => {$(
        /// # Safety
        /// As for [`Handler`](super::Handler).
        pub(super) unsafe fn $name(hart: &mut Hart, _ram: &mut Ram, op: *const Op) -> Exit {
            // SAFETY: a branch ends its block, and the following op holds the block's end.
            let (o, end) = unsafe { (&*op, (*op.add(1)).at) };
            let ($a, $b) = (hart.x[o.rs1 as usize], hart.x[o.rs2 as usize]);
            if $taken {
                hart.pc = hart.block_pc.wrapping_add(i64::from(o.imm) as u64);
                Exit::Taken
            } else {
                hart.pc = hart.block_pc.wrapping_add(u64::from(end) * 2);
                Exit::Next
            }
        }
    )*};
}

branches! {
    beq: |a, b| a == b;
    bne: |a, b| a != b;
    blt: |a, b| (a as i64) < b as i64;
    bge: |a, b| a as i64 >= b as i64;
    bltu: |a, b| a < b;
    bgeu: |a, b| a >= b;
}

/// Ends every block: continues after the last instruction.
///
/// # Safety
/// As for [`Handler`](super::Handler).
pub(super) unsafe fn leave(hart: &mut Hart, _ram: &mut Ram, op: *const Op) -> Exit {
    // SAFETY: `op` is an op of a block.
    hart.pc = hart.pc_of(unsafe { &*op });
    Exit::Next
}
