//! A tiny guest in place of testpmd: it enables its NIC's receiver, prints the ready marker, and sleeps.
//! Without a receive ring every frame is dropped, which makes a deterministic measurement.

use doorbell_assembler::{Assembler, T0, T1};
use doorbell_platform::map::{self, RegionId};

/// Address of the first NIC's registers.
const REGISTERS: u64 = 0x4000_0000;
/// Device 1 on bus 0; offsets of the command register and base address register 0 in configuration space.
const DEVICE: u64 = 1 << 15;
const COMMAND: i32 = 0x04;
const BAR0: i32 = 0x10;
const MEMORY_SPACE_AND_BUS_MASTER: u64 = 0b110;
/// 82540EM: CTRL.SLU sets the link up, RCTL.EN enables the receiver.
const CTRL: i32 = 0x0;
const SLU: u64 = 1 << 6;
const RCTL: i32 = 0x100;
const EN: u64 = 1 << 1;

/// The program, loaded as the firmware; it prints `marker` on the console.
pub fn program(marker: &str) -> Vec<u8> {
    let mut a = Assembler::new(map::RAM_BASE);
    a.li(T0, map::get(RegionId::PciEcam).base + DEVICE);
    a.li(T1, REGISTERS);
    a.sw(T1, T0, BAR0);
    a.li(T1, MEMORY_SPACE_AND_BUS_MASTER);
    a.sw(T1, T0, COMMAND);
    a.li(T0, REGISTERS);
    a.li(T1, SLU);
    a.sw(T1, T0, CTRL);
    a.li(T1, EN);
    a.sw(T1, T0, RCTL);
    a.li(T0, map::get(RegionId::Uart).base);
    for byte in marker.bytes().chain([b'\n']) {
        a.li(T1, u64::from(byte));
        a.sb(T1, T0, 0);
    }
    a.label("sleep");
    a.wfi();
    a.j("sleep");
    a.finish()
}
