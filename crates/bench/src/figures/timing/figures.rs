//! The timing figures of a machine and of each core, as ratios of counters.

use doorbell_machine::{CoreKind, Machine};
use doorbell_results::figures::{CORE, L1D, L1I, L2, LLC, PACE, PACE_OF_THREADS};
use doorbell_results::{CoreFigures, TimingFigures};

use super::buses::buses;
use super::coherence::{directory, shared_lines};
use super::fabric::fabric;
use super::memory::{access_times, cache, dca, dram, llc, occupancy, uncore};
use super::models::Models;
use super::packet_cost::per_packet;
use super::pcie::pcie;
use super::span::{Span, View};
use super::spread::{core_balance, neighbours, own_packets};
use super::top_down::{cpi_stack, top_down};
use crate::ratio::ratio;

/// All figures of a machine for a span.
pub(crate) fn figures(span: &Span, machine: &Machine) -> TimingFigures {
    figures_of(span, &Models::of(machine).expect("a timed machine has timing models"))
}

/// All figures of timing models for a span.
pub(crate) fn figures_of(span: &Span, models: &Models) -> TimingFigures {
    let (w, mut figures) = (&View::of_all(span), TimingFigures::default());
    let g = &mut figures;
    // With co-runners, counts of shared memory cannot be attributed to packets; nor can device counts if
    // co-runners have devices. Without frames, these figures have no value.
    let frames_if = |is_own: bool| if is_own { w.frames } else { 0 };
    let memory_frames = frames_if(!w.has_neighbours());
    let device_frames = frames_if(!models.neighbours_have_devices);
    per_packet(w, g);
    top_down(&w.own.core.books, g);
    cpi_stack(&w.own.core.books, w.instructions, g);
    core(w, g);
    cache(w, &L1I, &w.private.l1i, g);
    cache(w, &L1D, &w.private.l1d, g);
    cache(w, &L2, &w.private.l2, g);
    llc(w, &LLC, g);
    access_times(w, g);
    occupancy(w, models, g);
    dram(w, memory_frames, g);
    pcie(w, device_frames, g);
    buses(w, g);
    uncore(w, memory_frames, device_frames, g);
    dca(w, memory_frames, device_frames, g);
    shared_lines(w, g);
    directory(w, memory_frames, g);
    fabric(w, memory_frames, g);
    core_balance(w, g);
    neighbours(span, g);
    figures
}

/// Figures of each core: the groups for a core's private resources.
pub(crate) fn cores(span: &Span) -> Vec<CoreFigures> {
    let threads = span.end.threads;
    let figures = |hart: usize, thread: Option<usize>, figures: TimingFigures| {
        let parts = span.config.hart(hart);
        CoreFigures {
            hart,
            core: (threads > 1).then_some(hart / threads),
            thread: thread.filter(|_| threads > 1),
            kind: match parts.pipeline.kind {
                CoreKind::OutOfOrder => "out-of-order",
                CoreKind::InOrder => "in-order",
            }
            .to_owned(),
            frequency_ghz: parts.core.frequency.0 as f64 * 1e-9,
            figures,
        }
    };
    let of_hart = |hart: usize| {
        let (w, mut g) = (&View::of_hart(span, hart), TimingFigures::default());
        pace(w, &mut g);
        per_packet(w, &mut g);
        top_down(&w.own.core.books, &mut g);
        cpi_stack(&w.own.core.books, w.instructions, &mut g);
        core(w, &mut g);
        if threads == 1 {
            caches(w, &mut g);
        }
        own_packets(w, &mut g);
        figures(hart, Some(hart % threads), g)
    };
    let of_core = |index: usize| {
        let (w, mut g) = (&View::of_core(span, index), TimingFigures::default());
        pace_of_threads(w, &mut g);
        top_down(&w.own.core.books, &mut g);
        core(w, &mut g);
        caches(w, &mut g);
        figures(index * threads, None, g)
    };
    let harts = span.end.harts.len();
    // Threads share their core's slots and caches, whose figures are given per core.
    let smt_cores = if threads > 1 { harts / threads } else { 0 };
    (0..harts).map(of_hart).chain((0..smt_cores).map(of_core)).collect()
}

/// Figures of the private caches, and of lines shared with other cores.
fn caches(w: &View, g: &mut TimingFigures) {
    cache(w, &L1I, &w.private.l1i, g);
    cache(w, &L1D, &w.private.l1d, g);
    cache(w, &L2, &w.private.l2, g);
    access_times(w, g);
    shared_lines(w, g);
}

/// The pace of a core with several threads.
fn pace_of_threads(w: &View, g: &mut TimingFigures) {
    g.put(PACE_OF_THREADS.cycles, Some(w.cycles as f64));
    g.put(PACE_OF_THREADS.instructions, Some(w.instructions as f64));
    g.put(PACE_OF_THREADS.ipc, ratio(w.instructions, w.cycles));
}

fn pace(w: &View, g: &mut TimingFigures) {
    g.put(PACE.cycles, Some(w.cycles as f64));
    g.put(PACE.instructions, Some(w.instructions as f64));
    g.put(PACE.ipc, ratio(w.instructions, w.awake_cycles()));
    g.put(PACE.asleep_share, ratio(w.own.core.books.cpi_idle, w.cycles));
}

fn core(w: &View, g: &mut TimingFigures) {
    let counts = &w.own.core.counts;
    let kilo = counts.instructions as f64 / 1e3;
    let wrong = counts.wrong_directions + counts.wrong_targets + counts.wrong_returns;
    g.put(CORE.branch_mpki, ratio(wrong, kilo));
    g.put(CORE.branch_miss_rate, ratio(wrong, counts.branches));
    g.put(CORE.replays_pki, ratio(counts.replays, kilo));
    g.put(CORE.forwarded_loads, ratio(counts.forwards, counts.loads));
    g.put(CORE.itlb_mpki, ratio(counts.itlb_misses, kilo));
    g.put(CORE.dtlb_mpki, ratio(counts.dtlb_misses, kilo));
    g.put(CORE.walk_cycles, ratio(counts.walk_cycles, counts.walks));
}
