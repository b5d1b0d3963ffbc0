//! From the transmit FIFO to the wire, or back through the loopback. The link is serial and times the frames itself, so several are handed to it
//! ahead of time, which saves an event a frame; each keeps its room in the FIFO until it has left. While software honours PAUSE
//! (CTRL.RFCE) only one is handed over, so that a pause takes hold between two frames.

use doorbell_sim::{Ps, log};

use super::bits::ctrl;
use super::link::LinkView as _;
use super::{MacWork, WayOut};
use crate::NicPorts;
use crate::parts::fifo::Stored as _;
use crate::parts::requests::Wakeup;
use crate::parts::timer::Wake;

/// What leaves.
pub(crate) trait WireWork<P: NicPorts>: MacWork<P> {
    /// Sends what may go now.
    fn send_frames(&mut self, now: Ps, ports: &mut P) {
        let honours = self.control_has(ctrl::RFCE);
        let ahead = if honours { 1 } else { usize::from(self.parameters().wire_frames_ahead) };
        loop {
            let WayOut { fifo, pauses, .. } = self.way_out();
            let (frames, pauses) = (!fifo.is_empty(), !pauses.is_empty());
            let pause = pauses && self.link_up();
            if !(pause || frames && self.may_send()) {
                return;
            }
            let outlet = self.way_out().outlet;
            outlet.release(now);
            if let Some(at) = outlet.is_full(ahead) {
                // Half of them will have left by then.
                return self.wake_for_wire(at, ports);
            }
            let taken = if pause { self.send_pause_frame(now, ports) } else { self.send_frame(now, ports) };
            self.way_out().outlet.keeps(taken);
        }
    }

    fn send_pause_frame(&mut self, now: Ps, ports: &mut P) -> u64 {
        if let Some(frame) = self.way_out().pauses.pop_front() {
            self.counters().tx_pause_frames += 1;
            self.count_sent(&frame, None);
            self.way_out().outlet.sent(ports.send(now, frame));
        }
        0
    }

    fn send_frame(&mut self, now: Ps, ports: &mut P) -> u64 {
        let Some(outgoing) = self.way_out().fifo.pop() else { return 0 };
        let taken = outgoing.room();
        let (frame, mut stamps) = outgoing;
        self.count_sent(&frame, Some(stamps.queue));
        log!(now, Nic, Debug, "{}: frame of {} bytes sent", self.called(), frame.len_with_fcs());
        if self.loops_back() {
            self.counters().tx_looped_back += 1;
            let rate = self.link_rate();
            let arrives = self.way_out().outlet.loop_back(now, frame, rate);
            Self::wake(ports, arrives, Wakeup::Loopback);
        } else {
            let counters = self.counters();
            counters.tx_sent += 1;
            counters.tx_sent_bytes += frame.len_with_fcs() as u64;
            if let Some(id) = ports.recognise(&frame.bytes) {
                stamps.first_bit = ports.free_at().max(now);
                ports.frame_sent(id, stamps);
            }
            self.way_out().outlet.sent(ports.send(now, frame));
        }
        taken
    }

    fn wake_for_wire(&mut self, at: Ps, ports: &mut P) {
        if let Some(at) = self.way_out().outlet.arm(at) {
            Self::wake(ports, at, Wakeup::Wire);
        }
    }

    fn wire_woken(&mut self, now: Ps, ports: &mut P) {
        match self.way_out().outlet.wake(now) {
            Wake::Ignore => {}
            Wake::Again(at) => Self::wake(ports, at, Wakeup::Wire),
            Wake::Expired => self.advance_direction(now, false, ports),
        }
    }

    /// A looped-back frame's last bit is here.
    fn loopback_arrived(&mut self, now: Ps, ports: &mut P) {
        while let Some(frame) = self.way_out().outlet.arrived(now) {
            self.take_frame(now, frame, true, ports);
        }
    }
}

impl<P: NicPorts, C: MacWork<P> + ?Sized> WireWork<P> for C {}
