//! Interface of a PCI function with a wire: frames and cable events from the machine, and counters and queue
//! levels for observers and reports.

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

    /// The counters.
    fn stats(&self) -> &NicStats;

    /// Frames in the device.
    fn in_flight(&self) -> InFlight;

    /// Asserts that every frame that came in is accounted for, in both directions.
    fn check_conservation(&self);

    /// Counters per queue; empty for a device with one queue in each direction, where the device's are the same.
    fn queue_stats(&self) -> &[QueueStats] {
        &[]
    }

    /// Whether a receive or transmit queue with this number is enabled.
    fn is_queue_on(&self, queue: usize) -> bool {
        queue == 0
    }

    /// The receive queues over which RSS spreads flows, one bit each; none without RSS.
    fn rss_queues(&self) -> u32 {
        0
    }

    /// Levels of the receive ring and the transmit ring of each enabled queue.
    fn ring_levels(&self) -> Vec<[RingLevel; 2]> {
        Vec::new()
    }

    /// The device's statistics registers.
    fn statistics(&self) -> Vec<Statistic> {
        Vec::new()
    }

    /// Functions that software requests and the model lacks, one line each.
    fn missing(&self) -> Vec<String> {
        Vec::new()
    }

    /// The value of a register with this name, without side effects.
    fn peek(&self, _name: &str) -> Option<u32> {
        None
    }

    /// Frames dropped because the receive packet buffer was full, by cause. For observers only.
    fn waited_drops(&self) -> WaitedDrops {
        WaitedDrops::default()
    }

    /// Frames of the measurement that were dropped after acceptance. For observers only.
    fn late_drops(&self) -> LateDrops {
        LateDrops::default()
    }

    /// A measurement starts: it covers frames that arrive from the link after this time.
    fn begin_measurement(&mut self, _after: Ps) {}

    /// The measurement ends: it does not cover frames that arrive after this time.
    fn end_measurement(&mut self, _until: Ps) {}
}

/// A statistics register in reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistic {
    /// Name in the manual; for the two halves of a 64-bit counter, without the last letter.
    pub name: String,
    /// Description from the register table.
    pub meaning: &'static str,
    /// Count since the object was created, including counts that software cleared; for an array, the sum.
    pub value: u64,
}

/// Dropped frames by the resource that the first frame waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitedDrops {
    /// Software had returned no descriptors.
    pub core: u64,
    /// Software had returned no descriptors, and the transmit ring was full.
    pub tx: u64,
    /// A descriptor fetch.
    pub fetch: u64,
    /// DMA of frame data.
    pub data: u64,
}

/// Frames of a measurement that were dropped after acceptance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LateDrops {
    /// The queue had no descriptors, and SRRCTL.DROP_EN was set.
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
        /// Frames dropped because the receive FIFO was full; cause: DMA too slow.
        rx_drop_dma,
        /// Frames dropped because the receive FIFO was full; cause: cores too slow.
        rx_drop_core,
        /// Frames dropped because the receive FIFO was full; cause: transmission too slow.
        rx_drop_tx,
        /// Frames dropped because no address filter matched.
        rx_drop_address,
        /// Frames dropped by the VLAN filter.
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
        /// Frames from the wire dropped because the device was in loopback mode.
        rx_drop_loopback,
        /// Accepted frames dropped by a reset or by a rewritten ring register.
        rx_drop_reset,
        /// MAC control frames from the link that the NIC consumed.
        rx_control,
        /// Frames that arrived by loopback. The causes above do not count them, except a reset.
        rx_looped,
        /// Looped-back frames dropped because the receive FIFO was full, or because the queue had no descriptor
        /// and SRRCTL.DROP_EN was set.
        rx_looped_drop_full,
        /// Looped-back frames that the NIC dropped for another reason, or consumed.
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
        /// Highest fill level of the receive FIFO in bytes.
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
        /// Attempts to use a ring with an invalid length, head or tail.
        ring_nonsense,
        /// Device resets by CTRL.RST, by power management or by the bus.
        resets,
        /// Assertions of the interrupt line.
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
    /// Counters of a queue. The device's counters of the same names are the sums. Conservation: `rx_offered` =
    /// `rx_delivered` + every `rx_drop_*` except `rx_drop_no_descriptor` + every `rx_looped_drop_*` + in flight;
    /// `tx_frames` = `tx_left` + `tx_drop_reset` + in flight.
    pub struct QueueStats {
        /// Frames that filters or RSS assigned to this receive queue.
        rx_offered,
        /// Frames for this queue that the packet buffer accepted.
        rx_frames,
        /// Frames that the host can see whole, with their descriptors written back.
        rx_delivered,
        /// Bytes of those frames, FCS included.
        rx_delivered_bytes,
        /// Frames for this queue dropped because DMA was too slow.
        rx_drop_dma,
        /// Frames for this queue dropped because the core was too slow.
        rx_drop_core,
        /// Frames of `rx_drop_core` dropped because the queue had no descriptors and SRRCTL.DROP_EN was set.
        rx_drop_no_descriptor,
        /// Frames for this queue dropped because transmission was too slow.
        rx_drop_tx,
        /// Frames dropped because the queue was disabled.
        rx_drop_disabled,
        /// Accepted frames dropped by a reset, by a rewritten ring register, or by disabling the queue.
        rx_drop_reset,
        /// Looped-back frames for this queue dropped because the packet buffer was full; no other cause counts them.
        rx_looped_drop_full,
        /// Looped-back frames dropped because the queue had no descriptors and SRRCTL.DROP_EN was set.
        rx_looped_drop_no_descriptor,
        /// Looped-back frames dropped because the queue was disabled.
        rx_looped_drop_disabled,
        /// Frames from the link for this queue dropped because the packet buffer was full; not in `rx_frames`.
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
        /// Packets of this queue without data.
        tx_drop_empty,
        /// Descriptors and packets of this queue with an impossible request; the possible part was done.
        tx_malformed,
    }
}

/// Numbers of frames in a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// In the receive FIFO, in DMA, or waiting for their descriptors' write-back.
    pub rx: u64,
    /// In the transmit FIFO.
    pub tx: u64,
}

/// Level and throughput of a descriptor ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingLevel {
    /// Number of descriptors in the ring; zero while its registers are invalid.
    pub descriptors: u64,
    /// Descriptors with a frame: received and not yet returned by software, or waiting for transmission.
    pub waiting: u64,
    /// Descriptors consumed since power-on.
    pub consumed: u64,
}

impl NicStats {
    /// Counts a frame dropped on arrival for a reason other than a full buffer: with `cause` if it came from the
    /// link, otherwise as a looped-back frame.
    pub fn refused(&mut self, looped: bool, cause: fn(&mut NicStats) -> &mut u64) {
        *if looped { &mut self.rx_looped_drop_other } else { cause(self) } += 1;
    }

    /// Asserts that each arrived frame is accounted for in both directions, with `inside` frames in the NIC.
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
