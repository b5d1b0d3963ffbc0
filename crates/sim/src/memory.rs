//! Interface of cores and devices to the timed memory system. Timing only: data is in [`Ram`](crate::Ram).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::clock::cycle::CoreCycle;
use crate::op::Op;
use crate::ports::{DmaPurpose, DmaRequest, DmaTag, PhysAddr};
use crate::time::Ps;

/// Bytes of a cache line, the unit of transfer and caching.
pub const LINE_BYTES: u64 = 64;

/// Calls `each` for every line touched by `bytes` bytes from `addr`: start address, length and offset of the
/// part.
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

/// The level that supplied the line.
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
    /// Number of levels.
    pub const COUNT: usize = Level::Dram as usize + 1;
}

/// An access by a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreAccess {
    /// Kind of the access.
    pub kind: AccessKind,
    /// Physical address; an access stays within one line.
    pub addr: PhysAddr,
    /// PC of the instruction, which prefetchers use to separate streams.
    pub pc: u64,
}

impl CoreAccess {
    /// The access that a software prefetch makes.
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
    /// When the data can be used, or from when the line may be written.
    pub at: CoreCycle,
    /// Level of the line. An access that merges with a line in flight counts for the level that supplies the
    /// line.
    pub level: Level,
}

/// Result of a software prefetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefetched {
    /// When the first-level lookup is done; the instruction does not wait longer.
    pub at: CoreCycle,
    /// Level that has or supplies the line; none if the prefetch was dropped.
    pub level: Option<Level>,
}

/// The page-table entries that a walk reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// Their addresses, root first.
    pub entries: [PhysAddr; 5],
    /// Number of entries read.
    pub levels: u8,
    /// Bytes of the page that the last entry maps.
    pub page_bytes: u64,
    /// Page faults of this walk: table pages and data pages allocated on demand. Zero if software handles
    /// page faults.
    pub faults: u8,
}

/// The memory hierarchy around a core. Cycles may decrease from call to call.
pub trait CoreMemory {
    /// Computes the timing of an access that leaves the core in cycle `cycle`, address translated.
    fn access(&mut self, cycle: CoreCycle, access: CoreAccess) -> Served;
    /// Computes the timing of a software prefetch that leaves the core in cycle `cycle`, address translated.
    /// Its kind is a load, a store (the line becomes writable) or a fetch.
    fn prefetch(&mut self, cycle: CoreCycle, access: CoreAccess) -> Prefetched;
    /// The entries that a walk for `virt` reads in the current page tables; no levels without translation.
    fn walk(&mut self, virt: u64) -> Walk;
}

/// Properties of a device's memory access, for placement and accounting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DmaAccess {
    /// The device, counted from 0.
    pub device: u8,
    /// Purpose of the transfer.
    pub purpose: DmaPurpose,
    /// Offset of this line in its frame, in bytes; only for frame data.
    pub offset: u32,
    /// Queue of the device, and target core of the placement hint.
    pub tag: DmaTag,
}

impl DmaAccess {
    /// An access of a device with one queue and no target core.
    pub const fn plain(device: u8, purpose: DmaPurpose, offset: u32) -> DmaAccess {
        DmaAccess { device, purpose, offset, tag: DmaTag { queue: 0, core: None } }
    }

    /// The access for a device's request.
    pub const fn of_request(device: u8, request: &DmaRequest) -> DmaAccess {
        DmaAccess { device, purpose: request.purpose, offset: request.offset, tag: request.tag }
    }

    /// The access at an offset `bytes` further into the frame.
    #[must_use]
    pub fn advanced_by(self, bytes: u32) -> DmaAccess {
        DmaAccess { offset: self.offset.saturating_add(bytes), ..self }
    }
}

/// Maximum number of devices counted separately.
pub const DEVICES_MAX: usize = 64;
/// Number of the first platform device, such as a disk; lower numbers are PCI Express devices.
pub const PLATFORM_DEVICES: u8 = 56;

/// DmaEntryPoint point of a device's requests into the memory system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DmaEntryPoint {
    /// Over the root complex's link to the last-level cache, where the direct cache access policy decides
    /// what is cached.
    #[default]
    RootComplex,
    /// At the last-level cache, as the misses of a core.
    Llc,
    /// At the last-level cache for frame headers and descriptors; payload goes to memory.
    LlcHeaders,
    /// At the memory bus, bypassing the caches, which are only snooped.
    MemoryBus,
}

/// The memory system as device attachments use it. One call is one line or part of one.
pub trait HostMemory {
    /// Books a device's read; returns when the data is back at the device's entry point.
    fn device_read(&mut self, now: Ps, addr: PhysAddr, bytes: u32, access: DmaAccess) -> Ps;
    /// Books a device's write; returns when it is visible and its buffer is free.
    fn device_write(&mut self, now: Ps, addr: PhysAddr, bytes: u32, access: DmaAccess) -> Ps;
    /// Advances to `now`, when a device issues a request. Its lines may be booked far ahead. Later requests
    /// are not earlier than `now`, except from cores that lag slightly, so older bookings may be dropped.
    fn advance_to(&mut self, _now: Ps) {}
}
