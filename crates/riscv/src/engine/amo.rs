//! A extension: LR, SC and the atomic read-modify-writes. Only naturally aligned accesses to RAM; all others
//! fault, as the platform's physical memory attributes specify.

use doorbell_sim::{PhysAddr, Ram};

use super::memory::leave_stale;
use super::{Exit, Op, next};
use crate::hart::Hart;
use crate::mmu::Access;
use crate::trap::Exception;

/// The physical address of an atomic access of `len` bytes to RAM.
fn atomic_address(
    hart: &mut Hart,
    ram: &mut Ram,
    op: &Op,
    len: u64,
    access: Access,
) -> Result<PhysAddr, Exit> {
    let virt = hart.x[op.rs1 as usize];
    let misaligned = match access {
        Access::Load => Exception::LoadAddressMisaligned,
        _ => Exception::StoreAddressMisaligned,
    };
    if virt & (len - 1) != 0 {
        return Err(hart.trap_at(op, misaligned, virt));
    }
    if let Some(phys) = hart.tlb_lookup(ram, virt, len, access) {
        return Ok(phys);
    }
    let phys = match hart.translate_data(ram, virt, len, access) {
        Ok(phys) => phys,
        Err(exception) => return Err(hart.trap_at(op, exception, virt)),
    };
    if ram.offset(phys, len).is_none() {
        return Err(hart.trap_at(op, access.access_fault(), virt));
    }
    Ok(phys)
}

fn read(ram: &Ram, addr: PhysAddr, len: u64) -> u64 {
    let value = if len == 4 {
        ram.load::<4>(addr).map(|bytes| i64::from(i32::from_le_bytes(bytes)) as u64)
    } else {
        ram.load_u64(addr)
    };
    value.expect("the address was checked")
}

/// Continues after an op that may have written to a code page.
///
/// # Safety
/// As for [`next`].
unsafe fn continue_after(hart: &mut Hart, ram: &mut Ram, op: *const Op) -> Exit {
    // SAFETY: arguments are passed on.
    unsafe { if ram.has_stale_code() { leave_stale(hart, op) } else { next(hart, ram, op) } }
}

/// # Safety
/// As for [`Handler`](super::Handler).
#[inline(never)]
unsafe fn load_reserved(hart: &mut Hart, ram: &mut Ram, op: *const Op, len: u64) -> Exit {
    // SAFETY: `op` is an op of a block, and LR never ends one.
    unsafe {
        let o = &*op;
        match atomic_address(hart, ram, o, len, Access::Load) {
            Err(exit) => exit,
            Ok(addr) => {
                ram.reserve(hart.config.id, addr);
                hart.x[o.rd as usize] = read(ram, addr, len);
                next(hart, ram, op)
            }
        }
    }
}

/// # Safety
/// As for [`Handler`](super::Handler).
#[inline(never)]
unsafe fn store_conditional(hart: &mut Hart, ram: &mut Ram, op: *const Op, len: u64) -> Exit {
    // SAFETY: `op` is an op of a block, and SC never ends one.
    unsafe {
        let o = &*op;
        match atomic_address(hart, ram, o, len, Access::Store) {
            Err(exit) => exit,
            Ok(addr) => {
                let reserved = ram.take_reservation(hart.config.id, addr);
                if reserved {
                    ram.store_from_hart(
                        hart.config.id,
                        addr,
                        &hart.x[o.rs2 as usize].to_le_bytes()[..len as usize],
                    );
                }
                hart.x[o.rd as usize] = u64::from(!reserved);
                continue_after(hart, ram, op)
            }
        }
    }
}

/// # Safety
/// As for [`Handler`](super::Handler).
#[inline(always)]
unsafe fn modify(
    hart: &mut Hart,
    ram: &mut Ram,
    op: *const Op,
    len: u64,
    change: impl FnOnce(u64, u64) -> u64,
) -> Exit {
    // SAFETY: `op` is an op of a block, and an AMO never ends one.
    unsafe {
        let o = &*op;
        match atomic_address(hart, ram, o, len, Access::Store) {
            Err(exit) => exit,
            Ok(addr) => {
                let old = read(ram, addr, len);
                let operand = hart.x[o.rs2 as usize];
                let new = change(old, operand).to_le_bytes();
                ram.store_from_hart(hart.config.id, addr, &new[..len as usize]);
                hart.x[o.rd as usize] = old;
                continue_after(hart, ram, op)
            }
        }
    }
}

/// # Safety
/// As for [`Handler`](super::Handler).
pub(super) unsafe fn lr_w(hart: &mut Hart, ram: &mut Ram, op: *const Op) -> Exit {
    // SAFETY: arguments are passed on.
    unsafe { load_reserved(hart, ram, op, 4) }
}

/// # Safety
/// As for [`Handler`](super::Handler).
pub(super) unsafe fn lr_d(hart: &mut Hart, ram: &mut Ram, op: *const Op) -> Exit {
    // SAFETY: arguments are passed on.
    unsafe { load_reserved(hart, ram, op, 8) }
}

/// # Safety
/// As for [`Handler`](super::Handler).
pub(super) unsafe fn sc_w(hart: &mut Hart, ram: &mut Ram, op: *const Op) -> Exit {
    // SAFETY: arguments are passed on.
    unsafe { store_conditional(hart, ram, op, 4) }
}

/// # Safety
/// As for [`Handler`](super::Handler).
pub(super) unsafe fn sc_d(hart: &mut Hart, ram: &mut Ram, op: *const Op) -> Exit {
    // SAFETY: arguments are passed on.
    unsafe { store_conditional(hart, ram, op, 8) }
}

/// For word operations `old` is sign-extended; operands are truncated to a word where it matters.
macro_rules! amos {
    ($($word:ident, $double:ident: |$old:ident, $operand:ident| $w:expr, $d:expr;)*) => {$(
        /// # Safety
        /// As for [`Handler`](super::Handler).
        pub(super) unsafe fn $word(hart: &mut Hart, ram: &mut Ram, op: *const Op) -> Exit {
            // SAFETY: arguments are passed on.
            unsafe { modify(hart, ram, op, 4, |$old, $operand| $w) }
        }
        /// # Safety
        /// As for [`Handler`](super::Handler).
        pub(super) unsafe fn $double(hart: &mut Hart, ram: &mut Ram, op: *const Op) -> Exit {
            // SAFETY: arguments are passed on.
            unsafe { modify(hart, ram, op, 8, |$old, $operand| $d) }
        }
    )*};
}

amos! {
    amoswap_w, amoswap_d: |_old, operand| operand, operand;
    amoadd_w, amoadd_d: |old, operand| old.wrapping_add(operand), old.wrapping_add(operand);
    amoxor_w, amoxor_d: |old, operand| old ^ operand, old ^ operand;
    amoand_w, amoand_d: |old, operand| old & operand, old & operand;
    amoor_w, amoor_d: |old, operand| old | operand, old | operand;
    amomin_w, amomin_d: |old, operand| (old as i32).min(operand as i32) as u64, (old as i64).min(operand as i64) as u64;
    amomax_w, amomax_d: |old, operand| (old as i32).max(operand as i32) as u64, (old as i64).max(operand as i64) as u64;
    amominu_w, amominu_d: |old, operand| u64::from((old as u32).min(operand as u32)), old.min(operand);
    amomaxu_w, amomaxu_d: |old, operand| u64::from((old as u32).max(operand as u32)), old.max(operand);
}
