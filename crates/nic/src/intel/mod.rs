//! Intel's family of gigabit Ethernet controllers at register level: one MAC core, shared by all chips. A
//! chip's folder declares its registers and implements [`Chip`] with its own functions. The chips are the
//! 82540EM with one queue in each direction ([`e82540`]) and the 82576 with sixteen ([`e82576`]).
//!
//! Receive path: `frame_arrived` → checks and filters → queue selection → receive packet buffer (drops and
//! classifies frames while full) → DMA to the buffers of prefetched descriptors → write-back → interrupt.
//!
//! Transmit path: tail register → descriptor fetch → buffer reads, round robin over the queues by packet →
//! offloads → transmit packet buffer → wire.
//!
//! Every entry point takes the time as `now`. The device schedules later work with [`wake`].

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
use crate::parts::measured::MeasurementWindow;
use crate::parts::phy::ManagedPhy as _;
use crate::stats::{NicStats, QueueStats};
pub(crate) use chip::Chip;
use chip::Regs;
use link::LinkStatus;
use mdio::Indirect;
pub use queues::Queue;
use queues::QueuesOn;
pub use state::ControllerState;

/// A wake-up that a controller schedules for itself.
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
    /// The write-back delay of a queue's used descriptors has expired.
    WriteBack(Queue),
    /// A chip-specific timer. For the 82540EM its number is defined in `interrupts.rs`; for the 82576 it is a
    /// vector.
    Chip(u8),
}

impl Event {
    /// Encodes the event: its kind in the lowest byte, its argument above.
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

    /// Decodes an event; `None` if the number is invalid.
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
    /// Rate at which looped-back frames are serialised; also defines the duration of a pause quantum.
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
    /// Enabled queues, cached from the registers because every event needs them.
    on: QueuesOn,
    stats: NicStats,
    queue_stats: Vec<QueueStats>,
    bus_master: bool,
    /// PCI requester ID. The machine sets it before each register read. Not saved.
    requester: u16,
    /// Pool of reusable frame buffers. Not saved.
    buffers: Buffers,
    /// Frames of the measurement window that were dropped after admission. For observers only; not saved.
    measured: MeasurementWindow,
    /// Hart performing the current register write, if known. For observers only; not saved.
    writer: Option<u8>,
}

impl<C: Chip> Controller<C> {
    /// Creates NIC `index` of a machine on a link of this rate, in its power-on state.
    /// [`power_on`](doorbell_pcie::PciFunction::power_on) starts its PHY.
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
            measured: MeasurementWindow::default(),
            writer: None,
        };
        nic.load_registers();
        Ok(nic)
    }

    /// Sets the registers whose reset values are not in the table: the first station address, which comes
    /// from the EEPROM or NVM, and chip-specific ones.
    fn load_registers(&mut self) {
        self.load_station();
        C::registers_reset(&mut self.regs);
        self.on = C::queues_on(&self.regs);
    }

    /// Loads the first station address from the EEPROM or NVM.
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
            Event::Wire => self.on_wire_wake(now, ports),
            Event::Receiver => self.rx_advance(now, ports),
            Event::Sender => self.tx_advance(now, ports),
            Event::Loopback => self.loopback_arrived(now, ports),
            Event::Link => self.on_link_wake(now, ports),
            Event::PauseOver => self.on_pause_wake(now, ports),
            Event::Mdio => self.on_mdio_wake(now, ports),
            // Only a damaged checkpoint names a queue that the chip lacks.
            Event::WriteBack(queue) if queue.index() >= C::QUEUES => {}
            Event::WriteBack(queue) => self.on_write_back_wake(now, queue, ports),
            Event::Chip(number) => C::timer(self, now, number, ports),
        }
    }

    /// Enables or disables DMA (the bus master bit of the command register). While disabled, no new DMA
    /// starts.
    fn enable_dma(&mut self, now: Ps, enabled: bool, ports: &mut dyn FunctionPorts) {
        self.bus_master = enabled;
        log!(now, Nic, Info, "{}: bus master {}", self.name, if enabled { "on" } else { "off" });
        if enabled {
            self.rx_advance(now, ports);
            self.tx_advance(now, ports);
        }
    }

    /// Device reset, by CTRL.RST or on leaving D3. The PHY and configuration space keep their state.
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

    /// Configuration of this NIC.
    pub fn config(&self) -> &NicConfig {
        &self.config
    }

    /// The prefix of this NIC's log lines, such as "nic0".
    pub fn name(&self) -> &str {
        &self.name
    }
}
