//! Guest RAM: the one truth of memory contents. Caches and controllers keep tags and times, never
//! data. Harts reach it through their TLBs by host address, devices through checked copies.
//!
//! The host allocates a page only when it is touched, so a guest costs what it uses. Three facts are
//! kept of each 4 KiB page: *touched* (worth saving), *code* (a hart holds decoded
//! instructions of it), and *watched stores* follow from code: a hart must not cache a writable
//! mapping of a code page, so that every store to it comes by here. What one hart's accesses mean to the other harts is
//! kept in [`sharing`](crate::sharing).
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::any::Any;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ports::PhysAddr;
use crate::sharing::{News, Sharing};
use crate::units::Bytes;

/// Bytes of a page, the grain of what RAM remembers of its contents.
pub const PAGE_BYTES: u64 = 4096;

const TOUCHED: u8 = 1;
const CODE: u8 = 2;

/// Names one RAM among all of this process. Whoever keeps host addresses remembers whose they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RamId(u64);

impl RamId {
    fn next() -> RamId {
        // It is only compared, so that it is no part of any state.
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
    /// Reservations, and what the harts have yet to learn about code.
    sharing: Sharing,
    /// What is decoded of its code, by whoever executes it.
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

    /// The same; none if the host does not provide the memory.
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

    /// This RAM as `new` makes it, for as many harts: only what was written is cleared. It goes by another name, because
    /// what is known of the old contents holds no longer.
    pub fn cleared(mut self, harts: usize) -> Ram {
        for page in 0..self.pages.len() {
            if self.pages[page] & TOUCHED != 0 {
                // SAFETY: there are as many flags as pages, so the page lies inside the allocation.
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
        // Asking for page alignment would make the allocator clear, and so touch, every page itself.
        Layout::from_size_align((size + PAGE_BYTES) as usize, 16).expect("RAM fits the host's address space")
    }

    /// Its name.
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

    /// Offset of `addr` from the base if `len` bytes from there lie in RAM.
    pub fn offset(&self, addr: PhysAddr, len: u64) -> Option<u64> {
        let offset = addr.0.wrapping_sub(self.base);
        (offset < self.size && len <= self.size - offset).then_some(offset)
    }

    /// Where the byte at `addr` lies in the host's memory. Valid as long as this `Ram` lives and keeps its name.
    pub fn host_address(&self, addr: PhysAddr) -> Option<*mut u8> {
        let offset = self.offset(addr, 1)?;
        // SAFETY: offset < size, so the result stays inside the allocation.
        Some(unsafe { self.memory.as_ptr().add(offset as usize) })
    }

    /// The guest-physical address of a byte in the host's memory that [`host_address`](Ram::host_address) gave.
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

    /// Writes bytes; `false` (and nothing written) where they do not all lie in RAM.
    pub fn store(&mut self, addr: PhysAddr, bytes: &[u8]) -> bool {
        let Some(offset) = self.offset(addr, bytes.len() as u64) else { return false };
        if bytes.is_empty() {
            return true;
        }
        for page in offset / PAGE_BYTES..=(offset + bytes.len() as u64 - 1) / PAGE_BYTES {
            self.note_store(page);
        }
        // SAFETY: the destination lies inside the allocation, which `bytes` cannot overlap (it is a
        // Rust slice, and no Rust slice is ever made of guest memory).
        unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                self.memory.as_ptr().add(offset as usize),
                bytes.len(),
            )
        };
        true
    }

    /// Copies guest memory out; `false` (and `into` untouched) where it does not all lie in RAM.
    pub fn copy_out(&self, addr: PhysAddr, into: &mut [u8]) -> bool {
        let Some(offset) = self.offset(addr, into.len() as u64) else { return false };
        // SAFETY: the source lies inside the allocation, and no Rust slice is ever made of guest memory, so `into` does not
        // overlap it.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.memory.as_ptr().add(offset as usize),
                into.as_mut_ptr(),
                into.len(),
            )
        };
        true
    }

    /// A store by a device: besides writing, it breaks the reservations of all harts on the lines it touches.
    pub fn store_from_device(&mut self, addr: PhysAddr, bytes: &[u8]) -> bool {
        self.sharing.break_reservations(None, addr, bytes.len());
        self.store(addr, bytes)
    }

    /// A store by a hart: besides writing, it breaks the reservations of the other harts on the lines it touches. Its
    /// stores to pages that are not [`watched`](Ram::is_watched) need not come by here.
    pub fn store_from_hart(&mut self, hart: usize, addr: PhysAddr, bytes: &[u8]) -> bool {
        self.sharing.break_reservations(Some(hart), addr, bytes.len());
        self.store(addr, bytes)
    }

    /// Marks a page as written. If it holds decoded code, the harts are told to forget that code.
    pub fn note_store(&mut self, page: u64) {
        let flags = &mut self.pages[page as usize];
        if *flags & CODE != 0 {
            *flags &= !CODE;
            self.sharing.code_changed(page);
        }
        *flags |= TOUCHED;
    }

    /// Marks a page as holding instructions that a hart has decoded. Returns whether it did not before; the other harts
    /// get to know.
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

    /// Whether a hart's stores to the page must come by here: it holds decoded code, or another hart's reservation.
    pub fn is_watched(&self, hart: usize, page: u64) -> bool {
        self.is_code(page) || self.sharing.reserved_by_other(hart, page)
    }

    /// Takes out what is decoded of the code here, to use it and put it back. It is not forgotten with the contents: it goes by the RAM's
    /// [name](Ram::id).
    #[inline]
    pub fn take_decoded<T: Any + Send + Default>(&mut self) -> Box<T> {
        self.decoded.take().and_then(|decoded| decoded.downcast().ok()).unwrap_or_default()
    }

    /// Puts it back, for whoever executes code here next.
    #[inline]
    pub fn put_decoded<T: Any + Send>(&mut self, decoded: Box<T>) {
        self.decoded = Some(decoded);
    }

    /// Whether decoded code has become stale and the hart that runs does not know yet.
    pub fn has_stale_code(&self) -> bool {
        self.sharing.has_stale_code()
    }

    /// The code pages written since the running hart asked last; the others will learn of them.
    pub fn take_stale_code_pages(&mut self, hart: usize) -> Vec<u64> {
        self.sharing.take_stale_code(hart)
    }

    /// What other harts have done since this one ran last, if that is of any concern to it.
    pub fn take_news(&mut self, hart: usize) -> Option<News> {
        self.sharing.take_news(hart)
    }

    /// Numbers of the pages that may differ from zero, in order.
    pub fn touched_pages(&self) -> impl Iterator<Item = u64> {
        self.pages.iter().enumerate().filter(|(_, flags)| **flags & TOUCHED != 0).map(|(page, _)| page as u64)
    }

    /// Whether a page is zero throughout.
    pub fn is_zero_page(&self, page: u64) -> bool {
        // Without a branch a byte, which is quicker both on the host and under a fuzzer's eyes.
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

    /// Ends a hart's reservation and tells whether it covered `addr` (SC).
    pub fn take_reservation(&mut self, hart: usize, addr: PhysAddr) -> bool {
        self.sharing.take_reservation(hart, addr)
    }

    /// All harts' reservations, for snapshots.
    pub fn reservations(&self) -> &[u64] {
        self.sharing.reservations()
    }

    /// Puts reservations back; `false` if they are not of as many harts, or not in this RAM.
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
    fn accesses_that_do_not_lie_wholly_in_ram_are_refused() {
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
    fn cleared_ram_is_as_new_but_for_its_name() {
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
        assert!(!ram.has_stale_code() && ram.take_news(0).is_none());
        assert_eq!(ram.reservations().len(), 1);
        assert!(!ram.take_reservation(0, PhysAddr(0x8000_0040)));
        assert_ne!(ram.id(), id);
    }

    #[test]
    fn a_store_to_a_code_page_makes_its_code_stale_once() {
        let mut ram = ram();
        assert!(ram.note_code(0, 1) && !ram.note_code(0, 1));
        ram.store(PhysAddr(0x8000_0ffe), &[0; 4]);
        assert_eq!(ram.take_stale_code_pages(0), [1]);
        assert!(!ram.is_code(1) && !ram.has_stale_code());
    }

    #[test]
    fn a_device_write_breaks_the_reservation_on_its_lines_only() {
        let mut ram = ram();
        ram.reserve(0, PhysAddr(0x8000_0040));
        ram.reserve(1, PhysAddr(0x8000_0080));
        ram.store_from_device(PhysAddr(0x8000_007f), &[1]);
        assert!(!ram.take_reservation(0, PhysAddr(0x8000_0040)));
        assert!(ram.take_reservation(1, PhysAddr(0x8000_00bc)));
    }

    #[test]
    fn a_hart_breaks_the_reservations_of_the_others_and_must_come_by_to_do_so() {
        let mut ram = ram();
        ram.reserve(0, PhysAddr(0x8000_0040));
        ram.reserve(1, PhysAddr(0x8000_0044));
        assert!(ram.is_watched(0, 0) && ram.is_watched(1, 0) && !ram.is_watched(0, 1));
        ram.store_from_hart(0, PhysAddr(0x8000_0078), &[1; 8]);
        assert!(ram.take_reservation(0, PhysAddr(0x8000_0040)), "its own stays");
        assert!(!ram.take_reservation(1, PhysAddr(0x8000_0044)));
        assert!(!ram.is_watched(0, 0) && !ram.is_watched(1, 0));
    }

    #[test]
    fn each_hart_learns_once_of_code_that_became_stale() {
        let mut ram = ram();
        ram.note_code(0, 2);
        assert_eq!(ram.take_news(1).map(|news| news.watch), Some(vec![2]));
        ram.store_from_device(PhysAddr(0x8000_2000), &[0]);
        assert_eq!(ram.take_stale_code_pages(1), [2]);
        assert!(!ram.has_stale_code() && ram.take_news(1).is_none());
        assert_eq!(ram.take_news(0).map(|news| news.stale_code_pages), Some(vec![2]));
        assert!(ram.take_news(0).is_none());
    }
}
