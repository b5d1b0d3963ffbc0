//! A PCI function for fuzzed guests that interrupts on command in all ways: by its pin, by MSI and by MSI-X.
//!
//! | Offset | Effect of a store |
//! |---|---|
//! | 0x00 | writes eight bytes to the address in 0x08, unless zero, and raises the vector of this number and the pin |
//! | 0x08 | sets the address |
//! | 0x10 | withdraws the vector of this number and lowers the pin |

use doorbell_pcie::{BarKind, Capability, FunctionIdentity, FunctionPorts, HeaderType, MsiX, PciFunction};
use doorbell_sim::ports::{DmaPurpose, DmaRequest};
use doorbell_sim::snapshot::SnapshotError;
use doorbell_sim::{AccessSize, PhysAddr, Ps};

/// Offset of the MSI capability.
pub const MSI: u64 = 0x40;
/// Offset of the MSI-X capability.
pub const MSIX: u64 = 0x60;
/// Offset of the MSI-X table in BAR 0.
pub const TABLE: u64 = 0x100;
const PENDING: u32 = 0x200;
/// Number of vectors of MSI and of MSI-X.
pub const VECTORS: u16 = 4;

/// See the module.
#[derive(Default)]
pub struct Interrupter {
    to: u64,
}

impl Interrupter {
    fn interrupt(&self, now: Ps, vector: u64, side: &mut dyn FunctionPorts) {
        side.raise(now, vector as u16);
        side.set_irq(true);
    }
}

impl PciFunction for Interrupter {
    fn identity(&self) -> FunctionIdentity {
        let mut bars = [BarKind::None; 6];
        bars[0] = BarKind::Memory32 { bytes: 4096, prefetchable: false };
        let table = (0, TABLE as u32);
        FunctionIdentity {
            // An unassigned vendor ID, and a base system peripheral.
            vendor: 0xd00b,
            device: 0xbe11,
            revision: 0,
            class: 0x08_8000,
            subsystem_vendor: 0xd00b,
            subsystem: 0,
            bars,
            interrupt_pin: 2,
            min_grant_max_latency: [0; 2],
            capabilities: vec![
                Capability::Msi { offset: MSI as u8, messages: VECTORS as u8, wide: true, masks: true },
                Capability::MsiX(MsiX { offset: MSIX as u8, vectors: VECTORS, table, pending: (0, PENDING) }),
                Capability::PowerManagement { offset: 0xdc, capabilities: 3, no_soft_reset: false },
            ],
            extended_space: true,
            header: HeaderType::Function,
        }
    }

    fn read(&mut self, _: Ps, _: u8, offset: u64, _: AccessSize, _: &mut dyn FunctionPorts) -> u64 {
        if offset == 8 { self.to } else { 0 }
    }

    fn write(
        &mut self,
        now: Ps,
        _: u8,
        offset: u64,
        _: AccessSize,
        value: u64,
        side: &mut dyn FunctionPorts,
    ) {
        match offset {
            0 if self.to == 0 => self.interrupt(now, value, side),
            0 => {
                let addr = PhysAddr(self.to);
                let request = DmaRequest::plain(addr, 8, DmaPurpose::Data, 0);
                let done = side.request_write(now, request);
                side.wake_at(done, self.to);
                self.interrupt(now, value, side);
            }
            8 => self.to = value,
            0x10 => {
                side.withdraw(value as u16);
                side.set_irq(false);
            }
            _ => {}
        }
    }

    fn wake(&mut self, now: Ps, to: u64, side: &mut dyn FunctionPorts) {
        side.write(PhysAddr(to), &now.0.to_le_bytes());
    }

    fn reset(&mut self, _: Ps, side: &mut dyn FunctionPorts) {
        self.to = 0;
        side.set_irq(false);
    }

    fn save(&self) -> Vec<u8> {
        self.to.to_le_bytes().to_vec()
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), SnapshotError> {
        let to = state.try_into().map_err(|_| SnapshotError::Inconsistent {
            name: "interrupter".into(),
            problem: "the state is not an address".into(),
        })?;
        self.to = u64::from_le_bytes(to);
        Ok(())
    }
}
