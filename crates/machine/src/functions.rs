//! PCI functions beside the ports' NICs: whatever implements [`PciFunction`] can be plugged into a machine, is found by software, has its
//! registers read and written, moves data by DMA as a NIC does (through its own PCI Express link, the caches and DRAM), wakes itself
//! up, interrupts, and is saved. `ARCHITECTURE.md` has the recipe; `crates/acceptance/src/copy_engine.rs` follows it.

use doorbell_pcie::link::LinkState;
use doorbell_pcie::path::PathState;
use doorbell_pcie::{FunctionIdentity, Place};
use doorbell_sim::ports::{DmaPort, IrqPort, Timers};
use doorbell_sim::snapshot::{Snapshot, SnapshotError};
use doorbell_sim::stats::Counter;
use doorbell_sim::{AccessSize, EventQueue, Phase, Ps};
use serde::{Deserialize, Serialize};

use crate::events::Event;
use crate::machine::Machine;
use crate::port::{BusSide, DmaStats};
use crate::slot::PcieSlot;
use crate::timed::Mode;

/// The version of what the machine keeps of each function; its own state has one of its own.
const FUNCTION_VERSION: u32 = 1;
/// One of a machine has so many functions at most beside its NICs.
pub(crate) const FUNCTIONS_MAX: usize = 16;

/// A device on PCI. What it does takes effect when it is called: with the present, and its side of the machine.
pub trait PciFunction: Send {
    /// What software finds in its configuration space: identifiers, base address registers, capabilities. Always the same.
    fn identity(&self) -> FunctionIdentity;

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

    /// What it has counted.
    fn counters(&self) -> Vec<Counter> {
        Vec::new()
    }
}

/// What a function sees of the machine: memory, its interrupt line, and a clock to wake it.
pub struct FunctionSide<'a> {
    index: u8,
    queue: &'a mut EventQueue<Event>,
    irq: &'a mut bool,
    bus: BusSide<'a>,
}

impl<'a> FunctionSide<'a> {
    /// Its way to memory.
    pub fn memory(&mut self) -> &mut (dyn DmaPort + 'a) {
        &mut self.bus
    }
}

impl IrqPort for FunctionSide<'_> {
    fn set_irq(&mut self, level: bool) {
        *self.irq = level;
    }
}

impl Timers<u64> for FunctionSide<'_> {
    fn wake_at(&mut self, at: Ps, event: u64) {
        self.queue.schedule(at, Phase::Dma, Event::Function { index: self.index, event });
    }
}

/// A function in its place.
pub struct PluggedFunction {
    pub(crate) function: Box<dyn PciFunction>,
    pub(crate) place: Place,
    pub(crate) pcie: PcieSlot,
    pub(crate) irq: bool,
    pub(crate) dma: DmaStats,
}

/// What a checkpoint keeps of one.
#[derive(Serialize, Deserialize)]
struct PluggedState {
    irq: bool,
    dma: DmaStats,
    path: PathState,
    link: LinkState,
    own: Vec<u8>,
}

impl PluggedFunction {
    /// What stands behind the registers.
    pub fn function(&self) -> &dyn PciFunction {
        &*self.function
    }

    /// What its DMA met beside RAM.
    pub fn dma_stats(&self) -> &DmaStats {
        &self.dma
    }
}

impl Machine {
    /// The functions beside the ports' NICs.
    pub fn functions(&self) -> &[PluggedFunction] {
        &self.functions
    }

    /// Calls a function with its side of the machine, then carries its interrupt line on.
    pub(crate) fn with_function<R>(
        &mut self,
        index: u8,
        call: impl FnOnce(&mut dyn PciFunction, &mut FunctionSide<'_>) -> R,
    ) -> R {
        let id = self.function_id(index);
        let bus_master = self.bridge.bus_master(id);
        // Behind the NICs' numbers, which are the ports'.
        let device = self.ports.len() as u8 + index;
        let parts = &mut self.functions[usize::from(index)];
        let bus = BusSide {
            device,
            ram: &mut self.ram,
            pcie: &mut parts.pcie,
            dma: &mut parts.dma,
            timing: self.timing.as_deref_mut(),
            bus_master,
        };
        let mut side = FunctionSide { index, queue: &mut self.queue, irq: &mut parts.irq, bus };
        let result = call(&mut *parts.function, &mut side);
        let level = parts.irq;
        if self.bridge.set_interrupt(id, level) {
            self.update_pci_interrupts();
        }
        result
    }

    pub(crate) fn save_functions(&self, snapshot: &mut Snapshot) {
        for (index, plugged) in self.functions.iter().enumerate() {
            let state = PluggedState {
                irq: plugged.irq,
                dma: plugged.dma.clone(),
                path: plugged.pcie.path().save(),
                link: plugged.pcie.link().save(),
                own: plugged.function.save(),
            };
            snapshot.put(&format!("function{index}"), FUNCTION_VERSION, &state);
        }
    }

    /// Links that are timed go on where they were, if `timed` says that the timing models do.
    pub(crate) fn restore_functions(
        &mut self,
        snapshot: &Snapshot,
        timed: bool,
    ) -> Result<(), SnapshotError> {
        let is_detailed = self.mode() == Mode::Detailed;
        for (index, plugged) in self.functions.iter_mut().enumerate() {
            let name = format!("function{index}");
            let state: PluggedState = snapshot.get(&name, FUNCTION_VERSION)?;
            (plugged.irq, plugged.dma) = (state.irq, state.dma);
            plugged.pcie.path_mut().restore(state.path)?;
            if timed {
                let inconsistent = |problem| SnapshotError::Inconsistent { name: name.clone(), problem };
                plugged
                    .pcie
                    .link_mut()
                    .restore(&state.link)
                    .map_err(|error| inconsistent(error.to_string()))?;
                plugged.pcie.resume_timed(is_detailed);
            }
            plugged.function.restore(&state.own)?;
        }
        Ok(())
    }
}
