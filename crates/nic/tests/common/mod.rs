//! Minimal machine for a NIC: memory with fixed latency, an interrupt line, a wire and an event queue; and a
//! driver that defines its own constants.

use doorbell_nic::{Nic, NicConfig};
use doorbell_pcie::{NetworkFunction as _, PciFunction as _};
use doorbell_sim::ports::{
    DeliveryPort, DmaDirection, DmaPort, DmaPurpose, DmaRequest, DmaTag, IrqPort, IrqSink, Timers, WirePort,
};
use doorbell_sim::{
    AccessSize, BitsPerSec, EventQueue, Frame, FrameId, FrameObserver, Phase, PhysAddr, Ps, RxStamps,
    TxStamps,
};

/// Kind of a DMA request.
pub type Kind = (DmaPurpose, DmaDirection);
pub const RX_FETCH: Kind = (DmaPurpose::RxDescriptor, DmaDirection::Read);
pub const RX_WRITE_BACK: Kind = (DmaPurpose::RxDescriptor, DmaDirection::Write);
pub const RX_DATA: Kind = (DmaPurpose::RxData, DmaDirection::Write);
pub const TX_FETCH: Kind = (DmaPurpose::TxDescriptor, DmaDirection::Read);
pub const TX_WRITE_BACK: Kind = (DmaPurpose::TxDescriptor, DmaDirection::Write);
pub const TX_DATA: Kind = (DmaPurpose::TxData, DmaDirection::Read);

/// Link rate of the NICs in the tests.
pub const LINK_RATE: BitsPerSec = BitsPerSec(1_000_000_000);

pub const CTRL: u64 = 0x0000;
pub const STATUS: u64 = 0x0008;
pub const EECD: u64 = 0x0010;
pub const EERD: u64 = 0x0014;
pub const MDIC: u64 = 0x0020;
pub const FCAL: u64 = 0x0028;
pub const FCAH: u64 = 0x002c;
pub const FCT: u64 = 0x0030;
pub const VET: u64 = 0x0038;
pub const ICR: u64 = 0x00c0;
pub const ITR: u64 = 0x00c4;
pub const ICS: u64 = 0x00c8;
pub const IMS: u64 = 0x00d0;
pub const IMC: u64 = 0x00d8;
pub const RCTL: u64 = 0x0100;
pub const FCTTV: u64 = 0x0170;
pub const TXCW: u64 = 0x0178;
pub const TCTL: u64 = 0x0400;
pub const TIPG: u64 = 0x0410;
pub const PBA: u64 = 0x1000;
pub const FCRTL: u64 = 0x2160;
pub const FCRTH: u64 = 0x2168;
pub const RDBAL: u64 = 0x2800;
pub const RDBAH: u64 = 0x2804;
pub const RDLEN: u64 = 0x2808;
pub const RDH: u64 = 0x2810;
pub const RDT: u64 = 0x2818;
pub const RDTR: u64 = 0x2820;
pub const RXDCTL: u64 = 0x2828;
pub const RADV: u64 = 0x282c;
pub const RSRPD: u64 = 0x2c00;
pub const TDBAL: u64 = 0x3800;
pub const TDBAH: u64 = 0x3804;
pub const TDLEN: u64 = 0x3808;
pub const TDH: u64 = 0x3810;
pub const TDT: u64 = 0x3818;
pub const TIDV: u64 = 0x3820;
pub const TXDCTL: u64 = 0x3828;
pub const TADV: u64 = 0x382c;
pub const MPC: u64 = 0x4010;
pub const RNBC: u64 = 0x40a0;
pub const GPRC: u64 = 0x4074;
pub const GPTC: u64 = 0x4080;
pub const RXCSUM: u64 = 0x5000;
pub const MTA: u64 = 0x5200;
pub const RAL: u64 = 0x5400;
pub const RAH: u64 = 0x5404;
pub const VFTA: u64 = 0x5600;

/// An event without effect: the end of a read that was never issued.
pub const NOTHING: u64 = 1 << 62;

pub const MEMORY: usize = 8 << 20;
pub const RX_RING: u64 = 0x1_0000;
pub const TX_RING: u64 = 0x8_0000;
pub const RX_BUFFERS: u64 = 0x10_0000;
pub const TX_BUFFERS: u64 = 0x60_0000;
pub const RX_BUFFER: u64 = 2048;

#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub enum Ev {
    Nic(u64),
    Frame(Frame),
}

/// Addresses and lengths.
pub type Pieces = Vec<(PhysAddr, u32)>;

/// Environment of the NIC.
#[derive(Clone)]
pub struct World {
    pub memory: Vec<u8>,
    pub queue: EventQueue<Ev>,
    pub read_latency: Ps,
    pub write_latency: Ps,
    /// Bytes per nanosecond in each direction.
    pub bytes_per_ns: u64,
    pub read_free: Ps,
    pub write_free: Ps,
    pub irq: bool,
    pub irq_rises: Vec<Ps>,
    /// Vectors that were raised.
    pub raised: Vec<(Ps, u16)>,
    pub sent: Vec<(Ps, Frame)>,
    pub rate: BitsPerSec,
    pub wire_free: Ps,
    /// DMA requests: time, kind, length.
    pub dma: Vec<(Ps, Kind, u32)>,
    /// Whether stamps are recorded, and the recorded stamps.
    pub records_stamps: bool,
    pub received_stamps: Vec<(u64, RxStamps)>,
    pub sent_stamps: Vec<(u64, TxStamps)>,
    /// Frames completely in memory: length on the wire, and pieces.
    pub in_memory: Vec<(u32, Pieces)>,
    /// Buffers that the NIC has reported as returned by software.
    pub returned: Pieces,
    /// Offset in its frame of each DMA request.
    pub offsets: Vec<u32>,
    /// Queue and target core of each DMA request.
    pub tags: Vec<DmaTag>,
}

impl World {
    pub fn new() -> World {
        World {
            memory: vec![0; MEMORY],
            queue: EventQueue::new(),
            read_latency: Ps::from_ns(500),
            write_latency: Ps::from_ns(200),
            bytes_per_ns: 8,
            read_free: Ps::ZERO,
            write_free: Ps::ZERO,
            irq: false,
            irq_rises: Vec::new(),
            raised: Vec::new(),
            sent: Vec::new(),
            rate: BitsPerSec(10_000_000_000),
            wire_free: Ps::ZERO,
            dma: Vec::new(),
            records_stamps: false,
            received_stamps: Vec::new(),
            sent_stamps: Vec::new(),
            in_memory: Vec::new(),
            returned: Vec::new(),
            offsets: Vec::new(),
            tags: Vec::new(),
        }
    }

    pub fn now(&self) -> Ps {
        self.queue.now()
    }

    pub fn word(&self, at: u64) -> u64 {
        let at = at as usize;
        u64::from_le_bytes(self.memory[at..at + 8].try_into().unwrap())
    }

    pub fn put_word(&mut self, at: u64, value: u64) {
        let at = at as usize;
        self.memory[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    /// Offsets in their frames and lengths of all requests of a kind.
    pub fn pieces(&self, kind: Kind) -> Vec<(u32, u32)> {
        let all = self.dma.iter().zip(&self.offsets);
        all.filter(|((_, k, _), _)| *k == kind).map(|((_, _, len), offset)| (*offset, *len)).collect()
    }

    pub fn count_dma(&self, kind: Kind) -> usize {
        self.dma.iter().filter(|(_, k, _)| *k == kind).count()
    }
}

impl DmaPort for World {
    fn request_read(&mut self, now: Ps, request: DmaRequest) -> Ps {
        let DmaRequest { len, purpose, offset, tag, .. } = request;
        self.dma.push((now, (purpose, DmaDirection::Read), len));
        self.offsets.push(offset);
        self.tags.push(tag);
        self.read_free = self.read_free.max(now) + Ps::from_ns(u64::from(len) / self.bytes_per_ns);
        self.read_free + self.read_latency
    }

    fn request_write(&mut self, now: Ps, request: DmaRequest) -> Ps {
        let DmaRequest { len, purpose, offset, tag, .. } = request;
        self.dma.push((now, (purpose, DmaDirection::Write), len));
        self.offsets.push(offset);
        self.tags.push(tag);
        self.write_free = self.write_free.max(now) + Ps::from_ns(u64::from(len) / self.bytes_per_ns);
        self.write_free + self.write_latency
    }

    fn read(&mut self, addr: PhysAddr, into: &mut [u8]) {
        for (i, byte) in into.iter_mut().enumerate() {
            let at = addr.0.wrapping_add(i as u64);
            *byte = usize::try_from(at).ok().and_then(|at| self.memory.get(at)).copied().unwrap_or(0xff);
        }
    }

    fn write(&mut self, addr: PhysAddr, from: &[u8]) {
        for (i, byte) in from.iter().enumerate() {
            let at = usize::try_from(addr.0.wrapping_add(i as u64)).unwrap();
            if let Some(cell) = self.memory.get_mut(at) {
                *cell = *byte;
            }
        }
    }

    fn buffer_returned(&mut self, addr: PhysAddr, bytes: u64) {
        self.returned.push((addr, bytes as u32));
    }
}

impl DeliveryPort for World {
    fn frame_in_memory(&mut self, _: Ps, pieces: &[(PhysAddr, u32)], wire_bytes: u32) {
        self.in_memory.push((wire_bytes, pieces.to_vec()));
    }
}

/// Recognises test frames by the number that [`frame`] puts into them, if stamps are recorded.
impl FrameObserver for World {
    fn recognise(&self, frame: &[u8]) -> Option<FrameId> {
        let number = frame.get(14..18).filter(|_| self.records_stamps)?;
        let sequence = u32::from_be_bytes(number.try_into().unwrap()).into();
        Some(FrameId { stream: 0, sequence })
    }

    fn frame_received(&mut self, id: FrameId, stamps: RxStamps) {
        self.received_stamps.push((id.sequence, stamps));
    }

    fn frame_sent(&mut self, id: FrameId, stamps: TxStamps) {
        self.sent_stamps.push((id.sequence, stamps));
    }
}

impl IrqPort for World {
    fn set_irq(&mut self, level: bool) {
        if level && !self.irq {
            self.irq_rises.push(self.queue.now());
        }
        self.irq = level;
    }
}

impl IrqSink for World {
    fn raise(&mut self, now: Ps, vector: u16) {
        self.raised.push((now, vector));
    }

    fn withdraw(&mut self, _: u16) {}
}

impl WirePort for World {
    fn send(&mut self, now: Ps, frame: Frame) -> Ps {
        let start = self.wire_free.max(now);
        self.wire_free = start + self.rate.time_for_bits((frame.len_with_fcs() as u64 + 20) * 8);
        self.sent.push((start, frame));
        self.wire_free
    }

    fn free_at(&self) -> Ps {
        self.wire_free
    }
}

impl Timers<u64> for World {
    fn wake_at(&mut self, at: Ps, event: u64) {
        // DMA completions have the lowest event numbers.
        let phase = if event & 0xff <= 1 { Phase::Dma } else { Phase::Timer };
        self.queue.schedule(at, phase, Ev::Nic(event));
    }
}

/// The NIC, its environment and the driver's state.
pub struct Bench {
    pub nic: Nic,
    pub world: World,
    pub rx_count: u64,
    pub rx_next: u64,
    /// First part of a frame whose last descriptor is not done yet.
    pub rx_partial: Vec<u8>,
    pub tx_count: u64,
    pub tx_next: u64,
}

impl Bench {
    pub fn new(config: NicConfig) -> Bench {
        let mut bench = Bench {
            nic: Nic::new(config, LINK_RATE, 0).unwrap(),
            world: World::new(),
            rx_count: 0,
            rx_next: 0,
            rx_partial: Vec::new(),
            tx_count: 0,
            tx_next: 0,
        };
        bench.nic.power_on(Ps::ZERO, &mut bench.world);
        bench
    }

    /// A NIC with its link up, receiver and transmitter enabled, and rings of these sizes.
    pub fn running(config: NicConfig, rx_count: u64, tx_count: u64) -> Bench {
        let mut bench = Bench::new(config);
        bench.write(CTRL, 0x41);
        bench.run_for(Ps::from_us(50));
        bench.write(RXDCTL, 0x0100_0000);
        bench.write(TXDCTL, 0x0100_0000);
        bench.set_up_rx(rx_count);
        bench.set_up_tx(tx_count);
        bench.write(TCTL, 0x0000_000a);
        bench.write(RCTL, 0x0400_8002);
        bench.read(ICR);
        bench.run_for(Ps::from_us(10));
        bench
    }

    pub fn read(&mut self, offset: u64) -> u32 {
        self.nic.mmio_read(self.world.queue.now(), offset, AccessSize::B4, &mut self.world) as u32
    }

    pub fn write(&mut self, offset: u64, value: u32) {
        self.nic.mmio_write(self.world.queue.now(), offset, AccessSize::B4, value.into(), &mut self.world);
    }

    pub fn set_up_rx(&mut self, count: u64) {
        self.set_up_rx_at(count, 0);
    }

    /// As [`set_up_rx`](Bench::set_up_rx), with buffers offset by `bytes`.
    pub fn set_up_rx_at(&mut self, count: u64, bytes: u64) {
        self.rx_count = count;
        self.rx_next = 0;
        for i in 0..count {
            self.world.put_word(RX_RING + 16 * i, RX_BUFFERS + RX_BUFFER * i + bytes);
            self.world.put_word(RX_RING + 16 * i + 8, 0);
        }
        self.write(RDBAL, RX_RING as u32);
        self.write(RDBAH, 0);
        self.write(RDLEN, (count * 16) as u32);
        self.write(RDH, 0);
        self.write(RDT, (count - 1) as u32);
    }

    pub fn set_up_tx(&mut self, count: u64) {
        self.tx_count = count;
        self.tx_next = 0;
        self.write(TDBAL, TX_RING as u32);
        self.write(TDBAH, 0);
        self.write(TDLEN, (count * 16) as u32);
        self.write(TDH, 0);
        self.write(TDT, 0);
    }

    /// Puts a descriptor into the transmit ring without writing the tail.
    pub fn put_tx(&mut self, first: u64, second: u64) {
        self.world.put_word(TX_RING + 16 * self.tx_next, first);
        self.world.put_word(TX_RING + 16 * self.tx_next + 8, second);
        self.tx_next = (self.tx_next + 1) % self.tx_count;
    }

    /// Writes the transmit tail.
    pub fn ring_tx(&mut self) {
        self.write(TDT, self.tx_next as u32);
    }

    /// Sends one buffer with a legacy descriptor and this command.
    pub fn send_legacy(&mut self, bytes: &[u8], command: u64) {
        let buffer = TX_BUFFERS + 2048 * self.tx_next;
        self.world.memory[buffer as usize..buffer as usize + bytes.len()].copy_from_slice(bytes);
        self.put_tx(buffer, bytes.len() as u64 | command << 24);
        self.ring_tx();
    }

    /// Polls as a driver does: returns the frames of done descriptors and gives their buffers back to the
    /// NIC.
    pub fn poll(&mut self) -> Vec<Vec<u8>> {
        self.poll_status().into_iter().map(|(bytes, _)| bytes).collect()
    }

    /// As [`poll`](Bench::poll), with the second word of each frame's last descriptor.
    pub fn poll_status(&mut self) -> Vec<(Vec<u8>, u64)> {
        let mut frames = Vec::new();
        loop {
            let at = RX_RING + 16 * self.rx_next;
            let (buffer, second) = (self.world.word(at), self.world.word(at + 8));
            if second >> 32 & 1 == 0 {
                break;
            }
            let len = second as u16 as usize;
            let data =
                usize::try_from(buffer).ok().and_then(|at| self.world.memory.get(at..at.checked_add(len)?));
            self.rx_partial.extend_from_slice(data.unwrap_or(&[]));
            self.world.put_word(at, RX_BUFFERS + RX_BUFFER * self.rx_next);
            self.world.put_word(at + 8, 0);
            if second >> 33 & 1 != 0 {
                frames.push((std::mem::take(&mut self.rx_partial), second));
            }
            let returned = self.rx_next;
            self.rx_next = (self.rx_next + 1) % self.rx_count;
            self.write(RDT, returned as u32);
        }
        frames
    }

    pub fn arrive(&mut self, frame: Frame) {
        let now = self.world.queue.now();
        self.nic.frame_arrived(now, frame, &mut self.world);
    }

    pub fn arrive_at(&mut self, at: Ps, frame: Frame) {
        self.world.queue.schedule(at, Phase::Wire, Ev::Frame(frame));
    }

    /// Handles the next event. Returns false if there is none.
    pub fn step(&mut self) -> bool {
        let Some((now, event)) = self.world.queue.pop() else { return false };
        match event {
            Ev::Nic(event) => self.nic.wake(now, event, &mut self.world),
            Ev::Frame(frame) => self.nic.frame_arrived(now, frame, &mut self.world),
        }
        true
    }

    /// Handles all events up to and including `until`, and advances the time to `until`.
    pub fn run_until(&mut self, until: Ps) {
        while self.world.queue.next_time() <= until {
            self.step();
        }
        // An event without effect advances the queue's time.
        if self.world.queue.now() < until {
            self.world.queue.schedule(until, Phase::Control, Ev::Nic(NOTHING));
            self.step();
        }
    }

    pub fn run_for(&mut self, duration: Ps) {
        self.run_until(self.world.queue.now() + duration);
    }

    pub fn check(&self) {
        self.nic.check_conservation();
    }
}

/// A frame of `bytes` bytes on the wire (FCS included) to the default address, with a pattern that depends on
/// `number`.
pub fn frame(bytes: usize, number: u32) -> Frame {
    let mut frame = vec![0x52, 0x54, 0x00, 0x12, 0x34, 0x56, 2, 0, 0, 0, 0, 9, 0x88, 0xb5];
    frame.extend_from_slice(&number.to_be_bytes());
    let from = frame.len();
    frame.resize(bytes - 4, 0);
    for (i, byte) in frame[from..].iter_mut().enumerate() {
        *byte = (i as u32).wrapping_mul(7).wrapping_add(number) as u8;
    }
    Frame::new(frame)
}
