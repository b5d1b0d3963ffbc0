//! Two nodes on one cable: two whole machines, each with its own RAM, harts and NIC, whose first ports face each other
//! instead of a load generator each. One process, one thread, one order of events. Each node has a configuration of its
//! own: one may be timed and the other not.
//!
//! The cable is made of the two machines' outgoing links, so rate, latency and faults are those of `[link]`. Its latency (the
//! shorter one, if they differ) is the look-ahead: what a node sends in a window of that length reaches the other only after the window, so within a
//! window neither can notice how far the other is, and each runs alone. Windows lie on a grid of multiples of the
//! latency, and frames change sides at its points only. So the course of things does not depend on where a run is
//! stopped and gone on with. Windows in which neither node has anything to do are passed over at once.

use std::collections::BTreeMap;

use doorbell_sim::{Frame, Phase, Ps, log};
use doorbell_wire::flows::{Carried, FlowBook};
use doorbell_wire::pcap::{PcapError, PcapFile};
use serde::{Deserialize, Serialize};

use crate::boot::{BootError, Guest};
use crate::config::{ConfigError, MachineConfig};
use crate::events::Event;
use crate::machine::Machine;
use crate::run::{Limits, Outcome};

/// The port that the cable is plugged into, on both sides.
const PORT: u8 = 0;
/// A shorter look-ahead would make the nodes take turns every few instructions.
const LATENCY_MIN: Ps = Ps::from_ns(10);

/// A frame between the nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Crossing {
    pub arrives_at: Ps,
    pub frame: Frame,
}

/// Why a run of two nodes ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairOutcome {
    /// The limit in time.
    Time,
    /// Both nodes wait, or are off, and nothing will ever wake them.
    Asleep,
    /// Something ended this node's run. After a power-off or a reset it does not go on; otherwise run again.
    Node {
        /// Which node, 0 or 1.
        node: usize,
        /// What happened there.
        outcome: Outcome,
    },
}

doorbell_sim::stats! {
    /// What the cable counts beside its links.
    pub struct CableStats {
        /// Frames that reached a node.
        delivered,
        /// Frames that reached a node that is switched off.
        unreceived,
    }
}

/// What a checkpoint keeps beside the two machines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PairState {
    pub lookahead: Ps,
    pub windows: u64,
    pub reached: [Ps; 2],
    pub crossing: [Vec<Crossing>; 2],
    pub off: [bool; 2],
    pub stats: CableStats,
}

/// A capture that puts the frames of both directions in order.
struct Capture {
    file: PcapFile,
    /// Frames by arrival, the node that sent them, and a number.
    held: BTreeMap<(Ps, usize, u64), Frame>,
    taken: u64,
}

/// Two machines on one cable.
pub struct Pair {
    pub(crate) nodes: [Machine; 2],
    pub(crate) lookahead: Ps,
    /// Windows that are over.
    pub(crate) windows: u64,
    /// Up to when each node was run. A hart may be ahead of it, at the end of the block that it was executing.
    pub(crate) reached: [Ps; 2],
    pub(crate) off: [bool; 2],
    pub(crate) stats: CableStats,
    capture: Option<Capture>,
    flows: FlowBook,
}

/// A node's configuration, made from what is common to both: node 1 has a MAC address and random numbers of its own. Whoever
/// builds a pair may change what is not common, such as node 1's core.
pub fn node_config(common: &MachineConfig, node: usize) -> MachineConfig {
    let mut config = common.clone();
    if node > 0 {
        let mut mac = common.mac_of(0);
        mac.0[4] = mac.0[4].wrapping_add(node as u8);
        config.nic.mac = Some(mac);
        config.port.values_mut().for_each(|own| drop(own.nic.remove("mac")));
        config.platform.boot_seed = common.platform.boot_seed.wrapping_add(node as u64);
    }
    config
}

impl Pair {
    /// Builds two nodes. Their timing models, NICs and links may differ; see [`node_config`] for what has to.
    pub fn new(nodes: [MachineConfig; 2], seed: u64) -> Result<Pair, ConfigError> {
        for node in &nodes {
            if node.platform.nics != 1 {
                let problem = format!("{} NICs; each of two nodes has 1", node.platform.nics);
                return Err(ConfigError::new("platform.nics", problem));
            }
            let latency = node.ports().port(usize::from(PORT))?.link.latency;
            if latency < LATENCY_MIN {
                let problem = format!(
                    "{latency} is too short for two nodes: it is their look-ahead, and must be \"{LATENCY_MIN}\" at least"
                );
                return Err(ConfigError::new("link.latency", problem));
            }
        }
        let latency =
            |node: &MachineConfig| node.ports().port(usize::from(PORT)).map(|port| port.link.latency);
        let lookahead = latency(&nodes[0])?.min(latency(&nodes[1])?);
        let build = |(node, config): (u64, MachineConfig)| {
            // Apart by a large odd number, so that no seed of one node is one of the other's in a neighbouring run.
            let own = seed.wrapping_add(node.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mut machine = Machine::new(config, own)?;
            machine.ports[usize::from(PORT)].cable = Some(Vec::new());
            Ok::<Machine, ConfigError>(machine)
        };
        let [one, other] = nodes;
        Ok(Pair {
            nodes: [build((0, one))?, build((1, other))?],
            lookahead,
            windows: 0,
            reached: [Ps::ZERO; 2],
            off: [false; 2],
            stats: CableStats::default(),
            capture: None,
            flows: FlowBook::default(),
        })
    }

    /// Puts guests into both nodes.
    pub fn load(&mut self, guests: [&Guest; 2]) -> Result<(), BootError> {
        self.nodes.iter_mut().zip(guests).try_for_each(|(node, guest)| node.load(guest))
    }

    /// The nodes.
    pub fn nodes(&self) -> &[Machine; 2] {
        &self.nodes
    }

    /// A node, for its console, its keyboard and its mode. Only the pair may run it.
    pub fn node_mut(&mut self, node: usize) -> &mut Machine {
        &mut self.nodes[node]
    }

    /// What the cable counted.
    pub fn stats(&self) -> &CableStats {
        &self.stats
    }

    /// What TCP and UDP have sent in each direction, by the node that sent it, since the pair was built, without
    /// what was lost on the way. An observer: a checkpoint does not keep it.
    pub fn carried(&self) -> [Carried; 2] {
        let mut flows = self.flows.clone();
        for (node, machine) in self.nodes.iter().enumerate() {
            let waiting = machine.ports[usize::from(PORT)].cable.iter().flatten();
            waiting.for_each(|crossing| flows.take(node, &crossing.frame));
        }
        flows.carried
    }

    /// Whether a node has been switched off.
    pub fn is_off(&self, node: usize) -> bool {
        self.off[node]
    }

    /// How far the node that is farthest has come.
    pub fn now(&self) -> Ps {
        self.nodes[0].now().max(self.nodes[1].now())
    }

    /// Instructions retired by both.
    pub fn instructions(&self) -> u64 {
        self.nodes.iter().map(Machine::instructions).sum()
    }

    /// Captures what crosses the cable, both ways, each frame at the moment at which it arrives. Frames that are lost
    /// on the way are not seen. An observer.
    pub fn capture(&mut self, file: PcapFile) {
        self.capture = Some(Capture { file, held: BTreeMap::new(), taken: 0 });
    }

    /// Ends the capture; tells how many frames it has, if there was one.
    pub fn finish_capture(&mut self) -> Result<Option<u64>, PcapError> {
        let Some(mut capture) = self.capture.take() else { return Ok(None) };
        for (node, machine) in self.nodes.iter().enumerate() {
            let waiting = machine.ports[usize::from(PORT)].cable.iter().flatten();
            waiting.for_each(|crossing| capture.take(node, crossing));
        }
        capture.write_until(Ps::MAX);
        capture.file.finish().map(Some)
    }

    /// Runs both nodes until a limit is reached or something happens at one of them. The limit in instructions does not
    /// hold here.
    pub fn run(&mut self, limits: &Limits) -> PairOutcome {
        let outcome = self.run_windows(limits);
        log::set_node(None);
        outcome
    }

    fn run_windows(&mut self, limits: &Limits) -> PairOutcome {
        loop {
            let end = Ps(self.lookahead.0.saturating_mul(self.windows + 1));
            let until = end.min(limits.time);
            for node in 0..2 {
                if let Some(outcome) = self.run_node(node, until, limits) {
                    return PairOutcome::Node { node, outcome };
                }
            }
            if until == end {
                self.exchange(end);
                self.windows += 1;
                let Some(next) = self.next_activity() else { return PairOutcome::Asleep };
                self.windows = self.windows.max(next.min(limits.time).0 / self.lookahead.0);
                let begin = Ps(self.lookahead.0 * self.windows);
                // Whoever types at an idle node does so in the present.
                for (node, machine) in self.nodes.iter_mut().enumerate() {
                    machine.reached = machine.reached.max(begin);
                    self.reached[node] = self.reached[node].max(begin);
                }
            }
            if until == limits.time {
                return PairOutcome::Time;
            }
        }
    }

    /// Runs one node to a time that nothing from the other can reach any more.
    fn run_node(&mut self, node: usize, until: Ps, limits: &Limits) -> Option<Outcome> {
        if self.off[node] {
            return None;
        }
        log::set_node(Some(node as u8));
        let machine = &mut self.nodes[node];
        match machine.run(&Limits { time: until, instructions: u64::MAX, ..limits.clone() }) {
            Outcome::Time | Outcome::Asleep => {
                // Time has passed for one that sleeps, too: what wakes it does so in the present.
                machine.reached = machine.reached.max(until);
                self.reached[node] = self.reached[node].max(until);
                None
            }
            outcome => {
                self.off[node] = matches!(outcome, Outcome::PowerOff { .. } | Outcome::Reset);
                Some(outcome)
            }
        }
    }

    /// At the end of a window the frames sent in it change sides.
    pub(crate) fn exchange(&mut self, now: Ps) {
        for node in 0..2 {
            let cable = self.nodes[node].ports[usize::from(PORT)].cable.as_mut();
            let mut sent = std::mem::take(cable.expect("the port has a cable"));
            for crossing in sent.drain(..) {
                if let Some(capture) = &mut self.capture {
                    capture.take(node, &crossing);
                }
                self.flows.take(node, &crossing.frame);
                let to = 1 - node;
                if self.off[to] {
                    self.stats.unreceived += 1;
                    continue;
                }
                self.stats.delivered += 1;
                let Crossing { arrives_at, frame } = crossing;
                assert!(arrives_at > now, "a frame overtakes the look-ahead");
                let event = Event::FrameAtNic { port: PORT, frame };
                self.nodes[to].queue.schedule(arrives_at, Phase::Wire, event);
            }
            // The emptied vector goes back, with its memory.
            self.nodes[node].ports[usize::from(PORT)].cable = Some(sent);
        }
        if let Some(capture) = &mut self.capture {
            // What is sent from now on arrives later than this.
            capture.write_until(now.saturating_add(self.lookahead));
        }
    }

    /// When either node has something to do next.
    fn next_activity(&self) -> Option<Ps> {
        let on = self.nodes.iter().zip(self.off).filter(|(_, off)| !off);
        on.map(|(machine, _)| machine.next_activity()).min().filter(|next| *next < Ps::MAX)
    }

    /// Asserts that every frame is accounted for, in both NICs and between them.
    pub fn check_conservation(&self) {
        self.nodes.iter().for_each(|node| node.check_conservation());
        let on_the_way: u64 = self.crossing_counts().iter().sum();
        let sent: u64 = self.nodes.iter().map(sent_and_not_lost).sum();
        assert_eq!(sent, self.stats.delivered + self.stats.unreceived + on_the_way, "frames on the cable");
    }

    fn crossing_counts(&self) -> [u64; 2] {
        [0, 1].map(|node| {
            self.nodes[node].ports[usize::from(PORT)].cable.as_ref().map_or(0, |cable| cable.len() as u64)
        })
    }
}

fn sent_and_not_lost(node: &Machine) -> u64 {
    let link = node.ports[usize::from(PORT)].link_out.stats();
    link.frames - link.lost
}

impl Capture {
    fn take(&mut self, node: usize, crossing: &Crossing) {
        self.held.insert((crossing.arrives_at, node, self.taken), crossing.frame.clone());
        self.taken += 1;
    }

    fn write_until(&mut self, time: Ps) {
        while let Some(entry) = self.held.first_entry().filter(|entry| entry.key().0 <= time) {
            let ((stamp, ..), frame) = entry.remove_entry();
            self.file.record(stamp, &frame);
        }
    }
}
