//! Names of the platform's registers, from the device tables, for the log.

use doorbell_sim::AccessSize;

use crate::map::RegionId;
use crate::registers::{Register, find};
use crate::{Uart, aplic, clint, imsic, plic, rtc, syscon};

/// The register's name at an offset of a device, such as `priority[33]`, or the offset if there is no
/// register. The UART's names depend on its state.
pub fn register_name(id: RegionId, offset: u64, size: AccessSize, uart: &Uart, writing: bool) -> String {
    let name = match id {
        RegionId::Clint => named(&clint::REGISTERS, offset, size),
        RegionId::Plic => named(&plic::REGISTERS, offset, size),
        RegionId::AplicMachine | RegionId::AplicSupervisor => named(&aplic::REGISTERS, offset, size),
        RegionId::ImsicMachine | RegionId::ImsicSupervisor => {
            let (hart, offset) = (offset / imsic::FILE_BYTES, offset % imsic::FILE_BYTES);
            named(&imsic::REGISTERS, offset, size).map(|register| format!("hart{hart} {register}"))
        }
        RegionId::Rtc => named(&rtc::REGISTERS, offset, size),
        RegionId::Syscon => named(&syscon::REGISTERS, offset, size),
        RegionId::Uart => uart.register_name(offset, writing).map(str::to_owned),
        _ => None,
    };
    name.unwrap_or_else(|| format!("{offset:#x}"))
}

/// The context whose claim/complete register is at this offset of the PLIC.
pub fn claim_context(offset: u64) -> Option<usize> {
    let hit = find(&plic::REGISTERS, offset, AccessSize::B4)?;
    (hit.id == plic::PlicRegister::ClaimComplete).then_some(hit.index)
}

fn named<R: Copy + PartialEq>(table: &[Register<R>], offset: u64, size: AccessSize) -> Option<String> {
    let hit = find(table, offset, size)?;
    let row = table.iter().find(|row| row.id == hit.id)?;
    Some(if row.count == 1 { row.name.to_owned() } else { format!("{}[{}]", row.name, hit.index) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_have_their_manuals_names() {
        let mut uart = Uart::default();
        let name =
            |uart: &Uart, id, offset, writing| register_name(id, offset, AccessSize::B4, uart, writing);
        assert_eq!(name(&uart, RegionId::Plic, 4 * 33, true), "priority[33]");
        assert_eq!(name(&uart, RegionId::Plic, 0x20_1004, false), "claim/complete[1]");
        assert_eq!(name(&uart, RegionId::AplicMachine, 0x1cdc, true), "setipnum");
        assert_eq!(name(&uart, RegionId::ImsicSupervisor, 0x3000, true), "hart3 seteipnum_le");
        assert_eq!(name(&uart, RegionId::Clint, 0x4008, true), "mtimecmp[1]");
        assert_eq!(name(&uart, RegionId::Rtc, 0, false), "TIME_LOW");
        assert_eq!(name(&uart, RegionId::Rtc, 0x40, false), "0x40");
        assert_eq!(name(&uart, RegionId::Uart, 0, false), "RBR");
        assert_eq!(name(&uart, RegionId::Uart, 0, true), "THR");
        uart.write(3, AccessSize::B1, 0x80);
        assert_eq!(name(&uart, RegionId::Uart, 0, true), "DLL");
        assert_eq!((claim_context(0x20_1004), claim_context(0x20_1000)), (Some(1), None));
    }
}
