//! Sharing between harts: cache-to-cache transfers, ping-pong, and false sharing.
//!
//! A miss on a line that another hart's store invalidated is a *sharing miss*. It is a *true* one if
//! others have written the requested word since, else a *false* one (Torrellas, Lam and Hennessy, "False
//! Sharing and Spatial Locality in Multiprocessor Caches", IEEE Transactions on Computers 43(6), 1994).
//! *Ping-pong* is when a hart gets a line for writing and was its last owner but one. Words have eight bytes,
//! and an access counts for the word in which it starts.
//!
//! A line is watched from the first time one hart takes it from another; store hits to it are then recorded
//! too. The counting changes no timing and no tags.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ProbeResult;
use super::sharers::bits;
use super::stats::SharingStats;
use crate::class::DataClass;
use crate::paged::Paged;

/// No hart.
const NO_HART: u8 = u8::MAX;

/// Sharing history of a watched line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Watched {
    /// The last owner (with write permission) and the one before.
    owners: [u8; 2],
    /// Bit mask of the harts that lost the line to a store and have not regained it.
    lost: u64,
    /// For each hart, the words that others have written since it lost the line.
    written: Vec<u8>,
}

/// Sharing history of all watched lines; see the module.
#[derive(Clone, Debug)]
pub(crate) struct Sharing {
    harts: usize,
    /// Whether a line is watched, a bit per line; filters look-ups in `lines`.
    is_watched: Paged<u64>,
    lines: BTreeMap<u32, Watched>,
}

/// Saved state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SharingState {
    lines: BTreeMap<u32, Watched>,
}

/// A hart's request at the LLC, as far as it matters here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharingRequest {
    pub hart: usize,
    pub line: u32,
    /// Bit mask of the words of the line that it accesses.
    pub words: u8,
    pub own: bool,
    /// A demand access, not a prefetch.
    pub demand: bool,
    pub class: DataClass,
}

/// Bit of the word in the line that an address belongs to.
#[inline]
pub(crate) fn word(addr: doorbell_sim::PhysAddr) -> u8 {
    1 << (addr.0 / 8 % 8)
}

impl Sharing {
    /// No watched lines, for `harts` harts and RAM of `lines` lines.
    pub fn new(harts: usize, lines: u32) -> Sharing {
        let is_watched = Paged::new((lines as usize).div_ceil(64));
        Sharing { harts, is_watched, lines: BTreeMap::new() }
    }

    /// Whether a line is watched. Fast when no line is shared.
    #[inline]
    pub fn watches(&self, line: u32) -> bool {
        !self.lines.is_empty() && self.is_watched.get(line as usize / 64) >> (line % 64) & 1 != 0
    }

    /// Records a request at the LLC; `peers` are the copies in other harts' caches.
    #[inline]
    pub fn record_request(&mut self, request: SharingRequest, peers: &ProbeResult, stats: &mut SharingStats) {
        let taken = peers.present && (request.own || peers.dirty);
        if taken || self.watches(request.line) {
            self.record(request, peers, stats);
        }
    }

    #[inline(never)]
    fn record(&mut self, request: SharingRequest, peers: &ProbeResult, stats: &mut SharingStats) {
        let SharingRequest { hart, line, words, own, demand, class } = request;
        *self.is_watched.at(line as usize / 64) |= 1 << (line % 64);
        let owner = if peers.owned { peers.harts.trailing_zeros() as u8 } else { NO_HART };
        let first = || Watched { owners: [owner, NO_HART], lost: 0, written: vec![0; self.harts] };
        let watched = self.lines.entry(line).or_insert_with(first);
        if watched.lost >> hart & 1 != 0 {
            watched.lost &= !(1 << hart);
            if demand {
                match watched.written[hart] & words {
                    0 => stats.false_sharing(class),
                    _ => stats.true_sharing(class),
                }
            }
        }
        if !own {
            return;
        }
        for other in bits(peers.harts) {
            watched.lost |= 1 << other;
            watched.written[other] = 0;
        }
        if watched.owners[0] != hart as u8 {
            if watched.owners[1] == hart as u8 {
                stats.ping_pong(class);
            }
            watched.owners = [hart as u8, watched.owners[0]];
        }
        if demand {
            watched.write(hart, words);
        }
    }

    /// Records a store that hits a watched line.
    pub fn record_store(&mut self, hart: usize, line: u32, words: u8) {
        if let Some(watched) = self.lines.get_mut(&line) {
            watched.write(hart, words);
        }
    }

    /// Records that a device has written the line.
    #[inline]
    pub fn record_device_write(&mut self, line: u32) {
        if self.watches(line)
            && let Some(watched) = self.lines.get_mut(&line)
        {
            watched.write(usize::from(NO_HART), u8::MAX);
        }
    }

    pub fn save(&self) -> SharingState {
        SharingState { lines: self.lines.clone() }
    }

    /// Checks a saved state for a memory of `lines` lines.
    pub fn check(&self, state: &SharingState, lines: u32) -> Result<(), String> {
        let harts = self.harts;
        for (line, watched) in &state.lines {
            let valid = |owner: u8| owner == NO_HART || usize::from(owner) < harts;
            let lost = harts == 64 || watched.lost >> harts == 0;
            if *line >= lines
                || !lost
                || watched.written.len() != harts
                || !watched.owners.iter().all(|&o| valid(o))
            {
                return Err(format!("line {line} is out of range or shared by harts that do not exist"));
            }
        }
        Ok(())
    }

    pub fn restore(&mut self, state: SharingState) {
        self.is_watched.clear();
        state.lines.keys().for_each(|&line| *self.is_watched.at(line as usize / 64) |= 1 << (line % 64));
        self.lines = state.lines;
    }
}

impl Watched {
    /// Records a write of some words by a hart or a device.
    fn write(&mut self, hart: usize, words: u8) {
        bits(self.lost).filter(|&other| other != hart).for_each(|other| self.written[other] |= words);
    }
}
