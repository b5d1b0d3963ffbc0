//! A chip's requests of the bus, whatever the chip: asking for reads and writes, and what follows when they are done. The books are
//! [`Dma`]'s.

use doorbell_sim::ports::{DmaKind, DmaPort};
use doorbell_sim::{Ps, log};

use super::dma::{Dma, Lane, Piece, Purpose as _, Read, Requested, Write};
use super::queues::{QueueId, Queues};

/// What a chip wants to be woken for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wakeup<Q> {
    /// The read of this number is done.
    ReadDone(u64),
    /// The write of this number is done.
    WriteDone(u64),
    /// The queue's used descriptors have waited long enough for their write-back.
    WriteBack(Q),
    /// The wire may be free for the next frame.
    Wire,
    /// A looped-back frame arrives.
    Loopback,
    /// Autonegotiation is over.
    Link,
    /// The partner's pause is over.
    PauseOver,
    /// An access to the PHY is over.
    Mdio,
}

/// The directions whose requests are done.
#[derive(Clone, Copy, Default)]
struct Served {
    receive: bool,
    transmit: bool,
}

impl Served {
    fn note(&mut self, queue: impl QueueId) {
        let served = if queue.receives() { &mut self.receive } else { &mut self.transmit };
        *served = true;
    }
}

fn advance<P: DmaPort, C: Requests<P> + ?Sized>(chip: &mut C, now: Ps, served: Served, ports: &mut P) {
    if served.receive {
        chip.advance_direction(now, true, ports);
    }
    if served.transmit {
        chip.advance_direction(now, false, ports);
    }
}

/// What a chip asks of the bus.
pub(crate) trait Requests<P: DmaPort>: Queues {
    /// Asks to be woken.
    fn wake(ports: &mut P, at: Ps, what: Wakeup<Self::Queue>);
    /// A read is done: what was read is taken.
    fn take_read(&mut self, now: Ps, read: Read<Self::Queue>, ports: &mut P);
    /// A write is done: it is in memory.
    fn take_written(&mut self, now: Ps, write: Write<Self::Queue>, ports: &mut P);
    /// Does for a direction whatever can be done now.
    fn advance_direction(&mut self, now: Ps, receive: bool, ports: &mut P);

    /// Asks for a read at `at`; the completion comes back as a wake-up or through [`dma_done`](Requests::dma_done). Returns when it
    /// begins.
    fn issue_read(
        &mut self,
        at: Ps,
        piece: Piece,
        kind: DmaKind,
        read: Read<Self::Queue>,
        ports: &mut P,
    ) -> Ps {
        let pace = self.pace();
        let request = self.dma().request_read(at, pace, piece, (kind, read), ports);
        if let Some(done) = request.done {
            Self::wake(ports, done, Wakeup::ReadDone(request.sequence));
        }
        request.start
    }

    /// Asks for a write at `at`.
    fn issue_write(&mut self, at: Ps, piece: Piece, kind: DmaKind, write: Write<Self::Queue>, ports: &mut P) {
        let held = self.request_write(at, piece, kind, write, ports);
        self.wake_for_write(Some(held), false, ports);
    }

    /// Asks for a write at `at` and holds back its wake-up.
    fn request_write(
        &mut self,
        at: Ps,
        piece: Piece,
        kind: DmaKind,
        write: Write<Self::Queue>,
        ports: &mut P,
    ) -> Requested {
        let pace = self.pace();
        self.dma().request_write(at, pace, piece, (kind, write), ports)
    }

    /// Asks for the wake-up that was held back, unless another write was asked for right behind it: that one's will do
    /// for both, as the port does writes in order. This saves an event a frame.
    fn wake_for_write(&mut self, held: Option<Requested>, followed: bool, ports: &mut P) {
        match held {
            Some(write) if followed => self.dma().writes.ride(write.sequence),
            Some(Requested { sequence, done: Some(done), .. }) => {
                Self::wake(ports, done, Wakeup::WriteDone(sequence));
            }
            _ => {}
        }
    }

    /// A request that the port answered with [`Done::Later`](doorbell_sim::Done::Later) is done.
    fn dma_done(&mut self, now: Ps, token: u64, ports: &mut P) {
        let (lane, sequence) = Dma::<Self::Queue>::of_token(token);
        match lane {
            Lane::Reads => match self.dma().reads.busy_until(sequence, now) {
                Some(through) => Self::wake(ports, through, Wakeup::ReadDone(sequence)),
                None => self.read_done(now, sequence, ports),
            },
            Lane::Writes => match self.dma().writes.busy_until(sequence, now) {
                Some(through) => Self::wake(ports, through, Wakeup::WriteDone(sequence)),
                None => self.write_done(now, sequence, ports),
            },
        }
    }

    /// A read is done, and with it those before it that waited for it.
    fn read_done(&mut self, now: Ps, sequence: u64, ports: &mut P) {
        self.dma().reads.mark(sequence);
        let mut served = Served::default();
        while let Some(read) = self.dma().reads.pop_done() {
            log!(now, Nic, Trace, "{}: DMA read done: {read}", self.called());
            if let Some(queue) = read.queue() {
                served.note(queue);
                self.take_read(now, read, ports);
            }
        }
        advance(self, now, served, ports);
    }

    /// The same of a write.
    fn write_done(&mut self, now: Ps, sequence: u64, ports: &mut P) {
        self.dma().writes.mark(sequence);
        let mut served = Served::default();
        while let Some(write) = self.dma().writes.pop_done() {
            log!(now, Nic, Trace, "{}: DMA write done: {write}", self.called());
            if let Some(queue) = write.queue() {
                served.note(queue);
                self.take_written(now, write, ports);
            }
        }
        advance(self, now, served, ports);
    }
}
