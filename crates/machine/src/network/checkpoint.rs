//! Checkpoint of a network: the checkpoints of its machines, the state of switches and generators, and the
//! frames on links, protected by one hash. The rules are those of a machine's checkpoint. With other link
//! latencies, frames on links keep their arrival times, and all members must be at the same time. A
//! [`Network::run`] to [`Network::now`] before saving ensures this.

use doorbell_sim::Ps;
use doorbell_sim::snapshot::SnapshotError;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::checkpoint::{CheckpointError, CheckpointFile};
use crate::checkpoint_file::{File, Format};
use crate::config::AHEAD_MAX;
use crate::network::member::{Member, Node};
use crate::network::wire::WireStats;
use crate::network::{Crossing, Network};

/// Latest valid time in a checkpoint: about fifty days of simulated time.
const LATEST: u128 = u64::MAX as u128 / 4;

/// Format of a network's checkpoint.
pub struct NetworkFormat;

impl Format for NetworkFormat {
    const MAGIC: &'static [u8; 16] = b"DOORBELL NET\r\n\x1a\0";
    const VERSION: u32 = 2;
    const BYTES_MAX: u64 = u64::MAX;
}

/// A network's checkpoint in memory.
pub type NetworkCheckpoint = File<NetworkFormat>;

#[derive(Serialize, Deserialize)]
struct Body {
    state: State,
    /// Saved state of each member, in its own format.
    members: Vec<Vec<u8>>,
}

/// State that belongs to no member: window, node progress and links.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct State {
    lookahead: Ps,
    windows: u64,
    nodes: Vec<NodeState>,
    /// Link directions: those of link n have the indexes 2n and 2n + 1.
    wires: Vec<WireState>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct WireState {
    /// Sending and receiving member, each with its port.
    from: (usize, u8),
    to: (usize, u8),
    /// Frames in flight.
    frames: Vec<Crossing>,
    stats: WireStats,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct NodeState {
    reached: Ps,
    off: bool,
}

impl Network {
    fn state(&self) -> State {
        let nodes = (0..self.config.nodes.len()).map(|node| self.inner(node));
        let wires = self.fabric.wires().iter();
        State {
            lookahead: self.fabric.lookahead,
            windows: self.fabric.windows,
            nodes: nodes.map(|node| NodeState { reached: node.reached, off: node.off }).collect(),
            wires: wires
                .map(|wire| WireState {
                    from: wire.from,
                    to: wire.to,
                    frames: self.crossing(wire).to_vec(),
                    stats: wire.stats.clone(),
                })
                .collect(),
        }
    }

    /// Saves all members without changing them. `guests` has the name of each node's guest.
    pub fn checkpoint(&self, guests: &[&str], note: &str) -> NetworkCheckpoint {
        let bytes = |index: usize, member: &Member| match member {
            Member::Node(node) => node.machine.checkpoint(guests[index], note).bytes().to_vec(),
            Member::Switch(switch) => postcard::to_stdvec(&switch.save()).expect("a state serialises"),
            Member::Generator(generator) => {
                postcard::to_stdvec(&generator.save()).expect("a state serialises")
            }
        };
        let members = self.members.iter().enumerate().map(|(index, member)| bytes(index, member)).collect();
        let body = Body { state: self.state(), members };
        let bytes = postcard::to_extend(&body, NetworkCheckpoint::begin()).expect("a state serialises");
        NetworkCheckpoint::seal(bytes)
    }

    /// Restores a checkpoint into a network that has just been built.
    pub fn restore(&mut self, file: &NetworkCheckpoint, guests: &[&str]) -> Result<(), CheckpointError> {
        let body = postcard::from_bytes(file.payload());
        let Body { state, members } = body.map_err(|_| CheckpointError::Damaged)?;
        if members.len() != self.members.len() || state.nodes.len() != self.config.nodes.len() {
            let problem = "the number of nodes, switches or load generators differs";
            return Err(CheckpointError::OtherMachine(problem.to_owned()));
        }
        let present = present(&state).map_err(inconsistent)?;
        for (index, (member, bytes)) in self.members.iter_mut().zip(members).enumerate() {
            match member {
                Member::Node(node) => {
                    node.machine.restore(&CheckpointFile::from_bytes(bytes)?, guests[index])?
                }
                Member::Switch(switch) => switch.restore(read(&bytes)?, present)?,
                Member::Generator(generator) => generator.restore(read(&bytes)?, present)?,
            }
        }
        self.restore_links(state).map_err(|problem| inconsistent(problem).into())
    }

    /// Restores the window, node progress and links, and checks that they fit the members. The run loop
    /// relies on these checks.
    fn restore_links(&mut self, state: State) -> Result<(), &'static str> {
        let wires = self.fabric.wires();
        let same = |(wire, saved): (&super::Wire, &WireState)| (wire.from, wire.to) == (saved.from, saved.to);
        if wires.len() != state.wires.len() || !wires.iter().zip(&state.wires).all(same) {
            return Err("its links connect other members or ports");
        }
        let lookahead = u128::from(state.lookahead.0);
        let begin = lookahead * u128::from(state.windows);
        let end = begin + lookahead;
        let crossing = state
            .wires
            .iter()
            .flat_map(|wire| &wire.frames)
            .map(|crossing| u128::from(crossing.arrives_at.0));
        if crossing.clone().any(|arrives_at| arrives_at <= end || arrives_at > LATEST) {
            return Err("a frame on a link has an invalid arrival time");
        }
        for (member, saved) in self.members.iter_mut().zip(&state.nodes) {
            let Member::Node(node) = member else { break };
            (node.reached, node.off) = (saved.reached, saved.off);
            if !node.off && !is_in_window(node, begin, end) {
                return Err("a node's time is outside the saved window");
            }
        }
        if self.members.iter().any(|member| u128::from(member.next_activity().0) < begin) {
            return Err("a switch or load generator has an event before the saved window");
        }
        for (wire, WireState { frames, stats, .. }) in self.fabric.wires_mut().iter_mut().zip(state.wires) {
            wire.stats = stats;
            *self.members[wire.from.0].sent(wire.from.1) = frames;
        }
        if state.lookahead == self.fabric.lookahead {
            self.fabric.windows = state.windows;
            return Ok(());
        }
        self.restart_windows()
    }

    /// Changes to windows of another length, which start at the present time of all members.
    fn restart_windows(&mut self) -> Result<(), &'static str> {
        let nodes = (0..self.config.nodes.len()).map(|node| self.inner(node)).filter(|node| !node.off);
        let reached: Vec<Ps> =
            nodes.map(|node| node.reached).chain(self.generators().map(|own| own.now())).collect();
        let present = reached.first().copied().unwrap_or(Ps::ZERO);
        if reached.iter().any(|other| *other != present) {
            return Err(
                "the link latencies differ and the members' times too; restore with the saved latencies",
            );
        }
        self.shared(|fabric, members| fabric.exchange(members, present));
        self.fabric.windows = present.0 / self.fabric.lookahead.0;
        Ok(())
    }

    /// A hash of the state of all members and links.
    pub fn state_hash(&self) -> u64 {
        let of_member = |member: &Member| match member {
            Member::Node(node) => node.machine.state_hash(),
            Member::Switch(switch) => hash(&switch.save()),
            Member::Generator(generator) => hash(&generator.save()),
        };
        let members: Vec<u64> = self.members.iter().map(of_member).collect();
        hash(&(members, self.state()))
    }
}

fn hash(state: &impl Serialize) -> u64 {
    xxh3_64(&postcard::to_stdvec(state).expect("a state serialises"))
}

fn read<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, CheckpointError> {
    postcard::from_bytes(bytes).map_err(|_| CheckpointError::Damaged)
}

fn inconsistent(problem: &str) -> SnapshotError {
    SnapshotError::Inconsistent { name: "network".to_owned(), problem: problem.to_owned() }
}

/// Returns the end of the window in which the network was saved. No member is beyond it.
fn present(state: &State) -> Result<Ps, &'static str> {
    let end = u128::from(state.lookahead.0) * (u128::from(state.windows) + 1);
    match state.lookahead == Ps::ZERO || end > LATEST {
        true => Err("its time is out of range"),
        false => Ok(Ps(end as u64)),
    }
}

/// Whether a node's time is within the window.
fn is_in_window(node: &Node, begin: u128, end: u128) -> bool {
    let (machine, reached) = (&node.machine, u128::from(node.reached.0));
    // The node's harts may be ahead of the window, its events may not.
    let latest = [machine.reached.saturating_sub(AHEAD_MAX), machine.queue.now()];
    let present = (begin..=end).contains(&reached) && latest.iter().all(|time| u128::from(time.0) <= end);
    present && u128::from(machine.next_activity().0) >= begin
}
