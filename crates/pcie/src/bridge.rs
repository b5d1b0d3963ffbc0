//! Registers of a bridge between two PCI buses: bus numbers for configuration accesses, windows for I/O and
//! memory.
//!
//! Document: PCI-to-PCI Bridge Architecture Specification 1.2, chapters 3 and 4. Modelled: bus numbers,
//! windows with 16-bit I/O and 64-bit prefetchable addresses, upstream bus mastering, and the secondary bus
//! reset. The reset is instantaneous: devices respond again even while the reset bit is held. Not modelled:
//! ISA and VGA modes, delayed transactions and their timers, parity. The latency of an access is modelled by
//! the attachment, not here.

use crate::config_space::{CONFIG_BYTES, ConfigSpace};
use crate::header::{COMMAND_IO, COMMAND_MEMORY};
use crate::identity::HeaderType;

const SECONDARY_BUS: usize = 0x19;
const SUBORDINATE_BUS: usize = 0x1a;
const IO_BASE: usize = 0x1c;
const IO_LIMIT: usize = 0x1d;
const MEMORY_BASE: usize = 0x20;
const MEMORY_LIMIT: usize = 0x22;
const PREFETCHABLE_BASE: usize = 0x24;
const PREFETCHABLE_LIMIT: usize = 0x26;
const PREFETCHABLE_BASE_UPPER: usize = 0x28;
const PREFETCHABLE_LIMIT_UPPER: usize = 0x2c;
const BRIDGE_CONTROL: usize = 0x3e;
const SECONDARY_RESET: u8 = 1 << 6;
/// Type bits of a window with 64-bit addresses.
const ADDRESSES_64_BIT: u8 = 1;

/// Accesses that a bridge forwards to its secondary bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BridgeWindows {
    /// Number of the bus directly behind it.
    pub secondary: u8,
    /// Highest bus number behind it.
    pub subordinate: u8,
    /// I/O ports, first and last.
    pub io: Option<(u64, u64)>,
    /// Memory window and prefetchable memory window.
    pub memory: [Option<(u64, u64)>; 2],
}

impl BridgeWindows {
    /// Whether a configuration access to this bus passes the bridge (section 3.1.2.1); the bus directly
    /// behind it always does.
    pub fn leads_to(&self, bus: u8) -> bool {
        self.secondary != 0 && (self.secondary == bus || (self.secondary..=self.subordinate).contains(&bus))
    }
}

/// Sets the constant bits.
pub(crate) fn lay_out(bytes: &mut [u8; CONFIG_BYTES]) {
    bytes[PREFETCHABLE_BASE] = ADDRESSES_64_BIT;
    bytes[PREFETCHABLE_LIMIT] = ADDRESSES_64_BIT;
}

impl ConfigSpace {
    /// Whether the function is a bridge.
    pub fn is_bridge(&self) -> bool {
        self.identity().header == HeaderType::Bridge
    }

    /// The present windows of a bridge; `None` for other functions.
    pub fn windows(&self) -> Option<BridgeWindows> {
        let window = |on: bool, base: u64, last: u64| (on && base <= last).then_some((base, last));
        // Bits 31 to 20 of an address.
        let megabytes = |at: usize| u64::from(self.half(at) & 0xfff0) << 16;
        let upper = |at: usize| u64::from(self.word(at)) << 32;
        let io = |at: usize| u64::from(self.byte(at) & 0xf0) << 8;
        let memory_on = self.enabled(COMMAND_MEMORY);
        self.is_bridge().then(|| BridgeWindows {
            secondary: self.byte(SECONDARY_BUS),
            subordinate: self.byte(SUBORDINATE_BUS),
            io: window(self.enabled(COMMAND_IO), io(IO_BASE), io(IO_LIMIT) | 0xfff),
            memory: [
                window(memory_on, megabytes(MEMORY_BASE), megabytes(MEMORY_LIMIT) | 0xf_ffff),
                window(
                    memory_on,
                    upper(PREFETCHABLE_BASE_UPPER) | megabytes(PREFETCHABLE_BASE),
                    upper(PREFETCHABLE_LIMIT_UPPER) | megabytes(PREFETCHABLE_LIMIT) | 0xf_ffff,
                ),
            ],
        })
    }

    /// Whether a bridge holds its secondary bus in reset.
    pub(crate) fn holds_in_reset(&self) -> bool {
        self.is_bridge() && self.byte(BRIDGE_CONTROL) & SECONDARY_RESET != 0
    }
}
