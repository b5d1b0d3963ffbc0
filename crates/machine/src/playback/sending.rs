//! Which descriptors the data belong to that a device reads to send them.
//!
//! A driver posts a descriptor for each buffer of a frame, and often one before them that says what the device is to fill in (a context, for
//! checksums), for which no data are read. A trace does not have what stands in them. So a descriptor is counted for each read of data
//! that begins one, and those without data are caught up with where they show: a descriptor that is reported had been used; and so had
//! all that were fetched, where their data have been read, everything that was read has left, and more are fetched.

use doorbell_trace::system::Dma;

/// See the module. Descriptors are counted from the first that was on the device when the trace began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sending {
    /// Descriptors that had been fetched before the trace began.
    before: u64,
    used: u64,
    data_end: Option<u64>,
    /// Frames that are read and have not left, and whether any was read since the last fetch.
    in_flight: u64,
    read_since: bool,
}

impl Sending {
    /// From the trace's beginning on, with so many descriptors on the device, and frames read that are still to leave.
    pub fn new(before: u64, in_flight: u64) -> Sending {
        Sending { before, in_flight, ..Sending::default() }
    }

    /// Data are read, and `fetched` descriptors have been fetched within the trace: how many have to be.
    pub fn data(&mut self, dma: &Dma, fetched: u64) -> u64 {
        let goes_on = dma.offset != 0 && self.data_end == Some(dma.addr.0);
        self.data_end = Some(dma.addr.0 + u64::from(dma.len));
        self.used += u64::from(!goes_on);
        self.in_flight += u64::from(dma.offset == 0);
        self.read_since = true;
        self.used.saturating_sub(self.before).min(fetched)
    }

    /// How many descriptors have been used.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Before the trace is played: what was used and is not fetched within it had been before.
    pub fn survey_data(&mut self, dma: &Dma, fetched: u64) {
        self.data(dma, fetched);
        self.before = self.before.max(self.used.saturating_sub(fetched));
    }

    /// A frame leaves.
    pub fn leave(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// More are fetched behind `fetched` of the trace.
    pub fn fetch(&mut self, fetched: u64) {
        if std::mem::take(&mut self.read_since) && self.in_flight == 0 {
            self.used = self.used.max(self.before + fetched);
        }
    }

    /// Up to this number of those fetched within the trace they are reported.
    pub fn report(&mut self, up_to: u64) {
        self.used = self.used.max(self.before + up_to);
    }
}

#[cfg(test)]
mod tests {
    use doorbell_sim::Ps;
    use doorbell_sim::ports::{DmaKind, PhysAddr};

    use super::*;

    fn data(addr: u64, offset: u32) -> Dma {
        Dma {
            kind: DmaKind::TxData,
            write: false,
            addr: PhysAddr(addr),
            len: 100,
            frame: 0,
            offset,
            took: Ps::ZERO,
            visible: 0,
        }
    }

    #[test]
    fn descriptors_without_data_are_caught_up_with_when_more_are_fetched_and_all_has_left() {
        let mut sending = Sending::default();
        for frame in 0..50 {
            sending.fetch(2 * frame);
            let need = sending.data(&data(0x1000, 0), 2 * frame + 2);
            assert!(need > 2 * frame, "not before the fetch of its own: {need} of frame {frame}");
            sending.leave();
        }
    }

    #[test]
    fn they_are_where_a_later_one_is_reported_and_not_while_frames_are_under_way() {
        let mut sending = Sending::default();
        sending.fetch(0);
        assert_eq!(sending.data(&data(0x1000, 0), 64), 1);
        sending.fetch(64);
        assert_eq!(sending.data(&data(0x2000, 0), 96), 2, "the first has not left");
        assert_eq!(sending.data(&data(0x2064, 100), 96), 2, "it goes on");
        assert_eq!(sending.data(&data(0x3000, 200), 96), 3, "in another buffer");
        sending.report(6);
        assert_eq!(sending.data(&data(0x2000, 0), 96), 7);
    }

    #[test]
    fn what_was_on_the_device_when_the_trace_began_needs_no_fetch_of_it() {
        let mut survey = Sending::new(0, 0);
        (0..3).for_each(|_| survey.survey_data(&data(0x1000, 0), 0));
        survey.survey_data(&data(0x1000, 0), 8);
        assert_eq!((survey.before, survey.used()), (3, 4));
        let mut sending = Sending::new(survey.before, 0);
        let needs = [0, 0, 0, 8].map(|fetched| sending.data(&data(0x1000, 0), fetched));
        assert_eq!(needs, [0, 0, 0, 1]);
    }
}
