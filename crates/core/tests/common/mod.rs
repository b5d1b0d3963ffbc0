//! Memories and op streams shared by the tests.

use doorbell_core::{Core, PipelineConfig, Stages};
use doorbell_sim::memory::{AccessKind, CoreAccess, CoreMemory, Level, Prefetched, Served, Walk};
use doorbell_sim::rng::Rng;
use doorbell_sim::{CoreCycle, Op, OpClass, PhysAddr};

/// A memory whose latency depends on the address only. Lines of the first 64 KiB hit in 2 cycles
/// (instructions: 1), others have the latency in [`latency`](Simple::latency).
#[derive(Clone, Default)]
pub struct Simple {
    /// Latency of lines from 64 KiB on; 0 for a mixture.
    pub far: u64,
    /// Whether all instructions hit.
    pub warm_code: bool,
    /// All accesses, if logging is on.
    pub log: Option<Vec<(CoreCycle, CoreAccess)>>,
    /// The result of every page walk.
    pub walk: Walk,
}

impl Simple {
    pub fn new(far: u64) -> Simple {
        Simple { far, warm_code: true, ..Simple::default() }
    }

    /// Latency of a prefetch's cache look-up.
    pub fn look_up(&self) -> u64 {
        2
    }

    pub fn latency(&self, kind: AccessKind, addr: u64) -> (u64, Level) {
        let hit = if kind == AccessKind::Fetch { 1 } else { 2 };
        let line = addr / 64;
        let near = line < 1024 || kind == AccessKind::Fetch && self.warm_code;
        match (near, self.far) {
            (true, _) => (hit, Level::L1),
            (false, 0) => match line % 5 {
                0 => (hit, Level::L1),
                1 | 2 => (12, Level::L2),
                3 => (31, Level::Llc),
                _ => (97, Level::Dram),
            },
            (false, cycles) => (cycles, Level::Dram),
        }
    }
}

impl CoreMemory for Simple {
    fn access(&mut self, cycle: CoreCycle, access: CoreAccess) -> Served {
        if let Some(log) = &mut self.log {
            log.push((cycle, access));
        }
        let (cycles, level) = self.latency(access.kind, access.addr.0);
        Served { at: cycle + cycles, level }
    }

    fn prefetch(&mut self, cycle: CoreCycle, access: CoreAccess) -> Prefetched {
        if let Some(log) = &mut self.log {
            log.push((cycle, access));
        }
        let level = self.latency(access.kind, access.addr.0).1;
        Prefetched { at: cycle + self.look_up(), level: Some(level) }
    }

    fn walk(&mut self, _: u64) -> Walk {
        self.walk
    }
}

/// A program under construction: consecutive ops.
pub struct Program {
    pub ops: Vec<Op>,
    pub pc: u64,
}

impl Program {
    pub fn new() -> Program {
        Program { ops: Vec::new(), pc: 0x1000 }
    }

    pub fn op(&mut self, class: OpClass, destination: u8, sources: [u8; 3]) -> &mut Op {
        let op = Op {
            pc: self.pc,
            fetch: PhysAddr(self.pc),
            class,
            length: 4,
            destination,
            sources,
            ..Op::default()
        };
        self.pc += 4;
        self.ops.push(op);
        self.ops.last_mut().unwrap()
    }

    pub fn int(&mut self, destination: u8, source: u8) -> &mut Op {
        self.op(OpClass::Int, destination, [source, 0, 0])
    }

    pub fn load(&mut self, destination: u8, address_register: u8, address: u64) -> &mut Op {
        let op = self.op(OpClass::Load, destination, [address_register, 0, 0]);
        (op.virt, op.phys, op.size) = (address, PhysAddr(address), 8);
        op
    }

    pub fn store(&mut self, address_register: u8, data_register: u8, address: u64) -> &mut Op {
        let op = self.op(OpClass::Store, 0, [address_register, data_register, 0]);
        (op.virt, op.phys, op.size) = (address, PhysAddr(address), 8);
        op
    }

    /// Appends a branch; the program continues at its target if taken.
    pub fn branch(&mut self, class: OpClass, source: u8, taken: bool, target: u64) -> &mut Op {
        self.op(class, 0, [source, 0, 0]);
        if taken {
            self.pc = target;
        }
        let op = self.ops.last_mut().unwrap();
        (op.virt, op.flags) = (target, u8::from(taken));
        op
    }

    /// Appends a fence: loads before, stores before, loads after, stores after.
    pub fn fence(&mut self, set: [bool; 4]) {
        let bits = set.iter().enumerate().map(|(bit, on)| u8::from(*on) << bit).sum::<u8>();
        self.op(OpClass::Fence, 0, [0; 3]).flags = bits << Op::FENCE_SHIFT;
    }
}

/// Executes ops and returns the cycles of their stages.
pub fn watch(core: &mut Core, ops: &[Op], memory: &mut Simple) -> Vec<Stages> {
    let mut seen = Vec::new();
    core.execute_observed(ops, memory, &mut |_: &Op, stages: &Stages| seen.push(*stages));
    seen
}

/// Executes ops on a new core.
pub fn run(config: &PipelineConfig, ops: &[Op], memory: &mut Simple) -> Vec<Stages> {
    watch(&mut Core::new(config), ops, memory)
}

/// The first block of the rest of a program.
pub fn block(rest: &[Op]) -> &[Op] {
    let branch = rest.iter().take(32).position(|op| op.class.is_branch());
    &rest[..branch.map_or(rest.len().min(32), |branch| branch + 1)]
}

/// Activates this thread, of two.
pub fn turn(threads: &mut [Core; 2], thread: usize, sibling_sleeps: bool) -> &mut Core {
    let [first, second] = threads;
    let (own, sibling) = if thread == 0 { (first, second) } else { (second, first) };
    own.take_turn(sibling, sibling_sleeps);
    own
}

/// Feeds two programs block by block to two threads, alternating as the machine does, until one ends.
pub fn feed(threads: &mut [Core; 2], programs: [&[Op]; 2], memory: &mut Simple) -> [Vec<Stages>; 2] {
    let mut seen = [Vec::new(), Vec::new()];
    loop {
        let thread = usize::from(threads[1].clock() < threads[0].clock());
        let ops = block(&programs[thread][seen[thread].len()..]);
        if ops.is_empty() {
            return seen;
        }
        seen[thread].extend(watch(turn(threads, thread, false), ops, memory));
    }
}

/// Checks that the slots and cycles of a core sum correctly.
pub fn assert_books_balance(core: &Core) {
    assert_books_balance_but(core, 0);
}

/// Like [`assert_books_balance`], for a core with `untimed` cycles that were not timed.
pub fn assert_books_balance_but(core: &Core, untimed: u64) {
    let stats = core.stats();
    let slots = stats.books.top_down().total() + stats.books.slots_idle;
    assert_eq!(slots, u64::from(core.config().slots()) * stats.books.slot_cycles, "{:?}", stats.books);
    assert_eq!(stats.books.cpi_total(), stats.books.cycles, "{:?}", stats.books);
    assert_eq!(stats.books.cycles + untimed, core.now().number());
    assert!(stats.books.slots_retiring <= stats.counts.ops);
    assert!(stats.books.slot_cycles <= stats.books.cycles);
}

/// A random program: loops in little code, few registers, overlapping accesses.
pub fn random_ops(rng: &mut Rng, count: usize, devices: bool) -> Vec<Op> {
    let mut program = Program::new();
    while program.ops.len() < count {
        let [a, b, c] = [0; 3].map(|_| rng.below(12) as u8 + if rng.below(4) == 0 { 32 } else { 0 });
        let place = rng.below(3) * 0x11000 + rng.below(24) * 8 + rng.below(4) / 3 * rng.below(8);
        let size = 1 << rng.below(4);
        let address = if place % 64 + size > 64 { place / 64 * 64 } else { place };
        match rng.below(40) {
            0..8 => program.load(a, b, address).size = size as u8,
            8..14 => program.store(b, c, address).size = size as u8,
            14..19 => {
                let target = 0x1000 + rng.below(96) * 4;
                let class =
                    [OpClass::Branch, OpClass::Jump, OpClass::IndirectJump, OpClass::Call, OpClass::Return];
                let class = class[[0, 0, 0, 1, 2, 3, 4][rng.below(7) as usize]];
                let taken = class != OpClass::Branch || rng.below(3) == 0;
                program.branch(class, b, taken, target);
            }
            19 => program.op(OpClass::IntMul, a, [b, c, 0]).flags = 0,
            20 => program.op(OpClass::IntDiv, a, [b, c, 0]).flags = 0,
            21..24 => {
                let classes = [OpClass::FloatAdd, OpClass::FloatMul, OpClass::FloatFma, OpClass::FloatDiv];
                program.op(classes[rng.below(4) as usize], 32 + a % 32, [b, c, 33]);
            }
            24 => program.fence([0; 4].map(|_| rng.below(2) == 1)),
            25 if rng.below(3) == 0 => {
                program.op(OpClass::Serialising, a, [b, 0, 0]);
            }
            26 if rng.below(2) == 0 => {
                let flags = (rng.below(4) << 6) as u8 | if rng.below(3) > 0 { Op::WRITES } else { 0 };
                let op = program.op(OpClass::Atomic, a, [b, c, 0]);
                (op.virt, op.phys, op.size, op.flags) = (place / 8 * 8, PhysAddr(place / 8 * 8), 8, flags);
            }
            28 => {
                let flags = [0, Op::WRITES, Op::CODE][rng.below(3) as usize];
                let op = program.op(OpClass::Prefetch, 0, [b, 0, 0]);
                (op.virt, op.phys, op.flags) = (address, PhysAddr(address), flags);
            }
            27 if devices && rng.below(3) == 0 => {
                let op = program.op(OpClass::Device, a, [b, 0, 0]);
                (op.virt, op.size, op.flags) = (0x4000_0000, 4, if a % 2 == 0 { Op::WRITES } else { 0 });
            }
            _ => {
                program.op(OpClass::Int, a, [b, if rng.below(2) == 0 { c } else { 0 }, 0]);
            }
        }
    }
    program.ops
}

/// A random valid configuration, small enough that its limits are reached.
pub fn random_config(rng: &mut Rng) -> PipelineConfig {
    let mut config = PipelineConfig::default();
    let mut upto = |high: u64| 1 + rng.below(high) as u32;
    config.fetch_width = upto(5);
    config.decode_width = upto(5);
    config.rename_width = upto(5);
    config.dispatch_width = upto(5);
    config.issue_width = upto(5);
    config.writeback_width = upto(5);
    config.commit_width = upto(5);
    config.drain_width = upto(2);
    config.front_end_depth = 2 + upto(8);
    config.fetch_queue = upto(40);
    config.redirect_cycles = upto(4);
    config.misfetch_cycles = upto(4);
    config.serialising_cycles = upto(4);
    config.commit_cycles = upto(4);
    config.in_order_window = upto(24) - 1;
    config.rob = upto(40);
    config.iq = upto(20);
    config.lq = upto(10);
    config.sq = upto(10);
    config.int_registers = 32 + upto(30);
    config.float_registers = 32 + upto(10);
    config.address_cycles = upto(3);
    config.forward_cycles = upto(4);
    config.drains_in_flight = upto(4);
    let units = &mut config.units;
    units.alus = upto(3);
    units.branch_units = upto(3) - 1;
    units.load_ports = upto(3);
    units.store_ports = upto(3) - 1;
    units.float_adders = upto(2);
    units.multiply_cycles = upto(5);
    units.divide_cycles = upto(25);
    config
}
