//! A PCI function with a wire: what the machine tells it of frames and cables, and what observers and reports read of it.

use doorbell_sim::{Frame, Ps};

use crate::function::FunctionPorts;

/// The network side of a function.
pub trait NetworkFunction {
    /// The last bit of a frame has arrived from the link.
    fn frame_arrived(&mut self, now: Ps, frame: Frame, ports: &mut dyn FunctionPorts);

    /// The cable is unplugged or plugged in.
    fn set_cable(&mut self, now: Ps, plugged: bool, ports: &mut dyn FunctionPorts);

    /// Whether it accepts frames from the wire: the link is up and the receiver is on.
    fn is_receiving(&self) -> bool;

    /// Its counters.
    fn stats(&self) -> &NicStats;

    /// Frames inside.
    fn in_flight(&self) -> InFlight;

    /// Asserts that every frame that came in is accounted for, in both directions.
    fn check_conservation(&self);

    /// The counters of each queue; none for a device with one queue in each direction, where they repeat its own.
    fn queue_stats(&self) -> &[QueueStats] {
        &[]
    }

    /// Whether a pair of queues is on, in either direction.
    fn is_queue_on(&self, queue: usize) -> bool {
        queue == 0
    }

    /// The receive queues over which RSS spreads flows, one bit each; none without RSS.
    fn rss_queues(&self) -> u32 {
        0
    }

    /// Levels of the receive ring and the transmit ring of each queue that is on.
    fn ring_levels(&self) -> Vec<[RingLevel; 2]> {
        Vec::new()
    }

    /// The device's statistics registers.
    fn statistics(&self) -> Vec<Statistic> {
        Vec::new()
    }

    /// What software requests that the model does not have, one line each.
    fn missing(&self) -> Vec<String> {
        Vec::new()
    }

    /// The value of a register with this name, without side effects.
    fn peek(&self, _name: &str) -> Option<u32> {
        None
    }

    /// Frames dropped because the receive packet buffer was full, by what frames waited for. An observer's.
    fn waited_drops(&self) -> WaitedDrops {
        WaitedDrops::default()
    }

    /// Frames of the measurement that were dropped after they had been accepted. An observer's.
    fn late_drops(&self) -> LateDrops {
        LateDrops::default()
    }

    /// A measurement begins: it has the frames that arrive from the link after this time.
    fn begin_measurement(&mut self, _after: Ps) {}

    /// The measurement ends: it has no frames that arrive after this time.
    fn end_measurement(&mut self, _until: Ps) {}
}

/// A statistics register as reports list it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistic {
    /// The manual's name; for the two halves of a 64-bit counter without the last letter.
    pub name: String,
    /// What it counts, from the register table.
    pub meaning: &'static str,
    /// What was counted since this object was made, whatever software has read and reset; of an array, by all of it.
    pub value: u64,
}

/// Dropped frames by what was waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitedDrops {
    /// Software that gave no descriptors back.
    pub core: u64,
    /// The same, the transmit ring being full.
    pub tx: u64,
    /// Fetches of descriptors.
    pub fetch: u64,
    /// The data path.
    pub data: u64,
}

/// Frames of a measurement that were dropped after they had been accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LateDrops {
    /// Their queue had no descriptors and drops (SRRCTL.DROP_EN).
    pub core: u64,
    /// A reset, or a rewritten ring register.
    pub reset: u64,
}

doorbell_sim::stats! {
    /// The NIC's counters. Conservation: `rx_arrived` = `rx_delivered` + every `rx_drop_*` and `rx_looped_drop_*` + `rx_control` + in
    /// flight.
    pub struct NicStats {
        /// Frames whose last bit has arrived, from the link or by loopback.
        rx_arrived,
        /// Bytes of those frames, FCS included.
        rx_arrived_bytes,
        /// Frames that the host can see whole, with their descriptors written back.
        rx_delivered,
        /// Bytes of those frames, FCS included.
        rx_delivered_bytes,
        /// Frames dropped for a full receive FIFO because DMA was too slow.
        rx_drop_dma,
        /// Frames dropped for a full receive FIFO because the cores were too slow.
        rx_drop_core,
        /// Frames dropped for a full receive FIFO because transmission was too slow.
        rx_drop_tx,
        /// Frames dropped because no address filter passed them.
        rx_drop_address,
        /// Frames dropped because the VLAN filter did not pass them.
        rx_drop_vlan,
        /// Frames dropped for a bad FCS.
        rx_drop_fcs,
        /// Frames dropped because they were shorter than 64 bytes.
        rx_drop_undersize,
        /// Frames dropped because they were longer than RCTL.LPE allows.
        rx_drop_oversize,
        /// Frames dropped because the receiver was off.
        rx_drop_disabled,
        /// Frames dropped because the link was down.
        rx_drop_link_down,
        /// Frames from the wire dropped because the device was looping back.
        rx_drop_loopback,
        /// Accepted frames dropped by a reset or by a rewritten ring register.
        rx_drop_reset,
        /// MAC control frames from the link that the NIC kept for itself.
        rx_control,
        /// Frames that arrived by loopback. None of them is counted in the causes above, apart from a reset.
        rx_looped,
        /// Looped-back frames dropped for a full receive FIFO, or because their queue had no descriptor and drops.
        rx_looped_drop_full,
        /// Looped-back frames that the NIC dropped, or kept for itself, for another reason.
        rx_looped_drop_other,
        /// Received frames that needed more than one descriptor.
        rx_multi_descriptor,
        /// Receive descriptors consumed.
        rx_descriptors,
        /// Receive descriptors with a null address.
        rx_null_descriptors,
        /// Fetches of receive descriptors.
        rx_fetches,
        /// Write-backs of receive descriptors.
        rx_write_backs,
        /// Arrivals from the link that found the receive FIFO too full.
        rx_fifo_full,
        /// Arrivals that found no receive descriptor.
        rx_ring_full,
        /// Arrivals that found the transmit ring full.
        tx_ring_full,
        /// Most bytes that the receive FIFO held.
        rx_fifo_peak_bytes,
        /// Frames put into the transmit FIFO.
        tx_frames,
        /// Frames handed to the wire.
        tx_sent,
        /// Bytes of those frames, FCS included.
        tx_sent_bytes,
        /// Frames looped back instead.
        tx_looped_back,
        /// Frames in the transmit FIFO dropped by a reset.
        tx_drop_reset,
        /// Packets dropped because they were longer than the device can send.
        tx_drop_oversize,
        /// Packets dropped because they had no bytes.
        tx_drop_empty,
        /// Pause frames sent; not counted in `tx_frames`.
        tx_pause_frames,
        /// Transmit descriptors consumed.
        tx_descriptors,
        /// Transmit descriptors with an unknown type or impossible offsets.
        tx_malformed,
        /// Fetches of transmit descriptors.
        tx_fetches,
        /// Write-backs of transmit descriptors.
        tx_write_backs,
        /// TCP segments cut by the device.
        tx_segments,
        /// Times that a ring could not be worked on, its length, head or tail making no sense.
        ring_nonsense,
        /// Device resets by CTRL.RST, by power management or by the bus.
        resets,
        /// Times that the interrupt line was asserted.
        interrupts,
        /// Accesses to registers.
        register_accesses,
        /// Reads of offsets without a register.
        unknown_reads,
        /// Writes to offsets without a register.
        unknown_writes,
        /// Accesses that are not 32 bits wide and aligned.
        odd_accesses,
    }
}

doorbell_sim::stats! {
    /// What one queue counts, by the names of the card's counters, which are the sums. Conservation: `rx_offered` = `rx_delivered` + every
    /// `rx_drop_*` but `rx_drop_no_descriptor`, and every `rx_looped_drop_*`, + in flight; `tx_frames` = `tx_left` + `tx_drop_reset` + in flight.
    pub struct QueueStats {
        /// Frames that filters and hash gave this receive queue.
        rx_offered,
        /// Of these, frames that found room in the packet buffer.
        rx_frames,
        /// Frames that the host can see whole, with their descriptors written back.
        rx_delivered,
        /// Bytes of those frames, FCS included.
        rx_delivered_bytes,
        /// Frames for this queue dropped because DMA was too slow.
        rx_drop_dma,
        /// Frames for this queue dropped because the core was too slow.
        rx_drop_core,
        /// Of these, frames dropped because the queue had no descriptors and drops (SRRCTL.DROP_EN).
        rx_drop_no_descriptor,
        /// Frames for this queue dropped because transmission was too slow.
        rx_drop_tx,
        /// Frames dropped because the queue was off.
        rx_drop_disabled,
        /// Accepted frames dropped by a reset, by a rewritten ring register, or because the queue was switched off.
        rx_drop_reset,
        /// Looped-back frames for this queue that found the packet buffer full; they are in no other cause.
        rx_looped_drop_full,
        /// Looped-back frames dropped because the queue had no descriptors and drops.
        rx_looped_drop_no_descriptor,
        /// Looped-back frames dropped because the queue was off.
        rx_looped_drop_disabled,
        /// Frames from the link for this queue that found the packet buffer full; not counted in `rx_frames`.
        rx_fifo_full,
        /// Receive descriptors consumed.
        rx_descriptors,
        /// Frames that this transmit queue put into the transmit packet buffer.
        tx_frames,
        /// Bytes of those frames, FCS included.
        tx_bytes,
        /// Transmit descriptors consumed.
        tx_descriptors,
        /// Frames of this queue that have left the transmit packet buffer, onto the link or back through the loopback.
        tx_left,
        /// Frames of this queue in the transmit packet buffer when a reset emptied it.
        tx_drop_reset,
        /// Packets of this queue that were longer than a frame can be.
        tx_drop_oversize,
        /// Packets of this queue without a byte.
        tx_drop_empty,
        /// Descriptors and packets of this queue that ask for what cannot be done; what can be done of them was.
        tx_malformed,
    }
}

/// How many frames are inside a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// In the receive FIFO, in DMA, or waiting for their descriptors' write-back.
    pub rx: u64,
    /// In the transmit FIFO.
    pub tx: u64,
}

/// What a ring of descriptors holds, and what has gone through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingLevel {
    /// Descriptors of the ring; zero while its registers make no sense.
    pub descriptors: u64,
    /// Of these, such as wait for their turn with a frame: received ones that software has not given back, and ones to be sent.
    pub waiting: u64,
    /// Descriptors consumed since power-on.
    pub consumed: u64,
}

impl NicStats {
    /// A frame is dropped on arrival for a reason other than room: one from the link under this counter, one that was looped back under its own.
    pub fn refused(&mut self, looped: bool, cause: fn(&mut NicStats) -> &mut u64) {
        *if looped { &mut self.rx_looped_drop_other } else { cause(self) } += 1;
    }

    /// Asserts that every frame that came in is accounted for, in both directions, with so many inside the NIC of this name.
    pub fn check_conservation(&self, inside: InFlight, name: &str) {
        let dropped = self.rx_drop_dma
            + self.rx_drop_core
            + self.rx_drop_tx
            + self.rx_drop_address
            + self.rx_drop_vlan
            + self.rx_drop_fcs
            + self.rx_drop_undersize
            + self.rx_drop_oversize
            + self.rx_drop_disabled
            + self.rx_drop_link_down
            + self.rx_drop_loopback
            + self.rx_drop_reset
            + self.rx_looped_drop_full
            + self.rx_looped_drop_other;
        assert_eq!(
            self.rx_arrived,
            self.rx_delivered + dropped + self.rx_control + inside.rx,
            "{name}: received frames do not add up: {self:?}"
        );
        assert_eq!(
            self.tx_frames,
            self.tx_sent + self.tx_looped_back + self.tx_drop_reset + inside.tx,
            "{name}: sent frames do not add up: {self:?}"
        );
    }
}
