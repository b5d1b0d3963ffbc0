//! DMA as this chip does it: its engine's pace, the wake-ups at the end of requests, and what a completed one is for.

use doorbell_sim::ports::DmaKind;
use doorbell_sim::{Ps, log};

use super::{Event, Nic, NicPorts, Queue};
use crate::parts::dma::{self, Lane, Pace, Piece, Requested};

pub(super) type Dma = dma::Dma<Queue>;
pub(super) type Read = dma::Read<Queue>;
pub(super) type Write = dma::Write<Queue>;

impl Nic {
    fn pace(&self) -> Pace {
        Pace { rate: self.config.dma_rate, shared: self.config.dma_shared }
    }

    /// When everything that was asked for in a direction has gone through the engine, not before `now`.
    pub(super) fn path_end(&self, now: Ps, lane: Lane) -> Ps {
        self.dma.path_end(now, self.pace(), lane)
    }

    /// Asks for a read at `at`; the completion comes back as an event or through [`Nic::dma_done`]. Returns when it begins.
    pub(super) fn issue_read(
        &mut self,
        at: Ps,
        piece: Piece,
        kind: DmaKind,
        read: Read,
        ports: &mut impl NicPorts,
    ) -> Ps {
        let pace = self.pace();
        let request = self.dma.request_read(at, pace, piece, (kind, read), ports);
        if let Some(done) = request.done {
            ports.wake_at(done, Event::ReadDone(request.sequence));
        }
        request.start
    }

    /// Asks for a write at `at`.
    pub(super) fn issue_write(
        &mut self,
        at: Ps,
        piece: Piece,
        kind: DmaKind,
        write: Write,
        ports: &mut impl NicPorts,
    ) {
        let held = self.request_write(at, piece, kind, write, ports);
        self.wake_for_write(Some(held), false, ports);
    }

    /// Asks for a write, but not yet for the wake-up at its end.
    pub(super) fn request_write(
        &mut self,
        at: Ps,
        piece: Piece,
        kind: DmaKind,
        write: Write,
        ports: &mut impl NicPorts,
    ) -> Requested {
        let pace = self.pace();
        self.dma.request_write(at, pace, piece, (kind, write), ports)
    }

    /// Asks for the wake-up that was held back, unless another write was asked for right behind it: that one's will do
    /// for both, as the port does writes in order. This saves an event a frame.
    pub(super) fn wake_for_write(
        &mut self,
        held: Option<Requested>,
        followed: bool,
        ports: &mut impl NicPorts,
    ) {
        match held {
            Some(write) if followed => self.dma.writes.ride(write.sequence),
            Some(Requested { sequence, done: Some(done), .. }) => {
                ports.wake_at(done, Event::WriteDone(sequence));
            }
            _ => {}
        }
    }

    /// A request that the port answered with [`Done::Later`](doorbell_sim::Done::Later) is done.
    pub fn dma_done(&mut self, now: Ps, token: u64, ports: &mut impl NicPorts) {
        let (lane, sequence) = Dma::of_token(token);
        match lane {
            Lane::Reads => match self.dma.reads.busy_until(sequence, now) {
                Some(through) => ports.wake_at(through, Event::ReadDone(sequence)),
                None => self.read_done(now, sequence, ports),
            },
            Lane::Writes => match self.dma.writes.busy_until(sequence, now) {
                Some(through) => ports.wake_at(through, Event::WriteDone(sequence)),
                None => self.write_done(now, sequence, ports),
            },
        }
    }

    pub(super) fn read_done(&mut self, now: Ps, sequence: u64, ports: &mut impl NicPorts) {
        self.dma.reads.mark(sequence);
        let mut served = Served::default();
        while let Some(read) = self.dma.reads.pop_done() {
            log!(now, Nic, Trace, "{}: DMA read done: {read}", self.name);
            match read {
                Read::Cancelled => {}
                Read::Descriptors { queue, run } => {
                    match queue {
                        Queue::Receive => self.rx_fetched(run, ports),
                        Queue::Transmit => self.tx_fetched(now, run, ports),
                    }
                    served.note(queue);
                }
                Read::Data { queue, addr, len } => {
                    self.tx_data_arrived(now, addr, len, ports);
                    served.note(queue);
                }
            }
        }
        self.advance_served(now, served, ports);
    }

    pub(super) fn write_done(&mut self, now: Ps, sequence: u64, ports: &mut impl NicPorts) {
        self.dma.writes.mark(sequence);
        let mut served = Served::default();
        while let Some(write) = self.dma.writes.pop_done() {
            log!(now, Nic, Trace, "{}: DMA write done: {write}", self.name);
            match write {
                Write::Cancelled => {}
                Write::Data { queue, addr, offset, len, last } => {
                    self.rx_data_written(addr, offset, len, last, ports);
                    served.note(queue);
                }
                Write::Descriptors { queue, run } => {
                    match queue {
                        Queue::Receive => self.rx_written_back(now, run, ports),
                        Queue::Transmit => self.tx_written_back(now, run, ports),
                    }
                    served.note(queue);
                }
            }
        }
        self.advance_served(now, served, ports);
    }

    fn advance_served(&mut self, now: Ps, served: Served, ports: &mut impl NicPorts) {
        if served.receive {
            self.rx_advance(now, ports);
        }
        if served.transmit {
            self.tx_advance(now, ports);
        }
    }
}

/// The queues whose requests are done.
#[derive(Clone, Copy, Default)]
struct Served {
    receive: bool,
    transmit: bool,
}

impl Served {
    fn note(&mut self, queue: Queue) {
        match queue {
            Queue::Receive => self.receive = true,
            Queue::Transmit => self.transmit = true,
        }
    }
}
