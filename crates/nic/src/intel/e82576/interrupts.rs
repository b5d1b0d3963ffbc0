//! Interrupts (§7.3, §8.8). Causes are bits of ICR. IVAR maps queue causes, and IVAR_MISC all other causes,
//! to bits of EICR, one per vector.
//!
//! With GPIE.MULTIPLE_MSIX each vector is a separate interrupt. When an EICR bit that EIMS enables is set, a
//! message is sent, at the earliest EITR's interval after the vector's last message. Then EIAC clears the
//! cause, and EIAM, with GPIE.EIAME, clears the enable. Without GPIE.EIAME, the EIMS bits selected by EIAM
//! are cleared when EICR is read or written, and set when EICS is written.
//!
//! Without GPIE.MULTIPLE_MSIX there is one interrupt. The line is high while ICR & IMS is not zero. If
//! software has enabled MSI or MSI-X, each rise of the line is a message of vector 0. EITR[0] delays the
//! rise. `nic.interrupt_delay`, a parameter of the model that has no register, delays both kinds of
//! interrupts.
//!
//! Not modelled: low latency interrupts, the TCP timer, and writes to EITR's counter. A newly written
//! interval counts from the vector's last interrupt.

use doorbell_pcie::FunctionPorts;
use doorbell_sim::{Ps, log};
use serde::{Deserialize, Serialize};

use super::bits::{cause, extended, gpie, ivar};
use super::identity::VECTORS;
use super::regs::Reg;
use super::{Igb, QUEUES};
use crate::intel::queues::bits_of;
use crate::intel::{Event, wake};
use crate::parts::engine::Ready;
use crate::parts::moderation::Moderation;
use crate::parts::timer::Wake;

/// Interval field of EITR, in microseconds. The bits above belong to low latency interrupts.
const EITR_INTERVAL: u32 = 0x7ffc;
const EITR_SHIFT: u32 = 2;
/// Timer number of the interrupt line, after those of the vectors.
const LINE: u8 = VECTORS as u8;
/// EICR bits of vectors.
const ALL_VECTORS: u32 = (1 << VECTORS) - 1;

/// State of the interrupt line and the vectors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Interrupts {
    level: bool,
    line: Moderation,
    /// Vectors whose cause was raised and whose message is not sent yet.
    wanted: u32,
    vectors: Vec<Moderation>,
}

impl Default for Interrupts {
    fn default() -> Self {
        Interrupts {
            level: false,
            line: Moderation::default(),
            wanted: 0,
            vectors: vec![Moderation::default(); VECTORS],
        }
    }
}

impl Interrupts {
    /// Clears everything except the line, which the next [`Igb::update_irq`] drives low. Wake-ups already
    /// scheduled have no effect.
    pub fn reset(&mut self) {
        self.wanted = 0;
        for moderation in self.vectors.iter_mut().chain([&mut self.line]) {
            moderation.reset();
        }
    }

    /// Whether a restored state is valid.
    pub fn is_consistent(&self) -> bool {
        self.vectors.len() == VECTORS && self.wanted & !ALL_VECTORS == 0
    }
}

/// Interrupt cause of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueueCause {
    /// Receive descriptors were written back.
    Received,
    /// Transmit descriptors were written back.
    Sent,
}

impl Igb {
    fn has_multiple_vectors(&self) -> bool {
        self.regs.has(Reg::Gpie, gpie::MULTIPLE_MSIX)
    }

    /// Bits of EICR and its masks that exist in the current mode.
    pub(super) fn extended_causes(&self) -> u32 {
        if self.has_multiple_vectors() { ALL_VECTORS } else { extended::SHARED }
    }

    /// EICR bit of the vector in an IVAR entry; zero if the entry is invalid.
    fn vector_bit(entry: u32) -> u32 {
        let vector = entry & ivar::VECTOR;
        if entry & ivar::VALID != 0 && vector < VECTORS as u32 { 1 << vector } else { 0 }
    }

    /// EICR bit of a queue's cause.
    fn queue_bit(&self, queue: usize, of: QueueCause) -> u32 {
        let register = self.regs.at(Reg::Ivar, queue % (QUEUES / 2));
        let byte = 2 * (queue / (QUEUES / 2)) + usize::from(of == QueueCause::Sent);
        Self::vector_bit(register >> (8 * byte))
    }

    /// Raises a queue's cause, and `others` with it.
    pub(super) fn queue_cause(
        &mut self,
        now: Ps,
        queue: usize,
        of: QueueCause,
        others: u32,
        ports: &mut dyn FunctionPorts,
    ) {
        let bit = self.queue_bit(queue, of);
        let own = if of == QueueCause::Received { cause::RXDW } else { cause::TXDW };
        // RXDW and TXDW do not raise the vector of other causes.
        self.raise(now, own | others, others, bit, ports);
    }

    /// Raises causes that belong to no queue.
    pub(super) fn set_cause(&mut self, now: Ps, bits: u32, ports: &mut dyn FunctionPorts) {
        let bits = bits & Reg::Icr.info().mask;
        self.raise(now, bits, bits, 0, ports);
    }

    /// Handles a write to EICS: raises extended causes. If EIAM acts on accesses, also enables those that
    /// EIAM selects.
    pub(super) fn write_eics(&mut self, now: Ps, bits: u32, ports: &mut dyn FunctionPorts) {
        if self.eiam_acts_on_access() {
            let enabled = bits & self.regs.get(Reg::Eiam) & self.extended_causes();
            let before = self.asserting();
            self.regs.set(Reg::Eims, self.regs.get(Reg::Eims) | enabled);
            self.masks_changed(now, before, ports);
        }
        self.raise(now, 0, 0, bits, ports);
    }

    /// Raises causes: bits of ICR, of which those in `other` belong to no queue, and bits of EICR.
    fn raise(&mut self, now: Ps, causes: u32, other: u32, bits: u32, ports: &mut dyn FunctionPorts) {
        let before = self.asserting();
        let pending = self.regs.get(Reg::Icr);
        self.regs.set(Reg::Icr, pending | causes);
        let new_causes = other & !pending & self.regs.get(Reg::Ims);
        let mut bits = bits;
        if new_causes != 0 {
            bits |= match self.has_multiple_vectors() {
                true => Self::vector_bit(self.regs.get(Reg::IvarMisc) >> 8),
                false => extended::OTHER,
            };
        }
        self.regs.set(Reg::Eicr, self.regs.get(Reg::Eicr) | bits & self.extended_causes());
        self.masks_changed(now, before, ports);
    }

    /// Vectors whose cause is set and enabled.
    fn asserting(&self) -> u32 {
        self.regs.get(Reg::Eicr) & self.regs.get(Reg::Eims) & ALL_VECTORS
    }

    /// Called after causes or masks have changed; `before` are the vectors that asserted before.
    fn masks_changed(&mut self, now: Ps, before: u32, ports: &mut dyn FunctionPorts) {
        if self.has_multiple_vectors() {
            self.chip.irq.wanted |= self.asserting() & !before;
        }
        self.update_irq(now, ports);
    }

    /// Reads ICR. This clears it if a cause asserts, if IMS is zero, or if GPIE.NSICR is set.
    pub(super) fn read_icr(&mut self, now: Ps, ports: &mut dyn FunctionPorts) -> u32 {
        let (causes, mask) = (self.regs.get(Reg::Icr), self.regs.get(Reg::Ims));
        let asserted = causes & mask != 0;
        if asserted || mask == 0 || self.regs.has(Reg::Gpie, gpie::NSICR) {
            self.regs.set(Reg::Icr, 0);
        }
        self.acknowledge(asserted);
        self.update_irq(now, ports);
        causes | if asserted { cause::INT_ASSERTED } else { 0 }
    }

    /// Called when software reads or writes ICR: clears the IMS bits selected by IAM, if a cause asserts or
    /// GPIE.NSICR is set.
    fn acknowledge(&mut self, asserted: bool) {
        if asserted || self.regs.has(Reg::Gpie, gpie::NSICR) {
            self.regs.set(Reg::Ims, self.regs.get(Reg::Ims) & !self.regs.get(Reg::Iam));
        }
    }

    /// Whether EIAM acts on accesses to EICR and EICS, and not when messages are sent.
    fn eiam_acts_on_access(&self) -> bool {
        !self.regs.has(Reg::Gpie, gpie::EIAME)
    }

    /// Called when software reads or writes `bits` of EICR: clears those EIMS bits that EIAM selects, if EIAM
    /// acts on accesses.
    pub(super) fn acknowledge_extended(&mut self, bits: u32) {
        if self.eiam_acts_on_access() {
            self.regs.set(Reg::Eims, self.regs.get(Reg::Eims) & !(bits & self.regs.get(Reg::Eiam)));
        }
    }

    /// Reads EICR. This clears it unless GPIE.MULTIPLE_MSIX is set.
    pub(super) fn read_eicr(&mut self, now: Ps, ports: &mut dyn FunctionPorts) -> u32 {
        let causes = self.regs.get(Reg::Eicr);
        self.acknowledge_extended(!0);
        if !self.has_multiple_vectors() {
            self.regs.set(Reg::Eicr, 0);
            self.update_irq(now, ports);
        }
        causes
    }

    /// Stores a new value of ICR, EICR, a mask or GPIE.
    pub(super) fn write_interrupt_register(
        &mut self,
        now: Ps,
        reg: Reg,
        value: u32,
        ports: &mut dyn FunctionPorts,
    ) {
        let before = self.asserting();
        if reg == Reg::Icr {
            self.acknowledge(self.regs.get(Reg::Icr) & self.regs.get(Reg::Ims) != 0);
        }
        self.regs.set(reg, value);
        self.masks_changed(now, before, ports);
    }

    /// Handles a write to IMS. Causes that are enabled while already set in ICR count as new.
    pub(super) fn write_ims(&mut self, now: Ps, bits: u32, ports: &mut dyn FunctionPorts) {
        let new_causes =
            bits & !self.regs.get(Reg::Ims) & self.regs.get(Reg::Icr) & !(cause::RXDW | cause::TXDW);
        let before = self.asserting();
        self.regs.set(Reg::Ims, self.regs.get(Reg::Ims) | bits);
        if new_causes != 0 && self.has_multiple_vectors() {
            let bit = Self::vector_bit(self.regs.get(Reg::IvarMisc) >> 8);
            self.regs.set(Reg::Eicr, self.regs.get(Reg::Eicr) | bit);
        }
        self.masks_changed(now, before, ports);
    }

    /// Drives the line or sends messages, according to causes, masks and moderation.
    pub(super) fn update_irq(&mut self, now: Ps, ports: &mut dyn FunctionPorts) {
        if self.has_multiple_vectors() {
            self.lower(now, ports);
            self.send_vectors(now, ports);
        } else {
            self.drive_line(now, ports);
        }
    }

    fn lower(&mut self, now: Ps, ports: &mut dyn FunctionPorts) {
        self.chip.irq.line.cancel();
        if self.chip.irq.level {
            self.chip.irq.level = false;
            log!(now, Nic, Debug, "{}: interrupt line low", self.name);
            ports.set_irq(false);
            ports.withdraw(0);
        }
    }

    fn interval(&self, vector: usize) -> Ps {
        let interval = self.regs.at(Reg::Eitr, vector) & EITR_INTERVAL;
        Ps::from_us(u64::from(interval >> EITR_SHIFT))
    }

    fn drive_line(&mut self, now: Ps, ports: &mut dyn FunctionPorts) {
        if self.regs.get(Reg::Icr) & self.regs.get(Reg::Ims) == 0 {
            return self.lower(now, ports);
        }
        if self.chip.irq.level {
            return;
        }
        match self.chip.irq.line.deliver(now, self.interval(0), self.config.interrupt_delay) {
            Ready::Now => {
                self.chip.irq.level = true;
                self.count_interrupt();
                let causes = self.regs.get(Reg::Icr);
                log!(now, Nic, Debug, "{}: interrupt line high, ICR = {causes:#x}", self.name);
                ports.set_irq(true);
                ports.raise(now, 0);
            }
            Ready::Later => {}
            Ready::WakeAt(at) => wake(ports, at, Event::Chip(LINE)),
        }
    }

    fn count_interrupt(&mut self) {
        self.stats.interrupts += 1;
        self.regs.count(Reg::Iac);
    }

    /// Sends the pending messages that moderation allows now.
    fn send_vectors(&mut self, now: Ps, ports: &mut dyn FunctionPorts) {
        let asserting = self.asserting();
        let deasserted = self.chip.irq.wanted & !asserting;
        self.chip.irq.wanted &= asserting;
        for vector in bits_of(deasserted) {
            self.chip.irq.vectors[vector].cancel();
        }
        for vector in bits_of(self.chip.irq.wanted) {
            let (interval, delay) = (self.interval(vector), self.config.interrupt_delay);
            match self.chip.irq.vectors[vector].deliver(now, interval, delay) {
                Ready::Now => self.send_vector(now, vector, ports),
                Ready::Later => {}
                Ready::WakeAt(at) => wake(ports, at, Event::Chip(vector as u8)),
            }
        }
    }

    fn send_vector(&mut self, now: Ps, vector: usize, ports: &mut dyn FunctionPorts) {
        let bit = 1 << vector;
        self.chip.irq.wanted &= !bit;
        if self.regs.has(Reg::Gpie, gpie::EIAME) {
            self.regs.set(Reg::Eims, self.regs.get(Reg::Eims) & !(self.regs.get(Reg::Eiam) & bit));
        }
        self.regs.set(Reg::Eicr, self.regs.get(Reg::Eicr) & !(self.regs.get(Reg::Eiac) & bit));
        self.count_interrupt();
        log!(now, Nic, Debug, "{}: message of vector {vector}", self.name);
        ports.raise(now, vector as u16);
    }

    /// Handles a wake-up of a vector's or the line's moderation timer.
    pub(super) fn on_vector_wake(&mut self, now: Ps, vector: u8, ports: &mut dyn FunctionPorts) {
        let moderation = match vector {
            LINE => &mut self.chip.irq.line,
            _ => match self.chip.irq.vectors.get_mut(usize::from(vector)) {
                Some(moderation) => moderation,
                None => return,
            },
        };
        match moderation.timer.wake(now) {
            Wake::Ignore => {}
            Wake::Again(at) => wake(ports, at, Event::Chip(vector)),
            Wake::Expired => self.update_irq(now, ports),
        }
    }
}
