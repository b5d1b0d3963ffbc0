//! How harts use the same lines: transfers from cache to cache, lines that go to and fro, misses that nothing but a neighbour in the
//! line has caused.
//!
//! A hart that misses a line which another's store has taken from it has a *sharing miss*: a *true* one if the word that it wants has been
//! written by others meanwhile, else a *false* one (Torrellas, Lam and Hennessy, "False Sharing and Spatial Locality in Multiprocessor
//! Caches", IEEE Transactions on Computers 43(6), 1994). A line *goes to and fro* (ping-pong) when the hart gets it for writing that had it
//! for writing before the present owner. Words have eight bytes, and an access is one of the word in which it begins.
//!
//! A line is watched from the first time on that one hart takes it from another; stores to it that hit are seen too. Counting changes no
//! time and no tag.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Found;
use super::sharers::bits;
use super::stats::SharingStats;
use crate::class::DataClass;
use crate::paged::Paged;

/// No hart.
const NOBODY: u8 = u8::MAX;

/// What is known of a watched line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Watched {
    /// Who had it for writing last, and who before.
    owners: [u8; 2],
    /// Harts from which a store took it, a bit each, until they have it again.
    lost: u64,
    /// Of each of them, the words that others have written since.
    written: Vec<u8>,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Sharing {
    harts: usize,
    /// Whether a line is watched, a bit each, and what is known of it.
    is_watched: Paged<u64>,
    lines: BTreeMap<u32, Watched>,
}

/// What a snapshot keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SharingState {
    lines: BTreeMap<u32, Watched>,
}

/// A hart's request at the LLC, as sharing sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub hart: usize,
    pub line: u32,
    /// The words of the line that it accesses, a bit each.
    pub words: u8,
    pub own: bool,
    /// By an instruction, and not ahead of it.
    pub demand: bool,
    pub class: DataClass,
}

/// The word of its line that an address is in, as a bit.
#[inline]
pub(crate) fn word(addr: doorbell_sim::PhysAddr) -> u8 {
    1 << (addr.0 / 8 % 8)
}

impl Sharing {
    /// Of so many harts and lines of RAM, none of them watched.
    pub fn new(harts: usize, lines: u32) -> Sharing {
        let is_watched = Paged::new((lines as usize).div_ceil(64));
        Sharing { harts, is_watched, lines: BTreeMap::new() }
    }

    /// Whether a line is watched. A hart that shares with nobody need not look.
    #[inline]
    pub fn watches(&self, line: u32) -> bool {
        !self.lines.is_empty() && self.is_watched.get(line as usize / 64) >> (line % 64) & 1 != 0
    }

    /// A request of the LLC, which found these copies in other harts' caches.
    #[inline]
    pub fn asked(&mut self, wanted: Wanted, peers: &Found, stats: &mut SharingStats) {
        let taken = peers.present && (wanted.own || peers.dirty);
        if taken || self.watches(wanted.line) {
            self.note(wanted, peers, stats);
        }
    }

    #[inline(never)]
    fn note(&mut self, wanted: Wanted, peers: &Found, stats: &mut SharingStats) {
        let Wanted { hart, line, words, own, demand, class } = wanted;
        *self.is_watched.at(line as usize / 64) |= 1 << (line % 64);
        let owner = if peers.owned { peers.harts.trailing_zeros() as u8 } else { NOBODY };
        let first = || Watched { owners: [owner, NOBODY], lost: 0, written: vec![0; self.harts] };
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

    /// A store that hits a watched line.
    pub fn stored(&mut self, hart: usize, line: u32, words: u8) {
        if let Some(watched) = self.lines.get_mut(&line) {
            watched.write(hart, words);
        }
    }

    /// A device has written the line.
    #[inline]
    pub fn device_wrote(&mut self, line: u32) {
        if self.watches(line)
            && let Some(watched) = self.lines.get_mut(&line)
        {
            watched.write(usize::from(NOBODY), u8::MAX);
        }
    }

    pub fn save(&self) -> SharingState {
        SharingState { lines: self.lines.clone() }
    }

    /// Says what is impossible about a saved state for a memory of `lines` lines.
    pub fn check(&self, state: &SharingState, lines: u32) -> Result<(), String> {
        let harts = self.harts;
        for (line, watched) in &state.lines {
            let known = |owner: u8| owner == NOBODY || usize::from(owner) < harts;
            let lost = harts == 64 || watched.lost >> harts == 0;
            if *line >= lines
                || !lost
                || watched.written.len() != harts
                || !watched.owners.iter().all(|&o| known(o))
            {
                return Err(format!("line {line} is shared by harts that there are not"));
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
    /// A hart, or a device, writes some words.
    fn write(&mut self, hart: usize, words: u8) {
        bits(self.lost).filter(|&other| other != hart).for_each(|other| self.written[other] |= words);
    }
}
