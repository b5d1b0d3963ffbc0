//! Set-up of the APLIC for the supervisor: delegates every source, and sets the addresses of the interrupt
//! files (The RISC-V Advanced Interrupt Architecture, chapter APLIC). The supervisor cannot do this itself.

use super::assembler::{Assembler, *};
use super::layout::HARTS_MAX;
use crate::imsic::FILE_BYTES;
use crate::map::{self, APLIC_SOURCES, RegionId};

/// Regions closed to the supervisor: with the root domain it could send messages to any address.
pub(super) const CLOSED: [RegionId; 2] = [RegionId::AplicMachine, RegionId::ImsicMachine];

/// Registers of the root domain.
const DOMAIN_CONFIG: i32 = 0;
const SOURCE_CONFIG: i32 = 4;
const MESSAGE_ADDRESS: i32 = 0x1bc0;
/// In `sourcecfg`: delegated to child 0, the supervisor's domain.
const DELEGATE: u64 = 1 << 10;
/// The field LHXW of `mmsiaddrcfgh`: width of the hart number; the harts' files are one page apart.
const HART_BITS_SHIFT: u32 = 12;

const _: () = assert!(FILE_BYTES == 1 << 12);

/// Changes t0 to t3.
pub(super) fn set_up(a: &mut Assembler) {
    a.li(T0, map::get(RegionId::AplicMachine).base);
    a.sw(ZERO, T0, DOMAIN_CONFIG);
    a.li(T1, DELEGATE);
    a.li(T2, u64::from(APLIC_SOURCES));
    a.addi(T3, T0, SOURCE_CONFIG);
    a.label("messages.delegate");
    a.sw(T1, T3, 0);
    a.addi(T3, T3, 4);
    a.addi(T2, T2, -1);
    a.bnez(T2, "messages.delegate");
    a.li(T2, MESSAGE_ADDRESS as u64);
    a.add(T0, T0, T2);
    let hart_bits = u64::from(HARTS_MAX.ilog2());
    let page = |id| map::get(id).base / FILE_BYTES;
    let values =
        [page(RegionId::ImsicMachine), hart_bits << HART_BITS_SHIFT, page(RegionId::ImsicSupervisor), 0];
    for (value, offset) in values.into_iter().zip([0, 4, 8, 12]) {
        a.li(T1, value);
        a.sw(T1, T0, offset);
    }
}
