//! One function's configuration space, at byte granularity.
//!
//! Documents: PCI Local Bus Specification 3.0, chapter 6 (type 0 header, base address registers, MSI); PCI
//! Bus Power Management Interface Specification 1.2, section 3.2. Modelled: identity, command and status with
//! INTx disable and interrupt status, memory and I/O base address registers and their sizing, or a bridge's
//! bus numbers and windows (type 1 header: PCI-to-PCI Bridge Architecture Specification 1.2, chapter 3),
//! interrupt line and pin, the capability list with power management (D0 and D3hot), MSI and MSI-X
//! (`messages`). Not modelled: expansion ROM, bus errors (their status bits are never set), D1, D2, PME. Each
//! byte has masks of its writable bits and of its write-one-to-clear bits; reserved bytes read as zero and
//! ignore writes.

use doorbell_sim::AccessSize;
use doorbell_sim::snapshot::SnapshotError;
use serde::{Deserialize, Serialize};

use crate::bridge::{self, BridgeWindows};
use crate::header::{COMMAND_BUS_MASTER, COMMAND_INTX_DISABLE, COMMAND_IO, COMMAND_MEMORY, header};
use crate::identity::{BARS, BarKind, Capability, FunctionIdentity, PowerState, VENDOR_HEADER};
use crate::messages::{self, MessagesState};

/// Size of a conventional configuration space in bytes.
pub const CONFIG_BYTES: usize = 256;

const COMMAND: usize = 0x04;
const HEADER_TYPE: usize = 0x0e;
const MULTIFUNCTION: u8 = 1 << 7;
const STATUS: usize = 0x06;
const BAR0: usize = 0x10;
const CAPABILITIES_POINTER: usize = 0x34;
const STATUS_INTERRUPT: u8 = 1 << 3;
const STATUS_CAPABILITIES: u8 = 1 << 4;

const PM_CONTROL: usize = 4;
const PM_STATE_MASK: u8 = 0x3;
const PM_STATE_D3: u8 = 0x3;
const PM_NO_SOFT_RESET: u8 = 1 << 3;

/// Effects of a configuration write beyond the bytes themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConfigEffects {
    /// The decoded addresses (base addresses, enables, power) have changed.
    pub decode_changed: bool,
    /// The permission to start DMA has changed.
    pub bus_master_changed: bool,
    /// The level of the interrupt pin has changed.
    pub interrupt_changed: bool,
    /// The function has entered this power state.
    pub power: Option<PowerState>,
    /// The function has returned from D3hot and must be reset.
    pub reset: bool,
    /// A bridge resets its secondary bus.
    pub secondary_reset: bool,
}

/// Externally visible state of a function; compared before and after a write.
#[derive(PartialEq, Eq)]
struct Outside {
    decode: [Option<u64>; BARS],
    windows: Option<BridgeWindows>,
    bus_master: bool,
    interrupt: bool,
    power: PowerState,
}

/// Configuration registers of one function.
#[derive(Clone, Debug)]
pub struct ConfigSpace {
    identity: FunctionIdentity,
    bytes: [u8; CONFIG_BYTES],
    reset_bytes: [u8; CONFIG_BYTES],
    writable: [u8; CONFIG_BYTES],
    write_one_clears: [u8; CONFIG_BYTES],
    /// The device's interrupt, before masking.
    interrupt: bool,
    pub(crate) messages: MessagesState,
}

/// Saved state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigSpaceState {
    bytes: Vec<u8>,
    interrupt: bool,
}

impl ConfigSpaceState {
    /// Version of this layout.
    pub const VERSION: u32 = 1;
}

fn put(bytes: &mut [u8; CONFIG_BYTES], offset: usize, value: &[u8]) {
    bytes[offset..offset + value.len()].copy_from_slice(value);
}

impl ConfigSpace {
    /// A function after reset.
    pub fn new(identity: FunctionIdentity) -> ConfigSpace {
        if let Some(problem) = identity.problem() {
            panic!("function {:04x}:{:04x}: {problem}", identity.vendor, identity.device);
        }
        let mut space = ConfigSpace {
            bytes: [0; CONFIG_BYTES],
            reset_bytes: [0; CONFIG_BYTES],
            writable: [0; CONFIG_BYTES],
            write_one_clears: [0; CONFIG_BYTES],
            interrupt: false,
            messages: MessagesState::new(&identity),
            identity,
        };
        space.lay_out_header();
        space.lay_out_capabilities();
        space.reset_bytes = space.bytes;
        space
    }

    fn lay_out_header(&mut self) {
        for row in header(self.identity.header) {
            let (at, bytes) = (usize::from(row.offset), usize::from(row.bytes));
            put(&mut self.writable, at, &row.writable.to_le_bytes()[..bytes]);
            put(&mut self.write_one_clears, at, &row.write_one_clears.to_le_bytes()[..bytes]);
        }
        let id = &self.identity;
        put(&mut self.bytes, 0x00, &id.vendor.to_le_bytes());
        put(&mut self.bytes, 0x02, &id.device.to_le_bytes());
        put(&mut self.bytes, 0x08, &(id.class << 8 | u32::from(id.revision)).to_le_bytes());
        put(&mut self.bytes, 0x3d, &[id.interrupt_pin]);
        if self.is_bridge() {
            self.bytes[HEADER_TYPE] = 1;
            return bridge::lay_out(&mut self.bytes);
        }
        put(&mut self.bytes, 0x2c, &id.subsystem_vendor.to_le_bytes());
        put(&mut self.bytes, 0x2e, &id.subsystem.to_le_bytes());
        put(&mut self.bytes, 0x3e, &id.min_grant_max_latency);
        for (index, bar) in id.bars.iter().enumerate() {
            if *bar == BarKind::None {
                continue;
            }
            let at = BAR0 + 4 * index;
            let address_bits = !(bar.bytes() - 1);
            put(&mut self.bytes, at, &bar.type_bits().to_le_bytes());
            put(&mut self.writable, at, &(address_bits as u32).to_le_bytes());
            if matches!(bar, BarKind::Memory64 { .. }) {
                put(&mut self.writable, at + 4, &((address_bits >> 32) as u32).to_le_bytes());
            }
        }
    }

    fn lay_out_capabilities(&mut self) {
        let mut link = CAPABILITIES_POINTER;
        for capability in &self.identity.capabilities {
            let at = usize::from(capability.offset());
            self.bytes[link] = capability.offset();
            self.bytes[STATUS] |= STATUS_CAPABILITIES;
            link = at + 1;
            match *capability {
                Capability::PowerManagement { capabilities, no_soft_reset, .. } => {
                    self.bytes[at] = 0x01;
                    put(&mut self.bytes, at + 2, &capabilities.to_le_bytes());
                    self.bytes[at + PM_CONTROL] = if no_soft_reset { PM_NO_SOFT_RESET } else { 0 };
                    // Power state; PME_En with the data select; PME_Status, which is never set.
                    put(&mut self.writable, at + PM_CONTROL, &[PM_STATE_MASK, 0x1f]);
                    put(&mut self.write_one_clears, at + PM_CONTROL, &[0, 0x80]);
                }
                Capability::Msi { .. } | Capability::MsiX(_) => {
                    messages::lay_out(capability, &mut self.bytes, &mut self.writable);
                }
                Capability::Vendor { bytes, writable, .. } => {
                    self.bytes[at] = 0x09;
                    self.bytes[at + 2] = capability.bytes();
                    put(&mut self.bytes, at + VENDOR_HEADER, bytes);
                    put(&mut self.writable, at + VENDOR_HEADER, writable);
                }
            }
        }
    }

    /// Sets the multifunction bit.
    pub(crate) fn mark_multifunction(&mut self) {
        self.bytes[HEADER_TYPE] |= MULTIFUNCTION;
        self.reset_bytes[HEADER_TYPE] |= MULTIFUNCTION;
    }

    /// The description from which the function was created.
    pub fn identity(&self) -> &FunctionIdentity {
        &self.identity
    }

    /// Whether an access touches a vendor capability.
    pub(crate) fn is_vendors(&self, register: u64, size: AccessSize) -> bool {
        let end = register.saturating_add(size.bytes());
        self.identity.capabilities.iter().any(|capability| {
            let (start, bytes) = (u64::from(capability.offset()), u64::from(capability.bytes()));
            matches!(capability, Capability::Vendor { .. }) && register < start + bytes && start < end
        })
    }

    pub(crate) fn half(&self, offset: usize) -> u16 {
        u16::from_le_bytes([self.bytes[offset], self.bytes[offset + 1]])
    }

    pub(crate) fn word(&self, offset: usize) -> u32 {
        u32::from(self.half(offset)) | u32::from(self.half(offset + 2)) << 16
    }

    fn read_byte(&self, offset: u64) -> u8 {
        match usize::try_from(offset) {
            Ok(STATUS) => self.bytes[STATUS] | if self.interrupt { STATUS_INTERRUPT } else { 0 },
            Ok(at) if at < CONFIG_BYTES => self.msi_pending_byte(at).unwrap_or(self.bytes[at]),
            // A PCI Express function without extended capabilities has an empty list.
            Ok(at) if at < 4096 && self.identity.extended_space => 0,
            _ => 0xff,
        }
    }

    /// Reads `size` bytes at any offset, each byte as if read alone. Bytes that do not exist read as all
    /// ones.
    pub fn read(&self, offset: u64, size: AccessSize) -> u64 {
        let byte = |i| u64::from(self.read_byte(offset.saturating_add(i))) << (8 * i);
        (0..size.bytes()).map(byte).sum()
    }

    /// Writes `size` bytes at any offset, each byte as if written alone, but the effects apply after all of
    /// them.
    pub fn write(&mut self, offset: u64, size: AccessSize, value: u64) -> ConfigEffects {
        let (before, held_in_reset) = (self.outside(), self.holds_in_reset());
        let old_state = self.power_control().map(|at| self.bytes[at] & PM_STATE_MASK);
        for i in 0..size.bytes() {
            let Ok(at) = usize::try_from(offset.saturating_add(i)) else { continue };
            if at >= CONFIG_BYTES {
                continue;
            }
            let written = (value >> (8 * i)) as u8;
            let kept = self.bytes[at] & !self.writable[at] & !(written & self.write_one_clears[at]);
            self.bytes[at] = kept | (written & self.writable[at]);
        }
        self.settle_messages();
        let reset = self.settle_power(before.power, old_state);
        let after = self.outside();
        ConfigEffects {
            decode_changed: before.decode != after.decode || before.windows != after.windows,
            bus_master_changed: before.bus_master != after.bus_master,
            interrupt_changed: before.interrupt != after.interrupt,
            power: (before.power != after.power).then_some(after.power),
            reset,
            secondary_reset: !held_in_reset && self.holds_in_reset(),
        }
    }

    fn outside(&self) -> Outside {
        let mut decode = [None; BARS];
        for (index, base) in decode.iter_mut().enumerate() {
            *base = self.bar_base(index);
        }
        Outside {
            decode,
            windows: self.windows(),
            bus_master: self.bus_master(),
            interrupt: self.interrupt_line(),
            power: self.power_state(),
        }
    }

    fn power_control(&self) -> Option<usize> {
        self.identity.capabilities.iter().find_map(|capability| match capability {
            Capability::PowerManagement { offset, .. } => Some(usize::from(*offset) + PM_CONTROL),
            Capability::Msi { .. } | Capability::MsiX(_) | Capability::Vendor { .. } => None,
        })
    }

    /// Restores the old state if an unsupported one was requested. Resets the function on wake-up, unless it
    /// has no-soft-reset. Returns whether it was reset.
    fn settle_power(&mut self, before: PowerState, old_state: Option<u8>) -> bool {
        let (Some(at), Some(old_state)) = (self.power_control(), old_state) else { return false };
        let state = self.bytes[at] & PM_STATE_MASK;
        if state != 0 && state != PM_STATE_D3 {
            self.bytes[at] = (self.bytes[at] & !PM_STATE_MASK) | old_state;
        }
        let woke = before == PowerState::D3Hot && self.power_state() == PowerState::D0;
        if !woke || self.bytes[at] & PM_NO_SOFT_RESET != 0 {
            return false;
        }
        let wake_context = self.bytes[at + 1];
        self.reset();
        self.bytes[at + 1] = wake_context;
        true
    }

    /// Resets all registers. The device itself must deassert its interrupt.
    pub fn reset(&mut self) {
        self.bytes = self.reset_bytes;
        self.messages = MessagesState::new(&self.identity);
    }

    /// The power state.
    pub fn power_state(&self) -> PowerState {
        match self.power_control() {
            Some(at) if self.bytes[at] & PM_STATE_MASK == PM_STATE_D3 => PowerState::D3Hot,
            _ => PowerState::D0,
        }
    }

    pub(crate) fn enabled(&self, command_bit: u16) -> bool {
        self.half(COMMAND) & command_bit != 0 && self.power_state() == PowerState::D0
    }

    /// Whether the function may start DMA.
    pub fn bus_master(&self) -> bool {
        self.enabled(COMMAND_BUS_MASTER)
    }

    /// Base address that a register decodes now; `None` if it is disabled, the function is asleep, or the
    /// address is zero, which no system assigns.
    pub fn bar_base(&self, index: usize) -> Option<u64> {
        let at = BAR0 + 4 * index;
        let (enable, base) = match self.identity.bars[index] {
            BarKind::None => return None,
            BarKind::Io { .. } => (COMMAND_IO, u64::from(self.word(at) & !0x3)),
            BarKind::Memory32 { .. } => (COMMAND_MEMORY, u64::from(self.word(at) & !0xf)),
            BarKind::Memory64 { .. } => {
                (COMMAND_MEMORY, u64::from(self.word(at) & !0xf) | u64::from(self.word(at + 4)) << 32)
            }
        };
        (self.enabled(enable) && base != 0).then_some(base)
    }

    /// Sets the device's interrupt, before masking; returns whether the pin's level has changed.
    pub fn set_interrupt(&mut self, level: bool) -> bool {
        let before = self.interrupt_line();
        self.interrupt = level;
        self.interrupt_line() != before
    }

    /// Level of the function's interrupt pin: the device's interrupt, unless it is disabled in the command
    /// register, replaced by messages, or the function is asleep.
    pub fn interrupt_line(&self) -> bool {
        self.interrupt
            && self.identity.interrupt_pin != 0
            && self.half(COMMAND) & COMMAND_INTX_DISABLE == 0
            && self.power_state() == PowerState::D0
            && !self.sends_messages()
    }

    pub(crate) fn set_half(&mut self, offset: usize, value: u16) {
        put(&mut self.bytes, offset, &value.to_le_bytes());
    }

    /// A stored byte.
    pub(crate) fn byte(&self, at: usize) -> u8 {
        self.bytes[at]
    }

    /// Returns the state to save.
    pub fn save(&self) -> ConfigSpaceState {
        ConfigSpaceState { bytes: self.bytes.to_vec(), interrupt: self.interrupt }
    }

    /// Restores a saved state of the same kind of function.
    pub fn restore(&mut self, state: ConfigSpaceState) -> Result<(), SnapshotError> {
        let fail = |problem: String| SnapshotError::Inconsistent { name: "pci function".into(), problem };
        let bytes: [u8; CONFIG_BYTES] = state.bytes.try_into().map_err(|bytes: Vec<u8>| {
            fail(format!("the saved state has {} configuration bytes", bytes.len()))
        })?;
        let fixed_differs = |at: &usize| (bytes[*at] ^ self.reset_bytes[*at]) & !self.writable[*at] != 0;
        if let Some(at) = (0..CONFIG_BYTES).find(fixed_differs) {
            return Err(fail(format!("the read-only byte {at:#04x} of the saved state differs")));
        }
        self.bytes = bytes;
        self.interrupt = state.interrupt;
        Ok(())
    }
}

#[cfg(test)]
#[path = "config_space_tests.rs"]
mod tests;
