//! When frames reach a device of a trace that is paced: as a load generator sends them, or as answers ask for them.

use std::collections::VecDeque;

use doorbell_loadgen::DueTimes;
use doorbell_sim::{Frame, Ps};
use doorbell_wire::LinkConfig;

/// See the module. A frame has arrived when its last bit has.
pub(super) struct FrameArrivals {
    link: LinkConfig,
    /// Without FCS, on the mean.
    frame_len: usize,
    source: Source,
}

enum Source {
    /// The generator's times, and when its line is free.
    Rate { due: Box<DueTimes>, free: Ps },
    /// Requests on their way, and whether there are no more answers that others could wait for.
    Closed { in_flight: VecDeque<Ps>, is_open_loop: bool },
}

fn wire_bytes(link: &LinkConfig, bytes: u32) -> u64 {
    link.wire_bytes((bytes as usize).saturating_sub(Frame::FCS_BYTES))
}

/// How long a frame of so many bytes, with FCS, is on the wire.
pub(super) fn wire_time(link: &LinkConfig, bytes: u32) -> Ps {
    link.rate.time_for_bits(8 * wire_bytes(link, bytes))
}

impl FrameArrivals {
    /// At these times.
    pub fn at_rate(due: DueTimes, frame_len: usize, link: &LinkConfig) -> FrameArrivals {
        let source = Source::Rate { due: Box::new(due), free: Ps::ZERO };
        FrameArrivals { link: link.clone(), frame_len, source }
    }

    /// So many at first, one behind the other, and then one for each answer.
    pub fn closed(window: u32, frame_len: usize, begin: Ps, link: &LinkConfig) -> FrameArrivals {
        let time = wire_time(link, (frame_len + Frame::FCS_BYTES) as u32);
        let first = (1..=u64::source(window)).map(|number| begin + Ps(time.0 * number) + link.latency);
        let source = Source::Closed { in_flight: first.collect(), is_open_loop: false };
        FrameArrivals { link: link.clone(), frame_len, source }
    }

    /// Bytes of a frame on the mean, with FCS.
    pub fn frame_bytes(&self) -> u32 {
        (self.frame_len + Frame::FCS_BYTES) as u32
    }

    fn wire_time(&self, bytes: u32) -> Ps {
        wire_time(&self.link, bytes)
    }

    /// When the next one arrives.
    pub fn next(&self) -> Option<Ps> {
        match &self.source {
            Source::Rate { due, free } => {
                let begins = due.next_due();
                let time = self.wire_time(self.frame_bytes()) + self.link.latency;
                (begins < Ps::MAX).then(|| begins.max(*free).saturating_add(time))
            }
            Source::Closed { in_flight, .. } => in_flight.front().copied(),
        }
    }

    /// It has arrived, and may have been dropped: a request is then asked again.
    pub fn arrived(&mut self, now: Ps, bytes: u32, is_accepted: bool) {
        let (wire_bytes, latency) = (wire_bytes(&self.link, bytes), self.link.latency);
        match &mut self.source {
            Source::Rate { due, free } => {
                *free = now.saturating_sub(latency);
                due.advance(wire_bytes);
            }
            Source::Closed { in_flight, is_open_loop } => {
                in_flight.pop_front();
                if !is_accepted {
                    in_flight.push_back(now + latency + latency);
                } else if *is_open_loop {
                    in_flight.push_back(now + self.link.rate.time_for_bits(8 * wire_bytes));
                }
            }
        }
    }

    /// No more answers will leave: those to the last requests are behind the trace's end. The program goes on to that end with requests that
    /// wait for none.
    pub fn open_loop(&mut self, now: Ps) {
        if let Source::Closed { in_flight, is_open_loop } = &mut self.source {
            *is_open_loop = true;
            if in_flight.is_empty() {
                in_flight.push_back(now);
            }
        }
    }

    /// An answer of so many bytes left at `now`.
    pub fn note_answer(&mut self, bytes: u32, now: Ps) {
        let round = self.wire_time(bytes) + self.link.latency + self.link.latency;
        let arrives = now + round + self.wire_time(self.frame_bytes());
        if let Source::Closed { in_flight, .. } = &mut self.source {
            let at = in_flight.back().map_or(arrives, |last| arrives.max(*last));
            in_flight.push_back(at);
        }
    }
}
