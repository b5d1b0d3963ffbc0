//! What was played.

use doorbell_core::CoreStats;
use doorbell_memory::MemoryStats;
use doorbell_sim::Ps;

doorbell_sim::stats! {
    /// What was played of devices.
    pub struct PlayedStats {
        /// Frames that reached a device; as recorded, all that did then.
        frames_offered,
        /// Of these, frames that found no free descriptor, at another pace than recorded.
        frames_dropped,
        /// Those that it did not drop so.
        frames_in,
        /// Their bytes, FCS included.
        frames_in_bytes,
        /// Received frames that the program has come to: its hart is behind the first instruction that saw them.
        frames_taken,
        /// Frames that a device handed to the wire.
        frames_out,
        /// Their bytes, FCS included.
        frames_out_bytes,
        /// Bytes that devices read.
        dma_read_bytes,
        /// Bytes that devices wrote.
        dma_written_bytes,
        /// Blocks that waited for a device's write.
        waits,
        /// Picoseconds that they waited.
        waited_ps,
        /// Instructions of polls that found nothing and were left out, as frames were waiting.
        left_out,
    }
}

/// What has been played of one of the traces.
#[derive(Clone, Debug)]
pub struct PlayedTrace {
    /// Its first hart, and how many it has.
    pub harts: (usize, usize),
    /// Instructions of its harts that were played, all rounds together.
    pub instructions: u64,
    /// How often it has started over.
    pub rounds: u64,
    /// Its devices.
    pub devices: PlayedStats,
}

/// What has been counted up to a moment.
#[derive(Clone, Debug)]
pub struct Played {
    /// The moment.
    pub now: Ps,
    /// Instructions of all harts.
    pub instructions: u64,
    /// Each core's cycles, asleep or not, and what it counted.
    pub cores: Vec<(u64, CoreStats)>,
    /// Caches and memory.
    pub memory: MemoryStats,
    /// Devices of the first trace.
    pub devices: PlayedStats,
    /// Each trace, in the order of the plan.
    pub traces: Vec<PlayedTrace>,
}
