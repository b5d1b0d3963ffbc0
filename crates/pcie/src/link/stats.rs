//! What the link counts besides the packets of each kind of DMA.

doorbell_sim::stats! {
    /// What a link has done. Up is from the device to the root complex.
    pub struct LinkStats {
        /// Packets up, of DMA and of registers.
        up_packets,
        /// Their bytes, framing and headers included.
        up_bytes,
        /// Picoseconds of link time that packets up took, acknowledgements and the like included.
        up_busy_ps,
        /// Packets down.
        down_packets,
        /// Their bytes.
        down_bytes,
        /// Picoseconds of link time that packets down took.
        down_busy_ps,
        /// Bytes of link time up that acknowledgements, flow control and skip sets took beside the packets.
        up_dllp_bytes,
        /// The same down.
        down_dllp_bytes,
        /// Whole lines that the device wrote (ItoM).
        full_line_writes,
        /// Parts of lines that the device wrote (RFO).
        partial_line_writes,
        /// Lines, whole or in part, that the device read (PCIeRdCur).
        line_reads,
        /// Register reads by cores (PRd).
        register_reads,
        /// Register writes by cores (WiL).
        register_writes,
        /// Read requests, as many as round trips.
        read_requests,
        /// Picoseconds from sending a read request to the end of its completions, summed.
        round_trip_ps,
        /// Picoseconds from a write's first byte on the link until it is visible, summed over packets.
        write_visible_ps,
        /// Picoseconds that requests waited for the device's own issue rate.
        issue_stall_ps,
        /// Picoseconds that read requests waited for a tag.
        tag_stall_ps,
        /// Picoseconds that writes waited for room in the root complex: the next to leave, so that no two wait at once.
        posted_stall_ps,
        /// Picoseconds that read requests waited for room in the root complex.
        non_posted_stall_ps,
        /// Picoseconds that read requests waited in the root complex for earlier writes of the device to be visible.
        ordering_stall_ps,
    }
}
