//! The calendars against a ticking FR-FCFS controller, one command per clock, coded directly from the
//! standard's table.

use std::collections::VecDeque;

use doorbell_memory::dram::{Dram, DramConfig, DramStandard, DramTiming};
use doorbell_sim::rng::Rng;
use doorbell_sim::{Clock, PhysAddr, Ps};

const RANKS: u64 = 2;

#[derive(Clone, Copy)]
struct Request {
    clock: u64,
    line: u64,
    write: bool,
}

#[derive(Clone, Copy, Default)]
struct Bank {
    row: Option<u64>,
    activated: u64,
    precharged: u64,
    ready: u64,
}

#[derive(Clone, Copy)]
struct Location {
    rank: u64,
    group: u64,
    bank: usize,
    row: u64,
}

/// State of a ticking controller.
struct Ticking {
    t: DramTiming,
    banks: Vec<Bank>,
    /// Clock, rank and bank group.
    activations: VecDeque<(u64, u64, u64)>,
    /// Clock, whether it is a write, rank and bank group.
    columns: VecDeque<(u64, bool, u64, u64)>,
    reads: Vec<(Request, Location)>,
    writes: Vec<(Request, Location)>,
    draining: usize,
    latencies: u64,
    done: u64,
    /// The last read served, and the end of its data.
    served: Option<(Request, u64)>,
}

/// Fields from high to low: row, rank, bank, column, bank group.
fn place(t: &DramTiming, line: u64) -> Location {
    let group = line % t.bank_groups;
    let above = line / t.bank_groups / t.lines_per_row;
    let (bank, above) = (above % t.banks_per_group, above / t.banks_per_group);
    let rank = above % RANKS;
    let bank = (rank * t.bank_groups + group) * t.banks_per_group + bank;
    Location { rank, group, bank: bank as usize, row: above / RANKS }
}

impl Ticking {
    fn new(t: DramTiming) -> Ticking {
        let banks = (RANKS * t.bank_groups * t.banks_per_group) as usize;
        Ticking {
            banks: vec![Bank::default(); banks],
            activations: VecDeque::new(),
            columns: VecDeque::new(),
            reads: Vec::new(),
            writes: Vec::new(),
            draining: 0,
            latencies: 0,
            done: 0,
            served: None,
            t,
        }
    }

    fn refreshing(&self, rank: u64, clock: u64) -> bool {
        let first = self.t.refi / RANKS * (rank + 1);
        clock >= first && (clock - first) % self.t.refi < self.t.rp + self.t.rfc
    }

    fn column_is_legal(&self, clock: u64, write: bool, to: Location) -> bool {
        let t = &self.t;
        self.columns.iter().all(|&(at, wrote, rank, group)| {
            let near = rank == to.rank && group == to.group;
            let least = match (wrote, write) {
                (false, true) => t.cl + t.burst + t.turnaround - t.cwl,
                (true, false) if rank != to.rank => (t.cwl + t.burst + t.turnaround).saturating_sub(t.cl),
                (true, false) => t.cwl + t.burst + if near { t.wtr_l } else { t.wtr_s },
                _ if rank != to.rank => t.burst + t.turnaround,
                _ if near => t.ccd_l,
                _ => t.ccd_s,
            };
            clock >= at + least
        })
    }

    fn activation_is_legal(&self, clock: u64, to: Location) -> bool {
        let mine = || self.activations.iter().rev().filter(|a| a.1 == to.rank);
        let gap = |group| if group == to.group { self.t.rrd_l } else { self.t.rrd_s };
        let spaced = mine().take(4).all(|&(at, _, group)| clock >= at + gap(group));
        let window = mine().nth(3).is_none_or(|fourth| clock >= fourth.0 + self.t.faw);
        spaced && window && clock >= self.banks[to.bank].precharged + self.t.rp
    }

    /// Issues one command: the oldest legal column command, else a command for the oldest request that can
    /// progress.
    fn tick(&mut self, clock: u64) {
        for bank in 0..self.banks.len() {
            let rank = bank as u64 / (self.t.bank_groups * self.t.banks_per_group);
            if self.refreshing(rank, clock) {
                self.banks[bank] =
                    Bank { precharged: (clock + 1).saturating_sub(self.t.rp), ..Bank::default() };
            }
        }
        let idle = self.reads.is_empty() && self.writes.len() > 8;
        if self.draining == 0 && (self.writes.len() >= 32 || idle) {
            self.draining = self.writes.len();
        }
        let writing = self.draining > 0;
        let queue = if writing { &self.writes } else { &self.reads };
        let hit = queue.iter().position(|(_, to)| {
            let bank = &self.banks[to.bank];
            let open = bank.row == Some(to.row) && clock >= bank.activated + self.t.rcd;
            open && self.column_is_legal(clock, writing, *to)
        });
        if let Some(index) = hit {
            return self.column(clock, writing, index);
        }
        let step = queue.iter().map(|(_, to)| *to).find(|to| {
            let bank = &self.banks[to.bank];
            let has_hit = || queue.iter().any(|(_, o)| o.bank == to.bank && bank.row == Some(o.row));
            let legal = match bank.row {
                None => self.activation_is_legal(clock, *to),
                Some(_) => clock >= bank.ready && !has_hit(),
            };
            legal && !self.refreshing(to.rank, clock)
        });
        let Some(to) = step else { return };
        let bank = &mut self.banks[to.bank];
        if bank.row.take().is_some() {
            bank.precharged = clock;
        } else {
            *bank = Bank { row: Some(to.row), activated: clock, ready: clock + self.t.ras, ..*bank };
            self.activations.push_back((clock, to.rank, to.group));
            if self.activations.len() > 64 {
                self.activations.pop_front();
            }
        }
    }

    fn column(&mut self, clock: u64, writing: bool, index: usize) {
        let queue = if writing { &mut self.writes } else { &mut self.reads };
        let (request, to) = queue.remove(index);
        let data_end = self.t.burst + if writing { self.t.cwl } else { self.t.cl };
        let bank = &mut self.banks[to.bank];
        bank.ready = bank.ready.max(clock + if writing { data_end + self.t.wr } else { self.t.rtp });
        self.columns.push_back((clock, writing, to.rank, to.group));
        if self.columns.len() > 16 {
            self.columns.pop_front();
        }
        if writing {
            self.draining -= 1;
        } else {
            self.served = Some((request, clock + data_end));
            self.latencies += clock + data_end - request.clock;
            self.done += 1;
        }
    }
}

/// Mean clocks per read in the ticking controller.
fn ticked(t: &DramTiming, requests: &[Request]) -> u64 {
    let mut controller = Ticking::new(t.clone());
    let reads = requests.iter().filter(|request| !request.write).count() as u64;
    let (mut next, mut clock) = (0, 0);
    while controller.done < reads {
        while next < requests.len() && requests[next].clock <= clock {
            let request = requests[next];
            let queue = if request.write { &mut controller.writes } else { &mut controller.reads };
            queue.push((request, place(t, request.line)));
            next += 1;
        }
        controller.tick(clock);
        clock += 1;
    }
    controller.latencies / reads
}

/// The calendar controller, with the configuration of the ticking one.
fn calendars(standard: DramStandard) -> Dram {
    Dram::new(&DramConfig {
        standard,
        ranks: RANKS,
        request_latency: Ps::ZERO,
        response_latency: Ps::ZERO,
        mapping: "row rank bank column bank_group channel".to_owned(),
        bank_hash: false,
        read_queue: 256,
        write_queue: 64,
        write_high: 32,
        write_low: 0,
        write_idle: 8,
        ..DramConfig::default()
    })
}

/// Mean clocks per read with the calendars.
fn booked(standard: DramStandard, requests: &[Request]) -> u64 {
    let clock = Clock::new(standard.timing().clock);
    let mut dram = calendars(standard);
    let (mut sum, mut reads) = (0, 0);
    for request in requests {
        let (now, addr) = (clock.edge(request.clock), PhysAddr(request.line * 64));
        if request.write {
            dram.write(now, addr);
        } else {
            sum += clock.edge_at_or_before(dram.read(now, addr)) - request.clock;
            reads += 1;
        }
    }
    sum / reads
}

/// Access pattern.
#[derive(Clone, Copy, Debug)]
enum Pattern {
    Random,
    /// One sequential run over all bank groups.
    Stream,
    /// Runs of 4 KiB, eight interleaved, each in one row of one bank.
    Runs,
}

fn requests(pattern: Pattern, writes: bool, percent: u64, burst: u64) -> Vec<Request> {
    let mut rng = Rng::stream(percent, "against_fr_fcfs");
    let (mut clock, mut made) = (0, Vec::new());
    let mut runs = [(0, 0); 8];
    while made.len() < 12_000 {
        clock += 1;
        if rng.below(100 * burst) < percent {
            let line = match pattern {
                Pattern::Random => rng.below(1 << 27),
                Pattern::Stream => made.len() as u64,
                Pattern::Runs => {
                    let (bank, left) = &mut runs[rng.below(8) as usize];
                    if *left == 0 {
                        // Above the 7 column bits, which are above the 2 bank group bits.
                        (*bank, *left) = (rng.below(1 << 18) << 9 | rng.below(4), 64);
                    }
                    *left -= 1;
                    *bank + ((63 - *left) << 2)
                }
            };
            made.push(Request { clock, line, write: writes && rng.below(3) == 0 });
        }
    }
    made
}

/// Compares the latencies of both, at loads in percent of pin bandwidth, from idle to about 80 % of what the
/// pattern can reach.
fn compare(pattern: Pattern, writes: bool, loads: &[u64], percent_off_max: u64) {
    for standard in [DramStandard::Ddr4_2400, DramStandard::Ddr4_3200] {
        let t = standard.timing();
        for load in loads {
            let requests = requests(pattern, writes, *load, t.burst);
            let (theirs, ours) = (ticked(&t, &requests), booked(standard, &requests));
            println!("{standard:?} {pattern:?} writes {writes} {load} %: ticking {theirs} booked {ours}");
            let close = 100 * theirs.abs_diff(ours) <= percent_off_max * theirs;
            assert!(close, "{standard:?} at {load} %: ticking {theirs}, booked {ours}");
        }
    }
}

#[test]
fn latency_of_random_reads_matches_fr_fcfs() {
    compare(Pattern::Random, false, &[5, 30, 50, 65], 10);
}

#[test]
fn latency_of_a_read_stream_matches_fr_fcfs() {
    compare(Pattern::Stream, false, &[5, 30, 50, 75], 10);
}

#[test]
fn latency_of_random_reads_with_writes_matches_fr_fcfs() {
    compare(Pattern::Random, true, &[5, 20, 30], 10);
    // The ticking controller issues no reads and opens no rows for reads while it drains writes. The
    // calendars (and DRAMsim3, see docs/dram.md) do both where they fit.
    compare(Pattern::Random, true, &[45, 60], 25);
}

#[test]
fn latency_of_a_read_write_stream_matches_fr_fcfs() {
    compare(Pattern::Stream, true, &[5, 30, 50, 65], 10);
}

#[test]
fn latency_of_runs_through_rows_matches_fr_fcfs() {
    compare(Pattern::Runs, false, &[5, 30, 60, 70], 10);
    compare(Pattern::Runs, false, &[80], 15);
}

/// Reads in a closed loop. Each of `places` slots reads the next line of its stream [`AROUND`] clocks after
/// the data of its last read. One additional slot, the chain, reads random lines one after another.
struct Loop {
    places: usize,
    streams: u64,
    next: Vec<u64>,
    rng: Rng,
    /// For the streams and for the chain: the number of reads and the sum of their clocks.
    sums: [(u64, u64); 2],
}

/// Clocks from a read's data to the next request of its slot.
const AROUND: u64 = 60;
/// Clocks for which a loop runs.
const CLOSED_FOR: u64 = 100_000;

impl Loop {
    fn new(places: usize, streams: u64) -> Loop {
        let mut rng = Rng::stream(2, "closed loop");
        let next = (0..streams).map(|_| rng.below(1 << 20) << 7).collect();
        Loop { places, streams, next, rng: Rng::stream(1, "closed loop"), sums: [(0, 0); 2] }
    }

    fn line(&mut self, place: usize) -> u64 {
        if place == self.places {
            return self.rng.below(1 << 27);
        }
        let next = &mut self.next[place % self.streams as usize];
        *next += 1;
        *next
    }

    fn count(&mut self, place: usize, clocks: u64) {
        let (reads, sum) = &mut self.sums[usize::from(place == self.places)];
        (*reads, *sum) = (*reads + 1, *sum + clocks);
    }

    /// Mean clocks per read of the streams and of the chain, and bus utilization in thousandths.
    fn figures(&self, burst: u64) -> [u64; 3] {
        let [streams, chain] = self.sums;
        [streams.1 / streams.0, chain.1 / chain.0, (streams.0 + chain.0) * burst * 1000 / CLOSED_FOR]
    }
}

fn closed_ticking(standard: DramStandard, mut of: Loop) -> [u64; 3] {
    let t = standard.timing();
    let mut controller = Ticking::new(t.clone());
    let mut coming: Vec<(u64, usize)> = (0..=of.places).map(|place| (place as u64, place)).collect();
    let mut waiting = std::collections::BTreeMap::new();
    for clock in 0..CLOSED_FOR {
        while let Some(index) = coming.iter().position(|(at, _)| *at <= clock) {
            let place = coming.swap_remove(index).1;
            let line = of.line(place);
            waiting.insert(line, place);
            let request = Request { clock, line, write: false };
            controller.reads.push((request, self::place(&t, line)));
        }
        controller.tick(clock);
        if let Some((request, done)) = controller.served.take() {
            let place = waiting.remove(&request.line).expect("each line is read by one slot");
            of.count(place, done - request.clock);
            coming.push((done + AROUND, place));
        }
    }
    of.figures(t.burst)
}

fn closed_booked(standard: DramStandard, mut of: Loop) -> [u64; 3] {
    let t = standard.timing();
    let (clock, mut dram) = (Clock::new(t.clock), calendars(standard));
    let mut coming: std::collections::BTreeSet<(u64, usize)> =
        (0..=of.places).map(|place| (place as u64, place)).collect();
    while let Some((at, place)) = coming.pop_first().filter(|(at, _)| *at < CLOSED_FOR) {
        let done = clock.edge_at_or_before(dram.read(clock.edge(at), PhysAddr(of.line(place) * 64)));
        of.count(place, done - at);
        coming.insert((done + AROUND, place));
    }
    of.figures(t.burst)
}

#[test]
fn latency_of_a_chain_among_streams_matches_fr_fcfs_until_its_misses_starve() {
    let standard = DramStandard::Ddr4_2400;
    // With more slots, the ticking controller lets hits of eight streams pass the chain's misses for a long
    // time: 250 and 783 clocks with 48 and 64 lines.
    for (places, streams) in [(4, 4), (8, 8), (16, 8), (32, 8), (64, 17), (64, 32)] {
        let new = || Loop::new(places, streams);
        let (theirs, ours) = (closed_ticking(standard, new()), closed_booked(standard, new()));
        println!("{streams} streams, {places} lines: ticking {theirs:?}, booked {ours:?}");
        let close =
            theirs.iter().zip(&ours).all(|(theirs, ours)| 100 * theirs.abs_diff(*ours) <= 10 * theirs);
        assert!(close, "{streams} streams, {places} lines: ticking {theirs:?}, booked {ours:?}");
    }
}
