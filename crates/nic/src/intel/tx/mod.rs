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

use doorbell_sim::TxStamps;
use serde::{Deserialize, Serialize};

use crate::parts::doorbells::Doorbells;
use crate::parts::engine::Engine;
use crate::parts::fifo::{Fifo, Outgoing, without_stamps};
use crate::parts::jobs::{Fetched, Job};
use crate::parts::outlet::Outlet;
use crate::parts::ring::{DescriptorRing, Used};
pub(super) use descriptor::{Context, Descriptor, sums};
pub(super) use packet::{Packet, SEGMENTATION};

/// Contexts per queue.
pub(super) const CONTEXTS: usize = 2;

/// A processed descriptor not yet passed by the head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(bound = "")]
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
    #[serde(skip)]
    pub doorbells: Doorbells,
    #[serde(skip)]
    pub doorbell_hart: Option<u8>,
    #[serde(skip)]
    pub stamps: TxStamps,
}

/// The transmit side.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(bound = "")]
pub(crate) struct Tx<X: Context> {
    pub queues: Vec<TxQueue<X>>,
    /// Queue served next.
    pub turn: usize,
    /// Data reads in flight.
    #[serde(skip)]
    pub reads_in_flight: u32,
    /// Packet buffer bytes reserved for reads in flight and packets being assembled.
    #[serde(skip)]
    pub reserved: u64,
    /// Engine that reads buffers.
    pub engine: Engine,
    #[serde(with = "without_stamps")]
    pub fifo: Fifo<Outgoing>,
    pub outlet: Outlet,
}

impl<X: Context> Tx<X> {
    pub fn new(queues: usize) -> Tx<X> {
        Tx { queues: std::iter::repeat_with(TxQueue::default).take(queues).collect(), ..Tx::default() }
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
