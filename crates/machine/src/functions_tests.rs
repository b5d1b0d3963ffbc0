//! Tests of interrupt messages, with a device that starts a large DMA write and raises a vector at each store
//! to its BAR.

use doorbell_pcie::{BarKind, Capability, FunctionPorts, HeaderType, MsiX};
use doorbell_platform::map;

use super::*;
use crate::config::MachineConfig;
use crate::overlay::Overlay;
use crate::run::Limits;
use crate::timed::Mode;
use doorbell_sim::AccessSize::{B2, B4};
use doorbell_sim::ports::{DmaPurpose, DmaRequest};
use doorbell_sim::{AccessSize, PhysAddr};

const PLACE: u8 = 9;
const ECAM: u64 = (PLACE as u64) << 15;
const BAR: u64 = 0x4400_0000;
const PENDING: u64 = 0x10;
/// Target addresses of the device's data and of its vectors' messages.
const DATA: u64 = map::RAM_BASE + 0x1000;
const MESSAGE_AREA: u64 = map::RAM_BASE + 0x10_0000;
const DMA_BYTES: u32 = 64 << 10;

/// Test device: a store to its BAR starts a DMA write of `DMA_BYTES` and raises the vector in the stored
/// value.
struct Bell;

impl PciFunction for Bell {
    fn identity(&self) -> FunctionIdentity {
        let mut bars = [BarKind::None; 6];
        bars[0] = BarKind::Memory32 { bytes: 256, prefetchable: false };
        let msix = MsiX { offset: 0x40, vectors: 2, table: (0, 0x20), pending: (0, 0x10) };
        FunctionIdentity {
            vendor: 0xd00b,
            device: 0xbe11,
            revision: 0,
            class: 0x08_8000,
            subsystem_vendor: 0xd00b,
            subsystem: 0,
            bars,
            interrupt_pin: 1,
            min_grant_max_latency: [0; 2],
            capabilities: vec![Capability::MsiX(msix)],
            extended_space: false,
            header: HeaderType::Function,
        }
    }

    fn read(&mut self, _: Ps, _: u8, offset: u64, _: AccessSize, _: &mut dyn FunctionPorts) -> u64 {
        offset
    }

    fn write(&mut self, now: Ps, _: u8, _: u64, _: AccessSize, vector: u64, side: &mut dyn FunctionPorts) {
        let addr = PhysAddr(DATA);
        let request = DmaRequest::plain(addr, DMA_BYTES, DmaPurpose::Data, 0);
        let done = side.request_write(now, request);
        side.wake_at(done, vector);
        side.raise(now, vector as u16);
        side.set_irq(true);
    }

    fn wake(&mut self, _: Ps, vector: u64, side: &mut dyn FunctionPorts) {
        side.write(PhysAddr(DATA), &[vector as u8 + 1; DMA_BYTES as usize]);
    }

    fn reset(&mut self, _: Ps, side: &mut dyn FunctionPorts) {
        side.set_irq(false);
    }

    fn save(&self) -> Vec<u8> {
        Vec::new()
    }

    fn restore(&mut self, _: &[u8]) -> Result<(), SnapshotError> {
        Ok(())
    }
}

fn machine() -> Machine {
    machine_of(MachineConfig::default())
}

fn machine_of(config: MachineConfig) -> Machine {
    let functions: Vec<(Place, Box<dyn PciFunction>)> = vec![(Place::root(PLACE), Box::new(Bell))];
    Machine::with_functions(config, 1, functions).unwrap()
}

fn ready() -> Machine {
    enable_msix(machine())
}

/// Enables memory space, bus mastering and MSI-X, with messages 0xb0 and 0xb1.
fn enable_msix(mut machine: Machine) -> Machine {
    machine.config_write(ECAM + 0x10, B4, BAR);
    machine.config_write(ECAM + 4, B2, 6);
    machine.config_write(ECAM + 0x42, B2, 0x8000);
    for vector in 0..2 {
        let entry = BAR + 0x20 + 16 * vector;
        for (at, value) in [(0, MESSAGE_AREA + 4 * vector), (4, 0), (8, 0xb0 + vector), (12, 0)] {
            machine.device_write(Ps::ZERO, PhysAddr(entry + at), B4, value);
        }
    }
    machine
}

fn ring(machine: &mut Machine, vector: u64) {
    let now = machine.now();
    machine.device_write(now, PhysAddr(BAR), B4, vector);
}

fn word(machine: &Machine, addr: u64) -> u32 {
    let mut bytes = [0; 4];
    assert!(machine.ram.copy_out(PhysAddr(addr), &mut bytes));
    u32::from_le_bytes(bytes)
}

fn run(machine: &mut Machine, time: Ps) {
    machine.run(&Limits::until(time));
}

/// Times at which the last data byte and the message of vector 1 are in memory.
fn arrivals(machine: &mut Machine) -> (Ps, Ps) {
    let (mut bytes, mut message) = (None, None);
    while message.is_none() {
        machine.handle_next_event();
        let now = machine.queue.now();
        bytes = bytes.or((word(machine, DATA + u64::from(DMA_BYTES) - 4) != 0).then_some(now));
        message = (word(machine, MESSAGE_AREA + 4) == 0xb1).then_some(now);
    }
    (bytes.expect("the data arrive first"), message.unwrap())
}

#[test]
fn message_arrives_after_the_functions_earlier_writes() {
    let mut machine = ready();
    ring(&mut machine, 1);
    let (bytes, message) = arrivals(&mut machine);
    assert!(bytes > Ps::ZERO && message > bytes, "{bytes:?} {message:?}");
    assert!(machine.bridge.intx_levels().iter().all(|(_, level)| !level), "the pin stays low");
    // With MSI-X disabled, the interrupt uses the pin.
    machine.config_write(ECAM + 0x42, B2, 0);
    assert!(machine.bridge.intx_levels().iter().any(|(_, level)| *level));
    let before = machine.queue.events().count();
    ring(&mut machine, 0);
    assert_eq!(machine.queue.events().count(), before + 1, "only the data write");
}

#[test]
fn message_follows_data_on_each_attachment_and_across_mode_changes() {
    let stages = "[{width=\"8B\",clock=\"133MHz\",latency=\"10ns\",bridge_latency=\"50ns\"}]";
    for kind in ["pcie", "memory-bus", "llc", "bus"] {
        let mut overlay = Overlay::default();
        overlay.set("core.model=timed").unwrap();
        overlay.set(&format!("attach.kind={kind}")).unwrap();
        if kind == "bus" {
            overlay.set(&format!("attach.stages={stages}")).unwrap();
        }
        for (before, after) in [
            (Mode::Functional, Mode::Functional),
            (Mode::Functional, Mode::Detailed),
            (Mode::Warming, Mode::Warming),
            (Mode::Detailed, Mode::Detailed),
            (Mode::Detailed, Mode::Functional),
        ] {
            let mut machine = enable_msix(machine_of(overlay.resolve().unwrap()));
            machine.set_mode(before);
            ring(&mut machine, 1);
            machine.set_mode(after);
            let (bytes, message) = arrivals(&mut machine);
            assert!(bytes > Ps::ZERO && message > bytes, "{kind} {before:?}: {bytes:?} {message:?}");
        }
    }
}

#[test]
fn message_outside_ram_or_without_bus_mastering_is_counted_and_dropped() {
    let mut machine = ready();
    machine.device_write(Ps::ZERO, PhysAddr(BAR + 0x20), B4, 0x1000);
    ring(&mut machine, 0);
    run(&mut machine, Ps::from_ms(1));
    assert_eq!(*machine.functions()[1].dma_stats(), DmaStats { outside_ram: 1, not_bus_master: 0 });
    machine.config_write(ECAM + 4, B2, 2);
    ring(&mut machine, 1);
    let later = machine.now() + Ps::from_ms(1);
    run(&mut machine, later);
    assert_eq!(machine.functions()[1].dma_stats().not_bus_master, 2, "data and message");
    assert_eq!((word(&machine, MESSAGE_AREA), word(&machine, MESSAGE_AREA + 4)), (0, 0));
}

#[test]
fn checkpoint_keeps_vectors_and_messages_in_flight() {
    let mut first = ready();
    // Vector 0 is masked and pending, vector 1 in flight.
    first.device_write(Ps::ZERO, PhysAddr(BAR + 0x2c), B4, 1);
    ring(&mut first, 0);
    ring(&mut first, 1);
    let mut other = machine();
    other.restore(&first.checkpoint("guest", ""), "guest").unwrap();
    for machine in [&mut first, &mut other] {
        let (_, message) = arrivals(machine);
        let pending = machine.bridge.function(machine.function_id(1)).read_vectors(0, PENDING, B4);
        assert_eq!((pending, word(machine, MESSAGE_AREA)), (Some(1), 0));
        machine.device_write(message, PhysAddr(BAR + 0x2c), B4, 0);
        run(machine, message + Ps::from_ms(1));
        assert_eq!(word(machine, MESSAGE_AREA), 0xb0);
    }
    assert_eq!(first.state_hash(), other.state_hash());
    // A machine whose functions have no vectors rejects the checkpoint.
    assert!(
        Machine::new(MachineConfig::default(), 1)
            .unwrap()
            .restore(&first.checkpoint("guest", ""), "guest")
            .is_err()
    );
}

/// Address of hart 1's supervisor interrupt file, and identity of vector 1's message there.
const FILE: u64 = 0x2800_1000;
const IDENTITY: u64 = 5;
/// CSR with the highest-priority pending interrupt of the file.
const STOPEI: u16 = 0x15c;

fn two_harts(interrupts: &str) -> MachineConfig {
    let mut overlay = Overlay::default();
    for words in ["core.model=timed", "platform.harts=2", &format!("platform.interrupts={interrupts}")] {
        overlay.set(words).unwrap();
    }
    overlay.resolve().unwrap()
}

/// Directs vector 1's message to hart 1's interrupt file and enables its identity there.
fn with_files() -> Machine {
    let mut machine = enable_msix(machine_of(two_harts("aia")));
    for (at, value) in [(0, FILE), (8, IDENTITY)] {
        machine.device_write(Ps::ZERO, PhysAddr(BAR + 0x30 + at), B4, value);
    }
    for (csr, value) in [(0x150, 0xc0), (0x151, 1 << IDENTITY), (0x150, 0x70), (0x151, 1)] {
        assert!(machine.harts[1].set_csr(csr, value));
    }
    machine
}

fn top(machine: &Machine, hart: usize) -> u64 {
    machine.harts[hart].csr(STOPEI).unwrap() >> 16
}

#[test]
fn interrupt_file_message_arrives_after_the_data_and_bypasses_caches() {
    for mode in [Mode::Functional, Mode::Warming, Mode::Detailed] {
        let mut machine = with_files();
        machine.set_mode(mode);
        ring(&mut machine, 1);
        while top(&machine, 1) == 0 {
            assert_ne!(machine.queue.next_time(), Ps::MAX, "{mode:?}: the message arrives");
            machine.handle_next_event();
        }
        assert!(machine.queue.now() > Ps::ZERO);
        assert_eq!(
            word(&machine, DATA + u64::from(DMA_BYTES) - 4),
            0x0202_0202,
            "{mode:?}: the data have arrived"
        );
        assert_eq!((top(&machine, 0), top(&machine, 1)), (0, IDENTITY));
        let timing = machine.timing.as_ref().unwrap();
        let lines = if mode == Mode::Functional { 0 } else { u64::from(DMA_BYTES) / 64 };
        assert_eq!(timing.memory.device_account(1).lines_written, lines, "{mode:?}");
        assert_eq!(*machine.functions()[1].dma_stats(), DmaStats::default());
    }
}

#[test]
fn interrupt_file_message_needs_bus_mastering_and_an_existing_file() {
    let mut machine = with_files();
    machine.config_write(ECAM + 4, B2, 2);
    ring(&mut machine, 1);
    run(&mut machine, Ps::from_ms(1));
    assert_eq!(machine.functions()[1].dma_stats().not_bus_master, 2, "data and message");
    assert_eq!(top(&machine, 1), 0);
    // A file beyond the last hart's, and any file in a machine with a PLIC.
    for (interrupts, address) in [("aia", FILE + 0x1000), ("plic", FILE)] {
        let mut machine = enable_msix(machine_of(two_harts(interrupts)));
        machine.device_write(Ps::ZERO, PhysAddr(BAR + 0x30), B4, address);
        ring(&mut machine, 1);
        run(&mut machine, Ps::from_ms(1));
        assert_eq!(machine.functions()[1].dma_stats().outside_ram, 1, "{interrupts}");
    }
}

#[test]
fn checkpoint_keeps_interrupt_files_and_needs_the_same_interrupt_controller() {
    let mut first = with_files();
    first.harts[1].receive_message(doorbell_riscv::FileLevel::Supervisor, 9);
    ring(&mut first, 1);
    let saved = first.checkpoint("guest", "");
    let mut other = machine_of(two_harts("aia"));
    other.restore(&saved, "guest").unwrap();
    for machine in [&mut first, &mut other] {
        assert_eq!(top(machine, 1), 0, "identity 9 is not enabled");
        run(machine, Ps::from_ms(1));
        assert_eq!(top(machine, 1), IDENTITY);
        assert!(machine.harts[1].set_csr(0x150, 0x80));
        assert_eq!(machine.harts[1].csr(0x151), Some(1 << 9 | 1 << IDENTITY));
    }
    assert_eq!(first.state_hash(), other.state_hash());
    let plic = || machine_of(two_harts("plic"));
    for (mut machine, foreign) in
        [(plic(), &saved), (machine_of(two_harts("aia")), &plic().checkpoint("guest", ""))]
    {
        let error = machine.restore(foreign, "guest").unwrap_err().to_string();
        assert!(error.contains("another machine") && error.contains("interrupt controller"), "{error}");
    }
}

#[test]
fn default_interrupt_controller_is_omitted_from_the_configuration() {
    let written = |config: &MachineConfig| toml::to_string(config).unwrap();
    assert!(!written(&two_harts("plic")).contains("interrupts"));
    assert!(written(&two_harts("aia")).contains("interrupts = \"aia\""));
    assert_ne!(two_harts("plic").guest_hash(), two_harts("aia").guest_hash());
    let mut overlay = Overlay::default();
    let refused = overlay
        .set("platform.interrupts=msi")
        .err()
        .or_else(|| overlay.resolve::<MachineConfig>().err())
        .unwrap()
        .to_string();
    assert!(refused.contains("plic") && refused.contains("aia"), "{refused}");
}
