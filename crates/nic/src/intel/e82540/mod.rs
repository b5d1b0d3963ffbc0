//! The 82540EM, modelled after Intel's "PCI/PCI-X Family of Gigabit Ethernet Controllers Software Developer's
//! Manual" (317453), and its use by Linux's e1000 and DPDK's em drivers. Section numbers refer to that
//! manual.
//!
//! Modelled: all registers of the table in [`regs`]; EEPROM and PHY; receive filters, VLAN; legacy, context
//! and data descriptors with checksum offload and TCP segmentation; thresholds; interrupt moderation;
//! statistics; PAUSE; loopback; negotiated or forced speed and duplex (only reported to software; frames
//! always use the link's rate and never collide). Not modelled: wake-up, management (ASF), message signalled
//! interrupts, the packet buffer's diagnostic window.

mod access;
mod bits;
mod descriptor;
mod identity;
mod interrupts;
mod offload;
pub mod regs;

use doorbell_pcie::{FunctionIdentity, FunctionPorts};
use doorbell_sim::{Bytes, Ps};
use doorbell_wire::checksum::Sum;
use serde::{Deserialize, Serialize};

use super::Controller;
use super::chip::{At, Chip, Common, Regs, SegmentationCount, common_registers};
use super::queues::{Queue, QueuesOn};
use super::rx::{Examined, RxFields};
use super::tx::Descriptor;
use crate::config::NicConfig;
use crate::intel::eeprom::Eeprom;
use crate::parts::phy::Phy;
use crate::parts::ring::Thresholds;
use bits::{cause, dctl, eerd, rctl, txd};
use regs::Reg;

pub use identity::{IO_BYTES, MMIO_BYTES};
pub use regs::register_reference;

/// An 82540EM.
pub type Nic = Controller<E82540>;

/// Total packet buffer, divided by PBA into receive and transmit parts (§13.4.16).
pub const PACKET_BUFFER: Bytes = Bytes(64 << 10);

/// Receive buffer size in bytes, by RCTL.BSEX and RCTL.BSIZE. The reserved code is treated as the smallest
/// size of its row.
const BUFFER_BYTES: [[usize; 4]; 2] = [[2048, 1024, 512, 256], [4096, 16384, 8192, 4096]];

/// State specific to this chip.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct E82540 {
    eeprom: Eeprom,
    irq: interrupts::Interrupts,
}

impl Chip for E82540 {
    type Reg = Reg;
    type Phy = Phy;
    type Context = descriptor::Context;

    const REG: Common<Reg> = common_registers!(Reg);
    const IO_BAR: u8 = identity::IO_BAR;
    const STATE_VERSION: u32 = 9;
    const QUEUES: usize = 1;
    const LONGEST_SENT: usize = 16288;
    const LOW_MARK: u32 = 0xfff8;
    const EERD: (u32, u32) = (eerd::ADDRESS_SHIFT, eerd::DONE);
    const DELAYED: u8 = txd::IDE;
    const TSCTC: SegmentationCount = SegmentationCount::Contexts;

    fn identity() -> FunctionIdentity {
        identity::identity()
    }

    fn new(config: &NicConfig, index: usize) -> E82540 {
        let eeprom = Eeprom::new(config.mac_of(index), &identity::identity(), config.pause_frames);
        E82540 { eeprom, irq: interrupts::Interrupts::default() }
    }

    fn station(&self) -> [u8; 6] {
        self.eeprom.mac()
    }

    fn memory_word(&self, address: u32) -> u16 {
        self.eeprom.word(address)
    }

    fn reset(&mut self) {
        self.irq.reset();
    }

    fn is_consistent(&self, regs: &Regs<E82540>) -> bool {
        self.eeprom.is_consistent() && receive_kib(regs) <= PACKET_BUFFER.0 >> 10
    }

    fn lookup(offset: u64) -> Option<At<E82540>> {
        regs::lookup(offset)
    }

    fn stored(nic: &Nic, at: At<E82540>) -> u32 {
        nic.stored(at)
    }

    fn read(nic: &mut Nic, now: Ps, at: At<E82540>, ports: &mut dyn FunctionPorts) -> u32 {
        nic.read_register(now, at, ports)
    }

    fn write(nic: &mut Nic, now: Ps, at: At<E82540>, value: u32, ports: &mut dyn FunctionPorts) {
        nic.write_register(now, at, value, ports);
    }

    fn raise_cause(nic: &mut Nic, now: Ps, bits: u32, ports: &mut dyn FunctionPorts) {
        nic.set_cause(now, bits, ports);
    }

    fn update_interrupts(nic: &mut Nic, now: Ps, ports: &mut dyn FunctionPorts) {
        nic.update_irq(now, ports);
    }

    fn timer(nic: &mut Nic, now: Ps, number: u8, ports: &mut dyn FunctionPorts) {
        nic.interrupt_timer(now, number, ports);
    }

    fn queues_on(_: &Regs<E82540>) -> QueuesOn {
        QueuesOn { receive: 1, transmit: 1 }
    }

    /// Decodes RXDCTL or TXDCTL (§13.4.46, §13.4.43). A cache line is 64 bytes, four descriptors.
    fn thresholds(regs: &Regs<E82540>, queue: Queue) -> Thresholds {
        let value = regs.get(if queue.receives() { Reg::Rxdctl } else { Reg::Txdctl });
        let unit = if value & dctl::GRAN != 0 { 1 } else { 4 };
        let field = |shift: u32| (value >> shift & 0x3f) * unit;
        Thresholds { prefetch: field(0), host: field(8), write_back: field(16) }
    }

    /// PBA sets the receive part; the transmit part is the rest.
    fn packet_buffers(regs: &Regs<E82540>) -> [u64; 2] {
        let receive = receive_kib(regs) << 10;
        [receive, PACKET_BUFFER.0.saturating_sub(receive)]
    }

    fn longest_received(_: &Regs<E82540>) -> usize {
        16384
    }

    fn examine(
        &mut self,
        regs: &Regs<E82540>,
        bytes: &mut Vec<u8>,
        Examined { status, stripped, vlan_type, fcs }: Examined,
    ) -> (usize, RxFields) {
        let mut notes = RxFields { status, vlan: stripped.unwrap_or(0), ..RxFields::default() };
        offload::check(bytes, vlan_type, regs.get(Reg::Rxcsum), &mut notes);
        if let Some(fcs) = fcs {
            bytes.extend_from_slice(&fcs.to_le_bytes());
        }
        // The packet checksum covers the stored bytes from RXCSUM.PCSS on.
        let start = (regs.get(Reg::Rxcsum) & 0xff) as usize;
        notes.checksum = Sum::new().plus(bytes.get(start..).unwrap_or(&[])).finish();
        (0, notes)
    }

    fn buffer_bytes(regs: &Regs<E82540>, _: usize) -> [usize; 2] {
        let rctl = regs.get(Reg::Rctl);
        let sizes = BUFFER_BYTES[usize::from(rctl & rctl::BSEX != 0)];
        [sizes[(rctl >> rctl::BSIZE_SHIFT & 3) as usize], 0]
    }

    /// Raises or delays the interrupt of each frame. RXDMT0 is raised when the free descriptors fall to a
    /// fraction of the ring (RCTL.RDMTS).
    fn frames_delivered(
        nic: &mut Nic,
        now: Ps,
        queue: usize,
        frames: &[u32],
        [before, after]: [u32; 2],
        ports: &mut dyn FunctionPorts,
    ) {
        for bytes in frames {
            nic.frame_received_interrupt(now, *bytes, ports);
        }
        let fraction = 1 + (nic.regs.get(Reg::Rctl) >> rctl::RDMTS_SHIFT & 3).min(2);
        let minimum = nic.regs.ring_count::<E82540>(Queue::receive(queue)) >> fraction;
        if before > minimum && after <= minimum {
            nic.set_cause(now, cause::RXDMT0, ports);
        }
    }

    fn descriptor(words: [u64; 2]) -> Descriptor<descriptor::Context> {
        descriptor::parse(words)
    }

    /// Raises TXD_LOW when few descriptors are left, TXQE when none are.
    fn head_moved(nic: &mut Nic, now: Ps, [before, after]: [u32; 2], ports: &mut dyn FunctionPorts) {
        let low = 8 * (nic.regs.get(Reg::Txdctl) >> dctl::LWTHRESH_SHIFT);
        let few = if before > low && after <= low { cause::TXD_LOW } else { 0 };
        let none = if after == 0 { cause::TXQE } else { 0 };
        if few | none != 0 {
            nic.set_cause(now, few | none, ports);
        }
    }

    fn descriptors_sent(
        nic: &mut Nic,
        now: Ps,
        _: usize,
        at_once: bool,
        later: bool,
        ports: &mut dyn FunctionPorts,
    ) {
        if later {
            nic.descriptor_sent_interrupt(now, true, ports);
        }
        if at_once {
            nic.descriptor_sent_interrupt(now, false, ports);
        }
    }
}

/// Receive part of the packet buffer in KiB (PBA).
fn receive_kib(regs: &Regs<E82540>) -> u64 {
    u64::from(regs.get(Reg::Pba) & 0xffff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::ring::Ring;

    #[test]
    fn rings_come_from_the_registers_of_their_direction() {
        let mut regs = Regs::<E82540>::new();
        for (reg, value) in
            [(Reg::Tdbah, 1), (Reg::Tdbal, 0x1000), (Reg::Tdlen, 128), (Reg::Tdh, 7), (Reg::Tdt, 2)]
        {
            regs.set(reg, value);
        }
        let (receive, transmit) = (Queue::receive(0), Queue::transmit(0));
        let ring = Ring { base: 0x1_0000_1000, count: 8, head: 7, tail: 2 };
        assert_eq!((regs.ring::<E82540>(transmit), regs.ring::<E82540>(receive)), (Some(ring), None));
        assert_eq!((regs.ring_owned::<E82540>(transmit), regs.ring_owned::<E82540>(receive)), (3, 0));
        regs.set(Reg::Tdh, 8);
        assert_eq!((regs.ring::<E82540>(transmit), regs.ring_owned::<E82540>(transmit)), (None, 0));
    }

    #[test]
    fn threshold_unit_is_cache_lines_or_descriptors_by_gran() {
        let mut regs = Regs::<E82540>::new();
        assert_eq!(E82540::thresholds(&regs, Queue::receive(0)).write_back, 4, "reset value");
        regs.set(Reg::Txdctl, 0x0103_0408);
        let thresholds = E82540::thresholds(&regs, Queue::transmit(0));
        assert_eq!((thresholds.prefetch, thresholds.host, thresholds.write_back), (8, 4, 3));
    }
}
