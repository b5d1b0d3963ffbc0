//! What a chain of buses counts.

doorbell_sim::stats! {
    /// What a chain has done as a whole.
    pub struct BusStats {
        /// Transactions in which the device read.
        reads,
        /// Picoseconds from sending a read request to its last byte at the device, summed.
        round_trip_ps,
        /// Transactions in which the device wrote.
        writes,
        /// Picoseconds from a write's first cycle until it is visible, summed over transactions.
        write_visible_ps,
        /// Whole lines that the device wrote.
        full_line_writes,
        /// Parts of lines that the device wrote.
        partial_line_writes,
        /// Lines, whole or in part, that the device read.
        line_reads,
        /// Picoseconds that reads waited in front of memory for earlier writes of the device to be visible.
        ordering_stall_ps,
        /// Register reads by cores.
        register_reads,
        /// Register writes by cores.
        register_writes,
    }
}

doorbell_sim::stats! {
    /// What one stage has carried. Up is from the device to memory.
    pub struct StageStats {
        /// Transfers up: the device's writes and read requests, and answers to register reads.
        up_transfers,
        /// Bytes of data up.
        up_bytes,
        /// Picoseconds that transfers up took, and reads of the device held the bus if it has no split transactions.
        up_busy_ps,
        /// Transfers down: data that the device reads, and cores' accesses to registers.
        down_transfers,
        /// Bytes of data down.
        down_bytes,
        /// Picoseconds that transfers down took, and register reads held the bus.
        down_busy_ps,
        /// Picoseconds that transfers waited for the bus.
        wait_ps,
        /// Picoseconds that the device's reads waited because as many were under way as can be.
        outstanding_stall_ps,
        /// Picoseconds that writes waited for room in the bridge.
        buffer_stall_ps,
        /// Transfers from before what the bus remembers. They take place as if nothing had been booked then, so possibly too early.
        late,
    }
}
