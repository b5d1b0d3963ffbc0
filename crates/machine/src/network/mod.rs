//! Network simulation: whole machines (nodes), each with its own RAM, harts and NICs, and load generators and
//! switches, connected by links. It runs in one process, and the result does not depend on the number of
//! threads. Each node has its own configuration, with or without timing models.
//!
//! Each direction of a link has the rate, latency and faults that its sending end configures. The shortest
//! link latency is the look-ahead. A frame sent within a window of that length arrives only after the window,
//! so members do not affect each other within a window and run in parallel ([`crew`]). Windows start at
//! multiples of the look-ahead, and frames are exchanged only at these times. The simulation therefore does
//! not depend on where a run is stopped and continued. Windows without activity are skipped.
//!
//! | File | Contents |
//! |---|---|
//! | `topology` | configuration of a network, and its validation |
//! | `member`, `crew` | common interface of the members, and the threads that run them |
//! | `switch`, `generator` | members other than machines |
//! | `wire` | links between members: frames in flight, counters, captures |
//! | `checkpoint` | saved state |

use std::collections::BTreeMap;
use std::sync::Mutex;

use doorbell_sim::rng::Rng;
use doorbell_sim::{Frame, Ps, log};
use doorbell_wire::flows::{Carried, FlowCounters};
use doorbell_wire::pcap::{PcapError, PcapFile};
use serde::{Deserialize, Serialize};

use crate::boot::{BootError, Guest};
use crate::config::ConfigError;
use crate::machine::Machine;
use crate::run::{Limits, Outcome};

mod checkpoint;
mod crew;
mod generator;
mod member;
mod switch;
#[cfg(test)]
mod tests;
mod topology;
mod wire;

pub use checkpoint::NetworkCheckpoint;
pub use generator::Generator;
pub use switch::{Output, OutputStats, Switch, SwitchConfig, SwitchStats};
pub use topology::{End, LinkPlan, NetworkConfig, node_config};
pub use wire::{Wire, WireStats};

use crew::{MemberOutcomes, lock, with_threads};
use member::{Member, Node};
use wire::Fabric;

/// A frame between two members.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Crossing {
    pub arrives_at: Ps,
    pub frame: Frame,
}

/// Why a network's run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkOutcome {
    /// The time limit was reached.
    Time,
    /// All nodes sleep or are off, and no event is pending. Time has advanced to the limit.
    Asleep,
    /// The runs of these nodes ended, each with its outcome. A node does not run again after a power-off or a
    /// reset; after other outcomes the run can be continued.
    Nodes(Vec<(usize, Outcome)>),
}

/// Machines, switches and load generators on links.
pub struct Network {
    config: NetworkConfig,
    /// Nodes, then switches, then generators.
    members: Vec<Member>,
    fabric: Fabric,
    /// Host threads that run the members.
    threads: usize,
}

/// Difference between the seeds of consecutive nodes. It is large, so that runs with consecutive seeds have
/// no node seed in common.
const SEED_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Network {
    /// Builds all members.
    pub fn new(config: NetworkConfig, seed: u64) -> Result<Network, ConfigError> {
        config.validate()?;
        let fabric = Fabric::new(&config);
        let mut members = Vec::new();
        for (index, (_, node)) in config.nodes.iter().enumerate() {
            let own = seed.wrapping_add((index as u64).wrapping_mul(SEED_STEP));
            let mut machine = Machine::new(node.clone(), own)?;
            for port in fabric.ports_of(index) {
                machine.ports[usize::from(port)].cable = Some(Vec::new());
            }
            let node = Node { index: index as u8, machine, reached: Ps::ZERO, off: false };
            members.push(Member::Node(Box::new(node)));
        }
        for (name, switch) in &config.switches {
            let links = fabric.links_of(&config, members.len());
            members.push(Member::Switch(Box::new(Switch::new(name, switch, links, seed)?)));
        }
        for (index, (name, generator)) in config.generators.iter().enumerate() {
            let link = fabric.links_of(&config, members.len()).pop().expect("a generator has a link");
            members.push(Member::Generator(Box::new(Generator::new(index, name, generator, link, seed)?)));
        }
        Ok(Network { config, members, fabric, threads: 1 })
    }

    /// Sets the number of host threads that run members. It does not affect results.
    pub fn set_threads(&mut self, threads: usize) {
        self.threads = threads.max(1);
    }

    /// Loads one guest into each node.
    pub fn load<'a>(&mut self, guests: impl IntoIterator<Item = &'a Guest>) -> Result<(), BootError> {
        let guests = guests.into_iter();
        (0..self.config.nodes.len()).zip(guests).try_for_each(|(node, guest)| self.node_mut(node).load(guest))
    }

    /// The configuration.
    pub fn config(&self) -> &NetworkConfig {
        &self.config
    }

    /// A node.
    pub fn node(&self, node: usize) -> &Machine {
        &self.inner(node).machine
    }

    /// The nodes.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &Machine> {
        (0..self.config.nodes.len()).map(|node| self.node(node))
    }

    /// A node, to access its console, keyboard and mode. Only the network may run it.
    pub fn node_mut(&mut self, node: usize) -> &mut Machine {
        match &mut self.members[node] {
            Member::Node(node) => &mut node.machine,
            _ => panic!("a network's first members are its nodes"),
        }
    }

    fn inner(&self, node: usize) -> &Node {
        match &self.members[node] {
            Member::Node(node) => node,
            _ => panic!("a network's first members are its nodes"),
        }
    }

    /// Whether a node has been switched off.
    pub fn is_off(&self, node: usize) -> bool {
        self.inner(node).off
    }

    /// The switches.
    pub fn switches(&self) -> impl Iterator<Item = &Switch> {
        self.members.iter().filter_map(|member| match member {
            Member::Switch(switch) => Some(&**switch),
            _ => None,
        })
    }

    /// The load generators that are members of the network.
    pub fn generators(&self) -> impl Iterator<Item = &Generator> {
        self.members.iter().filter_map(|member| match member {
            Member::Generator(generator) => Some(&**generator),
            _ => None,
        })
    }

    /// The same, mutable, to set their traffic.
    pub fn generators_mut(&mut self) -> impl Iterator<Item = &mut Generator> {
        self.members.iter_mut().filter_map(|member| match member {
            Member::Generator(generator) => Some(&mut **generator),
            _ => None,
        })
    }

    /// All link directions: those of link n have the indexes 2n and 2n + 1.
    pub fn wires(&self) -> &[Wire] {
        self.fabric.wires()
    }

    /// The link of a direction, with its transmit counters.
    pub fn link(&self, wire: &Wire) -> &doorbell_wire::Link {
        self.members[wire.from.0].link(wire.from.1)
    }

    /// Random-number streams of the link faults, per direction.
    pub fn fault_streams(&self) -> Vec<Rng> {
        self.wires().iter().map(|wire| self.link(wire).fault_stream().clone()).collect()
    }

    /// Sets the random-number streams of the link faults.
    ///
    /// # Panics
    ///
    /// If the number of streams differs from the number of directions.
    pub fn set_fault_streams(&mut self, streams: Vec<Rng>) {
        assert_eq!(streams.len(), self.wires().len(), "one stream per direction");
        for ((member, port), stream) in self.senders().into_iter().zip(streams) {
            self.members[member].link_mut(port).set_fault_stream(stream);
        }
    }

    /// Disables or enables link faults.
    pub fn disable_link_faults(&mut self, disabled: bool) {
        for (member, port) in self.senders() {
            self.members[member].link_mut(port).disable_faults(disabled);
        }
    }

    /// The member and port that send into each direction.
    fn senders(&self) -> Vec<(usize, u8)> {
        self.wires().iter().map(|wire| wire.from).collect()
    }

    /// Directions whose sender is a switch or a load generator, each with a name.
    pub fn non_node_wires(&self) -> impl Iterator<Item = (String, &doorbell_wire::Link)> {
        self.config.links.iter().zip(self.wires().chunks(2)).flat_map(|(plan, both)| {
            (0..2).filter(|end| !matches!(plan.ends[*end], End::Node { .. })).map(|end| {
                let [from, to] = [plan.ends[end], plan.ends[1 - end]].map(|end| self.config.name(end));
                (format!("{}: {from} > {to}", plan.name), self.link(&both[end]))
            })
        })
    }

    /// Frames of a direction that were sent but not yet passed to the receiver.
    fn crossing(&self, wire: &Wire) -> &[Crossing] {
        self.members[wire.from.0].peek(wire.from.1)
    }

    /// Starts tracking TCP and UDP flows on a link. Observer: checkpoints do not contain it.
    pub fn follow_flows(&mut self, link: usize) {
        self.fabric.follow_flows(link);
    }

    /// Also counts traffic from and to these TCP and UDP ports of a link's first end separately. Observer.
    pub fn follow_ports(&mut self, link: usize, ports: &[u16]) {
        self.fabric.watch_ports(link, ports);
    }

    /// TCP and UDP traffic sent by each end of a link since flow tracking began, without lost frames; `None`
    /// if flows are not tracked.
    pub fn carried(&self, link: usize) -> Option<[Carried; 2]> {
        self.flows(link).map(|flows| flows.carried)
    }

    /// The same, per tracked port of the link's first end.
    pub fn carried_by_port(&self, link: usize) -> BTreeMap<u16, [Carried; 2]> {
        self.flows(link).map_or_else(BTreeMap::new, |flows| flows.by_port)
    }

    /// Flow counters of a link, including frames not yet passed to the receiver.
    fn flows(&self, link: usize) -> Option<FlowCounters> {
        let mut flows = self.fabric.flows(link)?.clone();
        for (end, wire) in self.fabric.wires_of_link(link).iter().enumerate() {
            self.crossing(wire).iter().for_each(|crossing| flows.take(end, &crossing.frame));
        }
        Some(flows)
    }

    /// Members that still hold undelivered frames, by name, with their number.
    pub fn holding(&self) -> Vec<(&str, u64)> {
        let NetworkConfig { nodes, switches, generators, .. } = &self.config;
        let nodes = nodes.iter().map(|(name, _)| name.as_str());
        let names = nodes.chain(switches.iter().map(|(name, _)| name.as_str()));
        let names = names.chain(generators.iter().map(|(name, _)| name.as_str()));
        let held = names.zip(self.members.iter().map(Member::frames_inside));
        held.filter(|(_, frames)| *frames > 0).collect()
    }

    /// Begins a measurement window at switches, load generators and timed nodes.
    pub fn begin_window(&mut self) {
        for member in &mut self.members {
            match member {
                Member::Node(node) => node.machine.begin_window(),
                Member::Switch(switch) => switch.begin_window(),
                Member::Generator(generator) => generator.begin_window(),
            }
        }
    }

    /// Starts hashing the frames on all wires for the fingerprint: at the ports of all nodes and on all
    /// links. Observer: it does not change the state.
    pub fn start_wire_hashes(&mut self) {
        (0..self.config.nodes.len()).for_each(|node| self.node_mut(node).start_wire_hashes());
        for wire in self.fabric.wires() {
            let (member, port) = wire.from;
            if member >= self.config.nodes.len() {
                self.members[member].link_mut(port).start_hash();
            }
        }
    }

    /// Time of the member that is furthest ahead.
    pub fn now(&self) -> Ps {
        let nodes = self.nodes().map(Machine::now);
        nodes.chain(self.generators().map(Generator::now)).max().unwrap_or(Ps::ZERO)
    }

    /// Latest time up to which all nodes and generators have handled all events; see
    /// [`Machine::complete_until`].
    pub fn complete_until(&self) -> Ps {
        let nodes = self.nodes().map(Machine::complete_until);
        nodes.chain(self.generators().map(Generator::now)).min().unwrap_or(Ps::ZERO)
    }

    /// Instructions retired by all nodes.
    pub fn instructions(&self) -> u64 {
        self.nodes().map(Machine::instructions).sum()
    }

    /// Captures both directions of a link, with arrival times. Lost frames are not captured. Observer.
    pub fn capture(&mut self, link: usize, file: PcapFile) {
        self.fabric.capture(link, file);
    }

    /// Ends all captures. Returns their number of frames per link.
    pub fn finish_captures(&mut self) -> Result<Vec<(usize, u64)>, PcapError> {
        let Network { members, fabric, .. } = self;
        fabric.finish_captures(members)
    }

    /// Runs all members until a limit is reached or a node's run ends; then the other members run to the end
    /// of the window. The instruction limit is ignored.
    pub fn run(&mut self, limits: &Limits) -> NetworkOutcome {
        // With several threads, log lines would be out of order.
        let threads = if log::any_enabled() { 1 } else { self.threads };
        self.shared(|fabric, members| {
            with_threads(threads, members, limits, |run| run_windows(fabric, members, limits, run))
        })
    }

    /// Calls a function that can share the members among threads.
    fn shared<R>(&mut self, call: impl FnOnce(&mut Fabric, &[Mutex<Member>]) -> R) -> R {
        let members: Vec<Mutex<Member>> = self.members.drain(..).map(Mutex::new).collect();
        let result = call(&mut self.fabric, &members);
        let taken = members.into_iter().map(|member| member.into_inner().expect("no thread has panicked"));
        self.members.extend(taken);
        result
    }

    /// Asserts that all frames are accounted for, in all members and on the links.
    pub fn check_conservation(&self) {
        for member in &self.members {
            match member {
                Member::Node(node) => node.machine.check_conservation(),
                Member::Switch(switch) => switch.check_conservation(),
                Member::Generator(generator) => generator.loadgen().assert_conservation(),
            }
        }
        for wire in self.fabric.wires() {
            let link = self.link(wire).stats();
            let there = wire.stats().delivered + wire.stats().unreceived + self.crossing(wire).len() as u64;
            assert_eq!(link.frames - link.lost, there, "frames on link {}", wire.link);
        }
        for (index, switch) in self.switches().enumerate() {
            let member = self.config.nodes.len() + index;
            let given = self.fabric.wires().iter().filter(|wire| wire.to.0 == member);
            let given: u64 = given.map(|wire| wire.stats().delivered).sum();
            assert_eq!(
                given,
                switch.stats().arrived + switch.arriving(),
                "frames to switch {}",
                switch.name()
            );
        }
    }
}

/// Runs the network window by window; `run` runs all members up to a time.
fn run_windows(
    fabric: &mut Fabric,
    members: &[Mutex<Member>],
    limits: &Limits,
    run: &mut dyn FnMut(Ps) -> MemberOutcomes,
) -> NetworkOutcome {
    loop {
        let end = Ps(fabric.lookahead.0.saturating_mul(fabric.windows + 1));
        let until = end.min(limits.time);
        let ended = run(until);
        if !ended.is_empty() {
            return NetworkOutcome::Nodes(ended);
        }
        if until == end {
            fabric.exchange(members, end);
            fabric.windows += 1;
            let next = members.iter().map(|member| lock(member).next_activity()).min().unwrap_or(Ps::MAX);
            let present = match next {
                Ps::MAX if limits.time == Ps::MAX => return NetworkOutcome::Asleep,
                Ps::MAX => limits.time,
                next => Ps(next.min(limits.time).0 / fabric.lookahead.0 * fabric.lookahead.0).max(end),
            };
            fabric.windows = present.0 / fabric.lookahead.0;
            // Console input at an idle node must take effect at the present time.
            members.iter().for_each(|member| lock(member).reach(present));
            if next == Ps::MAX {
                return NetworkOutcome::Asleep;
            }
        }
        if until == limits.time {
            return NetworkOutcome::Time;
        }
    }
}
