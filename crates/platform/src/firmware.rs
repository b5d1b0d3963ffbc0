//! From reset to firmware: the positions of firmware, kernel, initial RAM file system and device tree in RAM,
//! the reset ROM's contents, and the initial registers of a hart.
//!
//! Document: OpenSBI, "OpenSBI Platform Firmwares" and "FW_DYNAMIC" (a0 = hart, a1 = device tree, a2 =
//! `fw_dynamic_info`, version 2). The reset ROM has the layout of QEMU's `virt`, so that an execution can be
//! compared from reset; a machine may also start its harts directly at the firmware.
//!
//! RAM from the bottom: the firmware, then the kernel at its text offset (2 MiB). From the top: the device
//! tree on a 2 MiB boundary, with room for the firmware's additions, and the file system below it.

use std::ops::Range;

use doorbell_sim::{Bytes, PhysAddr};

use crate::linux_image::{ALIGNMENT, ImageError, LinuxImage};
use crate::map::{self, RegionId};

const PAGE_BYTES: u64 = 4096;
/// Size and alignment of the device tree's area at the top of RAM.
pub const DEVICE_TREE_ROOM_BYTES: u64 = 2 << 20;
/// Bytes by which firmware may enlarge the tree.
const DEVICE_TREE_GROWTH_BYTES: u64 = 64 << 10;

pub(crate) const FW_DYNAMIC_MAGIC: u64 = 0x4942_534f;
pub(crate) const FW_DYNAMIC_VERSION: u64 = 2;
const NEXT_MODE_SUPERVISOR: u64 = 1;
const NO_OPTIONS: u64 = 0;

/// Instructions of the reset ROM, as in QEMU's. The firmware's and the device tree's address follow.
const ROM_CODE: [u32; 6] = [
    0x0000_0297, // auipc t0, 0
    0x0282_8613, // addi a2, t0, 0x28
    0xf140_2573, // csrr a0, mhartid
    0x0202_b583, // ld a1, 0x20(t0)
    0x0182_b283, // ld t0, 0x18(t0)
    0x0002_8067, // jr t0
];
/// Offset of `struct fw_dynamic_info` in the reset ROM.
const ROM_DYNAMIC_INFO: u64 = 0x28;

/// The files to boot.
#[derive(Clone, Copy, Debug)]
pub struct BootImages<'a> {
    /// OpenSBI's `fw_dynamic.bin`, or another firmware with the same entry conditions.
    pub firmware: &'a [u8],
    /// The kernel, a raw Image.
    pub kernel: &'a [u8],
    /// The initial RAM file system.
    pub initrd: Option<&'a [u8]>,
}

/// Reasons why a machine cannot boot these files.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BootError {
    /// The kernel is invalid.
    #[error(transparent)]
    Kernel(#[from] ImageError),
    /// The firmware is empty or would overlap the kernel.
    #[error("the firmware has {found} bytes; there is room for 1 to {room} below the kernel")]
    Firmware {
        /// The firmware's size.
        found: u64,
        /// The available size.
        room: u64,
    },
    /// The initial RAM file system is empty.
    #[error("the initial RAM file system is empty; build the image again")]
    EmptyInitrd,
    /// The RAM does not hold everything.
    #[error("{ram} of RAM are too little for this kernel and its file system; use at least {needed}")]
    RamTooSmall {
        /// The machine's RAM size.
        ram: Bytes,
        /// The least RAM size.
        needed: Bytes,
    },
    /// The device tree is too large.
    #[error("the device tree has {found} bytes; there is room for {room}")]
    DeviceTree {
        /// The tree's size.
        found: u64,
        /// The available size.
        room: u64,
    },
}

/// Positions of everything in RAM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootLayout {
    /// The firmware.
    pub firmware: Range<u64>,
    /// The kernel, including the memory that it uses beyond its file.
    pub kernel: Range<u64>,
    /// The initial RAM file system.
    pub initrd: Option<Range<u64>>,
    /// The start of the device tree.
    pub device_tree: u64,
}

impl BootLayout {
    /// Computes the positions in a machine with this much RAM.
    pub fn plan(ram: Bytes, images: &BootImages) -> Result<BootLayout, BootError> {
        let kernel = LinuxImage::parse(images.kernel)?;
        let found = images.firmware.len() as u64;
        if found == 0 || found > kernel.text_offset {
            return Err(BootError::Firmware { found, room: kernel.text_offset });
        }
        let initrd_bytes = images.initrd.map(|initrd| initrd.len() as u64);
        if initrd_bytes == Some(0) {
            return Err(BootError::EmptyInitrd);
        }
        let kernel_end = kernel.text_offset + kernel.memory_bytes;
        let initrd_room = initrd_bytes.unwrap_or(0).next_multiple_of(PAGE_BYTES);
        let needed =
            (kernel_end + initrd_room).next_multiple_of(DEVICE_TREE_ROOM_BYTES) + DEVICE_TREE_ROOM_BYTES;
        // RAM above the last 2 MiB boundary is unused, so rounding down is correct.
        let usable = ram.0 / DEVICE_TREE_ROOM_BYTES * DEVICE_TREE_ROOM_BYTES;
        if usable < needed {
            return Err(BootError::RamTooSmall { ram, needed: Bytes(needed) });
        }
        let device_tree = map::RAM_BASE + usable - DEVICE_TREE_ROOM_BYTES;
        let initrd = initrd_bytes.map(|bytes| {
            let start = device_tree - initrd_room;
            start..start + bytes
        });
        Ok(BootLayout {
            firmware: map::RAM_BASE..map::RAM_BASE + found,
            kernel: map::RAM_BASE + kernel.text_offset..map::RAM_BASE + kernel_end,
            initrd,
            device_tree,
        })
    }

    /// The addresses and bytes to load into RAM before the first instruction.
    pub fn loads<'a>(&self, images: &BootImages<'a>, device_tree: &'a [u8]) -> Vec<(PhysAddr, &'a [u8])> {
        let fixed = [
            (self.firmware.start, images.firmware),
            (self.kernel.start, images.kernel),
            (self.device_tree, device_tree),
        ];
        let initrd = self.initrd.as_ref().map(|range| range.start).zip(images.initrd);
        fixed.into_iter().chain(initrd).map(|(addr, bytes)| (PhysAddr(addr), bytes)).collect()
    }

    /// The contents of the reset ROM from its first byte. The device tree's contents depend on this layout.
    pub fn reset_rom(&self, device_tree: &[u8]) -> Result<Vec<u8>, BootError> {
        let room = DEVICE_TREE_ROOM_BYTES - DEVICE_TREE_GROWTH_BYTES;
        let found = device_tree.len() as u64;
        if found > room {
            return Err(BootError::DeviceTree { found, room });
        }
        Ok(reset_rom(self.firmware.start, self.device_tree, &dynamic_info(self.kernel.start)))
    }

    /// The registers, by number, of a hart that starts directly at the firmware: the same as after the reset
    /// ROM. All others are zero.
    pub fn registers(&self, hart: u32) -> [(u32, u64); 4] {
        let info = map::get(RegionId::ResetRom).base + ROM_DYNAMIC_INFO;
        // t0, a0, a1 and a2.
        [(5, self.firmware.start), (10, hart.into()), (11, self.device_tree), (12, info)]
    }
}

/// `struct fw_dynamic_info` of a 64-bit machine: start this kernel in supervisor mode on hart 0. A boot
/// lottery would depend on timing.
fn dynamic_info(kernel: u64) -> Vec<u8> {
    let boot_hart = 0;
    [FW_DYNAMIC_MAGIC, FW_DYNAMIC_VERSION, kernel, NEXT_MODE_SUPERVISOR, NO_OPTIONS, boot_hart]
        .iter()
        .flat_map(|field| field.to_le_bytes())
        .collect()
}

fn reset_rom(firmware: u64, device_tree: u64, info: &[u8]) -> Vec<u8> {
    let mut rom: Vec<u8> = ROM_CODE.into_iter().flat_map(u32::to_le_bytes).collect();
    rom.extend(firmware.to_le_bytes());
    rom.extend(device_tree.to_le_bytes());
    rom.extend(info);
    rom
}

// The kernel's alignment must not break the device tree's alignment.
const _: () = assert!(DEVICE_TREE_ROOM_BYTES.is_multiple_of(ALIGNMENT));

#[cfg(test)]
#[path = "firmware_tests.rs"]
mod tests;
