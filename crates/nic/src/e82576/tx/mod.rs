//! Transmit: from the rings to the wire (§7.2). A descriptor's life: asked for → cached → job (its buffer is asked for, piece by
//! piece, as far as the packet buffer has room) → retired in order (its bytes are in the packet; with EOP the packet is a frame in
//! the packet buffer) → done (with RS: written back, or the head is) → the head passes it. Queues take turns, packet by packet.
//!
//! Room in the packet buffer is taken when a piece is asked for and free again when its frame has left. A packet that is larger
//! than the packet buffer may exceed it while nothing else is there.

mod descriptor;
mod engine;
mod packet;

use std::collections::VecDeque;

use doorbell_sim::{Frame, TxStamps};
use serde::{Deserialize, Serialize};

use super::QUEUES;
use crate::parts::doorbells::Doorbells;
use crate::parts::engine::Engine;
use crate::parts::fifo::{Fifo, Outgoing};
use crate::parts::jobs::{Fetched, Job};
use crate::parts::outlet::Outlet;
use crate::parts::ring::{DescriptorRing, Used};
pub(super) use descriptor::Context;
pub(super) use packet::Packet;

/// Contexts that a queue holds.
pub(super) const CONTEXTS: usize = 2;

/// A processed descriptor that the head has not passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Done {
    pub words: [u64; 2],
    /// It has to be written back.
    pub report: bool,
    /// It has RS: its write-back interrupts.
    pub interrupts: bool,
}

impl Used for Done {
    fn words(&self) -> [u64; 2] {
        self.words
    }

    fn is_reported(&self) -> bool {
        self.report
    }
}

/// A transmit queue: its ring, what is being made of its descriptors, and what the last ones said.
#[derive(Debug, Default)]
pub(super) struct TxQueue {
    pub ring: DescriptorRing<Fetched, Done>,
    /// Descriptors being worked on, oldest first.
    pub jobs: VecDeque<Job>,
    /// How many jobs at the front are asked for completely.
    pub requested: usize,
    /// The packet being put together, and the offload contexts.
    pub packet: Packet,
    pub contexts: [Context; CONTEXTS],
    /// When the tail was written, and the stamps of the descriptor that was processed last. An observer's; not state.
    pub doorbells: Doorbells,
    pub stamps: TxStamps,
    /// Which hart wrote the tail last. An observer's too.
    pub rung_by: Option<u8>,
}

/// The transmit side's state.
#[derive(Debug)]
pub(super) struct Tx {
    pub queues: Vec<TxQueue>,
    /// Whose turn it is.
    pub turn: usize,
    /// Data reads in flight.
    pub reads_in_flight: u32,
    /// Bytes asked for or in the packets being put together.
    pub reserved: u64,
    /// Asks for buffers.
    pub engine: Engine,
    pub fifo: Fifo<Outgoing>,
    /// PAUSE frames go first and take no room.
    pub pauses: VecDeque<Frame>,
    pub outlet: Outlet,
}

impl Tx {
    pub fn new() -> Tx {
        Tx {
            queues: std::iter::repeat_with(TxQueue::default).take(QUEUES).collect(),
            turn: 0,
            reads_in_flight: 0,
            reserved: 0,
            engine: Engine::default(),
            fifo: Fifo::default(),
            pauses: VecDeque::new(),
            outlet: Outlet::default(),
        }
    }

    /// Of a queue, frames put together and not sent.
    pub fn frames_of(&self, queue: usize) -> u64 {
        self.fifo.iter().filter(|(_, stamps)| usize::from(stamps.queue) == queue).count() as u64
    }

    /// Frames put together and not sent.
    pub fn frames(&self) -> u64 {
        self.fifo.len() as u64
    }
}
