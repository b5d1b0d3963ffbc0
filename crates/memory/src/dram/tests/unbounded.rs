//! Bookings far ahead: they delay no earlier access, and dropping old bookings changes no result.

use super::super::channel::Channel;
use super::super::mapping::Place;
use super::*;

fn channel(config: &DramConfig) -> Channel {
    let timing = config.timing();
    let row_idle = doorbell_sim::Clock::new(timing.clock).edge_at_or_after(config.row_idle);
    Channel::new(config, &timing, row_idle)
}

#[test]
fn a_row_with_a_hit_booked_far_ahead_is_closed_for_an_earlier_access() {
    for standard in STANDARDS {
        let config = bare(standard);
        let (mut channel, t) = (channel(&config), config.timing());
        let row = |row: u64| Place { row, bank: 0, group: 0 };
        let mut column =
            |from: u64, place: Place| channel.access(DramCycle::new(from), place, false).column.number();
        assert_eq!(column(1_000, row(1)), 1_000 + t.rcd);
        assert_eq!(column(50_000, row(1)), 50_000, "the row is still open");
        assert_eq!(column(20_000, row(2)), 20_000 + t.rp + t.rcd, "before the booked hit");
        assert_eq!(column(60_000, row(1)), 60_000, "reactivated for the hit");
        // Without time to close and reactivate it, the row stays open.
        let reopen = t.to_precharge(false) + t.rp + t.rcd;
        assert_eq!(column(60_000 + reopen - 1, row(1)), 60_000 + reopen - 1);
        assert!(column(60_001, row(3)) >= 60_000 + 2 * reopen - 1, "after the hit");
        assert_eq!(channel.stats.row_hits, 3);
    }
}

#[test]
fn hits_between_two_distant_hits_are_not_delayed() {
    let config = bare(DramStandard::Ddr4_2400);
    let (mut channel, t) = (channel(&config), config.timing());
    let place = Place { row: 1, bank: 0, group: 0 };
    channel.access(DramCycle::new(1_000), place, false);
    channel.access(DramCycle::new(9_000), place, false);
    let gap = t.to_precharge(false) + t.rp + t.rcd;
    for from in [5_000, 9_000 - t.rp - t.rcd, 9_000 - t.rcd, 8_900, 8_990, 2_000, 2_000 + gap] {
        let from = DramCycle::new(from);
        assert_eq!(channel.access(from, place, false).column, from);
    }
    assert_eq!(channel.stats.row_hits, 8);
}

#[test]
fn bytes_are_counted_in_the_window_in_which_the_bus_carries_them() {
    let mut bench = Bench::new(&bare(DramStandard::Ddr4_2400));
    let burst = bench.timing.burst;
    for line in 0..256 {
        // Later requests overtake others.
        bench.read(50_000 + (line * 37) % 64, bench.addr(1, 0, line % 4, line / 4));
    }
    let bytes = |clock: u64| bench.dram.stats_until(bench.clock.edge(clock)).next().unwrap();
    assert_eq!((bytes(50_000).bytes_read, bytes(50_000).busy_ps), (0, 0));
    let (mut moved, mut most) = (0, 0.0f64);
    for (clock, length) in (50_000..52_000).zip((1..8).cycle()) {
        let moment = |clock| (bench.clock.edge(clock), bytes(clock));
        let ((from, begin), (to, end)) = (moment(clock), moment(clock + length));
        let share = (end.busy_ps - begin.busy_ps) as f64 / (to - from).0 as f64;
        assert!(share <= 1.0, "utilization is at most 1, even in a window of a few clocks");
        most = most.max(share);
        moved += bytes(clock + 1).bytes_read - begin.bytes_read;
    }
    let burst = bench.clock.edge(256 * burst).0;
    assert!(most == 1.0 && moved == 256 * LINE_BYTES && bytes(52_000).busy_ps.abs_diff(burst) <= 256);
    assert_eq!(bench.stats().bytes_read, moved);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn dropping_old_bookings_does_not_change_results(
        closed in any::<bool>(),
        ops in proptest::collection::vec((0u64..400, 0u64..1_000, 0u64..40_000, 0u64..4, 0u8..4), 1..600),
    ) {
        let config = DramConfig {
            page_policy: if closed { PagePolicy::Adaptive } else { PagePolicy::Open },
            ..DramConfig::default()
        };
        // The reference channel never gets the current time, so it keeps all rows, calendars and debts.
        let (mut forgets, mut keeps, mut now) = (channel(&config), channel(&config), DramCycle::ZERO);
        for (later, near, far, row, bank) in ops {
            now += later;
            forgets.advance_to(now, now);
            let from = now + if later % 3 == 0 { far } else { near };
            let place = Place { row, bank: bank.into(), group: bank };
            let write = near % 4 == 0;
            prop_assert_eq!(forgets.access(from, place, write), keeps.access(from, place, write));
        }
        prop_assert_eq!(forgets.late(), 0);
    }
}
