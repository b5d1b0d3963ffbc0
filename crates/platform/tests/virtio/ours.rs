//! Our device with some memory, and a disk with defined contents.

use std::io::Write;

use doorbell_platform::{DiskConfig, DiskFile, GuestMemory, VirtioDisk};
use doorbell_sim::ports::DmaPurpose;
use doorbell_sim::{AccessSize, PhysAddr, Ps};

use crate::virtio::driver::Target;

pub const RAM_BASE: u64 = 0x8000_0000;
pub const RAM_BYTES: usize = 1 << 20;
/// 100 sectors: the last block is incomplete.
pub const SECTORS: u64 = 100;

pub struct Memory(pub Vec<u8>);

impl Memory {
    fn range(&self, addr: PhysAddr, len: u64) -> Option<std::ops::Range<usize>> {
        let start = addr.0.checked_sub(RAM_BASE)?;
        let end = start.checked_add(len)?;
        (end <= self.0.len() as u64).then_some(start as usize..end as usize)
    }
}

impl GuestMemory for Memory {
    fn contains(&self, addr: PhysAddr, len: u64) -> bool {
        self.range(addr, len).is_some()
    }
    fn read(&mut self, addr: PhysAddr, into: &mut [u8], _: DmaPurpose) -> bool {
        let Some(range) = self.range(addr, into.len() as u64) else { return false };
        into.copy_from_slice(&self.0[range]);
        true
    }
    fn write(&mut self, addr: PhysAddr, from: &[u8], _: DmaPurpose) -> bool {
        let Some(range) = self.range(addr, from.len() as u64) else { return false };
        self.0[range].copy_from_slice(from);
        true
    }
}

pub struct Ours {
    pub disk: VirtioDisk,
    pub memory: Memory,
    pub now: Ps,
    pub wakes: Vec<Ps>,
}

/// The disk's contents: all sectors differ.
pub fn contents(sectors: u64) -> Vec<u8> {
    (0..sectors * 512).map(|at| (at / 512 * 31 + at % 512 * 7 + at / 4096) as u8).collect()
}

/// The contents as a file.
pub fn disk_file(sectors: u64) -> (tempfile::NamedTempFile, DiskFile) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&contents(sectors)).unwrap();
    let opened = DiskFile::open(file.path()).unwrap();
    (file, opened)
}

impl Ours {
    pub fn new(config: DiskConfig) -> Ours {
        Ours::with_file(config, disk_file(SECTORS).1)
    }

    pub fn with_file(config: DiskConfig, file: DiskFile) -> Ours {
        let disk = VirtioDisk::new(0, config, file);
        Ours { disk, memory: Memory(vec![0; RAM_BYTES]), now: Ps::ZERO, wakes: Vec::new() }
    }

    /// Handles the next event, if there is one.
    pub fn step(&mut self) -> bool {
        self.wakes.sort();
        if self.wakes.is_empty() {
            return false;
        }
        self.now = self.wakes.remove(0).max(self.now);
        let wake = self.disk.wake(self.now, &mut self.memory);
        self.wakes.extend(wake);
        true
    }
}

impl Target for Ours {
    fn read(&mut self, offset: u64, size: AccessSize) -> u64 {
        self.disk.read(offset, size)
    }
    fn write(&mut self, offset: u64, size: AccessSize, value: u64) {
        let wake = self.disk.write(offset, size, value, self.now, &mut self.memory);
        self.wakes.extend(wake);
    }
    fn poke(&mut self, addr: u64, bytes: &[u8]) {
        assert!(self.memory.write(PhysAddr(addr), bytes, DmaPurpose::Data));
    }
    fn peek(&mut self, addr: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        assert!(self.memory.read(PhysAddr(addr), &mut bytes, DmaPurpose::Data));
        bytes
    }
    fn settle(&mut self) {
        while self.step() {}
    }
}
