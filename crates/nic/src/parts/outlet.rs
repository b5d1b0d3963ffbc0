//! Where frames leave: what has been handed to the link, or is looped back, and the room that it keeps until
//! it is gone. The link is serial and times frames itself, so several are handed to it ahead of time, which
//! saves an event a frame.

use std::collections::VecDeque;

use doorbell_sim::{BitsPerSec, Frame, Ps};

use super::timer::{Timer, Wake};

/// Preamble, start delimiter and inter-frame gap, in bytes.
const GAP_BYTES: u64 = 20;

/// The way out of a transmit FIFO.
#[derive(Debug, Default)]
pub(crate) struct Outlet {
    /// When each frame has left, and the room that it takes until then.
    leaving: VecDeque<(Ps, u64)>,
    room: u64,
    /// When the frame handed over last has left.
    free: Ps,
    timer: Timer,
    /// Frames on their way back in loopback, with their arrival times.
    looped: VecDeque<(Ps, Frame)>,
}

/// What a checkpoint keeps of it.
pub(crate) type Saved = (VecDeque<(Ps, u64)>, Ps, Timer, VecDeque<(Ps, Frame)>);

impl Outlet {
    /// Frames that have left make room.
    pub fn release(&mut self, now: Ps) {
        while let Some((_, room)) = self.leaving.front().copied().filter(|(at, _)| *at <= now) {
            self.leaving.pop_front();
            self.room -= room;
        }
    }

    /// Room that frames keep which have been handed over.
    pub fn room(&self) -> u64 {
        self.room
    }

    /// When the next of them has left.
    pub fn next(&self) -> Option<Ps> {
        self.leaving.front().map(|(at, _)| *at)
    }

    /// When half of `ahead` of them have left, if there are as many.
    pub fn full_until(&self, ahead: usize) -> Option<Ps> {
        (self.leaving.len() >= ahead).then(|| self.leaving[ahead / 2].0)
    }

    /// The link has a frame, which will have left it then: not before another one, for the link knows nothing
    /// of what is looped back.
    pub fn sent(&mut self, left: Ps) {
        self.free = self.free.max(left);
    }

    /// A frame is looped back at this rate; when it arrives.
    pub fn loop_back(&mut self, now: Ps, frame: Frame, rate: BitsPerSec) -> Ps {
        let bits = (frame.len_with_fcs() as u64 + GAP_BYTES) * 8;
        self.free = self.free.max(now).saturating_add(rate.time_for_bits(bits));
        self.looped.push_back((self.free, frame));
        self.free
    }

    /// The frame that was sent or looped back keeps so much room until it has left.
    pub fn reserve(&mut self, room: u64) {
        self.room += room;
        self.leaving.push_back((self.free, room));
    }

    /// The next looped-back frame whose last bit is here.
    pub fn arrived(&mut self, now: Ps) -> Option<Frame> {
        self.looped.front().filter(|(at, _)| *at <= now)?;
        self.looped.pop_front().map(|(_, frame)| frame)
    }

    /// When a wake-up has to be asked for, so that one comes then.
    pub fn arm(&mut self, at: Ps) -> Option<Ps> {
        self.timer.arm(at)
    }

    /// A wake-up has come.
    pub fn wake(&mut self, now: Ps) -> Wake {
        self.timer.wake(now)
    }

    /// The FIFO is lost. The frame on the wire goes on, and so does the wake-up that may be on its way.
    pub fn reset(&mut self) {
        self.leaving.clear();
        self.room = 0;
    }

    /// The state as a checkpoint keeps it.
    pub fn save(&self) -> Saved {
        (self.leaving.clone(), self.free, self.timer, self.looped.clone())
    }

    /// Continues from a saved state; none if it cannot be, with no moment beyond `latest`.
    pub fn load((leaving, free, timer, looped): Saved, latest: Ps) -> Option<Outlet> {
        let possible = leaving.iter().all(|(_, room)| *room <= 1 << 17)
            && free <= latest
            && looped.iter().all(|(at, _)| *at <= latest);
        let room = leaving.iter().map(|(_, room)| room).sum();
        possible.then_some(Outlet { leaving, room, free, timer, looped })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_leave_one_after_the_other_whatever_the_link_says_behind_looped_back_ones() {
        let mut outlet = Outlet::default();
        let arrives = outlet.loop_back(Ps(0), Frame::new(vec![0; 60]), BitsPerSec(1_000_000_000));
        assert_eq!(arrives, Ps::from_ns(84 * 8));
        outlet.reserve(64);
        outlet.sent(Ps::from_ns(100));
        outlet.reserve(80);
        assert_eq!((outlet.full_until(2), outlet.full_until(3)), (Some(arrives), None));
        outlet.release(Ps(arrives.0 - 1));
        assert_eq!(
            (outlet.room(), outlet.next(), outlet.arrived(Ps(arrives.0 - 1))),
            (144, Some(arrives), None)
        );
        outlet.release(arrives);
        assert_eq!((outlet.room(), outlet.next()), (0, None));
        assert!(outlet.arrived(arrives).is_some() && outlet.arrived(arrives).is_none());
    }
}
