//! Configuration space compared with QEMU's e1000 on `virt`, register by register, through QEMU's test protocol.

use doorbell_pcie::{FunctionIdentity, HostBridge, HostBridgeConfig};
use doorbell_qtest::Qtest;
use doorbell_sim::AccessSize;
use doorbell_sim::rng::Rng;

const ECAM: u64 = 0x3000_0000;

fn qemu() -> Qtest {
    Qtest::start(&["-m", "64", "-device", "e1000,addr=1,romfile="])
}

#[test]
fn the_header_answers_as_qemus_to_twenty_thousand_random_accesses() {
    let mut qemu = qemu();
    // QEMU's e1000 has no capability list.
    let identity = FunctionIdentity { capabilities: Vec::new(), ..FunctionIdentity::intel_82540em() };
    let mut bridge = HostBridge::new(HostBridgeConfig::default(), vec![(1, identity)]).unwrap();
    let mut random = Rng::stream(1, "pcie.against_qemu");
    let sizes = [AccessSize::B1, AccessSize::B2, AccessSize::B4];
    for step in 0..20_000 {
        let size = sizes[random.below(3) as usize];
        // Bridge, NIC and an empty slot; the header, aligned.
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
fn extended_space_and_other_functions_and_buses_are_as_empty_as_qemus() {
    let mut qemu = qemu();
    let slots = vec![(1, FunctionIdentity::intel_82540em())];
    let mut bridge = HostBridge::new(HostBridgeConfig::default(), slots).unwrap();
    for offset in [0x100, 0xffc, 0x8100, 0x9000, 0xf000, 0x1_0000, 0xf_f000, 0x10_0000, 0x10_8000, 0xfff_fffc]
    {
        let theirs = qemu.read(ECAM + offset, AccessSize::B4);
        assert_eq!(bridge.config_read(offset, AccessSize::B4), theirs, "{offset:#x}");
    }
}
