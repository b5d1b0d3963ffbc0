//! Implements the PCI function and network function interfaces for [`Controller`].

use doorbell_pcie::{FunctionIdentity, FunctionPorts, NetworkFunction, PciFunction, PolledRing};
use doorbell_sim::snapshot::SnapshotError;
use doorbell_sim::stats::{Counter, Stats as _};
use doorbell_sim::{AccessSize, Frame, Ps};

use super::bits::rctl;
use super::{Chip, Controller, Event};
use crate::parts::registers::{Access, RegisterId as _};
use crate::stats::{InFlight, LateDrops, NicStats, QueueStats, RingLevel, Statistic, WaitedDrops};

impl<C: Chip> PciFunction for Controller<C> {
    fn identity(&self) -> FunctionIdentity {
        C::identity()
    }

    /// Starts autonegotiation.
    fn power_on(&mut self, now: Ps, ports: &mut dyn FunctionPorts) {
        self.restart_link(now, ports);
    }

    fn read(
        &mut self,
        now: Ps,
        bar: u8,
        offset: u64,
        size: AccessSize,
        ports: &mut dyn FunctionPorts,
    ) -> u64 {
        if bar == C::IO_BAR {
            return self.io_read(now, offset, size, ports);
        }
        self.mmio_read(now, offset, size, ports)
    }

    fn write(
        &mut self,
        now: Ps,
        bar: u8,
        offset: u64,
        size: AccessSize,
        value: u64,
        ports: &mut dyn FunctionPorts,
    ) {
        if bar == C::IO_BAR {
            return self.io_write(now, offset, size, value, ports);
        }
        self.mmio_write(now, offset, size, value, ports);
    }

    fn wake(&mut self, now: Ps, event: u64, ports: &mut dyn FunctionPorts) {
        // Only a damaged checkpoint contains an invalid event.
        if let Some(event) = Event::decode(event) {
            self.on_event(now, event, ports);
        }
    }

    fn reset(&mut self, now: Ps, ports: &mut dyn FunctionPorts) {
        self.device_reset(now, ports);
    }

    fn set_bus_master(&mut self, now: Ps, enabled: bool, ports: &mut dyn FunctionPorts) {
        self.enable_dma(now, enabled, ports);
    }

    fn set_requester(&mut self, id: u16) {
        self.requester = id;
    }

    fn set_writer(&mut self, hart: Option<u8>) {
        self.writer = hart;
    }

    fn save(&self) -> Vec<u8> {
        postcard::to_allocvec(&(C::STATE_VERSION, self.state()))
            .expect("the saved state contains only serializable values")
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), SnapshotError> {
        let refuse = |problem: String| SnapshotError::Inconsistent { name: self.name.clone(), problem };
        let (version, rest): (u32, _) = postcard::take_from_bytes(state)
            .map_err(|error| refuse(format!("cannot read its version: {error}")))?;
        if version != C::STATE_VERSION {
            let own = C::STATE_VERSION;
            return Err(refuse(format!("its version is {version}; this program reads version {own}")));
        }
        let state = postcard::from_bytes(rest).map_err(|error| refuse(error.to_string()))?;
        self.restore_state(state)
    }

    /// Lists the rings of enabled queues with valid ring registers.
    fn polled_rings(&self) -> Vec<Box<dyn PolledRing>> {
        let rings = self.on.receiving().filter_map(|queue| self.polled_ring(queue));
        rings.map(|ring| Box::new(ring) as Box<dyn PolledRing>).collect()
    }

    fn counters(&self) -> Vec<Counter> {
        self.stats.counters()
    }

    fn network(&self) -> Option<&dyn NetworkFunction> {
        Some(self)
    }

    fn network_mut(&mut self) -> Option<&mut dyn NetworkFunction> {
        Some(self)
    }
}

impl<C: Chip> NetworkFunction for Controller<C> {
    fn frame_arrived(&mut self, now: Ps, frame: Frame, ports: &mut dyn FunctionPorts) {
        self.arrive(now, frame, false, ports);
    }

    fn set_cable(&mut self, now: Ps, plugged: bool, ports: &mut dyn FunctionPorts) {
        self.plug_cable(now, plugged, ports);
    }

    fn is_receiving(&self) -> bool {
        self.link_up() && self.regs.has(C::REG.rctl, rctl::EN)
    }

    fn stats(&self) -> &NicStats {
        &self.stats
    }

    fn in_flight(&self) -> InFlight {
        InFlight { rx: self.rx.frames(), tx: self.tx.frames() }
    }

    fn check_conservation(&self) {
        self.assert_conservation();
    }

    fn queue_stats(&self) -> &[QueueStats] {
        if C::QUEUES == 1 { &[] } else { &self.queue_stats }
    }

    fn is_queue_on(&self, queue: usize) -> bool {
        self.is_queue_pair_on(queue)
    }

    fn rss_queues(&self) -> u32 {
        C::rss_queues(&self.regs) & self.on.receive
    }

    fn ring_levels(&self) -> Vec<[RingLevel; 2]> {
        self.levels()
    }

    /// Lists the statistics in the order of the register table.
    fn statistics(&self) -> Vec<Statistic> {
        self.regs.statistics()
    }

    fn missing(&self) -> Vec<String> {
        C::missing(self)
    }

    /// Reads a register by name, without side effects. For an array, reads the first element.
    fn peek(&self, name: &str) -> Option<u32> {
        let register = C::Reg::TABLE.iter().find(|register| register.name == name)?;
        let (reg, _) = C::lookup(register.offset.into())?;
        (register.access != Access::Absent).then(|| self.regs.get(reg))
    }

    fn waited_drops(&self) -> WaitedDrops {
        self.rx.waits.drops
    }

    fn late_drops(&self) -> LateDrops {
        self.measured.drops
    }

    fn begin_measurement(&mut self, after: Ps) {
        self.measured.begin(after);
    }

    fn end_measurement(&mut self, until: Ps) {
        self.measured.end(until);
    }
}
