//! DMA requests: issuing reads and writes, and handling their completions. [`Dma`] tracks the requests in
//! flight.

use doorbell_pcie::FunctionPorts;
use doorbell_sim::ports::{DmaDirection, DmaPurpose};
use doorbell_sim::{Ps, log};

use super::{Chip, Controller, Event, Queue, wake};
use crate::parts::dma::{DmaRate, IssuedRequest, Operation as _, Piece, Read, Write};

impl<C: Chip> Controller<C> {
    /// Bandwidth limits of the DMA engine.
    fn dma_rate(&self) -> DmaRate {
        DmaRate { limit: self.config.dma_rate, shared: self.config.dma_shared }
    }

    /// Returns when all bytes requested in a direction have passed the DMA engine; at least `now`.
    pub(super) fn path_end(&self, now: Ps, direction: DmaDirection) -> Ps {
        self.dma.path_end(now, self.dma_rate(), direction)
    }

    /// Issues a read at `at` and returns its start time. It completes by a wake-up.
    pub(super) fn issue_read(
        &mut self,
        at: Ps,
        piece: Piece,
        read: Read<Queue>,
        ports: &mut dyn FunctionPorts,
    ) -> Ps {
        let rate = self.dma_rate();
        let purpose = match read {
            Read::Descriptors { queue, .. } => descriptors(queue),
            Read::Data { .. } | Read::Cancelled => DmaPurpose::TxData,
        };
        let request = self.dma.request_read(at, rate, piece, purpose, read, ports);
        wake(ports, request.done, Event::ReadDone(request.sequence));
        request.start
    }

    /// Issues a write at `at`.
    pub(super) fn issue_write(
        &mut self,
        at: Ps,
        piece: Piece,
        write: Write<Queue>,
        ports: &mut dyn FunctionPorts,
    ) {
        let deferred = self.request_write(at, piece, write, ports);
        self.wake_for_write(Some(deferred), false, ports);
    }

    /// Issues a write at `at` without scheduling its wake-up; see
    /// [`wake_for_write`](Controller::wake_for_write).
    pub(super) fn request_write(
        &mut self,
        at: Ps,
        piece: Piece,
        write: Write<Queue>,
        ports: &mut dyn FunctionPorts,
    ) -> IssuedRequest {
        let rate = self.dma_rate();
        let purpose = match write {
            Write::Descriptors { queue, .. } => descriptors(queue),
            Write::Data { .. } | Write::Cancelled => DmaPurpose::RxData,
        };
        self.dma.request_write(at, rate, piece, purpose, write, ports)
    }

    /// Schedules the deferred wake-up of a write, unless another write followed directly. That write's
    /// wake-up then serves both, because writes complete in order. This saves one event per frame.
    pub(super) fn wake_for_write(
        &mut self,
        deferred: Option<IssuedRequest>,
        followed: bool,
        ports: &mut dyn FunctionPorts,
    ) {
        match deferred {
            Some(write) if followed => self.dma.writes.complete_with_next(write.sequence),
            Some(write) => wake(ports, write.done, Event::WriteDone(write.sequence)),
            None => {}
        }
    }

    /// Completes a read. Reads finish in order, so this also releases finished reads behind it.
    pub(super) fn read_done(&mut self, now: Ps, sequence: u64, ports: &mut dyn FunctionPorts) {
        self.dma.reads.mark(sequence);
        let mut served = Served::default();
        while let Some(read) = self.dma.reads.pop_done() {
            log!(now, Nic, Trace, "{}: DMA read done: {read}", self.name);
            let Some(queue) = read.queue() else { continue };
            served.note(queue);
            match read {
                Read::Cancelled => {}
                Read::Descriptors { run, .. } if queue.receives() => {
                    self.rx_fetched(queue.index(), run, ports);
                }
                Read::Descriptors { run, .. } => self.tx_fetched(now, queue.index(), run, ports),
                Read::Data { addr, len, .. } => self.tx_data_arrived(now, queue.index(), addr, len, ports),
            }
        }
        self.advance_served(now, served, ports);
    }

    /// Completes a write, as [`read_done`](Controller::read_done) does for reads.
    pub(super) fn write_done(&mut self, now: Ps, sequence: u64, ports: &mut dyn FunctionPorts) {
        self.dma.writes.mark(sequence);
        let mut served = Served::default();
        while let Some(write) = self.dma.writes.pop_done() {
            log!(now, Nic, Trace, "{}: DMA write done: {write}", self.name);
            let Some(queue) = write.queue() else { continue };
            served.note(queue);
            match write {
                Write::Cancelled => {}
                Write::Data { addr, offset, len, last, .. } => {
                    self.rx_data_written(addr, offset, len, last, ports);
                }
                Write::Descriptors { run, .. } if queue.receives() => {
                    self.rx_written_back(now, queue.index(), run, ports);
                }
                Write::Descriptors { run, .. } => self.tx_written_back(now, queue.index(), run, ports),
            }
        }
        self.advance_served(now, served, ports);
    }

    fn advance_served(&mut self, now: Ps, served: Served, ports: &mut dyn FunctionPorts) {
        if served.receive {
            self.rx_advance(now, ports);
        }
        if served.transmit {
            self.tx_advance(now, ports);
        }
    }
}

/// Purpose of transfers of a queue's descriptors.
fn descriptors(queue: Queue) -> DmaPurpose {
    if queue.receives() { DmaPurpose::RxDescriptor } else { DmaPurpose::TxDescriptor }
}

/// Directions with completed requests.
#[derive(Clone, Copy, Default)]
struct Served {
    receive: bool,
    transmit: bool,
}

impl Served {
    fn note(&mut self, queue: Queue) {
        let served = if queue.receives() { &mut self.receive } else { &mut self.transmit };
        *served = true;
    }
}
