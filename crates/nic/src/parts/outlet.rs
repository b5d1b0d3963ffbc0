//! Output of a transmit FIFO: frames handed to the link or looped back, and the FIFO space that each occupies
//! until it has left. The link is serial and times frames itself, so several are handed to it ahead of time.
//! This saves one event per frame.

use std::collections::VecDeque;

use doorbell_sim::{BitsPerSec, Frame, Ps};
use serde::{Deserialize, Serialize};

use super::timer::{Timer, Wake};

/// Preamble, start delimiter and inter-frame gap, in bytes.
const GAP_BYTES: u64 = 20;

/// Output of a transmit FIFO.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Outlet {
    /// For each frame handed over: the time at which it has left, and its FIFO space until then.
    leaving: VecDeque<(Ps, u64)>,
    /// Sum of that space.
    #[serde(skip)]
    room: u64,
    /// PAUSE frames to send. They precede other frames and occupy no FIFO space.
    pub pauses: VecDeque<Frame>,
    /// Time at which the frame handed over last has left.
    free: Ps,
    timer: Timer,
    /// Frames being looped back, with their arrival times.
    looped: VecDeque<(Ps, Frame)>,
}

impl Outlet {
    /// Frees the space of frames that have left.
    pub fn release(&mut self, now: Ps) {
        while let Some((_, room)) = self.leaving.front().copied().filter(|(at, _)| *at <= now) {
            self.leaving.pop_front();
            self.room -= room;
        }
    }

    /// FIFO space of frames that were handed over and have not left.
    pub fn room(&self) -> u64 {
        self.room
    }

    /// Time at which the next frame has left.
    pub fn next(&self) -> Option<Ps> {
        self.leaving.front().map(|(at, _)| *at)
    }

    /// Returns when half of `ahead` frames have left, if at least `ahead` frames are handed over.
    pub fn full_until(&self, ahead: usize) -> Option<Ps> {
        (self.leaving.len() >= ahead).then(|| self.leaving[ahead / 2].0)
    }

    /// Records the time at which a frame sent to the link has left. It leaves after frames looped back before
    /// it, which the link does not time.
    pub fn sent(&mut self, left: Ps) {
        self.free = self.free.max(left);
    }

    /// Loops a frame back at this rate. Returns its arrival time.
    pub fn loop_back(&mut self, now: Ps, frame: Frame, rate: BitsPerSec) -> Ps {
        let bits = (frame.len_with_fcs() as u64 + GAP_BYTES) * 8;
        self.free = self.free.max(now).saturating_add(rate.time_for_bits(bits));
        self.looped.push_back((self.free, frame));
        self.free
    }

    /// Reserves FIFO space for the frame sent or looped back last, until it has left.
    pub fn reserve(&mut self, room: u64) {
        self.room += room;
        self.leaving.push_back((self.free, room));
    }

    /// Returns the next looped-back frame whose last bit has arrived.
    pub fn arrived(&mut self, now: Ps) -> Option<Frame> {
        self.looped.front().filter(|(at, _)| *at <= now)?;
        self.looped.pop_front().map(|(_, frame)| frame)
    }

    /// Sets the timer. Returns the time of the wake-up that the caller must schedule, if any.
    pub fn arm(&mut self, at: Ps) -> Option<Ps> {
        self.timer.arm(at)
    }

    /// Handles a wake-up.
    pub fn wake(&mut self, now: Ps) -> Wake {
        self.timer.wake(now)
    }

    /// Discards PAUSE frames and the occupied space. The frame on the wire continues, and a scheduled wake-up
    /// stays pending.
    pub fn reset(&mut self) {
        self.pauses.clear();
        self.leaving.clear();
        self.room = 0;
    }

    /// Continues a restored outlet. Returns whether it is possible and has no time after `latest`.
    pub fn resume(&mut self, latest: Ps) -> bool {
        let is_possible = self.leaving.iter().all(|(_, room)| *room <= 1 << 17)
            && self.free <= latest
            && self.looped.iter().all(|(at, _)| *at <= latest);
        if is_possible {
            self.room = self.leaving.iter().map(|(_, room)| room).sum();
        }
        is_possible
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sent_frames_leave_after_frames_looped_back_before_them() {
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
