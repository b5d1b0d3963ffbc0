//! Property tests: frames are accounted for under any sequence of accesses, and a saved NIC continues
//! identically.

use doorbell_nic::e82576::regs::TABLE;
use doorbell_pcie::PciFunction as _;
use doorbell_sim::{AccessSize, Ps};
use proptest::prelude::*;

use crate::igb::driver::*;

/// Random actions.
#[derive(Clone, Debug)]
enum Act {
    Write(usize, u32, u32),
    Read(usize, u32),
    Odd(u64, u64),
    Frame(u16, usize),
    Send(u64, usize),
    Poll(u64),
    Run(u64),
    Queue(u64, bool),
}

fn act() -> impl Strategy<Value = Act> {
    let row = 0..TABLE.len();
    let value = prop_oneof![any::<u32>(), 0u32..64, Just(0), Just(u32::MAX)];
    prop_oneof![
        2 => (row.clone(), any::<u32>(), value).prop_map(|(row, index, value)| Act::Write(row, index, value)),
        1 => (row, any::<u32>()).prop_map(|(row, index)| Act::Read(row, index)),
        1 => (0u64..0x2_0010, any::<u64>()).prop_map(|(at, value)| Act::Odd(at, value)),
        6 => (any::<u16>(), 64usize..1500).prop_map(|(port, len)| Act::Frame(port, len)),
        4 => (0u64..4, 60usize..1500).prop_map(|(queue, len)| Act::Send(queue, len)),
        3 => (0u64..4).prop_map(Act::Poll),
        4 => (1u64..3000).prop_map(Act::Run),
        1 => (0u64..4, any::<bool>()).prop_map(|(queue, on)| Act::Queue(queue, on)),
    ]
}

fn apply(bench: &mut IgbBench, act: &Act) {
    match *act {
        Act::Write(row, index, value) => {
            let register = TABLE[row];
            bench.write(u64::from(register.offset + index % register.count * register.stride), value);
        }
        Act::Read(row, index) => {
            let register = TABLE[row];
            bench.read(u64::from(register.offset + index % register.count * register.stride));
        }
        Act::Odd(at, value) => {
            let size = [AccessSize::B1, AccessSize::B2, AccessSize::B8][at as usize % 3];
            bench.nic.mmio_write(bench.world.now(), at, size, value, &mut bench.world);
        }
        Act::Frame(port, len) => bench.arrive(&tcp([10, 0, 0, 1], [10, 0, 0, 2], port, 80, len)),
        Act::Send(queue, len) => {
            bench.send(queue, &tcp([10, 0, 0, 1], [10, 0, 0, 2], 1, 2, len), len as u64 % 4);
        }
        Act::Poll(queue) => {
            bench.poll(queue);
        }
        Act::Run(nanoseconds) => bench.run_for(Ps::from_ns(nanoseconds)),
        Act::Queue(queue, on) => bench.write(0xc028 + 0x40 * queue, u32::from(on) << 25 | 1 << 16),
    }
}

/// Four queues with RSS, each with its own vector.
fn bench() -> IgbBench {
    let mut bench = IgbBench::running(4);
    for at in 0..32 {
        bench.write(RETA + 4 * at, 0x0302_0100);
    }
    for at in 0..10 {
        bench.write(RSSRK + 4 * at, 0x9e37_79b9u32.wrapping_mul(at as u32 + 1));
    }
    bench.write(MRQC, 2 | 1 << 16);
    bench.write(GPIE, 1 << 30 | 1 << 4 | 1);
    for queue in 0..4u32 {
        bench.write(IVAR + 4 * u64::from(queue), 0x8080 | queue << 8 | queue);
    }
    bench.write(EIMS, 0xf);
    bench
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn frames_are_accounted_for_under_random_accesses(acts in prop::collection::vec(act(), 1..60)) {
        let mut bench = bench();
        for act in &acts {
            apply(&mut bench, act);
            bench.check();
        }
        bench.run_for(Ps::from_us(200));
        bench.check();
    }

    #[test]
    fn a_restored_nic_continues_identically(
        before in prop::collection::vec(act(), 1..40),
        after in prop::collection::vec(act(), 1..20),
    ) {
        let mut one = bench();
        before.iter().for_each(|act| apply(&mut one, act));
        let state = one.nic.save();
        let mut other = IgbBench::new();
        other.nic.restore(&state).unwrap();
        prop_assert_eq!(other.nic.save(), state);
        other.follow(&one);
        for act in &after {
            apply(&mut one, act);
            apply(&mut other, act);
        }
        for bench in [&mut one, &mut other] {
            bench.run_for(Ps::from_us(100));
            bench.check();
        }
        prop_assert_eq!(one.nic.save(), other.nic.save());
        prop_assert_eq!(&one.world.sent, &other.world.sent);
        prop_assert_eq!(&one.world.raised, &other.world.raised);
    }

    #[test]
    fn a_damaged_state_is_rejected_or_harmless(
        before in prop::collection::vec(act(), 1..30),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        after in prop::collection::vec(act(), 1..20),
    ) {
        let mut one = bench();
        before.iter().for_each(|act| apply(&mut one, act));
        let mut bytes = postcard::to_stdvec(&one.nic.save()).unwrap();
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Ok(state) = postcard::from_bytes(&bytes) {
            let mut other = IgbBench::new();
            if other.nic.restore(state).is_ok() {
                other.follow(&one);
                after.iter().for_each(|act| apply(&mut other, act));
                other.run_for(Ps::from_us(100));
            }
        }
    }
}
