//! The op streams of executing harts are recorded and fed to equal timing models without harts. All cycles
//! and counters must match, with traps, sleep, fences, address-space changes, page walks, interrupts and DMA.

use std::collections::VecDeque;

use doorbell_assembler::*;
use doorbell_platform::map;
use doorbell_riscv::{Hart, Interrupt, Stop};
use doorbell_sim::memory::{DmaAccess, HostMemory, Walk};
use doorbell_sim::ports::DmaPurpose;
use doorbell_sim::stats::Stats;
use doorbell_sim::{BlockEnd, CoreCycle, Op, OpClass, OpSource, PhysAddr, Ps, Ram, TranslationFence};

use super::paged::{BASE, WINDOW, enter, open_memory, tables};
use super::{Mode, Timing};
use crate::config::{ConfigError, MachineConfig};
use crate::machine::Machine;
use crate::overlay::Overlay;
use crate::run::Limits;

/// Data shared by the harts.
const DATA: u64 = BASE + (1 << 20);
/// Page tables, 64 KiB per hart.
const TABLES: u64 = BASE + (2 << 20);
/// Page frames of the [`PAGES`] virtual pages.
const FRAMES: u64 = BASE + (4 << 20);
const PAGES: u64 = 256;
const END: Ps = Ps::from_us(60);

fn config(set: &[&str]) -> MachineConfig {
    let mut overlay = Overlay::default();
    let all = [
        "platform.nics=0",
        "platform.ram=64MiB",
        "platform.harts=3",
        "core.model=timed",
        "hart.1.core.frequency=1.1GHz",
        "hart.1.pipeline.kind=in-order",
        "hart.1.memory.walks=l2",
        "hart.2.memory.l2.size=256KiB",
        "hart.2.memory.l2.prefetch.kind=stride",
    ];
    all.iter().chain(set).for_each(|assignment| overlay.set(assignment).unwrap());
    overlay.resolve().unwrap()
}

/// Each hart runs in supervisor mode with its own page tables. It increments a shared counter, accesses pages
/// of its window, calls the firmware, changes its address space, flushes translations, and sometimes sleeps
/// until an interrupt.
fn program() -> Vec<u8> {
    let mut a = Assembler::new(BASE);
    a.la(T0, "trap");
    a.csrw(csr::MTVEC, T0);
    open_memory(&mut a);
    a.li(T0, 1 << 11);
    a.csrw(csr::MIE, T0);
    // Root, and two lower levels for the window. RAM is mapped by one 1-GiB page.
    a.slli(S0, A0, 16);
    a.li(T0, TABLES);
    a.add(S0, S0, T0);
    tables(&mut a, FRAMES);
    a.li(T2, PAGES);
    a.label("page");
    a.sd(T0, S2, 0);
    a.addi(T0, T0, 1024);
    a.addi(S2, S2, 8);
    a.addi(T2, T2, -1);
    a.bnez(T2, "page");
    enter(&mut a, "loop");

    a.label("loop");
    a.li(S4, DATA);
    a.li(S5, WINDOW);
    a.addi(S6, ZERO, 1);
    a.slli(A6, S6, 44);
    a.label("round");
    a.amoadd(T1, S6, S4);
    a.andi(T2, T1, PAGES as i32 - 1);
    a.slli(T2, T2, 12);
    a.add(T2, T2, S5);
    a.ld(T3, T2, 8);
    a.add(T3, T3, T1);
    a.sd(T3, T2, 8);
    a.andi(T3, T1, 15);
    a.bnez(T3, "round");
    a.ecall();
    a.andi(T3, T1, 63);
    a.bnez(T3, "round");
    a.add(S3, S3, A6);
    a.csrw(csr::SATP, S3);
    a.sfence_vma(T2, ZERO);
    a.fence();
    a.andi(T3, T1, 255);
    a.bnez(T3, "round");
    a.wfi();
    a.sfence_vma(ZERO, ZERO);
    a.j("round");

    a.label("trap");
    a.csrr(T4, csr::MCAUSE);
    a.bltz(T4, "back");
    a.csrr(T5, csr::MEPC);
    a.addi(T5, T5, 4);
    a.csrw(csr::MEPC, T5);
    a.label("back");
    a.mret();
    a.finish()
}

/// Harts and RAM taken out of a machine.
fn harts(config: &MachineConfig) -> (Vec<Hart>, Ram) {
    let mut machine = Machine::new(config.clone(), 1).unwrap();
    assert!(machine.load_bare(&program()));
    let Machine { harts, ram, .. } = machine;
    (harts.into_vec(), ram)
}

/// A recorded block.
#[derive(Debug)]
struct Block {
    /// The cycle in which it begins, if the hart slept before it.
    woken: Option<CoreCycle>,
    space: Option<u16>,
    ops: Vec<Op>,
    trapped: bool,
    instructions: u64,
    fence: Option<TranslationFence>,
}

/// A hart that executes, with its recorded blocks and walks.
struct Recorder {
    hart: Hart,
    cycle_set: CoreCycle,
    blocks: VecDeque<Block>,
    walks: VecDeque<(u64, Walk)>,
}

impl Recorder {
    fn new(hart: Hart) -> Recorder {
        Recorder { hart, cycle_set: CoreCycle::ZERO, blocks: VecDeque::new(), walks: VecDeque::new() }
    }
}

impl OpSource for Recorder {
    type World = Ram;
    type Stop = Stop;

    fn is_ready(&self) -> bool {
        self.hart.is_ready()
    }

    fn cycle(&self) -> CoreCycle {
        self.hart.cycle()
    }

    fn set_cycle(&mut self, cycle: CoreCycle) {
        self.cycle_set = cycle;
        self.hart.set_cycle(cycle);
    }

    fn instructions(&self) -> u64 {
        self.hart.instructions()
    }

    fn address_space(&self) -> Option<u16> {
        self.hart.address_space()
    }

    fn block(&mut self, ram: &mut Ram, ops: &mut Vec<Op>) -> BlockEnd<Stop> {
        let woken = (self.hart.cycle() != self.cycle_set).then_some(self.hart.cycle());
        let (space, first, before) = (self.hart.address_space(), ops.len(), self.hart.instructions());
        let end = self.hart.block(ram, ops);
        self.blocks.push_back(Block {
            woken,
            space,
            ops: ops[first..].to_vec(),
            trapped: end == BlockEnd::Trapped,
            instructions: self.hart.instructions() - before,
            fence: None,
        });
        end
    }

    fn walk(&mut self, ram: &Ram, virt: u64) -> Walk {
        let walk = self.hart.walk(ram, virt);
        self.walks.push_back((virt, walk));
        walk
    }

    fn take_translation_fence(&mut self) -> Option<TranslationFence> {
        let fence = self.hart.take_translation_fence();
        if let Some(block) = self.blocks.back_mut() {
            block.fence = fence;
        }
        fence
    }

    fn thread(&self) -> u64 {
        self.hart.thread()
    }

    fn byte(&self, ram: &Ram, addr: PhysAddr) -> Option<u8> {
        self.hart.byte(ram, addr)
    }
}

/// Op source that replays a recording without a hart.
struct Replay {
    blocks: VecDeque<Block>,
    walks: VecDeque<(u64, Walk)>,
    cycle: CoreCycle,
    instructions: u64,
    fence: Option<TranslationFence>,
}

impl From<Recorder> for Replay {
    fn from(recorder: Recorder) -> Replay {
        let Recorder { blocks, walks, .. } = recorder;
        Replay { blocks, walks, cycle: CoreCycle::ZERO, instructions: 0, fence: None }
    }
}

impl OpSource for Replay {
    type World = ();
    type Stop = ();

    fn is_ready(&self) -> bool {
        !self.blocks.is_empty()
    }

    fn cycle(&self) -> CoreCycle {
        self.blocks.front().and_then(|block| block.woken).unwrap_or_default().max(self.cycle)
    }

    fn set_cycle(&mut self, cycle: CoreCycle) {
        self.cycle = cycle;
    }

    fn instructions(&self) -> u64 {
        self.instructions
    }

    fn address_space(&self) -> Option<u16> {
        self.blocks.front().expect("it is ready").space
    }

    fn block(&mut self, (): &mut (), ops: &mut Vec<Op>) -> BlockEnd<()> {
        let block = self.blocks.pop_front().expect("it is ready");
        ops.extend_from_slice(&block.ops);
        self.instructions += block.instructions;
        self.fence = block.fence;
        if block.trapped { BlockEnd::Trapped } else { BlockEnd::Continue }
    }

    fn walk(&mut self, (): &(), virt: u64) -> Walk {
        let (recorded, walk) = self.walks.pop_front().expect("as many walks as recorded");
        assert_eq!(recorded, virt, "walks occur in the recorded order");
        walk
    }

    fn take_translation_fence(&mut self) -> Option<TranslationFence> {
        self.fence.take()
    }

    fn thread(&self) -> u64 {
        0
    }

    fn byte(&self, (): &(), _: PhysAddr) -> Option<u8> {
        None
    }
}

/// Runs sources with device activity: DMA writes and reads every 300 ns, and an interrupt of 200 ns per
/// microsecond.
fn run_with_devices<S: OpSource>(
    timing: &mut Timing,
    sources: &mut [S],
    world: &mut S::World,
    mut interrupt: impl FnMut(&mut S, Ps, bool),
) {
    for step in 0..END.0 / 100_000 {
        let now = Ps(100_000 * step);
        while timing.feed(sources, world, now).is_some() {}
        if step % 3 == 0 {
            let addr = PhysAddr(FRAMES + (step * 4096 + 8) / 64 % (16 * PAGES) * 256 / 64 * 64);
            let access = DmaAccess::plain(0, DmaPurpose::RxData, 0);
            timing.memory.device_write(now, addr, 64, access);
            timing.memory.device_read(
                now,
                PhysAddr(DATA),
                64,
                DmaAccess { purpose: DmaPurpose::TxData, ..access },
            );
        }
        if step % 10 < 4 && step % 2 == 0 {
            interrupt(&mut sources[(step / 10 % 3) as usize], now, step % 10 == 0);
        }
    }
    while timing.feed(sources, world, END).is_some() {}
}

fn level(hart: &mut Hart, now: Ps, level: bool) {
    hart.set_interrupt(Interrupt::MachineExternal, level);
    if hart.is_waiting() && hart.interrupt_pending() {
        hart.skip_to(hart.slot_at(now));
    }
}

/// The saved state of the timing models, and all counters.
fn state(timing: &Timing) -> Vec<u8> {
    let harts = (0..timing.harts.len()).map(|id| timing.save_hart(id));
    let cores = (0..timing.harts.len()).map(|id| timing.core(id).stats().counters());
    let counters: Vec<u64> = cores.flatten().map(|counter| counter.value).collect();
    let whole = (timing.save(&[]), harts.collect::<Vec<_>>(), counters);
    postcard::to_stdvec(&whole).unwrap()
}

/// Cold timing models for as many sources as the machine has harts.
fn for_sources(config: &MachineConfig) -> Result<Timing, ConfigError> {
    let memory = (PhysAddr(map::RAM_BASE), config.platform.ram);
    Timing::for_playback(config, memory, config.platform.harts as usize)
}

#[test]
fn fed_sources_have_the_same_timing_as_the_harts_of_a_machine() {
    let config = config(&[]);
    let mut machine = Machine::new(config.clone(), 1).unwrap();
    assert!(machine.load_bare(&program()));
    machine.set_mode(Mode::Detailed);
    machine.run(&Limits::until(END));
    let (mut harts, mut ram) = harts(&config);
    let mut timing = for_sources(&config).unwrap();
    while let Some((_, stop)) = timing.feed(&mut harts, &mut ram, END) {
        assert_eq!(stop, Stop::Wfi);
    }
    assert!(machine.instructions() > 1000, "{} instructions", machine.instructions());
    assert_eq!(harts.iter().map(Hart::time).max(), machine.harts().iter().map(Hart::time).max());
    assert!(state(&timing) == state(machine.timing().unwrap()), "the timing models are in another state");
}

#[test]
fn replayed_recording_has_the_same_timing_as_the_execution() {
    for mode in [Mode::Detailed, Mode::Warming] {
        let config = config(&[]);
        let (harts, mut ram) = harts(&config);
        let mut sources: Vec<Recorder> = harts.into_iter().map(Recorder::new).collect();
        let mut executed = for_sources(&config).unwrap();
        executed.mode = mode;
        run_with_devices(&mut executed, &mut sources, &mut ram, |source, now, on| {
            level(&mut source.hart, now, on);
        });

        let blocks = || sources.iter().flat_map(|source| &source.blocks);
        let interrupts: u64 = sources.iter().map(|source| source.hart.stats().interrupts).sum();
        let seen = [
            blocks().count(),
            blocks().filter(|block| block.trapped).count(),
            blocks().filter(|block| block.woken.is_some()).count(),
            blocks().filter(|block| block.fence.is_some()).count(),
            blocks().filter(|block| block.space.is_some_and(|space| space > 2)).count(),
            sources.iter().map(|source| source.walks.len()).sum(),
            interrupts as usize,
        ];
        assert!(seen.iter().all(|count| *count > 5), "{mode:?}: {seen:?} of each kind");

        let mut sources: Vec<Replay> = sources.into_iter().map(Replay::from).collect();
        let mut fed = for_sources(&config).unwrap();
        fed.mode = mode;
        run_with_devices(&mut fed, &mut sources, &mut (), |_, _, _| {});
        assert!(sources.iter().all(|source| source.blocks.is_empty() && source.walks.is_empty()), "{mode:?}");
        for id in 0..3 {
            assert_eq!(fed.core(id).now(), executed.core(id).now(), "{mode:?}: cycles of hart {id}");
            assert_eq!(fed.core(id).stats().counters(), executed.core(id).stats().counters(), "{mode:?}");
        }
        assert_eq!(fed.memory.stats(), executed.memory.stats(), "{mode:?}");
        // Otherwise the states differ: a source at the end of its recording sleeps, a hart does not.
        for timing in [&mut fed, &mut executed] {
            (0..3).for_each(|id| timing.source_sleeps(id));
            timing.memory.advance_to(END);
        }
        assert!(state(&fed) == state(&executed), "{mode:?}: the timing models are in another state");
    }
}

#[test]
fn the_same_ops_take_longer_with_a_slower_last_level_cache() {
    let (harts, mut ram) = harts(&config(&[]));
    let mut sources: Vec<Recorder> = harts.into_iter().map(Recorder::new).collect();
    let mut quick = for_sources(&config(&[])).unwrap();
    while quick.feed(&mut sources, &mut ram, Ps::from_us(5)).is_some() {}
    let mut sources: Vec<Replay> = sources.into_iter().map(Replay::from).collect();
    let mut slow = for_sources(&config(&["memory.llc.latency=200"])).unwrap();
    while slow.feed(&mut sources, &mut (), Ps::from_us(1000)).is_some() {}
    for id in 0..3 {
        assert_eq!(slow.core(id).stats().counts.ops, quick.core(id).stats().counts.ops);
        assert!(slow.core(id).now() > quick.core(id).now() + quick.core(id).now().number() / 4, "hart {id}");
    }
}

#[test]
fn device_access_takes_the_time_that_the_caller_sets() {
    let mut config = config(&["platform.harts=1"]);
    config.hart.clear();
    let mut timing = for_sources(&config).unwrap();
    let block = Block {
        woken: None,
        space: None,
        ops: vec![Op { length: 4, pc: BASE, fetch: PhysAddr(BASE), ..Op::default() }],
        trapped: false,
        instructions: 1,
        fence: None,
    };
    let (blocks, walks) = (VecDeque::from([block]), VecDeque::new());
    let mut source = [Replay { blocks, walks, cycle: CoreCycle::ZERO, instructions: 0, fence: None }];
    assert_eq!(timing.feed(&mut source, &mut (), Ps::from_us(10)), None, "it has ended");
    let before = source[0].cycle;
    let device = Op {
        class: OpClass::Device,
        phys: PhysAddr(0x1000_0000),
        ..Op { length: 4, pc: BASE + 4, fetch: PhysAddr(BASE + 4), ..Op::default() }
    };
    timing.begin_device(0, &mut source[0], &(), device);
    let sent = source[0].cycle;
    assert!(sent >= before, "{sent:?} and {before:?}");
    timing.end_device(0, &mut source[0], [sent + 5000; 2]);
    assert!((sent + 5000..sent + 5010).contains(&source[0].cycle), "{:?}", source[0].cycle);
    timing.end_device(0, &mut source[0], [sent + 9000; 2]);
    assert!(source[0].cycle < sent + 9000, "no device access is pending any more");
}

#[test]
fn sources_require_the_timed_core_model() {
    let mut config = config(&[]);
    config.core.model = crate::config::CoreModel::Functional;
    assert_eq!(for_sources(&config).err().map(|error| error.key), Some("core.model".to_owned()));
}
