//! From the transmit FIFO to the wire, or back through the loopback. The NIC hands the link one
//! frame at a time, so that a pause takes hold between two frames.

use doorbell_sim::{Frame, Ps};

use super::room;
use crate::timer::Wake;
use crate::{Event, Nic, NicPorts};

/// Preamble, start delimiter and inter-frame gap, in bytes.
const GAP_BYTES: u64 = 20;

impl Nic {
    /// Sends what may go now.
    pub(super) fn tx_send(&mut self, now: Ps, ports: &mut impl NicPorts) {
        loop {
            let pause = !self.tx.pauses.is_empty() && self.link_up();
            if !pause && (self.tx.fifo.is_empty() || !self.may_send()) {
                return;
            }
            if self.tx.wire_free > now {
                return self.wake_for_wire(self.tx.wire_free, ports);
            }
            self.tx_release_room(now);
            if pause {
                let Some(frame) = self.tx.pauses.pop_front() else { return };
                self.stats.tx_pause_frames += 1;
                self.count_sent(&frame);
                self.tx.wire_free = ports.send(now, frame);
            } else {
                let Some(frame) = self.tx.fifo.pop_front() else { return };
                self.send_frame(now, frame, ports);
            }
        }
    }

    fn send_frame(&mut self, now: Ps, frame: Frame, ports: &mut impl NicPorts) {
        let taken = room(&frame);
        self.tx.queued -= taken;
        self.count_sent(&frame);
        if self.loops_back() {
            let bits = (frame.len_with_fcs() as u64 + GAP_BYTES) * 8;
            self.tx.wire_free = now.saturating_add(self.config.link_rate.time_for_bits(bits));
            self.stats.tx_looped_back += 1;
            self.tx.looped.push_back((self.tx.wire_free, frame));
            ports.wake_at(self.tx.wire_free, Event::Loopback);
        } else {
            self.stats.tx_sent += 1;
            self.stats.tx_sent_bytes += frame.len_with_fcs() as u64;
            self.tx.wire_free = ports.send(now, frame);
        }
        self.tx.leaving = Some((self.tx.wire_free, taken));
    }

    /// The frame that was on the wire has left: its room is free.
    pub(super) fn tx_release_room(&mut self, now: Ps) {
        if self.tx.leaving.is_some_and(|(at, _)| at <= now) {
            self.tx.leaving = None;
        }
    }

    pub(super) fn wake_for_wire(&mut self, at: Ps, ports: &mut impl NicPorts) {
        if let Some(at) = self.tx.wire.arm(at) {
            ports.wake_at(at, Event::Wire);
        }
    }

    pub(crate) fn wire_woken(&mut self, now: Ps, ports: &mut impl NicPorts) {
        match self.tx.wire.wake(now) {
            Wake::Ignore => {}
            Wake::Again(at) => ports.wake_at(at, Event::Wire),
            Wake::Expired => self.tx_advance(now, ports),
        }
    }

    /// A looped-back frame's last bit is here.
    pub(crate) fn loopback_arrived(&mut self, now: Ps, ports: &mut impl NicPorts) {
        while self.tx.looped.front().is_some_and(|(at, _)| *at <= now) {
            let Some((_, frame)) = self.tx.looped.pop_front() else { return };
            self.arrive(now, frame, true, ports);
        }
    }

    /// A PAUSE frame goes before all others.
    pub(crate) fn tx_queue_pause(&mut self, frame: Frame) {
        self.tx.pauses.push_back(frame);
    }
}
