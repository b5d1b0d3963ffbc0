//! Counts of a playback.

use doorbell_core::CoreStats;
use doorbell_memory::MemoryStats;
use doorbell_sim::{CoreCycle, Ps};

doorbell_sim::stats! {
    /// Device counts.
    pub struct PlayedStats {
        /// Frames that reached a device; as recorded, all frames of the recording.
        frames_offered,
        /// Offered frames dropped for lack of a free descriptor, at another rate than recorded.
        frames_dropped,
        /// Offered frames that were not dropped in this way.
        frames_in,
        /// Bytes of these frames, FCS included.
        frames_in_bytes,
        /// Received frames that the program has reached: its hart is past the first instruction that saw
        /// them.
        frames_taken,
        /// Frames that a device handed to the wire.
        frames_out,
        /// Bytes of these frames, FCS included.
        frames_out_bytes,
        /// Bytes that devices read.
        dma_read_bytes,
        /// Bytes that devices wrote.
        dma_written_bytes,
        /// Blocks that waited for a device write.
        waits,
        /// Picoseconds that blocks waited for device writes.
        waited_ps,
        /// Instructions of empty polls that were skipped, as frames were waiting.
        left_out,
    }
}

/// Counts of one trace.
#[derive(Clone, Debug)]
pub struct PlayedTrace {
    /// First hart, and number of harts.
    pub harts: (usize, usize),
    /// Instructions played, in all rounds.
    pub instructions: u64,
    /// Number of restarts.
    pub rounds: u64,
    /// Counts of its devices.
    pub devices: PlayedStats,
}

/// All counts up to a time.
#[derive(Clone, Debug)]
pub struct Played {
    /// Time of the counts.
    pub now: Ps,
    /// Instructions of all harts.
    pub instructions: u64,
    /// Cycles of each core, asleep or not, and its counters.
    pub cores: Vec<(CoreCycle, CoreStats)>,
    /// Counters of caches and memory.
    pub memory: MemoryStats,
    /// Device counts of the first trace.
    pub devices: PlayedStats,
    /// Counts of each trace, in the order of the plan.
    pub traces: Vec<PlayedTrace>,
}
