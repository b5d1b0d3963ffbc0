//! Event counters: what they count is what the owner tells, from when they were asked to, through inhibition, writes and a move to
//! another machine.

use doorbell_riscv::Privilege::Machine;
use doorbell_riscv::{EVENT_COUNTERS, EventCount, Hart, Stop};

use crate::asm::{csr, m5op};
use crate::bench::{Bench, CODE, config, csrs::MCOUNTINHIBIT};

const COUNTER: u16 = 0xb03;
const EVENT: u16 = 0x323;
const UNPRIVILEGED: u16 = 0xc03;
const CACHE_MISSES: u64 = 4;
const OURS: u64 = 0x123;

fn told(misses: u64, ours: u64) -> [EventCount; 2] {
    [(CACHE_MISSES, misses), (OURS, ours)]
}

/// `csrrw x10, number, x6` or, without a value, `csrr x10, number`, for which the owner says so much. Tells whether it was asked.
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
    let asked = stop == Stop::Events;
    if asked {
        assert_eq!((bench.hart.pc(), bench.hart.instructions()), (CODE, before), "nothing has retired");
        bench.hart.tell_events(events);
        stop = bench.run();
    }
    assert_eq!(
        (stop, bench.hart.instructions()),
        (Stop::M5Op { function: 0, args: [bench.hart.reg(10), 0] }, before + 2)
    );
    (bench.hart.reg(10), asked)
}

fn read(bench: &mut Bench, number: u16, events: &[EventCount]) -> u64 {
    access(bench, number, None, events).0
}

fn write(bench: &mut Bench, number: u16, value: u64, events: &[EventCount]) {
    access(bench, number, Some(value), events);
}

#[test]
fn a_counter_counts_its_event_from_when_it_was_named() {
    let mut bench = Bench::new();
    bench.hart.follow_events(&told(1_000, 5));
    write(&mut bench, COUNTER, 7, &told(1_010, 5));
    write(&mut bench, EVENT, CACHE_MISSES, &told(1_020, 5));
    assert_eq!(read(&mut bench, EVENT, &told(1_020, 5)), CACHE_MISSES);
    assert_eq!(read(&mut bench, COUNTER, &told(1_023, 50)), 10);
    assert_eq!(read(&mut bench, UNPRIVILEGED, &told(1_024, 50)), 11);
    // Another event goes on from there.
    write(&mut bench, EVENT, OURS, &told(1_030, 60));
    assert_eq!(read(&mut bench, COUNTER, &told(2_000, 61)), 18);
    // None, or one that is not known, stands still.
    for event in [0, 99] {
        write(&mut bench, EVENT, event, &told(2_000, 61));
        assert_eq!(read(&mut bench, COUNTER, &told(3_000, 90)), 18);
        write(&mut bench, EVENT, OURS, &told(3_000, 61));
    }
}

#[test]
fn an_inhibited_counter_keeps_its_value_and_the_others_go_on() {
    let mut bench = Bench::new();
    bench.hart.follow_events(&told(0, 0));
    write(&mut bench, EVENT, OURS, &told(0, 0));
    write(&mut bench, EVENT + 1, OURS, &told(0, 0));
    write(&mut bench, MCOUNTINHIBIT, 1 << 3, &told(0, 10));
    assert_eq!(read(&mut bench, COUNTER, &told(0, 30)), 10);
    assert_eq!(read(&mut bench, COUNTER + 1, &told(0, 30)), 30);
    write(&mut bench, COUNTER, 500, &told(0, 31));
    write(&mut bench, MCOUNTINHIBIT, 0, &told(0, 40));
    assert_eq!(read(&mut bench, COUNTER, &told(0, 44)), 504);
    assert_eq!(read(&mut bench, MCOUNTINHIBIT, &told(0, 44)), 0);
}

/// As firmware looks for them: sixteen keep what is written, the others read zero.
#[test]
fn there_are_as_many_as_can_be_written() {
    for told in [vec![], told(0, 0).to_vec()] {
        let mut bench = Bench::new();
        bench.hart.follow_events(&told);
        for number in COUNTER..0xb20 {
            let there = usize::from(number - COUNTER) < EVENT_COUNTERS;
            let asked = access(&mut bench, number, Some(u64::MAX - 4), &told).1;
            assert_eq!(asked, there && !told.is_empty(), "whoever tells of no events is not asked");
            assert_eq!(read(&mut bench, number, &told), if there { u64::MAX - 4 } else { 0 }, "{number:#x}");
        }
        write(&mut bench, MCOUNTINHIBIT, u64::MAX, &told);
        assert_eq!(read(&mut bench, MCOUNTINHIBIT, &told), 0xffff << 3 | 5);
    }
}

#[test]
fn a_guest_that_moves_to_another_machine_counts_on() {
    let mut bench = Bench::new();
    bench.hart.follow_events(&told(100, 0));
    write(&mut bench, EVENT, CACHE_MISSES, &told(200, 0));
    assert_eq!(read(&mut bench, COUNTER, &told(207, 0)), 7);
    let mut state = bench.hart.save(&bench.ram);
    state.tell_events(&told(210, 0));
    // Its models are new, and it tells of one event more.
    let mut other = Hart::new(config());
    other.restore(state, &bench.ram).unwrap();
    let more = |misses| [[(1, 77)].as_slice(), &told(misses, 9)].concat();
    other.follow_events(&more(3));
    bench.hart = other;
    assert_eq!(read(&mut bench, COUNTER, &more(3)), 10);
    assert_eq!(read(&mut bench, COUNTER, &more(8)), 15);
    // And one that tells of none leaves it where it is.
    let state = bench.hart.save(&bench.ram);
    bench.hart.restore(state, &bench.ram).unwrap();
    bench.hart.follow_events(&[]);
    let (value, asked) = access(&mut bench, COUNTER, None, &[]);
    assert_eq!((value, asked), (15, false));
}
