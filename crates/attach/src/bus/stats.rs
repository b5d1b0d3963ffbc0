//! Counters of a chain of buses.

doorbell_sim::stats! {
    /// Counters of the whole chain.
    pub struct BusStats {
        /// Read transactions of the device.
        reads,
        /// Picoseconds from sending a read request to its last byte at the device, summed.
        round_trip_ps,
        /// Write transactions of the device.
        writes,
        /// Picoseconds from a write's first cycle until it is visible, summed over transactions.
        write_visible_ps,
        /// Whole lines written by the device.
        full_line_writes,
        /// Partial lines written by the device.
        partial_line_writes,
        /// Lines, whole or partial, read by the device.
        line_reads,
        /// Picoseconds for which reads waited before memory until earlier writes of the device were visible.
        ordering_stall_ps,
        /// Register reads by cores.
        register_reads,
        /// Register writes by cores.
        register_writes,
    }
}

doorbell_sim::stats! {
    /// Counters of one stage. Up is from the device to memory.
    pub struct StageStats {
        /// Transfers up: the device's writes and read requests, and responses to register reads.
        up_transfers,
        /// Bytes of data up.
        up_bytes,
        /// Picoseconds taken by transfers up, and by reads of the device that hold a bus without split
        /// transactions.
        up_busy_ps,
        /// Transfers down: data read by the device, and cores' register accesses.
        down_transfers,
        /// Bytes of data down.
        down_bytes,
        /// Picoseconds taken by transfers down, and by register reads that hold the bus.
        down_busy_ps,
        /// Picoseconds for which transfers waited for the bus.
        wait_ps,
        /// Picoseconds for which the device's reads waited because the maximum number was in flight.
        outstanding_stall_ps,
        /// Picoseconds for which writes waited for room in the bridge.
        buffer_stall_ps,
        /// Transfers for a time before the recorded bookings. They take place as if that time had no
        /// bookings, so possibly too early.
        late,
    }
}
