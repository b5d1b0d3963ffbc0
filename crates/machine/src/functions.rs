//! PCI functions. A function stands at a place of the PCI tree. Its registers are read and written; it moves data by DMA through its
//! device's attachment (`cards.rs`), the caches and DRAM; it wakes itself up, interrupts, counts, and is saved. The machine has one
//! list of them and calls all alike: the NICs behind its ports, then the other implementations of [`PciFunction`]. A NIC is called
//! without dynamic dispatch (`nic_function.rs`). `CONTRIBUTING.md` has the recipe; `crates/example` follows it.

use doorbell_attach::Attachment;
use doorbell_nic::{Card, IGB_STATE_VERSION, NIC_STATE_VERSION};
use doorbell_pcie::path::PathState;
use doorbell_pcie::{ConfigSpace, FunctionIdentity, Message, Place};
use doorbell_sim::ports::{DmaKind, DmaPort, DmaRequest, IrqPort, IrqSink, PolledRing, Timers};
use doorbell_sim::snapshot::{Snapshot, SnapshotError};
use doorbell_sim::stats::{Counter, Stats};
use doorbell_sim::{AccessSize, EventQueue, Phase, PhysAddr, Ps, log};
use doorbell_trace::system::EventKind;

use crate::dma::{BusSide, DmaStats};
use crate::events::Event;
use crate::machine::Machine;
use crate::nic_function::{self, NicSide};
use crate::port::WireSide;

/// The version of what the machine keeps of each function; its own state has one of its own.
const FUNCTION_VERSION: u32 = 2;
/// A message signalled interrupt writes a doubleword.
const MESSAGE_BYTES: u32 = 4;
/// The version of what is kept of cores' accesses to registers that are under way.
const REGISTERS_VERSION: u32 = 1;
/// One of a machine has so many functions at most beside its NICs.
pub(crate) const FUNCTIONS_MAX: usize = 16;

/// A device on PCI. What it does takes effect when it is called: with the present, and its side of the machine.
pub trait PciFunction: Send {
    /// What software finds in its configuration space: identifiers, base address registers, capabilities. Always the same.
    fn identity(&self) -> FunctionIdentity;

    /// Power is on.
    fn power_on(&mut self, _now: Ps, _side: &mut FunctionSide<'_>) {}

    /// A load of `size` bytes from behind base address register `bar`.
    fn read(&mut self, now: Ps, bar: u8, offset: u64, size: AccessSize, side: &mut FunctionSide<'_>) -> u64;

    /// A store there.
    fn write(
        &mut self,
        now: Ps,
        bar: u8,
        offset: u64,
        size: AccessSize,
        value: u64,
        side: &mut FunctionSide<'_>,
    );

    /// What it asked for by [`Timers::wake_at`] has come: for itself, or because a DMA request is done then.
    fn wake(&mut self, now: Ps, event: u64, side: &mut FunctionSide<'_>);

    /// Its registers go back to their reset values: it came back from D3hot, or its bus was reset.
    fn reset(&mut self, now: Ps, side: &mut FunctionSide<'_>);

    /// Whether it may start DMA has changed. What it starts without that right reads as ones and goes nowhere.
    fn set_bus_master(&mut self, _now: Ps, _enabled: bool, _side: &mut FunctionSide<'_>) {}

    /// Its state, in a layout that says its version.
    fn save(&self) -> Vec<u8>;

    /// Takes a saved state up; one that cannot be is refused whole.
    fn restore(&mut self, state: &[u8]) -> Result<(), SnapshotError>;

    /// The rings that software polls, as its registers say now: of observers' interest alone.
    fn polled_rings(&self) -> Vec<PolledRing> {
        Vec::new()
    }

    /// What it has counted.
    fn counters(&self) -> Vec<Counter> {
        Vec::new()
    }
}

/// What a function sees of the machine: memory, its interrupts, a clock to wake it, and the wire of the port in front of it.
pub struct FunctionSide<'a> {
    pub(crate) index: u8,
    pub(crate) queue: &'a mut EventQueue<Event>,
    pub(crate) irq: &'a mut bool,
    pub(crate) config: &'a mut ConfigSpace,
    pub(crate) bus: BusSide<'a>,
    pub(crate) wire: Option<WireSide<'a>>,
}

impl<'a> FunctionSide<'a> {
    /// Its way to memory.
    pub fn memory(&mut self) -> &mut (dyn DmaPort + 'a) {
        &mut self.bus
    }

    /// A message is a posted write by the function: it takes its place behind the earlier ones.
    fn send(&mut self, now: Ps, Message { address, data }: Message) {
        log!(now, Pcie, Debug, "function {}: message {data:#x} to {address:#x}", self.index);
        self.bus.record(now, EventKind::Interrupt { raised: true });
        let (addr, len, kind) = (PhysAddr(address), MESSAGE_BYTES, DmaKind::RxDescriptorWriteback);
        let request = DmaRequest::plain(addr, len, kind, 0);
        let at = self.bus.request_message(now, request);
        let event = Event::Message { function: self.index, addr, data };
        self.queue.schedule(at, Phase::Dma, event);
    }

    /// Sends what software has just unmasked.
    pub(crate) fn send_due(&mut self, now: Ps) {
        while let Some(message) = self.config.due_message() {
            self.send(now, message);
        }
    }
}

impl IrqPort for FunctionSide<'_> {
    fn set_irq(&mut self, level: bool) {
        *self.irq = level;
    }
}

impl IrqSink for FunctionSide<'_> {
    fn raise(&mut self, now: Ps, vector: u16) {
        if let Some(message) = self.config.raise(vector) {
            self.send(now, message);
        }
    }

    fn withdraw(&mut self, vector: u16) {
        self.config.withdraw(vector);
    }
}

impl Timers<u64> for FunctionSide<'_> {
    fn wake_at(&mut self, at: Ps, event: u64) {
        self.queue.schedule(at, Phase::Dma, Event::Function { function: self.index, event });
    }
}

/// What a function is. The NIC is one like every other, but its calls are known when this is compiled.
pub(crate) enum Device {
    Nic(Box<Card>),
    Other(Box<dyn PciFunction>),
}

impl Device {
    fn identity(&self) -> FunctionIdentity {
        match self {
            Device::Nic(nic) => nic_function::identity(nic.config().model),
            Device::Other(function) => function.identity(),
        }
    }

    pub fn power_on(&mut self, now: Ps, side: &mut FunctionSide<'_>) {
        match self {
            Device::Nic(nic) => nic.power_on(now, &mut NicSide(side)),
            Device::Other(function) => function.power_on(now, side),
        }
    }

    /// Which hart writes the register that will be written next, for whoever watches.
    pub fn set_writer(&mut self, hart: Option<u8>) {
        if let Device::Nic(nic) = self {
            nic.set_writer(hart);
        }
    }

    /// What the function is called on the bus now.
    pub fn set_requester(&mut self, id: u16) {
        if let Device::Nic(nic) = self {
            nic.set_requester(id);
        }
    }

    pub fn read(&mut self, now: Ps, at: (u8, u64), size: AccessSize, side: &mut FunctionSide<'_>) -> u64 {
        match self {
            Device::Nic(nic) => nic.read(now, at, size, &mut NicSide(side)),
            Device::Other(function) => function.read(now, at.0, at.1, size, side) & size.mask(),
        }
    }

    pub fn write(
        &mut self,
        now: Ps,
        at: (u8, u64),
        (size, value): (AccessSize, u64),
        side: &mut FunctionSide<'_>,
    ) {
        match self {
            Device::Nic(nic) => nic.write(now, at, (size, value), &mut NicSide(side)),
            Device::Other(function) => function.write(now, at.0, at.1, size, value & size.mask(), side),
        }
    }

    pub fn reset(&mut self, now: Ps, side: &mut FunctionSide<'_>) {
        match self {
            Device::Nic(nic) => nic.reset(now, &mut NicSide(side)),
            Device::Other(function) => function.reset(now, side),
        }
    }

    pub fn set_bus_master(&mut self, now: Ps, enabled: bool, side: &mut FunctionSide<'_>) {
        match self {
            Device::Nic(nic) => nic.set_bus_master(now, enabled, &mut NicSide(side)),
            Device::Other(function) => function.set_bus_master(now, enabled, side),
        }
    }
}

/// A function in its place.
pub struct PluggedFunction {
    pub(crate) device: Device,
    /// Under which its sections and counters stand, such as "port0" and "function0".
    name: String,
    place: Place,
    /// The port in front of it, if it is on a network.
    port: Option<u8>,
    /// Which attachment it has, and whether it is the first function that has it.
    pub(crate) card: u8,
    pub(crate) is_first: bool,
    irq: bool,
    dma: DmaStats,
}

impl PluggedFunction {
    /// The NIC of a port.
    pub(crate) fn nic(port: u8, nic: Card, place: Place) -> PluggedFunction {
        let device = Device::Nic(Box::new(nic));
        PluggedFunction::new(device, format!("port{port}"), place, Some(port))
    }

    /// Another function, by its number among these.
    pub(crate) fn other(number: usize, function: Box<dyn PciFunction>, place: Place) -> PluggedFunction {
        PluggedFunction::new(Device::Other(function), format!("function{number}"), place, None)
    }

    fn new(device: Device, name: String, place: Place, port: Option<u8>) -> PluggedFunction {
        let (card, is_first, irq, dma) = (0, true, false, DmaStats::default());
        PluggedFunction { device, name, place, port, card, is_first, irq, dma }
    }

    /// Under which name its counters stand: "port0" for what is behind a port, "function0" for the first of the others.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it is in the PCI tree.
    pub fn place(&self) -> Place {
        self.place
    }

    /// What software finds in its configuration space.
    pub fn identity(&self) -> FunctionIdentity {
        self.device.identity()
    }

    /// The NIC, if it is one.
    pub fn as_nic(&self) -> Option<&Card> {
        match &self.device {
            Device::Nic(nic) => Some(nic),
            Device::Other(_) => None,
        }
    }

    pub(crate) fn as_nic_mut(&mut self) -> Option<&mut Card> {
        match &mut self.device {
            Device::Nic(nic) => Some(nic),
            Device::Other(_) => None,
        }
    }

    /// What stands behind the registers, if it is none of the machine's own.
    pub fn as_other(&self) -> Option<&dyn PciFunction> {
        match &self.device {
            Device::Nic(_) => None,
            Device::Other(function) => Some(&**function),
        }
    }

    /// What it has counted itself.
    pub fn counters(&self) -> Vec<Counter> {
        match &self.device {
            Device::Nic(nic) => nic.stats().counters(),
            Device::Other(function) => function.counters(),
        }
    }

    /// The rings that software polls, as its registers say now.
    pub fn polled_rings(&self) -> Vec<PolledRing> {
        match &self.device {
            Device::Nic(nic) => nic.rx_rings(),
            Device::Other(function) => function.polled_rings(),
        }
    }

    /// What its DMA met beside RAM.
    pub fn dma_stats(&self) -> &DmaStats {
        &self.dma
    }

    /// The level at which it drives its interrupt, before masks.
    pub(crate) fn irq(&self) -> bool {
        self.irq
    }

    /// Its own state and, of the first function of a device, its path's, `now`; what all functions have alike stands in the machine's
    /// section.
    pub(crate) fn save(&self, now: Ps, attachments: &[Attachment], snapshot: &mut Snapshot) {
        match &self.device {
            Device::Nic(nic) => match &**nic {
                Card::E82540(nic) => {
                    snapshot.put(&format!("{}.nic", self.name), NIC_STATE_VERSION, &nic.save());
                }
                Card::E82576(nic) => {
                    snapshot.put(&format!("{}.igb", self.name), IGB_STATE_VERSION, &nic.save());
                }
            },
            Device::Other(function) => snapshot.put(&self.name, FUNCTION_VERSION, &function.save()),
        }
        if !self.is_first {
            return;
        }
        let attachment = &attachments[usize::from(self.card)];
        snapshot.put(&format!("{}.path", self.name), PathState::VERSION, &attachment.path().save());
        // Only where a run has changed from timed to functional with accesses under way.
        if let Some(at) = attachment.registers_in_flight(now) {
            snapshot.put(&format!("{}.registers", self.name), REGISTERS_VERSION, &at);
        }
    }

    pub(crate) fn restore(
        &mut self,
        snapshot: &Snapshot,
        attachments: &mut [Attachment],
        (irq, dma): (bool, DmaStats),
    ) -> Result<(), SnapshotError> {
        (self.irq, self.dma) = (irq, dma);
        match &mut self.device {
            Device::Nic(nic) => match &mut **nic {
                Card::E82540(nic) => {
                    nic.restore(snapshot.get(&format!("{}.nic", self.name), NIC_STATE_VERSION)?)?;
                }
                Card::E82576(nic) => {
                    nic.restore(snapshot.get(&format!("{}.igb", self.name), IGB_STATE_VERSION)?)?;
                }
            },
            Device::Other(function) => {
                function.restore(&snapshot.get::<Vec<u8>>(&self.name, FUNCTION_VERSION)?)?;
            }
        }
        if !self.is_first {
            return Ok(());
        }
        let attachment = &mut attachments[usize::from(self.card)];
        let registers = format!("{}.registers", self.name);
        if snapshot.has(&registers) {
            attachment.restore_registers(snapshot.get(&registers, REGISTERS_VERSION)?)?;
        }
        attachment.path_mut().restore(snapshot.get(&format!("{}.path", self.name), PathState::VERSION)?)
    }
}

impl Machine {
    /// The PCI functions: the ports' NICs, then those that were plugged in beside them.
    pub fn functions(&self) -> &[PluggedFunction] {
        &self.functions
    }

    /// The function behind a port.
    pub fn function_behind(&self, port: usize) -> &PluggedFunction {
        &self.functions[usize::from(self.ports[port].function)]
    }

    /// The NIC behind a port.
    pub fn nic(&self, port: usize) -> &Card {
        self.function_behind(port).as_nic().expect("a port has a NIC")
    }

    /// The NICs behind all ports, in the ports' order.
    pub fn nics(&self) -> impl Iterator<Item = &Card> {
        (0..self.ports.len()).map(|port| self.nic(port))
    }

    /// Calls a function with its side of the machine, then carries its interrupt line on.
    pub(crate) fn with_function<R>(
        &mut self,
        index: u8,
        call: impl FnOnce(&mut Device, &mut FunctionSide<'_>) -> R,
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
        let result = call(&mut parts.device, &mut side);
        let level = parts.irq;
        if self.bridge.set_interrupt(id, level) {
            self.record_event(index, self.queue.now(), EventKind::Interrupt { raised: level });
            self.update_pci_interrupts();
        }
        result
    }

    /// The same for one that is a NIC.
    pub(crate) fn with_nic<R>(
        &mut self,
        function: u8,
        call: impl FnOnce(&mut Card, &mut NicSide<'_, '_>) -> R,
    ) -> R {
        self.with_function(function, |device, side| match device {
            Device::Nic(nic) => call(nic, &mut NicSide(side)),
            Device::Other(_) => unreachable!("only NICs have what is a NIC's"),
        })
    }

    /// The same for what is none of the machine's own.
    pub(crate) fn with_other(
        &mut self,
        function: u8,
        call: impl FnOnce(&mut dyn PciFunction, &mut FunctionSide<'_>),
    ) {
        self.with_function(function, |device, side| match device {
            Device::Other(function) => call(&mut **function, side),
            Device::Nic(_) => unreachable!("a NIC's wake-ups have names"),
        });
    }
}

#[cfg(test)]
#[path = "functions_tests.rs"]
mod tests;
