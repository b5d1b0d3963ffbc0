//! DMA paths to memory. A PCI function's path crosses its attachment, the caches and DRAM, if its bridge
//! allows it. The path of a platform device, such as a disk, begins at the interconnect.

use doorbell_attach::Attachment;
use doorbell_platform::{InterruptsKind, map};
use doorbell_sim::memory::{DmaAccess, HostMemory, each_line};
use doorbell_sim::ports::{DmaDirection, DmaPort, DmaRequest};
use doorbell_sim::{PhysAddr, Ps, Ram};
use doorbell_trace::system::EventKind;

use crate::message::{InterruptFiles, file_level};
use crate::timed::{Mode, Recording, Timing, active_recording};

doorbell_sim::stats! {
    /// DMA outside RAM or without bus mastering.
    pub struct DmaStats {
        /// Reads and writes outside RAM: reads return all ones, writes are dropped.
        outside_ram,
        /// Reads and writes while the command register's bus-master bit was off.
        not_bus_master,
    }
}

/// A PCI function's path to memory.
pub(crate) struct BusSide<'a> {
    /// Device number in caches and per-device counters.
    pub device: u8,
    pub ram: &'a mut Ram,
    pub attachment: &'a mut Attachment,
    pub dma: &'a mut DmaStats,
    pub timing: Option<&'a mut Timing>,
    /// Recorder of a machine without timing models.
    pub recording: Option<&'a mut Recording>,
    pub bus_master: bool,
    /// Current machine time. A request may start later, if it waits for the device's own engine.
    pub present: Ps,
    /// Kind of interrupt controller, which determines where the harts' interrupt files are.
    pub interrupts: InterruptsKind,
}

/// Updates the caches for a request, in warming mode.
fn warm(timing: &mut Timing, request: DmaRequest, access: DmaAccess, direction: DmaDirection) {
    if timing.mode() == Mode::Warming {
        timing.warm_dma(&request, access, direction);
    }
}

/// Path of a platform device outside PCI Express, at one time. Its requests change caches and use the
/// interconnect and DRAM like those of all devices. Completion times are up to the device, which has its own
/// transfer time.
pub(crate) struct PlatformSide<'a> {
    /// Device number in caches and per-device counters.
    pub device: u8,
    pub ram: &'a mut Ram,
    pub timing: Option<&'a mut Timing>,
    /// Recorder of a machine without timing models.
    pub recording: Option<&'a mut Recording>,
    pub now: Ps,
}

impl PlatformSide<'_> {
    /// Applies a request to the caches and memory.
    pub fn request(&mut self, request: DmaRequest, direction: DmaDirection) {
        if let Some(recording) = active_recording(self.timing.as_deref_mut(), self.recording.as_deref_mut()) {
            recording.dma(self.device, &request, direction, self.now, self.now);
        }
        let Some(timing) = &mut self.timing else { return };
        let DmaRequest { addr, len, .. } = request;
        let access = DmaAccess::of_request(self.device, &request);
        warm(timing, request, access, direction);
        if timing.mode() != Mode::Detailed {
            return;
        }
        timing.memory.advance_to(self.now);
        each_line(addr, u64::from(len), |line, bytes, within| {
            let access = access.advanced_by(within);
            match direction {
                DmaDirection::Read => timing.memory.device_read(self.now, line, bytes, access),
                DmaDirection::Write => timing.memory.device_write(self.now, line, bytes, access),
            };
        });
    }
}

impl BusSide<'_> {
    /// Records a device event other than DMA.
    pub fn record(&mut self, now: Ps, what: EventKind) {
        if let Some(recording) = active_recording(self.timing.as_deref_mut(), self.recording.as_deref_mut()) {
            recording.device_event(self.device, now, what, None);
        }
    }

    /// Sends an interrupt message and returns its arrival time. It is a posted write after the earlier ones.
    /// It updates caches and DRAM unless it goes to an interrupt file.
    pub fn request_message(&mut self, now: Ps, request: DmaRequest) -> Ps {
        let region = map::lookup(request.addr.0, self.interrupts);
        if region.is_none_or(|(region, _)| file_level(region.id).is_none()) {
            return self.access(now, request, DmaDirection::Write);
        }
        let DmaRequest { addr, len, .. } = request;
        let access = DmaAccess::of_request(self.device, &request);
        let mut files = self.timing.as_ref().map(|_| InterruptFiles);
        self.attachment.write(now, addr, len, access, files.as_mut())
    }

    /// Whether a write by the device may take effect; a forbidden write is counted.
    pub fn may_write(&mut self) -> bool {
        self.dma.not_bus_master += u64::from(!self.bus_master);
        self.bus_master
    }

    /// Issues a request and returns its completion time. Also updates the caches in warming mode.
    fn access(&mut self, now: Ps, request: DmaRequest, direction: DmaDirection) -> Ps {
        let DmaRequest { addr, len, .. } = request;
        let mut access = DmaAccess::of_request(self.device, &request);
        if let Some(timing) = &self.timing {
            // The tag holds a hart number; caches use core numbers.
            access.tag.core = access.tag.core.map(|hart| timing.core_of(usize::from(hart)) as u8);
        }
        self.attachment.advance_to(self.present);
        let memory = self.timing.as_mut().map(|timing| {
            warm(timing, request, access, direction);
            if timing.mode() == Mode::Detailed {
                timing.memory.advance_to(self.present);
            }
            &mut timing.memory
        });
        let done = match direction {
            DmaDirection::Read => self.attachment.read(now, addr, len, access, memory),
            DmaDirection::Write => self.attachment.write(now, addr, len, access, memory),
        };
        if let Some(recording) = active_recording(self.timing.as_deref_mut(), self.recording.as_deref_mut()) {
            recording.dma(self.device, &request, direction, now, done);
        }
        done
    }
}

impl DmaPort for BusSide<'_> {
    fn request_read(&mut self, now: Ps, request: DmaRequest) -> Ps {
        self.access(now, request, DmaDirection::Read)
    }

    fn request_write(&mut self, now: Ps, request: DmaRequest) -> Ps {
        self.access(now, request, DmaDirection::Write)
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
    use doorbell_sim::ports::DmaPurpose;

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

    fn request(machine: &mut Machine, bytes: u32, direction: DmaDirection) {
        let (ram, timing) = (&mut machine.ram, machine.timing.as_deref_mut());
        let now = Ps::from_us(1);
        let mut side = PlatformSide { device: PLATFORM_DEVICES, ram, timing, recording: None, now };
        side.request(DmaRequest::plain(LINE, bytes, DmaPurpose::Data, 0), direction);
    }

    #[test]
    fn platform_device_dma_invalidates_cached_copies_and_is_counted_per_device() {
        for mode in [Mode::Warming, Mode::Detailed] {
            let mut machine = timed(mode);
            let memory = &mut machine.timing.as_mut().unwrap().memory;
            memory.warm(0, CoreAccess { kind: AccessKind::Store, addr: LINE, pc: 0 });
            request(&mut machine, 128, DmaDirection::Read);
            request(&mut machine, 128, DmaDirection::Write);
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
    fn functional_mode_counts_no_device_accesses() {
        let mut machine = timed(Mode::Functional);
        request(&mut machine, 64, DmaDirection::Write);
        let memory = &machine.timing.as_ref().unwrap().memory;
        assert_eq!(memory.device_account(PLATFORM_DEVICES).lines_written, 0);
    }
}
