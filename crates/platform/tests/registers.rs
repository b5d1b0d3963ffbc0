//! The register tables.

use doorbell_platform::registers::Register;
use doorbell_platform::{aplic, clint, imsic, plic, rtc, syscon, virtio};

fn covers<R>(register: &Register<R>, at: u64) -> bool {
    let within = at >= register.offset && at < register.end();
    within && (at - register.offset) % register.stride < register.bytes
}

/// Names of two registers with a common byte.
fn overlap<R>(table: &[Register<R>]) -> Option<(&'static str, &'static str)> {
    for (index, one) in table.iter().enumerate() {
        for other in &table[index + 1..] {
            let starts = (0..other.count).map(|number| other.offset + number * other.stride);
            if starts.flat_map(|start| start..start + other.bytes).any(|at| covers(one, at)) {
                return Some((one.name, other.name));
            }
        }
    }
    None
}

#[test]
fn no_registers_overlap() {
    assert_eq!(overlap(&aplic::REGISTERS), None);
    assert_eq!(overlap(&clint::REGISTERS), None);
    assert_eq!(overlap(&imsic::REGISTERS), None);
    assert_eq!(overlap(&plic::REGISTERS), None);
    assert_eq!(overlap(&rtc::REGISTERS), None);
    assert_eq!(overlap(&syscon::REGISTERS), None);
    assert_eq!(overlap(&virtio::mmio::REGISTERS), None);
    let bad = [rtc::REGISTERS[0], Register { name: "bad", offset: 3, bytes: 1, ..rtc::REGISTERS[1] }];
    assert_eq!(overlap(&bad), Some(("TIME_LOW", "bad")));
}
