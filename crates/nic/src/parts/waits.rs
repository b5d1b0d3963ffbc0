//! For what frames in the receive FIFO wait, and so whose doing it is that another does not fit.
//!
//! The rule by which [`drops`](crate::parts::drops) blames a drop looks at two moments. A ring that software
//! fills in bursts is empty at one moment and has descriptors at the next, so how many drops are blamed on
//! DMA then follows from how the moments fall. This account takes time instead.
//!
//! From when the FIFO was last empty, the time in which frames wait is what the *first frame that has not
//! begun its way to memory* waits for (without one, those on their way):
//!
//! - **core**: the chip has no descriptor for it, and when it asked last, it asked for all that software had given: more could have been
//!   on their way;
//! - **tx**: the same while the transmit ring is full, so that software cannot give buffers back that it cannot send;
//! - **fetch**: the chip has no descriptor for it, and when it asked last, it left some in memory: its fetches are too short or too few;
//! - **data**: it has a descriptor, but the data path takes no frame yet: the engine's own time, writes in flight, the link behind. The
//!   engine's own time counts here without a descriptor, too.
//!
//! A stage that made frames wait for a time T let so many fewer through as the stages behind it can do in T.
//! So each dropped frame uses up, of the time in which software was waited for, what DMA takes for a frame:
//! time of *fetch* and *data* since the FIFO was empty, over the frames that left it since. If there is not
//! so much left, it uses up what the data path takes, of the time in which fetches were waited for. If there
//! is not so much either, the data path itself is too slow. In other words: a drop is software's if it would
//! not have happened with software that never makes anybody wait, else the fetches' if not with fetches that
//! take no time, else the data path's.
//!
//! It is an observer: no checkpoint keeps it.

use doorbell_sim::Ps;

use crate::stats::WaitedDrops;

/// What frames wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitCause {
    /// The cores give back no descriptors.
    Core,
    /// The transmit ring is full.
    Tx,
    /// Descriptors on their way to the chip.
    Fetch,
    /// The path of data to memory.
    Data,
}

/// Times since the FIFO was empty, in picoseconds, and the drops.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waits {
    /// What is waited for, and since when that is not in the account; nothing if the FIFO is empty.
    now_for: Option<WaitCause>,
    since: Ps,
    /// Until then it is the data path that is waited for, whatever is behind that.
    engine_free: Ps,
    /// Software was waited for, and no drop has used it up.
    core: u64,
    tx: u64,
    /// Fetches were waited for, in all, and what no drop has used up.
    fetch: u64,
    fetch_left: u64,
    data: u64,
    /// Frames that have left.
    frames_left: u64,
    /// How many fetches there were, and whether the last one asked for all that software had given.
    fetches: (u64, bool),
    pub drops: WaitedDrops,
}

impl Waits {
    /// From now on this is waited for, but not before the engine is free; nothing if the FIFO is empty.
    pub fn set(&mut self, now: Ps, what: Option<WaitCause>, engine_free: Ps) {
        if what.is_none() {
            *self = Waits { drops: self.drops, fetches: self.fetches, ..Waits::default() };
            return;
        }
        let in_engine = self.engine_free.min(now).0.saturating_sub(self.since.0);
        let time = now.0.saturating_sub(self.since.0) - in_engine;
        self.data += in_engine * u64::from(self.now_for.is_some());
        match self.now_for {
            None => {}
            Some(WaitCause::Core) => self.core += time,
            Some(WaitCause::Tx) => self.tx += time,
            Some(WaitCause::Fetch) => {
                self.fetch += time;
                self.fetch_left += time;
            }
            Some(WaitCause::Data) => self.data += time,
        }
        (self.now_for, self.since, self.engine_free) = (what, now, engine_free);
    }

    /// Whether the last fetch asked for all that software had given; `has_all` is whether all is asked for
    /// now, after so many fetches.
    pub fn last_fetch_reached_tail(&mut self, fetches: u64, has_all: bool) -> bool {
        if fetches != self.fetches.0 {
            self.fetches = (fetches, has_all);
        }
        has_all || self.fetches.1
    }

    /// A frame has left the FIFO.
    pub fn frame_left(&mut self) {
        self.frames_left += 1;
    }

    /// A looped-back frame did not fit: it uses up what another would, and is not counted.
    pub fn dropped_looped(&mut self) {
        let drops = self.drops;
        self.dropped();
        self.drops = drops;
    }

    /// A frame did not fit; what that is counted at.
    pub fn dropped(&mut self) -> WaitCause {
        let frames = self.frames_left.max(1);
        let software = self.core + self.tx;
        if software > 0 && software >= (self.fetch + self.data) / frames {
            return self.used_by_software((self.fetch + self.data) / frames);
        }
        let per_frame = self.data / frames;
        if self.fetch_left > 0 && self.fetch_left >= per_frame {
            self.fetch_left -= per_frame;
            self.drops.fetch += 1;
            return WaitCause::Fetch;
        }
        self.drops.data += 1;
        WaitCause::Data
    }

    fn used_by_software(&mut self, time: u64) -> WaitCause {
        let is_core = self.core >= self.tx;
        let (more, less) = match is_core {
            true => (&mut self.core, &mut self.tx),
            false => (&mut self.tx, &mut self.core),
        };
        let of_other = time.saturating_sub(*more);
        *more -= time - of_other;
        *less -= of_other;
        if is_core {
            self.drops.core += 1;
            return WaitCause::Core;
        }
        self.drops.tx += 1;
        WaitCause::Tx
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drop_uses_up_the_time_that_its_own_way_would_have_taken() {
        let mut waits = Waits::default();
        let ns = Ps::from_ns;
        // Ten frames leave in 500 ns, 50 each; then nothing for 500.
        waits.set(ns(0), Some(WaitCause::Data), Ps::ZERO);
        (0..10).for_each(|_| waits.frame_left());
        waits.set(ns(500), Some(WaitCause::Core), Ps::ZERO);
        waits.set(ns(1000), Some(WaitCause::Data), Ps::ZERO);
        for _ in 0..40 {
            waits.dropped();
        }
        // At most one frame each 50 ns could have come through, so ten more; the other thirty could not.
        assert_eq!(waits.drops, WaitedDrops { core: 10, data: 30, ..WaitedDrops::default() });
        // Nothing is owed once the FIFO was empty.
        waits.set(ns(1100), Some(WaitCause::Tx), Ps::ZERO);
        waits.set(ns(1200), None, Ps::ZERO);
        waits.set(ns(1300), Some(WaitCause::Data), Ps::ZERO);
        assert_eq!(waits.dropped(), WaitCause::Data);
    }

    #[test]
    fn time_is_used_up_first_of_what_took_most() {
        let mut waits = Waits::default();
        let ns = Ps::from_ns;
        for (at, what) in
            [(0, WaitCause::Data), (50, WaitCause::Tx), (110, WaitCause::Core), (150, WaitCause::Data)]
        {
            waits.set(ns(at), Some(what), Ps::ZERO);
        }
        waits.frame_left();
        // 60 ns of the transmit ring and 40 of the core, 50 ns a frame.
        assert_eq!(
            [waits.dropped(), waits.dropped(), waits.dropped()],
            [WaitCause::Tx, WaitCause::Core, WaitCause::Data]
        );
    }
}
