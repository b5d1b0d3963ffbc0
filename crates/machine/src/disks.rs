//! Disks: virtio slots on the bus, interrupts, and sections in checkpoints.

use std::io::Read;

use doorbell_memory::dca::PLATFORM_DEVICES;
use doorbell_platform::virtio::{VirtioDiskStats, read_empty};
use doorbell_platform::{DiskFile, GuestMemory, VirtioDisk, VirtioDiskState, map};
use doorbell_sim::ports::{DmaDirection, DmaPurpose, DmaRequest};
use doorbell_sim::snapshot::{Snapshot, SnapshotError};
use doorbell_sim::{AccessSize, Phase, PhysAddr, Ps};

use crate::checkpoint::CheckpointError;
use crate::config::ConfigError;
use crate::dma::PlatformSide;
use crate::events::Event;
use crate::machine::Machine;

/// First device number of disks, as caches and per-device counters use it.
pub const DISK_DEVICES: u8 = PLATFORM_DEVICES;

/// A disk's access to memory. Accesses update caches, reservations and decoded code.
struct DiskSide<'a>(PlatformSide<'a>);

impl DiskSide<'_> {
    fn request(&mut self, addr: PhysAddr, bytes: usize, purpose: DmaPurpose, direction: DmaDirection) {
        self.0.request(DmaRequest::plain(addr, bytes as u32, purpose, 0), direction);
    }
}

impl GuestMemory for DiskSide<'_> {
    fn contains(&self, addr: PhysAddr, len: u64) -> bool {
        self.0.ram.offset(addr, len).is_some()
    }

    fn read(&mut self, addr: PhysAddr, into: &mut [u8], purpose: DmaPurpose) -> bool {
        let there = self.0.ram.copy_out(addr, into);
        if there {
            self.request(addr, into.len(), purpose, DmaDirection::Read);
        }
        there
    }

    fn write(&mut self, addr: PhysAddr, from: &[u8], purpose: DmaPurpose) -> bool {
        let there = self.0.ram.store_from_device(addr, from);
        if there {
            self.request(addr, from.len(), purpose, DmaDirection::Write);
        }
        there
    }
}

fn section(slot: usize) -> String {
    format!("disk{slot}")
}

fn slot_at(offset: u64) -> (usize, u64) {
    ((offset / map::VIRTIO_SLOT_BYTES) as usize, offset % map::VIRTIO_SLOT_BYTES)
}

impl Machine {
    /// Adds a disk in the next free slot, before the machine is loaded or restored. The guest's first disk is
    /// /dev/vda.
    pub fn attach_disk(&mut self, file: DiskFile) -> Result<(), ConfigError> {
        if self.disks.len() as u32 == map::VIRTIO_SLOTS {
            let problem = format!(
                "a machine has {} disk slots, including those for the image's own disks",
                map::VIRTIO_SLOTS
            );
            return Err(ConfigError::new("disk", problem));
        }
        self.disks.push(VirtioDisk::new(self.disks.len() as u8, self.config.disk.clone(), file));
        Ok(())
    }

    /// Counters of each disk.
    pub fn disk_stats(&self) -> Vec<VirtioDiskStats> {
        self.disks.iter().map(VirtioDisk::stats).collect()
    }

    /// Requests that the disks have taken and not answered yet.
    pub fn disk_requests_in_flight(&self) -> usize {
        self.disks.iter().map(VirtioDisk::requests_in_flight).sum()
    }

    pub(crate) fn read_virtio(&mut self, offset: u64, size: AccessSize) -> u64 {
        let (slot, offset) = slot_at(offset);
        match self.disks.get_mut(slot) {
            Some(disk) => disk.read(offset, size),
            None => read_empty(offset, size),
        }
    }

    pub(crate) fn write_virtio(&mut self, offset: u64, size: AccessSize, value: u64, now: Ps) {
        let (slot, offset) = slot_at(offset);
        if slot < self.disks.len() {
            self.with_disk(slot, now, |disk, side| disk.write(offset, size, value, now, side));
        }
    }

    /// Wakes a disk whose request may be complete.
    pub(crate) fn disk_due(&mut self, now: Ps, slot: u8) {
        self.with_disk(usize::from(slot), now, |disk, side| disk.wake(now, side));
    }

    /// Calls a disk with its access to memory, schedules the wake-up that it requests, and forwards its
    /// interrupt line.
    fn with_disk(
        &mut self,
        slot: usize,
        now: Ps,
        call: impl FnOnce(&mut VirtioDisk, &mut DiskSide<'_>) -> Option<Ps>,
    ) {
        let (device, timing) = (DISK_DEVICES + slot as u8, self.timing.as_deref_mut());
        let recording = self.recording.as_deref_mut();
        let mut side = DiskSide(PlatformSide { device, ram: &mut self.ram, timing, recording, now });
        let wake = call(&mut self.disks[slot], &mut side);
        if let Some(at) = wake {
            self.queue.schedule(at, Phase::Dma, Event::Disk { slot: slot as u8 });
        }
        self.interrupts.set_level(map::VIRTIO_IRQ + slot as u32, self.disks[slot].irq());
        self.update_interrupts();
    }

    /// Puts the disks into a snapshot. The contents of written blocks follow the RAM pages.
    pub(crate) fn save_disks(&self, snapshot: &mut Snapshot) {
        for (slot, disk) in self.disks.iter().enumerate() {
            snapshot.put(&section(slot), VirtioDiskState::VERSION, &disk.save());
        }
    }

    /// The contents of all written blocks, disk by disk.
    pub(crate) fn written_blocks(&self) -> impl Iterator<Item = &[u8]> {
        self.disks.iter().flat_map(|disk| disk.medium().written_data()).map(|block| block.as_slice())
    }

    /// Checks that a checkpoint was made with this machine's disks.
    pub(crate) fn check_disks(&self, snapshot: &Snapshot) -> Result<(), CheckpointError> {
        let other = |problem: String| Err(CheckpointError::OtherMachine(problem));
        for (slot, disk) in self.disks.iter().enumerate() {
            let state = match snapshot.get::<VirtioDiskState>(&section(slot), VirtioDiskState::VERSION) {
                Err(SnapshotError::Missing(_)) => return other(format!("it has only {slot} disks")),
                state => state?,
            };
            if state.identity() != disk.identity() {
                let (its, this) = (state.identity(), disk.identity());
                return other(format!("its disk {slot} has {its}, the file given has {this}"));
            }
        }
        let beyond = snapshot.get::<VirtioDiskState>(&section(self.disks.len()), VirtioDiskState::VERSION);
        match beyond {
            Err(SnapshotError::Missing(_)) => Ok(()),
            Err(error) => Err(error.into()),
            Ok(state) => other(format!(
                "it has one more disk, of {}; name its file with --disk FILE",
                state.identity()
            )),
        }
    }

    /// Restores the disks from a snapshot and from the block contents after the RAM pages.
    pub(crate) fn restore_disks(
        &mut self,
        snapshot: &Snapshot,
        written: &mut impl Read,
    ) -> Result<(), CheckpointError> {
        for (slot, disk) in self.disks.iter_mut().enumerate() {
            let state = snapshot.get(&section(slot), VirtioDiskState::VERSION)?;
            disk.restore(&section(slot), state, |block| written.read_exact(block).is_ok())?;
        }
        Ok(())
    }
}
