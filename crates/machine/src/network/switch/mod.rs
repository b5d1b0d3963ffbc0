//! Ethernet switch, store-and-forward, with MAC learning and one output queue per port (IEEE 802.1Q §8.6, the
//! forwarding process of bridges, without VLANs).
//!
//! Modelled: learning and ageing of stations (§8.7, §8.8), flooding of frames to group addresses and unknown
//! stations, reserved addresses that bridges do not forward (§8.6.3), dropping of frames with a bad FCS, a
//! forwarding latency from a frame's last bit to its output queue, queues of limited size with tail drop, and
//! output at the link's rate. A frame occupies queue space until its last bit has left. Not modelled:
//! spanning tree (loops are rejected), priorities, PAUSE, cut-through, fabric contention and a shared packet
//! buffer.

use std::collections::{BTreeMap, VecDeque};

use doorbell_loadgen::Latency;
use doorbell_sim::rng::Rng;
use doorbell_sim::{Bytes, EventQueue, Frame, Phase, Ps, config, log};
use doorbell_wire::{Link, LinkConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::ConfigError;
use crate::network::Crossing;

mod state;

config! {
    /// Switch configuration.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct SwitchConfig {
        /// Size of each output queue; frames count with FCS: "64B" to "1GiB".
        pub queue: Bytes [Bytes(64)..=Bytes(1 << 30)] = Bytes(256 << 10),
        /// Latency from a frame's last bit to its output queue, at most "1s".
        pub latency: Ps [..=Ps(Ps::PER_SECOND)] = Ps::from_ns(500),
        /// Entries of the MAC address table, 1 to 1048576.
        pub stations: u32 [1..=1 << 20] = 8192,
        /// Ageing time of a station that sends nothing: "10us" to "1000000s" (802.1Q recommends 300 s).
        pub ageing: Ps [Ps::from_us(10)..=Ps(1_000_000 * Ps::PER_SECOND)] = Ps(300 * Ps::PER_SECOND),
    }
}

impl SwitchConfig {
    /// Checks every value; errors are about keys of the table at `path`.
    pub fn validate(&self, path: &str) -> Result<(), ConfigError> {
        self.check_ranges().map_err(|error| ConfigError::out_of_range(path, error))
    }
}

doorbell_sim::stats! {
    /// Counters of a switch.
    pub struct SwitchStats {
        /// Frames that arrived.
        arrived,
        /// Frames forwarded to the port of their destination.
        forwarded,
        /// Frames flooded to all other ports.
        flooded,
        /// Frames dropped because their destination is at the port at which they arrived.
        filtered,
        /// Frames dropped because of a reserved destination address, including PAUSE frames.
        reserved,
        /// Frames dropped because of a bad FCS.
        bad_fcs,
        /// Stations learned, or moved to another port.
        learned,
        /// Stations not learned because the table was full.
        not_learned,
    }
}

doorbell_sim::stats! {
    /// Counters of a switch output.
    pub struct OutputStats {
        /// Frames put into the queue.
        queued,
        /// Bytes put into the queue, with FCS.
        queued_bytes,
        /// Frames dropped because the queue was full.
        dropped,
        /// Bytes dropped, with FCS.
        dropped_bytes,
    }
}

/// An output of a switch, with its queue and its link.
pub struct Output {
    pub(crate) link: Link,
    /// Frames waiting for the link.
    waiting: VecDeque<Waiting>,
    /// Bytes of the frame being sent; they occupy queue space until its last bit has left.
    leaving: Option<u64>,
    /// Queue occupancy in bytes, including the frame being sent.
    queue_bytes: u64,
    stats: OutputStats,
    /// Maximum queue occupancy in bytes since the window began. Observer.
    deepest: u64,
    /// Residence times of frames in the switch, from last bit in to last bit out. Observer.
    residence: Latency,
    pub(crate) sent: Vec<Crossing>,
}

/// A queued frame, and the arrival time of its last bit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Waiting {
    arrived: Ps,
    frame: Frame,
}

/// An event of a switch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum SwitchEvent {
    /// The last bit of the frame being sent has left an output.
    Left { port: u8 },
    /// The last bit of a frame has arrived.
    Arrival { port: u8, frame: Frame },
    /// A frame reaches an output queue, after the forwarding latency.
    Queued { port: u8, waiting: Waiting },
}

impl SwitchEvent {
    fn port(&self) -> u8 {
        match self {
            SwitchEvent::Left { port }
            | SwitchEvent::Arrival { port, .. }
            | SwitchEvent::Queued { port, .. } => *port,
        }
    }
}

/// Entry of the MAC address table: a station's port, and the time of its last frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Station {
    port: u8,
    heard: Ps,
}

type Mac = [u8; 6];

/// An Ethernet switch.
pub struct Switch {
    name: String,
    config: SwitchConfig,
    outputs: Vec<Output>,
    stations: BTreeMap<Mac, Station>,
    queue: EventQueue<SwitchEvent>,
    stats: SwitchStats,
}

impl Switch {
    /// Builds a switch with an empty address table and one port per link.
    pub(crate) fn new(
        name: &str,
        config: &SwitchConfig,
        links: Vec<LinkConfig>,
        seed: u64,
    ) -> Result<Switch, ConfigError> {
        let output = |(port, link): (usize, LinkConfig)| {
            let rng = Rng::stream(seed, &format!("switch.{name}.port{port}"));
            let link = Link::new(link, rng).map_err(|error| ConfigError::new("link", error))?;
            Ok(Output {
                link,
                waiting: VecDeque::new(),
                leaving: None,
                queue_bytes: 0,
                stats: OutputStats::default(),
                deepest: 0,
                residence: Latency::default(),
                sent: Vec::new(),
            })
        };
        Ok(Switch {
            name: name.to_owned(),
            config: config.clone(),
            outputs: links.into_iter().enumerate().map(output).collect::<Result<_, _>>()?,
            stations: BTreeMap::new(),
            queue: EventQueue::new(),
            stats: SwitchStats::default(),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Counters since the start.
    pub fn stats(&self) -> &SwitchStats {
        &self.stats
    }

    /// Its outputs, in the order of its links.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    pub(crate) fn output_mut(&mut self, port: u8) -> &mut Output {
        &mut self.outputs[usize::from(port)]
    }

    /// Begins a measurement window: resets maximum queue occupancies and residence times.
    pub(crate) fn begin_window(&mut self) {
        for output in &mut self.outputs {
            (output.deepest, output.residence) = (0, Latency::default());
        }
    }

    /// Schedules the arrival of a frame's last bit at a port.
    pub(crate) fn deliver(&mut self, port: u8, arrives_at: Ps, frame: Frame) {
        self.queue.schedule(arrives_at, Phase::Wire, SwitchEvent::Arrival { port, frame });
    }

    /// Time of the next event.
    pub(crate) fn next_activity(&self) -> Ps {
        self.queue.next_time()
    }

    /// Handles all events up to and including `until`.
    pub(crate) fn run(&mut self, until: Ps) {
        while self.queue.next_time() <= until {
            let Some((now, due)) = self.queue.pop() else { return };
            match due {
                SwitchEvent::Left { port } => self.frame_left(now, port),
                SwitchEvent::Arrival { port, frame } => self.receive(now, port, frame),
                SwitchEvent::Queued { port, waiting } => self.enqueue(now, port, waiting),
            }
        }
    }

    fn receive(&mut self, now: Ps, from: u8, frame: Frame) {
        self.stats.arrived += 1;
        let addresses = frame.bytes.first_chunk::<12>().filter(|_| !frame.fcs_bad);
        let Some(addresses) = addresses else {
            self.stats.bad_fcs += 1;
            return;
        };
        let (to, source) = addresses.split_at(6);
        let (to, source): (Mac, Mac) =
            (to.try_into().expect("six bytes"), source.try_into().expect("six bytes"));
        self.learn(now, source, from);
        if to[..5] == [0x01, 0x80, 0xc2, 0x00, 0x00] && to[5] < 0x10 {
            self.stats.reserved += 1;
            return;
        }
        match self.port_of(now, to) {
            Some(port) if port == from => self.stats.filtered += 1,
            Some(port) => {
                self.stats.forwarded += 1;
                self.forward(now, port, frame);
            }
            None => {
                self.stats.flooded += 1;
                let others = (0..self.outputs.len() as u8).filter(|port| *port != from);
                others.for_each(|port| self.forward(now, port, frame.clone()));
            }
        }
    }

    fn learn(&mut self, now: Ps, source: Mac, port: u8) {
        // A group address or an all-zero address is not a valid source.
        if source[0] & 1 != 0 || source == [0; 6] {
            return;
        }
        let station = Station { port, heard: now };
        if !self.stations.contains_key(&source) && self.stations.len() >= self.config.stations as usize {
            let ageing = self.config.ageing;
            self.stations.retain(|_, station| now - station.heard <= ageing);
            if self.stations.len() >= self.config.stations as usize {
                self.stats.not_learned += 1;
                return;
            }
        }
        let before = self.stations.insert(source, station);
        if before.is_none_or(|before| before.port != port) {
            self.stats.learned += 1;
        }
    }

    /// Returns the port of a station, if its table entry is valid.
    fn port_of(&self, now: Ps, to: Mac) -> Option<u8> {
        let entry = self.stations.get(&to).filter(|station| now - station.heard <= self.config.ageing);
        entry.map(|station| station.port)
    }

    /// Schedules a frame's entry into an output queue, after the forwarding latency.
    fn forward(&mut self, now: Ps, port: u8, frame: Frame) {
        let at = now.saturating_add(self.config.latency);
        let due = SwitchEvent::Queued { port, waiting: Waiting { arrived: now, frame } };
        self.queue.schedule(at, Phase::Stimulus, due);
    }

    fn enqueue(&mut self, now: Ps, port: u8, waiting: Waiting) {
        let output = &mut self.outputs[usize::from(port)];
        let bytes = waiting.frame.len_with_fcs() as u64;
        if output.queue_bytes + bytes > self.config.queue.0 {
            output.stats.dropped += 1;
            output.stats.dropped_bytes += bytes;
            log!(
                now,
                Link,
                Debug,
                "{}: queue of output {port} is full, frame of {bytes} bytes dropped",
                self.name
            );
            return;
        }
        output.stats.queued += 1;
        output.stats.queued_bytes += bytes;
        output.queue_bytes += bytes;
        output.deepest = output.deepest.max(output.queue_bytes);
        output.waiting.push_back(waiting);
        if output.leaving.is_none() {
            self.send_next(now, port);
        }
    }

    /// Starts sending the first frame of a queue, after the inter-frame gap.
    fn send_next(&mut self, now: Ps, port: u8) {
        let output = &mut self.outputs[usize::from(port)];
        let Some(Waiting { arrived, mut frame }) = output.waiting.pop_front() else { return };
        output.leaving = Some(frame.len_with_fcs() as u64);
        let sent = output.link.transmit(now, &mut frame);
        output.residence.record(sent.last_bit_left - arrived);
        if !sent.lost {
            output.sent.push(Crossing { arrives_at: sent.arrives_at, frame });
        }
        self.queue.schedule(sent.last_bit_left, Phase::Mmio, SwitchEvent::Left { port });
    }

    fn frame_left(&mut self, now: Ps, port: u8) {
        let output = &mut self.outputs[usize::from(port)];
        output.queue_bytes -= output.leaving.take().unwrap_or(0);
        self.send_next(now, port);
    }

    /// Frames inside the switch: arriving, in the forwarding latency, or waiting in queues.
    pub fn frames_inside(&self) -> u64 {
        let passing = self.queue.events().filter(|due| !matches!(due, SwitchEvent::Left { .. })).count();
        let waiting: usize = self.outputs.iter().map(|output| output.waiting.len()).sum();
        (passing + waiting) as u64
    }

    /// Frames delivered whose arrival has not been handled yet.
    pub(crate) fn arriving(&self) -> u64 {
        self.queue.events().filter(|due| matches!(due, SwitchEvent::Arrival { .. })).count() as u64
    }

    /// Asserts that all arrived frames are accounted for.
    pub(crate) fn check_conservation(&self) {
        let s = &self.stats;
        let expected = s.forwarded + s.flooded + s.filtered + s.reserved + s.bad_fcs;
        assert_eq!(s.arrived, expected, "frames in switch {}", self.name);
        let in_latency =
            self.queue.events().filter(|due| matches!(due, SwitchEvent::Queued { .. })).count() as u64;
        let put: u64 = self.outputs.iter().map(|output| output.stats.queued + output.stats.dropped).sum();
        let put = put + in_latency;
        assert_eq!(
            put,
            s.forwarded + s.flooded * (self.outputs.len() as u64 - 1),
            "outputs of switch {}",
            self.name
        );
        for output in &self.outputs {
            let sent = output.link.stats().frames + output.waiting.len() as u64;
            assert_eq!(output.stats.queued, sent, "an output of switch {}", self.name);
        }
    }
}

impl Output {
    /// Counters since the start.
    pub fn stats(&self) -> &OutputStats {
        &self.stats
    }

    /// The link into which it sends.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Maximum queue occupancy in bytes since the window began.
    pub fn deepest(&self) -> u64 {
        self.deepest
    }

    /// Residence times in the switch of frames sent since the window began, from last bit in to last bit out.
    pub fn residence(&self) -> &Latency {
        &self.residence
    }
}
