//! TAGE (Seznec and Michaud, JILP 2006): a bimodal base predictor and tagged tables with geometrically
//! growing histories; the matching entry with the longest history provides the prediction.
//!
//! Modelled: three-bit counters, two-bit usefulness with periodic ageing, use of the alternative prediction
//! for newly allocated entries, allocation of one entry per misprediction. Not modelled: loop predictor and
//! statistical corrector.

use serde::{Deserialize, Serialize};

use super::bimodal::Bimodal;
use super::word;
use crate::config::BranchConfig;

const TABLES_MAX: usize = 12;
/// Outcomes kept: a power of two above the longest history.
const HISTORY_BITS: usize = 512;
/// Branches after which usefulness is halved.
const AGEING: u64 = 1 << 18;
/// A three-bit counter's range.
const COUNTER: std::ops::RangeInclusive<i8> = -4..=3;

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Entry {
    tag: u16,
    counter: i8,
    useful: u8,
}

/// A history of `length` outcomes folded by XOR into `width` bits, updated incrementally.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Folded {
    value: u32,
    length: u16,
    width: u8,
    /// Position in the folded value at which the oldest outcome leaves the history.
    last: u8,
}

impl Folded {
    fn new(length: u32, width: u32) -> Folded {
        Folded { value: 0, length: length as u16, width: width as u8, last: (length % width) as u8 }
    }

    /// Shifts in `new` and removes `old`, the outcome `length` branches ago.
    #[inline]
    fn push(&mut self, new: bool, old: bool) {
        let mut value = self.value << 1 | u32::from(new);
        value ^= u32::from(old) << self.last;
        value ^= value >> self.width;
        self.value = value & ((1 << self.width) - 1);
    }
}

/// One tagged table.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Table {
    entries: Vec<Entry>,
    index: Folded,
    tags: [Folded; 2],
}

/// The TAGE predictor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Tage {
    base: Bimodal,
    /// Shortest history first.
    tables: Vec<Table>,
    tag_mask: u16,
    /// Ring of outcomes, one bit each.
    history: Vec<u64>,
    newest: u32,
    /// Positive while newly allocated entries predict worse than their alternative.
    prefer_alternative: i8,
    /// State of the pseudo-random generator for allocation.
    lottery: u32,
    branches: u64,
}

/// Result of a table look-up.
struct Found {
    slots: [(usize, u16); TABLES_MAX],
    provider: Option<usize>,
    alternative: bool,
    provided: bool,
    fresh: bool,
    predicted: bool,
}

impl Tage {
    pub(super) fn new(config: &BranchConfig) -> Tage {
        let index_bits = config.tage_entries.trailing_zeros();
        let tables = history_lengths(config).into_iter().map(|length| Table {
            entries: vec![Entry::default(); config.tage_entries as usize],
            index: Folded::new(length, index_bits),
            tags: [Folded::new(length, config.tage_tag_bits), Folded::new(length, config.tage_tag_bits - 1)],
        });
        Tage {
            base: Bimodal::new(config.bimodal_entries),
            tables: tables.collect(),
            tag_mask: (1 << config.tage_tag_bits) - 1,
            history: vec![0; HISTORY_BITS / 64],
            newest: 0,
            prefer_alternative: 0,
            lottery: 0x2545_f491,
            branches: 0,
        }
    }

    /// Predicts, then updates with the outcome.
    pub(super) fn predict(&mut self, pc: u64, taken: bool) -> bool {
        let found = self.find(pc);
        self.learn(pc, &found, taken);
        self.push(taken);
        found.predicted
    }

    fn find(&self, pc: u64) -> Found {
        let pc = word(pc);
        let mut slots = [(0, 0); TABLES_MAX];
        let (mut provider, mut alternative) = (None, None);
        for (number, table) in self.tables.iter().enumerate().rev() {
            let mask = table.entries.len() - 1;
            let index = (pc ^ pc >> (number + 3) ^ u64::from(table.index.value)) as usize & mask;
            let tag = (pc as u32 ^ table.tags[0].value ^ table.tags[1].value << 1) as u16 & self.tag_mask;
            slots[number] = (index, tag);
            // Tag 0 marks an entry that was never written.
            if tag != 0 && table.entries[index].tag == tag {
                if provider.is_none() {
                    provider = Some(number);
                } else if alternative.is_none() {
                    alternative = Some(number);
                }
            }
        }
        let counter = |number: usize| self.tables[number].entries[slots[number].0].counter;
        let base = self.base.look_up(word_to_pc(pc));
        let alternative = alternative.map_or(base, |number| counter(number) >= 0);
        let provided = provider.map_or(base, |number| counter(number) >= 0);
        let fresh = provider.is_some_and(|number| {
            matches!(counter(number), -1 | 0) && self.tables[number].entries[slots[number].0].useful == 0
        });
        let predicted = if fresh && self.prefer_alternative > 0 { alternative } else { provided };
        Found { slots, provider, alternative, provided, fresh, predicted }
    }

    fn learn(&mut self, pc: u64, found: &Found, taken: bool) {
        if let Some(number) = found.provider {
            let entry = &mut self.tables[number].entries[found.slots[number].0];
            entry.counter = step(entry.counter, taken, COUNTER);
            if found.provided != found.alternative {
                let useful =
                    if found.provided == taken { entry.useful + 1 } else { entry.useful.saturating_sub(1) };
                entry.useful = useful.min(3);
                if found.fresh {
                    self.prefer_alternative =
                        step(self.prefer_alternative, found.alternative == taken, -8..=7);
                }
            }
        } else {
            self.base.learn(pc, taken);
        }
        let longer = found.provider.map_or(0, |number| number + 1);
        if found.predicted != taken && longer < self.tables.len() {
            self.allocate(longer, found, taken);
        }
        self.branches += 1;
        if self.branches.is_multiple_of(AGEING) {
            for table in &mut self.tables {
                table.entries.iter_mut().for_each(|entry| entry.useful >>= 1);
            }
        }
    }

    /// Allocates one entry with usefulness 0 and a longer history, preferably in the next table. If all are
    /// useful, decrements their usefulness.
    fn allocate(&mut self, longer: usize, found: &Found, taken: bool) {
        self.lottery ^= self.lottery << 13;
        self.lottery ^= self.lottery >> 17;
        self.lottery ^= self.lottery << 5;
        let last = self.tables.len() - 1;
        let first = (longer + usize::from(self.lottery & 3 == 0)).min(last);
        for number in (first..=last).chain(longer..first) {
            let (index, tag) = found.slots[number];
            let entry = &mut self.tables[number].entries[index];
            if entry.useful == 0 {
                *entry = Entry { tag, counter: if taken { 0 } else { -1 }, useful: 0 };
                return;
            }
        }
        for number in longer..=last {
            self.tables[number].entries[found.slots[number].0].useful -= 1;
        }
    }

    fn push(&mut self, taken: bool) {
        self.newest = (self.newest + 1) % HISTORY_BITS as u32;
        let newest = self.newest as usize;
        let bit = 1u64 << (newest % 64);
        let word = &mut self.history[newest / 64];
        *word = if taken { *word | bit } else { *word & !bit };
        for table in &mut self.tables {
            let back = (newest + HISTORY_BITS - usize::from(table.index.length)) % HISTORY_BITS;
            let old = self.history[back / 64] >> (back % 64) & 1 != 0;
            table.index.push(taken, old);
            table.tags[0].push(taken, old);
            table.tags[1].push(taken, old);
        }
    }

    /// Swaps the histories of two SMT threads.
    pub(super) fn exchange_history(&mut self, other: &mut Tage) {
        std::mem::swap(&mut self.history, &mut other.history);
        std::mem::swap(&mut self.newest, &mut other.newest);
        for (own, other) in self.tables.iter_mut().zip(&mut other.tables) {
            std::mem::swap(&mut own.index, &mut other.index);
            std::mem::swap(&mut own.tags, &mut other.tags);
        }
    }

    pub(super) fn is_compatible(&self, fresh: &Tage) -> bool {
        let shape = |table: &Table| {
            let folds =
                [table.index, table.tags[0], table.tags[1]].map(|fold| (fold.length, fold.width, fold.last));
            (table.entries.len(), folds)
        };
        let sound = |table: &Table| {
            let entries =
                table.entries.iter().all(|entry| COUNTER.contains(&entry.counter) && entry.useful <= 3);
            let folds =
                [table.index, table.tags[0], table.tags[1]].iter().all(|fold| fold.value >> fold.width == 0);
            entries && folds
        };
        self.base.is_compatible(&fresh.base)
            && self.tables.iter().map(shape).eq(fresh.tables.iter().map(shape))
            && self.tables.iter().all(sound)
            && self.tag_mask == fresh.tag_mask
            && self.history.len() == fresh.history.len()
            && (self.newest as usize) < HISTORY_BITS
            && (-8..=7).contains(&self.prefer_alternative)
            && self.lottery != 0
            && self.branches < u64::MAX / 4
    }
}

/// The history lengths: a geometric series from the first to the last, rounded up to integers.
fn history_lengths(config: &BranchConfig) -> Vec<u32> {
    let (first, last) = (u64::from(config.tage_history_min), u64::from(config.tage_history_max));
    let steps = config.tage_tables - 1;
    // The n-th length L satisfies L^steps = first^(steps - n) · last^n; the powers, up to 480^11, fit in
    // u128.
    let target = |n: u32| u128::from(first).pow(steps - n) * u128::from(last).pow(n);
    let nth = |n: u32| {
        (first..=last).find(|length| u128::from(*length).pow(steps) >= target(n)).unwrap_or(last) as u32
    };
    (0..=steps).map(nth).collect()
}

fn word_to_pc(word: u64) -> u64 {
    word << 1
}

fn step(counter: i8, up: bool, range: std::ops::RangeInclusive<i8>) -> i8 {
    (counter + if up { 1 } else { -1 }).clamp(*range.start(), *range.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tage() -> Tage {
        Tage::new(&BranchConfig::default())
    }

    #[test]
    fn histories_grow_geometrically() {
        assert_eq!(history_lengths(&BranchConfig::default()), [5, 9, 15, 26, 44, 76, 130]);
        let widest = BranchConfig {
            tage_tables: 12,
            tage_history_min: 64,
            tage_history_max: 480,
            ..BranchConfig::default()
        };
        assert_eq!(history_lengths(&widest)[11], 480);
    }

    #[test]
    fn folded_history_equals_xor_of_its_chunks() {
        let mut rng = doorbell_sim::rng::Rng::stream(1, "folded");
        for (length, width) in [(5, 10), (44, 10), (130, 9), (30, 10)] {
            let mut folded = Folded::new(length, width);
            let mut outcomes = vec![false; length as usize];
            for _ in 0..500 {
                let new = rng.below(2) == 1;
                outcomes.insert(0, new);
                let old = outcomes.pop().unwrap();
                folded.push(new, old);
                let mut plain = 0u32;
                for (age, taken) in outcomes.iter().enumerate() {
                    plain ^= u32::from(*taken) << (age as u32 % width);
                }
                assert_eq!(folded.value, plain);
            }
        }
    }

    /// Mispredictions among the second half of the outcomes.
    fn wrong(predict: &mut dyn FnMut(u64, bool) -> bool, outcomes: &[(u64, bool)]) -> usize {
        let wrong = outcomes.iter().map(|(pc, taken)| predict(*pc, *taken) != *taken).collect::<Vec<_>>();
        wrong[outcomes.len() / 2..].iter().filter(|wrong| **wrong).count()
    }

    #[test]
    fn tage_learns_a_loop_longer_than_bimode_history() {
        // Taken 40 times, then not taken: 44 history bits suffice, BiMode's 13 do not.
        let outcomes: Vec<(u64, bool)> = (0..40_000u64).map(|step| (0x100, step % 41 != 40)).collect();
        let mut tage = tage();
        let mut bimode = super::super::bimode::BiMode::new(8192, 8192);
        assert!(wrong(&mut |pc, taken| tage.predict(pc, taken), &outcomes) < 10);
        assert!(wrong(&mut |pc, taken| bimode.predict(pc, taken), &outcomes) > 400);
    }

    #[test]
    fn a_branch_correlated_with_another_is_learnt() {
        let mut rng = doorbell_sim::rng::Rng::stream(2, "correlated");
        let mut outcomes = Vec::new();
        for _ in 0..20_000 {
            let first = rng.below(2) == 1;
            outcomes.extend([(0x100, first), (0x200, true), (0x300, first)]);
        }
        let mut tage = tage();
        let wrong = wrong(&mut |pc, taken| tage.predict(pc, taken), &outcomes);
        // The first branch of each pair is random: half of 10,000 mispredict. The second almost never does.
        assert!((4_700..5_800).contains(&wrong), "{wrong}");
    }
}
