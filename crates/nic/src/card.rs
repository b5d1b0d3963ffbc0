//! A NIC of either kind, as the machine holds it: every call goes to the chip that the configuration names.

use doorbell_sim::ports::PolledRing;
use doorbell_sim::{AccessSize, BitsPerSec, Frame, Ps};

use crate::e82576::{Igb, IgbPorts};
use crate::{
    ConfigError, Event, InFlight, LateDrops, Nic, NicConfig, NicModel, NicStats, PciIdentity, QueueStats,
    RingLevel, Statistic, WaitedDrops,
};

/// A NIC.
#[derive(Debug)]
pub enum Card {
    /// An 82540EM.
    E82540(Box<Nic>),
    /// An 82576.
    E82576(Box<Igb>),
}

/// The same expression of whichever chip it is.
macro_rules! either {
    ($card:expr, $nic:ident => $call:expr) => {
        match $card {
            Card::E82540($nic) => $call,
            Card::E82576($nic) => $call,
        }
    };
}

impl Card {
    /// NIC number `index` of a machine, at a link of this rate, as it is after power-on; [`Card::power_on`] starts its PHY.
    pub fn new(config: NicConfig, link_rate: BitsPerSec, index: usize) -> Result<Card, ConfigError> {
        Ok(match config.model {
            NicModel::E82540em => Card::E82540(Box::new(Nic::new(config, link_rate, index)?)),
            NicModel::E82576 => Card::E82576(Box::new(Igb::new(config, link_rate, index)?)),
        })
    }

    /// The figures for a model's configuration space.
    pub const fn identity_of(model: NicModel) -> &'static PciIdentity {
        match model {
            NicModel::E82540em => &crate::IDENTITY,
            NicModel::E82576 => &crate::e82576::IDENTITY,
        }
    }

    /// The figures for the function's configuration space.
    pub fn function_identity(&self) -> &'static PciIdentity {
        Card::identity_of(self.config().model)
    }

    /// Power is on: the PHY begins to negotiate.
    pub fn power_on(&mut self, now: Ps, ports: &mut impl IgbPorts) {
        either!(self, nic => nic.power_on(now, ports));
    }

    /// The name under which sections and counters of this NIC stand, such as "nic0".
    pub fn name(&self) -> &str {
        either!(self, nic => nic.name())
    }

    /// The parameters.
    pub fn config(&self) -> &NicConfig {
        either!(self, nic => nic.config())
    }

    /// The counters.
    pub fn stats(&self) -> &NicStats {
        either!(self, nic => nic.stats())
    }

    /// What each queue counted apart, of a card with several.
    pub fn queue_stats(&self) -> &[QueueStats] {
        match self {
            Card::E82540(_) => &[],
            Card::E82576(nic) => nic.queue_stats(),
        }
    }

    /// Whether a pair of queues is on, of a card that can turn them off.
    pub fn is_queue_on(&self, queue: usize) -> bool {
        match self {
            Card::E82540(_) => queue == 0,
            Card::E82576(nic) => nic.is_queue_on(queue),
        }
    }

    /// The receive queues over which RSS spreads flows, a bit each.
    pub fn rss_queues(&self) -> u32 {
        match self {
            Card::E82540(_) => 0,
            Card::E82576(nic) => nic.rss_queues(),
        }
    }

    /// The chip's statistics registers in the order of the manual.
    pub fn statistics(&self) -> Vec<Statistic> {
        either!(self, nic => nic.statistics())
    }

    /// What software asks for that the model has not, a line each; of an 82576, registers that it has written and that are not there,
    /// counted since the power came on, are one. The 82540EM's table has all registers of its manual: what a driver of
    /// several chips writes beside them (DPDK's writes 0 to RFCTL) the card itself has not, and nobody asked it for anything.
    pub fn missing(&self) -> Vec<String> {
        let Card::E82576(nic) = self else { return Vec::new() };
        let mut all = nic.missing();
        match nic.stats().unknown_writes {
            0 => (),
            1 => all.push("a write was to a register that the model has not".to_owned()),
            more => all.push(format!("{more} writes were to registers that the model has not")),
        }
        all
    }

    /// A value in the register file, without side effects, for reports and tests; `None` if no register has the name. Of an
    /// array it is the first.
    pub fn peek(&self, name: &str) -> Option<u32> {
        either!(self, nic => nic.peek(name))
    }

    /// The rings of receive descriptors that software polls, as the registers say now.
    pub fn rx_rings(&self) -> Vec<PolledRing> {
        match self {
            Card::E82540(nic) => nic.rx_ring().into_iter().collect(),
            Card::E82576(nic) => nic.rx_rings(),
        }
    }

    /// What receive rings and transmit rings hold, a pair a queue.
    pub fn ring_levels(&self) -> Vec<[RingLevel; 2]> {
        match self {
            Card::E82540(nic) => vec![nic.ring_levels()],
            Card::E82576(nic) => nic.ring_levels(),
        }
    }

    /// Whether frames from the wire are taken: the link is up and the receiver is on.
    pub fn is_receiving(&self) -> bool {
        either!(self, nic => nic.is_receiving())
    }

    /// Frames dropped for a full receive FIFO, by what was waited for.
    pub fn waited_drops(&self) -> WaitedDrops {
        either!(self, nic => nic.waited_drops())
    }

    /// From now on a measurement has the frames that arrive from the link later than this.
    pub fn begin_measurement(&mut self, after: Ps) {
        either!(self, nic => nic.begin_measurement(after));
    }

    /// It has none that arrive later than this.
    pub fn end_measurement(&mut self, until: Ps) {
        either!(self, nic => nic.end_measurement(until));
    }

    /// Frames of the measurement that were dropped after they had been accepted.
    pub fn late_drops(&self) -> LateDrops {
        either!(self, nic => nic.late_drops())
    }

    /// Frames inside: accepted and not yet delivered, and put together and not yet sent.
    pub fn in_flight(&self) -> InFlight {
        either!(self, nic => nic.in_flight())
    }

    /// Asserts that every frame that came in is accounted for, in both directions.
    pub fn check_conservation(&self) {
        either!(self, nic => nic.check_conservation());
    }

    /// The last bit of a frame has arrived from the link.
    pub fn frame_arrived(&mut self, now: Ps, frame: Frame, ports: &mut impl IgbPorts) {
        either!(self, nic => nic.frame_arrived(now, frame, ports));
    }

    /// A wake-up that the NIC has asked for. One of another chip, in a damaged checkpoint, is nobody's.
    pub fn on_event(&mut self, now: Ps, event: Event, ports: &mut impl IgbPorts) {
        match (self, event) {
            (Card::E82540(nic), event) => nic.on_event(now, event, ports),
            (Card::E82576(nic), Event::E82576(event)) => nic.on_event(now, event, ports),
            (Card::E82576(_), _) => {}
        }
    }

    /// A request that the port answered with [`Done::Later`](doorbell_sim::Done::Later) is done.
    pub fn dma_done(&mut self, now: Ps, token: u64, ports: &mut impl IgbPorts) {
        either!(self, nic => nic.dma_done(now, token, ports));
    }

    /// Whether the device may start DMA (the command register's bus master bit). While it may not, it starts none.
    pub fn set_bus_master(&mut self, now: Ps, enabled: bool, ports: &mut impl IgbPorts) {
        either!(self, nic => nic.set_bus_master(now, enabled, ports));
    }

    /// The device resets itself on its return from D3. The PHY and configuration space stay.
    pub fn reset(&mut self, now: Ps, ports: &mut impl IgbPorts) {
        either!(self, nic => nic.reset(now, ports));
    }

    /// A power-on or bus reset: the PHY starts again too.
    pub fn hardware_reset(&mut self, now: Ps, ports: &mut impl IgbPorts) {
        either!(self, nic => nic.hardware_reset(now, ports));
    }

    /// Somebody pulls the cable, or puts it back: then autonegotiation starts.
    pub fn set_cable(&mut self, now: Ps, plugged: bool, ports: &mut impl IgbPorts) {
        either!(self, nic => nic.set_cable(now, plugged, ports));
    }

    /// Which hart writes the register that will be written next: an observer's.
    pub fn set_writer(&mut self, hart: Option<u8>) {
        if let Card::E82576(nic) = self {
            nic.set_writer(hart);
        }
    }

    /// What the card is called on the bus now, for the register that says it.
    pub fn set_requester(&mut self, id: u16) {
        if let Card::E82576(nic) = self {
            nic.set_requester(id);
        }
    }

    /// A core reads from behind a base address register.
    pub fn read(
        &mut self,
        now: Ps,
        (bar, offset): (u8, u64),
        size: AccessSize,
        ports: &mut impl IgbPorts,
    ) -> u64 {
        match self.is_io(bar) {
            true => either!(self, nic => nic.io_read(now, offset, size, ports)),
            false => either!(self, nic => nic.mmio_read(now, offset, size, ports)),
        }
    }

    /// A core writes there.
    pub fn write(
        &mut self,
        now: Ps,
        (bar, offset): (u8, u64),
        (size, value): (AccessSize, u64),
        ports: &mut impl IgbPorts,
    ) {
        match self.is_io(bar) {
            true => either!(self, nic => nic.io_write(now, offset, size, value, ports)),
            false => either!(self, nic => nic.mmio_write(now, offset, size, value, ports)),
        }
    }

    /// Whether a base address register asks for I/O ports, which have an address and a data register instead of all registers.
    fn is_io(&self, bar: u8) -> bool {
        self.function_identity().bars.iter().any(|own| own.index == bar && own.io)
    }
}
