//! Loads and stores at each level: dependent chains and independent streams.

use doorbell_assembler::*;
use doorbell_core::CoreKind;
use doorbell_machine::MachineConfig;

use super::closed::{self, LoadSource};
use super::program::{DATA, shuffled};
use super::{CORES, Measured, Program, Row, machine, measure};

/// Accesses per iteration of a chain and of a stream.
const CHAIN: u64 = 8;
const STREAM: u64 = 32;

/// Pointer chase: each load's address is the previous load's data. `lines` is the order in which lines are
/// visited.
pub(super) fn chain(lines: &[u64]) -> Program {
    let first = DATA + 64 * lines[0];
    let body = |a: &mut Assembler| (0..CHAIN).for_each(|_| a.ld(A0, A0, 0));
    Program::new(|a| a.li(A0, first), body).with_chain(DATA, DATA, 64, lines)
}

/// Measures a chain. `again` adds a first pass over all lines, so that the measured loads find them cached.
fn chase(config: &MachineConfig, lines: &[u64], again: bool) -> Measured {
    let round = lines.len() as u64 / CHAIN;
    measure(config, &chain(lines), if again { round + 100 } else { 100 }, round.min(1_000))
}

/// Chains of loads in random order, over memory that fits into one level: address cycle plus the latencies of
/// the levels.
pub fn dependent_loads() -> Vec<Row> {
    let mut rows = Vec::new();
    for core in CORES {
        let config = machine(core, &[]);
        let sizes = [
            ("16 KiB", 16, LoadSource::L1, "address + L1"),
            ("128 KiB", 128, LoadSource::L2, "address + L1 + L2"),
            ("512 KiB", 512, LoadSource::L2, "address + L1 + L2"),
            ("2 MiB", 2048, LoadSource::Llc, "address + L1 + L2 + interconnect + LLC + interconnect"),
            ("3 MiB", 3072, LoadSource::Llc, "address + L1 + L2 + interconnect + LLC + interconnect"),
        ];
        for (name, kib, from, form) in sizes {
            let measured = chase(&config, &shuffled(kib * 16), true);
            let expected = closed::chase(&config, from);
            rows.push(Row {
                what: format!("dependent loads, {name}, random order"),
                core,
                unit: "cycles per load",
                form: form.to_owned(),
                expected: (expected, expected),
                measured: measured.each(CHAIN),
            });
        }
        rows.extend(loads_from_memory(core));
    }
    rows
}

/// Chains over lines in DRAM. The expected latency is the average over the measured row hits, closed rows and
/// conflicts.
fn loads_from_memory(core: CoreKind) -> Vec<Row> {
    let aligned = "core 2.4 GHz, interconnect 1.2 GHz, no refresh";
    let still = ["memory.dram.refresh=false"];
    let even = [still[0], "core.frequency=2.4GHz", "memory.interconnect.clock=1.2GHz"];
    let row = |what: &str, how: &str, config: &MachineConfig, lines: &[u64], slack: f64| {
        let delay = refresh_delay(config);
        let measured = chase(config, lines, false);
        let count = |of: fn(&doorbell_memory::dram::DramStats) -> u64| {
            measured.dram.iter().map(of).sum::<u64>() as f64
        };
        let kinds = [
            (LoadSource::RowHit, count(|dram| dram.row_hits)),
            (LoadSource::RowClosed, count(|dram| dram.row_closed)),
            (LoadSource::RowConflict, count(|dram| dram.row_conflicts)),
        ];
        let all: f64 = kinds.iter().map(|kind| kind.1).sum();
        let sum: f64 = kinds.iter().map(|(from, n)| n * closed::chase(config, *from)).sum();
        let share = |kind: usize| (100.0 * kinds[kind].1 / all).round();
        Row {
            what: format!("dependent loads, {what}; {how}"),
            core,
            unit: "cycles per load",
            form: format!(
                "LLC latency + controller + CL + burst [+ tRCD] [+ tRP]: {} % row hits, {} % closed, {} % conflicts",
                share(0),
                share(1),
                share(2)
            ),
            expected: (delay(sum / all) - slack, delay(sum / all) + slack),
            measured: measured.each(CHAIN),
        }
    };
    let in_order: Vec<u64> = (0..8 * 16_384).collect();
    let (eight, sixty_four) = (shuffled(8 * 16_384), shuffled(64 * 16_384));
    // With unaligned clocks, the waits at clock crossings depend on the mix of row hits and misses: 1.5
    // cycles of slack.
    vec![
        row("8 MiB, in address order", aligned, &machine(core, &even), &in_order, 0.0),
        row("8 MiB, random order", aligned, &machine(core, &even), &eight, 0.0),
        row("64 MiB, random order", aligned, &machine(core, &even), &sixty_four, 0.0),
        row("8 MiB, in address order", "no refresh", &machine(core, &still), &in_order, 1.5),
        row("64 MiB, random order", "no refresh", &machine(core, &still), &sixty_four, 1.5),
        // The alignment of loads with refreshes is random: 1.5 % of slack.
        row("64 MiB, random order", "with refresh", &machine(core, &[]), &sixty_four, 3.3),
    ]
}

/// Returns a function from a chain's cycles per load without refresh to those with refresh.
///
/// Each rank, in all channels at once, is refreshed once per tREFI. The chain's first load to it waits for
/// the end of the refresh.
fn refresh_delay(config: &MachineConfig) -> impl Fn(f64) -> f64 {
    let (dram, core) = (&config.memory.dram, config.core.frequency.0 as f64);
    let t = dram.timing();
    let ranks = dram.ranks as f64;
    let cycles = core / t.clock.0 as f64;
    let (length, interval) = ((t.rp + t.rfc) as f64 * cycles, t.refi as f64 * cycles);
    let refresh = dram.refresh;
    move |load: f64| {
        if !refresh {
            return load;
        }
        let mut delay = 0.0;
        let mut first = 1.0 / ranks;
        let mut left = length - load / 2.0;
        while left > 0.0 {
            delay += first * left;
            first *= 1.0 - 1.0 / ranks;
            left -= load;
        }
        load / (1.0 - ranks * delay / interval)
    }
}

/// Repeated passes of independent accesses over `bytes` of memory, `stride` bytes apart.
pub(super) fn stream(bytes: u64, stride: u64, store: bool) -> Program {
    assert!(bytes.is_power_of_two() && STREAM * stride <= 2048);
    let setup = |a: &mut Assembler| {
        a.li(S0, DATA);
        a.li(S2, bytes - 1);
        a.li(S3, 0);
        a.li(S4, STREAM * stride);
        a.mv(S1, S0);
    };
    let body = |a: &mut Assembler| {
        for n in 0..STREAM {
            let offset = (n * stride) as i32;
            match store {
                true => a.sd(ZERO, S1, offset),
                // The destination is x0, so that loads do not depend on each other.
                false => a.ld(ZERO, S1, offset),
            }
            // Compute the next iteration's address early, so that an in-order core does not stall on it.
            match n {
                8 => a.add(S3, S3, S4),
                16 => a.and(S3, S3, S2),
                24 => a.add(S5, S0, S3),
                _ => {}
            }
        }
        a.mv(S1, S5);
    };
    Program::new(setup, body)
}

struct Stream {
    what: &'static str,
    form: &'static str,
    kib: u64,
    stride: u64,
    store: bool,
    set: &'static [&'static str],
    /// Minimum and maximum lines or words per cycle.
    expected: fn(&MachineConfig) -> (f64, f64),
}

/// Core resources and MSHRs so large that only cache ports, links and DRAM limit the bandwidth.
const WIDE: &[&str] = &[
    "pipeline.rob=1024",
    "pipeline.iq=1024",
    "pipeline.lq=512",
    "pipeline.int_registers=1024",
    "memory.l1d.mshrs=256",
    "memory.l2.mshrs=256",
    "memory.llc.mshrs=256",
];
const WIDE_LINK: &[&str] = &[
    WIDE[0],
    WIDE[1],
    WIDE[2],
    WIDE[3],
    WIDE[4],
    WIDE[5],
    WIDE[6],
    "memory.interconnect.bytes_per_cycle=128",
];
const ONE_CHANNEL: &[&str] = &[
    WIDE[0],
    WIDE[1],
    WIDE[2],
    WIDE[3],
    WIDE[4],
    WIDE[5],
    WIDE[6],
    "memory.dram.channels=1",
    "memory.dram.refresh=false",
];

/// Lines per cycle by Little's law.
fn little(config: &MachineConfig, from: LoadSource) -> (f64, f64) {
    let registers = f64::from(config.memory.l1d.mshrs);
    let (least, most) = closed::l1_mshr_cycles(config, from);
    (registers / most, registers / least)
}

fn within(value: f64, least: f64) -> (f64, f64) {
    (value * least, value)
}

const STREAMS: &[Stream] = &[
    Stream {
        what: "independent loads of words, 16 KiB",
        form: "load ports",
        kib: 16,
        stride: 8,
        store: false,
        set: &[],
        expected: |c| (f64::from(c.pipeline.units.load_ports), f64::from(c.pipeline.units.load_ports)),
    },
    Stream {
        what: "independent loads of lines, 512 KiB",
        form: "L1 MSHRs / L2 latency",
        kib: 512,
        stride: 64,
        store: false,
        set: &[],
        expected: |c| within(little(c, LoadSource::L2).1, 0.999),
    },
    Stream {
        what: "independent loads of lines, 2 MiB",
        form: "L1 MSHRs / (L2 + interconnect + LLC)",
        kib: 2048,
        stride: 64,
        store: false,
        set: &[],
        expected: |c| little(c, LoadSource::Llc),
    },
    Stream {
        what: "independent loads of lines, 64 MiB; no refresh",
        form: "L1 MSHRs / latency of row hits; every 128th access of a bank opens a row",
        kib: 65_536,
        stride: 64,
        store: false,
        set: &["memory.dram.refresh=false"],
        expected: |c| {
            let (least, most) = little(c, LoadSource::RowHit);
            (least * 0.96, most)
        },
    },
    Stream {
        what: "independent loads of lines, 512 KiB; 256 MSHRs, LQ 512",
        form: "L2 ports",
        kib: 512,
        stride: 64,
        store: false,
        set: WIDE,
        expected: |c| within(f64::from(c.memory.l2.ports), 0.97),
    },
    Stream {
        what: "independent loads of lines, 2 MiB; 256 MSHRs, LQ 512",
        form: "interconnect bytes per cycle",
        kib: 2048,
        stride: 64,
        store: false,
        set: WIDE,
        expected: |c| {
            let ic = &c.memory.interconnect;
            let bytes = f64::from(ic.bytes_per_cycle) * ic.clock.0 as f64 / c.core.frequency.0 as f64;
            within(bytes / 64.0, 0.97)
        },
    },
    Stream {
        what: "independent loads of lines, 64 MiB; 256 MSHRs, LQ 512, link of 128 B per cycle",
        form: "pin bandwidth of four channels",
        kib: 65_536,
        stride: 64,
        store: false,
        set: WIDE_LINK,
        expected: |c| {
            let bytes = c.memory.dram.bytes_per_second() as f64 / c.core.frequency.0 as f64;
            within(bytes / 64.0, 0.9)
        },
    },
    Stream {
        what: "independent loads of lines, 64 MiB; one channel, no refresh",
        form: "pin bandwidth of one channel",
        kib: 65_536,
        stride: 64,
        store: false,
        set: ONE_CHANNEL,
        expected: |c| {
            let bytes = c.memory.dram.bytes_per_second() as f64 / c.core.frequency.0 as f64;
            within(bytes / 64.0, 0.97)
        },
    },
    Stream {
        what: "stores of words, 16 KiB",
        form: "drain width",
        kib: 16,
        stride: 8,
        store: true,
        set: &[],
        expected: |c| (f64::from(c.pipeline.drain_width), f64::from(c.pipeline.drain_width)),
    },
    Stream {
        what: "stores to lines, 512 KiB",
        form: "drains in flight / (L1 + L2 [+ up to 2: write-backs use the L2 port too])",
        kib: 512,
        stride: 64,
        store: true,
        set: &[],
        expected: |c| {
            let latency = f64::from(c.memory.l1d.latency + c.memory.l2.latency);
            within(f64::from(c.pipeline.drains_in_flight) / latency, latency / (latency + 2.0))
        },
    },
];

/// Streams: limited by the bandwidth of the narrowest component, or by the MSHRs as Little's law predicts.
pub fn independent_accesses() -> Vec<Row> {
    let mut rows = Vec::new();
    for core in CORES {
        for of in STREAMS {
            let config = machine(core, of.set);
            let round = of.kib * 1024 / (STREAM * of.stride);
            let warm = if of.kib < 8192 { round + 100 } else { 300 };
            let measured =
                measure(&config, &stream(of.kib * 1024, of.stride, of.store), warm, round.min(512));
            let expected = (of.expected)(&config);
            let (each, unit) = match of.stride {
                64 => (closed::gigabytes(&config, 1.0), "GB/s"),
                _ => (1.0, "words per cycle"),
            };
            rows.push(Row {
                what: of.what.to_owned(),
                core,
                unit,
                form: of.form.to_owned(),
                expected: (expected.0 * each, expected.1 * each),
                measured: each * STREAM as f64 / measured.pace(),
            });
        }
    }
    rows
}
