//! No sequence of guest accesses makes a device panic; after reset each register reads as in its table.

use doorbell_platform::{
    Aplic, Clint, DomainLevel, Plic, Rtc, RtcConfig, Syscon, Uart, aplic, clint, plic, rtc,
};
use doorbell_sim::{AccessSize, Ps};
use proptest::prelude::*;

fn size() -> impl Strategy<Value = AccessSize> {
    prop::sample::select(vec![AccessSize::B1, AccessSize::B2, AccessSize::B4, AccessSize::B8])
}

/// Mostly offsets near registers, sometimes any offset.
fn offset() -> impl Strategy<Value = u64> {
    let near = prop::sample::select(vec![
        0u64, 0x1000, 0x1bc0, 0x1c00, 0x1d00, 0x1e00, 0x1f00, 0x2000, 0x3000, 0x4000, 0xbff0, 0x20_0000,
        0x20_1000, 0x5f_fff0,
    ]);
    prop_oneof![
        4 => (near, 0u64..0x90).prop_map(|(start, more)| start + more),
        1 => any::<u64>(),
    ]
}

fn domain(value: u64) -> DomainLevel {
    if value & 1 == 0 { DomainLevel::Machine } else { DomainLevel::Supervisor }
}

proptest! {
    #[test]
    fn no_access_makes_a_device_panic(
        accesses in prop::collection::vec((any::<bool>(), offset(), size(), any::<u64>(), any::<u64>()), 1..100),
    ) {
        let mut clint = Clint::new(3);
        let mut plic = Plic::new(3);
        let mut aplic = Aplic::default();
        let mut rtc = Rtc::new(&RtcConfig::default());
        let mut uart = Uart::default();
        let mut syscon = Syscon::default();
        for (write, offset, size, value, time) in accesses {
            let now = Ps(time);
            if write {
                clint.write(offset, size, value, time);
                plic.set_level((value % 95) as u32 + 1, value & 0x80 != 0);
                plic.write(offset, size, value);
                aplic.set_level((value % 96) as u32 + 1, value & 0x80 != 0);
                aplic.write(domain(value), offset, size, value);
                rtc.write(offset, size, value, now);
                uart.write(offset, size, value);
                syscon.write(offset, size, value);
            } else {
                let values = [
                    clint.read(offset, size, time),
                    plic.read(offset, size),
                    aplic.read(domain(time), offset, size),
                    rtc.read(offset, size, now),
                    uart.read(offset, size),
                    syscon.read(offset, size),
                ];
                prop_assert!(values.iter().all(|value| value & !size.mask() == 0));
            }
            // An APLIC accepts every state that it can reach.
            let messages = std::iter::from_fn(|| aplic.take_message()).take(2 * 97 + 1).count();
            prop_assert!(messages <= 2 * 97);
            prop_assert!(Aplic::default().restore(aplic.clone()).is_ok());
            rtc.expire(now);
            prop_assert!(rtc.alarm_at(now).is_none_or(|at| at >= now));
            prop_assert!(clint.ticks_when_mtime_reaches(clint.mtimecmp(1), time) >= time);
        }
    }
}

#[test]
fn registers_read_their_reset_values() {
    let mut clint = Clint::new(clint::MAX_HARTS);
    for row in clint::REGISTERS {
        for offset in (0..row.count).map(|index| row.offset + index * row.stride) {
            let size = AccessSize::from_bytes(row.bytes).unwrap();
            assert_eq!(clint.read(offset, size, 0), row.reset, "{} at {offset:#x}", row.name);
        }
    }
    assert_eq!(clint.stats.undefined_accesses, 0);
    let mut plic = Plic::new(1);
    for row in plic::REGISTERS {
        assert_eq!(plic.read(row.offset, AccessSize::B4), row.reset, "{}", row.name);
    }
    let mut aplic = Aplic::default();
    for row in aplic::REGISTERS {
        for level in [DomainLevel::Machine, DomainLevel::Supervisor] {
            assert_eq!(aplic.read(level, row.offset, AccessSize::B4), row.reset, "{}", row.name);
        }
    }
    let mut rtc = Rtc::new(&RtcConfig { start_unix_seconds: 0 });
    for row in rtc::REGISTERS {
        assert_eq!(rtc.read(row.offset, AccessSize::B4, Ps::ZERO), row.reset, "{}", row.name);
    }
}
