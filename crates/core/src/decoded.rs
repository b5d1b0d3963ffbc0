//! The decoded-instruction buffer (op cache, DSB, DIB): a hit bypasses the instruction cache and the
//! decoders.
//!
//! It holds aligned windows of code, identified by physical address, in sets with LRU replacement. A window
//! enters when one of its instructions is decoded. It hits from the next time fetch enters it, by a jump or
//! from the preceding window.

use doorbell_sim::CoreCycle;
use serde::{Deserialize, Serialize};

use crate::config::DecodedConfig;
use crate::saved::cycle;

const NOWHERE: u64 = u64::MAX;

/// The decoded-instruction buffer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Decoded {
    /// Window and last use, set by set.
    entries: Vec<(u64, u64)>,
    ways: usize,
    window_bits: u32,
    latency: u64,
    #[serde(deserialize_with = "cycle")]
    clock: u64,
    /// The window that fetch is in, and whether it hit.
    window: u64,
    pub(crate) hit: bool,
}

impl Decoded {
    /// Creates the buffer; none if configured with 0 sets.
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

    /// Moves fetch to this address. Returns whether the source of instructions changed (buffer or instruction
    /// cache).
    #[inline]
    pub(crate) fn move_to(&mut self, fetch: u64) -> bool {
        let window = fetch >> self.window_bits;
        if window == self.window {
            return false;
        }
        self.window = window;
        let before = self.hit;
        self.hit = self.look_up(window);
        before != self.hit
    }

    /// Leaves the current window, after a jump or redirection.
    pub(crate) fn leave(&mut self) {
        self.window = NOWHERE;
    }

    /// The decode cycle of a group fetched in cycle `begin`.
    pub(crate) fn decoded(&self, begin: CoreCycle) -> CoreCycle {
        begin + self.latency
    }

    /// Returns whether a window is present, and enters it.
    fn look_up(&mut self, window: u64) -> bool {
        self.clock += 1;
        let sets = (self.entries.len() / self.ways) as u64;
        let first = (window % sets) as usize * self.ways;
        let set = &mut self.entries[first..first + self.ways];
        let found = set.iter().position(|entry| entry.0 == window);
        let oldest = || (0..set.len()).min_by_key(|way| set[*way].1).expect("a set has a way");
        let way = found.unwrap_or_else(oldest);
        set[way] = (window, self.clock);
        found.is_some()
    }

    /// Swaps the entries with the other buffer; the fetch positions stay.
    pub(crate) fn exchange(&mut self, other: &mut Decoded) {
        std::mem::swap(&mut self.entries, &mut other.entries);
        std::mem::swap(&mut self.clock, &mut other.clock);
    }

    /// Whether saved state is consistent and matches this configuration.
    pub(crate) fn is_compatible(&self, fresh: &Decoded) -> bool {
        self.entries.len() == fresh.entries.len()
            && self.ways == fresh.ways
            && self.window_bits == fresh.window_bits
            && self.latency == fresh.latency
            && self.entries.iter().all(|entry| entry.1 <= self.clock)
    }
}
