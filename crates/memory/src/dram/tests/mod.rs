//! DRAM timing against closed forms of the standards' tables.

mod unbounded;

use super::*;
use doorbell_sim::Bytes;
use doorbell_sim::rng::Rng;
use doorbell_sim::stats::Stats as _;
use proptest::prelude::*;

const STANDARDS: [DramStandard; 4] =
    [DramStandard::Ddr4_2400, DramStandard::Ddr4_2666, DramStandard::Ddr4_3200, DramStandard::Ddr5_4800];

/// One rank, no refresh, no latency except the devices'; row, bank, bank group and column in this order.
fn bare(standard: DramStandard) -> DramConfig {
    DramConfig {
        standard,
        ranks: 1,
        request_latency: Ps::ZERO,
        response_latency: Ps::ZERO,
        mapping: "row rank bank bank_group column channel".to_owned(),
        bank_hash: false,
        channel_hash: false,
        refresh: false,
        ..DramConfig::default()
    }
}

struct Bench {
    dram: Dram,
    timing: DramTiming,
    clock: doorbell_sim::Clock,
}

impl Bench {
    fn new(config: &DramConfig) -> Bench {
        let timing = config.timing();
        Bench { dram: Dram::new(config), clock: doorbell_sim::Clock::new(timing.clock), timing }
    }

    fn addr(&self, row: u64, bank: u64, group: u64, column: u64) -> PhysAddr {
        let t = &self.timing;
        let line = ((row * t.banks_per_group + bank) * t.bank_groups + group) * t.lines_per_row + column;
        PhysAddr(line * LINE_BYTES)
    }

    /// Clocks from a read's arrival at clock `at` to the end of its data.
    fn read(&mut self, at: u64, addr: PhysAddr) -> u64 {
        let done = self.dram.read(self.clock.edge(at), addr);
        let edge = self.clock.edge_at_or_before(done);
        assert_eq!(self.clock.edge(edge), done, "data end on a clock edge, to the picosecond");
        edge - at
    }

    fn stats(&self) -> DramStats {
        self.dram.stats().next().unwrap()
    }
}

#[test]
fn closed_open_and_conflicting_rows_take_the_latencies_of_the_table() {
    for standard in STANDARDS {
        let mut bench = Bench::new(&bare(standard));
        let t = bench.timing.clone();
        let (first, again, other) = (bench.addr(1, 0, 0, 0), bench.addr(1, 0, 0, 9), bench.addr(2, 0, 0, 0));
        assert_eq!(bench.read(1000, first), t.rcd + t.cl + t.burst);
        assert_eq!(bench.read(2000, again), t.cl + t.burst);
        assert_eq!(bench.read(3000, other), t.rp + t.rcd + t.cl + t.burst);
        let stats = bench.stats();
        assert_eq!((stats.row_closed, stats.row_hits, stats.row_conflicts), (1, 1, 1));
    }
}

#[test]
fn ddr4_2400_in_picoseconds() {
    let config = DramConfig {
        request_latency: Ps::from_ns(5),
        response_latency: Ps::from_ns(7),
        ..bare(DramStandard::Ddr4_2400)
    };
    let mut dram = Dram::new(&config);
    // 5 ns are 6 clocks; then 38 clocks of 833⅓ ps.
    assert_eq!(dram.read(Ps::ZERO, PhysAddr(0)), Ps(44 * 2500 / 3 + 7000));
    assert_eq!(dram.config().bytes_per_second(), 19_200_000_000);
}

#[test]
fn a_row_is_not_closed_before_tras_and_trtp() {
    for standard in STANDARDS {
        // The activation of the other row waits for tRAS + tRP of the first, unless the request comes late
        // enough.
        let t = standard.timing();
        let free_from = t.ras.max(t.rcd + t.rtp);
        for (at, expected) in [(1, free_from - 1), (free_from - 1, 1), (free_from, 0), (free_from + 1, 0)] {
            let mut bench = Bench::new(&bare(standard));
            bench.read(0, bench.addr(1, 0, 0, 0));
            let latency = bench.read(at, bench.addr(2, 0, 0, 0));
            assert_eq!(latency, expected + t.rp + t.rcd + t.cl + t.burst, "{standard:?} at {at}");
        }
    }
}

#[test]
fn column_commands_keep_tccd_l_in_a_bank_group_and_tccd_s_between_groups() {
    for standard in STANDARDS {
        let t = standard.timing();
        for (group, gap) in [(0, t.ccd_l), (1, t.ccd_s)] {
            for (late, expected) in [(gap - 1, 1), (gap, 0)] {
                let mut bench = Bench::new(&bare(standard));
                bench.read(0, bench.addr(1, 0, 0, 0));
                bench.read(200, bench.addr(1, 0, 1, 0));
                bench.read(1000, bench.addr(1, 0, 0, 1));
                let latency = bench.read(1000 + late, bench.addr(1, 0, group, 2));
                assert_eq!(latency, expected + t.cl + t.burst, "{standard:?} group {group} {late} later");
            }
        }
    }
}

#[test]
fn activations_keep_trrd_and_tfaw() {
    for standard in STANDARDS {
        let t = standard.timing();
        let closed = t.rcd + t.cl + t.burst;
        for (group, gap) in [(0, t.rrd_l), (1, t.rrd_s)] {
            for (late, expected) in [(gap - 1, 1), (gap, 0)] {
                let mut bench = Bench::new(&bare(standard));
                bench.read(0, bench.addr(1, 0, 0, 0));
                let latency = bench.read(late, bench.addr(1, 1, group, 0));
                assert_eq!(latency, expected + closed, "{standard:?} group {group} {late} later");
            }
        }
        // Five rows: the fifth waits for the four-activate window. (Their column commands must leave the
        // command bus free then.)
        let spread = t.rrd_s + 1;
        for (late, expected) in [(t.faw - 1, 1), (t.faw, 0)] {
            if late < 4 * spread {
                continue; // DDR5's tRRD_S is a quarter of its tFAW.
            }
            let mut bench = Bench::new(&bare(standard));
            for (index, (bank, group)) in [(0, 0), (0, 1), (0, 2), (0, 3)].into_iter().enumerate() {
                bench.read(index as u64 * spread, bench.addr(1, bank, group, 0));
            }
            assert_eq!(bench.read(late, bench.addr(1, 1, 0, 0)), expected + closed, "{standard:?} {late}");
        }
    }
}

/// Clocks for `count` reads that all arrive at clock 0.
fn saturate(config: &DramConfig, count: u64, addr: impl Fn(&Bench, u64) -> PhysAddr) -> u64 {
    let mut bench = Bench::new(config);
    (0..count).map(|index| bench.read(0, addr(&bench, index))).max().unwrap()
}

#[test]
fn a_stream_over_bank_groups_reaches_pin_bandwidth_and_in_one_group_tccd_l_limits_it() {
    for standard in STANDARDS {
        let t = standard.timing();
        let count = 20_000;
        let config =
            DramConfig { mapping: "row rank bank column bank_group channel".to_owned(), ..bare(standard) };
        let clocks = saturate(&config, count, |_, index| PhysAddr(index * LINE_BYTES));
        assert!((count * t.burst..count * t.burst * 1005 / 1000).contains(&clocks), "{standard:?}: {clocks}");
        let one_row = saturate(&bare(standard), t.lines_per_row, |bench, index| bench.addr(0, 0, 0, index));
        assert_eq!(one_row, t.rcd + (t.lines_per_row - 1) * t.ccd_l + t.cl + t.burst);
    }
}

#[test]
fn row_misses_in_a_bank_take_trc_each_and_over_banks_four_per_tfaw() {
    for standard in STANDARDS {
        let t = standard.timing();
        let count = 5_000;
        let rows = saturate(&bare(standard), count, |bench, index| bench.addr(index + 1, 0, 0, 0));
        let cycle = t.ras + t.rp;
        assert_eq!(rows, (count - 1) * cycle + t.rcd + t.cl + t.burst, "{standard:?}");
        // New rows in all banks: as fast as tFAW, tRRD and the data bus allow.
        let banks = saturate(&bare(standard), count, |bench, index| {
            let groups = bench.timing.bank_groups;
            bench.addr(index / 16 + 1, index / groups % bench.timing.banks_per_group, index % groups, 0)
        });
        let every = t.faw.max(4 * t.burst).max(4 * t.rrd_s);
        let least = count * every / 4;
        // Precharges, activations and column commands share one command bus, which costs up to 4 % more.
        assert!((least..least * 104 / 100).contains(&banks), "{standard:?}: {banks} for {least}");
    }
}

#[test]
fn refresh_blocks_the_rank_and_reduces_bandwidth() {
    for standard in STANDARDS {
        let t = standard.timing();
        let config = DramConfig {
            refresh: true,
            mapping: "row rank bank column bank_group channel".to_owned(),
            ..bare(standard)
        };
        // Start and end of a refresh, with single reads.
        let blocked = t.rp + t.rfc;
        for (at, expected) in [
            (t.refi, blocked + t.rcd),
            (t.refi + blocked - 1, 1 + t.rcd),
            (t.refi + blocked, t.rcd),
            (7 * t.refi + 1, blocked - 1 + t.rcd),
        ] {
            let mut bench = Bench::new(&config);
            assert_eq!(bench.read(at, PhysAddr(0)), expected + t.cl + t.burst, "{standard:?} at {at}");
        }
        let count = 100_000;
        let clocks = saturate(&config, count, |_, index| PhysAddr(index * LINE_BYTES));
        let least = count * t.burst * t.refi / (t.refi - blocked);
        assert!((least..least * 102 / 100).contains(&clocks), "{standard:?}: {clocks} for {least}");
    }
}

#[test]
fn a_row_closes_as_the_page_policy_says() {
    let t = DramStandard::Ddr4_2400.timing();
    let after_one = |policy, late| {
        let config = DramConfig { page_policy: policy, ..bare(DramStandard::Ddr4_2400) };
        let mut bench = Bench::new(&config);
        bench.read(0, bench.addr(1, 0, 0, 0));
        bench.read(late, bench.addr(1, 0, 0, 1)) - t.cl - t.burst
    };
    assert_eq!(after_one(PagePolicy::Open, 5000), 0);
    assert_eq!(after_one(PagePolicy::Closed, t.ras), 0, "a request in time keeps the row");
    assert_eq!(after_one(PagePolicy::Closed, t.ras + 1), t.rp - 1 + t.rcd);
    assert_eq!(after_one(PagePolicy::Closed, 5000), t.rcd);
    // Adaptive: conflicts long after the last use make it close rows, repeated accesses to the closed row
    // make it keep them open.
    let config = DramConfig { page_policy: PagePolicy::Adaptive, ..bare(DramStandard::Ddr4_2400) };
    let mut bench = Bench::new(&config);
    let latencies: Vec<u64> =
        (1..=6).map(|row| bench.read(row * 2000, bench.addr(row, 0, 0, 0)) - t.cl - t.burst).collect();
    assert_eq!(latencies, [t.rcd, t.rp + t.rcd, t.rcd, t.rcd, t.rcd, t.rcd]);
    let mut kept = Vec::new();
    for again in 7..=12 {
        kept.push(bench.read(again * 2000, bench.addr(6, 0, 0, 1)) - t.cl - t.burst);
    }
    assert_eq!(kept, [t.rcd, 0, 0, 0, 0, 0]);
}

#[test]
fn an_early_request_timed_late_does_not_wait_for_later_ones() {
    let t = DramStandard::Ddr4_2400.timing();
    let closed = t.rcd + t.cl + t.burst;
    let mut bench = Bench::new(&bare(DramStandard::Ddr4_2400));
    bench.read(4000, bench.addr(1, 0, 0, 0));
    // Another row of the same bank fits before it if it can be precharged in time.
    assert_eq!(bench.read(1000, bench.addr(2, 0, 0, 0)), closed);
    let last = 4000 - t.rp - t.ras;
    let mut late = Bench::new(&bare(DramStandard::Ddr4_2400));
    late.read(4000, late.addr(1, 0, 0, 0));
    assert_eq!(late.read(last, late.addr(2, 0, 0, 0)), closed);
    let mut too_late = Bench::new(&bare(DramStandard::Ddr4_2400));
    too_late.read(4000, too_late.addr(1, 0, 0, 0));
    let latency = too_late.read(last + 1, too_late.addr(2, 0, 0, 0));
    assert_eq!(latency, 4000 - last - 1 + t.ras + t.rp + closed);
}

#[test]
fn writes_wait_until_the_high_mark_and_reads_are_forwarded() {
    let config = DramConfig {
        write_queue: 8,
        write_high: 4,
        write_low: 1,
        write_idle: 8,
        ..bare(DramStandard::Ddr4_2400)
    };
    let mut bench = Bench::new(&config);
    let line = |bench: &Bench, index| bench.addr(1, 0, 0, index);
    for index in 0..3 {
        assert_eq!(bench.dram.write(Ps::ZERO, line(&bench, index)), Ps::ZERO, "taken at once");
    }
    assert_eq!(bench.stats().bytes_written, 0);
    assert_eq!(bench.read(10, line(&bench, 2)), 1, "forwarded from the queue");
    bench.dram.write(Ps::ZERO, line(&bench, 2));
    assert_eq!((bench.stats().merged, bench.stats().forwarded), (1, 1));
    bench.dram.write(Ps::ZERO, line(&bench, 3));
    let stats = bench.stats();
    assert_eq!((stats.bytes_written, stats.drains_full), (3 * 64, 1));
    // Bus turnaround: the last write's data end, then tWTR_L, then a read.
    let t = bench.timing.clone();
    let last = t.rcd + 2 * t.ccd_l;
    let expected = last + t.cwl + t.burst + t.wtr_l + t.cl + t.burst;
    assert_eq!(bench.read(20, bench.addr(1, 0, 0, 9)), expected - 20);
}

#[test]
fn a_full_write_queue_accepts_a_write_when_an_entry_is_free() {
    let config = DramConfig {
        write_queue: 4,
        write_high: 4,
        write_low: 0,
        write_idle: 4,
        ..bare(DramStandard::Ddr4_2400)
    };
    let mut bench = Bench::new(&config);
    let t = bench.timing.clone();
    for index in 0..4 {
        assert_eq!(bench.dram.write(Ps::ZERO, bench.addr(1, 0, 0, index)), Ps::ZERO);
    }
    // Column commands at rcd, rcd + ccd_l, …: each frees an entry.
    for (index, column) in [(4, t.rcd), (5, t.rcd + t.ccd_l)] {
        let taken = bench.dram.write(Ps::ZERO, bench.addr(1, 0, 0, index));
        assert_eq!(taken, bench.clock.edge(column), "illegal until that clock, legal from it on");
    }
    assert_eq!(bench.stats().write_stall_clocks, 2 * t.rcd + t.ccd_l);
}

#[test]
fn an_idle_channel_drains_its_writes() {
    let config = DramConfig { write_idle: 1, ..bare(DramStandard::Ddr4_2400) };
    let mut bench = Bench::new(&config);
    bench.dram.write(Ps::ZERO, bench.addr(1, 0, 0, 0));
    bench.dram.write(Ps::ZERO, bench.addr(1, 0, 0, 1));
    bench.read(0, bench.addr(9, 1, 1, 0));
    assert_eq!(bench.stats().drains_idle, 0, "no time has passed");
    bench.read(1000, bench.addr(9, 1, 1, 1));
    assert_eq!((bench.stats().drains_idle, bench.stats().bytes_written), (1, 128));
}

#[test]
fn channels_share_the_load_and_add_up() {
    let one = DramConfig { refresh: false, ..DramConfig::default() };
    let four = DramConfig { channels: 4, ..one.clone() };
    let time = |config: &DramConfig| saturate(config, 40_000, |_, index| PhysAddr(index * LINE_BYTES));
    let (one_time, four_time) = (time(&one), time(&four));
    assert!((one_time * 98 / 400..one_time * 102 / 400).contains(&four_time), "{one_time} {four_time}");
    let mut dram = Dram::new(&four);
    for index in 0..4000 {
        dram.read(Ps::ZERO, PhysAddr(index * LINE_BYTES));
    }
    assert!(dram.stats().all(|channel| channel.reads == 1000 && channel.bytes_read == 64_000));
}

#[test]
fn parameters_are_read_and_checked() {
    let config: DramConfig = toml::from_str("standard = \"ddr4-3200\"\nchannels = 4").unwrap();
    assert_eq!((config.channels, config.validate()), (4, Ok(())));
    assert_eq!(config.bytes_per_second(), 4 * 25_600_000_000);
    assert!(toml::from_str::<DramConfig>("chanels = 4").is_err());
    for text in [
        "channels = 3",
        "ranks = 16",
        "row_idle = \"1ms\"",
        "request_latency = \"2us\"",
        "read_queue = 0",
        "write_high = 65",
        "write_low = 48",
        "mapping = \"row\"",
    ] {
        let problem = toml::from_str::<DramConfig>(text).unwrap().validate().unwrap_err();
        assert!(problem.starts_with(text.split(' ').next().unwrap()), "{problem}");
    }
    let mut own = DramConfig { timing: Some(DramStandard::Ddr4_2400.timing()), ..DramConfig::default() };
    assert_eq!(own.validate(), Ok(()));
    own.timing.as_mut().unwrap().rfc = 9000;
    assert!(own.validate().unwrap_err().starts_with("timing.refi"));
    let written = toml::to_string(&own).unwrap();
    assert_eq!(toml::from_str::<DramConfig>(&written).unwrap(), own);
    assert_eq!(Bytes(64).0, LINE_BYTES);
}

#[test]
fn a_damaged_state_is_rejected() {
    let mut dram = Dram::new(&DramConfig::default());
    for index in 0..100 {
        dram.write(Ps(index * 3000), PhysAddr(index * 4096));
        dram.read(Ps(index * 3000), PhysAddr(index * 8192));
    }
    let bytes = postcard::to_stdvec(&dram.save()).unwrap();
    let mut rng = Rng::stream(5, "damage");
    for _ in 0..2000 {
        let mut damaged = bytes.clone();
        let at = rng.below(damaged.len() as u64) as usize;
        damaged[at] ^= 1 << rng.below(8);
        let Ok(state) = postcard::from_bytes::<DramState>(&damaged) else { continue };
        let mut copy = Dram::new(&DramConfig::default());
        if copy.restore(&state).is_ok() {
            copy.read(Ps::from_us(1), PhysAddr(64));
            copy.write(Ps::from_us(1), PhysAddr(64));
        }
    }
    let two = DramConfig { channels: 2, ..DramConfig::default() };
    assert!(Dram::new(&two).restore(&dram.save()).is_err());
}

proptest! {
    #[test]
    fn requests_in_any_order_are_served_once_and_a_restored_controller_continues(
        requests in prop::collection::vec((any::<bool>(), 0u64..1 << 14, 0u64..3_000_000), 1..300),
        split in 0usize..300,
        policy in prop::sample::select(vec![PagePolicy::Open, PagePolicy::Closed, PagePolicy::Adaptive]),
    ) {
        let config = DramConfig { channels: 2, page_policy: policy, write_high: 20, write_low: 4, ..DramConfig::default() };
        let (mut dram, mut copy) = (Dram::new(&config), Dram::new(&config));
        let t = config.timing();
        let clock = doorbell_sim::Clock::new(t.clock);
        for (index, (write, line, now)) in requests.iter().enumerate() {
            if index == split {
                let bytes = postcard::to_stdvec(&dram.save()).unwrap();
                copy.restore(&postcard::from_bytes(&bytes).unwrap()).unwrap();
                prop_assert_eq!(copy.save(), dram.save());
            }
            let (now, addr) = (Ps(*now), PhysAddr(line * 64));
            let go = |dram: &mut Dram| if *write { dram.write(now, addr) } else { dram.read(now, addr) };
            let forwarded: u64 = dram.stats().map(|channel| channel.forwarded).sum();
            let done = go(&mut dram);
            if index >= split {
                prop_assert_eq!(go(&mut copy), done);
            }
            let hit = dram.stats().map(|channel| channel.forwarded).sum::<u64>() > forwarded;
            if !write && !hit {
                prop_assert!(done >= now + config.request_latency + clock.edge(t.cl + t.burst - 1));
            }
        }
        let sum = |of: fn(&DramStats) -> u64| dram.stats().map(|stats| of(&stats)).sum::<u64>();
        let commands = sum(|c| c.row_hits) + sum(|c| c.row_closed) + sum(|c| c.row_conflicts);
        prop_assert_eq!(sum(|c| c.bytes_read) / 64 + sum(|c| c.forwarded), sum(|c| c.reads));
        prop_assert_eq!((sum(|c| c.bytes_read) + sum(|c| c.bytes_written)) / 64, commands);
        let waiting: u64 = dram.queues.iter().map(|queue| queue.len() as u64).sum();
        prop_assert_eq!(sum(|c| c.bytes_written) / 64 + sum(|c| c.merged) + waiting, sum(|c| c.writes));
        prop_assert!(dram.stats().all(|channel| !channel.counters().is_empty()));
    }
}

#[test]
fn an_access_after_the_last_cycle_takes_only_the_two_latencies() {
    let config = DramConfig {
        request_latency: Ps::from_ns(7),
        response_latency: Ps::from_ns(5),
        ..bare(DramStandard::Ddr4_2400)
    };
    let mut bench = Bench::new(&config);
    let last = bench.clock.edge(LATEST.number());
    assert!(bench.dram.read(last - Ps::from_ns(7), PhysAddr(0)) > last + Ps::from_ns(5));
    assert_eq!(bench.dram.read(last, PhysAddr(0)), last + Ps::from_ns(12));
    assert_eq!(bench.dram.write(last, PhysAddr(0)), last + Ps::from_ns(7));
    assert_eq!(bench.stats().reads, 1);
}
