//! Hardware prefetchers of the private caches: next-line, stride and stream.
//!
//! They train on demand accesses by physical address and stay within a 4 KiB page. *Next-line* fetches the
//! lines after one that missed, or that was prefetched and is used for the first time. *Stride* keeps a table
//! indexed by instruction, like Baer and Chen's reference prediction table: last address, last stride, and
//! how often the stride repeated. From the second time on it fetches the next lines of the stride. *Stream*
//! tracks pages: from the second step in one direction on, each access fetches some more lines, up to a
//! maximum distance. That is what Intel publishes of its L2 streamer (64 and IA-32 Architectures Optimization
//! Reference Manual, "Data Prefetching": one stream per page, 32 streams, two lines at a time, up to 20
//! ahead).

mod stream;

pub(crate) use stream::Stream;
use stream::Streams;

use doorbell_sim::config;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Lines per page; prefetches do not cross a page.
const PAGE_LINES: u32 = 64;
/// Maximum number of lines prefetched at once.
pub const DEGREE_MAX: u32 = 16;
/// Number of equal strides required.
const CONFIDENT: u8 = 2;

/// Kinds of prefetcher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PrefetchKind {
    /// None.
    #[default]
    None,
    /// The lines after a miss.
    NextLine,
    /// Along the stride of each instruction.
    Stride,
    /// Along ascending or descending accesses in a page, by any instructions.
    Stream,
}

config! {
    /// Parameters of a prefetcher.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct PrefetchConfig {
        /// Kind of prefetcher: "none", "next-line", "stride" or "stream".
        pub kind: PrefetchKind = PrefetchKind::None,
        /// Lines prefetched at a time, 1 to 16.
        pub degree: u32 [1..=DEGREE_MAX] = 1,
        /// Entries of the prefetcher's table: for "stride", instructions, a power of two from 1 to 4096; for
        /// "stream", pages, a power of two from 1 to 64.
        pub table: u32 = 64,
        /// Maximum distance of a stream prefetcher in lines, 1 to 63 (a page has 64).
        pub ahead: u32 [1..=PAGE_LINES - 1] = 20,
    }
}

impl PrefetchConfig {
    /// Checks the parameters.
    pub fn validate(&self) -> Result<(), String> {
        self.check_ranges().map_err(|problem| format!("prefetch.{problem}"))?;
        if !self.table.is_power_of_two() || self.table > 4096 {
            return Err(format!("prefetch.table is {}; it must be a power of two up to 4096", self.table));
        }
        if self.kind == PrefetchKind::Stream && self.table > 64 {
            return Err(format!(
                "prefetch.table is {}; a stream prefetcher tracks up to 64 pages",
                self.table
            ));
        }
        Ok(())
    }
}

/// Lines to prefetch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Targets {
    lines: [u32; DEGREE_MAX as usize],
    count: usize,
}

impl Targets {
    pub fn as_slice(&self) -> &[u32] {
        &self.lines[..self.count]
    }

    /// Adds a line if it is on the page of `near`; returns whether it is.
    fn add(&mut self, near: u32, line: i64) -> bool {
        let here = line >> PAGE_LINES.trailing_zeros() == i64::from(near / PAGE_LINES);
        if here && line != i64::from(near) && !self.as_slice().contains(&(line as u32)) {
            self.lines[self.count] = line as u32;
            self.count += 1;
        }
        here
    }
}

/// Table entry of an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stride {
    pc: u32,
    /// Last offset, in bytes from the start of RAM.
    last: u64,
    distance: i64,
    repeated: u8,
}

/// Saved state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PrefetcherState {
    strides: Vec<Stride>,
    streams: Vec<Stream>,
}

/// A prefetcher; see the module.
#[derive(Clone, Debug)]
pub(crate) struct Prefetcher {
    kind: PrefetchKind,
    degree: i64,
    table: Vec<Stride>,
    streams: Streams,
}

impl Prefetcher {
    pub fn new(config: &PrefetchConfig) -> Prefetcher {
        let entries = if config.kind == PrefetchKind::Stride { config.table as usize } else { 0 };
        Prefetcher {
            kind: config.kind,
            degree: i64::from(config.degree),
            table: vec![Stride::default(); entries],
            streams: Streams::new(config.table as usize, config.ahead),
        }
    }

    #[inline]
    pub fn is_on(&self) -> bool {
        self.kind != PrefetchKind::None
    }

    /// Trains on an access at `offset`, in bytes from the start of RAM, by the instruction at `pc`.
    /// `trigger`: it missed, or was the first use of a prefetched line.
    pub fn train(&mut self, pc: u64, offset: u64, trigger: bool) -> Targets {
        let mut targets = Targets::default();
        let line = (offset / 64) as u32;
        match self.kind {
            PrefetchKind::None => {}
            PrefetchKind::NextLine if trigger => {
                (1..=self.degree).for_each(|n| _ = targets.add(line, i64::from(line) + n))
            }
            PrefetchKind::NextLine => {}
            PrefetchKind::Stream => self.streams.train(line, self.degree, &mut targets),
            PrefetchKind::Stride => {
                let distance = self.learn(pc, offset);
                if distance != 0 {
                    // Short strides advance by whole lines.
                    let step = if distance.abs() < 64 { 64 * distance.signum() } else { distance };
                    let ahead = |n: i64| (offset as i64 + n * step) >> 6;
                    (1..=self.degree).for_each(|n| _ = targets.add(line, ahead(n)));
                }
            }
        }
        targets
    }

    /// Trains the stride table and returns the instruction's stride, or 0 if there is none yet.
    fn learn(&mut self, pc: u64, offset: u64) -> i64 {
        // Instructions are at least two bytes apart.
        let mask = self.table.len() as u64 - 1;
        let entry = &mut self.table[((pc >> 1 ^ pc >> 9) & mask) as usize];
        if entry.pc != pc as u32 {
            *entry = Stride { pc: pc as u32, last: offset, distance: 0, repeated: 0 };
            return 0;
        }
        let distance = offset as i64 - entry.last as i64;
        if distance == 0 {
            return 0;
        }
        entry.last = offset;
        if distance == entry.distance {
            entry.repeated = (entry.repeated + 1).min(CONFIDENT);
        } else {
            (entry.distance, entry.repeated) = (distance, 0);
        }
        // The first repetition is the second occurrence of the stride.
        if entry.repeated + 1 >= CONFIDENT { distance } else { 0 }
    }

    pub fn save(&self) -> PrefetcherState {
        PrefetcherState { strides: self.table.clone(), streams: self.streams.save() }
    }

    /// Checks a saved state for a memory of `lines` lines.
    pub fn check(&self, state: &PrefetcherState, lines: u32) -> Result<(), String> {
        self.streams.check(&state.streams, lines)?;
        let (table, bytes) = (&state.strides, u64::from(lines) * 64);
        if table.len() != self.table.len() {
            return Err(format!(
                "the saved state has strides of {} instructions, the table has {}",
                table.len(),
                self.table.len()
            ));
        }
        let possible = |entry: &Stride| {
            entry.last < bytes && entry.distance.unsigned_abs() < bytes && entry.repeated <= CONFIDENT
        };
        if table.iter().all(possible) { Ok(()) } else { Err("invalid stride in the saved state".to_owned()) }
    }

    pub fn restore(&mut self, state: PrefetcherState) {
        self.table = state.strides;
        self.streams.restore(state.streams);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefetcher(kind: PrefetchKind, degree: u32) -> Prefetcher {
        Prefetcher::new(&PrefetchConfig { kind, degree, table: 16, ..PrefetchConfig::default() })
    }

    #[test]
    fn next_line_fetches_the_lines_after_a_miss_up_to_the_end_of_the_page() {
        let mut next = prefetcher(PrefetchKind::NextLine, 3);
        assert_eq!(next.train(0, 10 * 64 + 8, true).as_slice(), [11, 12, 13]);
        assert_eq!(next.train(0, 62 * 64, true).as_slice(), [63]);
        assert!(next.train(0, 10 * 64, false).as_slice().is_empty(), "hits prefetch nothing");
    }

    #[test]
    fn a_stride_is_followed_once_it_has_repeated() {
        let mut stride = prefetcher(PrefetchKind::Stride, 2);
        assert!(stride.train(0x80, 1000, true).as_slice().is_empty());
        assert!(stride.train(0x80, 1200, true).as_slice().is_empty(), "a single distance is no stride");
        assert_eq!(stride.train(0x80, 1400, true).as_slice(), [1600 / 64, 1800 / 64]);
        assert!(stride.train(0x82, 1400, true).as_slice().is_empty(), "another instruction");
        assert!(stride.train(0x80, 1500, true).as_slice().is_empty(), "another distance");
    }

    #[test]
    fn invalid_prefetcher_parameters_are_rejected_with_their_range() {
        let refused = |change: &dyn Fn(&mut PrefetchConfig)| {
            let mut config = PrefetchConfig { kind: PrefetchKind::Stream, ..PrefetchConfig::default() };
            change(&mut config);
            config.validate().unwrap_err()
        };
        assert!(refused(&|config| config.degree = 17).contains("from 1 to 16"));
        assert!(refused(&|config| config.table = 48).contains("power of two"));
        assert!(refused(&|config| config.table = 128).contains("up to 64 pages"));
        assert!(refused(&|config| config.ahead = 64).contains("from 1 to 63"));
        assert!(
            PrefetchConfig { kind: PrefetchKind::Stride, table: 128, ..PrefetchConfig::default() }
                .validate()
                .is_ok()
        );
    }

    #[test]
    fn short_and_backward_strides_fetch_neighbouring_lines() {
        let mut stride = prefetcher(PrefetchKind::Stride, 2);
        let fetched = [3000u64, 2992, 2984].map(|offset| stride.train(4, offset, false).as_slice().to_vec());
        assert_eq!(fetched[2], [2984 / 64 - 1, 2984 / 64 - 2]);
    }
}
