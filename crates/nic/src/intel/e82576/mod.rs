//! The 82576, modelled after Intel's "82576 Gigabit Ethernet Controller Datasheet" (320961) and its use by
//! Linux's and DPDK's igb drivers: one port, sixteen queues in each direction. Section numbers refer to that
//! datasheet.
//!
//! Modelled: all registers of the table in [`regs`]; NVM and PHY; legacy and advanced descriptors, context
//! descriptors with checksum offload and TCP and UDP segmentation; header split and replication; RSS;
//! EtherType, SYN and 5-tuple filters; head write-back; MSI-X with a vector per cause, moderation and
//! automatic clearing and masking; MSI and the interrupt line; PAUSE; loopback; statistics. Not modelled:
//! virtual functions and pools, time stamps, IPsec, MACsec, wake-up, management.

mod access;
mod bits;
mod dca;
mod descriptor;
mod identity;
mod interrupts;
mod nvm;
mod offload;
mod phy;
pub mod regs;
mod steer;
mod unsupported;

use doorbell_pcie::{FunctionIdentity, FunctionPorts};
use doorbell_sim::Ps;
use serde::{Deserialize, Serialize};

use super::Controller;
use super::bits::rctl;
use super::chip::{At, Chip, Common, Regs, SegmentationCount, common_registers};
use super::queues::{Queue, QueuesOn};
use super::rx::{DescriptorType, Examined, RxFields};
use super::tx::Descriptor;
use crate::config::NicConfig;
use crate::parts::dma::TransferClass;
use crate::parts::headers::Headers;
use crate::parts::ring::Thresholds;
use bits::{cause, dctl, eerd, fcrtl, rxd, srrctl, tdwbal};
use interrupts::QueueCause;
use regs::Reg;

pub use identity::{IO_BYTES, MESSAGE_BYTES, MMIO_BYTES, VECTORS};
pub use regs::register_reference;

/// An 82576.
pub type Igb = Controller<E82576>;

/// Queues in each direction.
pub const QUEUES: usize = 16;

/// Receive buffer size in bytes by RCTL.BSIZE, used if SRRCTL has no size.
const BUFFER_BYTES: [usize; 4] = [2048, 1024, 512, 256];
/// Unit of SRRCTL.RDMTS, in descriptors.
const RDMTS_DESCRIPTORS: u32 = 16;
/// Pool whose counters count: all queues belong to pool 0.
const POOL: usize = 0;

/// State specific to this chip.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct E82576 {
    nvm: nvm::Nvm,
    irq: interrupts::Interrupts,
    /// RSS key as look-up tables. Not saved.
    #[serde(skip)]
    hash: steer::Hash,
}

impl Chip for E82576 {
    type Reg = Reg;
    type Phy = phy::IgpPhy;
    type Context = descriptor::Context;

    const REG: Common<Reg> = common_registers!(Reg);
    const IO_BAR: u8 = identity::IO_BAR;
    const STATE_VERSION: u32 = 6;
    const QUEUES: usize = QUEUES;
    const LONGEST_SENT: usize = 9728;
    const LOW_MARK: u32 = fcrtl::RTL;
    const EERD: (u32, u32) = (eerd::ADDRESS_SHIFT, eerd::DONE);
    const DELAYED: u8 = 0;
    const TSCTC: SegmentationCount = SegmentationCount::Packets;

    fn identity() -> FunctionIdentity {
        identity::identity()
    }

    fn new(config: &NicConfig, index: usize) -> E82576 {
        E82576 {
            nvm: nvm::Nvm::new(config.mac_of(index), config.pause_frames),
            irq: interrupts::Interrupts::default(),
            hash: steer::Hash::default(),
        }
    }

    fn station(&self) -> [u8; 6] {
        self.nvm.mac()
    }

    fn memory_word(&self, address: u32) -> u16 {
        self.nvm.word(address)
    }

    fn reset(&mut self) {
        self.irq.reset();
        self.hash.invalidate();
    }

    fn registers_reset(regs: &mut Regs<E82576>) {
        regs::set_first_queue(regs);
    }

    fn is_consistent(&self, _: &Regs<E82576>) -> bool {
        self.nvm.is_consistent() && self.irq.is_consistent()
    }

    fn lookup(offset: u64) -> Option<At<E82576>> {
        regs::lookup(regs::canonical(offset))
    }

    fn stored(nic: &Igb, at: At<E82576>) -> u32 {
        nic.stored(at)
    }

    fn read(nic: &mut Igb, now: Ps, at: At<E82576>, ports: &mut dyn FunctionPorts) -> u32 {
        nic.read_register(now, at, ports)
    }

    fn write(nic: &mut Igb, now: Ps, at: At<E82576>, value: u32, ports: &mut dyn FunctionPorts) {
        nic.write_register(now, at, value, ports);
    }

    /// Lists requests of unsupported features, and the number of writes to unknown registers since power-on.
    /// The 82540EM reports none: its table has all registers of its manual, and drivers write others that the
    /// chip does not have either (DPDK's writes 0 to RFCTL).
    fn missing(nic: &Igb) -> Vec<String> {
        let mut all = nic.unsupported_requests();
        match nic.stats.unknown_writes {
            0 => (),
            1 => all.push("1 write to a register that the model does not have".to_owned()),
            more => all.push(format!("{more} writes to registers that the model does not have")),
        }
        all
    }

    fn raise_cause(nic: &mut Igb, now: Ps, bits: u32, ports: &mut dyn FunctionPorts) {
        nic.set_cause(now, bits, ports);
    }

    fn update_interrupts(nic: &mut Igb, now: Ps, ports: &mut dyn FunctionPorts) {
        nic.update_irq(now, ports);
    }

    fn timer(nic: &mut Igb, now: Ps, number: u8, ports: &mut dyn FunctionPorts) {
        nic.on_vector_wake(now, number, ports);
    }

    /// Decodes RXDCTL.ENABLE and TXDCTL.ENABLE.
    fn queues_on(regs: &Regs<E82576>) -> QueuesOn {
        let on = |control: Reg| {
            let enabled =
                regs.array(control).iter().enumerate().filter(|(_, value)| *value & dctl::ENABLE != 0);
            enabled.fold(0, |bits, (queue, _)| bits | 1 << queue)
        };
        QueuesOn { receive: on(Reg::Rxdctl), transmit: on(Reg::Txdctl) }
    }

    fn rss_queues(regs: &Regs<E82576>) -> u32 {
        steer::rss_queues(regs)
    }

    fn thresholds(regs: &Regs<E82576>, queue: Queue) -> Thresholds {
        let control = if queue.receives() { Reg::Rxdctl } else { Reg::Txdctl };
        let value = regs.at(control, queue.index());
        let field = |shift: u32| value >> shift & 0x1f;
        Thresholds { prefetch: field(0), host: field(8), write_back: field(16) }
    }

    #[inline]
    fn dca_core(regs: &Regs<E82576>, queue: Queue, class: TransferClass) -> Option<u8> {
        dca::core(regs, queue, class)
    }

    fn packet_buffers(regs: &Regs<E82576>) -> [u64; 2] {
        [Reg::Rxpbs, Reg::Txpbs].map(|size| u64::from(regs.get(size)) << 10)
    }

    fn longest_received(regs: &Regs<E82576>) -> usize {
        regs.get(Reg::Rlpml) as usize
    }

    fn more_stations(regs: &Regs<E82576>) -> [&[u32]; 2] {
        [regs.array(Reg::Ral2), regs.array(Reg::Rah2)]
    }

    fn examine(
        &mut self,
        regs: &Regs<E82576>,
        bytes: &mut Vec<u8>,
        Examined { status, stripped, vlan_type, fcs }: Examined,
    ) -> (usize, RxFields) {
        let mut notes = RxFields { status, vlan: stripped.unwrap_or(0), ..RxFields::default() };
        let headers = Headers::parse(bytes, stripped.is_none().then_some(vlan_type as u16));
        let steered = steer::steer(bytes, &headers, regs, &mut self.hash);
        notes.packet_info = (steered.hash_type | steered.packet_type << rxd::PACKET_TYPE_SHIFT) as u16;
        offload::check(bytes, &headers, regs, &mut notes);
        notes.header = offload::header_to_split(&headers, regs.get(Reg::Psrtype));
        if let Some(fcs) = fcs {
            bytes.extend_from_slice(&fcs.to_le_bytes());
        }
        offload::set_hash_or_checksum(bytes, &headers, regs, steered.hash, &mut notes);
        (steered.queue, notes)
    }

    /// Decodes SRRCTL.DESCTYPE. Reserved codes are treated as one buffer.
    fn descriptor_type(regs: &Regs<E82576>, queue: usize) -> DescriptorType {
        match regs.at(Reg::Srrctl, queue) >> srrctl::TYPE_SHIFT & 0b111 {
            0 => DescriptorType::Legacy,
            2 => DescriptorType::Split,
            3 => DescriptorType::Replicate,
            4 => DescriptorType::ReplicateLarge,
            5 => DescriptorType::SplitAlways,
            _ => DescriptorType::OneBuffer,
        }
    }

    fn buffer_bytes(regs: &Regs<E82576>, queue: usize) -> [usize; 2] {
        let srrctl = regs.at(Reg::Srrctl, queue);
        let packet = match srrctl & srrctl::PACKET {
            0 => BUFFER_BYTES[(regs.get(Reg::Rctl) >> rctl::BSIZE_SHIFT & 3) as usize],
            kib => (kib as usize) << 10,
        };
        [packet, (srrctl >> srrctl::HEADER_SHIFT & 0xf) as usize * 64]
    }

    fn drops_without_descriptors(regs: &Regs<E82576>, queue: usize) -> bool {
        regs.at(Reg::Srrctl, queue) & srrctl::DROP_EN != 0
    }

    fn count_dropped(regs: &mut Regs<E82576>, queue: usize) {
        regs.count_at(Reg::Rqdpc, queue, 1);
    }

    /// Raises one cause for all frames, and RXDMT0 when few descriptors are left (SRRCTL.RDMTS).
    fn frames_delivered(
        nic: &mut Igb,
        now: Ps,
        queue: usize,
        frames: &[u32],
        [before, after]: [u32; 2],
        ports: &mut dyn FunctionPorts,
    ) {
        for bytes in frames {
            nic.regs.count(Reg::Rpthc);
            nic.regs.count_bytes(Reg::Hgorcl, Reg::Hgorch, *bytes as usize);
        }
        let minimum = (nic.regs.at(Reg::Srrctl, queue) >> srrctl::RDMTS_SHIFT & 0x1f) * RDMTS_DESCRIPTORS;
        let few = minimum != 0 && before > minimum && after <= minimum;
        if few {
            nic.regs.count(Reg::Rxdmtc);
        }
        if !frames.is_empty() {
            let others = if few { cause::RXDMT0 } else { 0 };
            nic.queue_cause(now, queue, QueueCause::Received, others, ports);
        }
    }

    fn count_received(regs: &mut Regs<E82576>, bytes: usize, multicast: bool) {
        regs.count_at(Reg::Vfgprc, POOL, 1);
        regs.count_at(Reg::Vfgorc, POOL, bytes as u32);
        if multicast {
            regs.count_at(Reg::Vfmprc, POOL, 1);
        }
    }

    fn count_sent(regs: &mut Regs<E82576>, bytes: usize) {
        regs.count(Reg::Hgptc);
        regs.count_bytes(Reg::Hgotcl, Reg::Hgotch, bytes);
        regs.count_at(Reg::Vfgptc, POOL, 1);
        regs.count_at(Reg::Vfgotc, POOL, bytes as u32);
    }

    fn descriptor(words: [u64; 2]) -> Descriptor<descriptor::Context> {
        descriptor::parse(words)
    }

    /// Head write-back (TDWBAL, TDWBAH, §7.2).
    fn head_address(regs: &Regs<E82576>, queue: usize) -> Option<u64> {
        let low = regs.at(Reg::Tdwbal, queue);
        let address = u64::from(regs.at(Reg::Tdwbah, queue)) << 32 | u64::from(low & !3);
        (low & tdwbal::ENABLE != 0).then_some(address)
    }

    fn descriptors_sent(
        nic: &mut Igb,
        now: Ps,
        queue: usize,
        _: bool,
        _: bool,
        ports: &mut dyn FunctionPorts,
    ) {
        nic.queue_cause(now, queue, QueueCause::Sent, 0, ports);
    }

    fn count_bad_packet(regs: &mut Regs<E82576>, queue: usize) {
        regs.count_at(Reg::Tqdpc, queue, 1);
    }
}
