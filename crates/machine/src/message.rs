//! Message signalled interrupts: four-byte writes to a hart's interrupt file by a PCI function, the APLIC or
//! another hart. If there is no interrupt file at the address, a function's message is written to memory.

use doorbell_platform::map::{self, RegionId};
use doorbell_platform::{DomainLevel, imsic};
use doorbell_riscv::FileLevel;
use doorbell_sim::memory::{DmaAccess, HostMemory};
use doorbell_sim::ports::DmaPort;
use doorbell_sim::{AccessSize, PhysAddr, Ps, log};

use crate::interrupt_controller::InterruptController;
use crate::machine::Machine;

/// Destination of messages to interrupt files: they bypass caches and DRAM, and arrive once they have crossed
/// the attachment.
pub(crate) struct InterruptFiles;

impl HostMemory for InterruptFiles {
    fn device_read(&mut self, now: Ps, _addr: PhysAddr, _bytes: u32, _access: DmaAccess) -> Ps {
        now
    }

    fn device_write(&mut self, now: Ps, _addr: PhysAddr, _bytes: u32, _access: DmaAccess) -> Ps {
        now
    }
}

/// Privilege level of the interrupt files in a region; `None` for other regions.
pub(crate) fn file_level(id: RegionId) -> Option<FileLevel> {
    match id {
        RegionId::ImsicMachine => Some(FileLevel::Machine),
        RegionId::ImsicSupervisor => Some(FileLevel::Supervisor),
        _ => None,
    }
}

/// Privilege level of an APLIC domain.
pub(crate) fn domain_level(id: RegionId) -> DomainLevel {
    if id == RegionId::AplicMachine { DomainLevel::Machine } else { DomainLevel::Supervisor }
}

impl Machine {
    /// The device region of an address, and the offset in it. There is no interrupt file beyond the last
    /// hart's.
    pub(crate) fn region(&self, addr: PhysAddr) -> Option<(map::Region, u64)> {
        let platform = &self.config.platform;
        let (region, offset) = map::lookup(addr.0, platform.interrupts)?;
        let there = file_level(region.id).is_none() || imsic::file_at(offset, platform.harts).is_some();
        there.then_some((region, offset))
    }

    /// Handles a function's message after it has crossed the attachment.
    pub(crate) fn message_arrives(&mut self, now: Ps, function: u8, addr: PhysAddr, data: u32) {
        let file = self.region(addr).and_then(|(region, offset)| file_level(region.id).zip(Some(offset)));
        let allowed = self.with_function(function, |_, side| match file {
            Some(_) => side.bus.may_write(),
            None => {
                side.bus.write(addr, &data.to_le_bytes());
                false
            }
        });
        if let (Some((level, offset)), true) = (file, allowed) {
            self.write_interrupt_file(now, level, offset, AccessSize::B4, data.into());
        }
    }

    /// Handles a store to an interrupt file's page.
    pub(crate) fn write_interrupt_file(
        &mut self,
        now: Ps,
        level: FileLevel,
        offset: u64,
        size: AccessSize,
        value: u64,
    ) {
        let InterruptController::Aia { stats, .. } = &mut self.interrupts else { return };
        let Some((hart, offset)) = imsic::file_at(offset, self.harts.len() as u32) else { return };
        if !imsic::is_message(offset, size) {
            stats.undefined_accesses += 1;
            return;
        }
        let identity = value as u32;
        log!(now, Machine, Debug, "hart{hart}: message {identity} to its {level:?} interrupt file");
        let implemented = self.harts[hart as usize].receive_message(level, identity);
        let counter = if implemented { &mut stats.messages } else { &mut stats.unknown_identities };
        *counter += 1;
        self.wake(hart);
    }

    /// Handles a load from an interrupt file's page: all bytes read as zero.
    pub(crate) fn read_interrupt_file(&mut self, offset: u64, size: AccessSize) -> u64 {
        if let InterruptController::Aia { stats, .. } = &mut self.interrupts {
            let register = imsic::is_message(offset % imsic::FILE_BYTES, size);
            stats.undefined_accesses += u64::from(!register);
        }
        0
    }

    /// Sends the APLIC's pending messages. A message is written to memory if software has set an address in
    /// RAM.
    pub(crate) fn send_wired_messages(&mut self) {
        while let InterruptController::Aia { aplic, stats } = &mut self.interrupts
            && let Some(message) = aplic.take_message()
        {
            let (addr, data) = (PhysAddr(message.address), message.data);
            let file = map::lookup(addr.0, self.config.platform.interrupts)
                .and_then(|(region, offset)| file_level(region.id).zip(Some(offset)))
                .filter(|(_, offset)| imsic::file_at(*offset, self.harts.len() as u32).is_some());
            match file {
                Some((level, offset)) => {
                    self.write_interrupt_file(self.queue.now(), level, offset, AccessSize::B4, data.into());
                }
                None if self.ram.store_from_device(addr, &data.to_le_bytes()) => {}
                None => stats.stray_messages += 1,
            }
        }
    }
}
