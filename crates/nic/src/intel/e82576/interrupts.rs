//! Interrupts (§7.3, §8.8). Causes are bits of ICR; IVAR also makes those of queues, and IVAR_MISC all others, bits of EICR, one a vector.
//!
//! With GPIE.MULTIPLE_MSIX each vector is an interrupt of its own: when a bit of EICR is enabled by EIMS a message is sent, EITR's
//! interval after the vector's last one at the soonest; then EIAC clears the cause and EIAM, with GPIE.EIAME, the enable. Without GPIE.EIAME the bits of
//! EIMS that EIAM names are cleared when EICR is read or written, and set when EICS is. Without GPIE.MULTIPLE_MSIX there is one
//! interrupt: the line is high while ICR & IMS is not zero, and where software has enabled MSI or MSI-X each rise is a message of
//! vector 0; EITR[0] holds the rise back. `nic.interrupt_delay`, which no register knows, holds back both.
//!
//! Not modelled: low latency interrupts, the TCP timer, EITR's counter, which software may write: an interval that is written counts from the
//! vector's last interrupt on.

use doorbell_pcie::FunctionPorts;
use doorbell_sim::{Ps, log};
use serde::{Deserialize, Serialize};

use super::bits::{cause, extended, gpie, ivar};
use super::identity::VECTORS;
use super::regs::Reg;
use super::{Igb, QUEUES};
use crate::intel::queues::bits_of;
use crate::intel::{Event, wake};
use crate::parts::timer::{Timer, Wake};

/// EITR's interval, in microseconds from this bit on. The bits above are of low latency interrupts.
const EITR_INTERVAL: u32 = 0x7ffc;
const EITR_SHIFT: u32 = 2;
/// The vector number of the line's own wake-ups.
const LINE: u8 = VECTORS as u8;
/// Bits of EICR that are vectors.
const ALL_VECTORS: u32 = (1 << VECTORS) - 1;

/// What moderates one interrupt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Moderation {
    /// When it last came.
    last: Option<Ps>,
    /// Since when it has been due, if it is and has not come.
    due: Option<Ps>,
    timer: Timer,
}

/// What a look at a moderated interrupt says.
enum Turn {
    Now,
    Later,
    WakeAt(Ps),
}

impl Moderation {
    /// Whether it comes now, with this least time between two and this delay.
    fn turn(&mut self, now: Ps, interval: Ps, delay: Ps) -> Turn {
        let ready = self.last.map_or(Ps::ZERO, |last| last.saturating_add(interval));
        let due = *self.due.get_or_insert(now);
        let ready = ready.max(due.saturating_add(delay));
        if now >= ready {
            self.cancel();
            self.last = Some(now);
            return Turn::Now;
        }
        self.timer.arm(ready).map_or(Turn::Later, Turn::WakeAt)
    }

    /// It is not due any longer.
    fn cancel(&mut self) {
        self.timer.cancel();
        self.due = None;
    }
}

/// The line and the vectors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Interrupts {
    level: bool,
    line: Moderation,
    /// Vectors whose cause has come and whose message has not gone.
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
    /// Everything is quiet. The line itself is driven low by the next [`Igb::update_irq`]; wake-ups on their way find nothing.
    pub fn reset(&mut self) {
        self.wanted = 0;
        for moderation in self.vectors.iter_mut().chain([&mut self.line]) {
            moderation.cancel();
            moderation.last = None;
        }
    }

    /// Whether a saved state is one that can exist.
    pub fn is_consistent(&self) -> bool {
        self.vectors.len() == VECTORS && self.wanted & !ALL_VECTORS == 0
    }
}

/// A queue's cause.
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

    /// The bits of EICR and its masks that there are.
    pub(super) fn extended_causes(&self) -> u32 {
        if self.has_multiple_vectors() { ALL_VECTORS } else { extended::SHARED }
    }

    /// The vector that a byte of an IVAR register names, as a bit of EICR.
    fn vector_bit(entry: u32) -> u32 {
        let vector = entry & ivar::VECTOR;
        if entry & ivar::VALID != 0 && vector < VECTORS as u32 { 1 << vector } else { 0 }
    }

    /// The bit of EICR that a queue's cause sets.
    fn queue_bit(&self, queue: usize, of: QueueCause) -> u32 {
        let register = self.regs.at(Reg::Ivar, queue % (QUEUES / 2));
        let byte = 2 * (queue / (QUEUES / 2)) + usize::from(of == QueueCause::Sent);
        Self::vector_bit(register >> (8 * byte))
    }

    /// Raises a queue's cause, and others beside it.
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
        // With vectors of their own, queues are not among the other causes.
        self.raise(now, own | others, others, bit, ports);
    }

    /// Raises causes that are no queue's.
    pub(super) fn set_cause(&mut self, now: Ps, bits: u32, ports: &mut dyn FunctionPorts) {
        let bits = bits & Reg::Icr.info().mask;
        self.raise(now, bits, bits, 0, ports);
    }

    /// Software raises extended causes, and enables those that EIAM names.
    pub(super) fn write_eics(&mut self, now: Ps, bits: u32, ports: &mut dyn FunctionPorts) {
        if self.eiam_acts_on_access() {
            let enabled = bits & self.regs.get(Reg::Eiam) & self.extended_causes();
            let before = self.asserting();
            self.regs.set(Reg::Eims, self.regs.get(Reg::Eims) | enabled);
            self.masks_changed(now, before, ports);
        }
        self.raise(now, 0, 0, bits, ports);
    }

    /// Causes come: bits of ICR, of which `other` are no queue's, and bits of EICR.
    fn raise(&mut self, now: Ps, causes: u32, other: u32, bits: u32, ports: &mut dyn FunctionPorts) {
        let before = self.asserting();
        let known = self.regs.get(Reg::Icr);
        self.regs.set(Reg::Icr, known | causes);
        let news = other & !known & self.regs.get(Reg::Ims);
        let mut bits = bits;
        if news != 0 {
            bits |= match self.has_multiple_vectors() {
                true => Self::vector_bit(self.regs.get(Reg::IvarMisc) >> 8),
                false => extended::OTHER,
            };
        }
        self.regs.set(Reg::Eicr, self.regs.get(Reg::Eicr) | bits & self.extended_causes());
        self.masks_changed(now, before, ports);
    }

    /// Vectors that assert: their cause is there and enabled.
    fn asserting(&self) -> u32 {
        self.regs.get(Reg::Eicr) & self.regs.get(Reg::Eims) & ALL_VECTORS
    }

    /// Causes or masks have changed; before, these vectors asserted.
    fn masks_changed(&mut self, now: Ps, before: u32, ports: &mut dyn FunctionPorts) {
        if self.has_multiple_vectors() {
            self.chip.irq.wanted |= self.asserting() & !before;
        }
        self.update_irq(now, ports);
    }

    /// ICR as software reads it. That clears it unless GPIE says that it must not: while no cause is masked in, or one asserts,
    /// it always does.
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

    /// Software has read or written ICR: that masks what IAM names, with GPIE.NSICR always and without it while a cause asserted.
    fn acknowledge(&mut self, asserted: bool) {
        if asserted || self.regs.has(Reg::Gpie, gpie::NSICR) {
            self.regs.set(Reg::Ims, self.regs.get(Reg::Ims) & !self.regs.get(Reg::Iam));
        }
    }

    /// Whether EIAM acts where software reads and writes EICR and EICS, and not where messages are sent.
    fn eiam_acts_on_access(&self) -> bool {
        !self.regs.has(Reg::Gpie, gpie::EIAME)
    }

    /// Software has read or written these bits of EICR: that masks those that EIAM names.
    pub(super) fn acknowledge_extended(&mut self, bits: u32) {
        if self.eiam_acts_on_access() {
            self.regs.set(Reg::Eims, self.regs.get(Reg::Eims) & !(bits & self.regs.get(Reg::Eiam)));
        }
    }

    /// EICR as software reads it, which clears it where there is one interrupt for all.
    pub(super) fn read_eicr(&mut self, now: Ps, ports: &mut dyn FunctionPorts) -> u32 {
        let causes = self.regs.get(Reg::Eicr);
        self.acknowledge_extended(!0);
        if !self.has_multiple_vectors() {
            self.regs.set(Reg::Eicr, 0);
            self.update_irq(now, ports);
        }
        causes
    }

    /// Clears bits of ICR or EICR, or changes a mask, as software asks.
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

    /// Software enables causes: of those that are in ICR already it learns as of new ones.
    pub(super) fn write_ims(&mut self, now: Ps, bits: u32, ports: &mut dyn FunctionPorts) {
        let news = bits & !self.regs.get(Reg::Ims) & self.regs.get(Reg::Icr) & !(cause::RXDW | cause::TXDW);
        let before = self.asserting();
        self.regs.set(Reg::Ims, self.regs.get(Reg::Ims) | bits);
        if news != 0 && self.has_multiple_vectors() {
            let bit = Self::vector_bit(self.regs.get(Reg::IvarMisc) >> 8);
            self.regs.set(Reg::Eicr, self.regs.get(Reg::Eicr) | bit);
        }
        self.masks_changed(now, before, ports);
    }

    /// Drives the line, and sends messages, as causes, masks and moderation say.
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
        match self.chip.irq.line.turn(now, self.interval(0), self.config.interrupt_delay) {
            Turn::Now => {
                self.chip.irq.level = true;
                self.count_interrupt();
                let causes = self.regs.get(Reg::Icr);
                log!(now, Nic, Debug, "{}: interrupt line high, ICR = {causes:#x}", self.name);
                ports.set_irq(true);
                ports.raise(now, 0);
            }
            Turn::Later => {}
            Turn::WakeAt(at) => wake(ports, at, Event::Chip(LINE)),
        }
    }

    fn count_interrupt(&mut self) {
        self.stats.interrupts += 1;
        self.regs.count(Reg::Iac);
    }

    /// Sends the messages of wanted vectors whose turn it is.
    fn send_vectors(&mut self, now: Ps, ports: &mut dyn FunctionPorts) {
        let asserting = self.asserting();
        let gone = self.chip.irq.wanted & !asserting;
        self.chip.irq.wanted &= asserting;
        for vector in bits_of(gone) {
            self.chip.irq.vectors[vector].cancel();
        }
        for vector in bits_of(self.chip.irq.wanted) {
            let (interval, delay) = (self.interval(vector), self.config.interrupt_delay);
            match self.chip.irq.vectors[vector].turn(now, interval, delay) {
                Turn::Now => self.send_vector(now, vector, ports),
                Turn::Later => {}
                Turn::WakeAt(at) => wake(ports, at, Event::Chip(vector as u8)),
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

    /// An interval may be over.
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
