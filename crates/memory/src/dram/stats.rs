//! What a channel counts.

use doorbell_sim::Ps;

use super::timing::DramTiming;

doorbell_sim::stats! {
    /// What one channel has done.
    pub struct DramStats {
        /// Lines read, those found in the write queue included.
        reads,
        /// Lines written, those merged in the write queue included.
        writes,
        /// Reads answered by the write queue.
        forwarded,
        /// Writes that replaced one that was still waiting.
        merged,
        /// Column commands that found their row open.
        row_hits,
        /// Column commands that found their bank closed.
        row_closed,
        /// Column commands that found another row open.
        row_conflicts,
        /// Bytes read from the devices.
        bytes_read,
        /// Bytes written to the devices.
        bytes_written,
        /// Picoseconds for which the data bus was taken.
        busy_ps,
        /// Clocks from a read's arrival to the end of its data, summed: over a stretch of time, the read queue's mean occupancy.
        read_clocks,
        /// Clocks from a write's arrival to its column command, summed: likewise of the write queue.
        write_clocks,
        /// Clocks that writes waited for room in the queue, summed.
        write_stall_clocks,
        /// Times the channel turned to writing because its queue was full enough.
        drains_full,
        /// Times it did so because there was nothing to read.
        drains_idle,
        /// Requests and commands from before what queues and calendars remember. They are served as if nothing had been booked then, so
        /// possibly too early.
        late,
    }
}

impl DramStats {
    /// Mean latency of a read between the command and the data pins, in picoseconds.
    pub fn mean_read_ps(&self, timing: &DramTiming) -> u64 {
        let ps = u128::from(self.read_clocks) * 1_000_000_000_000 / u128::from(timing.clock.0);
        (ps / u128::from(self.reads.max(1))) as u64
    }

    /// Thousandths of the data bus's time that were used, of `time`.
    pub fn bus_permille(&self, time: Ps) -> u64 {
        self.busy_ps * 1000 / time.0.max(1)
    }
}
