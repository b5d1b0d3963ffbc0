//! The 82540EM at register level, after Intel's "PCI/PCI-X Family of Gigabit Ethernet
//! Controllers Software Developer's Manual" (317453) and what Linux's e1000 and DPDK's em drivers
//! do with it. Section numbers in this crate are that manual's.
//!
//! A frame's way in: [`Nic::frame_arrived`] → filters → receive FIFO (full? the drop is classed) →
//! DMA to the buffers of descriptors fetched ahead → write-back → interrupt. A frame's way out: the
//! tail register → descriptors fetched → buffers read → offloads → transmit FIFO → the wire.
//!
//! Modelled: all registers of the table in [`regs`], EEPROM and PHY, receive filters, VLAN, legacy,
//! context and data descriptors with checksum offload and TCP segmentation, thresholds, interrupt
//! moderation, statistics, PAUSE, loopback, and speed and duplex as negotiated or forced (told to
//! software; frames go at the link's rate whatever it is told, and never collide). Not modelled:
//! wake-up, management (ASF), message signalled interrupts, the packet buffer's diagnostic window.
//!
//! The clock is the caller's: every entry takes `now`, and what the device wants to do later it asks
//! for through [`Timers`].

mod access;
mod bits;
mod control;
mod counters;
mod dma;
mod identity;
mod interrupts;
mod mac;
mod queues;
pub mod regs;
mod rx;
mod state;
mod tx;

use doorbell_sim::ports::{DeliveryPort, DmaPort, IrqPort, PolledRing, Timers, WirePort};
use doorbell_sim::{BitsPerSec, Bytes, Frame, FrameObserver, PhysAddr, Ps, log};
use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, NicConfig};
use crate::identity::PciIdentity;
use crate::parts::buffers::Buffers;
use crate::parts::eeprom::Eeprom;
use crate::parts::filter::station_entry;
use crate::parts::mac::{
    FlowWork as _, LinkStatus, LinkView as _, LinkWork as _, MdioWork as _, WireWork as _,
};
use crate::parts::measured::{LateDrops, Measured};
use crate::parts::phy::{ManagedPhy as _, Phy};
use crate::parts::queues::QueueWork as _;
use crate::parts::requests::Requests as _;
use crate::parts::ring::DESCRIPTOR_BYTES;
use crate::parts::waits::WaitedDrops;
use crate::stats::{InFlight, NicStats};

pub use identity::{IDENTITY, IO_BYTES, MMIO_BYTES};
pub use queues::Queue;
pub use regs::register_reference;
pub use state::{NIC_STATE_VERSION, NicState};

use regs::{Reg, Regs};

/// The packet buffer that PBA divides (§13.4.16).
pub const PACKET_BUFFER: Bytes = Bytes(64 << 10);

/// The NIC's own wake-ups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// The DMA read of this number is done.
    ReadDone(u64),
    /// The DMA write of this number is done.
    WriteDone(u64),
    /// The wire may be free for the next frame.
    Wire,
    /// The engine of the queue's direction is free for the next frame or buffer.
    Engine(Queue),
    /// A looped-back frame arrives.
    Loopback,
    /// Autonegotiation is over.
    Link,
    /// The interrupt throttle's interval is over.
    Throttle,
    /// The queue's interrupt delay timer.
    InterruptDelay(Queue),
    /// The queue's absolute interrupt delay timer.
    InterruptDelayMax(Queue),
    /// The partner's pause is over.
    PauseOver,
    /// An access to the PHY is over.
    Mdio,
    /// The queue's used descriptors have waited long enough for their write-back.
    WriteBack(Queue),
    /// A wake-up of the other chip's.
    E82576(crate::e82576::Event),
}

/// Everything that a NIC meets.
pub trait NicPorts: DmaPort + IrqPort + WirePort + Timers<Event> + DeliveryPort + FrameObserver {}

impl<T: DmaPort + IrqPort + WirePort + Timers<Event> + DeliveryPort + FrameObserver> NicPorts for T {}

/// One 82540EM.
#[derive(Debug)]
pub struct Nic {
    config: NicConfig,
    /// Rate at which looped-back frames are serialised and in which pause times are counted.
    link_rate: BitsPerSec,
    name: String,
    regs: Regs,
    eeprom: Eeprom,
    phy: Phy,
    link: LinkStatus,
    control: control::Control,
    irq: interrupts::Interrupts,
    dma: dma::Dma,
    rx: rx::Rx,
    tx: tx::Tx,
    buffers: Buffers,
    stats: NicStats,
    measured: Measured,
    bus_master: bool,
}

impl Nic {
    /// NIC number `index` of a machine, at a link of this rate, as it is after power-on; [`Nic::power_on`] starts its PHY.
    pub fn new(config: NicConfig, link_rate: BitsPerSec, index: usize) -> Result<Nic, ConfigError> {
        config.validate()?;
        let mut nic = Nic {
            eeprom: Eeprom::new(config.mac_of(index), &IDENTITY, config.pause_frames),
            name: format!("nic{index}"),
            config,
            link_rate,
            regs: Regs::new(),
            phy: Phy::new(),
            link: LinkStatus::default(),
            control: control::Control::default(),
            irq: interrupts::Interrupts::default(),
            dma: dma::Dma::default(),
            rx: rx::Rx::default(),
            tx: tx::Tx::default(),
            buffers: Buffers::default(),
            stats: NicStats::default(),
            measured: Measured::default(),
            bus_master: true,
        };
        nic.load_eeprom();
        Ok(nic)
    }

    /// Power is on: the PHY begins to negotiate.
    pub fn power_on(&mut self, now: Ps, ports: &mut impl NicPorts) {
        self.restart_link(now, ports);
    }

    /// The figures for the function's configuration space.
    pub const fn function_identity() -> &'static PciIdentity {
        &IDENTITY
    }

    /// The name under which sections and counters of this NIC stand, such as "nic0".
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The parameters.
    pub fn config(&self) -> &NicConfig {
        &self.config
    }

    /// The counters.
    pub fn stats(&self) -> &NicStats {
        &self.stats
    }

    /// A value in the register file, without side effects, for reports and tests; `None` if no register has the name.
    pub fn peek(&self, name: &str) -> Option<u32> {
        let (reg, _) = regs::TABLE
            .iter()
            .find(|register| register.name == name)
            .and_then(|register| regs::lookup(register.offset.into()))?;
        (reg.info().access != regs::Access::Absent).then(|| self.regs.get(reg))
    }

    /// The ring of receive descriptors (§3.2.3.2); none while its registers make no sense.
    pub fn rx_ring(&self) -> Option<PolledRing> {
        let ring = self.regs.ring(Queue::Receive)?;
        let descriptor_bytes = u64::from(DESCRIPTOR_BYTES);
        Some(PolledRing {
            base: PhysAddr(ring.base),
            bytes: u64::from(ring.count) * descriptor_bytes,
            descriptor_bytes,
            status_at: bits::rxd::STATUS_AT,
            done: bits::rxd::DD,
        })
    }

    /// Whether frames from the wire are taken: the link is up and the receiver is on.
    pub fn is_receiving(&self) -> bool {
        self.link_up() && self.regs.has(Reg::Rctl, bits::rctl::EN)
    }

    /// The last bit of a frame has arrived from the link.
    pub fn frame_arrived(&mut self, now: Ps, frame: Frame, ports: &mut impl NicPorts) {
        self.arrive(now, frame, false, ports);
    }

    /// A wake-up that the NIC has asked for.
    pub fn on_event(&mut self, now: Ps, event: Event, ports: &mut impl NicPorts) {
        match event {
            Event::ReadDone(sequence) => self.read_done(now, sequence, ports),
            Event::WriteDone(sequence) => self.write_done(now, sequence, ports),
            Event::Wire => self.wire_woken(now, ports),
            Event::Engine(queue) => self.advance(now, queue, ports),
            Event::Loopback => self.loopback_arrived(now, ports),
            Event::Link => self.link_woken(now, ports),
            Event::PauseOver => self.pause_woken(now, ports),
            Event::Mdio => self.mdio_woken(now, ports),
            Event::WriteBack(queue) => self.write_back_woken(now, queue, ports),
            Event::Throttle => self.throttle_woken(now, ports),
            Event::InterruptDelay(queue) => self.interrupt_delay_woken(now, queue, ports),
            Event::InterruptDelayMax(queue) => self.interrupt_delay_max_woken(now, queue, ports),
            Event::E82576(_) => {}
        }
    }

    /// Whether the device may start DMA (the command register's bus master bit). While it may not, it starts none.
    pub fn set_bus_master(&mut self, now: Ps, enabled: bool, ports: &mut impl NicPorts) {
        self.bus_master = enabled;
        log!(now, Nic, Info, "{}: bus master {}", self.name, if enabled { "on" } else { "off" });
        if enabled {
            self.rx_advance(now, ports);
            self.tx_advance(now, ports);
        }
    }

    /// The device resets itself: CTRL.RST (§13.4.1), or a return from D3. The PHY and configuration space stay.
    pub fn reset(&mut self, now: Ps, ports: &mut impl NicPorts) {
        self.stats.resets += 1;
        log!(now, Nic, Info, "{}: device reset", self.name);
        self.rx_reset();
        self.tx_reset();
        self.dma.clear();
        self.control.reset();
        self.regs.reset();
        self.load_eeprom();
        self.irq.reset();
        self.link.reset();
        self.update_irq(now, ports);
    }

    /// A power-on or bus reset: the PHY starts again too.
    pub fn hardware_reset(&mut self, now: Ps, ports: &mut impl NicPorts) {
        self.reset(now, ports);
        self.phy.hardware_reset();
        self.restart_link(now, ports);
    }

    /// What the device loads from its EEPROM: the first station address.
    fn load_eeprom(&mut self) {
        let (low, high) = station_entry(self.eeprom.mac());
        self.regs.set_at(Reg::Ral, 0, low);
        self.regs.set_at(Reg::Rah, 0, high);
    }

    /// Frames dropped for a full receive FIFO, by what was waited for. An observer: it begins anew where a state is restored.
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

    /// Asserts that every frame that came in is accounted for, in both directions.
    pub fn check_conservation(&self) {
        self.stats.check_conservation(self.in_flight(), &self.name);
    }
}
