//! From the transmit packet buffer to the wire, or back through the loopback. The link is serial and times the frames itself, so
//! several are handed to it ahead of time, which saves an event a frame; each keeps its room in the packet buffer until it has
//! left.

use doorbell_sim::{Ps, log};

use crate::e82576::{Event, Igb, IgbPorts};
use crate::parts::fifo::Stored;
use crate::parts::timer::Wake;

/// Preamble, start delimiter and inter-frame gap, in bytes.
const GAP_BYTES: u64 = 20;

impl Igb {
    /// Sends what may go now.
    pub(super) fn tx_send(&mut self, now: Ps, ports: &mut impl IgbPorts) {
        let ahead = usize::from(self.config.wire_frames_ahead);
        while !self.tx.fifo.is_empty() && self.may_send() {
            self.tx_release_room(now);
            if self.tx.leaving.len() >= ahead {
                // Half of them will have left by then.
                let (at, _) = self.tx.leaving[ahead / 2];
                return self.wake_for_wire(at, ports);
            }
            let taken = self.send_frame(now, ports);
            self.tx.leaving_room += taken;
            self.tx.leaving.push_back((self.tx.wire_free, taken));
        }
    }

    fn send_frame(&mut self, now: Ps, ports: &mut impl IgbPorts) -> u64 {
        let Some(outgoing) = self.tx.fifo.pop() else { return 0 };
        let taken = outgoing.room();
        let (frame, mut stamps) = outgoing;
        self.count_sent(&frame);
        log!(now, Nic, Debug, "{}: frame of {} bytes sent", self.name, frame.len_with_fcs());
        if self.loops_back() {
            let bits = (frame.len_with_fcs() as u64 + GAP_BYTES) * 8;
            let start = self.tx.wire_free.max(now);
            self.tx.wire_free = start.saturating_add(self.link_rate.time_for_bits(bits));
            self.stats.tx_looped_back += 1;
            self.tx.looped.push_back((self.tx.wire_free, frame));
            ports.wake(self.tx.wire_free, Event::Loopback);
        } else {
            self.stats.tx_sent += 1;
            self.stats.tx_sent_bytes += frame.len_with_fcs() as u64;
            if let Some(id) = ports.recognise(&frame.bytes) {
                stamps.first_bit = ports.free_at().max(now);
                ports.frame_sent(id, stamps);
            }
            // Not before another one: the link knows nothing of what is looped back.
            self.tx.wire_free = self.tx.wire_free.max(ports.send(now, frame));
        }
        taken
    }

    /// Frames that have left make room.
    pub(super) fn tx_release_room(&mut self, now: Ps) {
        while let Some((_, room)) = self.tx.leaving.front().copied().filter(|(at, _)| *at <= now) {
            self.tx.leaving.pop_front();
            self.tx.leaving_room -= room;
        }
    }

    pub(super) fn wake_for_wire(&mut self, at: Ps, ports: &mut impl IgbPorts) {
        if let Some(at) = self.tx.wire.arm(at) {
            ports.wake(at, Event::Wire);
        }
    }

    pub(in crate::e82576) fn wire_woken(&mut self, now: Ps, ports: &mut impl IgbPorts) {
        match self.tx.wire.wake(now) {
            Wake::Ignore => {}
            Wake::Again(at) => ports.wake(at, Event::Wire),
            Wake::Expired => self.tx_advance(now, ports),
        }
    }

    /// A looped-back frame's last bit is here.
    pub(in crate::e82576) fn loopback_arrived(&mut self, now: Ps, ports: &mut impl IgbPorts) {
        while self.tx.looped.front().is_some_and(|(at, _)| *at <= now) {
            let Some((_, frame)) = self.tx.looped.pop_front() else { return };
            self.arrive(now, frame, true, ports);
        }
    }
}
