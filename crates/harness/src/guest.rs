//! A fuzzed guest in a whole machine: its program runs while traffic arrives, and then everything that must hold
//! of any run is checked.

use doorbell_loadgen::TrafficConfig;
use doorbell_machine::{
    AttachConfig, AttachKind, CheckpointFile, CoreKind, CoreModel, Guest, HartNumber, HartTable, HartTables,
    Inclusion, InterruptsKind, Limits, Machine, MachineConfig, Mode, Outcome, Place, PortNumber, PortTable,
    PrefetchKind, StageConfig,
};
use doorbell_nic::NicModel;
use doorbell_pcie::PciFunction;
use doorbell_sim::{Bytes, Hertz, Ps};

use crate::bell::Bell;
use crate::disk;
use crate::input::Input;
use crate::lent::Lent;
use crate::operations::{self, Profile};
use crate::places::{self, BEHIND_BRIDGE, BELL_DEVICE, BRIDGE_DEVICE};
use crate::recorded::Recorded;
use crate::watchdog::Watchdog;

const GUEST: &str = "fuzzed";
const OPERATIONS_MAX: usize = 400;
const SEGMENTS_MAX: u64 = 4;
const SEGMENT: Ps = Ps::from_us(40);
/// At a higher rate a segment is shorter, so that no more frames are offered in it: what the hundreds after them would bring
/// costs more than the next case.
const SEGMENT_RATE_MAX: u64 = 8_000_000;
/// Of a segment; a short program has fewer, so that it does not go round many times.
const INSTRUCTIONS_MAX: u64 = 2_500;
const INSTRUCTIONS_MIN: u64 = 300;
/// Instructions of all segments together for two that the program has, so that it goes round once even if much of it traps.
const INSTRUCTIONS_FOR_TWO: u64 = 3;
/// What goes on after a checkpoint in both machines.
const TAIL: Ps = Ps::from_us(10);
const TAIL_INSTRUCTIONS: u64 = 1_000;
/// A NIC at line rate needs about one event a nanosecond; a machine that needs many more is in a loop.
const EVENTS_A_NANOSECOND_MAX: u64 = 8;
const EVENTS_MAX: u64 = 20_000;

/// Runs the case that some bytes stand for.
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

/// A machine, a guest and what happens to them.
#[derive(Clone, Debug)]
pub struct Case {
    config: MachineConfig,
    seed: u64,
    guest: Guest,
    segments: u64,
    /// Of a segment.
    instructions: u64,
    checks: Checks,
    disks: u8,
    /// A function with interrupts of all kinds is plugged in.
    has_bell: bool,
    choices: Choices,
}

/// The expensive checks, of which each case has some: what they take is better spent on other cases.
#[derive(Clone, Copy, Debug)]
struct Checks {
    /// A second machine is stopped more often and recorded, and comes to the same state.
    chopped: bool,
    /// A restored machine goes on as the saved one.
    restored: bool,
    /// So does one with other clocks and links, without comparison.
    in_another: bool,
}

impl Case {
    /// Reads a case.
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
        let (chopped, restored) = (seed & 0x10 != 0, seed & 8 == 0);
        let in_another = seed & 4 == 0 && (restored || !chopped);
        let checks = Checks { chopped, restored, in_another };
        config.platform.harts = [1, 1, 2, 3][(seed >> 5 & 3) as usize];
        // Timing models take most of a case's time, and have little to do with configuration space.
        let often = profile != Profile::ConfigSpace || seed >> 24 & 9 == 9;
        if seed & 0x80 != 0 && often {
            time(&mut config, seed >> 8);
        }
        // Disks are accessed without the timing of harts.
        if config.platform.harts > 1 && profile != Profile::Disk && seed & 1 << 20 != 0 {
            config.hart = unequal_hart();
        }
        if config.platform.harts > 1 && profile != Profile::Disk && seed >> 29 & 1 == 1 {
            config.core.lookahead = Ps::from_ns(if seed & 1 << 30 == 0 { 20 } else { 1_000 });
        }
        let disks = if profile == Profile::Disk { 1 + (choice >> 1 & 1) } else { 0 };
        config.disk.latency = Ps::from_ns(100 * u64::from(choice >> 4));
        config.disk.written_max = Bytes(8 << 10);
        // An observer, and one that begins with several MiB.
        config.loadgen.stages = seed & 0x0c00_000c == 0;
        let has_bell = profile == Profile::ConfigSpace && !behind_a_bridge;
        let program = operations::program(profile, input, OPERATIONS_MAX);
        let all = INSTRUCTIONS_FOR_TWO * program.len() as u64 / (2 * 4);
        let instructions = (all / segments).clamp(INSTRUCTIONS_MIN, INSTRUCTIONS_MAX);
        let guest = guest(program, seed);
        Case { config, seed, guest, segments, instructions, checks, disks, has_bell, choices: Choices(seed) }
    }

    /// The machine's configuration.
    pub fn config(&self) -> &MachineConfig {
        &self.config
    }

    /// Lets the guest run while an experimenter does this and that; a second machine that is stopped
    /// more often, and recorded, must not differ: at a glance after each segment, in all of its state at the end.
    pub fn run_segments(&mut self, machine: &mut Machine) {
        let mut twin = self.checks.chopped.then(|| self.build());
        let recorded = twin.as_mut().map(|twin| Recorded::begin(twin));
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
                assert_eq!(glance(machine), glance(twin), "a run in pieces differs from a run in one");
            }
        }
        if let (Some(twin), Some(recorded)) = (&mut twin, recorded) {
            recorded.end(twin);
            assert_same(machine, twin, "a run in pieces differs from a run in one");
        }
    }

    /// The machine without its guest, of this configuration or one like it.
    pub fn machine(&self, config: MachineConfig, seed: u64) -> Lent {
        let bell = || (Place::root(BELL_DEVICE as u8), Box::new(Bell::default()) as Box<dyn PciFunction>);
        let mut machine = Lent::new(config, seed, self.has_bell.then(bell).into_iter().collect());
        for _ in 0..self.disks {
            machine.attach_disk(disk::file()).expect("there are places enough");
        }
        machine
    }

    /// The machine with its guest.
    pub fn build(&self) -> Lent {
        let mut machine = self.machine(self.config.clone(), self.seed);
        machine.load(&self.guest).expect("the guest is small");
        machine
    }
}

/// Gives a machine timing models, small ones so that all of their limits are met.
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

/// Half of them PCI Express; chains and places on the die with the least room.
fn attachment(choice: u64) -> AttachConfig {
    let (kind, places) = match choice % 6 {
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
    AttachConfig { kind, stages, outstanding: places, ..AttachConfig::default() }
}

/// The second hart is another one than the others: slower, simpler, with smaller caches.
fn unequal_hart() -> HartTables {
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

/// A guest whose firmware is this program. The kernel is only a header, the file system is memory with rings of
/// descriptors in it.
pub fn guest(program: Vec<u8>, seed: u64) -> Guest {
    let mut kernel = vec![0; 64];
    kernel[8..16].copy_from_slice(&(2u64 << 20).to_le_bytes());
    kernel[16..24].copy_from_slice(&64u64.to_le_bytes());
    kernel[0x38..0x3c].copy_from_slice(b"RSC\x05");
    Guest { firmware: program, kernel, initramfs: places::data(seed), bootargs: String::new() }
}

/// Choices that no byte of the program should move: a small generator.
#[derive(Clone, Debug)]
struct Choices(u64);

impl Choices {
    fn next(&mut self) -> u64 {
        // An odd multiplier and a shift: plenty for choosing where to stop.
        self.0 = self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x1234_5678_9abc_def1);
        self.0 >> 24
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// What an experimenter does between two runs.
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

/// Runs to a point, whatever the guest says meanwhile, and checks that it did not take too many events.
pub fn run_checked(machine: &mut Machine, end: Ps, instructions: u64) {
    let (from, events) = (machine.now(), machine.stats().events);
    run_on(machine, end, instructions);
    let nanoseconds = machine.now().saturating_sub(from).0 / 1_000;
    let events = machine.stats().events - events;
    let ports = machine.ports().len().max(1) as u64;
    assert!(
        events <= EVENTS_MAX + EVENTS_A_NANOSECOND_MAX * nanoseconds * ports,
        "{events} events in {nanoseconds} ns of simulated time"
    );
}

/// Runs to a point, whatever the guest says meanwhile.
pub fn run_on(machine: &mut Machine, end: Ps, instructions: u64) {
    loop {
        match machine.run(&Limits { instructions, ..Limits::until(end) }) {
            Outcome::Time | Outcome::Instructions | Outcome::Asleep => return,
            Outcome::Marker | Outcome::PowerOff { .. } | Outcome::Reset | Outcome::M5Op { .. } => {}
            Outcome::Breakpoint { .. } | Outcome::Beside => {
                unreachable!("neither debugger nor traces are attached")
            }
        }
    }
}

/// Runs a segment in some twenty pieces. Its end in time and instructions, each with what it is from the beginning.
fn run_in_pieces(machine: &mut Machine, end: (Ps, Ps), instructions: (u64, u64), choices: &mut Choices) {
    for _ in 0..20 {
        let sooner = machine.now() + Ps(choices.below(end.1.0 / 8));
        let fewer = machine.instructions() + choices.below(instructions.1 / 8);
        run_on(machine, sooner.min(end.0), fewer.min(instructions.0));
    }
    run_on(machine, end.0, instructions.0);
}

/// What can be seen of a machine without taking all of its state: when runs have gone different ways, they rarely look the
/// same here.
fn glance(machine: &Machine) -> impl PartialEq + std::fmt::Debug {
    let harts: Vec<(u64, u64)> = machine.harts().iter().map(|hart| (hart.pc(), hart.slots())).collect();
    let ports = machine.ports().iter().zip(machine.nics());
    let frames: Vec<_> =
        ports.map(|(port, nic)| (nic.stats().clone(), port.loadgen.stats().clone())).collect();
    (machine.now(), machine.instructions(), machine.stats().clone(), harts, frames)
}

/// Compares two machines, and names the parts in which they differ.
pub fn assert_same(one: &Machine, other: &Machine, what: &str) {
    assert_in_state(one, other.state_hash(), other, what);
}

/// Compares a machine with the hash of another one's state.
fn assert_in_state(one: &Machine, state: u64, other: &Machine, what: &str) {
    if one.state_hash() == state {
        return;
    }
    let sections = one.section_hashes().into_iter().zip(other.section_hashes());
    let names: Vec<String> = sections.filter(|(a, b)| a != b).map(|(a, _)| a.0).collect();
    panic!("{what}, in: {}", if names.is_empty() { "RAM".to_owned() } else { names.join(", ") });
}

/// Lets a saved machine and a restored one go on; they must not differ. That the file is of the machine's present state is
/// what the comparison says, too: the hash was taken before saving, and the machine goes on after it.
fn continues_after_restore(case: &Case, machine: &mut Machine, state: u64, file: &CheckpointFile) {
    let mut restored = case.machine(case.config.clone(), case.seed);
    restored.restore(file, GUEST).expect("a checkpoint just taken is restored");
    assert_in_state(&restored, state, machine, "a restored machine differs");
    let (end, instructions) = (machine.now() + TAIL, machine.instructions() + TAIL_INSTRUCTIONS);
    for machine in [&mut *machine, &mut *restored] {
        run_checked(machine, end, instructions);
    }
    assert_same(machine, &restored, "a restored machine goes on differently");
    restored.check_conservation();
}

/// A checkpoint goes on in a machine whose clocks, links and paths are others.
fn continues_in_another_machine(case: &Case, file: &CheckpointFile) {
    let mut config = case.config.clone();
    config.core.frequency.0 =
        if config.core.frequency.0 > 1_000_000_000 { 70_000_000 } else { 2_900_000_000 };
    config.hart = match config.hart.is_empty() && config.platform.harts > 1 {
        true => unequal_hart(),
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
    other.restore(file, GUEST).expect("clocks and sizes are no part of a checkpoint");
    let (end, instructions) = (other.now() + TAIL, other.instructions() + TAIL_INSTRUCTIONS);
    run_checked(&mut other, end, instructions);
    other.check_conservation();
}
