//! Transmit path, from the rings to the wire. Life of a descriptor: requested → cached → job (its buffer is
//! read in pieces, as the packet buffer has room) → retired in order (its bytes are in the packet; with EOP
//! the packet becomes a frame in the packet buffer) → done (with RS the descriptor or the head is written
//! back) → passed by the head. Queues are served round robin by packet.
//!
//! A piece reserves packet buffer space when it is requested; the space is freed when its frame has left. A
//! packet larger than the packet buffer may exceed it while the buffer is otherwise empty.

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

/// Contexts per queue.
pub(super) const CONTEXTS: usize = 2;

/// A processed descriptor not yet passed by the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Done {
    pub words: [u64; 2],
    /// It must be written back.
    pub report: bool,
    /// It has RS: its write-back raises an interrupt cause.
    pub interrupts: bool,
    /// Its interrupt may be delayed (IDE).
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

/// A transmit queue. `X` is the chip's context type.
#[derive(Debug)]
pub(crate) struct TxQueue<X: Context> {
    pub ring: DescriptorRing<Fetched, Done>,
    /// Descriptors whose buffers are being read, oldest first.
    pub jobs: VecDeque<Job>,
    /// Number of jobs at the front whose buffers are requested completely.
    pub requested: usize,
    /// The packet being assembled, and the contexts for offloads.
    pub packet: Packet<X>,
    pub contexts: [X; CONTEXTS],
    /// Times of tail writes, the hart that wrote it last, and the stamps of the descriptor processed last.
    /// For observers only; not saved.
    pub doorbells: Doorbells,
    pub doorbell_hart: Option<u8>,
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
            doorbell_hart: None,
            stamps: TxStamps::default(),
        }
    }
}

/// The transmit side.
#[derive(Debug)]
pub(crate) struct Tx<X: Context> {
    pub queues: Vec<TxQueue<X>>,
    /// Queue served next.
    pub turn: usize,
    /// Data reads in flight.
    pub reads_in_flight: u32,
    /// Packet buffer bytes reserved for reads in flight and packets being assembled.
    pub reserved: u64,
    /// Engine that reads buffers.
    pub engine: Engine,
    pub fifo: Fifo<Outgoing>,
    /// PAUSE frames to send. They precede other frames and occupy no FIFO space.
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

    /// Number of a queue's frames in the packet buffer.
    pub fn frames_of(&self, queue: usize) -> u64 {
        self.fifo.iter().filter(|(_, stamps)| usize::from(stamps.queue) == queue).count() as u64
    }

    /// Number of frames in the packet buffer.
    pub fn frames(&self) -> u64 {
        self.fifo.len() as u64
    }
}
