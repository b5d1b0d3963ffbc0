//! Speed of the NIC model itself: forwards frames of 64 bytes between a wire and a driver without cost, and
//! prints frames per second of host time.

use std::time::Instant;

use doorbell_nic::{Nic, NicConfig};
use doorbell_pcie::{NetworkFunction as _, PciFunction as _};
use doorbell_sim::ports::{DeliveryPort, DmaPort, DmaRequest, IrqPort, IrqSink, Timers, WirePort};
use doorbell_sim::{AccessSize, BitsPerSec, EventQueue, Frame, FrameObserver, Phase, PhysAddr, Ps};

const RING: u64 = 1024;
const RX_RING: u64 = 0x1_0000;
const TX_RING: u64 = 0x2_0000;
const BUFFERS: u64 = 0x10_0000;

struct World {
    memory: Vec<u8>,
    queue: EventQueue<u64>,
    sent: u64,
    wire_free: Ps,
    spare: Vec<Frame>,
}

impl World {
    fn word(&mut self, at: u64) -> &mut [u8; 8] {
        self.memory[at as usize..].first_chunk_mut().expect("within memory")
    }
}

impl DmaPort for World {
    fn request_read(&mut self, now: Ps, _: DmaRequest) -> Ps {
        now + Ps::from_ns(600)
    }
    fn request_write(&mut self, now: Ps, _: DmaRequest) -> Ps {
        now + Ps::from_ns(200)
    }
    fn read(&mut self, addr: PhysAddr, into: &mut [u8]) {
        into.copy_from_slice(&self.memory[addr.0 as usize..][..into.len()]);
    }
    fn write(&mut self, addr: PhysAddr, from: &[u8]) {
        self.memory[addr.0 as usize..][..from.len()].copy_from_slice(from);
    }
}

impl DeliveryPort for World {}

impl FrameObserver for World {}

impl IrqPort for World {
    fn set_irq(&mut self, _: bool) {}
}

impl IrqSink for World {
    fn raise(&mut self, _: Ps, _: u16) {}
    fn withdraw(&mut self, _: u16) {}
}

impl WirePort for World {
    fn send(&mut self, now: Ps, frame: Frame) -> Ps {
        self.sent += 1;
        self.spare.push(frame);
        self.wire_free = self.wire_free.max(now) + Ps(67_200);
        self.wire_free
    }
    fn free_at(&self) -> Ps {
        self.wire_free
    }
}

impl Timers<u64> for World {
    fn wake_at(&mut self, at: Ps, event: u64) {
        self.queue.schedule(at, Phase::Dma, event);
    }
}

/// Runs all events up to `until`.
fn run_until(nic: &mut Nic, world: &mut World, until: Ps) {
    while world.queue.next_time() <= until {
        let (at, event) = world.queue.pop().expect("an event is next");
        nic.wake(at, event, world);
    }
}

/// Forwards every received frame with one descriptor each; every 32nd descriptor has RS.
fn forward(nic: &mut Nic, world: &mut World, now: Ps, next: &mut u64) {
    let before = *next;
    loop {
        let slot = *next % RING;
        let second = u64::from_le_bytes(*world.word(RX_RING + 16 * slot + 8));
        if second >> 32 & 1 == 0 {
            break;
        }
        *world.word(RX_RING + 16 * slot + 8) = [0; 8];
        let report = if slot % 32 == 31 { 0x0b } else { 0x03 };
        let buffer = u64::from_le_bytes(*world.word(RX_RING + 16 * slot));
        *world.word(TX_RING + 16 * slot) = buffer.to_le_bytes();
        *world.word(TX_RING + 16 * slot + 8) = ((second & 0xffff) | report << 24).to_le_bytes();
        *next += 1;
    }
    if *next != before {
        nic.mmio_write(now, 0x3818, AccessSize::B4, *next % RING, world);
        nic.mmio_write(now, 0x2818, AccessSize::B4, (*next + RING - 1) % RING, world);
    }
}

fn main() {
    const FRAMES: u64 = 4_000_000;
    let mut nic = Nic::new(NicConfig::default(), BitsPerSec(1_000_000_000), 0)
        .expect("the default configuration is valid");
    let mut world = World {
        memory: vec![0; 8 << 20],
        queue: EventQueue::new(),
        sent: 0,
        wire_free: Ps::ZERO,
        spare: Vec::new(),
    };
    for slot in 0..RING {
        *world.word(RX_RING + 16 * slot) = (BUFFERS + 2048 * slot).to_le_bytes();
    }
    for (offset, value) in [
        (0x0000, 0x41),
        (0x2800, RX_RING),
        (0x2808, RING * 16),
        (0x2828, 0x0100_0000),
        (0x2818, RING - 1),
        (0x3800, TX_RING),
        (0x3808, RING * 16),
        (0x3828, 0x0100_0000),
        (0x0400, 0x0a),
        (0x0100, 0x0400_8002),
    ] {
        nic.mmio_write(Ps::ZERO, offset, AccessSize::B4, value, &mut world);
    }
    nic.power_on(Ps::ZERO, &mut world);
    run_until(&mut nic, &mut world, Ps::from_us(50));
    let mut bytes = vec![0xaau8; 60];
    bytes[..6].copy_from_slice(&nic.config().mac_of(0).0);
    let started = Instant::now();
    let (mut now, mut next) = (Ps::from_us(50), 0);
    for i in 0..FRAMES {
        now += Ps(70_000);
        run_until(&mut nic, &mut world, now);
        let frame = world.spare.pop().unwrap_or_else(|| Frame::new(bytes.clone()));
        nic.frame_arrived(now, frame, &mut world);
        if i % 16 == 0 {
            forward(&mut nic, &mut world, now, &mut next);
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{:.2} million frames per second forwarded, {} of {FRAMES} sent",
        world.sent as f64 / seconds / 1e6,
        world.sent
    );
    println!("dropped {}", nic.stats().rx_drop_dma + nic.stats().rx_drop_core + nic.stats().rx_drop_tx);
    nic.check_conservation();
}
