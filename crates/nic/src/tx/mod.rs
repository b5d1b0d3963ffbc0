//! Transmit: from the ring to the wire (§3.3, §3.4). A descriptor's life: asked for → cached → job
//! (its buffer is asked for, piece by piece, as far as the FIFO has room) → retired in order (its
//! bytes are in the packet; with EOP the packet is a frame in the FIFO) → done (with RS: written
//! back) → the head passes it.
//!
//! Room in the FIFO is taken when a piece is asked for and free again when its frame has left. A
//! packet that is larger than the FIFO may exceed it while nothing else is there.

mod descriptor;
mod doorbells;
mod engine;
mod offload;
mod packet;
mod wire;

use std::collections::VecDeque;

use doorbell_sim::{Frame, Observed, Ps, TxStamps};
use serde::{Deserialize, Serialize};

use crate::timer::Timer;
pub(crate) use descriptor::Context;
use doorbells::Doorbells;
pub(crate) use packet::Packet;

/// A descriptor on the chip that is not begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fetched {
    pub words: [u64; 2],
    /// An observer's.
    pub stamps: TxStamps,
}

/// A descriptor whose buffer is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Job {
    pub words: [u64; 2],
    /// Bytes of its buffer.
    pub len: u32,
    /// Bytes not asked for yet.
    pub to_request: u32,
    /// Bytes not arrived yet.
    pub to_arrive: u32,
    #[serde(skip)]
    pub stamps: Observed<TxStamps>,
}

/// A processed descriptor that the head has not passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Done {
    pub words: [u64; 2],
    /// It has to be written back.
    pub report: bool,
    /// It has RS: its write-back interrupts.
    pub interrupts: bool,
    /// IDE: the interrupt may wait.
    pub delayed: bool,
}

/// The transmit side's state.
#[derive(Debug, Default)]
pub(crate) struct Tx {
    /// Descriptors that are fetched and not begun.
    pub(crate) cache: VecDeque<Fetched>,
    /// Descriptors asked for.
    pub(crate) fetching: u32,
    /// Index of the next descriptor to ask for.
    pub(crate) fetched: u32,
    /// Descriptors being worked on, oldest first.
    pub(crate) jobs: VecDeque<Job>,
    /// How many jobs at the front are asked for completely.
    pub(crate) requested: usize,
    /// Processed descriptors. The first `issued` ones are being written back or need not be.
    pub(crate) done: VecDeque<Done>,
    pub(crate) issued: usize,
    /// Data reads in flight.
    pub(crate) reads_in_flight: u32,
    /// When the engine can ask for the next buffer, and for when it was last woken to do so.
    pub(crate) engine_free: Ps,
    pub(crate) engine_wake: Ps,
    /// Until when the write-back that is called for waits for more.
    pub(crate) write_back: Timer,
    /// The packet being put together, and the offload contexts.
    pub(crate) packet: Packet,
    pub(crate) plain_context: Context,
    pub(crate) segment_context: Context,
    /// Bytes asked for or in the packet being put together.
    pub(crate) reserved: u64,
    /// Whole frames, oldest first (each with an observer's stamps), and the room they take.
    pub(crate) fifo: VecDeque<(Frame, TxStamps)>,
    pub(crate) queued: u64,
    /// Frames handed to the link: when each has left and the room it takes until then.
    pub(crate) leaving: VecDeque<(Ps, u64)>,
    pub(crate) leaving_room: u64,
    /// PAUSE frames go first and take no room.
    pub(crate) pauses: VecDeque<Frame>,
    /// When the wire takes the next frame.
    pub(crate) wire_free: Ps,
    pub(crate) wire: Timer,
    /// Frames on their way back in loopback, with their arrival times.
    pub(crate) looped: VecDeque<(Ps, Frame)>,
    /// When the tail was written, and the stamps of the descriptor that was processed last. An observer's; not state.
    pub(crate) doorbells: Doorbells,
    pub(crate) stamps: TxStamps,
    /// Buffers for reuse; not state.
    pub(crate) scratch: Vec<u8>,
    pub(crate) frame_sizes: Vec<u32>,
    pub(crate) spare: Vec<Vec<u8>>,
}

impl Tx {
    /// Frames put together and not sent.
    pub fn frames(&self) -> u64 {
        self.fifo.len() as u64
    }

    pub fn fifo_frames(&self) -> u32 {
        self.fifo.len() as u32
    }

    /// Keeps a frame's memory for a later one.
    pub fn recycle(&mut self, mut bytes: Vec<u8>) {
        const KEPT: usize = 64;
        if self.spare.len() < KEPT {
            bytes.clear();
            self.spare.push(bytes);
        }
    }

    /// An empty buffer.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }
}

/// Room that a frame takes in the transmit FIFO: with its FCS, rounded up to 16 bytes.
pub(crate) fn room(frame: &Frame) -> u64 {
    (frame.len_with_fcs() as u64).next_multiple_of(16)
}
