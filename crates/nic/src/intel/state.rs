//! Saved state of a controller, separate from the live structures. Restoring validates everything, so that a
//! damaged state is rejected and cannot cause a panic later.
//!
//! Scheduled wake-ups are saved with the machine's event queue, and the configuration with the machine.

use std::collections::VecDeque;

use doorbell_sim::snapshot::SnapshotError;
use doorbell_sim::{Frame, PhysAddr, Ps, TxStamps};
use serde::{Deserialize, Serialize};

use super::flow::PAUSE_QUEUE_MAX;
use super::link::LinkStatus;
use super::mdio::Indirect;
use super::rx::{Completed, Rx, RxFrame, RxQueue};
use super::tx::{CONTEXTS, Context, Done, Packet, Tx, TxQueue};
use super::{Chip, Controller, Queue};
use crate::parts::dma::{Dma, Read, Write};
use crate::parts::drops::ArrivalState;
use crate::parts::engine::Engine;
use crate::parts::jobs::{self, Fetched, Job};
use crate::parts::outlet::Outlet;
use crate::parts::ring::RingState;
use crate::parts::timer::Timer;
use crate::stats::{NicStats, QueueStats};

/// Maximum pieces of a frame: the longest frame in the smallest buffers, plus a split header.
const FRAME_PIECES_MAX: usize = (1 << 16) / 256 + 1;
/// Latest time that a saved state may contain: about 53 days.
const LATEST: Ps = Ps(u64::MAX / 4);

/// A saved controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct ControllerState<C: Chip> {
    registers: Vec<u32>,
    chip: C,
    phy: C::Phy,
    link: LinkStatus,
    indirect: Indirect,
    dma: Dma<Queue>,
    receive: ReceiveState,
    transmit: TransmitState<C::Context>,
    stats: NicStats,
    queue_stats: Vec<QueueStats>,
    bus_master: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ReceiveState {
    fifo: VecDeque<RxFrame>,
    dispatched: u64,
    cursor: u64,
    queues: Vec<ReceiveQueueState>,
    engine: Engine,
    previous: ArrivalState,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ReceiveQueueState {
    ring: RingState<[u64; 2], Completed>,
    begun: Vec<(PhysAddr, u32)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound = "")]
struct TransmitState<X: Context> {
    queues: Vec<TransmitQueueState<X>>,
    turn: u8,
    engine: Engine,
    /// Frames, each with its queue.
    fifo: VecDeque<(Frame, u8)>,
    leaving: VecDeque<(Ps, u64)>,
    pauses: VecDeque<Frame>,
    wire_free: Ps,
    wire: Timer,
    looped: VecDeque<(Ps, Frame)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound = "")]
struct TransmitQueueState<X: Context> {
    ring: RingState<[u64; 2], Done>,
    jobs: VecDeque<Job>,
    requested: u64,
    packet: Packet<X>,
    contexts: [X; CONTEXTS],
}

impl<C: Chip> Controller<C> {
    /// Returns the state to save in a checkpoint.
    pub fn state(&self) -> ControllerState<C> {
        ControllerState {
            registers: self.regs.words().to_vec(),
            chip: self.chip.clone(),
            phy: self.phy.clone(),
            link: self.link.clone(),
            indirect: self.indirect.clone(),
            dma: self.dma.clone(),
            receive: save_receive(&self.rx),
            transmit: save_transmit(&self.tx),
            stats: self.stats.clone(),
            queue_stats: self.queue_stats.clone(),
            bus_master: self.bus_master,
        }
    }

    /// Restores a saved state. On an error the NIC is unchanged.
    pub fn restore_state(&mut self, state: ControllerState<C>) -> Result<(), SnapshotError> {
        let refuse =
            |problem: &str| SnapshotError::Inconsistent { name: self.name.clone(), problem: problem.into() };
        let mut regs = self.regs.clone();
        if !regs.restore(&state.registers) {
            return Err(refuse("wrong number of registers"));
        }
        if !state.chip.is_consistent(&regs) {
            return Err(refuse("invalid chip registers, EEPROM or interrupt state"));
        }
        if !state.dma.is_consistent(LATEST) || !dma_queues_exist(&state.dma, C::QUEUES) {
            return Err(refuse("invalid DMA requests in flight"));
        }
        let counts = [state.queue_stats.len(), state.receive.queues.len(), state.transmit.queues.len()];
        if counts != [C::QUEUES; 3] {
            return Err(refuse("wrong number of queues"));
        }
        let all = (0..C::QUEUES).flat_map(|queue| [Queue::receive(queue), Queue::transmit(queue)]);
        for queue in all {
            let (head, count) = (regs.ring_head::<C>(queue), regs.ring_count::<C>(queue));
            let in_flight = state.dma.descriptors(queue);
            let (matches_dma, matches_head) = match queue {
                Queue::Receive(_) => {
                    let ring = &state.receive.queues[queue.index()].ring;
                    (ring.matches_in_flight(in_flight), ring.matches_head(head, count, 0))
                }
                Queue::Transmit(_) => {
                    let TransmitQueueState { ring, jobs, .. } = &state.transmit.queues[queue.index()];
                    (ring.matches_in_flight(in_flight), ring.matches_head(head, count, jobs.len()))
                }
            };
            if !matches_dma || !matches_head {
                return Err(refuse("a descriptor ring does not match its descriptors on the chip"));
            }
        }
        let rx = load_receive(state.receive, &state.dma).map_err(refuse)?;
        let tx = load_transmit(state.transmit, &state.dma).map_err(refuse)?;
        self.on = C::queues_on(&regs);
        self.regs = regs;
        self.chip = state.chip;
        self.phy = state.phy;
        self.link = state.link;
        self.indirect = state.indirect;
        self.dma = state.dma;
        (self.rx, self.tx) = (rx, tx);
        self.rx_recount_writes();
        self.tx_recount_reads();
        self.stats = state.stats;
        self.queue_stats = state.queue_stats;
        self.bus_master = state.bus_master;
        Ok(())
    }
}

/// Whether all DMA in flight is for existing queues of the right direction.
fn dma_queues_exist(dma: &Dma<Queue>, queues: usize) -> bool {
    let exists = |queue: &Queue| queue.index() < queues;
    let reads = dma.reads.kinds().all(|read| match read {
        Read::Cancelled => true,
        Read::Descriptors { queue, .. } => exists(queue),
        Read::Data { queue, .. } => exists(queue) && matches!(queue, Queue::Transmit(_)),
    });
    let writes = dma.writes.kinds().all(|write| match write {
        Write::Cancelled => true,
        Write::Descriptors { queue, .. } => exists(queue),
        Write::Data { queue, .. } => exists(queue) && matches!(queue, Queue::Receive(_)),
    });
    reads && writes
}

fn save_receive(rx: &Rx) -> ReceiveState {
    let queue = |queue: &RxQueue| ReceiveQueueState {
        ring: queue.ring.save(|buffers| *buffers),
        begun: queue.partial_frame.clone(),
    };
    ReceiveState {
        fifo: rx.fifo.iter().cloned().collect(),
        dispatched: rx.dispatched as u64,
        cursor: rx.cursor as u64,
        queues: rx.queues.iter().map(queue).collect(),
        engine: rx.engine.clone(),
        previous: rx.previous,
    }
}

fn load_receive(state: ReceiveState, dma: &Dma<Queue>) -> Result<Rx, &'static str> {
    let queues = state.queues.len();
    let dispatched = usize::try_from(state.dispatched).unwrap_or(usize::MAX);
    let partial = state.fifo.get(dispatched).map_or(0, |frame| frame.bytes.len() as u64);
    let possible = state.fifo.iter().all(|frame| {
        (14..=1 << 16).contains(&frame.bytes.len())
            && frame.stored <= 1 << 17
            && frame.wire_bytes != 0
            && usize::from(frame.queue) < queues
    });
    if !possible || dispatched > state.fifo.len() || state.cursor != 0 && state.cursor >= partial {
        return Err("invalid receive packet buffer");
    }
    // The data writes in flight must cover the dispatched frames in order, front to back.
    let mut walk = 0usize;
    for write in dma.writes.kinds() {
        let Write::Data { queue, offset, len, last, .. } = write else { continue };
        let end = u64::from(*offset) + u64::from(*len);
        let Some(frame) = state.fifo.get(walk).filter(|_| walk <= dispatched) else {
            return Err("a data write does not match the receive packet buffer");
        };
        let bytes = frame.bytes.len() as u64;
        if end > bytes || *last && end != bytes || queue.index() != usize::from(frame.queue) {
            return Err("a data write does not match the receive packet buffer");
        }
        walk += usize::from(*last);
    }
    if walk != dispatched {
        return Err("the receive packet buffer does not match the DMA in flight");
    }
    let too_large = |queue: &ReceiveQueueState| {
        queue.begun.len() > FRAME_PIECES_MAX || queue.begun.iter().any(|(_, len)| *len > 1 << 17)
    };
    if state.queues.iter().any(too_large) {
        return Err("a partially reported frame has invalid pieces");
    }
    if !state.engine.is_consistent(LATEST) {
        return Err("invalid time at which the receive engine is free");
    }
    let mut rx = Rx::new(queues);
    for (index, queue) in state.queues.into_iter().enumerate() {
        let fetches = dma.fetches(Queue::receive(index));
        rx.queues[index] =
            RxQueue { ring: queue.ring.load(fetches, |buffers| buffers), partial_frame: queue.begun };
    }
    (rx.fifo, rx.dispatched, rx.cursor) =
        (state.fifo.into_iter().collect(), dispatched, state.cursor as usize);
    (rx.engine, rx.previous) = (state.engine, state.previous);
    Ok(rx)
}

fn save_transmit<X: Context>(tx: &Tx<X>) -> TransmitState<X> {
    let queue = |queue: &TxQueue<X>| TransmitQueueState {
        ring: queue.ring.save(|fetched| fetched.words),
        jobs: queue.jobs.clone(),
        requested: queue.requested as u64,
        packet: queue.packet.clone(),
        contexts: queue.contexts,
    };
    let (leaving, wire_free, wire, looped) = tx.outlet.save();
    TransmitState {
        queues: tx.queues.iter().map(queue).collect(),
        turn: tx.turn as u8,
        engine: tx.engine.clone(),
        fifo: tx.fifo.iter().map(|(frame, stamps)| (frame.clone(), stamps.queue)).collect(),
        leaving,
        pauses: tx.pauses.clone(),
        wire_free,
        wire,
        looped,
    }
}

fn load_transmit<X: Context>(state: TransmitState<X>, dma: &Dma<Queue>) -> Result<Tx<X>, &'static str> {
    let queues = state.queues.len();
    let possible = |(index, queue): (usize, &TransmitQueueState<X>)| {
        let of = Queue::transmit(index);
        queue.packet.bytes.len() <= 1 << 17 && jobs::are_consistent(&queue.jobs, queue.requested, (of, dma))
    };
    if !state.queues.iter().enumerate().all(possible) {
        return Err("the transmit descriptors do not match the data reads in flight");
    }
    let small = |frame: &Frame| frame.bytes.len() <= 1 << 16;
    let fits = |(frame, queue): &(Frame, u8)| small(frame) && usize::from(*queue) < queues;
    let pauses = state.pauses.len() <= PAUSE_QUEUE_MAX && state.pauses.iter().all(small);
    if usize::from(state.turn) >= queues || !state.fifo.iter().all(fits) || !pauses {
        return Err("invalid transmit packet buffer");
    }
    let outlet = Outlet::load((state.leaving, state.wire_free, state.wire, state.looped), LATEST);
    let Some(outlet) = outlet.filter(|_| state.engine.is_consistent(LATEST)) else {
        return Err("invalid time at which the transmit engine or the wire is free");
    };
    let mut tx = Tx::new(queues);
    for (index, queue) in state.queues.into_iter().enumerate() {
        let fetches = dma.fetches(Queue::transmit(index));
        tx.queues[index] = TxQueue {
            ring: queue.ring.load(fetches, |words| Fetched { words, stamps: TxStamps::default() }),
            jobs: queue.jobs,
            requested: queue.requested as usize,
            packet: queue.packet,
            contexts: queue.contexts,
            ..TxQueue::default()
        };
    }
    tx.turn = state.turn.into();
    tx.engine = state.engine;
    let outgoing = |(frame, queue)| (frame, TxStamps { queue, ..TxStamps::default() });
    tx.fifo = state.fifo.into_iter().map(outgoing).collect();
    (tx.outlet, tx.pauses) = (outlet, state.pauses);
    Ok(tx)
}
