//! F and D extensions: NaN boxing, rounding modes and flags around the arithmetic in [`crate::float`].

use doorbell_sim::Ram;

use super::{Exit, Op, next};
use crate::float::{self, F32, F64, Rounding};
use crate::hart::Hart;

const BOX: u64 = 0xffff_ffff_0000_0000;
const SIGN32: u32 = 1 << 31;
const SIGN64: u64 = 1 << 63;

impl Hart {
    #[inline(always)]
    pub(crate) fn set_float(&mut self, rd: u8, bits: u64) {
        self.f[rd as usize & 31] = bits;
        self.dirty_fp();
    }

    #[inline(always)]
    fn float64(&self, register: u8) -> u64 {
        self.f[register as usize & 31]
    }

    /// A single-precision operand; one that is not properly NaN-boxed reads as the canonical NaN.
    #[inline(always)]
    fn float32(&self, register: u8) -> u32 {
        let bits = self.f[register as usize & 31];
        if bits >= BOX { bits as u32 } else { 0x7fc0_0000 }
    }

    /// The rounding mode of an instruction; `None` if it is reserved.
    #[inline(always)]
    fn rounding(&self, rm: u8) -> Option<Rounding> {
        match if rm == 7 { self.frm } else { rm } {
            0 => Some(Rounding::Rne),
            1 => Some(Rounding::Rtz),
            2 => Some(Rounding::Rdn),
            3 => Some(Rounding::Rup),
            4 => Some(Rounding::Rmm),
            _ => None,
        }
    }
}

/// Exit of any floating-point instruction while `mstatus.FS` is Off.
#[cold]
pub(super) fn unit_off(hart: &mut Hart, ram: &mut Ram, op: &Op) -> Exit {
    hart.illegal(ram, op)
}

/// Defines handlers; a body that returns `None` makes the instruction illegal.
macro_rules! handlers {
    ($($name:ident: |$hart:ident, $op:ident| $body:expr;)*) => {$(
        /// # Safety
        /// As for [`Handler`](super::Handler).
        pub(super) unsafe fn $name($hart: &mut Hart, ram: &mut Ram, op: *const Op) -> Exit {
            #[inline(always)]
            fn body($hart: &mut Hart, $op: &Op) -> Option<()> {
                if !$hart.fp_enabled {
                    return None;
                }
                $body;
                Some(())
            }
            // SAFETY: `op` is an op of a block, and floating-point instructions never end one.
            unsafe {
                match body($hart, &*op) {
                    Some(()) => next($hart, ram, op),
                    None => unit_off($hart, ram, &*op),
                }
            }
        }
    )*};
}

/// Two-operand arithmetic with rounding.
macro_rules! binary {
    ($($single:ident, $double:ident: $function:ident;)*) => {
        handlers! {$(
            $single: |hart, op| {
                let rounding = hart.rounding(op.imm as u8)?;
                let (a, b) = (hart.float32(op.rs1), hart.float32(op.rs2));
                let result = float::$function::<F32>(a, b, rounding, &mut hart.fflags);
                hart.set_float(op.rd, BOX | u64::from(result))
            };
            $double: |hart, op| {
                let rounding = hart.rounding(op.imm as u8)?;
                let (a, b) = (hart.float64(op.rs1), hart.float64(op.rs2));
                let result = float::$function::<F64>(a, b, rounding, &mut hart.fflags);
                hart.set_float(op.rd, result)
            };
        )*}
    };
}

binary! {
    fadd_s, fadd_d: add;
    fsub_s, fsub_d: sub;
    fmul_s, fmul_d: mul;
    fdiv_s, fdiv_d: div;
}

/// Fused multiply-add with the signs of product and addend flipped as the instruction's name says. Flipping a
/// NaN's sign is harmless, because every NaN result is canonical.
macro_rules! fused {
    ($($single:ident, $double:ident: product $product:literal, addend $addend:literal;)*) => {
        handlers! {$(
            $single: |hart, op| {
                let rounding = hart.rounding(op.imm as u8)?;
                let a = hart.float32(op.rs1) ^ if $product { SIGN32 } else { 0 };
                let c = hart.float32((op.imm >> 8) as u8) ^ if $addend { SIGN32 } else { 0 };
                let result = float::fma::<F32>(a, hart.float32(op.rs2), c, rounding, &mut hart.fflags);
                hart.set_float(op.rd, BOX | u64::from(result))
            };
            $double: |hart, op| {
                let rounding = hart.rounding(op.imm as u8)?;
                let a = hart.float64(op.rs1) ^ if $product { SIGN64 } else { 0 };
                let c = hart.float64((op.imm >> 8) as u8) ^ if $addend { SIGN64 } else { 0 };
                let result = float::fma::<F64>(a, hart.float64(op.rs2), c, rounding, &mut hart.fflags);
                hart.set_float(op.rd, result)
            };
        )*}
    };
}

fused! {
    fmadd_s, fmadd_d: product false, addend false;
    fmsub_s, fmsub_d: product false, addend true;
    fnmsub_s, fnmsub_d: product true, addend false;
    fnmadd_s, fnmadd_d: product true, addend true;
}

handlers! {
    fsqrt_s: |hart, op| {
        let rounding = hart.rounding(op.imm as u8)?;
        let result = float::sqrt::<F32>(hart.float32(op.rs1), rounding, &mut hart.fflags);
        hart.set_float(op.rd, BOX | u64::from(result))
    };
    fsqrt_d: |hart, op| {
        let rounding = hart.rounding(op.imm as u8)?;
        let result = float::sqrt::<F64>(hart.float64(op.rs1), rounding, &mut hart.fflags);
        hart.set_float(op.rd, result)
    };
    fcvt_s_d: |hart, op| {
        let rounding = hart.rounding(op.imm as u8)?;
        let result = float::f64_to_f32(hart.float64(op.rs1), rounding, &mut hart.fflags);
        hart.set_float(op.rd, BOX | u64::from(result))
    };
    fcvt_d_s: |hart, op| {
        hart.rounding(op.imm as u8)?;
        let result = float::f32_to_f64(hart.float32(op.rs1), &mut hart.fflags);
        hart.set_float(op.rd, result)
    };
    fmv_x_w: |hart, op| hart.x[op.rd as usize] = i64::from(hart.float64(op.rs1) as i32) as u64;
    fmv_x_d: |hart, op| hart.x[op.rd as usize] = hart.float64(op.rs1);
    fmv_w_x: |hart, op| hart.set_float(op.rd, BOX | hart.x[op.rs1 as usize]);
    fmv_d_x: |hart, op| hart.set_float(op.rd, hart.x[op.rs1 as usize]);
    fclass_s: |hart, op| hart.x[op.rd as usize] = float::classify::<F32>(hart.float32(op.rs1));
    fclass_d: |hart, op| hart.x[op.rd as usize] = float::classify::<F64>(hart.float64(op.rs1));
}

/// Sign injection: the magnitude of the first operand with a sign computed from both.
macro_rules! sign_injection {
    ($($single:ident, $double:ident: |$a:ident, $b:ident| $sign:expr;)*) => {
        handlers! {$(
            $single: |hart, op| {
                let ($a, $b) = (hart.float32(op.rs1), hart.float32(op.rs2));
                let result = $a & !SIGN32 | $sign & SIGN32;
                hart.set_float(op.rd, BOX | u64::from(result))
            };
            $double: |hart, op| {
                let ($a, $b) = (hart.float64(op.rs1), hart.float64(op.rs2));
                hart.set_float(op.rd, $a & !SIGN64 | $sign & SIGN64)
            };
        )*}
    };
}

sign_injection! {
    fsgnj_s, fsgnj_d: |a, b| b;
    fsgnjn_s, fsgnjn_d: |a, b| !b;
    fsgnjx_s, fsgnjx_d: |a, b| (a ^ b);
}

macro_rules! min_max {
    ($($single:ident, $double:ident: $function:ident;)*) => {
        handlers! {$(
            $single: |hart, op| {
                let result = float::$function::<F32>(hart.float32(op.rs1), hart.float32(op.rs2), &mut hart.fflags);
                hart.set_float(op.rd, BOX | u64::from(result))
            };
            $double: |hart, op| {
                let result = float::$function::<F64>(hart.float64(op.rs1), hart.float64(op.rs2), &mut hart.fflags);
                hart.set_float(op.rd, result)
            };
        )*}
    };
}

min_max! {
    fmin_s, fmin_d: min;
    fmax_s, fmax_d: max;
}

/// Comparisons may raise NV, so the floating-point state is marked dirty.
macro_rules! comparisons {
    ($($single:ident, $double:ident: $function:ident;)*) => {
        handlers! {$(
            $single: |hart, op| {
                let (a, b) = (hart.float32(op.rs1), hart.float32(op.rs2));
                hart.x[op.rd as usize] = u64::from(float::$function::<F32>(a, b, &mut hart.fflags));
                hart.dirty_fp()
            };
            $double: |hart, op| {
                let (a, b) = (hart.float64(op.rs1), hart.float64(op.rs2));
                hart.x[op.rd as usize] = u64::from(float::$function::<F64>(a, b, &mut hart.fflags));
                hart.dirty_fp()
            };
        )*}
    };
}

comparisons! {
    feq_s, feq_d: eq;
    flt_s, flt_d: lt;
    fle_s, fle_d: le;
}

macro_rules! to_integer {
    ($($single:ident, $double:ident: $function:ident;)*) => {
        handlers! {$(
            $single: |hart, op| {
                let rounding = hart.rounding(op.imm as u8)?;
                let a = hart.float32(op.rs1);
                hart.x[op.rd as usize] = float::$function::<F32>(a, rounding, &mut hart.fflags);
                hart.dirty_fp()
            };
            $double: |hart, op| {
                let rounding = hart.rounding(op.imm as u8)?;
                let a = hart.float64(op.rs1);
                hart.x[op.rd as usize] = float::$function::<F64>(a, rounding, &mut hart.fflags);
                hart.dirty_fp()
            };
        )*}
    };
}

to_integer! {
    fcvt_w_s, fcvt_w_d: to_i32;
    fcvt_wu_s, fcvt_wu_d: to_u32;
    fcvt_l_s, fcvt_l_d: to_i64;
    fcvt_lu_s, fcvt_lu_d: to_u64;
}

macro_rules! from_integer {
    ($($single:ident, $double:ident: $function:ident;)*) => {
        handlers! {$(
            $single: |hart, op| {
                let rounding = hart.rounding(op.imm as u8)?;
                let value = hart.x[op.rs1 as usize];
                let result = float::$function::<F32>(value, rounding, &mut hart.fflags);
                hart.set_float(op.rd, BOX | u64::from(result))
            };
            $double: |hart, op| {
                let rounding = hart.rounding(op.imm as u8)?;
                let value = hart.x[op.rs1 as usize];
                let result = float::$function::<F64>(value, rounding, &mut hart.fflags);
                hart.set_float(op.rd, result)
            };
        )*}
    };
}

from_integer! {
    fcvt_s_w, fcvt_d_w: from_i32;
    fcvt_s_wu, fcvt_d_wu: from_u32;
    fcvt_s_l, fcvt_d_l: from_i64;
    fcvt_s_lu, fcvt_d_lu: from_u64;
}
