//! Co-runners of a machine on bare metal. A hart differs from one without co-runners only by shared
//! resources, and a co-runner behaves as in a player. Neither depends on where a run stops or on a restore
//! from a checkpoint.

use std::path::{Path, PathBuf};

use doorbell_sim::snapshot::Snapshot;
use doorbell_sim::{CoreCycle, Ps};
use doorbell_trace::champsim::{Record, Variant, Writer};
use doorbell_trace::system::{Description, TraceFile, TraceWriter, merge};

use super::corunners::{CorunnersState, Program, ProgramState, SECTION, VERSION};
use super::relocation::RelocationState;
use super::tests::config as playing;
use super::{CorunnerStats, Pages, PagesConfig, Plan, Player, TraceInput};
use crate::config::MachineConfig;
use crate::machine::Machine;
use crate::overlay::Overlay;
use crate::run::{Limits, Outcome};
use crate::timed::Mode;
use crate::timed::unequal_tests::{GUEST, chained_additions, chase, machine, machine_with_corunners, until};

const KERNEL: PagesConfig = PagesConfig { pages: Pages::Kernel, page_size: doorbell_sim::Bytes(4096) };

/// A trace that loads lines of a table of `bytes` bytes, one line per iteration of eight instructions.
fn walk(folder: &Path, name: &str, bytes: u64, turns: u64) -> TraceInput {
    walk_by(64 * 97, folder, name, bytes, turns)
}

fn walk_by(stride: u64, folder: &Path, name: &str, bytes: u64, turns: u64) -> TraceInput {
    let path: PathBuf = folder.join(name);
    let mut writer = Writer::create(&path, Variant::Standard).unwrap();
    for turn in 0..turns {
        for place in 0..8u64 {
            let mut record = Record { ip: 0x40_0000 + 4 * place, ..Record::default() };
            match place {
                3 => {
                    (record.read[0], record.destinations[0]) =
                        (0x7fff_0000_0000 + turn * stride % bytes / 64 * 64, 70)
                }
                7 => {
                    (record.is_branch, record.taken, record.destinations[0], record.sources[0]) =
                        (true, true, 26, 26)
                }
                _ => record.destinations[0] = 71,
            }
            writer.write_record(&record).unwrap();
        }
    }
    writer.finish().unwrap();
    TraceInput::open(&path, Variant::Standard, None).unwrap()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// A timed machine with a bare-metal program on its hart, and these co-runners.
fn with_corunners(set: &[&str], program: &[u8], traces: &[TraceInput]) -> Machine {
    let mut machine = machine_with_corunners(traces.len() as u32, set, program);
    machine.play_corunners(traces, &KERNEL).unwrap();
    machine.set_mode(Mode::Detailed);
    machine
}

fn done(machine: &Machine) -> (u64, Vec<CorunnerStats>) {
    (machine.harts()[0].instructions(), machine.corunners().collect())
}

#[test]
fn hart_and_corunner_without_shared_resources_run_as_if_alone() {
    let folder = folder();
    let trace = walk(folder.path(), "small", 4 << 10, 20_000);
    let mut both = with_corunners(&[], &chained_additions(), std::slice::from_ref(&trace));
    until(&mut both, Ps::from_us(100));
    let mut alone = machine(&[], &chained_additions());
    alone.set_mode(Mode::Detailed);
    until(&mut alone, Ps::from_us(100));
    let (own, others) = done(&both);
    assert!(
        own.abs_diff(alone.instructions()) * 1_000 < own,
        "{own} with the co-runner, {} alone",
        alone.instructions()
    );
    assert_eq!((others.len(), others[0].core), (1, 1));
    // 100 us are 300,000 cycles at 3 GHz, enough for many rounds.
    assert!(others[0].rounds > 5, "{others:?}");
    let mut overlay = Overlay::default();
    let set = ["platform.nics=1", "platform.ram=64MiB", "core.model=timed", "memory.dram.refresh=false"];
    set.iter().for_each(|assignment| overlay.set(assignment).unwrap());
    let plan = Plan { pages: KERNEL, ..Plan::of(trace) };
    let mut player = Player::new(&overlay.resolve().unwrap(), &plan).unwrap();
    player.run(u64::MAX).unwrap();
    let (played, cycles) = (player.played().instructions as f64, player.played().now.0 as f64 * 3e-3);
    // Whole trace, including the first round, in which lines and pages are touched for the first time.
    let (mean, first) = (others[0].instructions as f64 / 300_000.0, played / cycles);
    assert!(mean >= first && mean < first * 1.1, "IPC {mean} as a co-runner, {first} in a player");
}

#[test]
fn directory_exists_only_for_shared_memory_or_if_configured() {
    let folder = folder();
    let traces = ["one", "two"].map(|name| walk(folder.path(), name, 4 << 10, 2_000));
    let machine_has = |set: &[&str], traces: &[TraceInput]| {
        let machine = with_corunners(set, &chained_additions(), traces);
        machine.timing().unwrap().memory.has_directory()
    };
    assert!(!machine_has(&[], &[]));
    assert!(!machine_has(&[], &traces));
    assert!(machine_has(&["platform.harts=2"], &[]));
    assert!(machine_has(&["platform.harts=2"], &traces));
    assert!(!machine_has(&["platform.harts=2", "platform.threads=2"], &[]), "threads of one core");
    assert!(machine_has(&["memory.coherence.kind=directory"], &traces));
    assert!(!machine_has(&["platform.harts=2", "memory.coherence.kind=ideal"], &[]));
    // Traces played together, or merged, need none either; harts of one recording do.
    let player_has = |plan: &Plan| {
        let harts = plan.traces.iter().map(|planned| planned.trace.harts()).sum::<u16>();
        let config = playing(&[&format!("platform.harts={harts}")]);
        Player::new(&config, plan).unwrap().timing().memory.has_directory()
    };
    let [one, two] = traces;
    assert!(!player_has(&Plan { pages: KERNEL, ..Plan::of(one).with_neighbour(two) }));
    let recorded = |name: &str, harts: u16| {
        let path = folder.path().join(name);
        let described =
            Description { harts, physical: true, isa: "riscv64".into(), ..Description::default() };
        TraceWriter::create(&path, &described).unwrap().finish().unwrap();
        TraceFile::open(&path).unwrap()
    };
    let merged = |name: &str, harts: [u16; 2]| {
        let files = [recorded("first", harts[0]), recorded("second", harts[1])];
        merge(&files, &folder.path().join(name)).unwrap();
        Plan::of(TraceInput::own(TraceFile::open(&folder.path().join(name)).unwrap()))
    };
    assert!(player_has(&Plan::of(TraceInput::own(recorded("both", 2)))));
    assert!(!player_has(&merged("one and one", [1, 1])));
    assert!(player_has(&merged("two and one", [2, 1])));
}

#[test]
fn corunner_with_large_footprint_slows_the_hart() {
    let folder = folder();
    let set = ["memory.llc.size=1MiB", "memory.l2.size=64KiB"];
    let traces = [("hungry", 16 << 20), ("modest", 4 << 10)]
        .map(|(name, bytes)| walk(folder.path(), name, bytes, 300_000));
    let misses = |trace: Option<&TraceInput>| {
        let mut machine = with_corunners(&set, &chase(512 << 10), trace.map_or(&[], std::slice::from_ref));
        until(&mut machine, Ps::from_ms(1));
        let before = machine.instructions();
        until(&mut machine, Ps::from_ms(2));
        machine.instructions() - before
    };
    let (alone, modest, hungry) = (misses(None), misses(Some(&traces[1])), misses(Some(&traces[0])));
    assert!(modest.abs_diff(alone) * 100 < alone, "{modest} loads with a small co-runner, {alone} alone");
    assert!(hungry * 10 < alone * 9, "{hungry} loads with a large co-runner, {alone} alone");
}

#[test]
fn corunners_do_not_depend_on_run_stops_or_checkpoints() {
    let folder = folder();
    let traces = [
        walk_by(64 * 97 * 53, folder.path(), "a", 512 << 20, 1_500),
        walk_by(64 * 97 * 151, folder.path(), "b", 1 << 30, 70_000),
    ];
    let set = ["hart.2.core.frequency=2GHz"];
    let program = chase(256 << 10);
    // Memory windows are allocated in order of first touch by alternating traces, and must be the same after
    // a restore.
    let identity = PagesConfig { pages: Pages::Identity, ..KERNEL };
    let play = |machine: &mut Machine| machine.play_corunners(&traces, &identity).unwrap();
    let timed = || {
        let mut machine = machine_with_corunners(2, &set, &program);
        play(&mut machine);
        machine.set_mode(Mode::Detailed);
        machine
    };
    let mut whole = timed();
    until(&mut whole, Ps::from_us(200));
    let mut parts = timed();
    for us in [1, 7, 50, 120] {
        until(&mut parts, Ps::from_us(us));
    }
    let file = parts.checkpoint(GUEST, "half");
    until(&mut parts, Ps::from_us(200));
    assert_eq!((done(&parts), parts.state_hash()), (done(&whole), whole.state_hash()));
    let mut other = machine_with_corunners(2, &set, &[]);
    play(&mut other);
    other.restore(&file, GUEST).unwrap();
    until(&mut other, Ps::from_us(200));
    assert!(done(&whole).1[0].rounds > 1);
    assert_eq!((done(&other), other.state_hash()), (done(&whole), whole.state_hash()));
}

#[test]
fn restore_rejects_impossible_times() {
    let folder = folder();
    let trace = walk(folder.path(), "small", 4 << 10, 2_000);
    let taken_up = |change: fn(&mut ProgramState)| {
        let mut machine = with_corunners(&[], &chained_additions(), std::slice::from_ref(&trace));
        until(&mut machine, Ps::from_us(5));
        let programs = &machine.corunners.as_ref().unwrap().programs;
        let mut states: Vec<ProgramState> = programs.iter().map(Program::save).collect();
        states.iter_mut().for_each(change);
        let mut snapshot = Snapshot::new();
        snapshot.put(
            SECTION,
            VERSION,
            &CorunnersState { programs: states, places: RelocationState::default() },
        );
        machine.restore_corunners(&snapshot).map_err(|error| error.to_string())
    };
    assert_eq!(taken_up(|_| {}), Ok(()));
    let changes: [fn(&mut ProgramState); 3] = [
        |state| state.cycle = CoreCycle::MAX,
        |state| state.begun = CoreCycle::MAX,
        |state| state.instructions = u64::MAX,
    ];
    for change in changes {
        let error = taken_up(change).unwrap_err();
        assert!(error.contains("a co-runner's time is impossible"), "{error}");
    }
}

#[test]
fn corunners_stop_in_functional_mode_and_do_not_keep_a_machine_awake() {
    let folder = folder();
    let trace = walk(folder.path(), "small", 4 << 10, 20_000);
    let mut machine = machine_with_corunners(1, &[], &chained_additions());
    machine.play_corunners(&[trace], &KERNEL).unwrap();
    until(&mut machine, Ps::from_us(10));
    assert_eq!(done(&machine).1[0].instructions, 0);
    machine.set_mode(Mode::Warming);
    until(&mut machine, Ps::from_us(20));
    // Speed of cores while warming: three instructions per cycle.
    let warmed = done(&machine).1[0].instructions;
    assert!((85_000..95_000).contains(&warmed), "{warmed}");
    let mut asleep = machine_with_corunners(1, &[], &asleep());
    asleep.play_corunners(&[walk(folder.path(), "other", 4 << 10, 2_000)], &KERNEL).unwrap();
    asleep.set_mode(Mode::Detailed);
    assert_eq!(asleep.run(&Limits::until(Ps::MAX)), Outcome::Asleep);
    assert_eq!(asleep.run(&Limits::until(Ps::from_us(50))), Outcome::Asleep);
    assert!(done(&asleep).1[0].instructions > 10_000, "co-runners run while all harts sleep");
}

/// A program that waits for an interrupt which never comes.
fn asleep() -> Vec<u8> {
    let mut a = doorbell_assembler::Assembler::new(crate::timed::unequal_tests::BASE);
    a.label("again");
    a.wfi();
    a.j("again");
    a.finish()
}

#[test]
fn unsuitable_corunners_are_rejected() {
    let folder = folder();
    let trace = walk(folder.path(), "small", 4 << 10, 2_000);
    let refused = |set: &[&str]| {
        let mut overlay = Overlay::default();
        set.iter().for_each(|assignment| overlay.set(assignment).unwrap());
        let config = MachineConfig { trace_cores: 1, ..overlay.resolve().unwrap() };
        Machine::new(config, 1).err().unwrap().to_string()
    };
    for (set, says) in [
        (&[][..], "set core.model=timed"),
        (&["core.model=timed", "platform.threads=2", "platform.harts=2"], "set platform.threads=1"),
        (
            &["core.model=timed", "platform.harts=64"],
            "1 traces, 64 harts; together they may use at most 64 cores",
        ),
    ] {
        let error = refused(set);
        assert!(error.starts_with("beside.traces: ") && error.contains(says), "{error}");
    }
    let mut two = machine_with_corunners(2, &[], &[]);
    let error = two.play_corunners(std::slice::from_ref(&trace), &KERNEL).unwrap_err().to_string();
    assert!(error.contains("1 traces, but the machine has 2 co-runner cores"), "{error}");
    let with_devices = super::tests::polling(&folder.path().join("own"), 4, 1, 1, true);
    let error = two.play_corunners(&[trace, with_devices], &KERNEL).unwrap_err().to_string();
    assert!(error.contains("it has devices") && error.contains("doorbell trace run"), "{error}");
}
