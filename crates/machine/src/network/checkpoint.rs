//! Checkpoints of a network: its machines' own checkpoints, its switches and generators, and what is on the links between them,
//! behind one hash. The same rules hold as for one machine. Under other link latencies frames on the links arrive when they
//! would have arrived under the old ones, and all members must have come equally far, which
//! [`Network::run`] to [`Network::now`] brings about.

use std::path::Path;

use doorbell_sim::Ps;
use doorbell_sim::snapshot::SnapshotError;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::checkpoint::{CheckpointError, CheckpointFile};
use crate::config::AHEAD_MAX;
use crate::network::member::{Member, Node};
use crate::network::wire::WireStats;
use crate::network::{Crossing, Network};

const MAGIC: &[u8; 16] = b"DOORBELL NET\r\n\x1a\0";
const VERSION: u32 = 2;
const HASH_AT: usize = MAGIC.len() + 4;
const PAYLOAD_AT: usize = HASH_AT + 8;
/// No saved moment lies beyond this: some fifty days of simulated time.
const LATEST: u128 = u64::MAX as u128 / 4;

/// A checkpoint of a network in memory: what stands in the file.
#[derive(Clone)]
pub struct NetworkCheckpoint {
    bytes: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
struct Body {
    state: State,
    /// Each as it saves itself.
    members: Vec<Vec<u8>>,
}

/// What is no member's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct State {
    lookahead: Ps,
    windows: u64,
    nodes: Vec<NodeState>,
    /// By direction, those of link n being the 2n-th and the next.
    wires: Vec<WireState>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct WireState {
    /// The members and ports that it joins.
    from: (usize, u8),
    to: (usize, u8),
    /// Frames on their way.
    frames: Vec<Crossing>,
    stats: WireStats,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct NodeState {
    reached: Ps,
    off: bool,
}

impl NetworkCheckpoint {
    /// Reads a file and checks that it is whole.
    pub fn read(path: &Path) -> Result<NetworkCheckpoint, CheckpointError> {
        let io = |error| CheckpointError::Io { action: "read", path: path.to_owned(), error };
        NetworkCheckpoint::from_bytes(doorbell_files::read(path).map_err(io)?)
    }

    /// Checks that bytes are a whole checkpoint of a network.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<NetworkCheckpoint, CheckpointError> {
        if !bytes.starts_with(MAGIC) {
            return Err(CheckpointError::NotACheckpoint);
        }
        let word = |at: usize| bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes);
        let found = word(MAGIC.len()).ok_or(CheckpointError::Damaged)?;
        if found != VERSION {
            return Err(CheckpointError::Version { found, reads: VERSION });
        }
        let hash = bytes.get(HASH_AT..PAYLOAD_AT).ok_or(CheckpointError::Damaged)?;
        if xxh3_64(&bytes[PAYLOAD_AT..]).to_le_bytes() != hash {
            return Err(CheckpointError::Damaged);
        }
        Ok(NetworkCheckpoint { bytes })
    }

    /// Writes the file; either the whole of it appears under `path` or nothing changes there.
    pub fn write(&self, path: &Path) -> Result<(), CheckpointError> {
        let io = |error| CheckpointError::Io { action: "write", path: path.to_owned(), error };
        doorbell_files::replace(path, &self.bytes).map_err(io)
    }

    /// The hash that the file carries, of everything behind it: two boots of the same guests have the same.
    pub fn hash(&self) -> u64 {
        let carried = self.bytes.get(..PAYLOAD_AT).and_then(|head| head.last_chunk());
        carried.map_or(0, |hash| u64::from_le_bytes(*hash))
    }

    /// A place for a checkpoint that is still to be made; it cannot be restored.
    pub fn empty() -> NetworkCheckpoint {
        NetworkCheckpoint { bytes: Vec::new() }
    }

    /// The file's contents.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
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

    /// Saves all members without disturbing them. `guests` names what runs in each node.
    pub fn checkpoint(&self, guests: &[&str], note: &str) -> NetworkCheckpoint {
        let bytes = |index: usize, member: &Member| match member {
            Member::Node(node) => node.machine.checkpoint(guests[index], note).bytes().to_vec(),
            Member::Switch(switch) => postcard::to_stdvec(&switch.save()).expect("a state serialises"),
            Member::Generator(generator) => {
                postcard::to_stdvec(&generator.save()).expect("a state serialises")
            }
        };
        let members = self.members.iter().enumerate().map(|(index, member)| bytes(index, member)).collect();
        let body = postcard::to_stdvec(&Body { state: self.state(), members }).expect("a state serialises");
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&xxh3_64(&body).to_le_bytes());
        bytes.extend_from_slice(&body);
        NetworkCheckpoint { bytes }
    }

    /// Takes up a checkpoint in a network that has just been built.
    pub fn restore(&mut self, file: &NetworkCheckpoint, guests: &[&str]) -> Result<(), CheckpointError> {
        let body = postcard::from_bytes(file.bytes.get(PAYLOAD_AT..).unwrap_or_default());
        let Body { state, members } = body.map_err(|_| CheckpointError::Damaged)?;
        if members.len() != self.members.len() || state.nodes.len() != self.config.nodes.len() {
            let problem = "it has other nodes, switches or load generators";
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
        self.take_up(state).map_err(|problem| inconsistent(problem).into())
    }

    /// Takes up what is not the members' own, if it fits them. The run loop relies on all that is checked here.
    fn take_up(&mut self, state: State) -> Result<(), &'static str> {
        let wires = self.fabric.wires();
        let same = |(wire, saved): (&super::Wire, &WireState)| (wire.from, wire.to) == (saved.from, saved.to);
        if wires.len() != state.wires.len() || !wires.iter().zip(&state.wires).all(same) {
            return Err("its links join other ends");
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
            return Err("a frame arrives in the past");
        }
        for (member, saved) in self.members.iter_mut().zip(&state.nodes) {
            let Member::Node(node) = member else { break };
            (node.reached, node.off) = (saved.reached, saved.off);
            if !node.off && !lies_in(node, begin, end) {
                return Err("a node lies in the past or in the future");
            }
        }
        if self.members.iter().any(|member| u128::from(member.next_activity().0) < begin) {
            return Err("a switch or a load generator lies in the past");
        }
        for (wire, WireState { frames, stats, .. }) in self.fabric.wires_mut().iter_mut().zip(state.wires) {
            wire.stats = stats;
            *self.members[wire.from.0].sent(wire.from.1) = frames;
        }
        if state.lookahead == self.fabric.lookahead {
            self.fabric.windows = state.windows;
            return Ok(());
        }
        self.begin_other_windows()
    }

    /// Other windows begin where all members are.
    fn begin_other_windows(&mut self) -> Result<(), &'static str> {
        let nodes = (0..self.config.nodes.len()).map(|node| self.inner(node)).filter(|node| !node.off);
        let reached: Vec<Ps> =
            nodes.map(|node| node.reached).chain(self.generators().map(|own| own.now())).collect();
        let present = reached.first().copied().unwrap_or(Ps::ZERO);
        if reached.iter().any(|other| *other != present) {
            return Err("a link's latency is another one, and the members have not come equally far");
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

/// The end of the window in which a network was saved: no member has come farther.
fn present(state: &State) -> Result<Ps, &'static str> {
    let end = u128::from(state.lookahead.0) * (u128::from(state.windows) + 1);
    match state.lookahead == Ps::ZERO || end > LATEST {
        true => Err("its time is impossible"),
        false => Ok(Ps(end as u64)),
    }
}

/// Whether a node is within the window.
fn lies_in(node: &Node, begin: u128, end: u128) -> bool {
    let (machine, reached) = (&node.machine, u128::from(node.reached.0));
    // Its harts may be ahead, its events not.
    let latest = [machine.reached.saturating_sub(AHEAD_MAX), machine.queue.now()];
    let present = (begin..=end).contains(&reached) && latest.iter().all(|time| u128::from(time.0) <= end);
    present && u128::from(machine.next_activity().0) >= begin
}
