//! A device's way to memory. A PCI function's goes through its attachment, the caches and DRAM, if its bridge lets it; that of a
//! device of the platform's own, such as a disk, begins at the interconnect.

use doorbell_attach::Attachment;
use doorbell_platform::{InterruptsKind, map};
use doorbell_sim::memory::{DmaAccess, HostMemory, each_line};
use doorbell_sim::ports::{DmaPort, DmaRequest};
use doorbell_sim::{Done, PhysAddr, Ps, Ram};
use doorbell_trace::system::EventKind;

use crate::message::{InterruptFiles, file_level};
use crate::timed::{Mode, Recording, Timing, active_recording};

doorbell_sim::stats! {
    /// DMA that found no RAM, or was not allowed.
    pub struct DmaStats {
        /// Reads and writes outside RAM: read as all ones, writes swallowed.
        outside_ram,
        /// Reads and writes while the command register's bus-master bit was off.
        not_bus_master,
    }
}

/// A device's way to memory.
pub(crate) struct BusSide<'a> {
    /// By which number caches and accounts know the device.
    pub device: u8,
    pub ram: &'a mut Ram,
    pub attachment: &'a mut Attachment,
    pub dma: &'a mut DmaStats,
    pub timing: Option<&'a mut Timing>,
    /// Who records where there are no timing models.
    pub recording: Option<&'a mut Recording>,
    pub bus_master: bool,
    /// The machine has come to this moment. A request may be for later: one that waits for the device's own engine.
    pub present: Ps,
    /// Where harts' interrupt files are, if they have some.
    pub interrupts: InterruptsKind,
}

/// Caches that are warming learn of a request.
fn warm(timing: &mut Timing, request: DmaRequest, access: DmaAccess, write: bool) {
    if timing.mode() == Mode::Warming {
        timing.warm_dma(&request, access, write);
    }
}

/// The way of a device that the platform has beside PCI Express, at a moment. Its requests change caches and book the interconnect and
/// DRAM as those of all devices; when they are done is the device's own affair, which has a time for its transfers already.
pub(crate) struct PlatformSide<'a> {
    /// By which number caches and accounts know the device.
    pub device: u8,
    pub ram: &'a mut Ram,
    pub timing: Option<&'a mut Timing>,
    /// Who records where there are no timing models.
    pub recording: Option<&'a mut Recording>,
    pub now: Ps,
}

impl PlatformSide<'_> {
    /// Tells the caches and memory of a request.
    pub fn request(&mut self, request: DmaRequest, write: bool) {
        if let Some(recording) = active_recording(self.timing.as_deref_mut(), self.recording.as_deref_mut()) {
            recording.dma(self.device, &request, write, self.now, self.now);
        }
        let Some(timing) = &mut self.timing else { return };
        let DmaRequest { addr, len, .. } = request;
        let access = DmaAccess::of_request(self.device, &request);
        warm(timing, request, access, write);
        if timing.mode() != Mode::Detailed {
            return;
        }
        timing.memory.advance_to(self.now);
        each_line(addr, u64::from(len), |line, bytes, within| {
            let access = access.advanced_by(within);
            match write {
                true => timing.memory.device_write(self.now, line, bytes, access),
                false => timing.memory.device_read(self.now, line, bytes, access),
            };
        });
    }
}

impl BusSide<'_> {
    /// Anything but DMA happens at the device, for a recording.
    pub fn record(&mut self, now: Ps, what: EventKind) {
        if let Some(recording) = active_recording(self.timing.as_deref_mut(), self.recording.as_deref_mut()) {
            recording.device_event(self.device, now, what, None);
        }
    }

    /// When a message arrives: as a posted write behind the earlier ones, which caches and DRAM learn of unless it goes to an
    /// interrupt file.
    pub fn request_message(&mut self, now: Ps, request: DmaRequest) -> Ps {
        let region = map::lookup(request.addr.0, self.interrupts);
        if region.is_none_or(|(region, _)| file_level(region.id).is_none()) {
            return self.access(now, request, true);
        }
        let DmaRequest { addr, len, .. } = request;
        let access = DmaAccess::of_request(self.device, &request);
        let mut files = self.timing.as_ref().map(|_| InterruptFiles);
        self.attachment.write(now, addr, len, access, files.as_mut())
    }

    /// Whether a write by the device may take effect; one that may not is counted.
    pub fn may_write(&mut self) -> bool {
        self.dma.not_bus_master += u64::from(!self.bus_master);
        self.bus_master
    }

    /// When a device's request is done. Caches that are warming learn of it.
    fn access(&mut self, now: Ps, request: DmaRequest, write: bool) -> Ps {
        let DmaRequest { addr, len, .. } = request;
        let mut access = DmaAccess::of_request(self.device, &request);
        if let Some(timing) = &self.timing {
            // Software names harts.
            access.tag.core = access.tag.core.map(|hart| timing.core_of(usize::from(hart)) as u8);
        }
        self.attachment.advance_to(self.present);
        let memory = self.timing.as_mut().map(|timing| {
            warm(timing, request, access, write);
            if timing.mode() == Mode::Detailed {
                timing.memory.advance_to(self.present);
            }
            &mut timing.memory
        });
        let done = match write {
            true => self.attachment.write(now, addr, len, access, memory),
            false => self.attachment.read(now, addr, len, access, memory),
        };
        if let Some(recording) = active_recording(self.timing.as_deref_mut(), self.recording.as_deref_mut()) {
            recording.dma(self.device, &request, write, now, done);
        }
        done
    }
}

impl DmaPort for BusSide<'_> {
    fn request_read(&mut self, now: Ps, request: DmaRequest) -> Done {
        Done::At(self.access(now, request, false))
    }

    fn request_write(&mut self, now: Ps, request: DmaRequest) -> Done {
        Done::At(self.access(now, request, true))
    }

    fn read(&mut self, addr: PhysAddr, into: &mut [u8]) {
        self.dma.not_bus_master += u64::from(!self.bus_master);
        if !self.bus_master || !self.ram.copy_out(addr, into) {
            self.dma.outside_ram += u64::from(self.bus_master);
            into.fill(0xff);
        }
    }

    fn write(&mut self, addr: PhysAddr, from: &[u8]) {
        if !self.bus_master {
            self.dma.not_bus_master += 1;
        } else if !self.ram.store_from_device(addr, from) {
            self.dma.outside_ram += 1;
        }
    }

    fn buffer_returned(&mut self, addr: PhysAddr, bytes: u64) {
        if let Some(timing) = &mut self.timing
            && timing.mode() != Mode::Functional
        {
            timing.memory.buffer_returned(self.device, addr, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use doorbell_memory::dca::PLATFORM_DEVICES;
    use doorbell_platform::map;
    use doorbell_sim::memory::{AccessKind, CoreAccess};
    use doorbell_sim::ports::DmaKind;

    use super::*;
    use crate::config::{CoreModel, MachineConfig};
    use crate::machine::Machine;

    const LINE: PhysAddr = PhysAddr(map::RAM_BASE + 0x1_0000);

    fn timed(mode: Mode) -> Machine {
        let mut config = MachineConfig::default();
        config.core.model = CoreModel::Timed;
        let mut machine = Machine::new(config, 1).unwrap();
        machine.set_mode(mode);
        machine
    }

    fn request(machine: &mut Machine, bytes: u32, kind: DmaKind, write: bool) {
        let (ram, timing) = (&mut machine.ram, machine.timing.as_deref_mut());
        let now = Ps::from_us(1);
        let mut side = PlatformSide { device: PLATFORM_DEVICES, ram, timing, recording: None, now };
        side.request(DmaRequest::plain(LINE, bytes, kind, u32::MAX), write);
    }

    #[test]
    fn a_platform_device_s_write_takes_copies_away_and_its_read_finds_them() {
        for mode in [Mode::Warming, Mode::Detailed] {
            let mut machine = timed(mode);
            let memory = &mut machine.timing.as_mut().unwrap().memory;
            memory.warm(0, CoreAccess { kind: AccessKind::Store, addr: LINE, pc: 0 });
            request(&mut machine, 128, DmaKind::TxData, false);
            request(&mut machine, 128, DmaKind::RxData, true);
            let memory = &machine.timing.as_ref().unwrap().memory;
            let devices = memory.stats().devices;
            assert_eq!((devices.private_invalidations, devices.to_memory), (1, 2), "{mode:?}");
            assert_eq!((devices.allocations, devices.fresh_lines), (0, 0), "it has no direct cache access");
            let account = memory.device_account(PLATFORM_DEVICES);
            assert_eq!((account.lines_read, account.lines_written), (2, 2));
            assert_eq!(memory.device_account(0).lines_written, 0);
            let timed = memory.stats().devices.write_ps > 0;
            assert_eq!(timed, mode == Mode::Detailed, "warming takes no time");
        }
    }

    #[test]
    fn a_machine_that_runs_functionally_has_no_accounts() {
        let mut machine = timed(Mode::Functional);
        request(&mut machine, 64, DmaKind::RxData, true);
        let memory = &machine.timing.as_ref().unwrap().memory;
        assert_eq!(memory.device_account(PLATFORM_DEVICES).lines_written, 0);
    }
}
