//! Relocation of each trace's memory, address spaces and threads, so that traces played together share
//! nothing.
//!
//! The first trace's RAM stays in place if its layout is that of our machines. All other memory, of
//! neighbours or of other machines, moves in windows of 64 MiB, allocated in order of first touch. A gap
//! between windows keeps an access across a window's end off the lines of another window.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use doorbell_platform::map;
use doorbell_sim::{Bytes, PhysAddr};
use doorbell_trace::system::Extent;
use serde::{Deserialize, Serialize};

const WINDOW_SHIFT: u32 = 26;
const WINDOW_BYTES: u64 = 1 << WINDOW_SHIFT;
/// The longest access.
const ACCESS_MAX: u64 = doorbell_trace::system::DMA_BYTES_MAX as u64;
/// Memory that the first trace may keep in place: more than our machines have.
const OWN_BYTES: u64 = 16 << 30;
/// Total memory in playback: as much as cache tags can distinguish.
const MEMORY_BYTES: u64 = 128 << 30;
const WINDOWS_MAX: u64 = (MEMORY_BYTES - OWN_BYTES) / (WINDOW_BYTES + ACCESS_MAX);
const RECENT: usize = 64;

/// Memory range behind caches and DRAM during playback.
pub(crate) fn memory() -> (PhysAddr, Bytes) {
    (PhysAddr(map::RAM_BASE), Bytes(MEMORY_BYTES))
}

/// State shared by all traces.
#[derive(Default)]
struct Shared {
    /// Window number by trace and original window.
    windows: BTreeMap<(u16, u64), u64>,
    spaces: BTreeMap<(u16, u16), u16>,
    taken: BTreeSet<u16>,
}

/// Allocated windows, in order of allocation, and address-space numbers.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct RelocationState {
    windows: Vec<(u16, u64)>,
    spaces: Vec<((u16, u16), u16)>,
}

/// Relocation of one trace. Clones share their state.
#[derive(Clone)]
pub(super) struct Relocation {
    trace: u16,
    shared: Arc<Mutex<Shared>>,
    /// Recently used windows, indexed by their low bits: number, and offset to add.
    recent: [Option<(u64, u64)>; RECENT],
    space: Option<(u16, u16)>,
    full: bool,
}

impl Relocation {
    /// Creates the relocation of the first trace.
    pub fn new() -> Relocation {
        Relocation { trace: 0, shared: Arc::default(), recent: [None; RECENT], space: None, full: false }
    }

    /// Creates the relocation of a further trace.
    pub fn for_trace(&self, trace: u16) -> Relocation {
        Relocation { trace, shared: Arc::clone(&self.shared), ..Relocation::new() }
    }

    /// Returns the allocations of all traces so far.
    pub fn state(&self) -> RelocationState {
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let mut windows: Vec<_> = shared.windows.iter().map(|(window, number)| (*number, *window)).collect();
        windows.sort_unstable();
        let windows = windows.into_iter().map(|(_, window)| window).collect();
        RelocationState {
            windows,
            spaces: shared.spaces.iter().map(|(space, number)| (*space, *number)).collect(),
        }
    }

    /// Replaces all allocations.
    pub fn set_state(&self, state: RelocationState) {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.windows = state.windows.into_iter().zip(0..).collect();
        shared.taken = state.spaces.iter().map(|(_, number)| *number).collect();
        shared.spaces = state.spaces.into_iter().collect();
    }

    /// Whether these addresses all stay in place.
    #[inline]
    pub fn is_identity(&self, of: Extent) -> bool {
        self.trace == 0 && of.low >= map::RAM_BASE && of.high < map::RAM_BASE + OWN_BYTES
    }

    /// Returns the new address.
    #[inline]
    pub fn relocate(&mut self, addr: PhysAddr) -> PhysAddr {
        if self.trace == 0 && addr.0.wrapping_sub(map::RAM_BASE) < OWN_BYTES {
            return addr;
        }
        let window = addr.0 >> WINDOW_SHIFT;
        if let Some((known, offset)) = self.recent[window as usize % RECENT]
            && known == window
        {
            return PhysAddr(addr.0.wrapping_add(offset));
        }
        self.look_up(addr, window)
    }

    #[cold]
    fn look_up(&mut self, addr: PhysAddr, window: u64) -> PhysAddr {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let next = shared.windows.len() as u64;
        let number = *shared.windows.entry((self.trace, window)).or_insert(next);
        // Windows wrap around after the last one; callers stop when `is_full` is set.
        self.full |= number >= WINDOWS_MAX;
        let number = number % WINDOWS_MAX;
        let base = map::RAM_BASE + OWN_BYTES + number * (WINDOW_BYTES + ACCESS_MAX);
        let offset = base.wrapping_sub(window << WINDOW_SHIFT);
        self.recent[window as usize % RECENT] = Some((window, offset));
        PhysAddr(addr.0.wrapping_add(offset))
    }

    /// Whether the traces touched more memory than there is.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Returns the new number of an address space. The first trace keeps its numbers where they are free.
    pub fn space(&mut self, space: u16) -> u16 {
        if let Some((known, number)) = self.space
            && known == space
        {
            return number;
        }
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let Shared { spaces, taken, .. } = &mut *shared;
        let number = *spaces.entry((self.trace, space)).or_insert_with(|| {
            let free = |number: &u16| !taken.contains(number);
            let own = Some(space).filter(|space| self.trace == 0 && free(space));
            // If none is free, two spaces share a number. That is harmless, as each core has its own TLBs.
            let number = own.or_else(|| (0..=u16::MAX).rev().find(free)).unwrap_or(space);
            taken.insert(number);
            number
        });
        self.space = Some((space, number));
        number
    }

    /// Returns the new number of a thread: the trace number goes into bits that our threads do not use.
    pub fn thread(&self, thread: u64) -> u64 {
        thread ^ (u64::from(self.trace) << 56)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_trace_stays_in_place_and_relocated_lines_do_not_overlap() {
        let mut first = Relocation::new();
        let (mut second, mut third) = (first.for_trace(1), first.for_trace(2));
        let ram = PhysAddr(map::RAM_BASE + 0x1234_5678);
        assert_eq!(first.relocate(ram), ram);
        let addresses =
            [0, 0x1234_5678, WINDOW_BYTES - 8, WINDOW_BYTES, ram.0, u64::MAX - 7, 0x7fff_ffff_f000];
        let mut lines = vec![ram.0 / 64];
        for (number, place) in [&mut first, &mut second, &mut third].into_iter().enumerate() {
            for addr in addresses.into_iter().filter(|addr| number > 0 || *addr != ram.0) {
                let moved = place.relocate(PhysAddr(addr)).0;
                assert_eq!(moved % (1 << 20), addr % (1 << 20), "offset within a megabyte is kept");
                assert_eq!(place.relocate(PhysAddr(addr)).0, moved, "the new address is stable");
                assert!((map::RAM_BASE..map::RAM_BASE + MEMORY_BYTES).contains(&moved));
                lines.push(moved / 64);
                lines.push((moved + ACCESS_MAX - 1) / 64);
            }
        }
        lines.sort_unstable();
        let count = lines.len();
        lines.dedup();
        assert_eq!(lines.len(), count, "lines do not overlap");
        assert!(!first.is_full());
    }

    #[test]
    fn address_spaces_and_threads_of_two_traces_differ() {
        let mut first = Relocation::new();
        let mut second = first.for_trace(1);
        let mut numbers: Vec<u16> = (0..100).map(|space| first.space(space)).collect();
        assert!(numbers.iter().copied().eq(0..100));
        numbers.extend((0..100).map(|space| second.space(space)));
        assert_eq!(second.space(7), numbers[107]);
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 200);
        assert_ne!(first.thread(5), second.thread(5));
    }

    #[test]
    fn full_memory_is_detected() {
        let mut place = Relocation::new().for_trace(1);
        (0..WINDOWS_MAX).for_each(|window| _ = place.relocate(PhysAddr(window << WINDOW_SHIFT)));
        assert!(!place.is_full());
        place.relocate(PhysAddr(WINDOWS_MAX << WINDOW_SHIFT));
        assert!(place.is_full());
    }
}
