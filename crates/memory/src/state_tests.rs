//! For any configuration and any accesses: invariants hold, and a restored system continues identically.

use doorbell_sim::memory::{AccessKind, CoreAccess, DmaAccess, HostMemory};
use doorbell_sim::ports::{DmaPurpose, PhysAddr};
use doorbell_sim::rng::Rng;
use doorbell_sim::{Bytes, Hertz, Ps};
use proptest::prelude::*;

use crate::backing::{FlatMemory, MainMemory};
use crate::coherence::config::{Answers, CoherenceConfig, CoherenceKind};
use crate::config::{CacheConfig, Inclusion, MemoryConfig, WalkEntry};
use crate::dca::{DcaConfig, DcaPolicy, Place, Strategy as DcaStrategy};
use crate::dram::Dram;
use crate::fabric::config::{FabricConfig, FabricKind};
use crate::plain_cycles::{core_access, core_prefetch};
use crate::prefetch::{PrefetchConfig, PrefetchKind};
use crate::replacement::Replacement;
use crate::state::MemoryState;
use crate::system::MemorySystem;
use crate::ways::WayMask;

type System = MemorySystem<FlatMemory>;
type State = MemoryState<<FlatMemory as MainMemory>::State>;

const BASE: u64 = 0x8000_0000;

fn any_cache(rng: &mut Rng, kilobytes: u64) -> CacheConfig {
    let ways = [1, 2, 3, 4, 8, 16, 20][rng.below(7) as usize];
    let sets = (1 << rng.below(4)) * kilobytes;
    let policies = [Replacement::Lru, Replacement::Nru, Replacement::Srrip, Replacement::Drrip];
    let replacement = policies[rng.below(4) as usize];
    let kinds = [PrefetchKind::None, PrefetchKind::NextLine, PrefetchKind::Stride, PrefetchKind::Stream];
    let kind = kinds[rng.below(4) as usize];
    let ports = 1 + rng.below(3) as u32;
    CacheConfig {
        size: Bytes(64 * u64::from(ways) * sets),
        ways,
        latency: rng.below(20) as u32,
        response: rng.below(10) as u32,
        fill: rng.below(4) as u32,
        ports,
        fill_ports: rng.below(u64::from(ports) + 1) as u32,
        bytes_per_cycle: 0,
        mshrs: 1 + rng.below(8) as u32,
        write_buffers: 1 + rng.below(4) as u32,
        replacement,
        prefetch: PrefetchConfig {
            kind,
            degree: 1 + rng.below(4) as u32,
            table: 8,
            ahead: 1 + rng.below(20) as u32,
        },
    }
}

fn any_mask(rng: &mut Rng, ways: u32) -> WayMask {
    WayMask(1 << rng.below(u64::from(ways)) | rng.next_u64() as u32 & WayMask::first(ways).0)
}

fn any_policy(rng: &mut Rng, ways: u32, harts: u64) -> DcaPolicy {
    let mut place = || [Place::Allocate, Place::Update, Place::Memory, Place::L2][rng.below(4) as usize];
    let (headers, payload, descriptors) = (place(), place(), place());
    DcaPolicy {
        enabled: rng.below(5) > 0,
        ways: any_mask(rng, ways),
        descriptor_ways: if rng.below(2) > 0 { Some(any_mask(rng, ways)) } else { None },
        headers,
        payload,
        descriptors,
        l2_hart: rng.below(harts) as u32,
        read_allocate: rng.below(2) > 0,
        strategy: if rng.below(2) > 0 { DcaStrategy::LeakAware } else { DcaStrategy::Fixed },
        window_lines: 16,
        ..DcaPolicy::default()
    }
}

fn without_l2(policy: DcaPolicy) -> DcaPolicy {
    let place = |place| if place == Place::L2 { Place::Allocate } else { place };
    let (headers, payload, descriptors) =
        (place(policy.headers), place(policy.payload), place(policy.descriptors));
    DcaPolicy { headers, payload, descriptors, ..policy }
}

fn any_coherence(rng: &mut Rng, slices: u32) -> CoherenceConfig {
    let ways = 1 + rng.below(16) as u32;
    CoherenceConfig {
        kind: CoherenceKind::Directory,
        // From 0, which means unlimited, to more than the caches' lines.
        entries: if rng.below(4) > 0 { (ways * slices) << rng.below(6) } else { 0 },
        ways,
        latency: rng.below(10) as u32,
        snoop: rng.below(20) as u32,
        answers: if rng.below(2) > 0 { Answers::Direct } else { Answers::Home },
    }
}

fn any_fabric(rng: &mut Rng) -> FabricConfig {
    FabricConfig {
        kind: [FabricKind::Crossbar, FabricKind::Ring, FabricKind::Mesh][rng.below(3) as usize],
        columns: 1 + rng.below(4) as u32,
        hop: 1 + rng.below(4) as u32,
        hop_across: 1 + rng.below(4) as u32,
        bytes_per_cycle: 1 << rng.below(7),
        ..FabricConfig::default()
    }
}

fn any_config(rng: &mut Rng, harts: u64) -> MemoryConfig {
    let llc = any_cache(rng, 4);
    let mut config = MemoryConfig {
        l1i: any_cache(rng, 1),
        l1d: any_cache(rng, 1),
        l2: CacheConfig { bytes_per_cycle: [0, 19, 32][rng.below(3) as usize], ..any_cache(rng, 2) },
        walks: if rng.below(2) > 0 { WalkEntry::L1d } else { WalkEntry::L2 },
        ..MemoryConfig::default()
    };
    let into = &mut config.llc;
    (into.size, into.ways, into.latency, into.ports) = (llc.size, llc.ways, llc.latency, llc.ports);
    (into.mshrs, into.write_buffers, into.replacement) = (llc.mshrs, llc.write_buffers, llc.replacement);
    into.inclusion =
        [Inclusion::Inclusive, Inclusion::NonInclusive, Inclusion::Exclusive][rng.below(3) as usize];
    into.core_ways = any_mask(rng, llc.ways);
    into.slices = 1 << rng.below(3);
    into.scatter = rng.below(2) == 1;
    if rng.below(2) == 0 {
        config.coherence = any_coherence(rng, config.llc.slices);
    }
    config.fabric = any_fabric(rng);
    config.dca.policy = any_policy(rng, llc.ways, harts);
    if rng.below(3) == 0 {
        // Two levels, if the rest of the configuration allows it.
        let two = MemoryConfig { levels: 2, walks: WalkEntry::L1d, ..config.clone() };
        let policy = without_l2(two.dca.policy.clone());
        let two = MemoryConfig { dca: DcaConfig { policy, ..two.dca.clone() }, ..two };
        config = if two.validate(harts as usize).is_ok() { two } else { config };
    }
    config.interconnect.bytes_per_cycle = 1 << rng.below(8);
    config.interconnect.io_bytes_per_cycle = 1 << rng.below(8);
    config
}

fn system(config: &MemoryConfig, harts: u64) -> System {
    let clocks: Vec<Hertz> = (0..harts).map(|hart| Hertz(3_000_000_000 - hart * 700_000_000)).collect();
    let memory = FlatMemory::new(Ps::from_ns(50), Ps::from_ns(3));
    MemorySystem::new(config, &clocks, PhysAddr(BASE), Bytes(1 << 20), memory).unwrap()
}

/// Random accesses at about `step` · 5 ns; returns all completion times.
fn drive<M: MainMemory>(
    system: &mut MemorySystem<M>,
    rng: &mut Rng,
    harts: u64,
    steps: std::ops::Range<u64>,
) -> Vec<u64> {
    let mut answers = Vec::new();
    for step in steps {
        let addr = PhysAddr(BASE + 8 * rng.below(8 * 400));
        let now = Ps(5_000 * step + rng.below(500_000));
        let kind = DmaPurpose::ALL[rng.below(7) as usize];
        let access = DmaAccess::plain(rng.below(2) as u8, kind, rng.below(3) as u32 * 64);
        let line = PhysAddr(addr.0 & !63);
        answers.push(match rng.below(8) {
            0 => system.device_write(now, line, 64, access).0,
            1 => system.device_write(now, addr, 8, access).0,
            2 => system.device_read(now, line, 64, access).0,
            kind => {
                let kind = [
                    AccessKind::Load,
                    AccessKind::Store,
                    AccessKind::Fetch,
                    AccessKind::Walk,
                    AccessKind::Load,
                ][kind as usize - 3];
                let access = CoreAccess { kind, addr, pc: 0x1000 + 4 * rng.below(4) };
                let hart = rng.below(harts) as usize;
                if kind != AccessKind::Walk && rng.below(4) == 0 {
                    core_prefetch(system, hart, now.0 / 400, access).at.number()
                } else {
                    core_access(system, hart, now.0 / 400, access).at
                }
            }
        });
        if rng.below(100) == 0 {
            let policy = any_policy(rng, system.llc_ways, harts);
            let policy = if system.harts[0].directory { without_l2(policy) } else { policy };
            let device = if rng.below(2) > 0 { Some(1) } else { None };
            system.set_policy(device, policy).unwrap();
        }
    }
    answers
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// Inclusion, one writer or many readers, lines in = lines out + lines present, accounts of devices'
    /// lines.
    #[test]
    fn invariants_hold_for_any_configuration_and_any_accesses(seed: u64, harts in 1u64..4) {
        let rng = &mut Rng::stream(seed, "any");
        let config = any_config(rng, harts);
        config.validate(harts as usize).unwrap();
        let mut system = system(&config, harts);
        for part in 0..15 {
            drive(&mut system, rng, harts, part * 100..part * 100 + 100);
            if let Err(problem) = system.check_invariants() {
                prop_assert!(false, "{problem}\n{config:?}");
            }
        }
    }

    #[test]
    fn a_restored_system_continues_identically(seed: u64, harts in 1u64..3) {
        let rng = &mut Rng::stream(seed, "any");
        let config = any_config(rng, harts);
        let mut original = system(&config, harts);
        drive(&mut original, rng, harts, 0..500);
        let bytes = postcard::to_stdvec(&original.save()).unwrap();
        let state: State = postcard::from_bytes(&bytes).unwrap();
        let mut restored = system(&config, harts);
        restored.restore(state).unwrap();
        let answers = drive(&mut original, &mut rng.clone(), harts, 500..1_000);
        prop_assert_eq!(answers, drive(&mut restored, rng, harts, 500..1_000));
        prop_assert!(original.save() == restored.save());
        prop_assert_eq!(original.stats(), restored.stats());
    }

    /// Changes one byte of a saved state: it is either rejected without effect, or usable.
    #[test]
    fn a_damaged_state_is_rejected_or_harmless(seed: u64, at: proptest::sample::Index, value: u8) {
        let rng = &mut Rng::stream(seed, "any");
        let config = any_config(rng, 2);
        let mut system = system(&config, 2);
        drive(&mut system, rng, 2, 0..300);
        let mut bytes = postcard::to_stdvec(&system.save()).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = value;
        let before = system.save();
        let Ok(state) = postcard::from_bytes::<State>(&bytes) else { return Ok(()) };
        match system.restore(state) {
            Err(_) => prop_assert!(system.save() == before),
            Ok(()) => {
                drive(&mut system, rng, 2, 300..500);
            }
        }
    }
}

/// With DRAM behind the caches: invariants hold, and a restored system continues identically.
#[test]
fn caches_and_dram_work_together() {
    for seed in 0..20 {
        let rng = &mut Rng::stream(seed, "dram");
        let config = any_config(rng, 2);
        let build = || {
            let clocks = [Hertz(3_000_000_000), Hertz(2_300_000_000)];
            let dram = Dram::new(&config.dram);
            MemorySystem::new(&config, &clocks, PhysAddr(BASE), Bytes(1 << 20), dram).unwrap()
        };
        let mut original = build();
        drive(&mut original, rng, 2, 0..1_000);
        original.check_invariants().unwrap();
        let mut restored = build();
        restored.restore(original.save()).unwrap();
        let answers = drive(&mut original, &mut rng.clone(), 2, 1_000..1_500);
        assert_eq!(answers, drive(&mut restored, rng, 2, 1_000..1_500), "seed {seed}");
        let channels: u64 = original.memory().stats().map(|channel| channel.reads + channel.writes).sum();
        let traffic = original.stats().traffic;
        assert_eq!(channels, traffic.memory_reads + traffic.memory_writes, "seed {seed}");
    }
}

#[test]
fn a_state_of_another_machine_is_rejected_with_the_reason() {
    let config = MemoryConfig::default();
    let mut larger = config.clone();
    larger.llc.size = Bytes(8 << 20);
    let mut one = system(&config, 1);
    for other in [system(&config, 2).save(), system(&larger, 1).save()] {
        let error = one.restore(other).unwrap_err().to_string();
        assert!(error.contains("\"memory\" is inconsistent"), "{error}");
    }
    one.restore(system(&config, 1).save()).unwrap();
}

#[test]
fn tags_of_a_64_mib_llc_take_less_than_16_mib_on_the_host() {
    let mut config = MemoryConfig::default();
    config.llc.size = Bytes(64 << 20);
    let system = system(&config, 1);
    let lines = (64 << 20) / 64;
    // Per line 8 bytes of arrival time, 4 of tag and 1 of flags; per 16 ways 16 bytes of header; alignment
    // padding twice.
    let bytes = lines * (8 + 4 + 1) + lines / 16 * 16 + 2 * (4096 + 64);
    assert_eq!(system.llc.tags.bytes(), bytes);
    assert!(bytes < 16 << 20);
}

/// An empty system of two harts with a directory: its saved bytes change only with the layout.
#[test]
fn the_saved_layout_changes_only_with_its_version() {
    let mut config = MemoryConfig::default();
    for cache in [&mut config.l1i, &mut config.l1d, &mut config.l2] {
        (cache.size, cache.ways) = (Bytes(64), 1);
    }
    (config.llc.size, config.llc.ways) = (Bytes(128), 2);
    config.dca.policy.ways = WayMask::first(1);
    config.coherence =
        CoherenceConfig { kind: CoherenceKind::Directory, entries: 12, ..CoherenceConfig::default() };
    let bytes = postcard::to_stdvec(&system(&config, 2).save()).unwrap();
    // FNV-1a.
    let add = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let sum = bytes.iter().fold(0xcbf2_9ce4_8422_2325, add);
    assert_eq!(
        (State::VERSION, bytes.len(), sum),
        (10, 558_430, 3_728_704_875_853_246_572),
        "if the layout changes, increase the version and copy these values"
    );
}
