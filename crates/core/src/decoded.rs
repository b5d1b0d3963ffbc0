//! A buffer of decoded instructions (op cache, DSB, DIB): what comes out of it is neither asked of the instruction cache nor decoded.
//!
//! It holds windows of code, aligned pieces of some bytes by their physical address, in sets, least recently used first out. A window enters
//! when one of its instructions is decoded, and gives from when fetch comes to it again: by a jump, or from the window before it.

use serde::{Deserialize, Serialize};

use crate::config::DecodedConfig;
use crate::saved::cycle;

const NOWHERE: u64 = u64::MAX;

/// See the module.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Decoded {
    /// Window and last use, a set after the other.
    entries: Vec<(u64, u64)>,
    ways: usize,
    window_bits: u32,
    latency: u64,
    #[serde(deserialize_with = "cycle")]
    clock: u64,
    /// The window that fetch is in, and whether it was there when fetch came to it.
    window: u64,
    pub(crate) hit: bool,
}

impl Decoded {
    /// None if it has no sets.
    pub(crate) fn new(config: &DecodedConfig) -> Option<Box<Decoded>> {
        (config.sets > 0).then(|| {
            Box::new(Decoded {
                entries: vec![(NOWHERE, 0); (config.sets * config.ways) as usize],
                ways: config.ways as usize,
                window_bits: config.window.trailing_zeros(),
                latency: u64::from(config.latency),
                clock: 0,
                window: NOWHERE,
                hit: false,
            })
        })
    }

    /// Fetch has come to this address. Tells whether instructions come from elsewhere now than those before it.
    #[inline]
    pub(crate) fn come_to(&mut self, fetch: u64) -> bool {
        let window = fetch >> self.window_bits;
        if window == self.window {
            return false;
        }
        self.window = window;
        let before = self.hit;
        self.hit = self.look_up(window);
        before != self.hit
    }

    /// Fetch goes on elsewhere, or at the same place again.
    pub(crate) fn leave(&mut self) {
        self.window = NOWHERE;
    }

    /// When a group fetched in cycle `begin` is decoded.
    pub(crate) fn decoded(&self, begin: u64) -> u64 {
        begin + self.latency
    }

    /// Whether a window is there; from now on it is.
    fn look_up(&mut self, window: u64) -> bool {
        self.clock += 1;
        let sets = (self.entries.len() / self.ways) as u64;
        let first = (window % sets) as usize * self.ways;
        let set = &mut self.entries[first..first + self.ways];
        let known = set.iter().position(|entry| entry.0 == window);
        let oldest = || (0..set.len()).min_by_key(|way| set[*way].1).expect("a set has a way");
        let way = known.unwrap_or_else(oldest);
        set[way] = (window, self.clock);
        known.is_some()
    }

    /// What is held goes to the other one, and the other way; where fetch is does not.
    pub(crate) fn exchange(&mut self, other: &mut Decoded) {
        std::mem::swap(&mut self.entries, &mut other.entries);
        std::mem::swap(&mut self.clock, &mut other.clock);
    }

    /// Whether a saved one is one of this kind and agrees with itself.
    pub(crate) fn fits(&self, fresh: &Decoded) -> bool {
        self.entries.len() == fresh.entries.len()
            && self.ways == fresh.ways
            && self.window_bits == fresh.window_bits
            && self.latency == fresh.latency
            && self.entries.iter().all(|entry| entry.1 <= self.clock)
    }
}
