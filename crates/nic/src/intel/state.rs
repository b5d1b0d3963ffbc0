//! Saved state of a controller. The receive and transmit sides are saved as they are, without what follows from
//! the DMA in flight or serves observers. Restoring validates everything, so that a damaged state is rejected
//! and cannot cause a panic later.
//!
//! Scheduled wake-ups are saved with the machine's event queue, and the configuration with the machine.

use doorbell_sim::snapshot::SnapshotError;
use doorbell_sim::{Frame, Ps};
use serde::{Deserialize, Serialize};

use super::flow::PAUSE_QUEUE_MAX;
use super::link::LinkStatus;
use super::mdio::Indirect;
use super::rx::{Rx, RxQueue};
use super::tx::{Context, Tx, TxQueue};
use super::{Chip, Controller, Queue};
use crate::parts::dma::{Dma, Read, Write};
use crate::parts::fifo::Outgoing;
use crate::parts::jobs;
use crate::stats::{NicStats, QueueStats};

/// Maximum pieces of a frame: the longest frame in the smallest buffers, plus a split header.
const FRAME_PIECES_MAX: usize = (1 << 16) / 256 + 1;
/// Latest time that a saved state may contain: about 53 days.
const LATEST: Ps = Ps(u64::MAX / 4);

/// A saved controller.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct ControllerState<C: Chip> {
    registers: Vec<u32>,
    chip: C,
    phy: C::Phy,
    link: LinkStatus,
    indirect: Indirect,
    dma: Dma<Queue>,
    receive: Rx,
    transmit: Tx<C::Context>,
    stats: NicStats,
    queue_stats: Vec<QueueStats>,
    bus_master: bool,
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
            receive: self.rx.clone(),
            transmit: self.tx.clone(),
            stats: self.stats.clone(),
            queue_stats: self.queue_stats.clone(),
            bus_master: self.bus_master,
        }
    }

    /// Restores a saved state. On an error the NIC is unchanged.
    pub fn restore_state(&mut self, mut state: ControllerState<C>) -> Result<(), SnapshotError> {
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
            let (fetching, writing) = state.dma.descriptors(queue);
            let (matches_dma, matches_head) = match queue {
                Queue::Receive(_) => {
                    let ring = &state.receive.queues[queue.index()].ring;
                    (ring.matches_in_flight(fetching, writing), ring.matches_head(head, count, 0))
                }
                Queue::Transmit(_) => {
                    let TxQueue { ring, jobs, .. } = &state.transmit.queues[queue.index()];
                    (ring.matches_in_flight(fetching, writing), ring.matches_head(head, count, jobs.len()))
                }
            };
            if !matches_dma || !matches_head {
                return Err(refuse("a descriptor ring does not match its descriptors on the chip"));
            }
        }
        resume_receive(&mut state.receive, &state.dma).map_err(refuse)?;
        resume_transmit(&mut state.transmit, &state.dma).map_err(refuse)?;
        self.on = C::queues_on(&regs);
        self.regs = regs;
        self.chip = state.chip;
        self.phy = state.phy;
        self.link = state.link;
        self.indirect = state.indirect;
        self.dma = state.dma;
        (self.rx, self.tx) = (state.receive, state.transmit);
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

fn resume_receive(rx: &mut Rx, dma: &Dma<Queue>) -> Result<(), &'static str> {
    let partial = rx.fifo.get(rx.dispatched).map_or(0, |frame| frame.bytes.len());
    let possible = rx.fifo.iter().all(|frame| {
        (14..=1 << 16).contains(&frame.bytes.len())
            && frame.stored <= 1 << 17
            && frame.wire_bytes != 0
            && usize::from(frame.queue) < rx.queues.len()
    });
    if !possible || rx.dispatched > rx.fifo.len() || rx.cursor != 0 && rx.cursor >= partial {
        return Err("invalid receive packet buffer");
    }
    // The data writes in flight must cover the dispatched frames in order, front to back.
    let mut walk = 0usize;
    for write in dma.writes.kinds() {
        let Write::Data { queue, offset, len, last, .. } = write else { continue };
        let end = u64::from(*offset) + u64::from(*len);
        let Some(frame) = rx.fifo.get(walk).filter(|_| walk <= rx.dispatched) else {
            return Err("a data write does not match the receive packet buffer");
        };
        let bytes = frame.bytes.len() as u64;
        if end > bytes || *last && end != bytes || queue.index() != usize::from(frame.queue) {
            return Err("a data write does not match the receive packet buffer");
        }
        walk += usize::from(*last);
    }
    if walk != rx.dispatched {
        return Err("the receive packet buffer does not match the DMA in flight");
    }
    let too_large = |RxQueue { partial_frame, .. }: &RxQueue| {
        partial_frame.len() > FRAME_PIECES_MAX || partial_frame.iter().any(|(_, len)| *len > 1 << 17)
    };
    if rx.queues.iter().any(too_large) {
        return Err("a partially reported frame has invalid pieces");
    }
    if !rx.engine.is_consistent(LATEST) {
        return Err("invalid time at which the receive engine is free");
    }
    for (index, queue) in rx.queues.iter_mut().enumerate() {
        queue.ring.resume(dma.fetches(Queue::receive(index)));
    }
    Ok(())
}

fn resume_transmit<X: Context>(tx: &mut Tx<X>, dma: &Dma<Queue>) -> Result<(), &'static str> {
    let possible = |(index, queue): (usize, &TxQueue<X>)| {
        let of = Queue::transmit(index);
        queue.packet.bytes.len() <= 1 << 17 && jobs::are_consistent(&queue.jobs, queue.requested, of, dma)
    };
    if !tx.queues.iter().enumerate().all(possible) {
        return Err("the transmit descriptors do not match the data reads in flight");
    }
    let queues = tx.queues.len();
    let small = |frame: &Frame| frame.bytes.len() <= 1 << 16;
    let fits = |(frame, stamps): &Outgoing| small(frame) && usize::from(stamps.queue) < queues;
    let pauses = &tx.outlet.pauses;
    let pauses = pauses.len() <= PAUSE_QUEUE_MAX && pauses.iter().all(small);
    if tx.turn >= queues || !tx.fifo.iter().all(fits) || !pauses {
        return Err("invalid transmit packet buffer");
    }
    if !tx.outlet.resume(LATEST) || !tx.engine.is_consistent(LATEST) {
        return Err("invalid time at which the transmit engine or the wire is free");
    }
    for (index, queue) in tx.queues.iter_mut().enumerate() {
        queue.ring.resume(dma.fetches(Queue::transmit(index)));
    }
    Ok(())
}
