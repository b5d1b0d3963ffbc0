//! Transmit: from the ring to the wire (§3.3, §3.4). A descriptor's life: asked for → cached → job
//! (its buffer is asked for, piece by piece, as far as the FIFO has room) → retired in order (its
//! bytes are in the packet; with EOP the packet is a frame in the FIFO) → done (with RS: written
//! back) → the head passes it.
//!
//! Room in the FIFO is taken when a piece is asked for and free again when its frame has left. A
//! packet that is larger than the FIFO may exceed it while nothing else is there.

mod descriptor;
mod engine;
mod packet;

use std::collections::VecDeque;

use doorbell_sim::{Frame, TxStamps};
use serde::{Deserialize, Serialize};

use crate::parts::doorbells::Doorbells;
use crate::parts::engine::Engine;
use crate::parts::fifo::{Fifo, Outgoing};
use crate::parts::jobs::{Fetched, Job};
use crate::parts::outlet::Outlet;
use crate::parts::ring::{DescriptorRing, Used};
pub(crate) use descriptor::Context;
pub(crate) use packet::Packet;

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

impl Used for Done {
    fn words(&self) -> [u64; 2] {
        self.words
    }

    fn is_reported(&self) -> bool {
        self.report
    }
}

/// The transmit queue: its ring, what is being made of its descriptors, and what the last ones said.
#[derive(Debug, Default)]
pub(crate) struct TxQueue {
    pub(crate) ring: DescriptorRing<Fetched, Done>,
    /// Descriptors being worked on, oldest first.
    pub(crate) jobs: VecDeque<Job>,
    /// How many jobs at the front are asked for completely.
    pub(crate) requested: usize,
    /// Data reads in flight.
    pub(crate) reads_in_flight: u32,
    /// Bytes asked for or in the packet being put together.
    pub(crate) reserved: u64,
    /// The packet being put together, and the offload contexts.
    pub(crate) packet: Packet,
    pub(crate) plain_context: Context,
    pub(crate) segment_context: Context,
    /// When the tail was written, and the stamps of the descriptor that was processed last. An observer's; not state.
    pub(crate) doorbells: Doorbells,
    pub(crate) stamps: TxStamps,
}

/// The transmit side's state.
#[derive(Debug, Default)]
pub(crate) struct Tx {
    pub(crate) queue: TxQueue,
    /// Asks for buffers.
    pub(crate) engine: Engine,
    pub(crate) fifo: Fifo<Outgoing>,
    pub(crate) outlet: Outlet,
    /// PAUSE frames go first and take no room.
    pub(crate) pauses: VecDeque<Frame>,
}

impl Tx {
    /// Frames put together and not sent.
    pub fn frames(&self) -> u64 {
        self.fifo.len() as u64
    }
}
