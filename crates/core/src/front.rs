//! The front end: fetch by lines of the instruction cache, then decode and rename as stages with widths and fixed delays.
//!
//! A *fetch group* is what one cycle fetches: up to the fetch width, from one line, ending with a taken branch. One group
//! arrives a cycle, in order. The instruction cache is pipelined: behind a miss fetch runs ahead along the predicted path, a group a cycle, as
//! far as the fetch queue has room and the cache has miss registers. The line fetched last is kept, so that a loop within it asks the
//! cache once. What is in the buffer of decoded instructions ([`decoded`](crate::decoded)), if there is one, is not asked of the cache and takes no place of the
//! decoders'. At most `fetch_queue` ops are between fetch and dispatch. An instruction that crosses lines counts for the line in
//! which it begins.

use doorbell_sim::memory::{AccessKind, CoreAccess, CoreMemory, LINE_BYTES, Level};
use doorbell_sim::op::Op;
use serde::{Deserialize, Serialize};

use crate::accounts::Bubble;
use crate::branch::Prediction;
use crate::config::{CoreKind, PipelineConfig};
use crate::decoded::Decoded;
use crate::mmu::{Mmu, Side};
use crate::ring::{Limiter, Ring};
use crate::saved::cycle;
use crate::shared::{Shared, Stage};
use crate::stats::{Cause, Counts};

/// When an op passed the front end.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Fetched {
    pub(crate) fetch: u64,
    pub(crate) decode: u64,
    pub(crate) rename: u64,
    /// From when on it can be dispatched.
    pub(crate) ready: u64,
    /// Until when on nothing could be dispatched because of `bad`; 0 if that was not the case.
    pub(crate) bad_until: u64,
    pub(crate) bad: Cause,
    /// Why it was not there earlier.
    pub(crate) cause: Cause,
}

impl Fetched {
    /// What delays the op's dispatch; `back` is what does so once it is ready.
    #[inline(always)]
    pub(crate) fn bubble(&self, back: Option<Cause>) -> Bubble {
        Bubble { bad_until: self.bad_until, bad: self.bad, front_until: self.ready, front: self.cause, back }
    }
}

/// See the module.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Front {
    width: u32,
    /// From rename to dispatch.
    tail: u64,
    redirect_cycles: u64,
    misfetch_cycles: u64,
    /// When the current group was asked for, its address translated, and when it arrived.
    #[serde(deserialize_with = "cycle")]
    fetched: u64,
    /// When it really was fetched.
    #[serde(deserialize_with = "cycle")]
    began: u64,
    #[serde(deserialize_with = "cycle")]
    arrived: u64,
    /// How many more ops the group can have.
    left: u32,
    line: u64,
    page: u64,
    /// Cycles of a hit, as last seen.
    #[serde(deserialize_with = "cycle")]
    hit_cycles: u64,
    /// The next group is not fetched before, because of `floor_cause`.
    #[serde(deserialize_with = "cycle")]
    floor: u64,
    floor_cause: Cause,
    queue: Ring,
    /// Free places that it takes to begin a group. A thread does not take the other's turns for less than all that a group can have.
    places: u64,
    /// Decode and rename take all that a group can have, and so never hold anything up.
    straight: bool,
    decode: Limiter,
    rename: Limiter,
    decoded: Option<Box<Decoded>>,
    /// Whether the instruction cache was asked for `line`.
    asked: bool,
}

const NOWHERE: u64 = u64::MAX;

impl Front {
    pub(crate) fn new(config: &PipelineConfig) -> Front {
        let rename_width = match config.kind {
            CoreKind::OutOfOrder => config.rename_width,
            CoreKind::InOrder => config.issue_width,
        };
        Front {
            width: config.fetch_width,
            tail: u64::from(config.front_end_depth) - 2,
            redirect_cycles: u64::from(config.redirect_cycles),
            misfetch_cycles: u64::from(config.misfetch_cycles),
            fetched: 0,
            began: 0,
            arrived: 0,
            left: 0,
            line: NOWHERE,
            page: NOWHERE,
            hit_cycles: 1,
            floor: 0,
            floor_cause: Cause::Fetch,
            queue: Ring::new(config.fetch_queue),
            places: 1,
            straight: config.decode_width.min(rename_width) >= config.fetch_width,
            decode: Limiter::new(config.decode_width),
            rename: Limiter::new(rename_width),
            decoded: Decoded::new(&config.decoded),
            asked: false,
        }
    }

    /// Whether it has turns to leave to another thread.
    pub(crate) fn part(&mut self, parts: u32) {
        self.places = if parts == 1 { 1 } else { u64::from(self.width).min(self.queue.size()) };
    }

    /// Fetches an op.
    #[inline(always)]
    pub(crate) fn fetch<const THREADS: bool, M: CoreMemory>(
        &mut self,
        op: &Op,
        memory: &mut M,
        mmu: &mut Mmu,
        counts: &mut Counts,
        mut shared: Option<&mut Shared>,
    ) -> Fetched {
        let line = op.fetch.0 / LINE_BYTES;
        let room = self.queue.free_from();
        let (mut bad_until, mut bad, mut cause) = (0, Cause::Base, Cause::Fetch);
        let switched = self.decoded.as_mut().is_some_and(|decoded| decoded.come_to(op.fetch.0));
        if self.left == 0 || line != self.line || room > self.fetched || switched {
            (bad_until, bad) = self.redirected();
            cause = self.group::<THREADS, M>(op, line, memory, mmu, counts, shared.as_deref_mut());
        }
        self.left -= 1;
        let (mut decode, mut rename) = (self.arrived + 1, self.arrived + 2);
        if !self.straight {
            if !self.decoded.as_ref().is_some_and(|decoded| decoded.hit) {
                decode = self.decode.take_of::<THREADS>(Stage::Decode, shared.as_deref_mut(), decode);
            }
            rename = self.rename.take_of::<THREADS>(Stage::Rename, shared, decode + 1);
        }
        Fetched { fetch: self.began, decode, rename, ready: rename + self.tail, bad_until, bad, cause }
    }

    /// Until when a redirection costs slots at least.
    #[inline]
    fn redirected(&self) -> (u64, Cause) {
        if matches!(self.floor_cause, Cause::Branch | Cause::Clear) {
            (self.floor + self.hit_cycles + 2 + self.tail, self.floor_cause)
        } else {
            (0, Cause::Base)
        }
    }

    /// Begins a group; returns why it comes late, if it does.
    #[inline]
    fn group<const THREADS: bool, M: CoreMemory>(
        &mut self,
        op: &Op,
        line: u64,
        memory: &mut M,
        mmu: &mut Mmu,
        counts: &mut Counts,
        shared: Option<&mut Shared>,
    ) -> Cause {
        let mut cause = std::mem::replace(&mut self.floor_cause, Cause::Fetch);
        if !cause.is_front_end() {
            cause = Cause::Fetch;
        }
        let places = if THREADS { self.places } else { 1 };
        let mut begin = (self.fetched + 1).max(self.floor).max(self.queue.free_for(places));
        if THREADS && let Some(shared) = shared {
            begin = shared.fetch(begin);
        }
        self.fetched = begin;
        self.began = begin;
        self.left = self.width;
        self.asked &= line == self.line;
        self.line = line;
        if let Some(decoded) = self.decoded.as_ref().filter(|decoded| decoded.hit) {
            self.arrived = (self.arrived + 1).max(decoded.decoded(begin) - 1);
            return cause;
        }
        if self.asked {
            self.arrived = (self.arrived + 1).max(begin + self.hit_cycles);
            return cause;
        }
        self.asked = true;
        let mut translated = begin;
        if op.pc >> 12 != self.page {
            self.page = op.pc >> 12;
            translated = mmu.translate(Side::Instruction, op.pc, begin, memory, counts);
        }
        let served =
            memory.access(translated, CoreAccess { kind: AccessKind::Fetch, addr: op.fetch, pc: op.pc });
        counts.fetched_lines += 1;
        let arrived = served.at.max(translated + 1);
        self.arrived = (self.arrived + 1).max(arrived);
        self.fetched = translated;
        if served.level == Level::L1 {
            self.hit_cycles = arrived - translated;
        } else {
            counts.fetched_lines_missed += 1;
            cause = Cause::Icache;
        }
        if translated - begin > arrived - translated {
            cause = Cause::Itlb;
        }
        cause
    }

    /// An op has been dispatched.
    #[inline(always)]
    pub(crate) fn dispatched(&mut self, at: u64) {
        self.queue.push(at + 1);
    }

    /// A branch has been fetched and executed at `executed`: where fetch goes on follows from its prediction.
    #[inline]
    pub(crate) fn branch(&mut self, op: &Op, prediction: Prediction, executed: u64) {
        if prediction.is_misprediction() {
            self.redirect(executed + self.redirect_cycles, Cause::Branch);
        } else if prediction == Prediction::Misfetched {
            self.left = 0;
            self.floor = self.arrived + self.misfetch_cycles;
            self.floor_cause = Cause::Misfetch;
        } else if op.is_taken() {
            self.left = 0;
        }
        if op.is_taken()
            && let Some(decoded) = &mut self.decoded
        {
            decoded.leave();
        }
    }

    /// Fetches the op that clashed and what is behind it again: the clash was found in cycle `found`.
    pub(crate) fn refetch(&mut self, found: u64) {
        self.redirect(found + self.redirect_cycles, Cause::Clear);
    }

    /// Fetches nothing before `cycle`; what was fetched is thrown away.
    pub(crate) fn redirect(&mut self, cycle: u64, cause: Cause) {
        self.left = 0;
        self.line = NOWHERE;
        if let Some(decoded) = &mut self.decoded {
            decoded.leave();
        }
        self.floor = self.floor.max(cycle);
        self.floor_cause = cause;
    }

    /// When the next op is fetched, or its group, at the earliest.
    pub(crate) fn next(&self) -> u64 {
        match self.queue.free_from() <= self.fetched && self.left > 0 {
            true => self.fetched,
            false => (self.fetched + 1).max(self.floor).max(self.queue.free_for(self.places)),
        }
    }

    /// Nothing more is fetched before `cycle`.
    pub(crate) fn not_before(&mut self, cycle: u64) {
        if cycle > self.fetched {
            self.left = 0;
            self.floor = self.floor.max(cycle);
        }
    }

    /// The decoded instructions, which threads share, go to where the other's front end finds them.
    pub(crate) fn exchange(&mut self, other: &mut Front) {
        if let (Some(own), Some(other)) = (&mut self.decoded, &mut other.decoded) {
            own.exchange(other);
        }
    }

    /// Translations may have changed.
    pub(crate) fn forget_page(&mut self) {
        self.page = NOWHERE;
        self.line = NOWHERE;
    }

    /// Whether a saved one is one of this kind and agrees with itself.
    pub(crate) fn fits(&self, fresh: &Front) -> bool {
        self.width == fresh.width
            && self.left <= self.width
            && (1..1 << 20).contains(&self.hit_cycles)
            && self.tail == fresh.tail
            && self.redirect_cycles == fresh.redirect_cycles
            && self.misfetch_cycles == fresh.misfetch_cycles
            && self.straight == fresh.straight
            && self.queue.fits(&fresh.queue)
            && self.places == fresh.places
            && self.decode.fits(&fresh.decode)
            && self.rename.fits(&fresh.rename)
            && match (&self.decoded, &fresh.decoded) {
                (Some(own), Some(fresh)) => own.fits(fresh),
                (own, fresh) => own.is_none() && fresh.is_none(),
            }
    }
}
