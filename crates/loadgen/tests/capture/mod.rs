//! Test helper: a generator whose frames are written to a capture.

use std::path::Path;

use doorbell_loadgen::{Event, LoadGen, LoadGenConfig, TrafficConfig};
use doorbell_sim::ports::{Timers, WirePort};
use doorbell_sim::rng::Rng;
use doorbell_sim::{Frame, Ps};
use doorbell_wire::pcap::WHOLE_FRAMES;
use doorbell_wire::{Link, LinkConfig, PcapFile};

/// A link whose frames are written to a capture.
struct Captured {
    link: Link,
    capture: PcapFile,
    wake: Option<(Ps, Event)>,
}

impl doorbell_loadgen::RoundTripObserver for Captured {}

impl WirePort for Captured {
    fn send(&mut self, now: Ps, frame: Frame) -> Ps {
        let sent = self.link.send(now, frame.bytes.len());
        self.capture.record(sent.start, &frame);
        sent.free_at
    }
    fn free_at(&self) -> Ps {
        self.link.free_at()
    }
}

impl Timers<Event> for Captured {
    fn wake_at(&mut self, at: Ps, event: Event) {
        self.wake = Some((at, event));
    }
}

/// Sends each traffic in turn at 10 Gbps; returns the number of captured frames.
pub fn write_capture(path: &Path, traffics: &[TrafficConfig]) -> u64 {
    let link = LinkConfig { rate: "10Gbps".parse().unwrap(), ..LinkConfig::default() };
    let mut end = Captured {
        link: Link::new(link.clone(), Rng::stream(1, "link")).unwrap(),
        capture: PcapFile::create(path, WHOLE_FRAMES).unwrap(),
        wake: None,
    };
    let mut generator = LoadGen::new(0, 1, &LoadGenConfig::default(), &link).unwrap();
    let mut now = Ps::ZERO;
    for traffic in traffics {
        generator.set_traffic(traffic.clone()).unwrap();
        // The link is free again by then, so each run's first frame leaves at its due time.
        generator.start(now + Ps::from_us(10), &mut end);
        while let Some((at, event)) = end.wake.take() {
            now = at;
            generator.on_event(now, event, &mut end);
        }
    }
    end.capture.finish().unwrap()
}
