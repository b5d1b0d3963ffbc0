//! Regression test of the memory system: a hash of its results for fixed access patterns, one per machine.
//!
//! An optimization must not change any result: every completion time and level, every counter and the LLC's
//! contents are hashed. After an intended change of a model, copy the new values from the failing test's
//! message and describe the reason in the commit.

use doorbell_memory::coherence::config::CoherenceKind;
use doorbell_memory::config::{Inclusion, MemoryConfig, WalkEntry};
use doorbell_memory::dca::{DcaPolicy, Place, Strategy};
use doorbell_memory::dram::{Dram, DramStandard, PagePolicy};
use doorbell_memory::prefetch::PrefetchKind;
use doorbell_memory::replacement::Replacement;
use doorbell_memory::{MemoryStats, MemorySystem, WayMask};
use doorbell_sim::memory::{AccessKind, CoreAccess, DmaAccess, HostMemory};
use doorbell_sim::ports::{DmaPurpose, PhysAddr};
use doorbell_sim::rng::Rng;
use doorbell_sim::stats::Stats;
use doorbell_sim::{Bytes, CoreDomain, DomainClock, Hertz, Ps};

const BASE: u64 = 0x8000_0000;
const RAM: u64 = 64 << 20;

/// FNV-1a over the bytes of numbers.
struct Sum(u64);

impl Sum {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn number(&mut self, number: u64) {
        self.add(&number.to_le_bytes());
    }

    /// Only non-zero counters are hashed, so that a new counter does not change the hash of machines that do
    /// not use it.
    fn counters(&mut self, stats: &MemoryStats) {
        let mut all = [stats.llc.counters(), stats.devices.counters(), stats.traffic.counters()].concat();
        for hart in &stats.harts {
            all.extend(hart.core.counters());
            [&hart.l1i, &hart.l1d, &hart.l2].iter().for_each(|cache| all.extend(cache.counters()));
        }
        for counter in all.iter().filter(|counter| counter.value != 0) {
            self.add(counter.name.as_bytes());
            self.number(counter.value);
        }
    }
}

/// Streams, a hot region, scattered lines, and device-written lines: like a packet loop, but more irregular.
fn core_access(rng: &mut Rng, step: u64) -> CoreAccess {
    let scattered = rng.below(RAM / 8) * 8;
    let offset = match rng.below(16) {
        0..6 => rng.below(4 << 10) * 8,
        6..9 => (1 << 20) + (step * 24) % (256 << 10),
        9..12 => (2 << 20) + rng.below(128 << 10) * 8,
        12..14 => (8 << 20) + (step * 64 + rng.below(64)) % (512 << 10),
        14 if rng.below(64) == 0 => RAM + scattered,
        _ => scattered,
    };
    let kind = match rng.below(16) {
        0..8 => AccessKind::Load,
        8..11 => AccessKind::Store,
        11..15 => AccessKind::Fetch,
        _ => AccessKind::Walk,
    };
    CoreAccess { kind, addr: PhysAddr(BASE + offset), pc: BASE + rng.below(40) * 4 }
}

/// Writes, and sometimes reads, of a frame's lines and descriptors.
fn device_access(system: &mut impl HostMemory, rng: &mut Rng, step: u64, now: Ps) -> Ps {
    let kind = match rng.below(8) {
        0..4 => DmaPurpose::RxData,
        4..6 => DmaPurpose::TxData,
        6 => DmaPurpose::RxDescriptor,
        _ => DmaPurpose::TxDescriptor,
    };
    let addr = PhysAddr(BASE + (8 << 20) + (step * 64 + rng.below(4096)) % (4 << 20));
    let access = DmaAccess::plain(rng.below(2) as u8, kind, (step % 24 * 64) as u32);
    let bytes = if rng.below(8) == 0 { 16 } else { 64 };
    let addr = if bytes == 64 { PhysAddr(addr.0 & !63) } else { addr };
    match rng.below(3) {
        0 => system.device_read(now, addr, bytes, access),
        _ => system.device_write(now, addr, bytes, access),
    }
}

/// Hash of the results of 60,000 accesses, some of them warming only, with a save and restore in between.
fn answers(config: &MemoryConfig, clocks: &[u64]) -> u64 {
    let clocks: Vec<Hertz> = clocks.iter().map(|mhz| Hertz(mhz * 1_000_000)).collect();
    let new = || {
        MemorySystem::new(config, &clocks, PhysAddr(BASE), Bytes(RAM), Dram::new(&config.dram))
            .expect("the configuration is valid")
    };
    let (mut system, mut sum) = (new(), Sum(0xcbf2_9ce4_8422_2325));
    let mut rng = Rng::stream(11, "answers");
    let mut now = Ps::ZERO;
    for step in 0..60_000u64 {
        // Bursts and pauses; harts run ahead of and behind each other.
        now += Ps(match (step / 2000 % 3, rng.below(400)) {
            (_, 0) => 3_000_000,
            (0, _) => rng.below(1000),
            (1, _) => rng.below(8000),
            _ => rng.below(80_000),
        });
        let hart = rng.below(clocks.len() as u64) as usize;
        let clock = DomainClock::<CoreDomain>::new(clocks[hart]);
        system.advance_to(now);
        system.advance_hart(hart, 0, clock.edge_at_or_before(now));
        let then = now + Ps(rng.below(1_000_000));
        let access = core_access(&mut rng, step);
        match rng.below(32) {
            0..3 => {
                let done = device_access(&mut system, &mut rng, step, then);
                sum.number(done.0);
            }
            3 if rng.below(4) == 0 => system.warm(hart, access),
            _ => {
                let served = system.core_access(hart, clock.edge_at_or_after(then), access);
                sum.number(served.at.number() << 3 | served.level as u64);
            }
        }
        if step == 30_000 {
            let state = system.save();
            system = new();
            system.restore(state).expect("a saved state can be restored");
        }
    }
    sum.counters(&system.stats());
    system.memory().stats().for_each(|channel| sum.add(&postcard::to_stdvec(&channel).expect("numbers")));
    system.occupancy().iter().for_each(|lines| sum.number(*lines));
    sum.0
}

/// The default machine, with small caches so that all cases occur and without a directory, modified by
/// `change`.
fn machine(change: impl FnOnce(&mut MemoryConfig)) -> MemoryConfig {
    let mut config = MemoryConfig::default();
    config.l1d.size = Bytes(16 << 10);
    config.l2.size = Bytes(128 << 10);
    config.llc.size = Bytes(1 << 20);
    config.coherence.kind = CoherenceKind::Ideal;
    change(&mut config);
    config
}

fn replaced_by(replacement: Replacement) -> MemoryConfig {
    machine(|config| {
        config.l1d.replacement = replacement;
        config.l2.replacement = replacement;
        config.llc.replacement = replacement;
        config.llc.core_ways = WayMask(0xfff0);
    })
}

fn prefetching(kind: PrefetchKind) -> MemoryConfig {
    machine(|config| {
        for cache in [&mut config.l1i, &mut config.l1d, &mut config.l2] {
            cache.prefetch.kind = kind;
            cache.prefetch.degree = 3;
        }
        config.walks = WalkEntry::L2;
    })
}

fn placing(change: impl FnOnce(&mut DcaPolicy)) -> MemoryConfig {
    machine(|config| change(&mut config.dca.policy))
}

fn with_dram(standard: DramStandard, page_policy: PagePolicy, channels: u64) -> MemoryConfig {
    machine(|config| {
        config.dram.standard = standard;
        config.dram.page_policy = page_policy;
        config.dram.channels = channels;
        config.l1d.mshrs = 64;
    })
}

#[test]
fn results_are_unchanged() {
    let include = |inclusion| machine(|config| config.llc.inclusion = inclusion);
    let odd_ways = machine(|config| {
        config.l1i.ways = 1;
        config.l1d.ways = 2;
        config.l2.ways = 16;
        (config.llc.ways, config.llc.size) = (20, Bytes(1280 << 10));
    });
    let evading = |policy: &mut DcaPolicy| (policy.strategy, policy.window_lines) = (Strategy::LeakAware, 64);
    let to_l2 = |policy: &mut DcaPolicy| (policy.headers, policy.read_allocate) = (Place::L2, true);
    let directory = machine(|config| config.coherence.kind = CoherenceKind::Auto);
    let machines: [(_, _, &[u64], u64); 18] = [
        ("default", MemoryConfig::default(), &[3000], 0xc8df_295c_6929_dc07),
        ("small", machine(|_| {}), &[3000], 0xdb65_790d_aab4_571f),
        ("one clock", machine(|_| {}), &[2000], 0x523b_1311_1fd2_b409),
        ("odd clocks", machine(|_| {}), &[2333, 3001], 0x7591_e179_dc12_78fe),
        ("four harts", machine(|_| {}), &[3000, 3000, 2000, 1500], 0x2a6c_754c_dcdb_5786),
        ("a directory", directory, &[3000, 3000, 2000, 1500], 0x7f13_de4e_5096_4fa5),
        ("inclusive", include(Inclusion::Inclusive), &[3000, 3000], 0x7bfc_3daa_fa10_29de),
        ("exclusive", include(Inclusion::Exclusive), &[3000, 3000], 0x517c_89f1_1b39_7a10),
        ("odd ways", odd_ways, &[3000], 0x6320_3640_ae3f_8b59),
        ("srrip", replaced_by(Replacement::Srrip), &[3000], 0x0d6d_ef12_8420_cb44),
        ("drrip", replaced_by(Replacement::Drrip), &[3000], 0x913e_7537_8005_513b),
        ("next-line", prefetching(PrefetchKind::NextLine), &[3000], 0x7cc9_a378_4aa8_98ff),
        ("stride", prefetching(PrefetchKind::Stride), &[3000, 2500], 0x07c2_4880_dbb2_5087),
        ("leak-aware", placing(evading), &[3000], 0x7fe4_c587_3762_2230),
        ("to the L2", placing(to_l2), &[3000], 0x50e2_37eb_a4fd_c2de),
        ("no DCA", placing(|policy| policy.enabled = false), &[3000], 0x17b8_1658_a85d_3522),
        (
            "ddr4-3200",
            with_dram(DramStandard::Ddr4_3200, PagePolicy::Closed, 2),
            &[3000],
            0x491f_79d0_e284_4b37,
        ),
        (
            "ddr5-4800",
            with_dram(DramStandard::Ddr5_4800, PagePolicy::Adaptive, 4),
            &[3000],
            0xb2bd_e8cd_042f_4f5b,
        ),
    ];
    let actual: Vec<(&str, u64)> =
        machines.iter().map(|(name, config, clocks, _)| (*name, answers(config, clocks))).collect();
    let expected: Vec<(&str, u64)> =
        machines.iter().map(|(name, _, _, expected)| (*name, *expected)).collect();
    assert_eq!(actual, expected);
}
