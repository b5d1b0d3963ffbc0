//! A minimal driver, and its frames.

use doorbell_nic::{Igb, NicConfig, NicModel};
use doorbell_pcie::{NetworkFunction as _, PciFunction as _};
use doorbell_sim::{AccessSize, Frame, Phase, Ps};

use crate::common::LINK_RATE;
pub use crate::common::{
    Ev, Kind, NOTHING, RX_DATA, RX_FETCH, RX_WRITE_BACK, TX_DATA, TX_FETCH, TX_WRITE_BACK, World,
};

pub const CTRL: u64 = 0x0000;
pub const STATUS: u64 = 0x0008;
pub const EERD: u64 = 0x0014;
pub const MDIC: u64 = 0x0020;
pub const ICR: u64 = 0x00c0;
pub const ICS: u64 = 0x00c8;
pub const IMS: u64 = 0x00d0;
pub const RCTL: u64 = 0x0100;
pub const TCTL: u64 = 0x0400;
pub const GPIE: u64 = 0x1514;
pub const EICS: u64 = 0x1520;
pub const EIMS: u64 = 0x1524;
pub const EIAC: u64 = 0x152c;
pub const EIAM: u64 = 0x1530;
pub const EICR: u64 = 0x1580;
pub const EITR: u64 = 0x1680;
pub const IVAR: u64 = 0x1700;
pub const IVAR_MISC: u64 = 0x1740;
pub const SRRCTL: u64 = 0xc00c;
pub const RXCSUM: u64 = 0x5000;
pub const PSRTYPE: u64 = 0x5480;
pub const SYNQF: u64 = 0x55fc;
pub const MRQC: u64 = 0x5818;
pub const SWSM: u64 = 0x5b50;
pub const RETA: u64 = 0x5c00;
pub const RSSRK: u64 = 0x5c80;
pub const ETQF: u64 = 0x5cb0;
pub const RQDPC: u64 = 0xc030;
pub const TDWBAL: u64 = 0xe038;

pub const LSC: u32 = 1 << 2;
pub const ONE_BUFFER: u32 = 1 << 25;

pub const RX_RING: u64 = 0x1_0000;
pub const TX_RING: u64 = 0x2_0000;
pub const RX_BUFFERS: u64 = 0x10_0000;
pub const TX_BUFFERS: u64 = 0x60_0000;
/// Distance between the rings, and between the buffers, of neighbouring queues.
pub const RING_BYTES: u64 = 0x400;
pub const QUEUE_BUFFERS: u64 = 0x2_0000;
pub const RX_BUFFER: u64 = 2048;
/// Descriptors per ring.
pub const RING: u64 = 32;

/// The NIC, its environment and the driver's state.
pub struct IgbBench {
    pub nic: Igb,
    pub world: World,
    rx_next: [u64; 16],
    tx_next: [u64; 16],
}

pub fn config() -> NicConfig {
    NicConfig { model: NicModel::E82576, ..NicConfig::default() }
}

impl IgbBench {
    pub fn new() -> IgbBench {
        IgbBench::with(config())
    }

    pub fn with(config: NicConfig) -> IgbBench {
        let nic = Igb::new(config, LINK_RATE, 0).unwrap();
        let mut bench = IgbBench { nic, world: World::new(), rx_next: [0; 16], tx_next: [0; 16] };
        bench.nic.power_on(Ps::ZERO, &mut bench.world);
        bench
    }

    /// A NIC with its link up, receiver and transmitter enabled, and `queues` queues in each direction with
    /// advanced descriptors.
    pub fn running(queues: u64) -> IgbBench {
        IgbBench::running_with(config(), queues)
    }

    pub fn running_with(config: NicConfig, queues: u64) -> IgbBench {
        let mut bench = IgbBench::with(config);
        bench.write(CTRL, 0x41);
        bench.run_for(Ps::from_us(50));
        for queue in 0..queues {
            bench.set_up_rx(queue, RING - 1);
            let at = 0xe000 + 0x40 * queue;
            bench.write(at, (TX_RING + RING_BYTES * queue) as u32);
            bench.write(at + 8, (RING * 16) as u32);
            bench.write(at + 0x28, 1 << 25);
        }
        bench.write(TCTL, 0x0a);
        bench.write(RCTL, 0x0400_8002);
        bench.read(ICR);
        bench.run_for(Ps::from_us(10));
        bench
    }

    /// Sets up a receive queue with its tail at `tail`.
    pub fn set_up_rx(&mut self, queue: u64, tail: u64) {
        for i in 0..RING {
            self.refill(queue, i);
        }
        let at = 0xc000 + 0x40 * queue;
        self.write(at + 0x28, 0);
        self.write(at, (RX_RING + RING_BYTES * queue) as u32);
        self.write(at + 8, (RING * 16) as u32);
        self.write(at + 0xc, ONE_BUFFER | 2);
        self.write(at + 0x18, tail as u32);
        self.write(at + 0x28, 1 << 25 | 1 << 16);
    }

    fn refill(&mut self, queue: u64, index: u64) {
        let buffer = RX_BUFFERS + QUEUE_BUFFERS * queue + RX_BUFFER * index;
        self.world.put_word(RX_RING + RING_BYTES * queue + 16 * index, buffer);
        // The header buffer is the last 256 bytes of the packet buffer.
        self.world.put_word(RX_RING + RING_BYTES * queue + 16 * index + 8, buffer + 1792);
    }

    pub fn read(&mut self, offset: u64) -> u32 {
        self.nic.mmio_read(self.world.now(), offset, AccessSize::B4, &mut self.world) as u32
    }

    pub fn write(&mut self, offset: u64, value: u32) {
        self.nic.mmio_write(self.world.now(), offset, AccessSize::B4, value.into(), &mut self.world);
    }

    pub fn put_bytes(&mut self, at: u64, bytes: &[u8]) {
        self.world.memory[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
    }

    /// Polls a queue with advanced descriptors: returns bytes and both words of each done descriptor, and
    /// refills the ring.
    pub fn poll(&mut self, queue: u64) -> Vec<(Vec<u8>, u64, u64)> {
        let mut frames = Vec::new();
        loop {
            let index = self.rx_next[queue as usize];
            let at = RX_RING + RING_BYTES * queue + 16 * index;
            let (first, second) = (self.world.word(at), self.world.word(at + 8));
            if second & 1 == 0 || second == RX_BUFFERS + QUEUE_BUFFERS * queue + RX_BUFFER * index + 1792 {
                return frames;
            }
            let buffer = (RX_BUFFERS + QUEUE_BUFFERS * queue + RX_BUFFER * index) as usize;
            let len = (second >> 32) as u16 as usize;
            frames.push((self.world.memory[buffer..buffer + len].to_vec(), first, second));
            self.refill(queue, index);
            self.rx_next[queue as usize] = (index + 1) % RING;
            self.write(0xc018 + 0x40 * queue, index as u32);
        }
    }

    /// Puts a descriptor into a transmit ring and writes the tail.
    pub fn put_tx(&mut self, queue: u64, first: u64, second: u64) {
        let index = self.tx_next[queue as usize];
        let at = TX_RING + RING_BYTES * queue + 16 * index;
        self.world.put_word(at, first);
        self.world.put_word(at + 8, second);
        self.tx_next[queue as usize] = (index + 1) % RING;
        self.write(0xe018 + 0x40 * queue, ((index + 1) % RING) as u32);
    }

    /// Sends one buffer with an advanced descriptor and these offload options.
    pub fn send(&mut self, queue: u64, bytes: &[u8], options: u64) {
        let buffer = TX_BUFFERS + 0x1_0000 * queue + 2048 * self.tx_next[queue as usize];
        self.put_bytes(buffer, bytes);
        let len = bytes.len() as u64;
        self.put_tx(queue, buffer, len | 3 << 20 | 0x2b << 24 | options << 40 | len << 46);
    }

    /// Status of a transmit descriptor.
    pub fn tx_status(&self, queue: u64, index: u64) -> u64 {
        self.world.word(TX_RING + RING_BYTES * queue + 16 * index + 8) >> 32
    }

    pub fn arrive(&mut self, bytes: &[u8]) {
        self.nic.frame_arrived(self.world.now(), Frame::new(bytes.to_vec()), &mut self.world);
    }

    pub fn step(&mut self) -> bool {
        let Some((now, event)) = self.world.queue.pop() else { return false };
        match event {
            Ev::Nic(event) => self.nic.wake(now, event, &mut self.world),
            Ev::Frame(frame) => self.nic.frame_arrived(now, frame, &mut self.world),
        }
        true
    }

    /// Handles all events of this duration and advances the time to its end.
    pub fn run_for(&mut self, duration: Ps) {
        let until = self.world.now() + duration;
        while self.world.queue.next_time() <= until {
            self.step();
        }
        if self.world.now() < until {
            let nothing = Ev::Nic(NOTHING);
            self.world.queue.schedule(until, Phase::Control, nothing);
            self.step();
        }
    }

    pub fn check(&self) {
        self.nic.check_conservation();
    }
}

/// Sum of the bytes as big-endian words.
pub fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum()
}

pub fn fold(mut total: u32) -> u32 {
    while total >> 16 != 0 {
        total = (total & 0xffff) + (total >> 16);
    }
    total
}

/// A TCP segment in a frame of `len` bytes to the default address, with correct checksums.
pub fn tcp(source: [u8; 4], destination: [u8; 4], from: u16, to: u16, len: usize) -> Vec<u8> {
    let mut bytes = vec![0x52, 0x54, 0x00, 0x12, 0x34, 0x56, 2, 0, 0, 0, 0, 9, 8, 0];
    bytes.extend([0x45, 0]);
    bytes.extend(((len - 14) as u16).to_be_bytes());
    bytes.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
    bytes.extend(source);
    bytes.extend(destination);
    bytes.extend(from.to_be_bytes());
    bytes.extend(to.to_be_bytes());
    bytes.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    bytes.resize(len, 0x5a);
    let ip = !(fold(sum(&bytes[14..34])) as u16);
    bytes[24..26].copy_from_slice(&ip.to_be_bytes());
    let total = sum(&bytes[34..]) + sum(&bytes[26..34]) + 6 + (len - 34) as u32;
    let checksum = !(fold(total) as u16);
    bytes[50..52].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

impl IgbBench {
    /// Copies another bench's environment and ring positions, but not its NIC.
    pub fn follow(&mut self, other: &IgbBench) {
        self.world = other.world.clone();
        (self.rx_next, self.tx_next) = (other.rx_next, other.tx_next);
    }
}
