//! Intel's family of gigabit Ethernet controllers at register level: one MAC core that all its chips share. A chip's folder
//! declares its registers and implements [`Chip`] with what only this chip has. The chips are the 82540EM with one queue in each
//! direction ([`e82540`]) and the 82576 with sixteen ([`e82576`]).
//!
//! A frame's way in: [`Controller::frame_arrived`] → checks and filters → the choice of a queue → receive packet buffer (a full one
//! drops, and the drop is classified) → DMA to the buffers of descriptors fetched ahead → write-back → interrupt. A frame's way out: the
//! tail register → descriptors fetched → buffers read, packet by packet in turn among the queues → offloads → transmit packet
//! buffer → wire.
//!
//! Every entry takes `now`. The device schedules its own later work through [`Timers`].

pub(crate) mod bits;
mod chip;
mod conservation;
mod counters;
pub mod e82540;
pub mod e82576;
mod eeprom;
mod flow;
mod link;
mod mdio;
mod queues;
mod requests;
mod rx;
mod state;
mod tx;
mod windows;
mod wire;

use doorbell_sim::ports::{DeliveryPort, DmaPort, IrqSink, PolledRing, Timers, WirePort};
use doorbell_sim::{BitsPerSec, Frame, FrameObserver, Ps, log};
use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, NicConfig};
use crate::identity::PciIdentity;
use crate::parts::buffers::Buffers;
use crate::parts::dma::Dma;
use crate::parts::filter::station_entry;
use crate::parts::measured::{LateDrops, Measured};
use crate::parts::phy::ManagedPhy as _;
use crate::parts::registers::{RegisterId as _, Statistic};
use crate::parts::waits::WaitedDrops;
use crate::stats::{InFlight, NicStats, QueueStats};
use bits::rctl;
pub use chip::Chip;
use chip::Regs;
use link::LinkStatus;
use mdio::Indirect;
pub use queues::Queue;
use queues::QueuesOn;
pub use state::ControllerState;

/// A wake-up of a controller's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// The DMA read with this sequence number is done.
    ReadDone(u64),
    /// The DMA write with this sequence number is done.
    WriteDone(u64),
    /// The wire may be free for the next frame.
    Wire,
    /// The receive engine is free for the next frame.
    Receiver,
    /// The transmit engine is free for the next buffer.
    Sender,
    /// A looped-back frame arrives.
    Loopback,
    /// Autonegotiation is complete.
    Link,
    /// The link partner's pause has ended.
    PauseOver,
    /// An access to the PHY is complete.
    Mdio,
    /// A queue's used descriptors have waited long enough for their write-back.
    WriteBack(Queue),
    /// A timer of the chip, by its number there: of the 82540EM see `interrupts.rs`, of the 82576 a vector.
    Chip(u8),
}

/// Everything outside that a controller uses.
pub trait NicPorts: DmaPort + IrqSink + WirePort + Timers<Event> + DeliveryPort + FrameObserver {}

impl<T: DmaPort + IrqSink + WirePort + Timers<Event> + DeliveryPort + FrameObserver> NicPorts for T {}

/// A controller with the chip `C`.
#[derive(Debug)]
pub struct Controller<C: Chip> {
    config: NicConfig,
    /// Rate at which looped-back frames are serialised and in which pause times are counted.
    link_rate: BitsPerSec,
    name: String,
    chip: C,
    regs: Regs<C>,
    phy: C::Phy,
    link: LinkStatus,
    indirect: Indirect,
    dma: Dma<Queue>,
    rx: rx::Rx,
    tx: tx::Tx<C::Context>,
    /// The queues that are on, collected from the registers because every event needs them.
    on: QueuesOn,
    stats: NicStats,
    queue_stats: Vec<QueueStats>,
    bus_master: bool,
    /// Requester ID. The machine sets it before each register read. Not state.
    requester: u16,
    /// Memory of frames for reuse. Not state.
    buffers: Buffers,
    /// Frames of a measurement that were dropped late. An observer's; not state.
    measured: Measured,
    /// The hart that writes the register being written, where it is known. An observer's; not state.
    writer: Option<u8>,
}

impl<C: Chip> Controller<C> {
    /// NIC number `index` of a machine, on a link of this rate, as it is after power-on; [`Controller::power_on`] starts its PHY.
    pub fn new(config: NicConfig, link_rate: BitsPerSec, index: usize) -> Result<Self, ConfigError> {
        config.validate()?;
        let mut nic = Controller {
            chip: C::new(&config, index),
            name: format!("nic{index}"),
            config,
            link_rate,
            regs: Regs::<C>::new(),
            phy: C::Phy::new(),
            link: LinkStatus::default(),
            indirect: Indirect::default(),
            dma: Dma::default(),
            rx: rx::Rx::new(C::QUEUES),
            tx: tx::Tx::new(C::QUEUES),
            on: QueuesOn::default(),
            stats: NicStats::default(),
            queue_stats: vec![QueueStats::default(); C::QUEUES],
            bus_master: true,
            requester: 0,
            buffers: Buffers::default(),
            measured: Measured::default(),
            writer: None,
        };
        nic.load_registers();
        Ok(nic)
    }

    /// Sets the registers whose reset values are not in the table: the first station address from the chip's memory, and the chip's own.
    fn load_registers(&mut self) {
        self.load_station();
        C::registers_reset(&mut self.regs);
        self.on = C::queues_on(&self.regs);
    }

    /// Loads the first station address from the chip's memory.
    fn load_station(&mut self) {
        let (low, high) = station_entry(self.chip.station());
        self.regs.set_at(C::REG.ral, 0, low);
        self.regs.set_at(C::REG.rah, 0, high);
    }

    /// Power is on: the PHY begins to negotiate.
    pub fn power_on(&mut self, now: Ps, ports: &mut dyn NicPorts) {
        self.restart_link(now, ports);
    }

    /// The last bit of a frame has arrived from the link.
    pub fn frame_arrived(&mut self, now: Ps, frame: Frame, ports: &mut dyn NicPorts) {
        self.arrive(now, frame, false, ports);
    }

    /// Handles a wake-up that the controller scheduled.
    pub fn on_event(&mut self, now: Ps, event: Event, ports: &mut dyn NicPorts) {
        match event {
            Event::ReadDone(sequence) => self.read_done(now, sequence, ports),
            Event::WriteDone(sequence) => self.write_done(now, sequence, ports),
            Event::Wire => self.wire_woken(now, ports),
            Event::Receiver => self.rx_advance(now, ports),
            Event::Sender => self.tx_advance(now, ports),
            Event::Loopback => self.loopback_arrived(now, ports),
            Event::Link => self.link_woken(now, ports),
            Event::PauseOver => self.pause_woken(now, ports),
            Event::Mdio => self.mdio_woken(now, ports),
            // A queue that the chip does not have comes from a damaged checkpoint.
            Event::WriteBack(queue) if queue.index() >= C::QUEUES => {}
            Event::WriteBack(queue) => self.write_back_woken(now, queue, ports),
            Event::Chip(number) => C::timer(self, now, number, ports),
        }
    }

    /// Enables or disables DMA (the bus master bit of the command register). While it is disabled the device starts none.
    pub fn set_bus_master(&mut self, now: Ps, enabled: bool, ports: &mut dyn NicPorts) {
        self.bus_master = enabled;
        log!(now, Nic, Info, "{}: bus master {}", self.name, if enabled { "on" } else { "off" });
        if enabled {
            self.rx_advance(now, ports);
            self.tx_advance(now, ports);
        }
    }

    /// Device reset: CTRL.RST, or a return from D3. The PHY and configuration space keep their state.
    pub fn reset(&mut self, now: Ps, ports: &mut dyn NicPorts) {
        self.stats.resets += 1;
        log!(now, Nic, Info, "{}: device reset", self.name);
        self.rx_reset();
        self.tx_reset();
        self.dma.clear();
        self.indirect.reset();
        self.regs.reset();
        self.load_registers();
        self.chip.reset();
        self.link.reset();
        C::update_interrupts(self, now, ports);
    }

    /// Power-on or bus reset: the PHY restarts too.
    pub fn hardware_reset(&mut self, now: Ps, ports: &mut dyn NicPorts) {
        self.reset(now, ports);
        self.phy.hardware_reset();
        self.restart_link(now, ports);
    }

    /// Sets the hart that writes the next register. For observers only.
    pub fn set_writer(&mut self, hart: Option<u8>) {
        self.writer = hart;
    }

    /// Sets the requester ID (bus, device and function).
    pub fn set_requester(&mut self, id: u16) {
        self.requester = id;
    }

    /// A measurement begins: it has the frames that arrive from the link after this time.
    pub fn begin_measurement(&mut self, after: Ps) {
        self.measured.begin(after);
    }

    /// The measurement ends: it has no frames that arrive after this time.
    pub fn end_measurement(&mut self, until: Ps) {
        self.measured.end(until);
    }
}

/// What reports and tests read.
impl<C: Chip> Controller<C> {
    /// The figures for the function's configuration space.
    pub const fn function_identity() -> &'static PciIdentity {
        C::IDENTITY
    }

    /// The prefix of this NIC's sections and counters, such as "nic0".
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

    /// The counters of each queue; none for a chip with one queue in each direction, where they repeat the NIC's.
    pub fn queue_stats(&self) -> &[QueueStats] {
        if C::QUEUES == 1 { &[] } else { &self.queue_stats }
    }

    /// The chip's statistics registers in the order of the table.
    pub fn statistics(&self) -> Vec<Statistic> {
        self.regs.statistics()
    }

    /// A value in the register file, without side effects; of an array the first. `None` if no register has the name.
    pub fn peek(&self, name: &str) -> Option<u32> {
        let register = C::Reg::TABLE.iter().find(|register| register.name == name)?;
        let (reg, _) = C::lookup(register.offset.into())?;
        (register.access != crate::parts::registers::Access::Absent).then(|| self.regs.get(reg))
    }

    /// The rings of receive descriptors of the queues that are on and whose registers make sense.
    pub fn rx_rings(&self) -> Vec<PolledRing> {
        self.on.receiving().filter_map(|queue| self.polled_ring(queue)).collect()
    }

    /// The receive queues that are on and over which RSS spreads flows, one bit each; none without RSS.
    pub fn rss_queues(&self) -> u32 {
        C::rss_queues(&self.regs) & self.on.receive
    }

    /// Whether the NIC accepts frames from the wire: the link is up and the receiver is on.
    pub fn is_receiving(&self) -> bool {
        self.link_up() && self.regs.has(C::REG.rctl, rctl::EN)
    }

    /// What software requests that the model does not have, one line each.
    pub fn missing(&self) -> Vec<String> {
        C::missing(self)
    }

    /// Frames dropped because the receive packet buffer was full, by what frames waited for. An observer's: it restarts where a state is
    /// restored.
    pub fn waited_drops(&self) -> WaitedDrops {
        self.rx.waits.drops
    }

    /// Frames of the measurement that were dropped after they had been accepted. An observer's.
    pub fn late_drops(&self) -> LateDrops {
        self.measured.drops
    }

    /// Frames inside: accepted and not yet delivered, and assembled and not yet sent.
    pub fn in_flight(&self) -> InFlight {
        InFlight { rx: self.rx.frames(), tx: self.tx.frames() }
    }
}
