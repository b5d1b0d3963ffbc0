//! Loads and stores, with and without access logging. The fast path is one TLB look-up and a host access;
//! everything else (misses, misaligned accesses, devices, pages with decoded code) is out of line.

use doorbell_sim::ram::PAGE_BYTES;
use doorbell_sim::{AccessSize, Ram};

use super::{Exit, Op, next};
use crate::hart::{DeviceAccess, Hart, LoadTarget, MmioRequest};
use crate::mmu::{Access, PAGE_MASK};
use crate::tlb::{TlbEntry, UNRECORDED};
use crate::trap::Exception;

/// Why an access was not completed by the fast or slow path.
pub(super) enum Missed {
    Fault(Exception, u64),
    /// Not RAM: a device, or nothing.
    Device(doorbell_sim::PhysAddr),
}

/// Reads up to eight bytes by the slow path. Misaligned accesses work in RAM, also across pages.
#[cold]
#[inline(never)]
fn load_slow(hart: &mut Hart, ram: &mut Ram, virt: u64, len: u64) -> Result<u64, Missed> {
    hart.access_log.log_crossing(virt, len);
    let in_page = PAGE_BYTES - (virt & !PAGE_MASK);
    if len > in_page {
        let low = load_slow_part(hart, ram, virt, in_page)?;
        let high = load_slow_part(hart, ram, virt.wrapping_add(in_page), len - in_page)?;
        return Ok(low | high << (8 * in_page));
    }
    let phys = hart.translate_data(ram, virt, len, Access::Load).map_err(|e| Missed::Fault(e, virt))?;
    let mut bytes = [0; 8];
    if ram.copy_out(phys, &mut bytes[..len as usize]) {
        return Ok(u64::from_le_bytes(bytes));
    }
    if virt & (len - 1) != 0 {
        return Err(Missed::Fault(Exception::LoadAddressMisaligned, virt));
    }
    Err(Missed::Device(phys))
}

/// Reads one side of an access that crosses a page; both sides must be RAM.
fn load_slow_part(hart: &mut Hart, ram: &mut Ram, virt: u64, len: u64) -> Result<u64, Missed> {
    let phys = hart.translate_data(ram, virt, len, Access::Load).map_err(|e| Missed::Fault(e, virt))?;
    let mut bytes = [0; 8];
    if !ram.copy_out(phys, &mut bytes[..len as usize]) {
        return Err(Missed::Fault(Exception::LoadAccessFault, virt));
    }
    Ok(u64::from_le_bytes(bytes))
}

/// Writes up to eight bytes by the slow path. A store that faults on its second page leaves the first
/// unchanged.
#[cold]
#[inline(never)]
fn store_slow(hart: &mut Hart, ram: &mut Ram, virt: u64, len: u64, value: u64) -> Result<(), Missed> {
    hart.access_log.log_crossing(virt, len);
    let in_page = PAGE_BYTES - (virt & !PAGE_MASK);
    let bytes = value.to_le_bytes();
    let fault = |at: u64| move |e: Exception| Missed::Fault(e, at);
    if len > in_page {
        let next_page = virt.wrapping_add(in_page);
        let low = hart.translate_data(ram, virt, in_page, Access::Store).map_err(fault(virt))?;
        let high =
            hart.translate_data(ram, next_page, len - in_page, Access::Store).map_err(fault(next_page))?;
        let (first, second) = bytes[..len as usize].split_at(in_page as usize);
        if ram.offset(low, in_page).is_none() || ram.offset(high, len - in_page).is_none() {
            return Err(Missed::Fault(Exception::StoreAccessFault, virt));
        }
        ram.store_from_hart(hart.config.id, low, first);
        ram.store_from_hart(hart.config.id, high, second);
        return Ok(());
    }
    let phys = hart.translate_data(ram, virt, len, Access::Store).map_err(fault(virt))?;
    if ram.store_from_hart(hart.config.id, phys, &bytes[..len as usize]) {
        return Ok(());
    }
    if virt & (len - 1) != 0 {
        return Err(Missed::Fault(Exception::StoreAddressMisaligned, virt));
    }
    Err(Missed::Device(phys))
}

/// Leaves the block for a fault or a device access.
#[cold]
#[inline(never)]
pub(super) fn missed(
    hart: &mut Hart,
    op: &Op,
    end: u8,
    len: u64,
    virt: u64,
    why: Missed,
    access: DeviceAccess,
) -> Exit {
    match why {
        Missed::Fault(exception, tval) => hart.trap_at(op, exception, tval),
        Missed::Device(addr) => {
            let size = AccessSize::from_bytes(len).expect("loads and stores move 1, 2, 4 or 8 bytes");
            hart.exit_op = op as *const Op as usize;
            hart.pc = hart.pc_of(op);
            let len = (end - op.at) * 2;
            hart.pending_mmio = Some(MmioRequest { addr, size, access, virt, len });
            Exit::Device
        }
    }
}

/// The address of a load or store.
#[inline(always)]
pub(super) fn address(hart: &Hart, op: &Op) -> u64 {
    hart.x[op.rs1 as usize].wrapping_add(i64::from(op.imm) as u64)
}

/// Reads a `T` at `virt` by the fast or slow path, and logs the access if `LOG` is set. For unsafe blocks: a
/// load tag is set only for a page of RAM, with `addend` leading to its host copy. If the tag matches, the
/// access is aligned and in that page. An op logs at most once.
macro_rules! load_value {
    ($hart:ident, $ram:ident, $virt:ident, $type:ty, $log:ident) => {{
        const LEN: u64 = size_of::<$type>() as u64;
        let TlbEntry { load_tag, addend, recorded_era, .. } = *$hart.tlb_entry($virt);
        if load_tag == $virt & (PAGE_MASK | (LEN - 1)) {
            if $log {
                $hart.access_log.log($virt, recorded_era);
            }
            Ok(($virt.wrapping_add(addend) as *const $type).read())
        } else {
            if $log {
                $hart.access_log.log($virt, UNRECORDED);
            }
            load_slow($hart, $ram, $virt, LEN).map(|value| value as $type)
        }
    }};
}

macro_rules! loads {
    ($($name:ident: $type:ty, $target:ident, signed $signed:literal, |$hart:ident, $op:ident, $value:ident| $put:expr;)*) => {$(
        /// # Safety
        /// As for [`Handler`](super::Handler).
        pub(super) unsafe fn $name<const LOG: bool>($hart: &mut Hart, ram: &mut Ram, op: *const Op) -> Exit {
            // SAFETY: `op` is an op of a block, and a load never ends one; for the access and the log see
            // `load_value`.
            unsafe {
                let $op = &*op;
                let virt = address($hart, $op);
                match load_value!($hart, ram, virt, $type, LOG) {
                    Ok($value) => {
                        $put;
                        next($hart, ram, op)
                    }
                    Err(why) => {
                        let target = loads!(@target $target, $signed, $op);
                        let end = (*op.add(1)).at;
                        missed($hart, $op, end, size_of::<$type>() as u64, virt, why, DeviceAccess::Load(target))
                    }
                }
            }
        }
    )*};
    (@target integer, $signed:literal, $op:ident) => { LoadTarget::Integer { rd: $op.rd, signed: $signed } };
    (@target float, $signed:literal, $op:ident) => { LoadTarget::Float { rd: $op.rd } };
}

loads! {
    lb: i8, integer, signed true, |hart, op, value| hart.x[op.rd as usize] = value as u64;
    lh: i16, integer, signed true, |hart, op, value| hart.x[op.rd as usize] = value as u64;
    lw: i32, integer, signed true, |hart, op, value| hart.x[op.rd as usize] = value as u64;
    ld: u64, integer, signed false, |hart, op, value| hart.x[op.rd as usize] = value;
    lbu: u8, integer, signed false, |hart, op, value| hart.x[op.rd as usize] = u64::from(value);
    lhu: u16, integer, signed false, |hart, op, value| hart.x[op.rd as usize] = u64::from(value);
    lwu: u32, integer, signed false, |hart, op, value| hart.x[op.rd as usize] = u64::from(value);
    load_f32: u32, float, signed false, |hart, op, value| hart.set_float(op.rd, u64::from(value) | 0xffff_ffff_0000_0000);
    load_f64: u64, float, signed false, |hart, op, value| hart.set_float(op.rd, value);
}

macro_rules! stores {
    ($($name:ident: $type:ty, |$hart:ident, $op:ident| $value:expr;)*) => {$(
        /// # Safety
        /// As for [`Handler`](super::Handler).
        pub(super) unsafe fn $name<const LOG: bool>($hart: &mut Hart, ram: &mut Ram, op: *const Op) -> Exit {
            const LEN: u64 = size_of::<$type>() as u64;
            // SAFETY: `op` is an op of a block, and a store never ends one. A store tag is set only for a
            // page of RAM that may be written freely. If the tag matches, the access is aligned and within
            // that page. An op logs once.
            unsafe {
                let $op = &*op;
                let virt = address($hart, $op);
                let value: u64 = $value;
                let TlbEntry { store_tag, addend, recorded_era, .. } = *$hart.tlb_entry(virt);
                if store_tag == virt & (PAGE_MASK | (LEN - 1)) {
                    if LOG {
                        $hart.access_log.log(virt, recorded_era);
                    }
                    (virt.wrapping_add(addend) as *mut $type).write(value as $type);
                    return next($hart, ram, op);
                }
                if LOG {
                    $hart.access_log.log(virt, UNRECORDED);
                }
                match store_slow($hart, ram, virt, LEN, value) {
                    Ok(()) if ram.has_stale_code() => leave_stale($hart, op),
                    Ok(()) => next($hart, ram, op),
                    Err(why) => {
                        let end = (*op.add(1)).at;
                        missed($hart, $op, end, LEN, virt, why, DeviceAccess::Store(value & (u64::MAX >> (64 - 8 * LEN))))
                    }
                }
            }
        }
    )*};
}

stores! {
    sb: u8, |hart, op| hart.x[op.rs2 as usize];
    sh: u16, |hart, op| hart.x[op.rs2 as usize];
    sw: u32, |hart, op| hart.x[op.rs2 as usize];
    sd: u64, |hart, op| hart.x[op.rs2 as usize];
    store_f32: u32, |hart, op| hart.f[op.rs2 as usize & 31];
    store_f64: u64, |hart, op| hart.f[op.rs2 as usize & 31];
}

/// Leaves the block after `op`, because decoded code may no longer match memory.
///
/// # Safety
/// `op` is an op of a block and not its last.
#[cold]
pub(super) unsafe fn leave_stale(hart: &mut Hart, op: *const Op) -> Exit {
    hart.exit_op = op as usize;
    // SAFETY: `op` is not the block's last.
    hart.pc = hart.pc_of(unsafe { &*op.add(1) });
    Exit::Stale
}

/// FLW, FLD, FSW and FSD are illegal while the floating-point unit is off.
macro_rules! if_fp_enabled {
    ($($name:ident = $inner:ident;)*) => {$(
        /// # Safety
        /// As for [`Handler`](super::Handler).
        pub(super) unsafe fn $name<const LOG: bool>(hart: &mut Hart, ram: &mut Ram, op: *const Op) -> Exit {
            // SAFETY: arguments are passed on.
            unsafe {
                if !hart.fp_enabled {
                    return super::float_ops::unit_off(hart, ram, &*op);
                }
                $inner::<LOG>(hart, ram, op)
            }
        }
    )*};
}

if_fp_enabled! {
    flw = load_f32;
    fld = load_f64;
    fsw = store_f32;
    fsd = store_f64;
}
