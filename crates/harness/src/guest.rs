//! A fuzzed guest in a whole machine: its program runs while traffic arrives, and then everything that must hold
//! of any run is checked.

use doorbell_loadgen::TrafficConfig;
use doorbell_machine::{
    CoreKind, CoreModel, Guest, Inclusion, Limits, Machine, MachineConfig, Mode, Outcome, PrefetchKind,
};
use doorbell_sim::{Bytes, Hertz, Ps};

use crate::disk;
use crate::input::Input;
use crate::operations::{self, Profile};
use crate::places;
use crate::watchdog::Watchdog;

const GUEST: &str = "fuzzed";
const OPERATIONS_MAX: usize = 400;
const SEGMENTS_MAX: u64 = 4;
const SEGMENT: Ps = Ps::from_us(60);
const SEGMENT_INSTRUCTIONS: u64 = 4_000;
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
    continues_after_restore(&case, &mut machine);
    continues_in_another_machine(&case, &machine);
}

/// A machine, a guest and what happens to them.
#[derive(Clone, Debug)]
pub struct Case {
    config: MachineConfig,
    seed: u64,
    program: Vec<u8>,
    segments: u64,
    chopped: bool,
    disks: u8,
    choices: Choices,
}

impl Case {
    /// Reads a case.
    pub fn new(profile: Profile, input: &mut Input<'_>) -> Case {
        let choice = input.u8();
        let mut config = small_machine();
        config.platform.nics = 1 + u32::from(choice & 1);
        config.platform.sstc = choice & 2 == 0;
        config.core.frequency = Hertz(if choice & 4 == 0 { 100_000_000 } else { 3_000_000_000 });
        config.nic.pause_frames = choice & 8 != 0;
        config.loadgen.traffic.frame_size = Bytes(64 + u64::from(choice >> 4) * 128);
        let seed = u64::from(input.u32());
        let (segments, chopped) = (1 + seed % SEGMENTS_MAX, seed & 0x10 != 0);
        config.platform.harts = [1, 1, 2, 3][(seed >> 5 & 3) as usize];
        if seed & 0x80 != 0 {
            time(&mut config, seed >> 8);
        }
        let disks = if profile == Profile::Disk { 1 + (choice >> 1 & 1) } else { 0 };
        config.disk.latency = Ps::from_ns(100 * u64::from(choice >> 4));
        config.disk.written_max = Bytes(8 << 10);
        let program = operations::program(profile, input, OPERATIONS_MAX);
        Case { config, seed, program, segments, chopped, disks, choices: Choices(seed) }
    }

    /// The machine's configuration.
    pub fn config(&self) -> &MachineConfig {
        &self.config
    }

    /// Lets the guest run while an experimenter does this and that; a second machine that is stopped
    /// more often must not differ.
    pub fn run_segments(&mut self, machine: &mut Machine) {
        let mut twin = self.chopped.then(|| self.build());
        for _ in 0..self.segments {
            let action = Action::choose(&mut self.choices);
            action.apply(machine);
            if let Some(twin) = &mut twin {
                action.apply(twin);
            }
            let (end, instructions) =
                (machine.now() + SEGMENT, machine.instructions() + SEGMENT_INSTRUCTIONS);
            run_checked(machine, end, instructions);
            if let Some(twin) = &mut twin {
                run_in_pieces(twin, end, instructions, &mut self.choices);
                assert_same(machine, twin, "a run in pieces differs from a run in one");
            }
        }
    }

    /// The machine without its guest, of this configuration or one like it.
    pub fn machine(&self, config: MachineConfig, seed: u64) -> Machine {
        let mut machine = Machine::new(config, seed).expect("the configuration is legal");
        for _ in 0..self.disks {
            machine.attach_disk(disk::file()).expect("there are places enough");
        }
        machine
    }

    /// The machine with its guest.
    pub fn build(&self) -> Machine {
        let mut machine = self.machine(self.config.clone(), self.seed);
        machine.load(&guest(self.program.clone(), self.seed)).expect("the guest is small");
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
            Outcome::Breakpoint { .. } => unreachable!("no debugger is attached"),
        }
    }
}

fn run_in_pieces(machine: &mut Machine, end: Ps, instructions: u64, choices: &mut Choices) {
    for _ in 0..20 {
        let sooner = machine.now() + Ps(choices.below(SEGMENT.0 / 8));
        let fewer = machine.instructions() + choices.below(SEGMENT_INSTRUCTIONS / 8);
        run_on(machine, sooner.min(end), fewer.min(instructions));
    }
    run_on(machine, end, instructions);
}

/// Compares two machines, and names the parts in which they differ.
pub fn assert_same(one: &Machine, other: &Machine, what: &str) {
    if one.state_hash() == other.state_hash() {
        return;
    }
    let sections = one.section_hashes().into_iter().zip(other.section_hashes());
    let names: Vec<String> = sections.filter(|(a, b)| a != b).map(|(a, _)| a.0).collect();
    panic!("{what}, in: {}", if names.is_empty() { "RAM".to_owned() } else { names.join(", ") });
}

/// Saves the machine and lets it and a restored one go on; they must not differ.
fn continues_after_restore(case: &Case, machine: &mut Machine) {
    let before = machine.state_hash();
    let file = machine.checkpoint(GUEST, "");
    assert_eq!(machine.state_hash(), before, "saving disturbs the machine");
    let mut restored = case.machine(case.config.clone(), case.seed);
    restored.restore(&file, GUEST).expect("a checkpoint just taken is restored");
    assert_same(machine, &restored, "a restored machine differs");
    let (end, instructions) = (machine.now() + TAIL, machine.instructions() + TAIL_INSTRUCTIONS);
    for machine in [&mut *machine, &mut restored] {
        run_checked(machine, end, instructions);
    }
    assert_same(machine, &restored, "a restored machine goes on differently");
    restored.check_conservation();
}

/// A checkpoint goes on in a machine whose clocks, links and paths are others.
fn continues_in_another_machine(case: &Case, machine: &Machine) {
    let file = machine.checkpoint(GUEST, "");
    let mut config = case.config.clone();
    config.core.frequency.0 =
        if config.core.frequency.0 > 1_000_000_000 { 70_000_000 } else { 2_900_000_000 };
    config.link.rate.0 /= 7;
    config.pcie.link_latency = Some(Ps::from_ns(77));
    config.nic.rx_descriptor_cache = 16;
    config.nic.rx_fifo = Some(Bytes(4 << 10));
    config.nic.tx_fifo = Some(Bytes(4 << 10));
    config.disk.latency.0 /= 3;
    let mut other = case.machine(config, case.seed + 1);
    other.restore(&file, GUEST).expect("clocks and sizes are no part of a checkpoint");
    let (end, instructions) = (other.now() + TAIL, other.instructions() + TAIL_INSTRUCTIONS);
    run_checked(&mut other, end, instructions);
    other.check_conservation();
}
