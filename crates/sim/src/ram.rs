//! Guest RAM: the only copy of memory contents. Caches and controllers keep tags and times, never data. Harts
//! access it through their TLBs by host address, devices through checked copies.
//!
//! The host allocates a page only when it is touched, so a guest costs only the memory it uses. Two flags are
//! kept per 4 KiB page: *touched* (must be saved) and *code* (a hart holds decoded instructions of it). A
//! hart must not cache a writable mapping of a code page, so that every store to it goes through this module
//! (a watched page). Sharing between harts is tracked in [`sharing`](crate::sharing).
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::any::Any;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ports::PhysAddr;
use crate::sharing::{HartUpdates, Sharing};
use crate::units::Bytes;

/// Bytes of a page, the granularity of the flags.
pub const PAGE_BYTES: u64 = 4096;

const TOUCHED: u8 = 1;
const CODE: u8 = 2;

/// Identifies one RAM within the process. A holder of host addresses keeps the ID to detect another RAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RamId(u64);

impl RamId {
    fn next() -> RamId {
        // Only compared, so it is not part of any state.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        RamId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Guest RAM, zero at the start.
pub struct Ram {
    id: RamId,
    base: u64,
    size: u64,
    allocation: NonNull<u8>,
    /// The first page boundary inside the allocation.
    memory: NonNull<u8>,
    pages: Vec<u8>,
    /// Reservations and pending code updates per hart.
    sharing: Sharing,
    /// Cache of decoded code, owned by the execution engine.
    decoded: Option<Box<dyn Any + Send>>,
}

// SAFETY: `memory` is owned by this struct alone; host addresses given out by `host_address` are only
// dereferenced by the thread that holds the machine.
unsafe impl Send for Ram {}

impl Ram {
    /// RAM of `size` bytes (a multiple of 4 KiB, not zero) at `base`.
    pub fn new(base: PhysAddr, size: Bytes, harts: usize) -> Ram {
        Ram::allocate(base, size, harts).unwrap_or_else(|| handle_alloc_error(Ram::layout(size.0)))
    }

    /// Like [`new`](Ram::new); returns `None` if the host has no memory.
    pub fn allocate(base: PhysAddr, size: Bytes, harts: usize) -> Option<Ram> {
        assert!(size.0 > 0 && size.0.is_multiple_of(PAGE_BYTES), "RAM is a whole number of pages");
        assert!(base.0.is_multiple_of(PAGE_BYTES) && base.0.checked_add(size.0).is_some());
        let layout = Ram::layout(size.0);
        // SAFETY: the layout's size is not zero.
        let allocation = unsafe { alloc_zeroed(layout) };
        let allocation = NonNull::new(allocation)?;
        let skip = allocation.as_ptr().align_offset(PAGE_BYTES as usize);
        // SAFETY: the layout has a page to spare, so at least `size` bytes follow the boundary.
        let memory = unsafe { allocation.add(skip) };
        Some(Ram {
            id: RamId::next(),
            base: base.0,
            size: size.0,
            allocation,
            memory,
            pages: vec![0; (size.0 / PAGE_BYTES) as usize],
            sharing: Sharing::new(base.0, harts),
            decoded: None,
        })
    }

    /// Resets the RAM to zero for `harts` harts, clearing only touched pages. It gets a new ID, because data
    /// derived from the old contents is invalid.
    pub fn cleared(mut self, harts: usize) -> Ram {
        for page in 0..self.pages.len() {
            if self.pages[page] & TOUCHED != 0 {
                // SAFETY: there is one flag per page, so the page is inside the allocation.
                unsafe {
                    self.memory.as_ptr().add(page * PAGE_BYTES as usize).write_bytes(0, PAGE_BYTES as usize)
                };
            }
        }
        self.pages.fill(0);
        self.sharing = Sharing::new(self.base, harts);
        self.id = RamId::next();
        self
    }

    fn layout(size: u64) -> Layout {
        // A request for page alignment would make the allocator clear, and so touch, every page itself.
        Layout::from_size_align((size + PAGE_BYTES) as usize, 16).expect("RAM fits the host's address space")
    }

    /// The ID of this RAM.
    pub fn id(&self) -> RamId {
        self.id
    }

    /// The first address.
    pub fn base(&self) -> PhysAddr {
        PhysAddr(self.base)
    }

    /// The size in bytes.
    pub fn size(&self) -> Bytes {
        Bytes(self.size)
    }

    /// Offset of `addr` from the base if `len` bytes from there are in RAM.
    pub fn offset(&self, addr: PhysAddr, len: u64) -> Option<u64> {
        let offset = addr.0.wrapping_sub(self.base);
        (offset < self.size && len <= self.size - offset).then_some(offset)
    }

    /// Host address of the byte at `addr`. Valid while this `Ram` lives and keeps its ID.
    pub fn host_address(&self, addr: PhysAddr) -> Option<*mut u8> {
        let offset = self.offset(addr, 1)?;
        // SAFETY: offset < size, so the result stays inside the allocation.
        Some(unsafe { self.memory.as_ptr().add(offset as usize) })
    }

    /// The guest-physical address of a host address that [`host_address`](Ram::host_address) returned.
    pub fn phys_of_host(&self, host: u64) -> PhysAddr {
        PhysAddr(host.wrapping_sub(self.memory.as_ptr() as u64).wrapping_add(self.base))
    }

    /// The page number (from the base) of an address in RAM.
    pub fn page_of(&self, addr: PhysAddr) -> Option<u64> {
        self.offset(addr, 1).map(|offset| offset / PAGE_BYTES)
    }

    /// Reads `N` bytes; `None` outside RAM.
    pub fn load<const N: usize>(&self, addr: PhysAddr) -> Option<[u8; N]> {
        let offset = self.offset(addr, N as u64)? as usize;
        // SAFETY: offset + N ≤ size; byte arrays have no alignment.
        Some(unsafe { self.memory.as_ptr().add(offset).cast::<[u8; N]>().read() })
    }

    /// Reads a little-endian doubleword; `None` outside RAM.
    pub fn load_u64(&self, addr: PhysAddr) -> Option<u64> {
        self.load::<8>(addr).map(u64::from_le_bytes)
    }

    /// Writes bytes; `false` (and nothing written) unless all of them are in RAM.
    pub fn store(&mut self, addr: PhysAddr, bytes: &[u8]) -> bool {
        let Some(offset) = self.offset(addr, bytes.len() as u64) else { return false };
        if bytes.is_empty() {
            return true;
        }
        for page in offset / PAGE_BYTES..=(offset + bytes.len() as u64 - 1) / PAGE_BYTES {
            self.note_store(page);
        }
        // SAFETY: the destination is inside the allocation, which `bytes` cannot overlap: no Rust slice is
        // ever made of guest memory.
        unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                self.memory.as_ptr().add(offset as usize),
                bytes.len(),
            )
        };
        true
    }

    /// Copies guest memory out; `false` (and `into` unchanged) unless all of it is in RAM.
    pub fn copy_out(&self, addr: PhysAddr, into: &mut [u8]) -> bool {
        let Some(offset) = self.offset(addr, into.len() as u64) else { return false };
        // SAFETY: the source is inside the allocation, and `into` cannot overlap it: no Rust slice is ever
        // made of guest memory.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.memory.as_ptr().add(offset as usize),
                into.as_mut_ptr(),
                into.len(),
            )
        };
        true
    }

    /// Stores for a device, and breaks the reservations of all harts on the lines it touches.
    pub fn store_from_device(&mut self, addr: PhysAddr, bytes: &[u8]) -> bool {
        self.sharing.break_reservations(None, addr, bytes.len());
        self.store(addr, bytes)
    }

    /// Stores for a hart, and breaks the reservations of the other harts on the lines it touches. Stores to
    /// pages that are not [`watched`](Ram::is_watched) may bypass this function.
    pub fn store_from_hart(&mut self, hart: usize, addr: PhysAddr, bytes: &[u8]) -> bool {
        self.sharing.break_reservations(Some(hart), addr, bytes.len());
        self.store(addr, bytes)
    }

    /// Marks a page as touched. If it holds decoded code, that code becomes stale for all harts.
    pub fn note_store(&mut self, page: u64) {
        let flags = &mut self.pages[page as usize];
        if *flags & CODE != 0 {
            *flags &= !CODE;
            self.sharing.code_changed(page);
        }
        *flags |= TOUCHED;
    }

    /// Marks a page as holding decoded instructions. Returns whether it was unmarked; the other harts then
    /// start to watch it.
    pub fn note_code(&mut self, hart: usize, page: u64) -> bool {
        let flags = &mut self.pages[page as usize];
        let new = *flags & CODE == 0;
        *flags |= CODE;
        if new {
            self.sharing.code_found(hart, page);
        }
        new
    }

    /// Whether the page holds decoded instructions.
    pub fn is_code(&self, page: u64) -> bool {
        self.pages[page as usize] & CODE != 0
    }

    /// Whether a hart's stores to the page must go through RAM: it holds decoded code or another hart's
    /// reservation.
    pub fn is_watched(&self, hart: usize, page: u64) -> bool {
        self.is_code(page) || self.sharing.reserved_by_other(hart, page)
    }

    /// Takes the decoded-code cache out, to be put back after use. It survives clearing; its entries are
    /// tagged with the RAM's [ID](Ram::id).
    #[inline]
    pub fn take_decoded<T: Any + Send + Default>(&mut self) -> Box<T> {
        self.decoded.take().and_then(|decoded| decoded.downcast().ok()).unwrap_or_default()
    }

    /// Puts the decoded-code cache back for the next engine that runs here.
    #[inline]
    pub fn put_decoded<T: Any + Send>(&mut self, decoded: Box<T>) {
        self.decoded = Some(decoded);
    }

    /// Whether decoded code has become stale and the running hart has not been notified yet.
    pub fn has_stale_code(&self) -> bool {
        self.sharing.has_stale_code()
    }

    /// Takes the code pages written since the last call and queues them for the other harts.
    pub fn take_stale_code_pages(&mut self, hart: usize) -> Vec<u64> {
        self.sharing.take_stale_code(hart)
    }

    /// Takes the updates from other harts since this hart last ran; none if there are none.
    pub fn take_updates(&mut self, hart: usize) -> Option<HartUpdates> {
        self.sharing.take_updates(hart)
    }

    /// Numbers of the pages that may differ from zero, in order.
    pub fn touched_pages(&self) -> impl Iterator<Item = u64> {
        self.pages.iter().enumerate().filter(|(_, flags)| **flags & TOUCHED != 0).map(|(page, _)| page as u64)
    }

    /// Whether a page is all zero.
    pub fn is_zero_page(&self, page: u64) -> bool {
        // Branch-free per byte: faster on the host and fewer branches for a fuzzer to explore.
        self.page(page).iter().fold(0, |all, byte| all | byte) == 0
    }

    /// A copy of one page's contents.
    pub fn page(&self, page: u64) -> [u8; PAGE_BYTES as usize] {
        self.load(PhysAddr(self.base + page * PAGE_BYTES)).expect("a page number inside RAM")
    }

    /// Reserves the line of `addr` for a hart (LR).
    pub fn reserve(&mut self, hart: usize, addr: PhysAddr) {
        self.sharing.reserve(hart, addr);
    }

    /// Ends a hart's reservation; returns whether it covered `addr` (SC).
    pub fn take_reservation(&mut self, hart: usize, addr: PhysAddr) -> bool {
        self.sharing.take_reservation(hart, addr)
    }

    /// All harts' reservations, for snapshots.
    pub fn reservations(&self) -> &[u64] {
        self.sharing.reservations()
    }

    /// Restores reservations; `false` if the number of harts differs or a line is outside RAM.
    pub fn set_reservations(&mut self, reservations: &[u64]) -> bool {
        self.sharing.set_reservations(reservations, self.pages.len() as u64)
    }
}

impl Drop for Ram {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with the same layout.
        unsafe { dealloc(self.allocation.as_ptr(), Ram::layout(self.size)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ram() -> Ram {
        Ram::new(PhysAddr(0x8000_0000), Bytes(4 * PAGE_BYTES), 2)
    }

    #[test]
    fn accesses_not_fully_in_ram_are_refused() {
        let mut ram = ram();
        assert!(ram.store(PhysAddr(0x8000_3ffc), &[1, 2, 3, 4]));
        assert!(!ram.store(PhysAddr(0x8000_3ffd), &[1, 2, 3, 4]));
        assert!(!ram.store(PhysAddr(0x7fff_ffff), &[1]));
        assert_eq!(ram.load::<4>(PhysAddr(0x8000_3ffc)), Some([1, 2, 3, 4]));
        assert_eq!(ram.load_u64(PhysAddr(0x8000_3ffc)), None);
        assert_eq!(ram.load_u64(PhysAddr(u64::MAX)), None);
        assert_eq!(ram.touched_pages().collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn cleared_ram_equals_new_ram_except_for_its_id() {
        let mut ram = ram();
        let id = ram.id();
        ram.store(PhysAddr(0x8000_0ffe), &[1, 2, 3, 4]);
        ram.store_from_device(PhysAddr(0x8000_3fff), &[5]);
        ram.note_code(0, 1);
        ram.store(PhysAddr(0x8000_1000), &[6]);
        ram.note_code(1, 2);
        ram.reserve(1, PhysAddr(0x8000_0040));
        let mut ram = ram.cleared(1);
        assert!((0..4).all(|page| ram.is_zero_page(page) && !ram.is_code(page)));
        assert_eq!(ram.touched_pages().count(), 0);
        assert!(!ram.has_stale_code() && ram.take_updates(0).is_none());
        assert_eq!(ram.reservations().len(), 1);
        assert!(!ram.take_reservation(0, PhysAddr(0x8000_0040)));
        assert_ne!(ram.id(), id);
    }

    #[test]
    fn store_to_code_page_makes_code_stale_once() {
        let mut ram = ram();
        assert!(ram.note_code(0, 1) && !ram.note_code(0, 1));
        ram.store(PhysAddr(0x8000_0ffe), &[0; 4]);
        assert_eq!(ram.take_stale_code_pages(0), [1]);
        assert!(!ram.is_code(1) && !ram.has_stale_code());
    }

    #[test]
    fn device_write_breaks_reservations_on_its_lines_only() {
        let mut ram = ram();
        ram.reserve(0, PhysAddr(0x8000_0040));
        ram.reserve(1, PhysAddr(0x8000_0080));
        ram.store_from_device(PhysAddr(0x8000_007f), &[1]);
        assert!(!ram.take_reservation(0, PhysAddr(0x8000_0040)));
        assert!(ram.take_reservation(1, PhysAddr(0x8000_00bc)));
    }

    #[test]
    fn hart_store_breaks_other_reservations_and_pages_are_watched() {
        let mut ram = ram();
        ram.reserve(0, PhysAddr(0x8000_0040));
        ram.reserve(1, PhysAddr(0x8000_0044));
        assert!(ram.is_watched(0, 0) && ram.is_watched(1, 0) && !ram.is_watched(0, 1));
        ram.store_from_hart(0, PhysAddr(0x8000_0078), &[1; 8]);
        assert!(ram.take_reservation(0, PhysAddr(0x8000_0040)), "its own reservation stays");
        assert!(!ram.take_reservation(1, PhysAddr(0x8000_0044)));
        assert!(!ram.is_watched(0, 0) && !ram.is_watched(1, 0));
    }

    #[test]
    fn each_hart_is_notified_once_of_stale_code() {
        let mut ram = ram();
        ram.note_code(0, 2);
        assert_eq!(ram.take_updates(1).map(|updates| updates.watch), Some(vec![2]));
        ram.store_from_device(PhysAddr(0x8000_2000), &[0]);
        assert_eq!(ram.take_stale_code_pages(1), [2]);
        assert!(!ram.has_stale_code() && ram.take_updates(1).is_none());
        assert_eq!(ram.take_updates(0).map(|updates| updates.stale_code_pages), Some(vec![2]));
        assert!(ram.take_updates(0).is_none());
    }
}
