//! Attributes drops at a full receive FIFO to the cause for which frames waited.
//!
//! The rule of [`drops`](crate::parts::drops) classifies a drop by the state at two arrivals. A ring that
//! software refills in bursts is empty at one arrival and has descriptors at the next, so the share of drops
//! attributed to DMA depends on when frames happen to arrive. This account uses waiting times instead.
//!
//! While the FIFO is not empty, time is charged to the cause for which the *first frame not yet in DMA* waits
//! (if there is none: to data):
//!
//! - **core**: the chip has no descriptor for the frame, and its last fetch took all that software had
//!   provided, so it could not have fetched more;
//! - **tx**: as core, while the transmit ring is full: software cannot return buffers that it cannot send;
//! - **fetch**: the chip has no descriptor for the frame, and its last fetch left some in memory: fetches are
//!   too small or too few;
//! - **data**: the chip has a descriptor, but the data path does not accept the frame yet, because of engine
//!   time, writes in flight or the link behind. Engine time is charged here even without a descriptor.
//!
//! A stage that stalls frames for a time T costs as many frames as the stages behind it can process in T. So
//! each drop consumes the DMA time per frame from the time charged to software (core and tx). The DMA time
//! per frame is the *fetch* and *data* time since the FIFO was empty, divided by the frames that left since.
//! If the remaining software time is shorter, the drop consumes the *data* time per frame from the time
//! charged to fetch. If that is shorter too, the data path itself is too slow.
//!
//! In other words: a drop is attributed to software if infinitely fast software would have avoided it;
//! otherwise to fetches if fetches without latency would have avoided it; otherwise to the data path.
//!
//! For observers only; not saved in checkpoints.

use doorbell_sim::Ps;

use crate::stats::WaitedDrops;

/// Causes for which frames wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitCause {
    /// Cores do not return descriptors.
    Core,
    /// The transmit ring is full.
    Tx,
    /// Descriptors are not fetched yet.
    Fetch,
    /// The data path to memory is busy.
    Data,
}

/// Waiting times since the FIFO was empty, in picoseconds, and the attributed drops.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waits {
    /// Current cause, and the time since which it is not charged yet; `None` if the FIFO is empty.
    current: Option<WaitCause>,
    since: Ps,
    /// Time until which the engine is busy, which is charged to the data path.
    engine_free: Ps,
    /// Time charged to software and not consumed by drops.
    core: u64,
    tx: u64,
    /// Time charged to fetches: in total, and the part not consumed by drops.
    fetch: u64,
    fetch_left: u64,
    data: u64,
    /// Frames that have left the FIFO.
    departed: u64,
    /// Number of fetches, and whether the last one reached the tail.
    fetches: (u64, bool),
    pub drops: WaitedDrops,
}

impl Waits {
    /// Charges the time since the last call. From now on frames wait for `cause`, or until `engine_free` for
    /// the data path; `None` if the FIFO is empty.
    pub fn set(&mut self, now: Ps, cause: Option<WaitCause>, engine_free: Ps) {
        if cause.is_none() {
            *self = Waits { drops: self.drops, fetches: self.fetches, ..Waits::default() };
            return;
        }
        let in_engine = self.engine_free.min(now).0.saturating_sub(self.since.0);
        let time = now.0.saturating_sub(self.since.0) - in_engine;
        self.data += in_engine * u64::from(self.current.is_some());
        match self.current {
            None => {}
            Some(WaitCause::Core) => self.core += time,
            Some(WaitCause::Tx) => self.tx += time,
            Some(WaitCause::Fetch) => {
                self.fetch += time;
                self.fetch_left += time;
            }
            Some(WaitCause::Data) => self.data += time,
        }
        (self.current, self.since, self.engine_free) = (cause, now, engine_free);
    }

    /// Whether the chip has requested all descriptors up to the tail, now (`has_all`) or at its last fetch.
    /// `fetches` is the number of its fetches.
    pub fn last_fetch_reached_tail(&mut self, fetches: u64, has_all: bool) -> bool {
        if fetches != self.fetches.0 {
            self.fetches = (fetches, has_all);
        }
        has_all || self.fetches.1
    }

    /// A frame has left the FIFO.
    pub fn frame_left(&mut self) {
        self.departed += 1;
    }

    /// Accounts a dropped looped-back frame: it consumes waiting time but is not counted.
    pub fn dropped_looped(&mut self) {
        let drops = self.drops;
        self.dropped();
        self.drops = drops;
    }

    /// Counts a dropped frame and returns the cause to which it is attributed.
    pub fn dropped(&mut self) -> WaitCause {
        let frames = self.departed.max(1);
        let software = self.core + self.tx;
        if software > 0 && software >= (self.fetch + self.data) / frames {
            return self.charge_software((self.fetch + self.data) / frames);
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

    fn charge_software(&mut self, time: u64) -> WaitCause {
        let is_core = self.core >= self.tx;
        let (larger, smaller) = match is_core {
            true => (&mut self.core, &mut self.tx),
            false => (&mut self.tx, &mut self.core),
        };
        let remainder = time.saturating_sub(*larger);
        *larger -= time - remainder;
        *smaller -= remainder;
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
    fn a_drop_consumes_the_dma_time_of_one_frame() {
        let mut waits = Waits::default();
        let ns = Ps::from_ns;
        // Ten frames leave in 500 ns, 50 ns per frame; then none for 500 ns.
        waits.set(ns(0), Some(WaitCause::Data), Ps::ZERO);
        (0..10).for_each(|_| waits.frame_left());
        waits.set(ns(500), Some(WaitCause::Core), Ps::ZERO);
        waits.set(ns(1000), Some(WaitCause::Data), Ps::ZERO);
        for _ in 0..40 {
            waits.dropped();
        }
        // At one frame per 50 ns ten more could have passed; the other thirty could not.
        assert_eq!(waits.drops, WaitedDrops { core: 10, data: 30, ..WaitedDrops::default() });
        // An empty FIFO clears the account.
        waits.set(ns(1100), Some(WaitCause::Tx), Ps::ZERO);
        waits.set(ns(1200), None, Ps::ZERO);
        waits.set(ns(1300), Some(WaitCause::Data), Ps::ZERO);
        assert_eq!(waits.dropped(), WaitCause::Data);
    }

    #[test]
    fn drops_consume_the_longer_wait_first() {
        let mut waits = Waits::default();
        let ns = Ps::from_ns;
        for (at, cause) in
            [(0, WaitCause::Data), (50, WaitCause::Tx), (110, WaitCause::Core), (150, WaitCause::Data)]
        {
            waits.set(ns(at), Some(cause), Ps::ZERO);
        }
        waits.frame_left();
        // 60 ns are charged to tx and 40 ns to core; a frame takes 50 ns.
        assert_eq!(
            [waits.dropped(), waits.dropped(), waits.dropped()],
            [WaitCause::Tx, WaitCause::Core, WaitCause::Data]
        );
    }
}
