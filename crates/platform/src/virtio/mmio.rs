//! The registers of a device behind virtio-mmio (VIRTIO 1.2, 4.2.2), and feature negotiation (2.2, 3.1).
//!
//! All registers below the configuration space are 32 bits wide. An access of another width, or to an offset
//! without a register, reads as zero, has no effect, and is counted. Configuration space supports every
//! width.

use doorbell_sim::AccessSize;
use serde::{Deserialize, Serialize};

use super::queue::{QUEUE_SIZE_MAX, Queue, RingFeatures};
use crate::registers::{Access, Register, find};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum VirtioRegister {
    MagicValue,
    Version,
    DeviceId,
    VendorId,
    DeviceFeatures,
    DeviceFeaturesSel,
    DriverFeatures,
    DriverFeaturesSel,
    QueueSel,
    QueueNumMax,
    QueueNum,
    QueueReady,
    QueueNotify,
    InterruptStatus,
    InterruptAck,
    Status,
    QueueDescLow,
    QueueDescHigh,
    QueueDriverLow,
    QueueDriverHigh,
    QueueDeviceLow,
    QueueDeviceHigh,
    ShmSel,
    ShmLow,
    ConfigGeneration,
}

use VirtioRegister as R;

/// "virt" in little-endian order.
const MAGIC: u64 = 0x7472_6976;
const VERSION: u64 = 2;
const BLOCK_DEVICE: u64 = 2;
/// "DRBL", analogous to QEMU's "QEMU".
const VENDOR: u64 = 0x4c42_5244;
/// Offset of configuration space.
pub const CONFIG_AT: u64 = 0x100;

const fn row(id: R, name: &'static str, offset: u64, reset: u64, access: Access) -> Register<R> {
    Register::one(id, name, offset, 4, reset, access, "VIRTIO 1.2, 4.2.2")
}

/// The register table. There are no shared memory regions, so their lengths and bases read as all ones.
pub const REGISTERS: [Register<R>; 25] = [
    row(R::MagicValue, "MagicValue", 0x000, MAGIC, Access::ReadOnly),
    row(R::Version, "Version", 0x004, VERSION, Access::ReadOnly),
    row(R::DeviceId, "DeviceID", 0x008, BLOCK_DEVICE, Access::ReadOnly),
    row(R::VendorId, "VendorID", 0x00c, VENDOR, Access::ReadOnly),
    row(R::DeviceFeatures, "DeviceFeatures", 0x010, OFFERED & 0xffff_ffff, Access::ReadOnly),
    row(R::DeviceFeaturesSel, "DeviceFeaturesSel", 0x014, 0, Access::WriteOnly),
    row(R::DriverFeatures, "DriverFeatures", 0x020, 0, Access::WriteOnly),
    row(R::DriverFeaturesSel, "DriverFeaturesSel", 0x024, 0, Access::WriteOnly),
    row(R::QueueSel, "QueueSel", 0x030, 0, Access::WriteOnly),
    row(R::QueueNumMax, "QueueNumMax", 0x034, QUEUE_SIZE_MAX as u64, Access::ReadOnly),
    row(R::QueueNum, "QueueNum", 0x038, 0, Access::WriteOnly),
    row(R::QueueReady, "QueueReady", 0x044, 0, Access::ReadWrite),
    row(R::QueueNotify, "QueueNotify", 0x050, 0, Access::WriteOnly),
    row(R::InterruptStatus, "InterruptStatus", 0x060, 0, Access::ReadOnly),
    row(R::InterruptAck, "InterruptACK", 0x064, 0, Access::WriteOnly),
    row(R::Status, "Status", 0x070, 0, Access::ReadWrite),
    row(R::QueueDescLow, "QueueDescLow", 0x080, 0, Access::WriteOnly),
    row(R::QueueDescHigh, "QueueDescHigh", 0x084, 0, Access::WriteOnly),
    row(R::QueueDriverLow, "QueueDriverLow", 0x090, 0, Access::WriteOnly),
    row(R::QueueDriverHigh, "QueueDriverHigh", 0x094, 0, Access::WriteOnly),
    row(R::QueueDeviceLow, "QueueDeviceLow", 0x0a0, 0, Access::WriteOnly),
    row(R::QueueDeviceHigh, "QueueDeviceHigh", 0x0a4, 0, Access::WriteOnly),
    row(R::ShmSel, "SHMSel", 0x0ac, 0, Access::WriteOnly),
    row(R::ShmLow, "SHMLenLow", 0x0b0, 0xffff_ffff, Access::ReadOnly).array(4, 4),
    row(R::ConfigGeneration, "ConfigGeneration", 0x0fc, 0, Access::ReadOnly),
];

const F_INDIRECT_DESC: u64 = 1 << 28;
const F_EVENT_IDX: u64 = 1 << 29;
const F_VERSION_1: u64 = 1 << 32;
/// All features offered to the driver.
pub const OFFERED: u64 = super::block::FEATURES | F_INDIRECT_DESC | F_EVENT_IDX | F_VERSION_1;

/// Bits of Status (2.1).
const DRIVER_OK: u32 = 4;
const FEATURES_OK: u32 = 8;
const NEEDS_RESET: u32 = 64;
const STATUS_MASK: u32 = 0xff;

/// Bits of InterruptStatus (4.2.2).
const USED_BUFFER: u32 = 1;
const CONFIGURATION_CHANGE: u32 = 2;

/// The effect of a write on the device behind the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// No further effect.
    None,
    /// The driver has put requests on the ring.
    Notified,
    /// Drop all requests in flight.
    Reset,
}

/// The registers; also their saved state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registers {
    status: u32,
    device_features_sel: u32,
    driver_features_sel: u32,
    driver_features: u64,
    queue_sel: u32,
    interrupt_status: u32,
    /// The only queue.
    pub queue: Queue,
    /// Undefined accesses, for the device's counters.
    pub undefined_accesses: u64,
}

fn set_half(value: &mut u64, high: bool, half: u32) {
    *value = if high {
        *value & 0xffff_ffff | u64::from(half) << 32
    } else {
        *value & !0xffff_ffff | u64::from(half)
    };
}

/// Reads an empty slot: magic value, version and vendor are valid, everything else is zero.
pub fn read_empty(offset: u64, size: AccessSize) -> u64 {
    let hit = find(&REGISTERS, offset, size).filter(|_| size == AccessSize::B4);
    match hit.map(|hit| hit.id) {
        Some(R::MagicValue) => MAGIC,
        Some(R::Version) => VERSION,
        Some(R::VendorId) => VENDOR,
        _ => 0,
    }
}

impl Registers {
    /// The interrupt line.
    pub fn irq(&self) -> bool {
        self.interrupt_status != 0
    }

    /// Whether the driver has completed its set-up and no error has occurred since.
    pub fn is_running(&self) -> bool {
        self.status & (DRIVER_OK | FEATURES_OK | NEEDS_RESET) == DRIVER_OK | FEATURES_OK && self.queue.ready
    }

    /// The negotiated features of rings.
    pub fn ring_features(&self) -> RingFeatures {
        RingFeatures {
            indirect: self.driver_features & F_INDIRECT_DESC != 0,
            event_index: self.driver_features & F_EVENT_IDX != 0,
        }
    }

    /// Signals new entries in the used ring.
    pub fn interrupt(&mut self) {
        self.interrupt_status |= USED_BUFFER;
    }

    /// Stops the device until the driver resets it, after a rule violation (2.1.2).
    pub fn need_reset(&mut self) {
        self.status |= NEEDS_RESET;
        if self.status & DRIVER_OK != 0 {
            self.interrupt_status |= CONFIGURATION_CHANGE;
        }
    }

    /// Whether a saved state is valid; an invalid queue must not be used.
    pub fn is_valid(&self) -> bool {
        let queue_ok = !self.queue.ready || self.queue.is_valid();
        let agreed = self.status & FEATURES_OK == 0 || self.driver_features & !OFFERED == 0;
        queue_ok && agreed && self.status <= STATUS_MASK
    }

    /// Reads a register.
    pub fn read(&mut self, offset: u64, size: AccessSize, config_space: &[u8]) -> u64 {
        if offset >= CONFIG_AT {
            let at = (offset - CONFIG_AT) as usize;
            let bytes = size.bytes() as usize;
            if !at.is_multiple_of(bytes) || at + bytes > config_space.len() {
                self.undefined_accesses += 1;
                return 0;
            }
            return config_space[at..at + bytes]
                .iter()
                .rev()
                .fold(0, |value, byte| value << 8 | u64::from(*byte));
        }
        let hit = find(&REGISTERS, offset, size).filter(|_| size == AccessSize::B4);
        let first_queue = self.queue_sel == 0;
        match hit.map(|hit| hit.id) {
            Some(R::MagicValue) => MAGIC,
            Some(R::Version) => VERSION,
            Some(R::DeviceId) => BLOCK_DEVICE,
            Some(R::VendorId) => VENDOR,
            Some(R::DeviceFeatures) => match self.device_features_sel {
                half @ (0 | 1) => OFFERED >> (32 * half) & 0xffff_ffff,
                _ => 0,
            },
            Some(R::QueueNumMax) if first_queue => u64::from(QUEUE_SIZE_MAX),
            Some(R::QueueReady) if first_queue => u64::from(self.queue.ready),
            // The queue does not exist.
            Some(R::QueueNumMax | R::QueueReady) => 0,
            Some(R::InterruptStatus) => u64::from(self.interrupt_status),
            Some(R::Status) => u64::from(self.status),
            Some(R::ShmLow) => 0xffff_ffff,
            Some(R::ConfigGeneration) => 0,
            _ => {
                self.undefined_accesses += 1;
                0
            }
        }
    }

    /// Writes a register.
    pub fn write(&mut self, offset: u64, size: AccessSize, value: u64) -> Effect {
        let hit = find(&REGISTERS, offset, size).filter(|_| size == AccessSize::B4);
        let value = value as u32;
        match hit.map(|hit| hit.id) {
            Some(R::DeviceFeaturesSel) => self.device_features_sel = value,
            Some(R::DriverFeaturesSel) => self.driver_features_sel = value,
            // 3.1.1: negotiated features are final.
            Some(R::DriverFeatures) if self.status & FEATURES_OK == 0 && self.driver_features_sel < 2 => {
                set_half(&mut self.driver_features, self.driver_features_sel == 1, value);
            }
            Some(R::QueueSel) => self.queue_sel = value,
            Some(R::QueueNotify) if value == 0 && self.is_running() => return Effect::Notified,
            Some(R::InterruptAck) => self.interrupt_status &= !value,
            Some(R::Status) => return self.write_status(value & STATUS_MASK),
            Some(R::QueueReady) if self.queue_sel == 0 && value == 0 => self.queue.ready = false,
            Some(R::ShmSel) => {}
            Some(register) if self.queue_sel == 0 && !self.queue.ready => self.set_up_queue(register, value),
            _ => self.undefined_accesses += 1,
        }
        Effect::None
    }

    fn set_up_queue(&mut self, register: R, value: u32) {
        let queue = &mut self.queue;
        match register {
            // A size out of range becomes 0, with which the queue cannot be enabled.
            R::QueueNum => queue.size = u16::try_from(value).unwrap_or(0),
            R::QueueDescLow => set_half(&mut queue.descriptors, false, value),
            R::QueueDescHigh => set_half(&mut queue.descriptors, true, value),
            R::QueueDriverLow => set_half(&mut queue.driver, false, value),
            R::QueueDriverHigh => set_half(&mut queue.driver, true, value),
            R::QueueDeviceLow => set_half(&mut queue.device, false, value),
            R::QueueDeviceHigh => set_half(&mut queue.device, true, value),
            R::QueueReady if value == 1 && queue.is_valid() => queue.enable(),
            _ => self.undefined_accesses += 1,
        }
    }

    fn write_status(&mut self, value: u32) -> Effect {
        if value == 0 {
            *self = Registers { undefined_accesses: self.undefined_accesses, ..Registers::default() };
            return Effect::Reset;
        }
        // 2.1: the driver sets bits and does not clear them. 2.2.2: FEATURES_OK stays clear without VERSION_1
        // or with features that were not offered.
        let agreed = self.driver_features & F_VERSION_1 != 0 && self.driver_features & !OFFERED == 0;
        let refused = if agreed { 0 } else { FEATURES_OK };
        self.status |= value & !NEEDS_RESET & !refused;
        Effect::None
    }
}
