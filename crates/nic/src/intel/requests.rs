//! DMA requests: issuing reads and writes, and what follows when they are done. [`Dma`] has the requests in flight.

use doorbell_pcie::FunctionPorts;
use doorbell_sim::ports::DmaKind;
use doorbell_sim::{Ps, log};

use super::{Chip, Controller, Event, Queue, wake};
use crate::parts::dma::{Dma, Lane, Pace, Piece, Purpose as _, Read, Requested, Write};

impl<C: Chip> Controller<C> {
    /// The bandwidth of the DMA engine.
    fn pace(&self) -> Pace {
        Pace { rate: self.config.dma_rate, shared: self.config.dma_shared }
    }

    /// When all bytes requested in a direction have passed the engine, not before `now`.
    pub(super) fn path_end(&self, now: Ps, lane: Lane) -> Ps {
        self.dma.path_end(now, self.pace(), lane)
    }

    /// Issues a read at `at`; its completion is a wake-up, or a call of [`dma_done`](Controller::dma_done). Returns when it starts.
    pub(super) fn issue_read(
        &mut self,
        at: Ps,
        piece: Piece,
        kind: DmaKind,
        read: Read<Queue>,
        ports: &mut dyn FunctionPorts,
    ) -> Ps {
        let pace = self.pace();
        let request = self.dma.request_read(at, pace, piece, (kind, read), ports);
        if let Some(done) = request.done {
            wake(ports, done, Event::ReadDone(request.sequence));
        }
        request.start
    }

    /// Issues a write at `at`.
    pub(super) fn issue_write(
        &mut self,
        at: Ps,
        piece: Piece,
        kind: DmaKind,
        write: Write<Queue>,
        ports: &mut dyn FunctionPorts,
    ) {
        let held = self.request_write(at, piece, kind, write, ports);
        self.wake_for_write(Some(held), false, ports);
    }

    /// Issues a write at `at` and holds back its wake-up.
    pub(super) fn request_write(
        &mut self,
        at: Ps,
        piece: Piece,
        kind: DmaKind,
        write: Write<Queue>,
        ports: &mut dyn FunctionPorts,
    ) -> Requested {
        let pace = self.pace();
        self.dma.request_write(at, pace, piece, (kind, write), ports)
    }

    /// Schedules a wake-up that was held back, unless another write followed directly: the wake-up of that one serves both, as
    /// writes complete in order. This saves one event per frame.
    pub(super) fn wake_for_write(
        &mut self,
        held: Option<Requested>,
        followed: bool,
        ports: &mut dyn FunctionPorts,
    ) {
        match held {
            Some(write) if followed => self.dma.writes.ride(write.sequence),
            Some(Requested { sequence, done: Some(done), .. }) => {
                wake(ports, done, Event::WriteDone(sequence));
            }
            _ => {}
        }
    }

    /// A request that the port answered with [`Done::Later`](doorbell_sim::Done::Later) is done.
    pub fn dma_done(&mut self, now: Ps, token: u64, ports: &mut dyn FunctionPorts) {
        let (lane, sequence) = Dma::<Queue>::of_token(token);
        match lane {
            Lane::Reads => match self.dma.reads.busy_until(sequence, now) {
                Some(through) => wake(ports, through, Event::ReadDone(sequence)),
                None => self.read_done(now, sequence, ports),
            },
            Lane::Writes => match self.dma.writes.busy_until(sequence, now) {
                Some(through) => wake(ports, through, Event::WriteDone(sequence)),
                None => self.write_done(now, sequence, ports),
            },
        }
    }

    /// A read is done, and so are those before it that waited for it.
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

    /// The same for a write.
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

/// The directions whose requests are done.
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
