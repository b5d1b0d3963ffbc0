//! Interface between the machine and a PCI function: register accesses through base address registers, DMA,
//! interrupts, timers, counters and saved state. A function with a wire is also a [`NetworkFunction`].

use doorbell_sim::ports::{DeliveryPort, DmaPort, IrqSink, Timers, WirePort};
use doorbell_sim::snapshot::SnapshotError;
use doorbell_sim::stats::Counter;
use doorbell_sim::{AccessSize, FrameObserver, Ps};

use crate::FunctionIdentity;
use crate::network::NetworkFunction;
use crate::polls::PolledRing;

/// The machine from the function's side: DMA, interrupts, wake-ups with an event number, and the wire of a network
/// port. Without a port, sent frames are discarded.
pub trait FunctionPorts: DmaPort + IrqSink + Timers<u64> + WirePort + DeliveryPort + FrameObserver {}

impl<T: DmaPort + IrqSink + Timers<u64> + WirePort + DeliveryPort + FrameObserver> FunctionPorts for T {}

/// A device on PCI. Each call takes effect at once, at the time `now`.
pub trait PciFunction: Send {
    /// Configuration space after reset: identifiers, base address registers, capabilities. Must not change.
    fn identity(&self) -> FunctionIdentity;

    /// Power-on.
    fn power_on(&mut self, _now: Ps, _ports: &mut dyn FunctionPorts) {}

    /// A load of `size` bytes from the region of base address register `bar`. Bits beyond the size are ignored.
    fn read(&mut self, now: Ps, bar: u8, offset: u64, size: AccessSize, ports: &mut dyn FunctionPorts)
    -> u64;

    /// A store to such a region; `value` has no bits beyond the size.
    fn write(
        &mut self,
        now: Ps,
        bar: u8,
        offset: u64,
        size: AccessSize,
        value: u64,
        ports: &mut dyn FunctionPorts,
    );

    /// An event scheduled with [`Timers::wake_at`]: a timer of the function, or the completion of a DMA request.
    fn wake(&mut self, now: Ps, event: u64, ports: &mut dyn FunctionPorts);

    /// Reset of the registers: the function returned from D3hot, or the bus was reset.
    fn reset(&mut self, now: Ps, ports: &mut dyn FunctionPorts);

    /// Bus mastering was enabled or disabled, in the function or in a bridge above it. While it is disabled, reads
    /// return all ones and writes are discarded.
    fn set_bus_master(&mut self, _now: Ps, _enabled: bool, _ports: &mut dyn FunctionPorts) {}

    /// The requester ID (bus, device and function), set before each read.
    fn set_requester(&mut self, _id: u16) {}

    /// The hart that makes the next write, if known. For observers only.
    fn set_writer(&mut self, _hart: Option<u8>) {}

    /// A load from a vendor capability in configuration space. Returns the value for software; `value` is the stored
    /// one.
    fn config_read(&mut self, _now: Ps, _offset: u16, _size: AccessSize, value: u64) -> u64 {
        value
    }

    /// Called after a store to a vendor capability in configuration space.
    fn config_written(
        &mut self,
        _now: Ps,
        _offset: u16,
        _size: AccessSize,
        _value: u64,
        _ports: &mut dyn FunctionPorts,
    ) {
    }

    /// The state to be saved, in a layout that includes its version.
    fn save(&self) -> Vec<u8>;

    /// Restores a saved state. On an error the function is unchanged.
    fn restore(&mut self, state: &[u8]) -> Result<(), SnapshotError>;

    /// The receive rings that software polls, according to the current registers. For observers only.
    fn polled_rings(&self) -> Vec<Box<dyn PolledRing>> {
        Vec::new()
    }

    /// The counters.
    fn counters(&self) -> Vec<Counter> {
        Vec::new()
    }

    /// The network side, if the function has a wire.
    fn network(&self) -> Option<&dyn NetworkFunction> {
        None
    }

    /// As [`PciFunction::network`], mutable.
    fn network_mut(&mut self) -> Option<&mut dyn NetworkFunction> {
        None
    }
}
