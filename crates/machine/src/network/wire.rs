//! Links between the members of a network: per direction, the frames sent in the present window, and counters
//! of those sent before. Captures and flow tracking are here as well.

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
    /// Receive counters of a link direction; transmit counters are in the link.
    pub struct WireStats {
        /// Frames that reached the far end.
        delivered,
        /// Frames that reached a node that is off.
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
    /// Receive counters.
    pub fn stats(&self) -> &WireStats {
        &self.stats
    }
}

/// Packet capture of both directions of a link, in order of arrival.
struct Capture {
    file: PcapFile,
    /// Frames not yet written, by arrival time, sending end and sequence number.
    pending: BTreeMap<(Ps, usize, u64), Frame>,
    taken: u64,
}

/// All links, and the progress in windows.
pub(crate) struct Fabric {
    pub lookahead: Ps,
    /// Number of windows completed.
    pub windows: u64,
    wires: Vec<Wire>,
    /// Active captures, by link.
    captures: BTreeMap<usize, Capture>,
    /// Flow counters, by link, if tracked.
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

    /// Both directions of a link, in the order of their sending ends.
    pub fn wires_of_link(&self, link: usize) -> &[Wire] {
        &self.wires[2 * link..2 * link + 2]
    }

    pub fn follow_flows(&mut self, link: usize) {
        self.flows.entry(link).or_default();
    }

    /// Also counts these TCP and UDP ports of the link's first end separately.
    pub fn watch_ports(&mut self, link: usize, ports: &[u16]) {
        self.flows.entry(link).or_default().watch_ports(ports.iter().copied());
    }

    /// Flow counters of a link, if tracked.
    pub fn flows(&self, link: usize) -> Option<&FlowCounters> {
        self.flows.get(&link)
    }

    /// Ports of a member that are connected to links.
    pub fn ports_of(&self, member: usize) -> Vec<u8> {
        let own = self.wires.iter().filter(|wire| wire.from.0 == member);
        own.map(|wire| wire.from.1).collect()
    }

    /// Configurations of the directions into which a member sends, by port.
    pub fn links_of(&self, config: &NetworkConfig, member: usize) -> Vec<LinkConfig> {
        let own = self.wires.iter().enumerate().filter(|(_, wire)| wire.from.0 == member);
        own.map(|(index, _)| config.links[index / 2].directions[index % 2].clone()).collect()
    }

    pub fn capture(&mut self, link: usize, file: PcapFile) {
        self.captures.insert(link, Capture { file, pending: BTreeMap::new(), taken: 0 });
    }

    pub fn finish_captures(&mut self, members: &[Member]) -> Result<Vec<(usize, u64)>, PcapError> {
        let captures = std::mem::take(&mut self.captures);
        let finish = |(link, mut capture): (usize, Capture)| {
            for (end, wire) in self.wires_of_link(link).iter().enumerate() {
                let waiting = members[wire.from.0].peek(wire.from.1);
                waiting.iter().for_each(|crossing| capture.take(end, crossing));
            }
            capture.write_until(Ps::MAX);
            Ok((link, capture.file.finish()?))
        };
        captures.into_iter().map(finish).collect()
    }

    /// Passes the frames sent in a window to their receivers, at the end of the window.
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
            // Returns the empty vector, to reuse its allocation.
            *lock(&members[wire.from.0]).sent(wire.from.1) = sent;
        }
        for capture in self.captures.values_mut() {
            // Frames sent from now on arrive later than this.
            capture.write_until(now.saturating_add(self.lookahead));
        }
    }
}

impl Capture {
    fn take(&mut self, end: usize, crossing: &Crossing) {
        self.pending.insert((crossing.arrives_at, end, self.taken), crossing.frame.clone());
        self.taken += 1;
    }

    fn write_until(&mut self, time: Ps) {
        while let Some(entry) = self.pending.first_entry().filter(|entry| entry.key().0 <= time) {
            let ((stamp, ..), frame) = entry.remove_entry();
            self.file.record(stamp, &frame);
        }
    }
}
