//! Path from the transmit FIFO to the wire, or to the receiver in loopback. The link serialises and times
//! frames itself, so several are handed to it ahead of time. This saves one event per frame. Each frame
//! occupies its FIFO space until it has left. If the NIC obeys PAUSE (CTRL.RFCE), only one frame is
//! handed over at a time, so that a pause takes effect after it.

use doorbell_pcie::FunctionPorts;
use doorbell_sim::{Ps, log};

use super::bits::ctrl;
use super::{Chip, Controller, Event, wake};
use crate::parts::fifo::Stored as _;
use crate::parts::timer::Wake;

impl<C: Chip> Controller<C> {
    /// Sends all frames that may be sent now.
    pub(super) fn send_frames(&mut self, now: Ps, ports: &mut dyn FunctionPorts) {
        let obeys_pause = self.ctrl_has(ctrl::RFCE);
        let ahead = if obeys_pause { 1 } else { usize::from(self.config.wire_frames_ahead) };
        loop {
            let (frames, pauses) = (!self.tx.fifo.is_empty(), !self.tx.outlet.pauses.is_empty());
            let pause = pauses && self.link_up();
            if !(pause || frames && self.may_send()) {
                return;
            }
            self.tx.outlet.release(now);
            if let Some(at) = self.tx.outlet.full_until(ahead) {
                // At `at`, half of the frames handed over have left.
                return self.wake_for_wire(at, ports);
            }
            let taken = if pause { self.send_pause_frame(now, ports) } else { self.send_frame(now, ports) };
            self.tx.outlet.reserve(taken);
        }
    }

    pub(super) fn send_pause_frame(&mut self, now: Ps, ports: &mut dyn FunctionPorts) -> u64 {
        if let Some(frame) = self.tx.outlet.pauses.pop_front() {
            self.stats.tx_pause_frames += 1;
            self.count_sent(&frame, true);
            self.tx.outlet.sent(ports.send(now, frame));
        }
        0
    }

    pub(super) fn send_frame(&mut self, now: Ps, ports: &mut dyn FunctionPorts) -> u64 {
        let Some(outgoing) = self.tx.fifo.pop() else { return 0 };
        let taken = outgoing.room();
        let (frame, mut stamps) = outgoing;
        self.queue_stats[usize::from(stamps.queue)].tx_left += 1;
        self.count_sent(&frame, false);
        log!(now, Nic, Debug, "{}: frame of {} bytes sent", self.name, frame.len_with_fcs());
        if self.loops_back() {
            self.stats.tx_looped_back += 1;
            let arrives = self.tx.outlet.loop_back(now, frame, self.link_rate);
            wake(ports, arrives, Event::Loopback);
        } else {
            self.stats.tx_sent += 1;
            self.stats.tx_sent_bytes += frame.len_with_fcs() as u64;
            if let Some(id) = ports.recognise(&frame.bytes) {
                stamps.first_bit = ports.free_at().max(now);
                ports.frame_sent(id, stamps);
            }
            self.tx.outlet.sent(ports.send(now, frame));
        }
        taken
    }

    pub(super) fn wake_for_wire(&mut self, at: Ps, ports: &mut dyn FunctionPorts) {
        if let Some(at) = self.tx.outlet.arm(at) {
            wake(ports, at, Event::Wire);
        }
    }

    pub(super) fn on_wire_wake(&mut self, now: Ps, ports: &mut dyn FunctionPorts) {
        match self.tx.outlet.wake(now) {
            Wake::Ignore => {}
            Wake::Again(at) => wake(ports, at, Event::Wire),
            Wake::Expired => self.tx_advance(now, ports),
        }
    }

    /// The last bit of a looped-back frame has arrived.
    pub(super) fn loopback_arrived(&mut self, now: Ps, ports: &mut dyn FunctionPorts) {
        while let Some(frame) = self.tx.outlet.arrived(now) {
            self.arrive(now, frame, true, ports);
        }
    }
}
