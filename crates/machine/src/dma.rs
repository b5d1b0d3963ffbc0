//! A device's way to memory: through its attachment, the caches and DRAM, if its bridge lets it.

use doorbell_attach::Attachment;
use doorbell_sim::memory::DmaAccess;
use doorbell_sim::ports::{DmaPort, DmaRequest};
use doorbell_sim::{Done, PhysAddr, Ps, Ram};

use crate::timed::{Mode, Timing};

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
    pub bus_master: bool,
}

impl BusSide<'_> {
    /// When a device's request is done. Caches that are warming learn of it.
    fn price(&mut self, now: Ps, request: DmaRequest, write: bool) -> Ps {
        let DmaRequest { addr, len, kind, offset, .. } = request;
        let access = DmaAccess { device: self.device, kind, offset };
        if let Some(timing) = &mut self.timing
            && timing.mode() == Mode::Warming
        {
            timing.warm_dma(addr, len, access, write);
        }
        let memory = self.timing.as_mut().map(|timing| &mut timing.memory);
        match write {
            true => self.attachment.write(now, addr, len, access, memory),
            false => self.attachment.read(now, addr, len, access, memory),
        }
    }
}

impl DmaPort for BusSide<'_> {
    fn request_read(&mut self, now: Ps, request: DmaRequest) -> Done {
        Done::At(self.price(now, request, false))
    }

    fn request_write(&mut self, now: Ps, request: DmaRequest) -> Done {
        Done::At(self.price(now, request, true))
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
}
