//! Saved chains.

use super::*;

fn traffic(bus: &mut Bus, from: u64) -> Vec<Ps> {
    let mut memory = memory(70);
    (from..from + 50)
        .flat_map(|step| {
            let (now, addr) = (ns(step * 90), PhysAddr(step * 100));
            let read = bus.register_read(now, 4);
            [
                bus.write(now, addr, 200, DATA, &mut memory),
                bus.read(now, addr, 300, DATA, &mut memory),
                bus.register_write(now, 8).arrives,
                bus.register_answer(read, 4),
            ]
        })
        .collect()
}

fn two_stages() -> [StageConfig; 2] {
    let wide = StageConfig { full_duplex: true, buffer: 3, outstanding: 2, ..stage() };
    [wide, StageConfig { split: false, address_cycles: 1, ..stage() }]
}

fn bytes(bus: &Bus) -> Vec<u8> {
    postcard::to_stdvec(bus).unwrap()
}

#[test]
fn a_restored_chain_continues_identically() {
    let mut bus = bus(&two_stages());
    traffic(&mut bus, 0);
    let mut copy = super::bus(&two_stages());
    copy.restore(postcard::from_bytes(&bytes(&bus)).unwrap()).unwrap();
    assert_eq!(traffic(&mut copy, 50), traffic(&mut bus, 50));
    assert_eq!(bytes(&copy), bytes(&bus));
}

#[test]
fn an_invalid_state_is_rejected_and_changes_nothing() {
    let mut whole = bus(&two_stages());
    traffic(&mut whole, 0);
    let state = whole.clone();
    let mut other = bus(&[stage()]);
    let before = bytes(&other);
    assert!(other.restore(state.clone()).unwrap_err().to_string().contains("number of stages"));
    assert_eq!(bytes(&other), before);
    // The saved number of reads in flight exceeds the limit of this chain.
    let [first, second] = two_stages();
    let mut narrow = bus(&[StageConfig { outstanding: 1, ..first }, second]);
    assert!(narrow.restore(state.clone()).is_err());
    let mut late = whole.clone();
    late.sent.writes_visible = Ps(u64::MAX / 2);
    assert!(whole.restore(late).unwrap_err().to_string().contains("out of range"));
    assert_eq!(bytes(&state), bytes(&whole));
}
