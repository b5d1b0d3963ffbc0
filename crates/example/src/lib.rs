//! A minimal custom PCI function: an engine that copies memory. This table is its specification:
//!
//! | Register | Offset | Meaning |
//! |---|---|---|
//! | SOURCE, DESTINATION | 0x00, 0x08 | physical addresses |
//! | LENGTH | 0x10 | bytes, up to 64 KiB |
//! | CONTROL | 0x18 | bit 0 starts a copy; bit 1 enables the completion interrupt |
//! | STATUS | 0x20 | bit 0: done; writing one clears it and the interrupt; bit 1: busy |
//! | VECTOR | 0x28 | completion vector, 0 or 1, if MSI or MSI-X is enabled |
//!
//! It has MSI with two messages, and MSI-X with the table at 0x800 and the pending bits at 0xc00.

#![forbid(unsafe_code)]

use doorbell_pcie::{BarKind, Capability, FunctionIdentity, FunctionPorts, HeaderType, MsiX, PciFunction};
use doorbell_sim::ports::{DmaPurpose, DmaRequest};
use doorbell_sim::snapshot::SnapshotError;
use doorbell_sim::stats::{Counter, Stats};
use doorbell_sim::{AccessSize, PhysAddr, Ps};
use serde::{Deserialize, Serialize};

/// Writable bits of the registers, eight bytes each from offset 0. Reset values are zero.
const WRITABLE: [u64; 6] = [u64::MAX, u64::MAX, 0x1_ffff, 0x2, 0, 0x1];
const SOURCE: usize = 0;
const DESTINATION: usize = 1;
const LENGTH: usize = 2;
const CONTROL: usize = 3;
const STATUS: usize = 4;
const VECTOR: usize = 5;
const START: u64 = 1 << 0;
const INTERRUPT: u64 = 1 << 1;
const DONE: u64 = 1 << 0;
const BUSY: u64 = 1 << 1;
const LENGTH_MAX: u64 = 64 << 10;
/// Wake-up events: read or write completed.
const READ_DONE: u64 = 0;
const WRITE_DONE: u64 = 1;
const STATE_VERSION: u8 = 2;

doorbell_sim::stats! {
    /// Counters of the engine.
    pub struct CopyStats {
        /// Completed copies.
        copies,
        /// Bytes of completed copies.
        bytes,
    }
}

/// The copy engine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyEngine {
    registers: [u64; 6],
    /// Data in transit from source to destination.
    in_transit: Vec<u8>,
    stats: CopyStats,
}

impl CopyEngine {
    /// Whether a copy is in progress.
    pub fn is_busy(&self) -> bool {
        self.registers[STATUS] & BUSY != 0
    }

    fn vector(&self) -> u16 {
        self.registers[VECTOR] as u16
    }

    fn request(&self, addr: u64) -> DmaRequest {
        DmaRequest::plain(PhysAddr(addr), self.registers[LENGTH] as u32, DmaPurpose::Data, 0)
    }

    fn start(&mut self, now: Ps, side: &mut dyn FunctionPorts) {
        let length = self.registers[LENGTH];
        if self.is_busy() || length == 0 || length > LENGTH_MAX {
            return;
        }
        self.registers[STATUS] = BUSY;
        let read = side.request_read(now, self.request(self.registers[SOURCE]));
        side.wake_at(read, READ_DONE);
    }
}

impl PciFunction for CopyEngine {
    fn identity(&self) -> FunctionIdentity {
        let mut bars = [BarKind::None; 6];
        bars[0] = BarKind::Memory32 { bytes: 4096, prefetchable: false };
        FunctionIdentity {
            // An unassigned vendor ID, and a base system peripheral.
            vendor: 0xd00b,
            device: 0x0001,
            revision: 1,
            class: 0x08_8000,
            subsystem_vendor: 0xd00b,
            subsystem: 1,
            bars,
            interrupt_pin: 1,
            min_grant_max_latency: [0; 2],
            capabilities: vec![
                Capability::Msi { offset: 0x40, messages: 2, wide: true, masks: true },
                Capability::MsiX(MsiX { offset: 0x60, vectors: 2, table: (0, 0x800), pending: (0, 0xc00) }),
            ],
            extended_space: false,
            header: HeaderType::Function,
        }
    }

    fn read(&mut self, _: Ps, _bar: u8, offset: u64, size: AccessSize, _: &mut dyn FunctionPorts) -> u64 {
        let register = self.registers.get((offset / 8) as usize).copied().unwrap_or(0);
        register >> (8 * (offset % 8)) & size.mask()
    }

    fn write(
        &mut self,
        now: Ps,
        _: u8,
        offset: u64,
        size: AccessSize,
        value: u64,
        side: &mut dyn FunctionPorts,
    ) {
        let (index, shift) = ((offset / 8) as usize, 8 * (offset % 8));
        let Some(writable) = WRITABLE.get(index) else { return };
        let (value, mask) = (value << shift, size.mask() << shift & writable);
        self.registers[index] = self.registers[index] & !mask | value & mask;
        if index == STATUS && value & DONE != 0 {
            self.registers[STATUS] &= !DONE;
            side.set_irq(false);
            side.withdraw(self.vector());
        }
        if index == CONTROL && value & START != 0 {
            self.start(now, side);
        }
    }

    fn wake(&mut self, now: Ps, event: u64, side: &mut dyn FunctionPorts) {
        if !self.is_busy() {
            return; // the copy was cancelled by a reset
        }
        if event == READ_DONE {
            self.in_transit = vec![0; self.registers[LENGTH].min(LENGTH_MAX) as usize];
            side.read(PhysAddr(self.registers[SOURCE]), &mut self.in_transit);
            let write = side.request_write(now, self.request(self.registers[DESTINATION]));
            return side.wake_at(write, WRITE_DONE);
        }
        side.write(PhysAddr(self.registers[DESTINATION]), &self.in_transit);
        self.stats.copies += 1;
        self.stats.bytes += self.in_transit.len() as u64;
        self.registers[STATUS] = DONE;
        if self.registers[CONTROL] & INTERRUPT != 0 {
            side.raise(now, self.vector());
            side.set_irq(true);
        }
    }

    fn reset(&mut self, _: Ps, side: &mut dyn FunctionPorts) {
        *self = CopyEngine { stats: self.stats.clone(), ..CopyEngine::default() };
        side.set_irq(false);
    }

    fn save(&self) -> Vec<u8> {
        postcard::to_stdvec(&(STATE_VERSION, self)).expect("the state serialises")
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), SnapshotError> {
        let wrong = |problem: &str| SnapshotError::Inconsistent {
            name: "copy engine".into(),
            problem: problem.into(),
        };
        let (version, own): (u8, CopyEngine) =
            postcard::from_bytes(state).map_err(|_| wrong("the state is damaged"))?;
        if version != STATE_VERSION || own.in_transit.len() as u64 > LENGTH_MAX {
            return Err(wrong("the state has another version or an invalid length"));
        }
        *self = own;
        Ok(())
    }

    fn counters(&self) -> Vec<Counter> {
        self.stats.counters()
    }
}
