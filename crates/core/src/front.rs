//! The front end: fetch by lines of the instruction cache, then decode and rename as stages with widths and
//! fixed delays.
//!
//! A *fetch group* is fetched in one cycle: up to the fetch width, from one line, ending with a taken branch.
//! Groups arrive in order, one per cycle. The instruction cache is pipelined: after a miss, fetch continues
//! along the predicted path, one group per cycle, while the fetch queue has room and the cache has free
//! MSHRs. The last fetched line is kept, so that a loop within it accesses the cache once. A hit in the
//! decoded-instruction buffer ([`decoded`](crate::decoded)), if configured, bypasses cache and decoders. At
//! most `fetch_queue` ops are between fetch and dispatch. An instruction that crosses lines counts for the
//! line in which it starts.

use doorbell_sim::memory::{AccessKind, CoreAccess, CoreMemory, LINE_BYTES, Level};
use doorbell_sim::{CoreCycle, Op};
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

/// Cycles in which an op passed the front-end stages.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Fetched {
    pub(crate) fetch: CoreCycle,
    pub(crate) decode: CoreCycle,
    pub(crate) rename: CoreCycle,
    /// The cycle from which it can be dispatched.
    pub(crate) ready: CoreCycle,
    /// The cycle until which nothing could be dispatched because of `bad`; 0 if there was no redirection.
    pub(crate) bad_until: CoreCycle,
    pub(crate) bad: Cause,
    /// The cause of its front-end delay.
    pub(crate) cause: Cause,
}

impl Fetched {
    /// Attributes the op's dispatch delay; `back` is the cause once the op is ready.
    #[inline(always)]
    pub(crate) fn bubble(&self, back: Option<Cause>) -> Bubble {
        Bubble { bad_until: self.bad_until, bad: self.bad, front_until: self.ready, front: self.cause, back }
    }
}

/// The front end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Front {
    width: u32,
    /// Cycles from rename to dispatch.
    tail: u64,
    redirect_cycles: u64,
    misfetch_cycles: u64,
    /// When the current group's cache request was sent, after translation.
    #[serde(deserialize_with = "cycle")]
    fetched: CoreCycle,
    /// When fetch of the group started, before translation.
    #[serde(deserialize_with = "cycle")]
    began: CoreCycle,
    #[serde(deserialize_with = "cycle")]
    arrived: CoreCycle,
    /// Ops that the group can still take.
    left: u32,
    line: u64,
    page: u64,
    /// Latency of the last instruction-cache hit.
    #[serde(deserialize_with = "cycle")]
    hit_cycles: u64,
    /// The earliest fetch cycle of the next group, because of `floor_cause`.
    #[serde(deserialize_with = "cycle")]
    floor: CoreCycle,
    floor_cause: Cause,
    queue: Ring,
    /// Free fetch-queue entries required to start a group. An SMT thread takes a fetch turn only for a full
    /// group.
    places: u64,
    /// Decode and rename are as wide as fetch, and so never stall.
    straight: bool,
    decode: Limiter,
    rename: Limiter,
    decoded: Option<Box<Decoded>>,
    /// Whether `line` was requested from the instruction cache.
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
            fetched: CoreCycle::ZERO,
            began: CoreCycle::ZERO,
            arrived: CoreCycle::ZERO,
            left: 0,
            line: NOWHERE,
            page: NOWHERE,
            hit_cycles: 1,
            floor: CoreCycle::ZERO,
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

    /// Sets the required queue space: a full group if another thread shares the fetch turns.
    pub(crate) fn partition(&mut self, parts: u32) {
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
        let (mut bad_until, mut bad, mut cause) = (CoreCycle::ZERO, Cause::Base, Cause::Fetch);
        let switched = self.decoded.as_mut().is_some_and(|decoded| decoded.move_to(op.fetch.0));
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

    /// The cycle until which a redirection costs slots at least, and its cause.
    #[inline]
    fn redirected(&self) -> (CoreCycle, Cause) {
        if matches!(self.floor_cause, Cause::Branch | Cause::Clear) {
            (self.floor + self.hit_cycles + 2 + self.tail, self.floor_cause)
        } else {
            (CoreCycle::ZERO, Cause::Base)
        }
    }

    /// Starts a group; returns the cause of its delay, if any.
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

    /// Releases the fetch-queue entry of an op dispatched at `at`.
    #[inline(always)]
    pub(crate) fn dispatched(&mut self, at: CoreCycle) {
        self.queue.push(at + 1);
    }

    /// Redirects fetch after a branch executed at `executed`, according to its prediction.
    #[inline]
    pub(crate) fn branch(&mut self, op: &Op, prediction: Prediction, executed: CoreCycle) {
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

    /// Refetches the violating load and all younger ops; the violation was detected in cycle `found`.
    pub(crate) fn refetch(&mut self, found: CoreCycle) {
        self.redirect(found + self.redirect_cycles, Cause::Clear);
    }

    /// Flushes fetched ops and fetches nothing before `cycle`.
    pub(crate) fn redirect(&mut self, cycle: CoreCycle, cause: Cause) {
        self.left = 0;
        self.line = NOWHERE;
        if let Some(decoded) = &mut self.decoded {
            decoded.leave();
        }
        self.floor = self.floor.max(cycle);
        self.floor_cause = cause;
    }

    /// The earliest fetch cycle of the next op or its group.
    pub(crate) fn next(&self) -> CoreCycle {
        match self.queue.free_from() <= self.fetched && self.left > 0 {
            true => self.fetched,
            false => (self.fetched + 1).max(self.floor).max(self.queue.free_for(self.places)),
        }
    }

    /// Fetches nothing more before `cycle`.
    pub(crate) fn not_before(&mut self, cycle: CoreCycle) {
        if cycle > self.fetched {
            self.left = 0;
            self.floor = self.floor.max(cycle);
        }
    }

    /// Swaps the decoded instructions, which threads share, with the other thread's front end.
    pub(crate) fn exchange(&mut self, other: &mut Front) {
        if let (Some(own), Some(other)) = (&mut self.decoded, &mut other.decoded) {
            own.exchange(other);
        }
    }

    /// Drops the current page and line, because translations may have changed.
    pub(crate) fn drop_page(&mut self) {
        self.page = NOWHERE;
        self.line = NOWHERE;
    }

    /// Whether saved state is consistent and matches this configuration.
    pub(crate) fn is_compatible(&self, fresh: &Front) -> bool {
        self.width == fresh.width
            && self.left <= self.width
            && (1..1 << 20).contains(&self.hit_cycles)
            && self.tail == fresh.tail
            && self.redirect_cycles == fresh.redirect_cycles
            && self.misfetch_cycles == fresh.misfetch_cycles
            && self.straight == fresh.straight
            && self.queue.is_compatible(&fresh.queue)
            && self.places == fresh.places
            && self.decode.is_compatible(&fresh.decode)
            && self.rename.is_compatible(&fresh.rename)
            && match (&self.decoded, &fresh.decoded) {
                (Some(own), Some(fresh)) => own.is_compatible(fresh),
                (own, fresh) => own.is_none() && fresh.is_none(),
            }
    }
}
