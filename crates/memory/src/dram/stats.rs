//! Counters of a DRAM channel.

doorbell_sim::stats! {
    /// Counters of one channel.
    pub struct DramStats {
        /// Lines read, including those found in the write queue.
        reads,
        /// Lines written, including those merged in the write queue.
        writes,
        /// Reads served by the write queue.
        forwarded,
        /// Writes merged with one still waiting.
        merged,
        /// Column commands to an open row (row hits).
        row_hits,
        /// Column commands to a closed bank.
        row_closed,
        /// Column commands that found another row open (row conflicts).
        row_conflicts,
        /// Bytes read from the devices.
        bytes_read,
        /// Bytes written to the devices.
        bytes_written,
        /// Picoseconds for which the data bus was in use.
        busy_ps,
        /// Clocks from a read's arrival to the end of its data, summed; divided by the elapsed clocks, the
        /// read queue's mean occupancy.
        read_clocks,
        /// Clocks from a write's arrival to its column command, summed; likewise for the write queue.
        write_clocks,
        /// Clocks for which writes waited for room in the queue, summed.
        write_stall_clocks,
        /// Write drains started at the high mark.
        drains_full,
        /// Write drains started because there were no reads.
        drains_idle,
        /// Requests and commands for a time before the recorded bookings of queues and calendars. They are
        /// served as if that time had no bookings, so possibly too early.
        late,
    }
}
