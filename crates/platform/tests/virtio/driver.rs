//! A driver for the device, written from the specification, with the constants declared again. It drives any
//! device with registers and memory: ours or QEMU's.

use doorbell_sim::AccessSize;

pub const DESC: u64 = 0x8000_1000;
pub const AVAIL: u64 = 0x8000_2000;
pub const USED: u64 = 0x8000_3000;
pub const HEADERS: u64 = 0x8000_4000;
pub const STATUSES: u64 = 0x8000_5000;
pub const DATA: u64 = 0x8001_0000;

pub const NEXT: u16 = 1;
pub const WRITE: u16 = 2;
pub const INDIRECT: u16 = 4;

pub const IN: u32 = 0;
pub const OUT: u32 = 1;
pub const FLUSH: u32 = 4;
pub const GET_ID: u32 = 8;
pub const DISCARD: u32 = 11;
pub const WRITE_ZEROES: u32 = 13;

pub const VERSION_1: u64 = 1 << 32;
pub const EVENT_IDX: u64 = 1 << 29;
pub const INDIRECT_DESC: u64 = 1 << 28;

/// A machine with the device's registers from offset 0 and RAM from 0x8000_0000.
pub trait Target {
    fn read(&mut self, offset: u64, size: AccessSize) -> u64;
    fn write(&mut self, offset: u64, size: AccessSize, value: u64);
    fn poke(&mut self, addr: u64, bytes: &[u8]);
    fn peek(&mut self, addr: u64, len: usize) -> Vec<u8>;
    /// Runs until all requests in flight are done.
    fn settle(&mut self);
}

pub struct Driver<T> {
    pub target: T,
    pub size: u16,
    avail: u16,
    pub used: u16,
}

impl<T: Target> Driver<T> {
    pub fn new(target: T) -> Driver<T> {
        Driver { target, size: 0, avail: 0, used: 0 }
    }

    pub fn get(&mut self, offset: u64) -> u32 {
        self.target.read(offset, AccessSize::B4) as u32
    }

    pub fn set(&mut self, offset: u64, value: u32) {
        self.target.write(offset, AccessSize::B4, u64::from(value));
    }

    pub fn set_address(&mut self, offset: u64, addr: u64) {
        self.set(offset, addr as u32);
        self.set(offset + 4, (addr >> 32) as u32);
    }

    pub fn offered(&mut self) -> u64 {
        self.set(0x14, 1);
        let high = u64::from(self.get(0x10));
        self.set(0x14, 0);
        high << 32 | u64::from(self.get(0x10))
    }

    pub fn choose(&mut self, features: u64) {
        self.set(0x24, 0);
        self.set(0x20, features as u32);
        self.set(0x24, 1);
        self.set(0x20, (features >> 32) as u32);
    }

    /// 3.1.1: reset, acknowledge, features, queue, DRIVER_OK. Returns whether the device accepted the
    /// features.
    pub fn start(&mut self, features: u64, size: u16) -> bool {
        self.set(0x70, 0);
        self.set(0x70, 1);
        self.set(0x70, 3);
        self.choose(features);
        self.set(0x70, 11);
        if self.get(0x70) != 11 {
            return false;
        }
        self.target.poke(AVAIL, &[0; 0x1000]);
        self.target.poke(USED, &[0; 0x1000]);
        self.set(0x30, 0);
        self.set(0x38, u32::from(size));
        self.set_address(0x80, DESC);
        self.set_address(0x90, AVAIL);
        self.set_address(0xa0, USED);
        self.set(0x44, 1);
        self.set(0x70, 15);
        (self.size, self.avail, self.used) = (size, 0, 0);
        true
    }

    pub fn descriptor(&mut self, table: u64, index: u16, addr: u64, len: u32, flags: u16, next: u16) {
        let mut bytes = addr.to_le_bytes().to_vec();
        bytes.extend(len.to_le_bytes());
        bytes.extend(flags.to_le_bytes());
        bytes.extend(next.to_le_bytes());
        self.target.poke(table + 16 * u64::from(index), &bytes);
    }

    pub fn header(&mut self, slot: u16, kind: u32, sector: u64) -> u64 {
        let place = HEADERS + 16 * u64::from(slot);
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend([0; 4]);
        bytes.extend(sector.to_le_bytes());
        self.target.poke(place, &bytes);
        self.target.poke(STATUSES + u64::from(slot), &[0xaa]);
        place
    }

    /// Writes a request of header, at most one buffer, and status to the descriptors from `3 * slot`.
    pub fn describe(&mut self, slot: u16, kind: u32, sector: u64, data: Option<(u64, u32, bool)>) {
        let header = self.header(slot, kind, sector);
        let first = 3 * slot;
        let status = STATUSES + u64::from(slot);
        match data {
            Some((addr, len, writable)) => {
                self.descriptor(DESC, first, header, 16, NEXT, first + 1);
                let flags = NEXT | if writable { WRITE } else { 0 };
                self.descriptor(DESC, first + 1, addr, len, flags, first + 2);
                self.descriptor(DESC, first + 2, status, 1, WRITE, 0);
            }
            None => {
                self.descriptor(DESC, first, header, 16, NEXT, first + 2);
                self.descriptor(DESC, first + 2, status, 1, WRITE, 0);
            }
        }
    }

    /// Puts a chain on the available ring, without notifying.
    pub fn offer(&mut self, head: u16) {
        let place = AVAIL + 4 + 2 * u64::from(self.avail % self.size);
        self.target.poke(place, &head.to_le_bytes());
        self.avail = self.avail.wrapping_add(1);
        let avail = self.avail;
        self.target.poke(AVAIL + 2, &avail.to_le_bytes());
    }

    pub fn notify(&mut self) {
        self.set(0x50, 0);
    }

    pub fn used_index(&mut self) -> u16 {
        let bytes = self.target.peek(USED + 2, 2);
        u16::from_le_bytes([bytes[0], bytes[1]])
    }

    /// The used ring's next entry: head and length.
    pub fn next_used(&mut self) -> Option<(u32, u32)> {
        if self.used_index() == self.used {
            return None;
        }
        let bytes = self.target.peek(USED + 4 + 8 * u64::from(self.used % self.size), 8);
        self.used = self.used.wrapping_add(1);
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        Some((word(0), word(4)))
    }

    pub fn status(&mut self, slot: u16) -> u8 {
        self.target.peek(STATUSES + u64::from(slot), 1)[0]
    }

    /// Performs one request; returns its status and the used length.
    pub fn request(&mut self, kind: u32, sector: u64, data: Option<(u64, u32, bool)>) -> (u8, u32) {
        self.describe(0, kind, sector, data);
        self.offer(0);
        self.notify();
        self.target.settle();
        let (head, len) = self.next_used().expect("the request is completed");
        assert_eq!(head, 0);
        (self.status(0), len)
    }

    pub fn read_disk(&mut self, sector: u64, len: u32) -> Vec<u8> {
        assert_eq!(self.request(IN, sector, Some((DATA, len, true))), (0, len + 1));
        self.target.peek(DATA, len as usize)
    }

    pub fn write_disk(&mut self, sector: u64, bytes: &[u8]) -> u8 {
        self.target.poke(DATA, bytes);
        self.request(OUT, sector, Some((DATA, bytes.len() as u32, false))).0
    }
}
