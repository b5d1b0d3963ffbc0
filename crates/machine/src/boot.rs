//! Boot: loads firmware, kernel and initial RAM file system into a new machine.

use doorbell_platform::device_tree;
use doorbell_platform::{BootImages, BootLayout, DeviceTreeConfig, DeviceTreeError};
use doorbell_sim::Phase;

use crate::events::Event;
use crate::machine::Machine;

/// Images and command line of a guest.
#[derive(Clone, Debug)]
pub struct Guest {
    /// OpenSBI's `fw_dynamic.bin`, or a firmware with the same entry conditions.
    pub firmware: Vec<u8>,
    /// The kernel, a raw Image.
    pub kernel: Vec<u8>,
    /// The initial RAM file system.
    pub initramfs: Vec<u8>,
    /// The kernel's command line.
    pub bootargs: String,
}

/// Why a guest cannot be booted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BootError {
    /// An image has the wrong format, or the images do not fit in RAM.
    #[error(transparent)]
    Layout(#[from] doorbell_platform::BootError),
    /// The device tree cannot describe the machine.
    #[error(transparent)]
    DeviceTree(#[from] DeviceTreeError),
}

/// Cycles of hart 0 before the other harts leave the reset ROM under OpenSBI. OpenSBI ignores the requested
/// boot hart: the fastest hart starts the kernel, when hart 0 has executed 0.5 to 1 million instructions.
/// Without this delay, the kernel's first hart would depend on the device tree's length.
const OTHERS_START: u64 = 2_000_000;
/// Text in OpenSBI's banner and error messages. Other firmware starts its harts without this delay.
const OPENSBI: &[u8] = b"OpenSBI";

impl Machine {
    /// Puts a bare-metal program at the beginning of RAM. Every hart starts there in machine mode, with its
    /// number in a0. Returns `false` if RAM is too small.
    #[must_use]
    pub fn load_bare(&mut self, program: &[u8]) -> bool {
        let base = self.ram.base();
        for (id, hart) in self.harts.iter_mut().enumerate() {
            hart.set_pc(base.0);
            hart.set_reg(10, id as u64);
        }
        self.ram.store(base, program)
    }

    /// Loads a guest into the machine; its harts start at the reset vector.
    pub fn load(&mut self, guest: &Guest) -> Result<(), BootError> {
        let images =
            BootImages { firmware: &guest.firmware, kernel: &guest.kernel, initrd: Some(&guest.initramfs) };
        let platform = self.config.platform.clone();
        let layout = BootLayout::plan(platform.ram, &images)?;
        let tree = device_tree::build(&DeviceTreeConfig {
            harts: platform.harts,
            threads: platform.threads,
            sstc: platform.sstc,
            interrupts: platform.interrupts,
            mmu: platform.mmu,
            timebase: platform.timebase,
            ram: platform.ram,
            bootargs: guest.bootargs.clone(),
            initrd: layout.initrd.clone(),
            seed: platform.boot_seed,
            disks: self.disks.len() as u32,
        })?;
        self.reset_rom = layout.reset_rom(&tree)?;
        for (addr, bytes) in layout.loads(&images, &tree) {
            assert!(self.ram.store(addr, bytes), "a boot layout fits in RAM");
        }
        let is_opensbi = guest.firmware.windows(OPENSBI.len()).any(|bytes| bytes == OPENSBI);
        let others_start = self.slot_clocks().next().expect("a machine has a hart").edge(OTHERS_START);
        for (id, hart) in self.harts.iter_mut().enumerate() {
            // The reset ROM's few instructions are skipped, because harts cannot fetch from devices. Hart 0
            // leaves the ROM first.
            hart.set_pc(layout.firmware.start);
            for (register, value) in layout.registers(id as u32) {
                hart.set_reg(register as usize, value);
            }
            if id > 0 && is_opensbi {
                hart.hold();
                let event = Event::HartStart { hart: id as u32 };
                self.queue.schedule(others_start, Phase::Control, event);
            }
        }
        Ok(())
    }
}
