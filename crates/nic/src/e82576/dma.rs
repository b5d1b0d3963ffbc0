//! What follows when a DMA request is done, by queue and direction.

use doorbell_sim::Ps;

use super::{Event, Igb, IgbPorts, Queue};
use crate::parts::dma;
use crate::parts::requests::{Requests, Wakeup};

pub(super) type Dma = dma::Dma<Queue>;
pub(super) type Read = dma::Read<Queue>;
pub(super) type Write = dma::Write<Queue>;

impl<P: IgbPorts> Requests<P> for Igb {
    fn wake(ports: &mut P, at: Ps, what: Wakeup<Queue>) {
        ports.wake(
            at,
            match what {
                Wakeup::ReadDone(sequence) => Event::ReadDone(sequence),
                Wakeup::WriteDone(sequence) => Event::WriteDone(sequence),
                Wakeup::WriteBack(queue) => Event::WriteBack(queue),
                Wakeup::Wire => Event::Wire,
                Wakeup::Loopback => Event::Loopback,
                Wakeup::Link => Event::Link,
                Wakeup::PauseOver => Event::PauseOver,
                Wakeup::Mdio => Event::Mdio,
            },
        );
    }

    fn take_read(&mut self, now: Ps, read: Read, ports: &mut P) {
        match read {
            Read::Cancelled => {}
            Read::Descriptors { queue: Queue::Receive(queue), run } => {
                self.rx_fetched(queue.into(), run, ports)
            }
            Read::Descriptors { queue: Queue::Transmit(queue), run } => {
                self.tx_fetched(now, queue.into(), run, ports);
            }
            Read::Data { queue, addr, len } => self.tx_data_arrived(now, queue.index(), addr, len, ports),
        }
    }

    fn take_written(&mut self, now: Ps, write: Write, ports: &mut P) {
        match write {
            Write::Cancelled => {}
            Write::Data { addr, offset, len, last, .. } => {
                self.rx_data_written(addr, offset, len, last, ports)
            }
            Write::Descriptors { queue: Queue::Receive(queue), run } => {
                self.rx_written_back(now, queue.into(), run, ports);
            }
            Write::Descriptors { queue: Queue::Transmit(queue), run } => {
                self.tx_written_back(now, queue.into(), run, ports);
            }
        }
    }

    fn advance_direction(&mut self, now: Ps, receive: bool, ports: &mut P) {
        match receive {
            true => self.rx_advance(now, ports),
            false => self.tx_advance(now, ports),
        }
    }
}
