//! DMA as this chip does it: its engine's pace, the wake-ups at the end of requests, and what a completed one is for.

use doorbell_sim::ports::DmaKind;
use doorbell_sim::{Ps, log};

use super::{Event, Igb, IgbPorts, Queue};
use crate::parts::dma::{self, Lane, Pace, Piece, Requested};

pub(super) type Dma = dma::Dma<Queue>;
pub(super) type Read = dma::Read<Queue>;
pub(super) type Write = dma::Write<Queue>;

impl Igb {
    fn pace(&self) -> Pace {
        Pace { rate: self.config.dma_rate, shared: self.config.dma_shared }
    }

    /// When everything that was asked for in a direction has gone through the engine, not before `now`.
    pub(super) fn path_end(&self, now: Ps, lane: Lane) -> Ps {
        self.dma.path_end(now, self.pace(), lane)
    }

    /// Asks for a read at `at`; the completion comes back as an event or through [`Igb::dma_done`]. Returns when it begins.
    pub(super) fn issue_read(
        &mut self,
        at: Ps,
        piece: Piece,
        kind: DmaKind,
        read: Read,
        ports: &mut impl IgbPorts,
    ) -> Ps {
        let pace = self.pace();
        let request = self.dma.request_read(at, pace, piece, (kind, read), ports);
        if let Some(done) = request.done {
            ports.wake(done, Event::ReadDone(request.sequence));
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
        ports: &mut impl IgbPorts,
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
        ports: &mut impl IgbPorts,
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
        ports: &mut impl IgbPorts,
    ) {
        match held {
            Some(write) if followed => self.dma.writes.ride(write.sequence),
            Some(Requested { sequence, done: Some(done), .. }) => {
                ports.wake(done, Event::WriteDone(sequence));
            }
            _ => {}
        }
    }

    /// A request that the port answered with [`Done::Later`](doorbell_sim::Done::Later) is done.
    pub fn dma_done(&mut self, now: Ps, token: u64, ports: &mut impl IgbPorts) {
        let (lane, sequence) = Dma::of_token(token);
        match lane {
            Lane::Reads => match self.dma.reads.busy_until(sequence, now) {
                Some(through) => ports.wake(through, Event::ReadDone(sequence)),
                None => self.read_done(now, sequence, ports),
            },
            Lane::Writes => match self.dma.writes.busy_until(sequence, now) {
                Some(through) => ports.wake(through, Event::WriteDone(sequence)),
                None => self.write_done(now, sequence, ports),
            },
        }
    }

    pub(super) fn read_done(&mut self, now: Ps, sequence: u64, ports: &mut impl IgbPorts) {
        self.dma.reads.mark(sequence);
        let (mut receive, mut transmit) = (false, false);
        while let Some(read) = self.dma.reads.pop_done() {
            log!(now, Nic, Trace, "{}: DMA read done: {read}", self.name);
            match read {
                Read::Cancelled => {}
                Read::Descriptors { queue: Queue::Receive(queue), run } => {
                    self.rx_fetched(queue.into(), run, ports);
                    receive = true;
                }
                Read::Descriptors { queue: Queue::Transmit(queue), run } => {
                    self.tx_fetched(now, queue.into(), run, ports);
                    transmit = true;
                }
                Read::Data { queue, addr, len } => {
                    self.tx_data_arrived(now, queue.index(), addr, len, ports);
                    transmit = true;
                }
            }
        }
        self.advance_served(now, receive, transmit, ports);
    }

    pub(super) fn write_done(&mut self, now: Ps, sequence: u64, ports: &mut impl IgbPorts) {
        self.dma.writes.mark(sequence);
        let (mut receive, mut transmit) = (false, false);
        while let Some(write) = self.dma.writes.pop_done() {
            log!(now, Nic, Trace, "{}: DMA write done: {write}", self.name);
            match write {
                Write::Cancelled => {}
                Write::Data { addr, offset, len, last, .. } => {
                    self.rx_data_written(addr, offset, len, last, ports);
                    receive = true;
                }
                Write::Descriptors { queue: Queue::Receive(queue), run } => {
                    self.rx_written_back(now, queue.into(), run, ports);
                    receive = true;
                }
                Write::Descriptors { queue: Queue::Transmit(queue), run } => {
                    self.tx_written_back(now, queue.into(), run, ports);
                    transmit = true;
                }
            }
        }
        self.advance_served(now, receive, transmit, ports);
    }

    fn advance_served(&mut self, now: Ps, receive: bool, transmit: bool, ports: &mut impl IgbPorts) {
        if receive {
            self.rx_advance(now, ports);
        }
        if transmit {
            self.tx_advance(now, ports);
        }
    }
}
