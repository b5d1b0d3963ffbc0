//! Intel's family of gigabit Ethernet controllers at register level: one MAC core that all its chips share. A chip's folder
//! declares its registers and implements [`Chip`] with what only this chip has. The chips are the 82540EM with one queue in each
//! direction ([`e82540`]) and the 82576 with sixteen ([`e82576`]).
//!
//! A frame's way in: `frame_arrived` → checks and filters → the choice of a queue → receive packet buffer (a full one
//! drops, and the drop is classified) → DMA to the buffers of descriptors fetched ahead → write-back → interrupt. A frame's way out: the
//! tail register → descriptors fetched → buffers read, packet by packet in turn among the queues → offloads → transmit packet
//! buffer → wire.
//!
//! Every entry takes `now`. The device schedules its later work with [`wake`].

pub(crate) mod bits;
mod chip;
mod conservation;
mod counters;
pub mod e82540;
pub mod e82576;
mod eeprom;
mod flow;
mod function;
mod link;
mod mdio;
mod queues;
mod requests;
mod rx;
mod state;
mod tx;
mod windows;
mod wire;

use doorbell_pcie::FunctionPorts;
use doorbell_sim::{BitsPerSec, Ps, log};

use crate::config::{ConfigError, NicConfig};
use crate::parts::buffers::Buffers;
use crate::parts::dma::Dma;
use crate::parts::filter::station_entry;
use crate::parts::measured::Measured;
use crate::parts::phy::ManagedPhy as _;
use crate::stats::{NicStats, QueueStats};
pub(crate) use chip::Chip;
use chip::Regs;
use link::LinkStatus;
use mdio::Indirect;
pub use queues::Queue;
use queues::QueuesOn;
pub use state::ControllerState;

/// A wake-up of a controller's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
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

impl Event {
    /// The event as a number: its kind in the lowest byte, what it is about above.
    fn encode(self) -> u64 {
        let (kind, about) = match self {
            Event::ReadDone(sequence) => (0, sequence),
            Event::WriteDone(sequence) => (1, sequence),
            Event::Wire => (2, 0),
            Event::Receiver => (3, 0),
            Event::Sender => (4, 0),
            Event::Loopback => (5, 0),
            Event::Link => (6, 0),
            Event::PauseOver => (7, 0),
            Event::Mdio => (8, 0),
            Event::WriteBack(Queue::Receive(queue)) => (9, queue.into()),
            Event::WriteBack(Queue::Transmit(queue)) => (10, queue.into()),
            Event::Chip(number) => (11, number.into()),
        };
        kind | about << 8
    }

    /// The event with this number, if there is one.
    fn decode(number: u64) -> Option<Event> {
        let about = number >> 8;
        Some(match number & 0xff {
            0 => Event::ReadDone(about),
            1 => Event::WriteDone(about),
            2 => Event::Wire,
            3 => Event::Receiver,
            4 => Event::Sender,
            5 => Event::Loopback,
            6 => Event::Link,
            7 => Event::PauseOver,
            8 => Event::Mdio,
            9 => Event::WriteBack(Queue::Receive(about.try_into().ok()?)),
            10 => Event::WriteBack(Queue::Transmit(about.try_into().ok()?)),
            11 => Event::Chip(about.try_into().ok()?),
            _ => return None,
        })
    }
}

/// Schedules a wake-up.
fn wake(ports: &mut dyn FunctionPorts, at: Ps, event: Event) {
    ports.wake_at(at, event.encode());
}

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
    /// NIC number `index` of a machine, on a link of this rate, as it is after power-on; [`power_on`](doorbell_pcie::PciFunction::power_on) starts its PHY.
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

    /// Handles a wake-up that the controller scheduled.
    fn on_event(&mut self, now: Ps, event: Event, ports: &mut dyn FunctionPorts) {
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
    fn enable_dma(&mut self, now: Ps, enabled: bool, ports: &mut dyn FunctionPorts) {
        self.bus_master = enabled;
        log!(now, Nic, Info, "{}: bus master {}", self.name, if enabled { "on" } else { "off" });
        if enabled {
            self.rx_advance(now, ports);
            self.tx_advance(now, ports);
        }
    }

    /// Device reset: CTRL.RST, or a return from D3. The PHY and configuration space keep their state.
    fn device_reset(&mut self, now: Ps, ports: &mut dyn FunctionPorts) {
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
    pub fn hardware_reset(&mut self, now: Ps, ports: &mut dyn FunctionPorts) {
        self.device_reset(now, ports);
        self.phy.hardware_reset();
        self.restart_link(now, ports);
    }

    /// The parameters.
    pub fn config(&self) -> &NicConfig {
        &self.config
    }

    /// The prefix of this NIC's log lines, such as "nic0".
    pub fn name(&self) -> &str {
        &self.name
    }
}
