//! Compares the 82576 with QEMU's igb over QEMU's test protocol: reset values, writable bits, read side
//! effects, register aliases, interrupt causes, and frames in both directions. Every difference is listed,
//! with the side that is right.
//!
//! The datasheet decides where it applies. `ethtool -t` of Linux's driver is Intel's own definition of the
//! writable bits of a register.

mod differences;
mod frames;
mod interrupts;
mod registers;

use doorbell_qtest::Qtest;
use doorbell_sim::{AccessSize, Ps};

use crate::igb::driver::{self, IgbBench};

const ECAM: u64 = 0x3000_0000;
const DEVICE: u64 = 1 << 15;
/// Address of the registers.
const BAR0: u64 = 0x4000_0000;

/// Our model, and QEMU's.
struct Both {
    ours: IgbBench,
    qemu: Qtest,
}

impl Both {
    /// After power-on, with memory accesses and bus mastering enabled. QEMU's time does not advance.
    fn new() -> Both {
        Both::with(&[])
    }

    /// As [`new`](Both::new), with more options for QEMU.
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

    /// Resets both by CTRL.RST.
    fn reset(&mut self) {
        self.write(driver::CTRL, 1 << 26);
        self.ours.run_for(Ps::from_us(10));
    }
}
