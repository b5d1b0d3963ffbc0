//! What a PCI function is to the machine: a device with registers behind base address registers, which moves data by DMA, interrupts,
//! wakes itself, counts, and is saved. One with a wire is a [`NetworkFunction`], too.

use doorbell_sim::ports::{DeliveryPort, DmaPort, IrqSink, PolledRing, Timers, WirePort};
use doorbell_sim::snapshot::SnapshotError;
use doorbell_sim::stats::Counter;
use doorbell_sim::{AccessSize, FrameObserver, Ps};

use crate::FunctionIdentity;
use crate::network::NetworkFunction;

/// The machine as a function sees it: memory by DMA, interrupts, wake-ups with an event number, and, behind a network port, the wire.
///
/// Without a port, a frame that is sent vanishes.
pub trait FunctionPorts: DmaPort + IrqSink + Timers<u64> + WirePort + DeliveryPort + FrameObserver {}

impl<T: DmaPort + IrqSink + Timers<u64> + WirePort + DeliveryPort + FrameObserver> FunctionPorts for T {}

/// A device on PCI. Each call takes effect at once, at the time `now`.
pub trait PciFunction: Send {
    /// Its configuration space after reset: identifiers, base address registers, capabilities. Always the same.
    fn identity(&self) -> FunctionIdentity;

    /// Power is on.
    fn power_on(&mut self, _now: Ps, _ports: &mut dyn FunctionPorts) {}

    /// A load of `size` bytes from the window of base address register `bar`. Bits beyond the size are ignored.
    fn read(&mut self, now: Ps, bar: u8, offset: u64, size: AccessSize, ports: &mut dyn FunctionPorts)
    -> u64;

    /// A store to such a window; `value` has no bits beyond the size.
    fn write(
        &mut self,
        now: Ps,
        bar: u8,
        offset: u64,
        size: AccessSize,
        value: u64,
        ports: &mut dyn FunctionPorts,
    );

    /// An event that it scheduled with [`Timers::wake_at`]: a timer of its own, or the end of a DMA request.
    fn wake(&mut self, now: Ps, event: u64, ports: &mut dyn FunctionPorts);

    /// Its registers take their reset values: it returned from D3hot, or its bus was reset.
    fn reset(&mut self, now: Ps, ports: &mut dyn FunctionPorts);

    /// Its right to start DMA has changed (the bus master bits on its way). Requests without that right read ones and write nothing.
    fn set_bus_master(&mut self, _now: Ps, _enabled: bool, _ports: &mut dyn FunctionPorts) {}

    /// Its requester ID (bus, device and function in one), set before each read.
    fn set_requester(&mut self, _id: u16) {}

    /// The hart that makes the next write, where it is known. For observers only.
    fn set_writer(&mut self, _hart: Option<u8>) {}

    /// A load from a vendor capability of its configuration space: the value that software gets in place of `value`, which is stored.
    fn config_read(&mut self, _now: Ps, _offset: u16, _size: AccessSize, value: u64) -> u64 {
        value
    }

    /// A store to a vendor capability of its configuration space has been made.
    fn config_written(
        &mut self,
        _now: Ps,
        _offset: u16,
        _size: AccessSize,
        _value: u64,
        _ports: &mut dyn FunctionPorts,
    ) {
    }

    /// Its state, in a layout that includes its version.
    fn save(&self) -> Vec<u8>;

    /// Restores a saved state. On an error the function is unchanged.
    fn restore(&mut self, state: &[u8]) -> Result<(), SnapshotError>;

    /// The rings that software polls, as its registers are now. For observers only.
    fn polled_rings(&self) -> Vec<PolledRing> {
        Vec::new()
    }

    /// Its counters.
    fn counters(&self) -> Vec<Counter> {
        Vec::new()
    }

    /// Its network side, if it has a wire.
    fn network(&self) -> Option<&dyn NetworkFunction> {
        None
    }

    /// The same, to be changed.
    fn network_mut(&mut self) -> Option<&mut dyn NetworkFunction> {
        None
    }
}
