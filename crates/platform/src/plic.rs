//! The platform-level interrupt controller.
//!
//! Document: RISC-V Platform-Level Interrupt Controller Specification 1.0.0; the memory map, 95 sources,
//! seven priorities and two contexts per hart (machine, then supervisor) as on QEMU's `virt`. Modelled:
//! priorities, pending and enable bits, thresholds, claim and completion, level-triggered gateways. A request
//! that a gateway has forwarded stays pending even if the level falls. A source whose level is still high on
//! completion becomes pending again; a claim ignores the threshold; a completion for a source that the
//! context has not enabled is ignored. In the last three points the specification is followed, from which
//! QEMU differs. Not modelled: edge-triggered sources.

use doorbell_sim::AccessSize;
use doorbell_sim::snapshot::SnapshotError;
use serde::{Deserialize, Serialize};

use crate::map::PLIC_SOURCES;
use crate::registers::{Access, Hit, Register, find};

/// The highest priority.
pub const MAX_PRIORITY: u8 = 7;
/// Number of contexts for which the region has room.
pub const MAX_CONTEXTS: u32 = 1024;
/// Words with one bit per source; source 0 does not exist.
const WORDS: usize = 4;
const MAX_SOURCES: u32 = WORDS as u32 * 32 - 1;
/// Each context's enable bits have room for 1024 sources.
const ENABLE_WORDS_PER_CONTEXT: usize = 32;

type Bits = [u32; WORDS];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum PlicRegister {
    Priority,
    Pending,
    Enable,
    Threshold,
    ClaimComplete,
}

use PlicRegister as R;

/// The register table.
pub const REGISTERS: [Register<PlicRegister>; 5] = [
    Register::one(R::Priority, "priority", 0x0, 4, 0, Access::ReadWrite, "PLIC 4").array(1024, 4),
    Register::one(R::Pending, "pending", 0x1000, 4, 0, Access::ReadOnly, "PLIC 5").array(32, 4),
    Register::one(R::Enable, "enable", 0x2000, 4, 0, Access::ReadWrite, "PLIC 6")
        .array(MAX_CONTEXTS as u64 * ENABLE_WORDS_PER_CONTEXT as u64, 4),
    Register::one(R::Threshold, "threshold", 0x20_0000, 4, 0, Access::ReadWrite, "PLIC 7")
        .array(MAX_CONTEXTS as u64, 0x1000),
    Register::one(R::ClaimComplete, "claim/complete", 0x20_0004, 4, 0, Access::BothHaveEffects, "PLIC 8-9")
        .array(MAX_CONTEXTS as u64, 0x1000),
];

doorbell_sim::stats! {
    /// PLIC counters.
    pub struct PlicStats {
        /// Claims that returned a source.
        claims,
        /// Claims that found nothing pending.
        empty_claims,
        /// Completions of a source that is not enabled, not claimed, or does not exist.
        odd_completions,
        /// Accesses to no register, of a width other than four bytes, or to a source or context that does not exist.
        undefined_accesses,
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Context {
    enable: Bits,
    threshold: u8,
    line: bool,
}

/// The device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plic {
    priority: Vec<u8>,
    level: Bits,
    pending: Bits,
    /// Sources between claim and completion, whose gateways are closed.
    in_service: Bits,
    contexts: Vec<Context>,
    lines_changed: bool,
    /// The counters.
    pub stats: PlicStats,
}

fn word_and_bit(source: u32) -> (usize, u32) {
    (source as usize / 32, 1 << (source % 32))
}

impl Plic {
    /// Version of the saved state, which is the device itself.
    pub const VERSION: u32 = 1;

    /// A PLIC after reset.
    pub fn new(harts: u32) -> Plic {
        let contexts = 2 * harts;
        assert!((1..=MAX_CONTEXTS).contains(&contexts), "a PLIC has 1 to {MAX_CONTEXTS} contexts");
        let context = Context { enable: [0; WORDS], threshold: 0, line: false };
        Plic {
            priority: vec![0; PLIC_SOURCES as usize + 1],
            level: [0; WORDS],
            pending: [0; WORDS],
            in_service: [0; WORDS],
            contexts: vec![context; contexts as usize],
            lines_changed: false,
            stats: PlicStats::default(),
        }
    }

    /// Drives a source's line; returns whether a context's line has changed.
    pub fn set_level(&mut self, source: u32, level: bool) -> bool {
        assert!((1..=PLIC_SOURCES).contains(&source), "the PLIC has no source {source}");
        let (word, bit) = word_and_bit(source);
        if (self.level[word] & bit != 0) == level {
            return false;
        }
        self.level[word] ^= bit;
        self.open_gateway(source) && self.update_lines()
    }

    /// Whether a context's interrupt line is raised. Context 2·hart is machine mode, 2·hart + 1 supervisor
    /// mode.
    pub fn line(&self, context: u32) -> bool {
        self.contexts[context as usize].line
    }

    /// Whether any context's line has changed since the last call.
    pub fn take_lines_changed(&mut self) -> bool {
        std::mem::take(&mut self.lines_changed)
    }

    /// Reads a register; reading claim/complete claims.
    pub fn read(&mut self, offset: u64, size: AccessSize) -> u64 {
        let Some(hit) = self.decode(offset, size) else {
            self.stats.undefined_accesses += 1;
            return 0;
        };
        let value = match hit.id {
            R::Priority => u32::from(self.priority[hit.index]),
            R::Pending => self.pending[hit.index],
            R::Enable => {
                self.contexts[hit.index / ENABLE_WORDS_PER_CONTEXT].enable
                    [hit.index % ENABLE_WORDS_PER_CONTEXT]
            }
            R::Threshold => u32::from(self.contexts[hit.index].threshold),
            R::ClaimComplete => self.claim(hit.index),
        };
        u64::from(value)
    }

    /// Writes a register; writing claim/complete completes. Returns whether a context's line has changed.
    pub fn write(&mut self, offset: u64, size: AccessSize, value: u64) -> bool {
        let Some(hit) = self.decode(offset, size) else {
            self.stats.undefined_accesses += 1;
            return false;
        };
        let value = value as u32;
        match hit.id {
            R::Priority if hit.index == 0 => return false,
            R::Priority => self.priority[hit.index] = value as u8 & MAX_PRIORITY,
            R::Pending => return false,
            R::Enable => {
                let word = hit.index % ENABLE_WORDS_PER_CONTEXT;
                let exists = self.existing(word);
                self.contexts[hit.index / ENABLE_WORDS_PER_CONTEXT].enable[word] = value & exists;
            }
            R::Threshold => self.contexts[hit.index].threshold = value as u8 & MAX_PRIORITY,
            R::ClaimComplete => self.complete(hit.index, value),
        }
        self.update_lines()
    }

    fn decode(&self, offset: u64, size: AccessSize) -> Option<Hit<PlicRegister>> {
        let hit = find(&REGISTERS, offset, size).filter(|_| size == AccessSize::B4)?;
        let exists = match hit.id {
            R::Priority => hit.index <= PLIC_SOURCES as usize,
            R::Pending => hit.index < WORDS,
            R::Enable => {
                hit.index / ENABLE_WORDS_PER_CONTEXT < self.contexts.len()
                    && hit.index % ENABLE_WORDS_PER_CONTEXT < WORDS
            }
            R::Threshold | R::ClaimComplete => hit.index < self.contexts.len(),
        };
        exists.then_some(hit)
    }

    /// The bits of a word that belong to existing sources.
    fn existing(&self, word: usize) -> u32 {
        (0..32).filter(|bit| (1..=PLIC_SOURCES).contains(&(word as u32 * 32 + bit))).map(|bit| 1 << bit).sum()
    }

    /// Forwards a high level as a request, unless one is pending or in service. Returns whether it did.
    fn open_gateway(&mut self, source: u32) -> bool {
        let (word, bit) = word_and_bit(source);
        let request = self.level[word] & !self.in_service[word] & !self.pending[word] & bit;
        self.pending[word] |= request;
        request != 0
    }

    /// The pending and enabled source of the highest priority, or the lowest number among equals; 0 if there
    /// is none.
    fn best(&self, context: &Context) -> (u32, u8) {
        let mut best = (0, 0);
        for word in 0..WORDS {
            let mut candidates = self.pending[word] & context.enable[word];
            while candidates != 0 {
                let source = word as u32 * 32 + candidates.trailing_zeros();
                candidates &= candidates - 1;
                if self.priority[source as usize] > best.1 {
                    best = (source, self.priority[source as usize]);
                }
            }
        }
        best
    }

    fn update_lines(&mut self) -> bool {
        let mut changed = false;
        for index in 0..self.contexts.len() {
            let context = &self.contexts[index];
            let line = self.best(context).1 > context.threshold;
            changed |= line != context.line;
            self.contexts[index].line = line;
        }
        self.lines_changed |= changed;
        changed
    }

    fn claim(&mut self, context: usize) -> u32 {
        let (source, _) = self.best(&self.contexts[context]);
        if source == 0 {
            self.stats.empty_claims += 1;
            return 0;
        }
        let (word, bit) = word_and_bit(source);
        self.pending[word] &= !bit;
        self.in_service[word] |= bit;
        self.stats.claims += 1;
        self.update_lines();
        source
    }

    fn complete(&mut self, context: usize, source: u32) {
        let (word, bit) = word_and_bit(source % (MAX_SOURCES + 1));
        let enabled = source <= PLIC_SOURCES && self.contexts[context].enable[word] & bit != 0;
        if !enabled || self.in_service[word] & bit == 0 {
            self.stats.odd_completions += 1;
            return;
        }
        self.in_service[word] &= !bit;
        self.open_gateway(source);
    }

    /// Restores a saved state if it fits this PLIC's size.
    pub fn restore(&mut self, state: Plic) -> Result<(), SnapshotError> {
        let fail =
            |problem: &str| Err(SnapshotError::Inconsistent { name: "plic".into(), problem: problem.into() });
        if state.priority.len() != self.priority.len() || state.contexts.len() != self.contexts.len() {
            return fail("it has a different number of sources or contexts");
        }
        let foreign = |bits: &Bits| (0..WORDS).any(|word| bits[word] & !self.existing(word) != 0);
        if [state.level, state.pending, state.in_service].iter().any(foreign)
            || state.contexts.iter().any(|context| foreign(&context.enable))
        {
            return fail("it names a source that does not exist");
        }
        *self = state;
        Ok(())
    }
}

#[cfg(test)]
#[path = "plic_tests.rs"]
mod tests;
