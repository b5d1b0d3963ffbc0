//! The console: a 16550A UART with byte-wide registers, as QEMU's `virt` has at its UART address.
//!
//! Document: National Semiconductor PC16550D data sheet, section 8 (registers) and its interrupt table.
//! Modelled: all registers, the divisor latch behind DLAB, the 16-byte receive FIFO with its trigger levels,
//! interrupt causes with their priorities and ways of clearing, loopback with the modem lines, overrun. Not
//! modelled: time. A written byte is sent at once, so the transmitter is always empty. The character time-out
//! of the receive FIFO is immediate. Line settings and divisor are stored without effect; parity, framing and
//! break errors do not occur. Modem inputs other than loopback are constant: carrier, data set ready and
//! clear to send.

use std::collections::VecDeque;

use doorbell_sim::AccessSize;
use doorbell_sim::snapshot::SnapshotError;
use serde::{Deserialize, Serialize};

use crate::registers::{Access, Register};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum UartRegister {
    Rbr,
    Thr,
    Dll,
    Ier,
    Dlm,
    Iir,
    Fcr,
    Lcr,
    Mcr,
    Lsr,
    Msr,
    Scr,
}

const fn register(
    id: UartRegister,
    name: &'static str,
    offset: u64,
    reset: u64,
    access: Access,
    section: &'static str,
) -> Register<UartRegister> {
    Register::one(id, name, offset, 1, reset, access, section)
}

/// The register table. Registers that share an offset differ in direction or in the divisor latch access bit
/// (DLAB).
pub const REGISTERS: [Register<UartRegister>; 12] = [
    register(UartRegister::Rbr, "RBR", 0, 0, Access::ReadHasEffect, "PC16550D 8.0"),
    register(UartRegister::Thr, "THR", 0, 0, Access::WriteOnly, "PC16550D 8.0"),
    register(UartRegister::Dll, "DLL", 0, 0x0c, Access::ReadWrite, "PC16550D 8.3"),
    register(UartRegister::Ier, "IER", 1, 0, Access::ReadWrite, "PC16550D 8.7"),
    register(UartRegister::Dlm, "DLM", 1, 0, Access::ReadWrite, "PC16550D 8.3"),
    register(UartRegister::Iir, "IIR", 2, 0x01, Access::ReadHasEffect, "PC16550D 8.6"),
    register(UartRegister::Fcr, "FCR", 2, 0, Access::WriteOnly, "PC16550D 8.5"),
    register(UartRegister::Lcr, "LCR", 3, 0, Access::ReadWrite, "PC16550D 8.1"),
    register(UartRegister::Mcr, "MCR", 4, 0, Access::ReadWrite, "PC16550D 8.8"),
    register(UartRegister::Lsr, "LSR", 5, 0x60, Access::ReadHasEffect, "PC16550D 8.4"),
    register(UartRegister::Msr, "MSR", 6, 0xb0, Access::ReadHasEffect, "PC16550D 8.9"),
    register(UartRegister::Scr, "SCR", 7, 0, Access::ReadWrite, "PC16550D 8.10"),
];

fn reset_of(id: UartRegister) -> u8 {
    let row = REGISTERS.iter().find(|row| row.id == id).expect("every register is in the table");
    row.reset as u8
}

/// Capacity of the queue of input bytes that wait for room in the receive FIFO.
pub const INPUT_BYTES_MAX: usize = 64 << 10;
/// Capacity of the queue of sent bytes that wait for [`Uart::take_output`].
pub const OUTPUT_BYTES_MAX: usize = 1 << 20;
const FIFO_BYTES: usize = 16;

const IER_RX_DATA: u8 = 1 << 0;
const IER_THR_EMPTY: u8 = 1 << 1;
const IER_LINE_STATUS: u8 = 1 << 2;
const IER_MODEM_STATUS: u8 = 1 << 3;
const IIR_NONE: u8 = 0x1;
const IIR_MODEM_STATUS: u8 = 0x0;
const IIR_THR_EMPTY: u8 = 0x2;
const IIR_RX_DATA: u8 = 0x4;
const IIR_LINE_STATUS: u8 = 0x6;
const IIR_RX_TIMEOUT: u8 = 0xc;
const IIR_FIFOS_ENABLED: u8 = 0xc0;
const FCR_ENABLE: u8 = 1 << 0;
const FCR_RX_RESET: u8 = 1 << 1;
const FCR_TX_RESET: u8 = 1 << 2;
/// The FCR bits that are stored; the others have a one-time effect.
const FCR_STORED: u8 = 0xc9;
const LCR_DLAB: u8 = 1 << 7;
const MCR_WRITABLE: u8 = 0x1f;
const MCR_LOOPBACK: u8 = 1 << 4;
const LSR_DATA_READY: u8 = 1 << 0;
const LSR_OVERRUN: u8 = 1 << 1;
const LSR_THR_AND_TRANSMITTER_EMPTY: u8 = 0x60;
/// Ring indicator, whose delta bit reports its trailing edge only.
const MSR_RING: u8 = 1 << 6;

doorbell_sim::stats! {
    /// UART counters.
    pub struct UartStats {
        /// Bytes that software sent.
        bytes_sent,
        /// Bytes that software received.
        bytes_received,
        /// Reads of the receive buffer while it was empty.
        empty_reads,
        /// Bytes lost in loopback because the receive FIFO was full.
        overruns,
        /// Accesses beyond the registers, wider than a byte, or to a read-only register.
        undefined_accesses,
    }
}

/// The device, which is also its saved state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uart {
    divisor: u16,
    ier: u8,
    fcr: u8,
    lcr: u8,
    mcr: u8,
    scr: u8,
    /// The modem status without its delta bits, to detect changes.
    modem_lines: u8,
    modem_deltas: u8,
    overrun: bool,
    /// The transmitter-empty interrupt is pending: its cause is an event, not a level.
    thr_empty_pending: bool,
    rx_fifo: VecDeque<u8>,
    input: VecDeque<u8>,
    stats: UartStats,
    /// Sent bytes; not saved, because the host owns them.
    #[serde(skip)]
    output: Vec<u8>,
}

/// A UART after reset.
impl Default for Uart {
    fn default() -> Uart {
        Uart {
            divisor: u16::from_le_bytes([reset_of(UartRegister::Dll), reset_of(UartRegister::Dlm)]),
            ier: reset_of(UartRegister::Ier),
            fcr: reset_of(UartRegister::Fcr),
            lcr: reset_of(UartRegister::Lcr),
            mcr: reset_of(UartRegister::Mcr),
            scr: reset_of(UartRegister::Scr),
            modem_lines: reset_of(UartRegister::Msr),
            modem_deltas: 0,
            overrun: false,
            thr_empty_pending: false,
            rx_fifo: VecDeque::new(),
            input: VecDeque::new(),
            stats: UartStats::default(),
            output: Vec::new(),
        }
    }
}

impl Uart {
    /// Version of the saved state.
    pub const VERSION: u32 = 1;

    /// The interrupt line.
    pub fn irq(&self) -> bool {
        self.cause() != IIR_NONE
    }

    /// Adds bytes that arrive on the line; returns how many fit into the queue.
    pub fn push_input(&mut self, bytes: &[u8]) -> usize {
        let accepted = bytes.len().min(INPUT_BYTES_MAX - self.input.len());
        self.input.extend(&bytes[..accepted]);
        self.fill_rx_fifo();
        accepted
    }

    /// Whether software has enabled receive interrupts. A driver clears the FIFO when it starts, so earlier
    /// input would be lost.
    pub fn receive_interrupt_enabled(&self) -> bool {
        self.ier & IER_RX_DATA != 0
    }

    /// Whether sent bytes wait for [`Uart::take_output`].
    pub fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Returns the bytes that software has sent since the last call.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// Reads a register.
    pub fn read(&mut self, offset: u64, size: AccessSize) -> u64 {
        let Some(id) = self.decode(offset, size, false) else { return 0 };
        let value = match id {
            UartRegister::Rbr => self.receive(),
            UartRegister::Dll => self.divisor.to_le_bytes()[0],
            UartRegister::Dlm => self.divisor.to_le_bytes()[1],
            UartRegister::Ier => self.ier,
            UartRegister::Iir => self.identify_interrupt(),
            UartRegister::Lcr => self.lcr,
            UartRegister::Mcr => self.mcr,
            UartRegister::Lsr => self.line_status(),
            UartRegister::Msr => self.modem_lines | std::mem::take(&mut self.modem_deltas),
            UartRegister::Scr => self.scr,
            UartRegister::Thr | UartRegister::Fcr => unreachable!("decode gives readable registers"),
        };
        u64::from(value)
    }

    /// Writes a register.
    pub fn write(&mut self, offset: u64, size: AccessSize, value: u64) {
        let Some(id) = self.decode(offset, size, true) else { return };
        let value = value as u8;
        let [dll, dlm] = self.divisor.to_le_bytes();
        match id {
            UartRegister::Thr => self.transmit(value),
            UartRegister::Dll => self.divisor = u16::from_le_bytes([value, dlm]),
            UartRegister::Dlm => self.divisor = u16::from_le_bytes([dll, value]),
            UartRegister::Ier => self.enable_interrupts(value & 0xf),
            UartRegister::Fcr => self.control_fifos(value),
            UartRegister::Lcr => self.lcr = value,
            UartRegister::Mcr => self.control_modem(value & MCR_WRITABLE),
            UartRegister::Scr => self.scr = value,
            UartRegister::Rbr | UartRegister::Iir | UartRegister::Lsr | UartRegister::Msr => {
                unreachable!("decode gives writable registers")
            }
        }
    }

    /// Selects the register. An access wider than a byte acts on the first byte and is counted.
    fn decode(&mut self, offset: u64, size: AccessSize, writing: bool) -> Option<UartRegister> {
        let row = self.row(offset, writing);
        if row.is_none() || size != AccessSize::B1 {
            self.stats.undefined_accesses += 1;
        }
        row.map(|row| row.id)
    }

    fn row(&self, offset: u64, writing: bool) -> Option<&'static Register<UartRegister>> {
        let dlab = self.lcr & LCR_DLAB != 0;
        REGISTERS.iter().find(|row| {
            let latch = matches!(row.id, UartRegister::Dll | UartRegister::Dlm);
            let banked = row.offset <= 1;
            let direction = if writing { row.access.writable() } else { row.access.readable() };
            row.offset == offset && direction && (!banked || latch == dlab)
        })
    }

    /// The manual's name of the currently selected register at an offset.
    pub fn register_name(&self, offset: u64, writing: bool) -> Option<&'static str> {
        self.row(offset, writing).map(|row| row.name)
    }

    fn fifos_enabled(&self) -> bool {
        self.fcr & FCR_ENABLE != 0
    }

    /// Capacity of the receiver: a FIFO, or one byte in 16450 mode.
    fn rx_capacity(&self) -> usize {
        if self.fifos_enabled() { FIFO_BYTES } else { 1 }
    }

    fn rx_trigger(&self) -> usize {
        if self.fifos_enabled() { [1, 4, 8, 14][usize::from(self.fcr >> 6)] } else { 1 }
    }

    fn loopback(&self) -> bool {
        self.mcr & MCR_LOOPBACK != 0
    }

    /// Moves input into the receive FIFO; in loopback the receiver is disconnected from the line, and input
    /// waits.
    fn fill_rx_fifo(&mut self) {
        while !self.loopback() && self.rx_fifo.len() < self.rx_capacity() {
            let Some(byte) = self.input.pop_front() else { return };
            self.rx_fifo.push_back(byte);
        }
    }

    fn receive(&mut self) -> u8 {
        let Some(byte) = self.rx_fifo.pop_front() else {
            self.stats.empty_reads += 1;
            return 0;
        };
        self.stats.bytes_received += 1;
        self.fill_rx_fifo();
        byte
    }

    fn transmit(&mut self, byte: u8) {
        // The byte leaves at once, so the holding register is empty again.
        self.thr_empty_pending = true;
        if self.loopback() {
            if self.rx_fifo.len() < self.rx_capacity() {
                self.rx_fifo.push_back(byte);
            } else {
                self.overrun = true;
                self.stats.overruns += 1;
            }
            return;
        }
        self.stats.bytes_sent += 1;
        if self.output.len() < OUTPUT_BYTES_MAX {
            self.output.push(byte);
        }
    }

    /// The pending cause of the highest priority, as encoded in IIR.
    fn cause(&self) -> u8 {
        let enabled = |bit: u8| self.ier & bit != 0;
        if enabled(IER_LINE_STATUS) && self.overrun {
            IIR_LINE_STATUS
        } else if enabled(IER_RX_DATA) && self.rx_fifo.len() >= self.rx_trigger() {
            IIR_RX_DATA
        } else if enabled(IER_RX_DATA) && !self.rx_fifo.is_empty() {
            IIR_RX_TIMEOUT
        } else if enabled(IER_THR_EMPTY) && self.thr_empty_pending {
            IIR_THR_EMPTY
        } else if enabled(IER_MODEM_STATUS) && self.modem_deltas != 0 {
            IIR_MODEM_STATUS
        } else {
            IIR_NONE
        }
    }

    fn identify_interrupt(&mut self) -> u8 {
        let cause = self.cause();
        if cause == IIR_THR_EMPTY {
            self.thr_empty_pending = false;
        }
        cause | if self.fifos_enabled() { IIR_FIFOS_ENABLED } else { 0 }
    }

    fn line_status(&mut self) -> u8 {
        let ready = if self.rx_fifo.is_empty() { 0 } else { LSR_DATA_READY };
        let overrun = if std::mem::take(&mut self.overrun) { LSR_OVERRUN } else { 0 };
        LSR_THR_AND_TRANSMITTER_EMPTY | ready | overrun
    }

    fn enable_interrupts(&mut self, value: u8) {
        // Enabling this interrupt while the transmitter is empty raises it, which drivers use to start
        // sending.
        if value & !self.ier & IER_THR_EMPTY != 0 {
            self.thr_empty_pending = true;
        }
        self.ier = value;
    }

    fn control_fifos(&mut self, value: u8) {
        let toggled = (value ^ self.fcr) & FCR_ENABLE != 0;
        // The other bits take effect only if FCR enables the FIFOs in the same write.
        self.fcr = if value & FCR_ENABLE != 0 { value & FCR_STORED } else { 0 };
        let clears = |bit: u8| toggled || value & (FCR_ENABLE | bit) == FCR_ENABLE | bit;
        if clears(FCR_RX_RESET) {
            self.rx_fifo.clear();
        }
        // Clearing the transmit FIFO raises its interrupt, although it is always empty.
        self.thr_empty_pending |= clears(FCR_TX_RESET);
        self.fill_rx_fifo();
    }

    fn control_modem(&mut self, value: u8) {
        self.mcr = value;
        let old = self.modem_lines;
        let new = if self.loopback() {
            // DTR→DSR, RTS→CTS, OUT1→RI, OUT2→DCD
            let pairs = [(0, 5), (1, 4), (2, 6), (3, 7)];
            pairs.iter().map(|(from, to)| ((value >> from) & 1) << to).sum()
        } else {
            reset_of(UartRegister::Msr)
        };
        let changed = (old ^ new) & !MSR_RING | (old & !new & MSR_RING);
        self.modem_lines = new;
        self.modem_deltas |= changed >> 4;
        self.fill_rx_fifo();
    }

    /// Restores a saved state.
    pub fn restore(&mut self, state: Uart) -> Result<(), SnapshotError> {
        if state.rx_fifo.len() > FIFO_BYTES || state.input.len() > INPUT_BYTES_MAX {
            return Err(SnapshotError::Inconsistent {
                name: "uart".into(),
                problem: "more bytes wait than there is room for".into(),
            });
        }
        *self = state;
        Ok(())
    }
}

#[cfg(test)]
#[path = "uart_tests.rs"]
mod tests;
