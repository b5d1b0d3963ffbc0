//! A network port: the link between a NIC and the load generator at its far end, and the interfaces that both
//! have to the machine.

use doorbell_loadgen::{LoadGen, RoundTrip, RoundTripObserver, StageRecorder};
use doorbell_sim::ports::{Timers, WirePort};
use doorbell_sim::{EventQueue, Frame, Phase, Ps, log};
use doorbell_wire::Link;
use doorbell_wire::link::Sent;
use doorbell_wire::pcap::PcapFile;

use crate::events::Event;
use crate::network::Crossing;

/// A network connector with its links and load generator.
pub struct Port {
    /// Index of its NIC in the list of functions.
    pub(crate) function: u8,
    /// From the load generator to the NIC.
    pub link_in: Link,
    /// From the NIC to the load generator.
    pub link_out: Link,
    /// The load generator.
    pub loadgen: LoadGen,
    /// A capture of both directions at the load generator's connector. An observer.
    pub capture: Option<PcapFile>,
    /// For a port cabled to another node instead of a load generator: frames that wait to cross to that node.
    pub(crate) cable: Option<Vec<Crossing>>,
}

/// A NIC's interface to its port.
pub(crate) struct WireSide<'a> {
    pub port: u8,
    pub link: &'a mut Link,
    pub cable: &'a mut Option<Vec<Crossing>>,
    pub stages: &'a mut [StageRecorder],
    /// Whether the load generator counts frames as delivered when they are in guest memory.
    pub sink: bool,
}

impl Port {
    /// Interface of the NIC to port number `port`.
    pub(crate) fn wire<'a>(&'a mut self, port: u8, stages: &'a mut [StageRecorder]) -> WireSide<'a> {
        let sink = self.loadgen.expects_sink();
        WireSide { port, link: &mut self.link_out, cable: &mut self.cable, stages, sink }
    }
}

/// Sends a frame into a link and logs faults.
pub(crate) fn transmit(link: &mut Link, now: Ps, port: u8, frame: &mut Frame) -> Sent {
    let was_bad = frame.fcs_bad;
    let sent = link.transmit(now, frame);
    if sent.lost {
        log!(now, Link, Info, "port{port}: a frame of {} bytes is lost", frame.len_with_fcs());
    } else if frame.fcs_bad && !was_bad {
        log!(now, Link, Info, "port{port}: a frame of {} bytes is damaged", frame.len_with_fcs());
    }
    sent
}

/// A load generator's interface to the machine.
pub(crate) struct LoadGenSide<'a> {
    pub port: u8,
    pub queue: &'a mut EventQueue<Event>,
    pub link: &'a mut Link,
    pub capture: &'a mut Option<PcapFile>,
    pub stages: &'a mut [StageRecorder],
}

impl RoundTripObserver for LoadGenSide<'_> {
    fn frame_returned(&mut self, trip: RoundTrip) {
        self.stages[usize::from(self.port)].returned(trip);
    }
}

impl Timers<doorbell_loadgen::Event> for LoadGenSide<'_> {
    fn wake_at(&mut self, at: Ps, event: doorbell_loadgen::Event) {
        let port = self.port;
        self.queue.schedule(at, Phase::Stimulus, Event::LoadGen { port, event });
    }
}

impl WirePort for LoadGenSide<'_> {
    fn send(&mut self, now: Ps, mut frame: Frame) -> Ps {
        let sent = transmit(self.link, now, self.port, &mut frame);
        if let Some(capture) = self.capture {
            // A sent frame's timestamp is when its first bit leaves, a returned frame's when its last bit
            // arrives. So the file is in time order, and the difference of two timestamps is the generator's
            // round-trip time.
            capture.record(now, &frame);
        }
        if !sent.lost {
            let port = self.port;
            self.queue.schedule(sent.arrives_at, Phase::Wire, Event::FrameAtNic { port, frame });
        }
        sent.free_at
    }

    fn free_at(&self) -> Ps {
        self.link.free_at()
    }
}
