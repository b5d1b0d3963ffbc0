//! A guest of some dozen instructions, in the place of testpmd: it switches its NIC's receiver on, says that it is ready, and sleeps.
//! It has no receive ring, so every frame is dropped, which a measurement tells as exactly as anything else.

use doorbell_platform::map::{self, RegionId};
use doorbell_platform::sbi::assembler::{Assembler, T0, T1};

/// Where the first NIC's registers are put.
const REGISTERS: u64 = 0x4000_0000;
/// Device 1 on bus 0; in its configuration space, the command register and base address register 0.
const DEVICE: u64 = 1 << 15;
const COMMAND: i32 = 0x04;
const BAR0: i32 = 0x10;
const MEMORY_SPACE_AND_BUS_MASTER: u64 = 0b110;
/// 82540EM: CTRL.SLU sets the link up, RCTL.EN switches the receiver on.
const CTRL: i32 = 0x0;
const SLU: u64 = 1 << 6;
const RCTL: i32 = 0x100;
const EN: u64 = 1 << 1;

/// The program, to be loaded as the firmware; it shows `marker` on the console.
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
