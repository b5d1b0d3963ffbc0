//! Transmit descriptors of the data that a device reads.
//!
//! A driver posts one descriptor per buffer of a frame, often after a context descriptor (checksum offload)
//! without data. A trace lacks descriptor contents. So each read that begins a buffer counts as one
//! descriptor. Descriptors without data are added later. If a descriptor is written back, it and all before
//! it were used. If more are fetched after all data read were sent, all fetched before were used.

use doorbell_trace::system::Dma;

/// Descriptor counts of a transmit ring, from the first one on the device when the trace began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sending {
    /// Descriptors fetched before the trace began.
    before: u64,
    used: u64,
    data_end: Option<u64>,
    /// Frames read and not sent yet; whether any was read since the last fetch.
    in_flight: u64,
    read_since: bool,
}

impl Sending {
    /// Starts with `before` descriptors on the device, and `in_flight` frames read and not sent.
    pub fn new(before: u64, in_flight: u64) -> Sending {
        Sending { before, in_flight, ..Sending::default() }
    }

    /// Records a data read, with `fetched` descriptors fetched in the trace. Returns how many of these it
    /// requires.
    pub fn data(&mut self, dma: &Dma, fetched: u64) -> u64 {
        let continues = dma.offset != 0 && self.data_end == Some(dma.addr.0);
        self.data_end = Some(dma.addr.0 + u64::from(dma.len));
        self.used += u64::from(!continues);
        self.in_flight += u64::from(dma.offset == 0);
        self.read_since = true;
        self.used.saturating_sub(self.before).min(fetched)
    }

    /// Number of descriptors used.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Records a data read during the survey. Descriptors used and not fetched in the trace were fetched
    /// before it.
    pub fn survey_data(&mut self, dma: &Dma, fetched: u64) {
        self.data(dma, fetched);
        self.before = self.before.max(self.used.saturating_sub(fetched));
    }

    /// Records a frame sent.
    pub fn frame_sent(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Records a fetch that follows `fetched` descriptors fetched in the trace.
    pub fn fetch(&mut self, fetched: u64) {
        if std::mem::take(&mut self.read_since) && self.in_flight == 0 {
            self.used = self.used.max(self.before + fetched);
        }
    }

    /// Records a write-back up to number `up_to` of the descriptors fetched in the trace.
    pub fn report(&mut self, up_to: u64) {
        self.used = self.used.max(self.before + up_to);
    }
}

#[cfg(test)]
mod tests {
    use doorbell_sim::Ps;
    use doorbell_sim::ports::{DmaDirection, DmaPurpose, PhysAddr};

    use super::*;

    fn data(addr: u64, offset: u32) -> Dma {
        Dma {
            purpose: DmaPurpose::TxData,
            direction: DmaDirection::Read,
            addr: PhysAddr(addr),
            len: 100,
            frame: 0,
            offset,
            took: Ps::ZERO,
            visible: 0,
        }
    }

    #[test]
    fn descriptors_without_data_are_added_at_a_fetch_after_all_frames_left() {
        let mut sending = Sending::default();
        for frame in 0..50 {
            sending.fetch(2 * frame);
            let need = sending.data(&data(0x1000, 0), 2 * frame + 2);
            assert!(need > 2 * frame, "needs its own fetch: {need}, frame {frame}");
            sending.frame_sent();
        }
    }

    #[test]
    fn descriptors_without_data_are_added_at_a_write_back() {
        let mut sending = Sending::default();
        sending.fetch(0);
        assert_eq!(sending.data(&data(0x1000, 0), 64), 1);
        sending.fetch(64);
        assert_eq!(sending.data(&data(0x2000, 0), 96), 2, "the first frame has not left");
        assert_eq!(sending.data(&data(0x2064, 100), 96), 2, "same buffer");
        assert_eq!(sending.data(&data(0x3000, 200), 96), 3, "another buffer");
        sending.report(6);
        assert_eq!(sending.data(&data(0x2000, 0), 96), 7);
    }

    #[test]
    fn descriptors_on_the_device_at_the_start_need_no_fetch() {
        let mut survey = Sending::new(0, 0);
        (0..3).for_each(|_| survey.survey_data(&data(0x1000, 0), 0));
        survey.survey_data(&data(0x1000, 0), 8);
        assert_eq!((survey.before, survey.used()), (3, 4));
        let mut sending = Sending::new(survey.before, 0);
        let needs = [0, 0, 0, 8].map(|fetched| sending.data(&data(0x1000, 0), fetched));
        assert_eq!(needs, [0, 0, 0, 1]);
    }
}
