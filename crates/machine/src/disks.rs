//! The disks: their place on the bus, their interrupts, and what of them stands in checkpoints.

use std::io::Read;

use doorbell_platform::virtio::{VirtioDiskStats, read_empty};
use doorbell_platform::{DiskFile, GuestMemory, VirtioDisk, VirtioDiskState, map};
use doorbell_sim::snapshot::{Snapshot, SnapshotError};
use doorbell_sim::{AccessSize, Phase, PhysAddr, Ps, Ram};

use crate::checkpoint::CheckpointError;
use crate::config::ConfigError;
use crate::events::Event;
use crate::machine::Machine;

/// What a disk sees of memory: reservations and decoded code learn of its stores.
struct DiskSide<'a>(&'a mut Ram);

impl GuestMemory for DiskSide<'_> {
    fn contains(&self, addr: PhysAddr, len: u64) -> bool {
        self.0.offset(addr, len).is_some()
    }

    fn read(&self, addr: PhysAddr, into: &mut [u8]) -> bool {
        self.0.copy_out(addr, into)
    }

    fn write(&mut self, addr: PhysAddr, from: &[u8]) -> bool {
        self.0.store_from_device(addr, from)
    }
}

fn section(slot: usize) -> String {
    format!("disk{slot}")
}

fn place(offset: u64) -> (usize, u64) {
    ((offset / map::VIRTIO_SLOT_BYTES) as usize, offset % map::VIRTIO_SLOT_BYTES)
}

impl Machine {
    /// Puts a disk into the next free place, before the machine is loaded or restored: the guest's first is /dev/vda.
    pub fn attach_disk(&mut self, file: DiskFile) -> Result<(), ConfigError> {
        if self.disks.len() as u32 == map::VIRTIO_SLOTS {
            let problem =
                format!("a machine has places for {} disks, with an image's own", map::VIRTIO_SLOTS);
            return Err(ConfigError::new("disk", problem));
        }
        self.disks.push(VirtioDisk::new(self.disks.len() as u8, self.config.disk.clone(), file));
        Ok(())
    }

    /// What each disk counted.
    pub fn disk_stats(&self) -> Vec<VirtioDiskStats> {
        self.disks.iter().map(VirtioDisk::stats).collect()
    }

    /// How many requests the disks have taken and not answered yet.
    pub fn disk_requests_under_way(&self) -> usize {
        self.disks.iter().map(VirtioDisk::requests_under_way).sum()
    }

    pub(crate) fn read_virtio(&mut self, offset: u64, size: AccessSize) -> u64 {
        let (slot, offset) = place(offset);
        match self.disks.get_mut(slot) {
            Some(disk) => disk.read(offset, size),
            None => read_empty(offset, size),
        }
    }

    pub(crate) fn write_virtio(&mut self, offset: u64, size: AccessSize, value: u64, now: Ps) {
        let (slot, offset) = place(offset);
        let Some(disk) = self.disks.get_mut(slot) else { return };
        let wake = disk.write(offset, size, value, now, &mut DiskSide(&mut self.ram));
        self.after_disk(slot, wake);
    }

    /// A request of a disk's may be done.
    pub(crate) fn disk_due(&mut self, now: Ps, slot: u8) {
        let slot = usize::from(slot);
        let wake = self.disks[slot].wake(now, &mut DiskSide(&mut self.ram));
        self.after_disk(slot, wake);
    }

    fn after_disk(&mut self, slot: usize, wake: Option<Ps>) {
        if let Some(at) = wake {
            self.queue.schedule(at, Phase::Dma, Event::Disk { slot: slot as u8 });
        }
        self.plic.set_level(map::VIRTIO_IRQ + slot as u32, self.disks[slot].irq());
        self.update_interrupts();
    }

    /// Puts the disks into a snapshot; the contents of written blocks follow the RAM's pages.
    pub(crate) fn save_disks(&self, snapshot: &mut Snapshot) {
        for (slot, disk) in self.disks.iter().enumerate() {
            snapshot.put(&section(slot), VirtioDiskState::VERSION, &disk.save());
        }
    }

    /// The contents of all written blocks, disk by disk.
    pub(crate) fn written_blocks(&self) -> impl Iterator<Item = &[u8]> {
        self.disks.iter().flat_map(|disk| disk.medium().written_data()).map(|block| block.as_slice())
    }

    /// Finds out whether a checkpoint was made with the disks that the machine has.
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

    /// Restores the disks from a snapshot and what follows the RAM's pages.
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
