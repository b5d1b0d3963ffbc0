//! From the transmit packet buffer to the wire, or back through the loopback. The link is serial and times the frames itself, so
//! several are handed to it ahead of time, which saves an event a frame; each keeps its room in the packet buffer until it has
//! left. While software honours PAUSE (CTRL.RFCE) only one is handed over, so that a pause takes hold between two frames.

use doorbell_sim::{Frame, Ps, log};

use crate::e82576::bits::ctrl;
use crate::e82576::regs::Reg;
use crate::e82576::{Event, Igb, IgbPorts};
use crate::parts::fifo::Stored;
use crate::parts::timer::Wake;

/// PAUSE frames that wait at most.
pub(in crate::e82576) const PAUSES_KEPT: usize = 4;

impl Igb {
    /// Sends what may go now.
    pub(super) fn tx_send(&mut self, now: Ps, ports: &mut impl IgbPorts) {
        let honours = self.regs.has(Reg::Ctrl, ctrl::RFCE);
        let ahead = if honours { 1 } else { usize::from(self.config.wire_frames_ahead) };
        loop {
            let pause = !self.tx.pauses.is_empty() && self.link_up();
            if !pause && (self.tx.fifo.is_empty() || !self.may_send()) {
                return;
            }
            self.tx.outlet.release(now);
            if let Some(at) = self.tx.outlet.is_full(ahead) {
                // Half of them will have left by then.
                return self.wake_for_wire(at, ports);
            }
            let taken = if pause { self.send_pause_frame(now, ports) } else { self.send_frame(now, ports) };
            self.tx.outlet.keeps(taken);
        }
    }

    fn send_pause_frame(&mut self, now: Ps, ports: &mut impl IgbPorts) -> u64 {
        if let Some(frame) = self.tx.pauses.pop_front() {
            self.stats.tx_pause_frames += 1;
            self.count_sent(&frame, true);
            self.tx.outlet.sent(ports.send(now, frame));
        }
        0
    }

    /// A PAUSE frame goes before all others. Without a link few are kept.
    pub(in crate::e82576) fn tx_queue_pause(&mut self, frame: Frame) {
        if self.tx.pauses.len() < PAUSES_KEPT {
            self.tx.pauses.push_back(frame);
        }
    }

    fn send_frame(&mut self, now: Ps, ports: &mut impl IgbPorts) -> u64 {
        let Some(outgoing) = self.tx.fifo.pop() else { return 0 };
        let taken = outgoing.room();
        let (frame, mut stamps) = outgoing;
        self.count_sent(&frame, false);
        log!(now, Nic, Debug, "{}: frame of {} bytes sent", self.name, frame.len_with_fcs());
        if self.loops_back() {
            self.stats.tx_looped_back += 1;
            let arrives = self.tx.outlet.loop_back(now, frame, self.link_rate);
            ports.wake(arrives, Event::Loopback);
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

    pub(super) fn wake_for_wire(&mut self, at: Ps, ports: &mut impl IgbPorts) {
        if let Some(at) = self.tx.outlet.arm(at) {
            ports.wake(at, Event::Wire);
        }
    }

    pub(in crate::e82576) fn wire_woken(&mut self, now: Ps, ports: &mut impl IgbPorts) {
        match self.tx.outlet.wake(now) {
            Wake::Ignore => {}
            Wake::Again(at) => ports.wake(at, Event::Wire),
            Wake::Expired => self.tx_advance(now, ports),
        }
    }

    /// A looped-back frame's last bit is here.
    pub(in crate::e82576) fn loopback_arrived(&mut self, now: Ps, ports: &mut impl IgbPorts) {
        while let Some(frame) = self.tx.outlet.arrived(now) {
            self.arrive(now, frame, true, ports);
        }
    }
}
