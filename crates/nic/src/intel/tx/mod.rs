//! Transmit: from the rings to the wire. A descriptor's life: requested → cached → job (its buffer is read piece by piece, as far as
//! the packet buffer has room) → retired in order (its bytes are in the packet; with EOP the packet becomes a frame in the packet
//! buffer) → done (with RS it is written back, or the head is) → the head passes it. Queues take turns, packet by packet.
//!
//! A piece takes its room in the packet buffer when it is requested; the room is free again when its frame has left. A packet larger
//! than the packet buffer may exceed it while nothing else is there.

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
pub(super) use descriptor::{Context, Descriptor, sums};
pub(super) use packet::{Packet, SEGMENTATION};

/// Contexts that a queue holds.
pub(super) const CONTEXTS: usize = 2;

/// A processed descriptor that the head has not passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Done {
    pub words: [u64; 2],
    /// It has to be written back.
    pub report: bool,
    /// It has RS: its write-back interrupts.
    pub interrupts: bool,
    /// Its interrupt may be delayed.
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

/// A transmit queue. `X` is the chip's context.
#[derive(Debug)]
pub(crate) struct TxQueue<X: Context> {
    pub ring: DescriptorRing<Fetched, Done>,
    /// Descriptors whose buffers are being read, oldest first.
    pub jobs: VecDeque<Job>,
    /// Number of jobs at the front that are requested completely.
    pub requested: usize,
    /// The packet being assembled, and the contexts for offloads.
    pub packet: Packet<X>,
    pub contexts: [X; CONTEXTS],
    /// When the tail was written, by which hart last, and the stamps of the descriptor processed last. An observer's; not state.
    pub doorbells: Doorbells,
    pub rung_by: Option<u8>,
    pub stamps: TxStamps,
}

impl<X: Context> Default for TxQueue<X> {
    fn default() -> TxQueue<X> {
        TxQueue {
            ring: DescriptorRing::default(),
            jobs: VecDeque::new(),
            requested: 0,
            packet: Packet::default(),
            contexts: [X::default(); CONTEXTS],
            doorbells: Doorbells::default(),
            rung_by: None,
            stamps: TxStamps::default(),
        }
    }
}

/// The transmit side.
#[derive(Debug)]
pub(crate) struct Tx<X: Context> {
    pub queues: Vec<TxQueue<X>>,
    /// The queue whose turn it is.
    pub turn: usize,
    /// Data reads in flight.
    pub reads_in_flight: u32,
    /// Bytes requested, or in the packets being assembled.
    pub reserved: u64,
    /// Reads buffers.
    pub engine: Engine,
    pub fifo: Fifo<Outgoing>,
    /// PAUSE frames precede others and take no room.
    pub pauses: VecDeque<Frame>,
    pub outlet: Outlet,
}

impl<X: Context> Tx<X> {
    pub fn new(queues: usize) -> Tx<X> {
        Tx {
            queues: std::iter::repeat_with(TxQueue::default).take(queues).collect(),
            turn: 0,
            reads_in_flight: 0,
            reserved: 0,
            engine: Engine::default(),
            fifo: Fifo::default(),
            pauses: VecDeque::new(),
            outlet: Outlet::default(),
        }
    }

    /// Frames of a queue assembled and not sent.
    pub fn frames_of(&self, queue: usize) -> u64 {
        self.fifo.iter().filter(|(_, stamps)| usize::from(stamps.queue) == queue).count() as u64
    }

    /// Frames assembled and not sent.
    pub fn frames(&self) -> u64 {
        self.fifo.len() as u64
    }
}
