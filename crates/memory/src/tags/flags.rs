//! State, class and marks of a line, in one byte.

use serde::{Deserialize, Serialize};

use crate::class::DataClass;

/// State, class and marks of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Flags(pub u8);

impl Flags {
    /// Read-only; other caches may have it too.
    pub const SHARED: Flags = Flags(1);
    /// In no other cache; clean.
    pub const EXCLUSIVE: Flags = Flags(2);
    /// In no other cache; newer than the copy in the level below.
    pub const MODIFIED: Flags = Flags(3);
    const STATE: u8 = 3;
    /// Prefetched and not used yet.
    const PREFETCHED: u8 = 4;
    /// Written by a device and not used yet.
    const FRESH: u8 = 8;
    const CLASS_SHIFT: u8 = 4;
    /// In a private cache, on a line whose ownership moved between harts: stores to it are recorded.
    const WATCHED: u8 = 0x80;

    pub const fn state(self) -> Flags {
        Flags(self.0 & Flags::STATE)
    }

    pub const fn is_writable(self) -> bool {
        self.0 & 2 != 0
    }

    pub const fn is_dirty(self) -> bool {
        self.0 & Flags::STATE == 3
    }

    pub const fn is_prefetched(self) -> bool {
        self.0 & Flags::PREFETCHED != 0
    }

    /// Written by a device, and not used since by a core or a device.
    pub const fn is_fresh(self) -> bool {
        self.0 & Flags::FRESH != 0
    }

    pub const fn class(self) -> DataClass {
        DataClass::from_bits(self.0 >> Flags::CLASS_SHIFT & 7)
    }

    pub const fn with_state(self, state: Flags) -> Flags {
        Flags(self.0 & !Flags::STATE | state.0)
    }

    pub const fn with_class(self, class: DataClass) -> Flags {
        Flags(self.0 & 0x8f | (class as u8) << Flags::CLASS_SHIFT)
    }

    pub const fn with_prefetched(self, yes: bool) -> Flags {
        Flags(self.0 & !Flags::PREFETCHED | (yes as u8) << 2)
    }

    pub const fn with_fresh(self, yes: bool) -> Flags {
        Flags(self.0 & !Flags::FRESH | (yes as u8) << 3)
    }

    pub const fn is_watched(self) -> bool {
        self.0 & Flags::WATCHED != 0
    }

    pub const fn with_watched(self, yes: bool) -> Flags {
        Flags(self.0 & !Flags::WATCHED | (yes as u8) << 7)
    }

    /// Whether a store changes no state and need not be recorded.
    pub const fn takes_stores(self) -> bool {
        self.0 & (Flags::STATE | Flags::WATCHED) == Flags::MODIFIED.0
    }

    /// Whether the line is network data by class.
    pub const fn is_network(self) -> bool {
        self.0 >> Flags::CLASS_SHIFT & 7 >= DataClass::Header as u8
    }

    pub(super) fn is_possible(self) -> bool {
        self.0 & Flags::STATE != 0 && self.0 >> Flags::CLASS_SHIFT & 7 < DataClass::COUNT as u8
    }
}
