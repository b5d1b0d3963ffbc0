//! Requests of cores and devices: register accesses, and DMA requests to memory, each through the device's
//! attachment.

use doorbell_sim::memory::{DmaAccess, HostMemory};
use doorbell_sim::ports::{DmaDirection, DmaRequest};
use doorbell_sim::{Op, OpSource, Ps};
use doorbell_trace::system::{Dma, EventKind};

use super::devices::Target;
use super::{PlaybackError, Player};
use crate::timed::Mode;

impl Player {
    /// Performs a device access, from its departure from the core to its completion.
    pub(super) fn access(&mut self, hart: usize, op: &Op) {
        let (now, bytes) = (self.end_time(hart), u64::from(op.size));
        let replay = &mut self.replays[self.replay_of[hart]];
        let ends = match replay.target(hart - replay.first, op.phys) {
            Target::Device(device) => {
                let attachment = self.attachments.attachment(replay.ports.port_of(device));
                if op.flags & Op::WRITES != 0 {
                    let write = attachment.register_write(now, bytes);
                    let position = self.streams[hart].position();
                    replay.stored(hart - replay.first, position, write.arrives);
                    [write.accepted, write.acknowledged]
                } else {
                    let arrives = attachment.register_read(now, bytes);
                    [attachment.register_answer(arrives, bytes); 2]
                }
            }
            Target::Configuration => {
                let latency = self.attachments.attachment(0).config_latency();
                [now + latency + latency; 2]
            }
            Target::Other => [now; 2],
        };
        let cycles = ends.map(|at| self.timing.cycle_at(hart, at));
        match self.timing.mode() {
            Mode::Detailed => self.timing.end_device(hart, &mut self.streams[hart], cycles),
            _ => self.streams[hart].set_cycle(cycles[0]),
        }
    }

    /// Runs the next event of a trace.
    pub(super) fn run_event(&mut self, number: usize, now: Ps, order: usize) -> Result<(), PlaybackError> {
        let replay = &mut self.replays[number];
        let (first, count) = (replay.first, replay.harts);
        if let Some(event) = replay.take(order, now)? {
            replay.count(&event.0);
            if let EventKind::Dma(dma) = event.0.what {
                let done = self.dma(number, event.0.device, &dma, now);
                self.replays[number].done(&event, &dma, done);
            }
        }
        self.unblock(first, count);
        Ok(())
    }

    /// Performs a DMA request. Returns its completion time.
    fn dma(&mut self, replay: usize, device: u8, dma: &Dma, now: Ps) -> Ps {
        let Dma { purpose, direction, addr, len, offset, .. } = *dma;
        let access = DmaAccess::plain(device, purpose, offset);
        if self.timing.mode() == Mode::Warming {
            self.timing.warm_dma(&DmaRequest::plain(addr, len, purpose, offset), access, direction);
        }
        let of = self.replays[replay].ports.port_of(device);
        if self.timing.mode() == Mode::Detailed {
            self.timing.memory.advance_to(now);
        }
        let (attachment, memory) = (self.attachments.attachment(of), Some(&mut self.timing.memory));
        attachment.advance_to(now);
        match direction {
            DmaDirection::Read => attachment.read(now, addr, len, access, memory),
            DmaDirection::Write => attachment.write(now, addr, len, access, memory),
        }
    }
}
