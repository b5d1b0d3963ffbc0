//! What is between the members of a network: for each direction of each link what was sent into it in this window, and what has
//! come of what was sent before.

use std::collections::BTreeMap;
use std::sync::Mutex;

use doorbell_sim::{Frame, Ps};
use doorbell_wire::LinkConfig;
use doorbell_wire::flows::FlowCounters;
use doorbell_wire::pcap::{PcapError, PcapFile};

use crate::network::Crossing;
use crate::network::crew::lock;
use crate::network::member::Member;
use crate::network::topology::{End, NetworkConfig};

doorbell_sim::stats! {
    /// What a direction of a link counts beside its link.
    pub struct WireStats {
        /// Frames that reached the far end.
        delivered,
        /// Frames that reached a node that is switched off.
        unreceived,
    }
}

/// A direction of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct Wire {
    /// The link's name.
    pub link: String,
    /// The sending member, and its port.
    pub(crate) from: (usize, u8),
    /// The receiving member, and its port.
    pub(crate) to: (usize, u8),
    pub(crate) stats: WireStats,
}

impl Wire {
    /// What it has counted.
    pub fn stats(&self) -> &WireStats {
        &self.stats
    }
}

/// A capture that puts the frames of both directions in order.
struct Capture {
    file: PcapFile,
    /// Frames by arrival, the end that sent them, and a number.
    held: BTreeMap<(Ps, usize, u64), Frame>,
    taken: u64,
}

/// All links, and the windows in which their ends run.
pub(crate) struct Fabric {
    pub lookahead: Ps,
    /// Windows that are over.
    pub windows: u64,
    wires: Vec<Wire>,
    /// By link.
    captures: BTreeMap<usize, Capture>,
    /// By link, where they are followed.
    flows: BTreeMap<usize, FlowCounters>,
}

impl Fabric {
    pub fn new(config: &NetworkConfig) -> Fabric {
        let (nodes, switches) = (config.nodes.len(), config.switches.len());
        let mut ports = vec![0; switches];
        let mut place = |end: End| match end {
            End::Node { node, port } => (node, port),
            End::Switch(switch) => {
                ports[switch] += 1;
                (nodes + switch, ports[switch] - 1)
            }
            End::Generator(generator) => (nodes + switches + generator, 0),
        };
        let mut wires = Vec::new();
        for link in &config.links {
            let [one, other] = link.ends.map(&mut place);
            for (from, to) in [(one, other), (other, one)] {
                wires.push(Wire { link: link.name.clone(), from, to, stats: WireStats::default() });
            }
        }
        Fabric {
            lookahead: config.lookahead(),
            windows: 0,
            wires,
            captures: BTreeMap::new(),
            flows: BTreeMap::new(),
        }
    }

    pub fn wires(&self) -> &[Wire] {
        &self.wires
    }

    pub fn wires_mut(&mut self) -> &mut [Wire] {
        &mut self.wires
    }

    /// A link's directions, by the end that sends.
    pub fn both_ways(&self, link: usize) -> &[Wire] {
        &self.wires[2 * link..2 * link + 2]
    }

    pub fn follow_flows(&mut self, link: usize) {
        self.flows.entry(link).or_default();
    }

    /// Ports of the link's first end that are counted by themselves, of a link whose flows are followed.
    pub fn watch_ports(&mut self, link: usize, ports: &[u16]) {
        self.flows.entry(link).or_default().watch_ports(ports.iter().copied());
    }

    /// What TCP and UDP have sent over a link, if that is followed.
    pub fn flows(&self, link: usize) -> Option<&FlowCounters> {
        self.flows.get(&link)
    }

    /// The ports of a member at which links end.
    pub fn ports_of(&self, member: usize) -> Vec<u8> {
        let own = self.wires.iter().filter(|wire| wire.from.0 == member);
        own.map(|wire| wire.from.1).collect()
    }

    /// What a member sends into, by port.
    pub fn links_of(&self, config: &NetworkConfig, member: usize) -> Vec<LinkConfig> {
        let own = self.wires.iter().enumerate().filter(|(_, wire)| wire.from.0 == member);
        own.map(|(index, _)| config.links[index / 2].directions[index % 2].clone()).collect()
    }

    pub fn capture(&mut self, link: usize, file: PcapFile) {
        self.captures.insert(link, Capture { file, held: BTreeMap::new(), taken: 0 });
    }

    pub fn finish_captures(&mut self, members: &[Member]) -> Result<Vec<(usize, u64)>, PcapError> {
        let captures = std::mem::take(&mut self.captures);
        let finish = |(link, mut capture): (usize, Capture)| {
            for (end, wire) in self.both_ways(link).iter().enumerate() {
                let waiting = members[wire.from.0].peek(wire.from.1);
                waiting.iter().for_each(|crossing| capture.take(end, crossing));
            }
            capture.write_until(Ps::MAX);
            Ok((link, capture.file.finish()?))
        };
        captures.into_iter().map(finish).collect()
    }

    /// At the end of a window the frames sent in it change sides.
    pub fn exchange(&mut self, members: &[Mutex<Member>], now: Ps) {
        for (index, wire) in self.wires.iter_mut().enumerate() {
            let (link, end) = (index / 2, index % 2);
            let mut sent = std::mem::take(lock(&members[wire.from.0]).sent(wire.from.1));
            if sent.is_empty() {
                continue;
            }
            let mut receiver = lock(&members[wire.to.0]);
            for crossing in sent.drain(..) {
                if let Some(capture) = self.captures.get_mut(&link) {
                    capture.take(end, &crossing);
                }
                if let Some(flows) = self.flows.get_mut(&link) {
                    flows.take(end, &crossing.frame);
                }
                assert!(crossing.arrives_at > now, "a frame overtakes the look-ahead");
                match receiver.deliver(wire.to.1, crossing) {
                    true => wire.stats.delivered += 1,
                    false => wire.stats.unreceived += 1,
                }
            }
            drop(receiver);
            // The emptied vector goes back, with its memory.
            *lock(&members[wire.from.0]).sent(wire.from.1) = sent;
        }
        for capture in self.captures.values_mut() {
            // What is sent from now on arrives later than this.
            capture.write_until(now.saturating_add(self.lookahead));
        }
    }
}

impl Capture {
    fn take(&mut self, end: usize, crossing: &Crossing) {
        self.held.insert((crossing.arrives_at, end, self.taken), crossing.frame.clone());
        self.taken += 1;
    }

    fn write_until(&mut self, time: Ps) {
        while let Some(entry) = self.held.first_entry().filter(|entry| entry.key().0 <= time) {
            let ((stamp, ..), frame) = entry.remove_entry();
            self.file.record(stamp, &frame);
        }
    }
}
