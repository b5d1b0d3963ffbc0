//! The 82576 beside QEMU's igb, through QEMU's test protocol: after a reset, what of each register can be written, what reading clears, other
//! names of registers, interrupt causes, and frames both ways. Everything in which they differ is named, with who is right.
//!
//! The datasheet decides, where it says something. `ethtool -t` of Linux' driver is Intel's own word on which bits of a register hold what is written.

mod differences;
mod frames;
mod interrupts;
mod registers;

use doorbell_qtest::Qtest;
use doorbell_sim::{AccessSize, Ps};

use crate::driver::{self, IgbBench};

const ECAM: u64 = 0x3000_0000;
const DEVICE: u64 = 1 << 15;
/// Where the registers are.
const BAR0: u64 = 0x4000_0000;

/// Ours, and QEMU's.
struct Both {
    ours: IgbBench,
    qemu: Qtest,
}

impl Both {
    /// After power-on, with memory accesses and bus mastering allowed. Time stands still in QEMU.
    fn new() -> Both {
        Both::with(&[])
    }

    /// QEMU with more options.
    fn with(options: &[&str]) -> Both {
        let device = ["-m", "64", "-device", "igb,id=nic,addr=1,romfile=,mac=52:54:00:12:34:56"];
        let mut qemu = Qtest::start(&[&device, options].concat());
        qemu.write(ECAM + DEVICE + 0x10, AccessSize::B4, BAR0);
        qemu.write(ECAM + DEVICE + 4, AccessSize::B2, 6);
        Both { ours: IgbBench::new(), qemu }
    }

    fn read(&mut self, offset: u64) -> [u32; 2] {
        [self.ours.read(offset), self.qemu.read(BAR0 + offset, AccessSize::B4) as u32]
    }

    fn write(&mut self, offset: u64, value: u32) {
        self.ours.write(offset, value);
        self.qemu.write(BAR0 + offset, AccessSize::B4, value.into());
    }

    /// Both are reset by CTRL.RST.
    fn reset(&mut self) {
        self.write(driver::CTRL, 1 << 26);
        self.ours.run_for(Ps::from_us(10));
    }
}
