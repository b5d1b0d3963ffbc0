//! Compares message signalled interrupts with those of QEMU's devices over the QTest protocol: the
//! capabilities' registers, MSI-X's table and pending bits, and the messages in memory when the device raises
//! a vector.

use std::ops::Range;

use doorbell_pcie::{
    BarKind, Capability, FunctionIdentity, HeaderType, HostBridge, Message, MsiX, Place, Slot,
};
use doorbell_qtest::Qtest;
use doorbell_sim::AccessSize::{B1, B2, B4};
use doorbell_sim::rng::Rng;

const ECAM: u64 = 0x3000_0000;
const DEVICE: u64 = 1 << 15;
const COMMAND: u64 = DEVICE + 4;
/// Addresses of the device's registers, of its vectors, and of the messages.
const BAR0: u64 = 0x4000_0000;
const BAR3: u64 = 0x4010_0000;
const RAM: u64 = 0x8000_0000;

/// QEMU's devices support messages only on a board with a controller for them.
fn qemu(device: &str) -> Qtest {
    let device = format!("{device},addr=1");
    Qtest::start(&["-machine", "aia=aplic-imsic", "-m", "64", "-device", &device])
}

fn ours(capabilities: Vec<Capability>) -> HostBridge {
    let mut bars = [BarKind::None; 6];
    bars[0] = BarKind::Memory32 { bytes: 128 << 10, prefetchable: false };
    bars[3] = BarKind::Memory32 { bytes: 16 << 10, prefetchable: false };
    let identity = FunctionIdentity {
        vendor: 0,
        device: 0,
        revision: 0,
        class: 0,
        subsystem_vendor: 0,
        subsystem: 0,
        bars,
        interrupt_pin: 1,
        min_grant_max_latency: [0; 2],
        capabilities,
        extended_space: true,
        header: HeaderType::Function,
    };
    let slots = vec![Slot { place: Place::root(1), identity }];
    HostBridge::new(slots).unwrap()
}

/// Random accesses to a capability, except its identifier and link, which depend on the device's other
/// capabilities. Allocating more than 2 to the power of `granted` messages breaks some of QEMU's devices.
fn registers_agree(device: &str, capability: Capability, granted: u64) {
    let mut qemu = qemu(device);
    let mut bridge = ours(vec![capability]);
    let first = u64::from(capability.offset());
    let registers: Range<u64> = first + 2..first + u64::from(capability.bytes());
    let mut random = Rng::stream(3, device);
    for step in 0..10_000 {
        let size = [B1, B2, B4][random.below(3) as usize];
        let register = first + random.below(capability.bytes().into()) / size.bytes() * size.bytes();
        if register < registers.start || register + size.bytes() > registers.end {
            continue;
        }
        let at = DEVICE + register;
        if random.below(2) == 0 {
            let value = if random.below(2) == 0 { random.next_u64() } else { 0 };
            if register == registers.start && value >> 4 & 7 > granted {
                continue;
            }
            bridge.config_write(at, size, value);
            qemu.write(ECAM + at, size, value);
        }
        let (own, theirs) = (bridge.config_read(at, size), qemu.read(ECAM + at, size));
        assert_eq!(own, theirs, "{device}, step {step}, {register:#x}, {size:?}");
    }
}

const IGB_MSIX: MsiX = MsiX { offset: 0x70, vectors: 10, table: (3, 0), pending: (3, 0x2000) };

#[test]
fn capabilities_match_qemu_for_ten_thousand_random_accesses_each() {
    let msi = |offset, messages, wide, masks| Capability::Msi { offset, messages, wide, masks };
    registers_agree("igb", msi(0x50, 1, true, true), 7);
    registers_agree("ioh3420,chassis=1", msi(0x60, 2, false, true), 1);
    registers_agree("qemu-xhci,msi=on,msix=off", msi(0x70, 16, true, false), 7);
    registers_agree("igb", Capability::MsiX(IGB_MSIX), 7);
}

/// Registers in the 82576 datasheet: to raise vectors, and to enable them.
const GPIE: u64 = 0x1514;
const EICS: u64 = 0x1520;
const EIMS: u64 = 0x1524;
const EIAC: u64 = 0x152c;
const MSIX_MODE: u64 = 1 << 4;

#[test]
fn masking_pending_bits_and_messages_match_qemu() {
    let mut qemu = qemu("igb");
    let mut bridge = ours(vec![Capability::MsiX(IGB_MSIX)]);
    let id = doorbell_pcie::FunctionId(0);
    for (register, size, value) in
        [(DEVICE + 0x10, B4, BAR0), (DEVICE + 0x1c, B4, BAR3), (COMMAND, B2, 6), (DEVICE + 0x72, B2, 0x8000)]
    {
        bridge.config_write(register, size, value);
        qemu.write(ECAM + register, size, value);
    }
    // Enables every vector, with auto-clear of its cause.
    for (register, value) in [(GPIE, MSIX_MODE), (EIMS, 0x3ff), (EIAC, 0x3ff)] {
        qemu.write(BAR0 + register, B4, value);
    }
    let mut random = Rng::stream(4, "pcie.messages_against_qemu");
    let (mut written, mut pending) = (0, 0);
    for step in 0..10_000 {
        let vector = random.below(10);
        let entry = 16 * vector;
        let mut sent: Vec<Message> = Vec::new();
        match random.below(8) {
            // Address (within a page of memory), upper address, data.
            0 => {
                for (at, value) in [(0, RAM + 4 * random.below(1024)), (4, 0), (8, random.next_u64())] {
                    assert!(bridge.function_mut(id).write_vectors(3, entry + at, B4, value));
                    qemu.write(BAR3 + entry + at, B4, value);
                }
            }
            1 | 2 => {
                let mask = random.below(2);
                assert!(bridge.function_mut(id).write_vectors(3, entry + 12, B4, mask));
                qemu.write(BAR3 + entry + 12, B4, mask);
            }
            3 => {
                let control = 0x8000 | random.below(2) << 14;
                bridge.config_write(DEVICE + 0x72, B2, control);
                qemu.write(ECAM + DEVICE + 0x72, B2, control);
            }
            _ => {
                sent.extend(bridge.function_mut(id).raise(vector as u16));
                qemu.write(BAR0 + EICS, B4, 1 << vector);
            }
        }
        sent.extend(std::iter::from_fn(|| bridge.function_mut(id).due_message()));
        // The last of several messages to one address is in memory.
        for message in sent.iter().filter(|message| message.address >= RAM) {
            let last = sent.iter().rfind(|other| other.address == message.address).unwrap();
            let there = qemu.peek(message.address, 4);
            assert_eq!(there, last.data.to_le_bytes(), "step {step}, {message:?}");
            qemu.poke(message.address, &[0x5a; 4]);
            written += 1;
        }
        let own = bridge.function(id).read_vectors(3, 0x2000, B4).unwrap();
        assert_eq!(own, qemu.read(BAR3 + 0x2000, B4), "step {step}: pending bits");
        let at = entry + 4 * random.below(4);
        let own = bridge.function(id).read_vectors(3, at, B4).unwrap();
        assert_eq!(own, qemu.read(BAR3 + at, B4), "step {step}: {at:#x} of the table");
        pending += u64::from(own != 0);
    }
    assert!(written > 500 && pending > 500, "{written} messages and {pending} non-zero table words");
}
