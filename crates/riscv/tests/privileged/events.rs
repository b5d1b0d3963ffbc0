//! Event counters: they count the events that the owner reports from the time they are selected, across
//! inhibition, writes and a move to another machine.

use doorbell_riscv::Privilege::Machine;
use doorbell_riscv::{EVENT_COUNTERS, EventCount, Hart, Stop};

use crate::asm::{csr, m5op};
use crate::bench::{Bench, CODE, config, csrs::MCOUNTINHIBIT};

const COUNTER: u16 = 0xb03;
const EVENT: u16 = 0x323;
const UNPRIVILEGED: u16 = 0xc03;
const CACHE_MISSES: u64 = 4;
const OURS: u64 = 0x123;

fn counts(misses: u64, ours: u64) -> [EventCount; 2] {
    [(CACHE_MISSES, misses), (OURS, ours)]
}

/// Executes `csrrw x10, number, x6` or, without a value, `csrr x10, number`, with the owner reporting
/// `events`. Returns the value, and whether the hart requested the events.
fn access(bench: &mut Bench, number: u16, value: Option<u64>, events: &[EventCount]) -> (u64, bool) {
    let word = match value {
        Some(_) => csr(1, 10, number.into(), 6),
        None => csr(2, 10, number.into(), 0),
    };
    bench.write(CODE, &[word, m5op(0)]);
    bench.go(Machine, CODE);
    bench.hart.set_reg(6, value.unwrap_or(0));
    let before = bench.hart.instructions();
    let mut stop = bench.run();
    let requested = stop == Stop::Events;
    if requested {
        assert_eq!((bench.hart.pc(), bench.hart.instructions()), (CODE, before), "no instruction retired");
        bench.hart.update_events(events);
        stop = bench.run();
    }
    assert_eq!(
        (stop, bench.hart.instructions()),
        (Stop::M5Op { function: 0, args: [bench.hart.reg(10), 0] }, before + 2)
    );
    (bench.hart.reg(10), requested)
}

fn read(bench: &mut Bench, number: u16, events: &[EventCount]) -> u64 {
    access(bench, number, None, events).0
}

fn write(bench: &mut Bench, number: u16, value: u64, events: &[EventCount]) {
    access(bench, number, Some(value), events);
}

#[test]
fn a_counter_counts_its_event_from_its_selection() {
    let mut bench = Bench::new();
    bench.hart.follow_events(&counts(1_000, 5));
    write(&mut bench, COUNTER, 7, &counts(1_010, 5));
    write(&mut bench, EVENT, CACHE_MISSES, &counts(1_020, 5));
    assert_eq!(read(&mut bench, EVENT, &counts(1_020, 5)), CACHE_MISSES);
    assert_eq!(read(&mut bench, COUNTER, &counts(1_023, 50)), 10);
    assert_eq!(read(&mut bench, UNPRIVILEGED, &counts(1_024, 50)), 11);
    // Another event continues from the current value.
    write(&mut bench, EVENT, OURS, &counts(1_030, 60));
    assert_eq!(read(&mut bench, COUNTER, &counts(2_000, 61)), 18);
    // No event, or an unknown one, leaves the value unchanged.
    for event in [0, 99] {
        write(&mut bench, EVENT, event, &counts(2_000, 61));
        assert_eq!(read(&mut bench, COUNTER, &counts(3_000, 90)), 18);
        write(&mut bench, EVENT, OURS, &counts(3_000, 61));
    }
}

#[test]
fn an_inhibited_counter_keeps_its_value_and_others_count() {
    let mut bench = Bench::new();
    bench.hart.follow_events(&counts(0, 0));
    write(&mut bench, EVENT, OURS, &counts(0, 0));
    write(&mut bench, EVENT + 1, OURS, &counts(0, 0));
    write(&mut bench, MCOUNTINHIBIT, 1 << 3, &counts(0, 10));
    assert_eq!(read(&mut bench, COUNTER, &counts(0, 30)), 10);
    assert_eq!(read(&mut bench, COUNTER + 1, &counts(0, 30)), 30);
    write(&mut bench, COUNTER, 500, &counts(0, 31));
    write(&mut bench, MCOUNTINHIBIT, 0, &counts(0, 40));
    assert_eq!(read(&mut bench, COUNTER, &counts(0, 44)), 504);
    assert_eq!(read(&mut bench, MCOUNTINHIBIT, &counts(0, 44)), 0);
}

/// Firmware probes the counters by writing them: sixteen keep the written value, the others read zero.
#[test]
fn sixteen_counters_are_writable() {
    for counts in [vec![], counts(0, 0).to_vec()] {
        let mut bench = Bench::new();
        bench.hart.follow_events(&counts);
        for number in COUNTER..0xb20 {
            let there = usize::from(number - COUNTER) < EVENT_COUNTERS;
            let requested = access(&mut bench, number, Some(u64::MAX - 4), &counts).1;
            assert_eq!(requested, there && !counts.is_empty(), "an owner without events gets no requests");
            assert_eq!(
                read(&mut bench, number, &counts),
                if there { u64::MAX - 4 } else { 0 },
                "{number:#x}"
            );
        }
        write(&mut bench, MCOUNTINHIBIT, u64::MAX, &counts);
        assert_eq!(read(&mut bench, MCOUNTINHIBIT, &counts), 0xffff << 3 | 5);
    }
}

#[test]
fn counters_continue_after_a_move_to_another_machine() {
    let mut bench = Bench::new();
    bench.hart.follow_events(&counts(100, 0));
    write(&mut bench, EVENT, CACHE_MISSES, &counts(200, 0));
    assert_eq!(read(&mut bench, COUNTER, &counts(207, 0)), 7);
    let mut state = bench.hart.save(&bench.ram);
    state.update_events(&counts(210, 0));
    // The new machine's counts start at zero, and it reports one more event.
    let mut other = Hart::new(config());
    other.restore(state, &bench.ram).unwrap();
    let more = |misses| [[(1, 77)].as_slice(), &counts(misses, 9)].concat();
    other.follow_events(&more(3));
    bench.hart = other;
    assert_eq!(read(&mut bench, COUNTER, &more(3)), 10);
    assert_eq!(read(&mut bench, COUNTER, &more(8)), 15);
    // An owner without events leaves the value unchanged.
    let state = bench.hart.save(&bench.ram);
    bench.hart.restore(state, &bench.ram).unwrap();
    bench.hart.follow_events(&[]);
    let (value, requested) = access(&mut bench, COUNTER, None, &[]);
    assert_eq!((value, requested), (15, false));
}
