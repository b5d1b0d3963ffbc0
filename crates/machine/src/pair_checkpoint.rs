//! Checkpoints of two nodes: both machines' own checkpoints and what is on the cable between them, behind one hash.
//! The same rules hold as for one machine. Under another link latency frames on the cable arrive when they
//! would have arrived under the old one, and both nodes must have come equally far, which
//! [`Pair::run`] to [`Pair::now`] brings about.

use std::path::Path;

use doorbell_sim::Ps;
use doorbell_sim::snapshot::SnapshotError;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::checkpoint::{CheckpointError, CheckpointFile};
use crate::config::QUANTUM_MAX;
use crate::pair::{Pair, PairState};

const MAGIC: &[u8; 16] = b"DOORBELL PAIR\r\n\x1a";
const VERSION: u32 = 2;
const HASH_AT: usize = MAGIC.len() + 4;
const PAYLOAD_AT: usize = HASH_AT + 8;
/// No saved moment lies beyond this: some fifty days of simulated time.
const LATEST: u128 = u64::MAX as u128 / 4;

/// A checkpoint of two nodes in memory: what stands in the file.
#[derive(Clone)]
pub struct PairCheckpoint {
    bytes: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
struct Body {
    state: PairState,
    nodes: [Vec<u8>; 2],
}

impl PairCheckpoint {
    /// Reads a file and checks that it is whole.
    pub fn read(path: &Path) -> Result<PairCheckpoint, CheckpointError> {
        let io = |error| CheckpointError::Io { action: "read", path: path.to_owned(), error };
        PairCheckpoint::from_bytes(doorbell_files::read(path).map_err(io)?)
    }

    /// Checks that bytes are a whole checkpoint of two nodes.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<PairCheckpoint, CheckpointError> {
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
        Ok(PairCheckpoint { bytes })
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
    pub fn empty() -> PairCheckpoint {
        PairCheckpoint { bytes: Vec::new() }
    }

    /// The file's contents.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Pair {
    fn state(&self) -> PairState {
        PairState {
            lookahead: self.lookahead,
            windows: self.windows,
            reached: self.reached,
            crossing: [0, 1].map(|node| self.nodes[node].ports[0].cable.clone().unwrap_or_default()),
            off: self.off,
            stats: self.stats.clone(),
        }
    }

    /// Saves both nodes without disturbing them. `guests` names what runs in each.
    pub fn checkpoint(&self, guests: [&str; 2], note: &str) -> PairCheckpoint {
        let nodes = [0, 1].map(|node| self.nodes[node].checkpoint(guests[node], note).bytes().to_vec());
        let body = postcard::to_stdvec(&Body { state: self.state(), nodes }).expect("a state serialises");
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&xxh3_64(&body).to_le_bytes());
        bytes.extend_from_slice(&body);
        PairCheckpoint { bytes }
    }

    /// Takes up a checkpoint in a pair that has just been built.
    pub fn restore(&mut self, file: &PairCheckpoint, guests: [&str; 2]) -> Result<(), CheckpointError> {
        let Body { state, nodes } = postcard::from_bytes(file.bytes.get(PAYLOAD_AT..).unwrap_or_default())
            .map_err(|_| CheckpointError::Damaged)?;
        for (node, bytes) in nodes.into_iter().enumerate() {
            self.nodes[node].restore(&CheckpointFile::from_bytes(bytes)?, guests[node])?;
        }
        let problem = self.take_up(state).err();
        problem.map_or(Ok(()), |problem| {
            let (name, problem) = ("cable".to_owned(), problem.to_owned());
            Err(SnapshotError::Inconsistent { name, problem }.into())
        })
    }

    /// Takes up what is not the nodes' own, if it fits the nodes. The run loop relies on all that is checked here.
    fn take_up(&mut self, state: PairState) -> Result<(), &'static str> {
        let lookahead = u128::from(state.lookahead.0);
        let begin = lookahead * u128::from(state.windows);
        let end = begin + lookahead;
        if lookahead == 0 || end > LATEST {
            return Err("its time is impossible");
        }
        let crossing = state.crossing.iter().flatten().map(|crossing| u128::from(crossing.arrives_at.0));
        if crossing.clone().any(|arrives_at| arrives_at <= end || arrives_at > LATEST) {
            return Err("a frame arrives in the past");
        }
        let on = |node: &usize| !state.off[*node];
        for node in (0..2).filter(on) {
            let (machine, reached) = (&self.nodes[node], u128::from(state.reached[node].0));
            // A hart may be ahead of the others, by a block if it is timed: never by more than the longest quantum.
            let latest = [machine.reached.saturating_sub(QUANTUM_MAX), machine.queue.now()];
            let present =
                (begin..=end).contains(&reached) && latest.iter().all(|time| u128::from(time.0) <= end);
            if !present || u128::from(machine.next_activity().0) < begin {
                return Err("a node lies in the past or in the future");
            }
        }
        (self.off, self.stats, self.reached) = (state.off, state.stats, state.reached);
        for (node, frames) in state.crossing.into_iter().enumerate() {
            self.nodes[node].ports[0].cable = Some(frames);
        }
        if state.lookahead == self.lookahead {
            self.windows = state.windows;
            return Ok(());
        }
        // Other windows begin where both nodes are.
        let mut presents = (0..2).filter(|node| !self.off[*node]).map(|node| self.reached[node]);
        let present = presents.next().unwrap_or(Ps::ZERO);
        if presents.any(|other| other != present) {
            return Err("link.latency is another one, and one node has come farther than the other");
        }
        self.exchange(present);
        self.windows = present.0 / self.lookahead.0;
        Ok(())
    }

    /// A hash of the state of both nodes and the cable.
    pub fn state_hash(&self) -> u64 {
        let all = (self.nodes[0].state_hash(), self.nodes[1].state_hash(), self.state());
        xxh3_64(&postcard::to_stdvec(&all).expect("a state serialises"))
    }
}
