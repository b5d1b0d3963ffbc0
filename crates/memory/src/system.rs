//! The memory system: its components and how they are connected.
use doorbell_sim::memory::{CoreAccess, DmaEntryPoint, Level, Prefetched, Served};
use doorbell_sim::{
    Bytes, CoreCycle, CoreDomain, DomainClock, Hertz, PhysAddr, Ps, UncoreCycle, UncoreDomain,
};

use crate::backing::MainMemory;
use crate::cache::Cache;
use crate::class::{DataClass, LineClasses};
use crate::coherence::directory::Directory;
use crate::coherence::sharers::Sharers;
use crate::coherence::sharing::Sharing;
use crate::coherence::stats::SharingStats;
use crate::config::{Inclusion, MemoryConfig, PrivateConfig, WalkEntry};
use crate::dca::{DEVICES_MAX, DcaPolicy, Steering};
use crate::fabric::Fabric;
use crate::slots::Link;
use crate::stats::{
    CacheStats, CoreStats, DeviceAccount, DeviceStats, HartStats, MemoryStats, Misses, TrafficStats,
};

/// Cycles in the booking ring of a private cache's ports; half of them lie before the current time.
const PRIVATE_WINDOW: usize = 2048;
/// The same for shared resources: harts and devices are further apart in time.
const SHARED_WINDOW: usize = 8192;
/// Intervals in cycles at which shared resources, and memory, advance their current time.
const ADVANCE_INTERVAL: u64 = 128;
const MEMORY_ADVANCE_INTERVAL: u64 = 1024;
/// Threads per core.
const THREADS_MAX: usize = 2;

/// Address range of RAM, in lines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    base: u64,
    pub lines: u32,
}

impl Span {
    /// Number of the line at an address, if it is RAM.
    #[inline]
    pub fn line(&self, addr: PhysAddr) -> Option<u32> {
        let line = addr.0.wrapping_sub(self.base) / 64;
        if line < u64::from(self.lines) { Some(line as u32) } else { None }
    }

    /// Address of a line.
    pub fn addr(&self, line: u32) -> PhysAddr {
        PhysAddr(self.base + 64 * u64::from(line))
    }

    /// Byte offset from the start of RAM.
    pub fn offset(&self, addr: PhysAddr) -> u64 {
        addr.0.wrapping_sub(self.base)
    }
}

/// A hart's private caches and its link.
#[derive(Clone, Debug)]
pub(crate) struct Private {
    pub clock: DomainClock<CoreDomain>,
    /// The hart runs on the clock of LLC and interconnect.
    pub same_clock: bool,
    pub l1i: Cache<CoreDomain>,
    pub l1d: Cache<CoreDomain>,
    pub l2: Cache<CoreDomain>,
    /// Per thread, the first cycle for which requests may still come; [`CoreCycle::MAX`] while the thread
    /// sleeps.
    pub next: [CoreCycle; THREADS_MAX],
    /// There is no L2: `l2` is only a directory of the lines in the L1s.
    pub directory: bool,
    /// Lines to the LLC.
    pub to: Link<UncoreDomain>,
    /// Lines from the LLC.
    pub from: Link<UncoreDomain>,
    pub walks: WalkEntry,
    /// LLC ways in which this hart's lines may be allocated.
    pub llc_ways: u32,
    pub stats: CoreStats,
    pub sharing: SharingStats,
}

/// A hart's clock and private caches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HartSide {
    /// The clock of its core and private caches.
    pub clock: Hertz,
    /// Its private caches.
    pub caches: PrivateConfig,
}

impl Private {
    fn new(side: &HartSide, config: &MemoryConfig) -> Private {
        let (ic, HartSide { clock, caches }) = (&config.interconnect, side);
        let directory = config.levels == 2;
        Private {
            clock: DomainClock::new(*clock),
            same_clock: *clock == ic.clock,
            l1i: Cache::new(&caches.l1i, PRIVATE_WINDOW).enable_quick(),
            l1d: Cache::new(&caches.l1d, PRIVATE_WINDOW).enable_quick(),
            l2: Cache::new(&if directory { caches.directory() } else { caches.l2.clone() }, PRIVATE_WINDOW),
            next: [CoreCycle::MAX; THREADS_MAX],
            directory,
            to: Link::new(ic.bytes_per_cycle, SHARED_WINDOW),
            from: Link::new(ic.bytes_per_cycle, SHARED_WINDOW),
            walks: caches.walks,
            llc_ways: caches.llc_ways.0,
            stats: CoreStats::default(),
            sharing: SharingStats::default(),
        }
    }

    pub fn l1(&mut self, code: bool) -> &mut Cache<CoreDomain> {
        if code { &mut self.l1i } else { &mut self.l1d }
    }
}

/// Caches, interconnect and memory of a machine. `M` is main memory.
#[derive(Clone, Debug)]
pub struct MemorySystem<M> {
    pub(crate) ram: Span,
    pub(crate) harts: Vec<Private>,
    /// Sharers of each line; `None` for a single hart without a directory.
    pub(crate) sharers: Option<Sharers>,
    pub(crate) directory: Option<Directory>,
    /// Stops of the ring or mesh, if one is configured.
    pub(crate) fabric: Option<Box<Fabric>>,
    pub(crate) sharing: Sharing,
    pub(crate) llc: Cache<UncoreDomain>,
    /// Current time of the most advanced requester.
    pub(crate) latest: UncoreCycle,
    pub(crate) inclusion: Inclusion,
    pub(crate) core_ways: u32,
    /// The clock of LLC and interconnect.
    pub(crate) clock: DomainClock<UncoreDomain>,
    pub(crate) latency: u64,
    pub(crate) snoop_latency: u64,
    pub(crate) io_latency: u64,
    pub(crate) io_in: Link<UncoreDomain>,
    pub(crate) io_out: Link<UncoreDomain>,
    pub(crate) header_bytes: u32,
    pub(crate) classes: LineClasses,
    pub(crate) steering: Steering,
    entries: [DmaEntryPoint; DEVICES_MAX],
    pub(crate) devices: DeviceStats,
    /// The same per device, indexed by its number.
    pub(crate) accounts: Vec<DeviceAccount>,
    pub(crate) traffic: TrafficStats,
    /// Lines of each class in the LLC.
    pub(crate) occupancy: [u64; DataClass::COUNT],
    pub(crate) memory: M,
    pub(crate) llc_ways: u32,
}

impl<M: MainMemory> MemorySystem<M> {
    /// An empty memory system for harts with these clocks and equal caches, around RAM of `size` bytes from
    /// `base` on.
    pub fn new(
        config: &MemoryConfig,
        clocks: &[Hertz],
        base: PhysAddr,
        size: Bytes,
        memory: M,
    ) -> Result<MemorySystem<M>, String> {
        let side = |clock: &Hertz| HartSide { clock: *clock, caches: config.private() };
        let harts: Vec<HartSide> = clocks.iter().map(side).collect();
        MemorySystem::with_harts(config, &harts, base, size, memory)
    }

    /// The same for harts that may differ; only the shared part of `config` is used.
    pub fn with_harts(
        config: &MemoryConfig,
        harts: &[HartSide],
        base: PhysAddr,
        size: Bytes,
        memory: M,
    ) -> Result<MemorySystem<M>, String> {
        config.validate(harts.len())?;
        for (index, hart) in harts.iter().enumerate() {
            let levels = hart
                .caches
                .validate(config.llc.ways)
                .and_then(|()| hart.caches.validate_levels(config.levels));
            levels.map_err(|problem| format!("hart {index}: {problem}"))?;
        }
        if !base.0.is_multiple_of(4096) || size.0 == 0 || !size.0.is_multiple_of(64) || size.0 > 1 << 37 {
            return Err(format!(
                "RAM of {size} at {base}: it must start at a page boundary and be at most 128GiB"
            ));
        }
        let span = Span { base: base.0, lines: (size.0 / 64) as u32 };
        let ic = &config.interconnect;
        let mut llc = Cache::new(&config.llc.cache(), SHARED_WINDOW);
        llc.divide(config.llc.slices, config.llc.scatter, base);
        let directory = Directory::new(config, harts.len(), base);
        let track_sharers = harts.len() > 1 || directory.is_some();
        Ok(MemorySystem {
            ram: span,
            sharers: track_sharers.then(|| Sharers::new(span.lines)),
            directory,
            fabric: Fabric::new(config, harts.len()).map(Box::new),
            sharing: Sharing::new(harts.len(), span.lines),
            harts: harts.iter().map(|hart| Private::new(hart, config)).collect(),
            llc,
            latest: UncoreCycle::ZERO,
            inclusion: config.llc.inclusion,
            core_ways: config.llc.core_ways.0,
            clock: DomainClock::new(ic.clock),
            latency: u64::from(ic.latency),
            snoop_latency: u64::from(ic.snoop_latency),
            io_latency: u64::from(ic.io_latency),
            io_in: Link::new(ic.io_bytes_per_cycle, SHARED_WINDOW),
            io_out: Link::new(ic.io_bytes_per_cycle, SHARED_WINDOW),
            header_bytes: config.header_bytes,
            classes: LineClasses::new(span.lines),
            steering: Steering::new(&config.dca, harts.len(), config.levels == 3, span.lines),
            entries: [DmaEntryPoint::default(); DEVICES_MAX],
            devices: DeviceStats::default(),
            accounts: vec![DeviceAccount::default(); DEVICES_MAX],
            traffic: TrafficStats::default(),
            occupancy: [0; DataClass::COUNT],
            memory,
            llc_ways: config.llc.ways,
        })
    }

    /// Returns when an access that leaves the core in its cycle `cycle` is served. Cycles need not increase
    /// from call to call.
    #[inline]
    pub fn core_access(&mut self, hart: usize, cycle: CoreCycle, access: CoreAccess) -> Served {
        self.access::<true>(hart, cycle, access)
    }

    /// Times a software prefetch.
    #[inline]
    pub fn core_prefetch(&mut self, hart: usize, cycle: CoreCycle, access: CoreAccess) -> Prefetched {
        self.prefetch::<true>(hart, cycle, access)
    }

    /// A software prefetch that changes state and counters but takes no time.
    pub fn warm_prefetch(&mut self, hart: usize, access: CoreAccess) {
        self.prefetch::<false>(hart, CoreCycle::ZERO, access);
    }

    /// An access that changes state and counters but takes no time.
    #[inline(always)]
    pub fn warm(&mut self, hart: usize, access: CoreAccess) {
        self.access::<false>(hart, CoreCycle::ZERO, access);
    }

    /// Sets the next fetch cycle of a hart's thread. No earlier request will come from it, so bookings before
    /// that may be dropped.
    #[inline]
    pub fn advance_hart(&mut self, hart: usize, thread: usize, cycle: CoreCycle) {
        let Private { l1i, l1d, l2, next, .. } = &mut self.harts[hart];
        next[thread] = cycle;
        let now = l2.now.max(next[0].min(next[1]));
        (l1i.now, l1d.now, l2.now) = (now, now, now);
    }

    /// A thread sleeps, or is not timed, until the next [`advance_hart`](MemorySystem::advance_hart).
    #[inline]
    pub fn hart_sleeps(&mut self, hart: usize, thread: usize) {
        self.harts[hart].next[thread] = CoreCycle::MAX;
    }

    /// Advances the current time to a hart's or a device's cycle.
    #[inline]
    pub(crate) fn advance_cycle(&mut self, cycle: UncoreCycle) {
        let before = self.latest;
        self.latest = before.max(cycle);
        if cycle.number() / ADVANCE_INTERVAL > before.number() / ADVANCE_INTERVAL {
            self.advance_shared(before);
        }
    }

    /// Advances the shared resources' time to that of the earliest requester. With slow memory a core fetches
    /// tens of microseconds before it commits the stalled instructions.
    #[inline(never)]
    fn advance_shared(&mut self, before: UncoreCycle) {
        let next = |hart: &Private| hart.next[0].min(hart.next[1]);
        let awake = (0..self.harts.len()).filter(|hart| next(&self.harts[*hart]) < CoreCycle::MAX);
        let behind = awake.map(|hart| self.to_shared(hart, next(&self.harts[hart]))).min();
        self.llc.now = self.llc.now.max(self.latest.min(behind.unwrap_or(UncoreCycle::MAX)));
        if self.latest.number() / MEMORY_ADVANCE_INTERVAL > before.number() / MEMORY_ADVANCE_INTERVAL {
            self.memory.advance_to(self.clock.edge(self.latest), self.clock.edge(self.llc.now));
        }
    }

    /// Counts a core's access to a device's registers, which bypasses the memory system.
    pub fn count_mmio(&mut self, write: bool) {
        *if write { &mut self.devices.wil } else { &mut self.devices.prd } += 1;
    }

    /// Sets where a device's requests enter, instead of at the root complex.
    pub fn set_entry(&mut self, device: u8, entry: DmaEntryPoint) {
        self.entries[usize::from(device) % DEVICES_MAX] = entry;
    }

    /// Where a device's requests enter.
    #[inline]
    pub(crate) fn entry(&self, device: u8) -> DmaEntryPoint {
        self.entries[usize::from(device) % DEVICES_MAX]
    }

    /// Sets the direct cache access policy of a device, or of all with `None`, from the next access on.
    pub fn set_policy(&mut self, device: Option<u8>, policy: DcaPolicy) -> Result<(), String> {
        policy.validate(self.llc_ways, self.harts.len())?;
        if policy.places_in_l2() && self.harts.iter().any(|hart| hart.directory) {
            return Err("the place \"l2\" needs memory.levels = 3; use \"allocate\"".to_owned());
        }
        match device {
            Some(device) => self.steering.set(device, policy),
            None => self.steering.set_all(policy),
        }
        Ok(())
    }

    /// Counters of one device's accesses.
    pub fn device_account(&self, device: u8) -> &DeviceAccount {
        &self.accounts[usize::from(device) % DEVICES_MAX]
    }

    /// The policy of a device.
    pub fn policy(&self, device: u8) -> &DcaPolicy {
        self.steering.policy(device)
    }

    /// Whether a directory finds copies in private caches.
    pub fn has_directory(&self) -> bool {
        self.directory.is_some()
    }

    /// The ring or mesh, if configured.
    pub fn fabric(&self) -> Option<&Fabric> {
        self.fabric.as_deref()
    }

    /// Main memory.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// Number of LLC lines of each class, in the order of [`DataClass::ALL`].
    pub fn occupancy(&self) -> [u64; DataClass::COUNT] {
        self.occupancy
    }

    /// Misses so far that a hart's accesses can cause: cheap enough to read at each block.
    #[inline]
    pub fn misses(&self, hart: usize) -> Misses {
        let private = &self.harts[hart];
        Misses {
            l1i: private.l1i.stats.misses,
            l1d: private.l1d.stats.misses,
            l2: private.l2.stats.misses,
            llc: self.llc.stats.misses,
        }
    }

    /// The counters so far.
    pub fn stats(&self) -> MemoryStats {
        let hart = |hart: &Private| {
            let (l1i, l1d, l2) = (hart.l1i.stats(), hart.l1d.stats(), hart.l2.stats());
            let core = CoreStats {
                fetches: l1i.accesses,
                data_accesses: l1d.accesses + hart.stats.walks_at_l2,
                from_l1: l1i.hits + l1d.hits,
                ..hart.stats.clone()
            };
            HartStats { core, l1i, l1d, l2, sharing: hart.sharing.clone() }
        };
        let directory = self.directory.as_ref().map(|directory| directory.stats.clone());
        let links = self.harts.iter().map(|hart| hart.to.late() + hart.from.late()).sum::<u64>();
        let fabric = self.fabric.as_ref().map_or(0, |fabric| fabric.late());
        let links_late = links + self.io_in.late() + self.io_out.late() + fabric;
        MemoryStats {
            directory: directory.unwrap_or_default(),
            harts: self.harts.iter().map(hart).collect(),
            llc: CacheStats {
                late_requests: self.llc.stats().late_requests + links_late,
                ..self.llc.stats()
            },
            devices: self.devices.clone(),
            traffic: self.traffic.clone(),
        }
    }

    /// First interconnect cycle that starts at or after a hart's cycle.
    #[inline]
    pub(crate) fn to_shared(&self, hart: usize, cycle: CoreCycle) -> UncoreCycle {
        let hart = &self.harts[hart];
        match hart.same_clock {
            true => UncoreCycle::new(cycle.number()),
            false => self.clock.edge_at_or_after(hart.clock.edge(cycle)),
        }
    }

    /// First cycle of the hart that starts at or after an interconnect cycle.
    #[inline]
    pub(crate) fn to_core(&self, hart: usize, cycle: UncoreCycle) -> CoreCycle {
        let hart = &self.harts[hart];
        match hart.same_clock {
            true => CoreCycle::new(cycle.number()),
            false => hart.clock.edge_at_or_after(self.clock.edge(cycle)),
        }
    }

    /// An access to an address that is neither RAM nor a device: a round trip on the interconnect.
    #[cold]
    pub(crate) fn outside(&mut self, hart: usize, cycle: CoreCycle) -> Served {
        self.harts[hart].stats.outside_ram += 1;
        let there = self.to_shared(hart, cycle) + 2 * self.latency;
        Served { at: self.to_core(hart, there), level: Level::Dram }
    }

    /// First interconnect cycle that starts at or after `at`.
    pub fn cycle_at(&self, at: Ps) -> UncoreCycle {
        self.clock.edge_at_or_after(at)
    }
}
