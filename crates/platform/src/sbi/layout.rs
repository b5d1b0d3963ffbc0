//! Layout of the firmware's state: one page of shared variables and an area for each hart. All of it is
//! inside the firmware's image, so loading the image also resets the state.

use crate::map;

/// Largest number of harts: a mask of harts must fit into one register.
pub const HARTS_MAX: u32 = 64;
/// The memory reserved for the firmware: a power of two, as PMP requires.
pub const BYTES: u64 = 64 << 10;
/// Start of the reserved memory.
pub const BASE: u64 = map::RAM_BASE;

/// Variables start on a separate page: a store next to code would discard decoded instructions.
pub const SHARED: u64 = BASE + 0x2000;
/// The areas of the harts.
pub const AREAS: u64 = BASE + 0x4000;
/// Log2 of an area's size.
pub const AREA_SHIFT: u32 = 9;

const _: () = assert!(AREAS + ((HARTS_MAX as u64) << AREA_SHIFT) <= BASE + BYTES);

/// Offsets of the shared variables, eight bytes each.
#[allow(missing_docs)]
pub mod shared {
    /// Mask of the harts in the device tree.
    pub const PRESENT: i32 = 0;
    /// Mask of the running harts.
    pub const RUNNING: i32 = 8;
    /// End of RAM.
    pub const RAM_END: i32 = 16;
    /// Lock held while a string is printed.
    pub const CONSOLE_LOCK: i32 = 24;
    /// Lock held during a remote fence; its holder owns the variables below.
    pub const FENCE_LOCK: i32 = 64;
    /// Number of harts that have not fenced yet.
    pub const FENCE_WAITING: i32 = 72;
    /// The call's function number.
    pub const FENCE_KIND: i32 = 80;
    /// The first page; equal to the end for a full fence.
    pub const FENCE_START: i32 = 88;
    /// The end of the last page.
    pub const FENCE_END: i32 = 96;
    pub const FENCE_ASID: i32 = 104;
}

/// Offsets in a hart's area; `mscratch` (in the firmware, `sp`) points to the area.
#[allow(missing_docs)]
pub mod area {
    pub const RA: i32 = 0;
    pub const T0: i32 = 8;
    pub const T1: i32 = 16;
    /// T2 to T6, then A2 to A7.
    pub const REST: i32 = 24;
    /// Events sent by other harts.
    pub const EVENTS: i32 = 256;
    /// A state of [`super::state`].
    pub const STATE: i32 = 264;
    pub const START_ADDRESS: i32 = 272;
    pub const START_ARGUMENT: i32 = 280;
    /// Not zero if the hart has a supervisor timer comparator (Sstc).
    pub const COMPARATOR: i32 = 288;
}

/// Events that harts send to each other.
pub mod event {
    /// A supervisor software interrupt.
    pub const INTERRUPT: i32 = 1;
    /// The fence that the shared variables describe.
    pub const FENCE: i32 = 2;
    /// Leave the wait loop.
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
