//! The machine's PCI functions in one list: the ports' NICs, in port order, then the functions that a caller
//! adds. All implement [`PciFunction`]. `CONTRIBUTING.md` describes how to add one; `crates/example` is an
//! example.

use doorbell_attach::Attachment;
use doorbell_pcie::path::PathState;
use doorbell_pcie::{FunctionIdentity, NetworkFunction, PciFunction, Place, PolledRing};
use doorbell_sim::Ps;
use doorbell_sim::snapshot::{Snapshot, SnapshotError};
use doorbell_sim::stats::Counter;
use doorbell_trace::system::EventKind;

use crate::dma::{BusSide, DmaStats};
use crate::function_side::FunctionSide;
use crate::machine::Machine;

/// Version of the sections with the functions' own states.
const FUNCTION_VERSION: u32 = 3;
/// Version of the sections with register accesses in flight.
const REGISTERS_VERSION: u32 = 1;
/// Maximum number of functions of a machine apart from its NICs.
pub(crate) const FUNCTIONS_MAX: usize = 16;

/// A function at its place in the PCI tree.
pub struct PluggedFunction {
    pub(crate) function: Box<dyn PciFunction>,
    name: String,
    place: Place,
    /// Its network port, if it has one.
    port: Option<u8>,
    /// The index of its attachment, and whether it is the first function that uses it.
    pub(crate) card: u8,
    pub(crate) is_first: bool,
    irq: bool,
    dma: DmaStats,
}

impl PluggedFunction {
    /// The NIC of a port.
    pub(crate) fn nic(port: u8, nic: Box<dyn PciFunction>, place: Place) -> PluggedFunction {
        PluggedFunction::new(nic, format!("port{port}"), place, Some(port))
    }

    /// A function other than the ports' NICs; `number` counts these functions.
    pub(crate) fn other(number: usize, function: Box<dyn PciFunction>, place: Place) -> PluggedFunction {
        PluggedFunction::new(function, format!("function{number}"), place, None)
    }

    fn new(function: Box<dyn PciFunction>, name: String, place: Place, port: Option<u8>) -> PluggedFunction {
        let (card, is_first, irq, dma) = (0, true, false, DmaStats::default());
        PluggedFunction { function, name, place, port, card, is_first, irq, dma }
    }

    /// Prefix of its sections and counters: "port0" for a port's NIC, "function0" for the first other
    /// function.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its place in the PCI tree.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Its configuration space after reset.
    pub fn identity(&self) -> FunctionIdentity {
        self.function.identity()
    }

    /// The device model.
    pub fn function(&self) -> &dyn PciFunction {
        &*self.function
    }

    /// Its network interface, if it has a wire.
    pub fn network(&self) -> Option<&dyn NetworkFunction> {
        self.function.network()
    }

    /// Its own counters.
    pub fn counters(&self) -> Vec<Counter> {
        self.function.counters()
    }

    /// Receive rings that software polls, according to the current register values.
    pub fn polled_rings(&self) -> Vec<Box<dyn PolledRing>> {
        self.function.polled_rings()
    }

    /// Counters of its failed DMA.
    pub fn dma_stats(&self) -> &DmaStats {
        &self.dma
    }

    /// Level of its interrupt pin, before masks.
    pub(crate) fn irq(&self) -> bool {
        self.irq
    }

    /// Saves its own state and, for the first function of a device, the attachment's state at `now`. The
    /// state common to all functions is in the machine's section.
    pub(crate) fn save(&self, now: Ps, attachments: &[Attachment], snapshot: &mut Snapshot) {
        snapshot.put(&self.section("function"), FUNCTION_VERSION, &self.function.save());
        if !self.is_first {
            return;
        }
        let attachment = &attachments[usize::from(self.card)];
        snapshot.put(&self.section("path"), PathState::VERSION, &attachment.path().save());
        // Present only if a run switched from timed to functional with accesses in flight.
        if let Some(at) = attachment.registers_in_flight(now) {
            snapshot.put(&self.section("registers"), REGISTERS_VERSION, &at);
        }
    }

    fn section(&self, what: &str) -> String {
        format!("{}.{what}", self.name)
    }

    pub(crate) fn restore(
        &mut self,
        snapshot: &Snapshot,
        attachments: &mut [Attachment],
        irq: bool,
        dma: DmaStats,
    ) -> Result<(), SnapshotError> {
        (self.irq, self.dma) = (irq, dma);
        self.function.restore(&snapshot.get::<Vec<u8>>(&self.section("function"), FUNCTION_VERSION)?)?;
        if !self.is_first {
            return Ok(());
        }
        let attachment = &mut attachments[usize::from(self.card)];
        let registers = self.section("registers");
        if snapshot.has(&registers) {
            attachment.restore_registers(snapshot.get(&registers, REGISTERS_VERSION)?)?;
        }
        attachment.path_mut().restore(snapshot.get(&self.section("path"), PathState::VERSION)?)
    }
}

impl Machine {
    /// The PCI functions: the ports' NICs, then the added functions.
    pub fn functions(&self) -> &[PluggedFunction] {
        &self.functions
    }

    /// The function behind a port.
    pub fn function_behind(&self, port: usize) -> &PluggedFunction {
        &self.functions[usize::from(self.ports[port].function)]
    }

    /// The NIC behind a port.
    pub fn nic(&self, port: usize) -> &dyn NetworkFunction {
        self.function_behind(port).network().expect("the function behind a port has a wire")
    }

    /// The NICs behind all ports, in the ports' order.
    pub fn nics(&self) -> impl Iterator<Item = &dyn NetworkFunction> {
        (0..self.ports.len()).map(|port| self.nic(port))
    }

    /// Calls a function with its interface to the machine, then updates its interrupt pin.
    pub(crate) fn with_function<R>(
        &mut self,
        index: u8,
        call: impl FnOnce(&mut dyn PciFunction, &mut FunctionSide<'_>) -> R,
    ) -> R {
        let id = self.function_id(index);
        let bus_master = self.bridge.bus_master(id);
        let parts = &mut self.functions[usize::from(index)];
        let bus = BusSide {
            device: index,
            ram: &mut self.ram,
            attachment: &mut self.attachments[usize::from(parts.card)],
            dma: &mut parts.dma,
            timing: self.timing.as_deref_mut(),
            recording: self.recording.as_deref_mut(),
            bus_master,
            present: self.queue.now(),
            interrupts: self.config.platform.interrupts,
        };
        let (ports, stages) = (&mut self.ports, &mut self.stages);
        let wire = parts.port.map(|port| ports[usize::from(port)].wire(port, stages));
        let (queue, config) = (&mut self.queue, self.bridge.function_mut(id));
        let mut side = FunctionSide { index, queue, irq: &mut parts.irq, config, bus, wire };
        let result = call(&mut *parts.function, &mut side);
        let level = parts.irq;
        if self.bridge.set_interrupt(id, level) {
            self.record_event(index, self.queue.now(), EventKind::Interrupt { raised: level });
            self.update_pci_interrupts();
        }
        result
    }

    /// Calls the NIC of a port like [`with_function`](Machine::with_function).
    pub(crate) fn with_network(
        &mut self,
        port: usize,
        call: impl FnOnce(&mut dyn NetworkFunction, &mut FunctionSide<'_>),
    ) {
        self.with_function(self.ports[port].function, |function, side| {
            if let Some(network) = function.network_mut() {
                call(network, side);
            }
        });
    }
}

#[cfg(test)]
#[path = "functions_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "external_nic_tests.rs"]
mod external_nic_tests;
