//! A fuzzed guest in a whole machine: its program runs while traffic arrives, then the invariants of any run
//! are checked.

use doorbell_loadgen::TrafficConfig;
use doorbell_machine::{
    AttachConfig, AttachKind, CheckpointFile, CoreKind, CoreModel, Guest, HartNumber, HartTable, HartTables,
    Inclusion, InterruptsKind, Limits, Machine, MachineConfig, Mode, Outcome, Place, PortNumber, PortTable,
    PrefetchKind, StageConfig,
};
use doorbell_nic::NicModel;
use doorbell_pcie::PciFunction;
use doorbell_sim::{Bytes, Hertz, Ps};

use crate::addresses::{self, BEHIND_BRIDGE, BRIDGE_DEVICE, INTERRUPTER_DEVICE};
use crate::disk;
use crate::input::Input;
use crate::interrupter::Interrupter;
use crate::machine_pool::PooledMachine;
use crate::operations::{self, Profile};
use crate::recording_check::RecordingCheck;
use crate::watchdog::Watchdog;

const GUEST: &str = "fuzzed";
const OPERATIONS_MAX: usize = 400;
const SEGMENTS_MAX: u64 = 4;
const SEGMENT: Ps = Ps::from_us(40);
/// At higher rates a segment is shorter, so that the number of offered frames is bounded: further frames cost
/// more than the next case would.
const SEGMENT_RATE_MAX: u64 = 8_000_000;
/// Instruction limits per segment; a short program gets fewer, so that it does not loop many times.
const INSTRUCTIONS_MAX: u64 = 2_500;
const INSTRUCTIONS_MIN: u64 = 300;
/// Instructions of all segments together per two program instructions, so that the program completes once
/// even if many instructions trap.
const INSTRUCTIONS_PER_TWO: u64 = 3;
/// Length of the run after a checkpoint, in both machines.
const TAIL: Ps = Ps::from_us(10);
const TAIL_INSTRUCTIONS: u64 = 1_000;
/// A NIC at line rate needs about one event per nanosecond; many more indicate a loop.
const EVENTS_PER_NANOSECOND_MAX: u64 = 8;
const EVENTS_MAX: u64 = 20_000;

/// Runs the case for the input bytes.
pub fn run(profile: Profile, bytes: &[u8]) {
    let _watchdog = Watchdog::start();
    let mut case = Case::new(profile, &mut Input::new(bytes));
    let mut machine = case.build();
    case.run_segments(&mut machine);
    machine.check_conservation();
    if case.checks.restored || case.checks.in_another {
        let state = machine.state_hash();
        let file = machine.checkpoint(GUEST, "");
        if case.checks.restored {
            continues_after_restore(&case, &mut machine, state, &file);
        }
        if case.checks.in_another {
            continues_in_another_machine(&case, &file);
        }
    }
}

/// A machine, a guest and the actions on them.
#[derive(Clone, Debug)]
pub struct Case {
    config: MachineConfig,
    seed: u64,
    guest: Guest,
    segments: u64,
    /// Instructions per segment.
    instructions: u64,
    checks: Checks,
    disks: u8,
    /// Whether a function with all kinds of interrupts is plugged in.
    has_interrupter: bool,
    choices: Choices,
}

/// The expensive checks. Each case has only some of them, which leaves time for other cases.
#[derive(Clone, Copy, Debug)]
struct Checks {
    /// A second machine is stopped more often and recording, and must reach the same state.
    in_pieces: bool,
    /// A restored machine must continue as the saved one.
    restored: bool,
    /// A machine with other clocks and links must also continue, without comparison.
    in_another: bool,
}

impl Case {
    /// Derives a case from the input.
    pub fn new(profile: Profile, input: &mut Input<'_>) -> Case {
        let choice = input.u8();
        let mut config = small_machine();
        config.platform.nics = 1 + u32::from(choice & 1);
        config.platform.sstc = choice & 2 == 0;
        let behind_a_bridge = profile == Profile::ConfigSpace && choice & 1 == 1 && choice & 0x10 == 0;
        if behind_a_bridge {
            config.platform.bridges = vec![Place::root(BRIDGE_DEVICE as u8)];
            let at = Some(Place { behind: Some(0), device: BEHIND_BRIDGE as u8, function: 0 });
            config.port.insert(PortNumber(1), PortTable { at, ..PortTable::default() });
        }
        config.core.frequency = Hertz(if choice & 4 == 0 { 100_000_000 } else { 3_000_000_000 });
        config.loadgen.traffic.frame_size = Bytes(64 + u64::from(choice >> 4) * 128);
        let seed = u64::from(input.u32());
        if !behind_a_bridge && seed >> 22 & 1 == 1 {
            config.platform.ports_per_card = config.platform.nics;
        }
        if seed >> 21 & 3 == 3 {
            config.platform.interrupts = InterruptsKind::Aia;
        }
        if seed >> 27 & 3 == 3 {
            config.nic.model = NicModel::E82576;
        }
        config.nic.pause_frames = choice & 8 != 0;
        let segments = 1 + seed % SEGMENTS_MAX;
        let (in_pieces, restored) = (seed & 0x10 != 0, seed & 8 == 0);
        let in_another = seed & 4 == 0 && (restored || !in_pieces);
        let checks = Checks { in_pieces, restored, in_another };
        config.platform.harts = [1, 1, 2, 3][(seed >> 5 & 3) as usize];
        // Timing models take most of a case's time and hardly affect configuration space.
        let often = profile != Profile::ConfigSpace || seed >> 24 & 9 == 9;
        if seed & 0x80 != 0 && often {
            time(&mut config, seed >> 8);
        }
        // Disk accesses do not depend on hart timing.
        if config.platform.harts > 1 && profile != Profile::Disk && seed & 1 << 20 != 0 {
            config.hart = different_hart();
        }
        if config.platform.harts > 1 && profile != Profile::Disk && seed >> 29 & 1 == 1 {
            config.core.lookahead = Ps::from_ns(if seed & 1 << 30 == 0 { 20 } else { 1_000 });
        }
        let disks = if profile == Profile::Disk { 1 + (choice >> 1 & 1) } else { 0 };
        config.disk.latency = Ps::from_ns(100 * u64::from(choice >> 4));
        config.disk.written_max = Bytes(8 << 10);
        // An observer, which allocates several MiB when it starts.
        config.loadgen.stages = seed & 0x0c00_000c == 0;
        let has_interrupter = profile == Profile::ConfigSpace && !behind_a_bridge;
        let program = operations::program(profile, input, OPERATIONS_MAX);
        let all = INSTRUCTIONS_PER_TWO * program.len() as u64 / (2 * 4);
        let instructions = (all / segments).clamp(INSTRUCTIONS_MIN, INSTRUCTIONS_MAX);
        let guest = guest(program, seed);
        Case {
            config,
            seed,
            guest,
            segments,
            instructions,
            checks,
            disks,
            has_interrupter,
            choices: Choices(seed),
        }
    }

    /// The machine's configuration.
    pub fn config(&self) -> &MachineConfig {
        &self.config
    }

    /// Runs the guest with random actions between segments. If enabled, a second machine that is stopped more
    /// often and recording must match: in part of its state after each segment, in all of it at the end.
    pub fn run_segments(&mut self, machine: &mut Machine) {
        let mut twin = self.checks.in_pieces.then(|| self.build());
        let recording = twin.as_mut().map(|twin| RecordingCheck::begin(twin));
        let mut rate = 0;
        for _ in 0..self.segments {
            let action = Action::choose(&mut self.choices);
            action.apply(machine);
            match action {
                Action::Traffic { rate: set, .. } => rate = set,
                Action::StopTraffic => rate = 0,
                _ => {}
            }
            if let Some(twin) = &mut twin {
                action.apply(twin);
            }
            let length = Ps(SEGMENT.0 * SEGMENT_RATE_MAX / rate.max(SEGMENT_RATE_MAX));
            let (end, instructions) = (machine.now() + length, machine.instructions() + self.instructions);
            run_checked(machine, end, instructions);
            if let Some(twin) = &mut twin {
                run_in_pieces(twin, (end, length), (instructions, self.instructions), &mut self.choices);
                assert_eq!(
                    quick_state(machine),
                    quick_state(twin),
                    "a run in pieces differs from an uninterrupted run"
                );
            }
        }
        if let (Some(twin), Some(recording)) = (&mut twin, recording) {
            recording.end(twin);
            assert_same(machine, twin, "a run in pieces differs from an uninterrupted run");
        }
    }

    /// A machine without its guest, with `config`.
    pub fn machine(&self, config: MachineConfig, seed: u64) -> PooledMachine {
        let interrupter = || {
            (Place::root(INTERRUPTER_DEVICE as u8), Box::new(Interrupter::default()) as Box<dyn PciFunction>)
        };
        let mut machine =
            PooledMachine::new(config, seed, self.has_interrupter.then(interrupter).into_iter().collect());
        for _ in 0..self.disks {
            machine.attach_disk(disk::file()).expect("there are free disk slots");
        }
        machine
    }

    /// The machine with its guest.
    pub fn build(&self) -> PooledMachine {
        let mut machine = self.machine(self.config.clone(), self.seed);
        machine.load(&self.guest).expect("the guest is small");
        machine
    }
}

/// Selects timing models with small structures, so that all of their limits are reached.
fn time(config: &mut MachineConfig, choice: u64) {
    config.core.model = CoreModel::Timed;
    config.pipeline.kind = if choice & 1 == 0 { CoreKind::OutOfOrder } else { CoreKind::InOrder };
    config.pipeline.rob = [4, 16, 128][(choice >> 1) as usize % 3];
    config.memory.l1d.size = Bytes(1 << 10);
    config.memory.l1d.ways = 2;
    config.memory.l2.size = Bytes(8 << 10);
    config.memory.l2.prefetch.kind =
        [PrefetchKind::None, PrefetchKind::NextLine, PrefetchKind::Stride][(choice >> 3) as usize % 3];
    config.memory.llc.size = Bytes(64 << 10);
    config.memory.llc.inclusion =
        [Inclusion::Inclusive, Inclusion::NonInclusive, Inclusion::Exclusive][(choice >> 5) as usize % 3];
    config.memory.dca.policy.enabled = choice & 0x80 == 0;
    config.pcie.tags = [1, 8, 256][(choice >> 8) as usize % 3];
    config.pcie.posted_headers = [1, 4, 128][(choice >> 10) as usize % 3];
    config.attach = attachment(choice >> 12);
}

/// Half of the cases use PCI Express; the others use bus chains and on-die attachments with minimal buffers.
fn attachment(choice: u64) -> AttachConfig {
    let (kind, outstanding) = match choice % 6 {
        3 => (AttachKind::Bus, None),
        4 => (AttachKind::MemoryBus, Some(1)),
        5 => (AttachKind::Llc, Some(2)),
        _ => return AttachConfig::default(),
    };
    let stage = |split: bool| StageConfig {
        width: Bytes(8),
        clock: Hertz(133_000_000),
        latency: Ps::from_ns(15),
        split,
        full_duplex: false,
        address_cycles: 1,
        outstanding: 1,
        bridge_latency: Ps::from_ns(50),
        buffer: 1,
    };
    let stages = (kind == AttachKind::Bus).then(|| vec![stage(choice & 64 == 0), stage(choice & 128 == 0)]);
    AttachConfig { kind, stages, outstanding, ..AttachConfig::default() }
}

/// Makes the second hart differ from the others: slower, simpler, with smaller caches.
fn different_hart() -> HartTables {
    let own = HartTable {
        core: toml::toml! { frequency = "730MHz" },
        pipeline: toml::toml! { kind = "in-order" },
        memory: toml::toml! {
            walks = "l2"
            [l2]
            size = "4KiB"
        },
    };
    HartTables::from([(HartNumber(1), own)])
}

/// A configuration that is quick to build and to save.
pub fn small_machine() -> MachineConfig {
    let mut config = MachineConfig::default();
    config.platform.ram = Bytes(64 << 20);
    config.nic.autonegotiation = Ps::from_us(1);
    config.loadgen.tracked_frames = 1024;
    config
}

/// A guest whose firmware is `program`. The kernel is only a header; the initramfs is memory that contains
/// descriptor rings.
pub fn guest(program: Vec<u8>, seed: u64) -> Guest {
    let mut kernel = vec![0; 64];
    kernel[8..16].copy_from_slice(&(2u64 << 20).to_le_bytes());
    kernel[16..24].copy_from_slice(&64u64.to_le_bytes());
    kernel[0x38..0x3c].copy_from_slice(b"RSC\x05");
    Guest { firmware: program, kernel, initramfs: addresses::data(seed), bootargs: String::new() }
}

/// Random choices that are independent of the program's bytes: a small generator.
#[derive(Clone, Debug)]
struct Choices(u64);

impl Choices {
    fn next(&mut self) -> u64 {
        // A multiplicative generator suffices for choosing where to stop.
        self.0 = self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x1234_5678_9abc_def1);
        self.0 >> 24
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// An action between two segments.
#[derive(Clone, Copy, Debug)]
enum Action {
    Nothing,
    Traffic { rate: u64, size: u64 },
    StopTraffic,
    Type(u64),
    Mode(Mode),
    BeginWindow,
    EndWindow,
}

impl Action {
    fn choose(choices: &mut Choices) -> Action {
        match choices.below(16) {
            0 => Action::Nothing,
            1 => Action::StopTraffic,
            2 => Action::Type(choices.next()),
            3 => Action::BeginWindow,
            4 => Action::EndWindow,
            5..8 => Action::Mode(
                [Mode::Functional, Mode::Warming, Mode::Detailed, Mode::Detailed][choices.below(4) as usize],
            ),
            _ => {
                let rate = 1_000_000 << choices.below(7);
                let longest = 1 << choices.below(12);
                Action::Traffic { rate, size: 64 + choices.below(longest) }
            }
        }
    }

    fn apply(self, machine: &mut Machine) {
        match self {
            Action::Nothing => {}
            Action::Traffic { rate, size } => {
                let rate = format!("{rate}pps").parse().expect("a rate");
                let usual = machine.config().loadgen.traffic.clone();
                let traffic = TrafficConfig { rate, frame_size: Bytes(size), ..usual };
                machine.start_traffic(&traffic).expect("the traffic is legal");
            }
            Action::StopTraffic => machine.stop_traffic(),
            Action::Type(keys) => {
                machine.type_input(&keys.to_le_bytes());
            }
            Action::Mode(mode) => machine.set_mode(mode),
            Action::BeginWindow => machine.begin_window(),
            Action::EndWindow => machine.end_window(),
        }
    }
}

/// Runs up to a limit, ignoring markers and guest power events, and checks the number of events.
pub fn run_checked(machine: &mut Machine, end: Ps, instructions: u64) {
    let (from, events) = (machine.now(), machine.stats().events);
    run_to(machine, end, instructions);
    let nanoseconds = machine.now().saturating_sub(from).0 / 1_000;
    let events = machine.stats().events - events;
    let ports = machine.ports().len().max(1) as u64;
    assert!(
        events <= EVENTS_MAX + EVENTS_PER_NANOSECOND_MAX * nanoseconds * ports,
        "{events} events in {nanoseconds} ns of simulated time"
    );
}

/// Runs up to a limit, ignoring markers and guest power events.
pub fn run_to(machine: &mut Machine, end: Ps, instructions: u64) {
    loop {
        match machine.run(&Limits { instructions, ..Limits::until(end) }) {
            Outcome::Time | Outcome::Instructions | Outcome::Asleep => return,
            Outcome::Marker | Outcome::PowerOff { .. } | Outcome::Reset | Outcome::M5Op { .. } => {}
            Outcome::Breakpoint { .. } | Outcome::CorunnerFailed => {
                unreachable!("neither debugger nor traces are attached")
            }
        }
    }
}

/// Runs a segment in about twenty pieces. Its end in time and instructions is absolute and relative to its
/// start.
fn run_in_pieces(machine: &mut Machine, end: (Ps, Ps), instructions: (u64, u64), choices: &mut Choices) {
    for _ in 0..20 {
        let sooner = machine.now() + Ps(choices.below(end.1.0 / 8));
        let fewer = machine.instructions() + choices.below(instructions.1 / 8);
        run_to(machine, sooner.min(end.0), fewer.min(instructions.0));
    }
    run_to(machine, end.0, instructions.0);
}

/// A cheap subset of the state; runs that diverged rarely agree in it.
fn quick_state(machine: &Machine) -> impl PartialEq + std::fmt::Debug {
    let harts: Vec<(u64, u64)> = machine.harts().iter().map(|hart| (hart.pc(), hart.slots())).collect();
    let ports = machine.ports().iter().zip(machine.nics());
    let frames: Vec<_> =
        ports.map(|(port, nic)| (nic.stats().clone(), port.loadgen.stats().clone())).collect();
    (machine.now(), machine.instructions(), machine.stats().clone(), harts, frames)
}

/// Compares two machines; a failure names the sections that differ.
pub fn assert_same(one: &Machine, other: &Machine, what: &str) {
    assert_in_state(one, other.state_hash(), other, what);
}

/// Compares a machine with the state hash of another one.
fn assert_in_state(one: &Machine, state: u64, other: &Machine, what: &str) {
    if one.state_hash() == state {
        return;
    }
    let sections = one.section_hashes().into_iter().zip(other.section_hashes());
    let names: Vec<String> = sections.filter(|(a, b)| a != b).map(|(a, _)| a.0).collect();
    panic!("{what}, in: {}", if names.is_empty() { "RAM".to_owned() } else { names.join(", ") });
}

/// Continues a saved and a restored machine, which must not differ. This also checks that the file is of the
/// saved machine's state: the hash was taken before saving.
fn continues_after_restore(case: &Case, machine: &mut Machine, state: u64, file: &CheckpointFile) {
    let mut restored = case.machine(case.config.clone(), case.seed);
    restored.restore(file, GUEST).expect("a checkpoint just taken is restored");
    assert_in_state(&restored, state, machine, "the restored machine differs");
    let (end, instructions) = (machine.now() + TAIL, machine.instructions() + TAIL_INSTRUCTIONS);
    for machine in [&mut *machine, &mut *restored] {
        run_checked(machine, end, instructions);
    }
    assert_same(machine, &restored, "the restored machine continues differently");
    restored.check_conservation();
}

/// Restores the checkpoint into a machine with other clocks, links and paths, and continues.
fn continues_in_another_machine(case: &Case, file: &CheckpointFile) {
    let mut config = case.config.clone();
    config.core.frequency.0 =
        if config.core.frequency.0 > 1_000_000_000 { 70_000_000 } else { 2_900_000_000 };
    config.hart = match config.hart.is_empty() && config.platform.harts > 1 {
        true => different_hart(),
        false => HartTables::default(),
    };
    config.link.rate.0 /= 7;
    config.pcie.link_latency = Some(Ps::from_ns(77));
    config.attach = attachment(case.seed >> 7);
    config.nic.rx_descriptor_cache = 16;
    config.nic.rx_fifo = Some(Bytes(4 << 10));
    config.nic.tx_fifo = Some(Bytes(4 << 10));
    config.disk.latency.0 /= 3;
    let mut other = case.machine(config, case.seed + 1);
    other.restore(file, GUEST).expect("clocks and sizes are not part of a checkpoint");
    let (end, instructions) = (other.now() + TAIL, other.instructions() + TAIL_INSTRUCTIONS);
    run_checked(&mut other, end, instructions);
    other.check_conservation();
}
