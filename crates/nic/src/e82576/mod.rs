//! The 82576 at register level, after Intel's "82576 Gigabit Ethernet Controller Datasheet" (320961) and what Linux's igb and
//! DPDK's igb drivers do with it: one port, sixteen queues each way.
//!
//! A frame's way in: [`Igb::frame_arrived`] → address and VLAN filters → the filters and the hash that choose a queue → receive
//! packet buffer (full? the drop is classed) → DMA to the buffers of the queue's descriptors, fetched ahead → write-back →
//! interrupt. The packet buffer is one for all queues, first in, first out: the frame at its front waits for descriptors of its
//! queue, and those behind it wait too, unless the queue drops (SRRCTL.DROP_EN). A frame's way out: a queue's tail register →
//! descriptors fetched → buffers read, packet by packet in turn among the queues → offloads → transmit packet buffer → the wire.
//!
//! Modelled: all registers of the table in [`regs`]; NVM and PHY; legacy and advanced descriptors, context descriptors with checksum offload and
//! TCP and UDP segmentation; header split and replication; RSS; EtherType, SYN and 5-tuple filters; head write-back; MSI-X with a
//! vector a cause, moderation and automatic clearing and masking; MSI and the interrupt line; PAUSE; loopback; statistics. Not
//! modelled: virtual functions and pools, time stamps, IPsec, MACsec, wake-up, management.
//!
//! The clock is the caller's: every entry takes `now`, and what the device wants to do later it asks for through
//! [`IgbPorts::wake`].

mod access;
mod bits;
mod control;
mod counters;
mod dca;
mod dma;
mod identity;
mod interrupts;
mod mac;
mod missing;
mod nvm;
mod phy;
mod queues;
pub mod regs;
mod rx;
mod state;
mod tx;

use doorbell_sim::ports::{IrqSink, PolledRing};
use doorbell_sim::{BitsPerSec, Frame, PhysAddr, Ps, log};
use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, NicConfig};
use crate::e82540::{Event as CardEvent, NicPorts};
use crate::parts::buffers::Buffers;
use crate::parts::filter::station_entry;
use crate::parts::mac::{
    FlowWork as _, LinkStatus, LinkView as _, LinkWork as _, MdioWork as _, WireWork as _,
};
use crate::parts::measured::{LateDrops, Measured};
use crate::parts::phy::ManagedPhy as _;
use crate::parts::queues::QueueWork as _;
use crate::parts::requests::Requests as _;
use crate::parts::ring::DESCRIPTOR_BYTES;
use crate::parts::waits::WaitedDrops;
use crate::stats::{InFlight, NicStats, RingLevel};

pub use identity::{IDENTITY, IO_BYTES, MESSAGE_BYTES, MMIO_BYTES, VECTORS};
pub use queues::Queue;
pub use regs::register_reference;
pub use state::{IGB_STATE_VERSION, IgbState};

use bits::{rctl, rxd};
use queues::{QueuesOn, bits_of};
use regs::{Reg, Regs};

/// Queues in each direction.
pub const QUEUES: usize = 16;

/// The NIC's own wake-ups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// The DMA read of this number is done.
    ReadDone(u64),
    /// The DMA write of this number is done.
    WriteDone(u64),
    /// The wire may be free for the next frame.
    Wire,
    /// The engine that receives is free for the next frame.
    Receiver,
    /// The engine that sends is free for the next buffer.
    Sender,
    /// A looped-back frame arrives.
    Loopback,
    /// Autonegotiation is over.
    Link,
    /// A vector's interval between interrupts is over; the line's is behind the last one's.
    Vector(u8),
    /// An access to the PHY is over.
    Mdio,
    /// The queue's used descriptors have waited long enough for their write-back.
    WriteBack(Queue),
    /// The partner's pause is over.
    PauseOver,
}

/// Everything that this NIC meets.
pub trait IgbPorts: NicPorts + IrqSink {
    /// Asks for one of its own wake-ups.
    fn wake(&mut self, at: Ps, event: Event) {
        self.wake_at(at, CardEvent::E82576(event));
    }
}

impl<T: NicPorts + IrqSink> IgbPorts for T {}

doorbell_sim::stats! {
    /// What one queue counts, by the names of the card's counters, which are the sums. Conservation: `rx_offered` = `rx_delivered` + every
    /// `rx_drop_*` but `rx_drop_no_descriptor`, and every `rx_looped_drop_*`, + in flight; `tx_frames` = `tx_left` + `tx_drop_reset` + in flight.
    pub struct QueueStats {
        /// Frames that filters and hash gave this receive queue.
        rx_offered,
        /// Of these, frames that found room in the packet buffer.
        rx_frames,
        /// Frames that the host can see whole, with their descriptors written back.
        rx_delivered,
        /// Bytes of those frames, FCS included.
        rx_delivered_bytes,
        /// Frames for this queue dropped because DMA was too slow.
        rx_drop_dma,
        /// Frames for this queue dropped because the core was too slow.
        rx_drop_core,
        /// Of these, frames dropped because the queue had no descriptors and drops (SRRCTL.DROP_EN).
        rx_drop_no_descriptor,
        /// Frames for this queue dropped because transmission was too slow.
        rx_drop_tx,
        /// Frames dropped because the queue was off.
        rx_drop_disabled,
        /// Accepted frames dropped by a reset, by a rewritten ring register, or because the queue was switched off.
        rx_drop_reset,
        /// Looped-back frames for this queue that found the packet buffer full; they are in no other cause.
        rx_looped_drop_full,
        /// Looped-back frames dropped because the queue had no descriptors and drops.
        rx_looped_drop_no_descriptor,
        /// Looped-back frames dropped because the queue was off.
        rx_looped_drop_disabled,
        /// Frames from the link for this queue that found the packet buffer full; not counted in `rx_frames`.
        rx_fifo_full,
        /// Receive descriptors consumed.
        rx_descriptors,
        /// Frames that this transmit queue put into the transmit packet buffer.
        tx_frames,
        /// Bytes of those frames, FCS included.
        tx_bytes,
        /// Transmit descriptors consumed.
        tx_descriptors,
        /// Frames of this queue that have left the transmit packet buffer, onto the link or back through the loopback.
        tx_left,
        /// Frames of this queue in the transmit packet buffer when a reset emptied it.
        tx_drop_reset,
        /// Packets of this queue that were longer than a frame can be.
        tx_drop_oversize,
        /// Packets of this queue without a byte.
        tx_drop_empty,
        /// Descriptors and packets of this queue that ask for what cannot be done; what can be done of them was.
        tx_malformed,
    }
}

/// One 82576.
#[derive(Debug)]
pub struct Igb {
    config: NicConfig,
    /// Rate at which looped-back frames are serialised.
    link_rate: BitsPerSec,
    name: String,
    regs: Regs,
    nvm: nvm::Nvm,
    phy: phy::IgpPhy,
    link: LinkStatus,
    control: control::Control,
    irq: interrupts::Interrupts,
    dma: dma::Dma,
    rx: rx::Rx,
    tx: tx::Tx,
    buffers: Buffers,
    stats: NicStats,
    measured: Measured,
    queue_stats: Vec<QueueStats>,
    bus_master: bool,
    /// Its requester ID. The bus may give it another: it is told before a register is read, and keeps nothing of it.
    requester: u16,
    /// Which hart writes the register that is being written, where that is known. An observer's; not state.
    writer: Option<u8>,
    on: QueuesOn,
}

impl Igb {
    /// NIC number `index` of a machine, at a link of this rate, as it is after power-on; [`Igb::power_on`] starts its PHY.
    pub fn new(config: NicConfig, link_rate: BitsPerSec, index: usize) -> Result<Igb, ConfigError> {
        config.validate()?;
        let mut nic = Igb {
            nvm: nvm::Nvm::new(config.mac_of(index), config.pause_frames),
            name: format!("nic{index}"),
            config,
            link_rate,
            regs: Regs::new(),
            phy: phy::IgpPhy::new(),
            link: LinkStatus::default(),
            control: control::Control::default(),
            irq: interrupts::Interrupts::default(),
            dma: dma::Dma::default(),
            rx: rx::Rx::new(),
            tx: tx::Tx::new(),
            buffers: Buffers::default(),
            stats: NicStats::default(),
            measured: Measured::default(),
            queue_stats: vec![QueueStats::default(); QUEUES],
            bus_master: true,
            requester: 0,
            writer: None,
            on: QueuesOn::default(),
        };
        nic.load_nvm();
        Ok(nic)
    }

    /// Power is on: the PHY begins to negotiate.
    pub fn power_on(&mut self, now: Ps, ports: &mut impl IgbPorts) {
        self.restart_link(now, ports);
    }

    /// The name under which sections and counters of this NIC stand, such as "nic0".
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which hart writes the register that will be written next.
    pub fn set_writer(&mut self, hart: Option<u8>) {
        self.writer = hart;
    }

    /// What it is called on the bus: its requester ID, bus, device and function in one.
    pub fn set_requester(&mut self, id: u16) {
        self.requester = id;
    }

    /// The parameters.
    pub fn config(&self) -> &NicConfig {
        &self.config
    }

    /// The counters.
    pub fn stats(&self) -> &NicStats {
        &self.stats
    }

    /// What each queue counted.
    pub fn queue_stats(&self) -> &[QueueStats] {
        &self.queue_stats
    }

    /// Whether a pair of queues is on, in either direction.
    pub fn is_queue_on(&self, queue: usize) -> bool {
        self.on.has(Queue::receive(queue)) || self.on.has(Queue::transmit(queue))
    }

    /// The receive queues that are on and to which RSS gives frames, a bit each: none while it is off.
    pub fn rss_queues(&self) -> u32 {
        rx::rss_queues(&self.regs) & self.on.receive
    }

    /// A value in the register file, without side effects, for reports and tests; `None` if no register has the name. Of an
    /// array it is the first.
    pub fn peek(&self, name: &str) -> Option<u32> {
        let register = regs::TABLE.iter().find(|register| register.name == name)?;
        let (reg, _) = regs::lookup(register.offset.into())?;
        Some(self.regs.get(reg))
    }

    /// The rings of receive descriptors, of queues that are on and make sense (§7.1).
    pub fn rx_rings(&self) -> Vec<PolledRing> {
        let descriptor_bytes = u64::from(DESCRIPTOR_BYTES);
        let of = |queue| {
            let ring = self.regs.ring(Queue::receive(queue))?;
            let status_at = match self.descriptor_type(queue) {
                rx::DescriptorType::Legacy => rxd::LEGACY_STATUS_AT,
                _ => rxd::ADVANCED_STATUS_AT,
            };
            Some(PolledRing {
                base: PhysAddr(ring.base),
                bytes: u64::from(ring.count) * descriptor_bytes,
                descriptor_bytes,
                status_at,
                done: rxd::DD as u8,
            })
        };
        bits_of(self.on.receive).filter_map(of).collect()
    }

    /// Whether frames from the wire are taken: the link is up and the receiver is on.
    pub fn is_receiving(&self) -> bool {
        self.link_up() && self.regs.has(Reg::Rctl, rctl::EN)
    }

    /// The last bit of a frame has arrived from the link.
    pub fn frame_arrived(&mut self, now: Ps, frame: Frame, ports: &mut impl IgbPorts) {
        self.arrive(now, frame, false, ports);
    }

    /// A wake-up that the NIC has asked for.
    pub fn on_event(&mut self, now: Ps, event: Event, ports: &mut impl IgbPorts) {
        match event {
            Event::ReadDone(sequence) => self.read_done(now, sequence, ports),
            Event::WriteDone(sequence) => self.write_done(now, sequence, ports),
            Event::Wire => self.wire_woken(now, ports),
            Event::Receiver => self.rx_advance(now, ports),
            Event::Sender => self.tx_advance(now, ports),
            Event::Loopback => self.loopback_arrived(now, ports),
            Event::Link => self.link_woken(now, ports),
            Event::Vector(vector) => self.vector_woken(now, vector, ports),
            Event::Mdio => self.mdio_woken(now, ports),
            Event::PauseOver => self.pause_woken(now, ports),
            // One of a queue that there is not comes from a damaged checkpoint.
            Event::WriteBack(queue) if queue.index() >= QUEUES => {}
            Event::WriteBack(queue) => self.write_back_woken(now, queue, ports),
        }
    }

    /// Whether the device may start DMA (the command register's bus master bit). While it may not, it starts none.
    pub fn set_bus_master(&mut self, now: Ps, enabled: bool, ports: &mut impl IgbPorts) {
        self.bus_master = enabled;
        log!(now, Nic, Info, "{}: bus master {}", self.name, if enabled { "on" } else { "off" });
        if enabled {
            self.rx_advance(now, ports);
            self.tx_advance(now, ports);
        }
    }

    /// The device resets itself: CTRL.RST (§8.2), or a return from D3. The PHY and configuration space stay.
    pub fn reset(&mut self, now: Ps, ports: &mut impl IgbPorts) {
        self.stats.resets += 1;
        log!(now, Nic, Info, "{}: device reset", self.name);
        self.rx_reset();
        self.tx_reset();
        self.dma.clear();
        self.control.reset();
        self.regs.reset();
        self.load_nvm();
        self.irq.reset();
        self.link.reset();
        self.update_irq(now, ports);
    }

    /// A power-on or bus reset: the PHY starts again too.
    pub fn hardware_reset(&mut self, now: Ps, ports: &mut impl IgbPorts) {
        self.reset(now, ports);
        self.phy.hardware_reset();
        self.restart_link(now, ports);
    }

    /// What the device loads from its NVM: the first station address. The first queues are on.
    fn load_nvm(&mut self) {
        let (low, high) = station_entry(self.nvm.mac());
        self.regs.set_at(Reg::Ral, 0, low);
        self.regs.set_at(Reg::Rah, 0, high);
        regs::set_first_queue(&mut self.regs);
        self.on = QueuesOn::of(&self.regs);
    }

    /// Frames dropped for a full receive packet buffer, by what was waited for. An observer: it begins anew where a state is restored.
    pub fn waited_drops(&self) -> WaitedDrops {
        self.rx.waits.drops
    }

    /// From now on a measurement has the frames that arrive from the link later than this.
    pub fn begin_measurement(&mut self, after: Ps) {
        self.measured.begin(after);
    }

    /// It has none that arrive later than this.
    pub fn end_measurement(&mut self, until: Ps) {
        self.measured.end(until);
    }

    /// Frames of the measurement that were dropped after they had been accepted. An observer, as well.
    pub fn late_drops(&self) -> LateDrops {
        self.measured.drops
    }

    /// Frames inside: accepted and not yet delivered, and put together and not yet sent.
    pub fn in_flight(&self) -> InFlight {
        InFlight { rx: self.rx.frames(), tx: self.tx.frames() }
    }

    /// What the rings of all queues that are on hold; of a card with none, of the first.
    pub fn ring_levels(&self) -> Vec<[RingLevel; 2]> {
        bits_of(1 | self.on.receive | self.on.transmit).map(|queue| self.ring_level(queue)).collect()
    }

    /// Asserts that every frame that came in is accounted for, in both directions, and in each queue.
    pub fn check_conservation(&self) {
        self.stats.check_conservation(self.in_flight(), &self.name);
        for (queue, counted) in self.queue_stats.iter().enumerate() {
            let looped = counted.rx_looped_drop_full + counted.rx_looped_drop_disabled;
            let at_the_door = counted.rx_fifo_full + counted.rx_drop_disabled + looped;
            let full = counted.rx_drop_dma + counted.rx_drop_core + counted.rx_drop_tx;
            let dropped_inside = counted.rx_drop_no_descriptor + counted.rx_looped_drop_no_descriptor;
            let inside = counted.rx_delivered + dropped_inside + counted.rx_drop_reset;
            assert_eq!(
                (counted.rx_offered, counted.rx_frames, full),
                (
                    counted.rx_frames + at_the_door,
                    inside + self.rx.frames_of(queue),
                    counted.rx_fifo_full + counted.rx_drop_no_descriptor,
                ),
                "{}: frames of receive queue {queue} do not add up: {counted:?}",
                self.name
            );
            assert_eq!(
                counted.tx_frames,
                counted.tx_left + counted.tx_drop_reset + self.tx.frames_of(queue),
                "{}: frames of transmit queue {queue} do not add up: {counted:?}",
                self.name
            );
        }
        self.check_sums();
    }

    /// Asserts that the queues' books together are the card's, where only queues have what is counted.
    fn check_sums(&self) {
        let all = &self.stats;
        let sum = |of: fn(&QueueStats) -> u64| self.queue_stats.iter().map(of).sum::<u64>();
        let sums = [
            ("rx_delivered", sum(|queue| queue.rx_delivered), all.rx_delivered),
            ("rx_delivered_bytes", sum(|queue| queue.rx_delivered_bytes), all.rx_delivered_bytes),
            ("rx_drop_dma", sum(|queue| queue.rx_drop_dma), all.rx_drop_dma),
            ("rx_drop_core", sum(|queue| queue.rx_drop_core), all.rx_drop_core),
            ("rx_drop_tx", sum(|queue| queue.rx_drop_tx), all.rx_drop_tx),
            (
                "rx_looped_drop_full",
                sum(|queue| queue.rx_looped_drop_full + queue.rx_looped_drop_no_descriptor),
                all.rx_looped_drop_full,
            ),
            ("rx_drop_reset", sum(|queue| queue.rx_drop_reset), all.rx_drop_reset),
            ("rx_fifo_full", sum(|queue| queue.rx_fifo_full), all.rx_fifo_full),
            ("rx_descriptors", sum(|queue| queue.rx_descriptors), all.rx_descriptors),
            ("tx_frames", sum(|queue| queue.tx_frames), all.tx_frames),
            ("tx_descriptors", sum(|queue| queue.tx_descriptors), all.tx_descriptors),
            ("tx_left", sum(|queue| queue.tx_left), all.tx_sent + all.tx_looped_back),
            ("tx_drop_reset", sum(|queue| queue.tx_drop_reset), all.tx_drop_reset),
            ("tx_drop_oversize", sum(|queue| queue.tx_drop_oversize), all.tx_drop_oversize),
            ("tx_drop_empty", sum(|queue| queue.tx_drop_empty), all.tx_drop_empty),
            ("tx_malformed", sum(|queue| queue.tx_malformed), all.tx_malformed),
        ];
        for (name, queues, card) in sums {
            assert_eq!(queues, card, "{}: {name} of all queues is not the card's", self.name);
        }
    }
}
