//! Prefetchers of the private caches: the next lines, the stride of an instruction, or the stream through a page.
//!
//! They see demand accesses by physical address and stay within a page of 4 KiB. *Next-line* asks for the lines behind
//! one that missed, or that had been fetched ahead and is used for the first time. *Stride* keeps a table of
//! instructions, as Baer and Chen's reference prediction table does: the last address, the last distance, and how often
//! the distance has been the same; from the second time on it asks for the lines that come next. *Stream* remembers pages: from the
//! second step in one direction on it asks with each access for some lines more, until it is as far ahead as it may be, which is what
//! Intel publishes of its L2 streamer (64 and IA-32 Architectures Optimization Reference Manual, "Data Prefetching": one stream a page,
//! 32 streams, two lines at a time, up to 20 ahead).

mod stream;

pub(crate) use stream::Stream;
use stream::Streams;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Lines of a page, beyond which nothing is fetched ahead.
const PAGE_LINES: u32 = 64;
/// The most lines that are asked for at once.
pub const DEGREE_MAX: u32 = 16;
/// Times that a distance has to repeat.
const CONFIDENT: u8 = 2;

/// The kinds of prefetcher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PrefetchKind {
    /// None.
    #[default]
    None,
    /// The lines behind a miss.
    NextLine,
    /// Along the stride of each instruction.
    Stride,
    /// Along ascending and descending reads of a page, whichever instructions they are of.
    Stream,
}

/// A prefetcher's parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PrefetchConfig {
    /// What is fetched ahead: "none", "next-line", "stride" or "stream".
    pub kind: PrefetchKind,
    /// Lines asked for at a time, 1 to 16.
    pub degree: u32,
    /// Instructions that a stride prefetcher remembers: a power of two from 1 to 4096. Pages that a stream prefetcher remembers: a
    /// power of two from 1 to 64.
    pub table: u32,
    /// Lines that a stream prefetcher may be ahead, 1 to 63 (a page has 64).
    pub ahead: u32,
}

impl Default for PrefetchConfig {
    fn default() -> PrefetchConfig {
        PrefetchConfig { kind: PrefetchKind::None, degree: 1, table: 64, ahead: 20 }
    }
}

impl PrefetchConfig {
    /// Says what is wrong with the parameters.
    pub fn validate(&self) -> Result<(), String> {
        if !(1..=DEGREE_MAX).contains(&self.degree) {
            return Err(format!("prefetch.degree is {}; it must be from 1 to {DEGREE_MAX}", self.degree));
        }
        if !self.table.is_power_of_two() || self.table > 4096 {
            return Err(format!("prefetch.table is {}; it must be a power of two up to 4096", self.table));
        }
        if self.kind == PrefetchKind::Stream && self.table > 64 {
            return Err(format!(
                "prefetch.table is {}; a stream prefetcher remembers up to 64 pages",
                self.table
            ));
        }
        if !(1..PAGE_LINES).contains(&self.ahead) {
            return Err(format!("prefetch.ahead is {}; it must be from 1 to {}", self.ahead, PAGE_LINES - 1));
        }
        Ok(())
    }
}

/// Lines to fetch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Targets {
    lines: [u32; DEGREE_MAX as usize],
    count: usize,
}

impl Targets {
    pub fn as_slice(&self) -> &[u32] {
        &self.lines[..self.count]
    }

    /// Adds a line unless it is on another page than `near`; says whether it is on the same.
    fn add(&mut self, near: u32, line: i64) -> bool {
        let here = line >> PAGE_LINES.trailing_zeros() == i64::from(near / PAGE_LINES);
        if here && line != i64::from(near) && !self.as_slice().contains(&(line as u32)) {
            self.lines[self.count] = line as u32;
            self.count += 1;
        }
        here
    }
}

/// What is remembered of an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stride {
    pc: u32,
    /// Bytes from the beginning of RAM.
    last: u64,
    distance: i64,
    repeated: u8,
}

/// What a snapshot keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PrefetcherState {
    strides: Vec<Stride>,
    streams: Vec<Stream>,
}

/// See the module.
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

    /// Sees an access to `offset`, in bytes from the beginning of RAM, by the instruction at `pc`. `fresh` says that it
    /// missed or was the first use of a line fetched ahead.
    pub fn train(&mut self, pc: u64, offset: u64, fresh: bool) -> Targets {
        let mut targets = Targets::default();
        let line = (offset / 64) as u32;
        match self.kind {
            PrefetchKind::None => {}
            PrefetchKind::NextLine if fresh => {
                (1..=self.degree).for_each(|n| _ = targets.add(line, i64::from(line) + n))
            }
            PrefetchKind::NextLine => {}
            PrefetchKind::Stream => self.streams.train(line, self.degree, &mut targets),
            PrefetchKind::Stride => {
                let distance = self.learn(pc, offset);
                if distance != 0 {
                    // Short strides are followed by lines.
                    let step = if distance.abs() < 64 { 64 * distance.signum() } else { distance };
                    let ahead = |n: i64| (offset as i64 + n * step) >> 6;
                    (1..=self.degree).for_each(|n| _ = targets.add(line, ahead(n)));
                }
            }
        }
        targets
    }

    /// Takes an access in and returns the instruction's stride, or 0 while there is none.
    fn learn(&mut self, pc: u64, offset: u64) -> i64 {
        // Instructions are two bytes apart at least.
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
        // The first distance is a guess, its first repetition the second time.
        if entry.repeated + 1 >= CONFIDENT { distance } else { 0 }
    }

    pub fn save(&self) -> PrefetcherState {
        PrefetcherState { strides: self.table.clone(), streams: self.streams.save() }
    }

    /// Says what is impossible about a saved state, for a memory of `lines` lines.
    pub fn check(&self, state: &PrefetcherState, lines: u32) -> Result<(), String> {
        self.streams.check(&state.streams, lines)?;
        let (table, bytes) = (&state.strides, u64::from(lines) * 64);
        if table.len() != self.table.len() {
            return Err(format!("strides of {} instructions for {}", table.len(), self.table.len()));
        }
        let possible = |entry: &Stride| {
            entry.last < bytes && entry.distance.unsigned_abs() < bytes && entry.repeated <= CONFIDENT
        };
        if table.iter().all(possible) { Ok(()) } else { Err("an impossible stride".to_owned()) }
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
    fn next_line_asks_for_the_lines_behind_a_miss_up_to_the_end_of_the_page() {
        let mut next = prefetcher(PrefetchKind::NextLine, 3);
        assert_eq!(next.train(0, 10 * 64 + 8, true).as_slice(), [11, 12, 13]);
        assert_eq!(next.train(0, 62 * 64, true).as_slice(), [63]);
        assert!(next.train(0, 10 * 64, false).as_slice().is_empty(), "hits ask for nothing");
    }

    #[test]
    fn a_stride_is_followed_once_it_has_repeated() {
        let mut stride = prefetcher(PrefetchKind::Stride, 2);
        assert!(stride.train(0x80, 1000, true).as_slice().is_empty());
        assert!(stride.train(0x80, 1200, true).as_slice().is_empty(), "one distance is none");
        assert_eq!(stride.train(0x80, 1400, true).as_slice(), [1600 / 64, 1800 / 64]);
        assert!(stride.train(0x82, 1400, true).as_slice().is_empty(), "another instruction");
        assert!(stride.train(0x80, 1500, true).as_slice().is_empty(), "another distance");
    }

    #[test]
    fn what_a_prefetcher_cannot_be_is_refused_with_its_range() {
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
    fn short_and_backward_strides_ask_for_neighbouring_lines() {
        let mut stride = prefetcher(PrefetchKind::Stride, 2);
        let asked = [3000u64, 2992, 2984].map(|offset| stride.train(4, offset, false).as_slice().to_vec());
        assert_eq!(asked[2], [2984 / 64 - 1, 2984 / 64 - 2]);
    }
}
