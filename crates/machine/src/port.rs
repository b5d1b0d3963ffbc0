//! A network port of the machine: NIC, the path to memory behind it, the link in front of it, and
//! the load generator at the link's far end, with the small structs that join them.

use doorbell_loadgen::{LoadGen, RoundTrip, RoundTripObserver, StageBook};
use doorbell_nic::Nic;
use doorbell_sim::memory::DmaAccess;
use doorbell_sim::ports::{DeliveryPort, DmaPort, DmaRequest, IrqPort, Timers, WirePort};
use doorbell_sim::{
    Done, EventQueue, Frame, FrameId, FrameObserver, Phase, PhysAddr, Ps, Ram, RxStamps, TxStamps, log,
};
use doorbell_wire::Link;
use doorbell_wire::link::Sent;
use doorbell_wire::pcap::PcapFile;

use crate::events::Event;
use crate::pair::Crossing;
use crate::slot::PcieSlot;
use crate::timed::{Mode, Timing};

/// A NIC and everything that is its alone.
pub struct Port {
    /// The NIC.
    pub nic: Nic,
    /// Between the NIC and memory, and the cores.
    pub pcie: PcieSlot,
    /// From the load generator to the NIC.
    pub link_in: Link,
    /// From the NIC to the load generator.
    pub link_out: Link,
    /// The load generator.
    pub loadgen: LoadGen,
    /// A capture of both directions at the load generator's connector. An observer.
    pub capture: Option<PcapFile>,
    /// With a cable to another node instead of a load generator: the frames that wait to change sides.
    pub(crate) cable: Option<Vec<Crossing>>,
    pub(crate) irq: bool,
    pub(crate) dma: DmaStats,
}

doorbell_sim::stats! {
    /// DMA that found no RAM, or was not allowed.
    pub struct DmaStats {
        /// Reads and writes outside RAM: read as all ones, writes swallowed.
        outside_ram,
        /// Reads and writes while the command register's bus-master bit was off.
        not_bus_master,
    }
}

/// A device's way to memory.
pub(crate) struct BusSide<'a> {
    /// By which number caches and accounts know the device.
    pub device: u8,
    pub ram: &'a mut Ram,
    pub pcie: &'a mut PcieSlot,
    pub dma: &'a mut DmaStats,
    pub timing: Option<&'a mut Timing>,
    pub bus_master: bool,
}

/// What a NIC sees of the machine.
pub(crate) struct NicSide<'a> {
    pub port: u8,
    pub queue: &'a mut EventQueue<Event>,
    pub bus: BusSide<'a>,
    pub link: &'a mut Link,
    pub cable: &'a mut Option<Vec<Crossing>>,
    pub irq: &'a mut bool,
    pub stages: &'a mut [StageBook],
    /// Whether frames are delivered when they are in memory.
    pub sink: bool,
}

impl BusSide<'_> {
    /// When a device's request is done. Caches that are warming learn of it.
    fn price(&mut self, now: Ps, request: DmaRequest, write: bool) -> Ps {
        let DmaRequest { addr, len, kind, offset, .. } = request;
        let access = DmaAccess { device: self.device, kind, offset };
        if let Some(timing) = &mut self.timing
            && timing.mode() == Mode::Warming
        {
            timing.warm_dma(addr, len, access, write);
        }
        let memory = self.timing.as_mut().map(|timing| &mut timing.memory);
        match write {
            true => self.pcie.write(now, addr, len, access, memory),
            false => self.pcie.read(now, addr, len, access, memory),
        }
    }
}

impl DmaPort for BusSide<'_> {
    fn request_read(&mut self, now: Ps, request: DmaRequest) -> Done {
        Done::At(self.price(now, request, false))
    }

    fn request_write(&mut self, now: Ps, request: DmaRequest) -> Done {
        Done::At(self.price(now, request, true))
    }

    fn read(&mut self, addr: PhysAddr, into: &mut [u8]) {
        self.dma.not_bus_master += u64::from(!self.bus_master);
        if !self.bus_master || !self.ram.copy_out(addr, into) {
            self.dma.outside_ram += u64::from(self.bus_master);
            into.fill(0xff);
        }
    }

    fn write(&mut self, addr: PhysAddr, from: &[u8]) {
        if !self.bus_master {
            self.dma.not_bus_master += 1;
        } else if !self.ram.store_from_device(addr, from) {
            self.dma.outside_ram += 1;
        }
    }
}

impl DmaPort for NicSide<'_> {
    fn request_read(&mut self, now: Ps, request: DmaRequest) -> Done {
        self.bus.request_read(now, request)
    }

    fn request_write(&mut self, now: Ps, request: DmaRequest) -> Done {
        self.bus.request_write(now, request)
    }

    fn read(&mut self, addr: PhysAddr, into: &mut [u8]) {
        self.bus.read(addr, into);
    }

    fn write(&mut self, addr: PhysAddr, from: &[u8]) {
        self.bus.write(addr, from);
    }
}

impl DeliveryPort for NicSide<'_> {
    fn frame_in_memory(&mut self, now: Ps, pieces: &[(PhysAddr, u32)], wire_bytes: u32) {
        if !self.sink {
            return;
        }
        let mut bytes = vec![0; pieces.iter().map(|(_, len)| *len as usize).sum()];
        let mut at = 0;
        for (addr, len) in pieces {
            let end = at + *len as usize;
            if !self.bus.ram.copy_out(*addr, &mut bytes[at..end]) {
                return;
            }
            at = end;
        }
        // A receiver may keep the FCS.
        bytes.truncate((wire_bytes as usize).saturating_sub(Frame::FCS_BYTES));
        let event = Event::FrameAtSink { port: self.port, frame: Frame::new(bytes) };
        self.queue.schedule(now, Phase::Wire, event);
    }
}

impl FrameObserver for NicSide<'_> {
    fn recognise(&self, frame: &[u8]) -> Option<FrameId> {
        StageBook::recognise(self.stages, frame)
    }

    fn frame_received(&mut self, id: FrameId, stamps: RxStamps) {
        self.stages[id.stream as usize].received(id.sequence, stamps);
    }

    fn frame_sent(&mut self, id: FrameId, stamps: TxStamps) {
        self.stages[id.stream as usize].sent(id.sequence, stamps);
    }
}

impl IrqPort for NicSide<'_> {
    fn set_irq(&mut self, level: bool) {
        *self.irq = level;
    }
}

impl Timers<doorbell_nic::Event> for NicSide<'_> {
    fn wake_at(&mut self, at: Ps, event: doorbell_nic::Event) {
        let port = self.port;
        self.queue.schedule(at, Phase::Dma, Event::Nic { port, event });
    }
}

/// Sends a frame into a link and tells of faults.
fn transmit(link: &mut Link, now: Ps, port: u8, frame: &mut Frame) -> Sent {
    let was_bad = frame.fcs_bad;
    let sent = link.transmit(now, frame);
    if sent.lost {
        log!(now, Link, Info, "port{port}: a frame of {} bytes is lost", frame.len_with_fcs());
    } else if frame.fcs_bad && !was_bad {
        log!(now, Link, Info, "port{port}: a frame of {} bytes is damaged", frame.len_with_fcs());
    }
    sent
}

impl WirePort for NicSide<'_> {
    fn send(&mut self, now: Ps, mut frame: Frame) -> Ps {
        let sent = transmit(self.link, now, self.port, &mut frame);
        let (port, arrives_at) = (self.port, sent.arrives_at);
        match self.cable {
            _ if sent.lost => {}
            Some(cable) => cable.push(Crossing { arrives_at, frame }),
            None => self.queue.schedule(arrives_at, Phase::Wire, Event::FrameAtLoadGen { port, frame }),
        }
        sent.free_at
    }

    fn free_at(&self) -> Ps {
        self.link.free_at()
    }
}

/// What a load generator sees of the machine.
pub(crate) struct LoadGenSide<'a> {
    pub port: u8,
    pub queue: &'a mut EventQueue<Event>,
    pub link: &'a mut Link,
    pub capture: &'a mut Option<PcapFile>,
    pub stages: &'a mut [StageBook],
}

impl RoundTripObserver for LoadGenSide<'_> {
    fn frame_returned(&mut self, trip: RoundTrip) {
        self.stages[usize::from(self.port)].returned(trip);
    }
}

impl Timers<doorbell_loadgen::Event> for LoadGenSide<'_> {
    fn wake_at(&mut self, at: Ps, event: doorbell_loadgen::Event) {
        let port = self.port;
        self.queue.schedule(at, Phase::Stimulus, Event::LoadGen { port, event });
    }
}

impl WirePort for LoadGenSide<'_> {
    fn send(&mut self, now: Ps, mut frame: Frame) -> Ps {
        let sent = transmit(self.link, now, self.port, &mut frame);
        if let Some(capture) = self.capture {
            // Stamped as its first bit leaves, a returning one as its last is in: so the file is in order of time, and
            // the difference of two stamps is the generator's round trip.
            capture.record(now, &frame);
        }
        if !sent.lost {
            let port = self.port;
            self.queue.schedule(sent.arrives_at, Phase::Wire, Event::FrameAtNic { port, frame });
        }
        sent.free_at
    }

    fn free_at(&self) -> Ps {
        self.link.free_at()
    }
}
