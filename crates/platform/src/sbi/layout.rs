//! Where the firmware keeps its state: one page of shared variables and an area for each hart, all of it inside
//! its own image, so that loading the image also resets them.

use crate::map;

/// Harts that the firmware can run: a mask of harts is one register.
pub const HARTS_MAX: u32 = 64;
/// The memory that the firmware keeps to itself: a power of two, as PMP protects it.
pub const BYTES: u64 = 64 << 10;
/// Where it lies.
pub const BASE: u64 = map::RAM_BASE;

/// Variables begin on a page of their own: a store beside code would cost decoded instructions.
pub const SHARED: u64 = BASE + 0x2000;
/// The areas of the harts.
pub const AREAS: u64 = BASE + 0x4000;
/// An area's size is 2 to this.
pub const AREA_SHIFT: u32 = 9;

const _: () = assert!(AREAS + ((HARTS_MAX as u64) << AREA_SHIFT) <= BASE + BYTES);

/// Offsets of the shared variables; each has eight bytes.
#[allow(missing_docs)]
pub mod shared {
    /// A bit for each hart of the device tree.
    pub const PRESENT: i32 = 0;
    /// A bit for each hart that runs.
    pub const RUNNING: i32 = 8;
    /// Where RAM ends.
    pub const RAM_END: i32 = 16;
    /// Taken while a character string is printed.
    pub const CONSOLE_LOCK: i32 = 24;
    /// Taken while a remote fence is under way; the variables below belong to its holder.
    pub const FENCE_LOCK: i32 = 64;
    /// Harts that have not fenced yet.
    pub const FENCE_WAITING: i32 = 72;
    /// The function number of the call.
    pub const FENCE_KIND: i32 = 80;
    /// The first page; if it is the end, everything is meant.
    pub const FENCE_START: i32 = 88;
    /// Behind the last page.
    pub const FENCE_END: i32 = 96;
    pub const FENCE_ASID: i32 = 104;
}

/// Offsets in a hart's area, to which `mscratch` points (and `sp` in the firmware).
#[allow(missing_docs)]
pub mod area {
    pub const RA: i32 = 0;
    pub const T0: i32 = 8;
    pub const T1: i32 = 16;
    /// T2 to T6, then A2 to A7.
    pub const REST: i32 = 24;
    /// What other harts want of this one.
    pub const EVENTS: i32 = 256;
    /// A state of [`super::state`].
    pub const STATE: i32 = 264;
    pub const START_ADDRESS: i32 = 272;
    pub const START_ARGUMENT: i32 = 280;
    /// Not zero if the hart has a supervisor timer comparator (Sstc).
    pub const COMPARATOR: i32 = 288;
}

/// What harts want of one another.
pub mod event {
    /// A supervisor software interrupt.
    pub const INTERRUPT: i32 = 1;
    /// The fence that the shared variables tell.
    pub const FENCE: i32 = 2;
    /// To leave the waiting loop.
    pub const START: i32 = 4;
}

/// States of a hart (SBI 2.0, table "HSM Hart States").
#[allow(missing_docs)]
pub mod state {
    pub const STARTED: u64 = 0;
    pub const STOPPED: u64 = 1;
    pub const START_PENDING: u64 = 2;
    pub const SUSPENDED: u64 = 4;
}

/// Errors (SBI 2.0, table "Standard SBI Errors").
#[allow(missing_docs)]
pub mod error {
    pub const FAILED: u64 = -1i64 as u64;
    pub const NOT_SUPPORTED: u64 = -2i64 as u64;
    pub const INVALID_PARAM: u64 = -3i64 as u64;
    pub const INVALID_ADDRESS: u64 = -5i64 as u64;
    pub const ALREADY_AVAILABLE: u64 = -6i64 as u64;
}
