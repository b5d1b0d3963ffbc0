//! Loads and stores of harts to devices: target device, latency and side effects.
//!
//! Platform devices answer at once. Accesses to PCI take the path's latency. A store is posted and takes
//! effect when it arrives. A load, or any access to configuration space, stalls the hart until the answer
//! returns.

use doorbell_attach::Attachment;
use doorbell_pcie::link::RegisterWrite;
use doorbell_pcie::{Decoded, FunctionId};
use doorbell_platform::map::{self, RegionId};
use doorbell_platform::names::{claim_context, register_name};
use doorbell_platform::{Action, ClintEffect};
use doorbell_riscv::{Interrupt, MmioRequest};
use doorbell_sim::{AccessSize, Phase, PhysAddr, Ps, log};
use doorbell_trace::system::EventKind;

use crate::events::Event;
use crate::interrupt_controller::InterruptController;
use crate::machine::Machine;
use crate::message::{domain_level, file_level};
use crate::run::Outcome;

/// Describes a device access for the log.
fn describe(request: &MmioRequest) -> String {
    let bytes = request.size.bytes();
    request.store_value().map_or_else(
        || format!("load of {bytes} bytes"),
        |value| format!("store of {value:#x} ({bytes} bytes)"),
    )
}

impl Machine {
    /// Starts the device access at which a hart has stopped.
    pub(crate) fn start_device_access(&mut self, hart: u32, request: MmioRequest) {
        let now = self.harts[hart as usize].time();
        let Some((region, offset)) = self.region(request.addr) else {
            self.stats.bus_errors += 1;
            log!(now, Machine, Warn, "hart{hart}: no device at {}", request.addr);
            self.harts[hart as usize].fail_device_access();
            self.device_access_done(hart, now);
            return;
        };
        log!(
            now,
            Machine,
            Trace,
            "hart{hart}: {} at {} in {}",
            describe(&request),
            request.addr,
            region.name
        );
        let target = match region.id {
            RegionId::PciEcam => None,
            RegionId::PciIo => self.bridge.decode_io(offset),
            RegionId::PciMmio32 | RegionId::PciMmio64 => self.bridge.decode_memory(request.addr.0),
            _ => return self.access_platform(hart, region.id, offset, request, now),
        }
        .and_then(|decoded| self.function_index(decoded.function));
        match request.store_value() {
            Some(value) if region.id != RegionId::PciEcam => {
                let MmioRequest { addr, size, .. } = request;
                let write = match target {
                    Some(target) => self.attachment_mut(target).register_write(now, size.bytes()),
                    None => {
                        let arrives = now + self.config_latency();
                        RegisterWrite { accepted: now, acknowledged: now, arrives }
                    }
                };
                self.writers.stored(addr, hart);
                self.record_store(addr, hart);
                self.queue.schedule(write.arrives, Phase::Mmio, Event::DeviceWrite { addr, size, value });
                self.harts[hart as usize].complete_store();
                self.device_access_done_at(hart, [write.accepted, write.acknowledged]);
            }
            _ => {
                let arrives = match target {
                    Some(target) => self.attachment_mut(target).register_read(now, request.size.bytes()),
                    None => now + self.config_latency(),
                };
                self.queue.schedule(arrives, Phase::Mmio, Event::DeviceRead { hart });
            }
        }
    }

    /// One-way latency of accesses to configuration space and of accesses that no function claims.
    fn config_latency(&self) -> Ps {
        self.attachments.first().map_or(Ps::ZERO, Attachment::config_latency)
    }

    /// Performs an access to a platform device, which completes at once.
    fn access_platform(&mut self, hart: u32, id: RegionId, offset: u64, request: MmioRequest, now: Ps) {
        let size = request.size;
        self.access_at = now;
        match request.store_value() {
            Some(value) => {
                // The store retires first: what it causes (a reset, an interrupt) comes after it.
                self.log_platform(now, id, offset, size, value, true);
                self.harts[hart as usize].complete_store();
                self.write_platform(id, offset, size, value, now);
            }
            None => {
                let value = self.read_platform(id, offset, size, now);
                self.log_platform(now, id, offset, size, value, false);
                self.harts[hart as usize].complete_load(value);
            }
        }
        self.access_at = Ps::ZERO;
        self.device_access_done(hart, now);
    }

    /// Logs a platform access. Reads are logged after they complete: reading a claim register returns the
    /// claimed source.
    fn log_platform(&self, now: Ps, id: RegionId, offset: u64, size: AccessSize, value: u64, writing: bool) {
        if let Some(context) = claim_context(offset).filter(|_| id == RegionId::Plic) {
            let what = if writing { "completes" } else { "claims" };
            log!(now, Platform, Debug, "PLIC: context {context} {what} source {value}");
        }
        let register = || register_name(id, offset, size, &self.uart, writing);
        let (device, verb) = (map::get(id).name, if writing { "write" } else { "read" });
        log!(now, Platform, Trace, "{device}: {verb} {} = {value:#x}", register());
    }

    fn read_platform(&mut self, id: RegionId, offset: u64, size: AccessSize, now: Ps) -> u64 {
        match id {
            RegionId::Clint => {
                let ticks = self.ticks(now);
                self.clint.read(offset, size, ticks)
            }
            RegionId::Plic | RegionId::AplicMachine | RegionId::AplicSupervisor => {
                let value = match &mut self.interrupts {
                    InterruptController::Plic(plic) => plic.read(offset, size),
                    InterruptController::Aia { aplic, .. } => aplic.read(domain_level(id), offset, size),
                };
                self.update_interrupts();
                value
            }
            RegionId::ImsicMachine | RegionId::ImsicSupervisor => self.read_interrupt_file(offset, size),
            RegionId::Uart => {
                let value = self.uart.read(offset, size);
                self.update_interrupts();
                value
            }
            RegionId::Rtc => self.rtc.read(offset, size, now),
            RegionId::Syscon => self.syscon.read(offset, size),
            RegionId::Virtio => self.read_virtio(offset, size),
            _ => self.read_reset_rom(offset, size),
        }
    }

    fn write_platform(&mut self, id: RegionId, offset: u64, size: AccessSize, value: u64, now: Ps) {
        match id {
            RegionId::Clint => {
                let ticks = self.ticks(now);
                match self.clint.write(offset, size, value, ticks) {
                    ClintEffect::None => {}
                    ClintEffect::Software(hart) => {
                        let level = self.clint.msip(hart);
                        self.drive(hart, Interrupt::MachineSoftware, level);
                    }
                    ClintEffect::Timer(hart) => self.update_timers(hart, now),
                    ClintEffect::AllTimers => {
                        let offset = self.clint.mtime(0);
                        for hart in 0..self.harts.len() as u32 {
                            self.harts[hart as usize].set_time_offset(offset);
                            self.update_timers(hart, now);
                        }
                    }
                }
            }
            RegionId::Plic | RegionId::AplicMachine | RegionId::AplicSupervisor => {
                match &mut self.interrupts {
                    InterruptController::Plic(plic) => {
                        plic.write(offset, size, value);
                    }
                    InterruptController::Aia { aplic, .. } => {
                        aplic.write(domain_level(id), offset, size, value);
                    }
                }
                self.update_interrupts();
            }
            RegionId::ImsicMachine | RegionId::ImsicSupervisor => {
                let level = file_level(id).expect("the region is one of interrupt files");
                self.write_interrupt_file(now, level, offset, size, value);
            }
            RegionId::Uart => {
                self.uart.write(offset, size, value);
                if self.uart.has_output() {
                    self.console.push(&self.uart.take_output());
                }
                self.update_interrupts();
            }
            RegionId::Virtio => self.write_virtio(offset, size, value, now),
            RegionId::Rtc => {
                self.rtc.write(offset, size, value, now);
                self.update_alarm(now);
            }
            RegionId::Syscon => match self.syscon.write(offset, size, value) {
                Some(Action::PowerOff { code }) => {
                    log!(now, Machine, Info, "the guest powers off with code {code}");
                    self.outcome = Some(Outcome::PowerOff { code });
                }
                Some(Action::Reset) => {
                    log!(now, Machine, Info, "the guest requests a reset");
                    self.outcome = Some(Outcome::Reset);
                }
                None => {}
            },
            _ => self.stats.bus_errors += 1,
        }
    }

    fn read_reset_rom(&self, offset: u64, size: AccessSize) -> u64 {
        (0..size.bytes()).rev().fold(0, |value, i| {
            value << 8 | u64::from(*self.reset_rom.get((offset + i) as usize).unwrap_or(&0))
        })
    }

    /// Handles the arrival of a posted store to PCI.
    pub(crate) fn device_write(&mut self, now: Ps, addr: PhysAddr, size: AccessSize, value: u64) {
        let stored = self.take_store_origin(addr);
        let target = self.region(addr).and_then(|(region, offset)| match region.id {
            RegionId::PciIo => self.bridge.decode_io(offset),
            _ => self.bridge.decode_memory(addr.0),
        });
        let Some(Decoded { function, bar, offset }) = target else {
            self.stats.unclaimed_pci_accesses += 1;
            log!(now, Pcie, Warn, "no function claims the store of {value:#x} at {addr}");
            return;
        };
        let index = self.function_index(function).expect("a bridge claims no accesses itself");
        self.record_event(index, now, EventKind::Register { addr, size: size.bytes() as u8, value, stored });
        // The MSI-X table belongs to the function's configuration, not to its registers.
        if self.bridge.function_mut(function).write_vectors(bar, offset, size, value) {
            return self.with_function(index, |_, side| side.send_due(now));
        }
        let writer = self.writers.of(addr);
        self.with_function(index, |function, side| {
            function.set_writer(writer);
            function.write(now, bar, offset, size, value & size.mask(), side);
        });
    }

    /// Handles the arrival of a hart's load from PCI or of its access to configuration space.
    pub(crate) fn device_read(&mut self, now: Ps, hart: u32) {
        let request = self.harts[hart as usize].pending_mmio().expect("a hart waits for each read in flight");
        let (region, offset) = self.region(request.addr).expect("the address was looked up before");
        let mut done = now + self.config_latency();
        let value = match region.id {
            RegionId::PciEcam => match request.store_value() {
                Some(value) => {
                    self.config_write(offset, request.size, value);
                    0
                }
                None => {
                    let value = self.vendor_read(now, offset, request.size);
                    log!(now, Pcie, Debug, "{}: read {value:#x}", self.bridge.ecam_name(offset));
                    value
                }
            },
            _ => {
                let (value, answered) =
                    self.read_function(now, region.id, request.addr, offset, request.size);
                done = answered.unwrap_or(done);
                value
            }
        };
        self.queue.schedule(done, Phase::Mmio, Event::DeviceAnswer { hart, value });
    }

    /// Reads configuration space. The function may replace the value of a vendor capability.
    pub(crate) fn vendor_read(&mut self, now: Ps, offset: u64, size: AccessSize) -> u64 {
        let value = self.bridge.config_read(offset, size);
        let Some((id, register)) = self.bridge.vendor_access(offset, size) else { return value };
        let Some(index) = self.function_index(id) else { return value };
        let function = &mut self.functions[usize::from(index)].function;
        function.config_read(now, register, size, value) & size.mask()
    }

    fn read_function(
        &mut self,
        now: Ps,
        id: RegionId,
        addr: PhysAddr,
        offset: u64,
        size: AccessSize,
    ) -> (u64, Option<Ps>) {
        let decoded = match id {
            RegionId::PciIo => self.bridge.decode_io(offset),
            _ => self.bridge.decode_memory(addr.0),
        };
        let Some(Decoded { function, bar, offset }) = decoded else {
            self.stats.unclaimed_pci_accesses += 1;
            log!(now, Pcie, Warn, "no function claims the load at {addr}");
            return (size.mask(), None);
        };
        let index = self.function_index(function).expect("a bridge claims no accesses itself");
        let vectors = self.bridge.function(function).read_vectors(bar, offset, size);
        let requester = self.bridge.requester_id(function);
        let value = vectors.unwrap_or_else(|| {
            self.with_function(index, |function, side| {
                function.set_requester(requester);
                function.read(now, bar, offset, size, side) & size.mask()
            })
        });
        (value, Some(self.attachment_mut(index).register_answer(now, size.bytes())))
    }

    /// Completes a device access whose answer has returned, and resumes the hart.
    pub(crate) fn device_answer(&mut self, now: Ps, id: u32, value: u64) {
        let hart = &mut self.harts[id as usize];
        match hart.pending_mmio().expect("a hart waits for each answer in flight").store_value() {
            Some(_) => hart.complete_store(),
            None => hart.complete_load(value),
        }
        // The instruction completes when its answer arrives.
        let slot = hart.slot_at(now);
        hart.skip_to(slot);
        self.device_access_done(id, now);
    }

    pub(crate) fn config_write(&mut self, offset: u64, size: AccessSize, value: u64) {
        log!(self.queue.now(), Pcie, Debug, "{}: write {value:#x}", self.bridge.ecam_name(offset));
        let write = self.bridge.config_write(offset, size, value);
        let now = self.queue.now();
        for id in write.reset {
            if let Some(index) = self.function_index(id) {
                self.with_function(index, |function, side| function.reset(now, side));
            }
        }
        for id in write.bus_master_changed {
            let enabled = self.bridge.bus_master(id);
            if let Some(index) = self.function_index(id) {
                self.with_function(index, |function, side| function.set_bus_master(now, enabled, side));
            }
        }
        if let Some(index) = write.may_send.and_then(|id| self.function_index(id)) {
            self.with_function(index, |_, side| side.send_due(now));
        }
        if let Some((id, register)) = self.bridge.vendor_access(offset, size)
            && let Some(index) = self.function_index(id)
        {
            self.with_function(index, |function, side| {
                function.config_written(now, register, size, value & size.mask(), side);
            });
        }
        self.update_pci_interrupts();
    }

    /// Number of a function in the PCI tree, which lists the bridges first.
    pub(crate) fn function_id(&self, index: u8) -> FunctionId {
        FunctionId(self.config.platform.bridges.len() + usize::from(index))
    }

    /// Index of a function, by its number in the PCI tree; `None` for a bridge.
    fn function_index(&self, id: FunctionId) -> Option<u8> {
        id.0.checked_sub(self.config.platform.bridges.len()).map(|index| index as u8)
    }
}
