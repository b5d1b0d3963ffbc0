//! The timing contract's bound on the visibility of DMA writes: a bare-metal program polls a receive ring,
//! and each load in the pipeline log is compared with the time at which its descriptor was written.
//!
//! A block of instructions executes when the preceding branch commits, so a poll reads memory of that time.
//! In the timing model its data may arrive earlier, as the core runs ahead of commit, by at most one pipeline
//! drain. It may also arrive later, if the poll waits, by at most the length of its block.

use doorbell_acceptance::micro::{CORES, machine};
use doorbell_assembler::*;
use doorbell_core::CoreKind;
use doorbell_loadgen::TrafficConfig;
use doorbell_machine::{Limits, LoggedOp, Machine, Mode, WatchRequest};
use doorbell_platform::map::{self, RegionId};
use doorbell_sim::{CoreCycle, DomainClock, Op, OpClass, PhysAddr, Ps};

const RAM: u64 = 0x8000_0000;
const RING: u64 = RAM + (1 << 20);
const BUFFERS: u64 = RING + (1 << 16);
const FAR: u64 = RAM + (4 << 20);
/// Descriptors of the ring. Fewer frames are sent, so that no descriptor is used twice.
const DESCRIPTORS: u64 = 256;
const FRAMES: u64 = 240;
/// Offset of the status in a descriptor (82540EM manual 3.2.3).
const STATUS: u64 = 12;
/// Interval at which the test reads the descriptors in RAM.
const STEP: Ps = Ps::from_ns(1);

/// Work of the loop between two polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Between {
    /// No work.
    Nothing,
    /// A load that misses all caches and has no dependents.
    Miss,
}

fn program(between: Between) -> Vec<u8> {
    let mut a = Assembler::new(RAM);
    a.li(T0, map::get(RegionId::PciEcam).base + (1 << 15));
    let registers = map::get(RegionId::PciMmio32).base;
    a.li(T1, registers);
    a.sw(T1, T0, 0x10);
    // Memory space and bus master.
    a.li(T1, 6);
    a.sw(T1, T0, 4);
    a.li(S0, registers);
    let store = |a: &mut Assembler, register: u64, value: u64| {
        a.li(T0, registers + register);
        a.li(T1, value);
        a.sw(T1, T0, 0);
    };
    // RDBAL, RDBAH, RDLEN, RDH, RDT; CTRL: link up; RCTL: on, all stations.
    for (register, value) in [
        (0x2800, RING & 0xffff_ffff),
        (0x2804, RING >> 32),
        (0x2808, 16 * DESCRIPTORS),
        (0x2810, 0),
        (0x2818, DESCRIPTORS - 1),
        (0x0, 0x40),
        (0x100, 1 << 1 | 1 << 3 | 1 << 15),
    ] {
        store(&mut a, register, value);
    }
    a.li(S1, RING + STATUS);
    a.li(S2, FAR);
    a.li(S3, 4096 + 64);
    a.label("poll");
    if between == Between::Miss {
        // Step through 16 MiB, wrapping around.
        a.add(S4, S4, S3);
        a.slli(T2, S4, 40);
        a.srli(T2, T2, 40);
        a.add(T2, T2, S2);
        a.ld(T2, T2, 0);
    }
    a.lbu(T0, S1, 0);
    a.beqz(T0, "poll");
    a.addi(S1, S1, 16);
    a.j("poll");
    let mut image = a.finish();
    image.resize((BUFFERS - RAM) as usize, 0);
    for index in 0..DESCRIPTORS {
        let at = (RING - RAM + 16 * index) as usize;
        image[at..at + 8].copy_from_slice(&(BUFFERS + 2048 * index).to_le_bytes());
    }
    image
}

fn run(machine: &mut Machine, until: Ps) {
    machine.run(&Limits::until(until));
}

/// Runs the loop under traffic; returns the time of each descriptor write, with a resolution of [`STEP`], and
/// the pipeline log.
fn polled(core: CoreKind, between: Between) -> (Vec<Ps>, Vec<LoggedOp>) {
    let config = machine(core, &["core.model=\"timed\""]);
    let mut machine = Machine::new(config, 1).expect("a machine");
    assert!(machine.load_bare(&program(between)), "the program fits");
    run(&mut machine, Ps::from_ms(1));
    assert!(machine.nic(0).is_receiving(), "the NIC is set up");
    machine.set_mode(Mode::Detailed);
    let traffic = TrafficConfig {
        rate: "4.003Mpps".parse().expect("a rate"),
        frames: Some(FRAMES),
        ..TrafficConfig::default()
    };
    machine.start_traffic(&traffic).expect("valid traffic");
    assert!(machine.watch(&WatchRequest { pipeline: u64::MAX, ..WatchRequest::default() }));
    let mut written: Vec<Ps> = Vec::new();
    while (written.len() as u64) < FRAMES {
        let now = machine.now() + STEP;
        run(&mut machine, now);
        assert!(now < Ps::from_ms(2), "only {} descriptors were written", written.len());
        let status = |index: u64| PhysAddr(RING + 16 * index + STATUS);
        while machine.ram().load::<1>(status(written.len() as u64)).expect("the ring is in RAM") != [0] {
            written.push(now);
        }
    }
    let end = machine.now() + Ps::from_us(5);
    run(&mut machine, end);
    (written, machine.end_watch().expect("the run was observed").pipeline)
}

/// A load of a descriptor's status.
struct Poll {
    /// Commit of the preceding branch, at which the load executes.
    executed: Ps,
    /// Time at which the timing model completes the load.
    complete: Ps,
    /// Whether the load read the written descriptor.
    is_written: bool,
    /// Time of the descriptor write.
    written: Ps,
}

fn polls(core_ps: impl Fn(CoreCycle) -> Ps, written: &[Ps], log: &[LoggedOp]) -> Vec<Poll> {
    let mut polls = Vec::new();
    let mut executed = None;
    let is_poll = |op: &Op| op.class == OpClass::Load && (RING..BUFFERS).contains(&op.phys.0);
    for (at, LoggedOp { op, stages, .. }) in log.iter().enumerate() {
        if op.class == OpClass::Branch {
            executed = Some(core_ps(stages.commit));
        }
        let Some(executed) = executed.filter(|_| is_poll(op)) else { continue };
        let index = (op.phys.0 - RING) / 16;
        // The loop advances to the next descriptor when it has read a written one.
        let Some(next) = log[at + 1..].iter().find(|later| is_poll(&later.op)) else { break };
        if let Some(written) = written.get(index as usize) {
            let (complete, is_written) = (core_ps(stages.complete), next.op.phys != op.phys);
            polls.push(Poll { executed, complete, is_written, written: *written });
        }
    }
    polls
}

/// Longest time from dispatch to commit of an op.
fn longest_drain(log: &[LoggedOp], core_ps: impl Fn(CoreCycle) -> Ps) -> Ps {
    let drain = |op: &LoggedOp| core_ps(op.stages.commit).saturating_sub(core_ps(op.stages.dispatch));
    log.iter().map(drain).max().expect("the log has ops")
}

/// Longest time between the commits of two successive branches.
fn longest_block(log: &[LoggedOp], core_ps: impl Fn(CoreCycle) -> Ps) -> Ps {
    let ends = log.iter().filter(|op| op.op.class == OpClass::Branch).map(|op| core_ps(op.stages.commit));
    let ends: Vec<Ps> = ends.collect();
    ends.windows(2).map(|two| two[1] - two[0]).max().expect("the log has branches")
}

#[test]
fn a_poll_reads_memory_at_most_one_drain_early_or_one_block_late() {
    for core in CORES {
        for between in [Between::Nothing, Between::Miss] {
            let clock = DomainClock::new(machine(core, &[]).core.frequency);
            let core_ps = |cycle| clock.edge(cycle);
            let (written, log) = polled(core, between);
            let polls = polls(core_ps, &written, &log);
            assert_eq!(polls.iter().filter(|poll| poll.is_written).count() as u64, FRAMES);
            // The functional order: a poll reads the written descriptor exactly if it executes after the
            // write.
            for poll in &polls {
                let (from, to) = (poll.executed, poll.written);
                match poll.is_written {
                    true => assert!(
                        from + STEP + STEP >= to,
                        "{core:?} {between:?}: read at {from}, but written at {to}"
                    ),
                    false => {
                        assert!(from <= to, "{core:?} {between:?}: not read at {from}, but written at {to}")
                    }
                }
            }
            let early = polls.iter().filter(|poll| poll.is_written);
            let early = early.map(|poll| poll.written.saturating_sub(poll.complete)).max().unwrap();
            let late = polls.iter().filter(|poll| !poll.is_written);
            let late = late.map(|poll| poll.complete.saturating_sub(poll.written)).max().unwrap();
            let (drain, block) = (longest_drain(&log, core_ps), longest_block(&log, core_ps));
            println!(
                "{core:?} {between:?}: {early} early, {late} late; longest drain {drain}, longest block {block}"
            );
            assert!(early <= drain + STEP, "{core:?} {between:?}: {early} early, but a drain takes {drain}");
            assert!(late <= block, "{core:?} {between:?}: {late} late, but a block takes {block}");
            if (core, between) == (CoreKind::OutOfOrder, Between::Miss) {
                assert!(early > Ps::from_ns(100), "the core does not run ahead, so the test checks nothing");
            }
        }
    }
}
