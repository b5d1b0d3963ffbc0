//! What the NIC counts for the simulation's user, apart from the chip's own statistics registers.

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
    pub(crate) fn refused(&mut self, looped: bool, cause: fn(&mut NicStats) -> &mut u64) {
        *if looped { &mut self.rx_looped_drop_other } else { cause(self) } += 1;
    }

    /// Asserts that every frame that came in is accounted for, in both directions, with so many inside the NIC of this name.
    pub(crate) fn check_conservation(&self, inside: InFlight, name: &str) {
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
