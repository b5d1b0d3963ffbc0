//! How cores and devices meet the memory system when it is timed. *When* only: data are in [`Ram`](crate::Ram).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::op::Op;
use crate::ports::{DmaKind, DmaRequest, DmaTag, PhysAddr};
use crate::time::Ps;

/// Bytes of a cache line, the unit in which memory is moved and kept.
pub const LINE_BYTES: u64 = 64;

/// Calls `each` for every line that `bytes` from `addr` on touch: where the part begins, its bytes, and how far in it is.
#[inline]
pub fn each_line(addr: PhysAddr, bytes: u64, mut each: impl FnMut(PhysAddr, u32, u32)) {
    let mut done = 0;
    while done < bytes {
        let at = addr.0.wrapping_add(done);
        let part = (bytes - done).min(LINE_BYTES - at % LINE_BYTES);
        each(PhysAddr(at), part as u32, done as u32);
        done += part;
    }
}

/// Why a core accesses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccessKind {
    /// Instructions.
    Fetch,
    /// A load.
    Load,
    /// A store that has committed, or an atomic: it needs the line for itself.
    Store,
    /// A page-table walk.
    Walk,
}

/// Which level had the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Level {
    /// The first-level cache.
    L1,
    /// The private second-level cache.
    L2,
    /// The shared last-level cache.
    Llc,
    /// Another core's private cache.
    Peer,
    /// Memory.
    Dram,
}

impl Level {
    /// How many levels there are.
    pub const COUNT: usize = Level::Dram as usize + 1;
}

/// An access by a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreAccess {
    /// Why.
    pub kind: AccessKind,
    /// Where; an access lies within one line.
    pub addr: PhysAddr,
    /// The instruction, by which prefetchers tell streams apart.
    pub pc: u64,
}

impl CoreAccess {
    /// What a software prefetch asks for.
    pub fn of_prefetch(op: &Op) -> CoreAccess {
        let kind = match op.flags & (Op::CODE | Op::WRITES) {
            0 => AccessKind::Load,
            Op::WRITES => AccessKind::Store,
            _ => AccessKind::Fetch,
        };
        CoreAccess { kind, addr: op.phys, pc: op.pc }
    }
}

/// How an access was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// The core's cycle in which the data can be used, or from which the line may be written.
    pub at: u64,
    /// From where. An access that finds its line on the way counts for where the line comes from.
    pub level: Level,
}

/// What became of a software prefetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefetched {
    /// The core's cycle in which the first-level cache has looked for the line: nothing waits for longer.
    pub at: u64,
    /// Where the line is, or comes from; none if the request was dropped.
    pub level: Option<Level>,
}

/// The page-table entries that a walk reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// Their addresses, root first.
    pub entries: [PhysAddr; 5],
    /// How many.
    pub levels: u8,
    /// Bytes of the page that the last one maps.
    pub page_bytes: u64,
    /// Pages, of tables or of what they map, that were only found for it now; none where software takes care of that.
    pub faults: u8,
}

/// What surrounds a core. Times are its own cycles, and they need not grow from call to call.
pub trait CoreMemory {
    /// Prices an access that leaves the core in cycle `cycle`, address translated.
    fn access(&mut self, cycle: u64, access: CoreAccess) -> Served;
    /// Prices a software prefetch that leaves the core in cycle `cycle`, address translated: for a load, a store (the line
    /// may be written then) or a fetch, as its kind says.
    fn prefetch(&mut self, cycle: u64, access: CoreAccess) -> Prefetched;
    /// Which entries a walk for `virt` reads, as the page tables stand; no levels where addresses are not translated.
    fn walk(&mut self, virt: u64) -> Walk;
}

/// What a device's access to memory is about, for placement and for accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DmaAccess {
    /// The device, counted from 0.
    pub device: u8,
    /// What is moved.
    pub kind: DmaKind,
    /// Of frame data: how far into the frame this line is, in bytes.
    pub offset: u32,
    /// For which queue of the device, and which core it asks for.
    pub tag: DmaTag,
}

impl DmaAccess {
    /// One of a device that has one queue and asks for no core.
    pub const fn plain(device: u8, kind: DmaKind, offset: u32) -> DmaAccess {
        DmaAccess { device, kind, offset, tag: DmaTag { queue: 0, core: None } }
    }

    /// What a device's request is about.
    pub const fn of_request(device: u8, request: &DmaRequest) -> DmaAccess {
        DmaAccess { device, kind: request.kind, offset: request.offset, tag: request.tag }
    }

    /// What lies so many bytes further on in the frame.
    #[must_use]
    pub fn further(self, bytes: u32) -> DmaAccess {
        DmaAccess { offset: self.offset.saturating_add(bytes), ..self }
    }
}

/// The most devices that are told apart.
pub const DEVICES_MAX: usize = 64;
/// The first of the devices that are none of PCI Express but the platform's own, such as disks.
pub const PLATFORM_DEVICES: u8 = 56;

/// Where a device's requests enter the memory system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Entry {
    /// Over the root complex's link to the last-level cache, where the policy of direct cache access says what is kept.
    #[default]
    RootComplex,
    /// At the last-level cache itself, as a core's misses do.
    Llc,
    /// The same for frames' headers and descriptors, while their payload goes to memory.
    LlcHeaders,
    /// At the memory bus, past the caches, which are only snooped.
    MemoryBus,
}

/// The memory system, as a device's attachment meets it. One call is one line, or a part of one.
pub trait HostMemory {
    /// Prices a device's read; returns when the data are back at the place where the device's requests enter.
    fn device_read(&mut self, now: Ps, addr: PhysAddr, bytes: u32, access: DmaAccess) -> Ps;
    /// Prices a device's write; returns when it is visible (and its buffer is free).
    fn device_write(&mut self, now: Ps, addr: PhysAddr, bytes: u32, access: DmaAccess) -> Ps;
    /// The machine has come to `now`, when a device asks for something: its lines, which may be priced far ahead, follow, and no later
    /// request is from before, but for those of cores that are a little behind. What is over by then may be forgotten.
    fn device_asks(&mut self, _now: Ps) {}
}
