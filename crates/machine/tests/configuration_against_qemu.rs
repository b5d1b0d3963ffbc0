//! Configuration space of the machine's 82540EM compared with QEMU's e1000 on `virt`, register by register,
//! through QEMU's test protocol.

use doorbell_machine::{Machine, MachineConfig};
use doorbell_pcie::{FunctionIdentity, HostBridge, Place, Slot};
use doorbell_qtest::Qtest;
use doorbell_sim::AccessSize;
use doorbell_sim::rng::Rng;

const ECAM: u64 = 0x3000_0000;

fn qemu() -> Qtest {
    Qtest::start(&["-m", "64", "-device", "e1000,addr=1,romfile="])
}

fn model_nic() -> FunctionIdentity {
    Machine::new(MachineConfig::default(), 1).unwrap().functions()[0].identity()
}

/// The machine's NIC with the values in which QEMU's NIC differs: revision, subsystem, I/O ports one base
/// address register earlier than in the manual, no minimum grant and no capability list.
fn qemus_nic() -> FunctionIdentity {
    let own = model_nic();
    let mut bars = own.bars;
    bars.swap(1, 2);
    FunctionIdentity {
        revision: 3,
        subsystem_vendor: 0x1af4,
        subsystem: 0x1100,
        bars,
        min_grant_max_latency: [0; 2],
        capabilities: Vec::new(),
        ..own
    }
}

#[test]
fn nic_header_matches_qemu_in_random_accesses() {
    let mut qemu = qemu();
    let slots = vec![Slot { place: Place::root(1), identity: qemus_nic() }];
    let mut bridge = HostBridge::new(slots).unwrap();
    let mut random = Rng::stream(1, "pcie.against_qemu");
    let sizes = [AccessSize::B1, AccessSize::B2, AccessSize::B4];
    for step in 0..20_000 {
        let size = sizes[random.below(3) as usize];
        // An aligned header register of the host bridge, the NIC or an empty slot.
        let offset = (random.below(3) << 15) + random.below(64) / size.bytes() * size.bytes();
        if random.below(2) == 0 {
            let value = match random.below(4) {
                0 => u64::MAX,
                1 => 0,
                _ => random.next_u64(),
            };
            bridge.config_write(offset, size, value);
            qemu.write(ECAM + offset, size, value);
        }
        let (ours, theirs) = (bridge.config_read(offset, size), qemu.read(ECAM + offset, size));
        assert_eq!(ours, theirs, "step {step}, offset {offset:#x}, {size:?}");
    }
    assert!(bridge.stats.absent_functions > 1000);
}

#[test]
fn extended_space_and_absent_functions_match_qemu() {
    let mut qemu = qemu();
    let slots = vec![Slot { place: Place::root(1), identity: model_nic() }];
    let mut bridge = HostBridge::new(slots).unwrap();
    for offset in [0x100, 0xffc, 0x8100, 0x9000, 0xf000, 0x1_0000, 0xf_f000, 0x10_0000, 0x10_8000, 0xfff_fffc]
    {
        let theirs = qemu.read(ECAM + offset, AccessSize::B4);
        assert_eq!(bridge.config_read(offset, AccessSize::B4), theirs, "{offset:#x}");
    }
}

/// Registers of the bridge header in which QEMU's bridge differs: a capability list (status, pointer), the
/// class of a bridge with subtractive decoding, a writable latency timer of the secondary bus, and more of
/// the control register.
const QEMU_DIFFERENCES: [(u64, u64); 6] =
    [(0x06, 8), (0x09, 0x0a), (0x1b, 0x1c), (0x1e, 0x20), (0x34, 0x35), (0x3c, 0x40)];

#[test]
fn bridge_and_the_nic_behind_it_match_qemu_in_random_accesses() {
    let bus = "i82801b11-bridge,id=behind,addr=2";
    let mut qemu = Qtest::start(&["-m", "64", "-device", bus, "-device", "e1000,bus=behind,addr=3,romfile="]);
    let slots = vec![
        Slot { place: Place::root(2), identity: FunctionIdentity::pci_bridge() },
        Slot { place: Place { behind: Some(0), device: 3, function: 0 }, identity: qemus_nic() },
    ];
    let mut bridge = HostBridge::new(slots).unwrap();
    let mut random = Rng::stream(2, "pcie.against_qemu");
    let sizes = [AccessSize::B1, AccessSize::B2, AccessSize::B4];
    let mut reached = 0;
    for step in 0..20_000 {
        let size = sizes[random.below(3) as usize];
        let register = random.below(64) / size.bytes() * size.bytes();
        let is_bridge = random.below(2) == 0;
        if is_bridge
            && QEMU_DIFFERENCES.iter().any(|(from, to)| register < *to && *from < register + size.bytes())
        {
            continue;
        }
        // The bridge, or a bus with a small number, where the NIC may be.
        let place = if is_bridge { 2 << 15 } else { random.below(4) << 20 | 3 << 15 };
        if random.below(2) == 0 {
            // Small bus numbers often match the tree.
            let value = if random.below(2) == 0 { random.next_u64() } else { random.below(4) * 0x0001_0101 };
            bridge.config_write(place + register, size, value);
            qemu.write(ECAM + place + register, size, value);
        }
        let ours = bridge.config_read(place + register, size);
        assert_eq!(
            ours,
            qemu.read(ECAM + place + register, size),
            "step {step}, {place:#x} {register:#x} {size:?}"
        );
        reached += u64::from(!is_bridge && bridge.config_read(place, AccessSize::B4) == 0x100e_8086);
    }
    assert!(reached > 300, "the NIC was found {reached} times");
}
