//! An Ethernet switch: it takes a frame as a whole, learns who sent it, and stores it in the queue of the port behind which its
//! destination is (IEEE 802.1Q §8.6: bridges' forwarding process, without VLANs).
//!
//! Modelled: learning and ageing of stations (§8.7, §8.8), flooding of frames to groups and to stations that are not known,
//! addresses that no bridge passes on (§8.6.3), frames with a bad FCS dropped, a latency from a frame's last bit to its place
//! in a queue, one queue for each output with so many bytes, where what does not fit is dropped (tail drop), and output at the
//! link's rate. A frame takes room in its queue until its last bit has left. Not modelled: spanning tree (loops are refused),
//! priorities, PAUSE, cut-through, a fabric slower than its ports, and a memory that outputs share.

use std::collections::{BTreeMap, VecDeque};

use doorbell_loadgen::Latency;
use doorbell_sim::rng::Rng;
use doorbell_sim::{Bytes, EventQueue, Frame, Phase, Ps, log};
use doorbell_wire::{Link, LinkConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::ConfigError;
use crate::network::Crossing;

mod state;

/// A switch, as configuration files write it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SwitchConfig {
    /// Bytes of each output's queue, frames with FCS: "64B" to "1GiB".
    pub queue: Bytes,
    /// From a frame's last bit to its place in the output's queue, at most "1s".
    pub latency: Ps,
    /// How many stations it knows at a time, 1 to 1048576.
    pub stations: u32,
    /// How long it knows a station that sends nothing: "10us" to "1000000s" (802.1Q recommends 300 s).
    pub ageing: Ps,
}

impl Default for SwitchConfig {
    fn default() -> Self {
        SwitchConfig {
            queue: Bytes(256 << 10),
            latency: Ps::from_ns(500),
            stations: 8192,
            ageing: Ps(300 * Ps::PER_SECOND),
        }
    }
}

impl SwitchConfig {
    /// Checks every value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let check = |ok: bool, key: &str, problem: String| match ok {
            true => Ok(()),
            false => Err(ConfigError::new(key, problem)),
        };
        let (queue, latency, ageing) = (self.queue, self.latency, self.ageing);
        check(
            (64..=1 << 30).contains(&queue.0),
            "queue",
            format!("{queue} is not from \"64B\" to \"1GiB\""),
        )?;
        check(latency.0 <= Ps::PER_SECOND, "latency", format!("{latency} is more than \"1s\""))?;
        let stations = self.stations;
        check((1..=1 << 20).contains(&stations), "stations", format!("{stations} is not from 1 to 1048576"))?;
        let range = Ps::from_us(10)..=Ps(1_000_000 * Ps::PER_SECOND);
        check(range.contains(&ageing), "ageing", format!("{ageing} is not from \"10us\" to \"1000000s\""))
    }
}

doorbell_sim::stats! {
    /// What a switch has done with what arrived.
    pub struct SwitchStats {
        /// Frames that arrived.
        arrived,
        /// Frames sent on to the one port behind which their destination is.
        forwarded,
        /// Frames sent on to all other ports.
        flooded,
        /// Frames whose destination is behind the port by which they came.
        filtered,
        /// Frames to addresses that no bridge passes on, PAUSE frames among them.
        reserved,
        /// Frames dropped for a bad FCS.
        bad_fcs,
        /// Stations learned, or found behind another port.
        learned,
        /// Stations not learned since the table was full.
        not_learned,
    }
}

doorbell_sim::stats! {
    /// What an output of a switch has done.
    pub struct OutputStats {
        /// Frames put into the queue.
        queued,
        /// Bytes put into the queue, with FCS.
        queued_bytes,
        /// Frames dropped since the queue was full.
        dropped,
        /// Bytes dropped, with FCS.
        dropped_bytes,
    }
}

/// An output of a switch, and the link behind it.
pub struct Output {
    pub(crate) link: Link,
    /// Frames that wait for the link.
    waiting: VecDeque<Waiting>,
    /// The bytes of the frame that is leaving: they take room in the queue until its last bit has left.
    leaving: Option<u64>,
    /// The sum of all these bytes.
    held: u64,
    stats: OutputStats,
    /// The most bytes that waited since the window began, and how long frames were in the switch: from last bit to last bit. An
    /// observer.
    deepest: u64,
    residence: Latency,
    pub(crate) sent: Vec<Crossing>,
}

/// A frame in a queue, and when its last bit had arrived.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Waiting {
    arrived: Ps,
    frame: Frame,
}

/// What happens next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Due {
    /// The last bit of the frame that an output sends has left.
    Left { port: u8 },
    /// A frame's last bit is there.
    Arrival { port: u8, frame: Frame },
    /// A frame has come to an output's queue.
    Queued { port: u8, waiting: Waiting },
}

impl Due {
    fn port(&self) -> u8 {
        match self {
            Due::Left { port } | Due::Arrival { port, .. } | Due::Queued { port, .. } => *port,
        }
    }
}

/// Behind which port a station is, and when it was last heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Station {
    port: u8,
    heard: Ps,
}

type Mac = [u8; 6];

/// A switch.
pub struct Switch {
    name: String,
    config: SwitchConfig,
    outputs: Vec<Output>,
    stations: BTreeMap<Mac, Station>,
    queue: EventQueue<Due>,
    stats: SwitchStats,
}

impl Switch {
    /// A switch that knows nobody, with a port for each of these links.
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
                held: 0,
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

    /// What it has counted.
    pub fn stats(&self) -> &SwitchStats {
        &self.stats
    }

    /// Its outputs, in the order of the links that end at it.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    pub(crate) fn output_mut(&mut self, port: u8) -> &mut Output {
        &mut self.outputs[usize::from(port)]
    }

    /// Begins to keep depths of queues and times of residence again.
    pub(crate) fn begin_window(&mut self) {
        for output in &mut self.outputs {
            (output.deepest, output.residence) = (0, Latency::default());
        }
    }

    /// A frame's last bit arrives at a port.
    pub(crate) fn deliver(&mut self, port: u8, arrives_at: Ps, frame: Frame) {
        self.queue.schedule(arrives_at, Phase::Wire, Due::Arrival { port, frame });
    }

    /// When something happens next.
    pub(crate) fn next_activity(&self) -> Ps {
        self.queue.next_time()
    }

    /// Handles what is due by `until`.
    pub(crate) fn run(&mut self, until: Ps) {
        while self.queue.next_time() <= until {
            let Some((now, due)) = self.queue.pop() else { return };
            match due {
                Due::Left { port } => self.left(now, port),
                Due::Arrival { port, frame } => self.take(now, port, frame),
                Due::Queued { port, waiting } => self.enqueue(now, port, waiting),
            }
        }
    }

    fn take(&mut self, now: Ps, from: u8, frame: Frame) {
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
                self.pass_on(now, port, frame);
            }
            None => {
                self.stats.flooded += 1;
                let others = (0..self.outputs.len() as u8).filter(|port| *port != from);
                others.for_each(|port| self.pass_on(now, port, frame.clone()));
            }
        }
    }

    fn learn(&mut self, now: Ps, source: Mac, port: u8) {
        // No station has a group's address, or none.
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

    /// Behind which port a station is, if that is known.
    fn port_of(&self, now: Ps, to: Mac) -> Option<u8> {
        let known = self.stations.get(&to).filter(|station| now - station.heard <= self.config.ageing);
        known.map(|station| station.port)
    }

    /// A frame is at its output's queue when the switch's latency has passed.
    fn pass_on(&mut self, now: Ps, port: u8, frame: Frame) {
        let at = now.saturating_add(self.config.latency);
        let due = Due::Queued { port, waiting: Waiting { arrived: now, frame } };
        self.queue.schedule(at, Phase::Stimulus, due);
    }

    fn enqueue(&mut self, now: Ps, port: u8, waiting: Waiting) {
        let output = &mut self.outputs[usize::from(port)];
        let bytes = waiting.frame.len_with_fcs() as u64;
        if output.held + bytes > self.config.queue.0 {
            output.stats.dropped += 1;
            output.stats.dropped_bytes += bytes;
            log!(
                now,
                Link,
                Debug,
                "{}: output {port} is full, a frame of {bytes} bytes is dropped",
                self.name
            );
            return;
        }
        output.stats.queued += 1;
        output.stats.queued_bytes += bytes;
        output.held += bytes;
        output.deepest = output.deepest.max(output.held);
        output.waiting.push_back(waiting);
        if output.leaving.is_none() {
            self.send_next(now, port);
        }
    }

    /// The first frame of a queue begins to leave, when the gap behind the one before is over.
    fn send_next(&mut self, now: Ps, port: u8) {
        let output = &mut self.outputs[usize::from(port)];
        let Some(Waiting { arrived, mut frame }) = output.waiting.pop_front() else { return };
        output.leaving = Some(frame.len_with_fcs() as u64);
        let sent = output.link.transmit(now, &mut frame);
        output.residence.record(sent.last_bit_left - arrived);
        if !sent.lost {
            output.sent.push(Crossing { arrives_at: sent.arrives_at, frame });
        }
        self.queue.schedule(sent.last_bit_left, Phase::Mmio, Due::Left { port });
    }

    fn left(&mut self, now: Ps, port: u8) {
        let output = &mut self.outputs[usize::from(port)];
        output.held -= output.leaving.take().unwrap_or(0);
        self.send_next(now, port);
    }

    /// Frames inside: those that a latency keeps, and those in queues.
    pub fn holds(&self) -> u64 {
        let passing = self.queue.events().filter(|due| !matches!(due, Due::Left { .. })).count();
        let waiting: usize = self.outputs.iter().map(|output| output.waiting.len()).sum();
        (passing + waiting) as u64
    }

    /// Frames that have arrived and were not looked at yet.
    pub(crate) fn arriving(&self) -> u64 {
        self.queue.events().filter(|due| matches!(due, Due::Arrival { .. })).count() as u64
    }

    /// Asserts that all that arrived went somewhere.
    pub(crate) fn check_conservation(&self) {
        let s = &self.stats;
        let known = s.forwarded + s.flooded + s.filtered + s.reserved + s.bad_fcs;
        assert_eq!(s.arrived, known, "frames in switch {}", self.name);
        let on_their_way = self.queue.events().filter(|due| matches!(due, Due::Queued { .. })).count() as u64;
        let put: u64 = self.outputs.iter().map(|output| output.stats.queued + output.stats.dropped).sum();
        let put = put + on_their_way;
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
    /// What it has counted.
    pub fn stats(&self) -> &OutputStats {
        &self.stats
    }

    /// The link behind it.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// The most bytes that waited at a time since the window began.
    pub fn deepest(&self) -> u64 {
        self.deepest
    }

    /// How long frames that went this way since the window began were in the switch: from a frame's last bit in to its last bit out.
    pub fn residence(&self) -> &Latency {
        &self.residence
    }
}
