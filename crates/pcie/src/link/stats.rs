//! Counters of the link, apart from those per kind of DMA.

doorbell_sim::stats! {
    /// Counters of a link. Up is from the device to the root complex.
    pub struct LinkStats {
        /// Packets up, of DMA and register accesses.
        up_packets,
        /// Bytes up, including framing and headers.
        up_bytes,
        /// Picoseconds of link time taken by packets up, including acknowledgements and the like.
        up_busy_ps,
        /// Packets down.
        down_packets,
        /// Bytes down, including framing and headers.
        down_bytes,
        /// Picoseconds of link time taken by packets down.
        down_busy_ps,
        /// Link bytes up taken by acknowledgements, flow control and skip sets, in addition to the packets.
        up_dllp_bytes,
        /// Link bytes down taken by acknowledgements, flow control and skip sets.
        down_dllp_bytes,
        /// Whole lines written by the device (ItoM).
        full_line_writes,
        /// Partial lines written by the device (RFO).
        partial_line_writes,
        /// Lines, whole or partial, read by the device (PCIeRdCur).
        line_reads,
        /// Register reads by cores (PRd).
        register_reads,
        /// Register writes by cores (WiL).
        register_writes,
        /// Read requests; each is one round trip.
        read_requests,
        /// Picoseconds from the start of a read request to the end of its completions, summed.
        round_trip_ps,
        /// Picoseconds from a write's first byte on the link until it is visible, summed over packets.
        write_visible_ps,
        /// Picoseconds for which requests waited for the device's own issue rate.
        issue_stall_ps,
        /// Picoseconds for which read requests waited for a tag.
        tag_stall_ps,
        /// Picoseconds for which the next write waited for room in the root complex; later writes are not
        /// counted meanwhile.
        posted_stall_ps,
        /// Picoseconds for which read requests waited for room in the root complex.
        non_posted_stall_ps,
        /// Picoseconds for which read requests waited in the root complex until earlier writes of the device
        /// were visible.
        ordering_stall_ps,
    }
}
