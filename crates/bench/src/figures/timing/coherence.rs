//! Figures of coherence: lines shared by cores, and the directory.

use doorbell_results::TimingFigures;
use doorbell_results::figures::{DIRECTORY, SHARED_LINES};

use super::memory::CLASSES;
use super::span::View;
use crate::ratio::ratio;

/// Lines that cores take from each other; none with a single core.
pub(super) fn shared_lines(w: &View, g: &mut TimingFigures) {
    if !w.end().has_sharing() {
        return;
    }
    let (kilo, frames, shared) = (w.instructions as f64 / 1e3, w.frames, &w.private.sharing);
    let keys = SHARED_LINES;
    for (per_kilo, per_packet, count) in [
        (keys.hit_pki, keys.hit_per_packet, shared.hit),
        (keys.hitm_pki, keys.hitm_per_packet, shared.hitm),
        (keys.true_sharing_pki, keys.true_sharing_per_packet, shared.true_sharing),
        (keys.false_sharing_pki, keys.false_sharing_per_packet, shared.false_sharing),
        (keys.ping_pong_pki, keys.ping_pong_per_packet, shared.ping_pong),
    ] {
        g.put(per_kilo, ratio(count, kilo));
        g.put(per_packet, ratio(count, frames));
    }
    let by_class = [
        shared.hitm_other,
        shared.hitm_code,
        shared.hitm_header,
        shared.hitm_payload,
        shared.hitm_rx_descriptor,
        shared.hitm_tx_descriptor,
    ];
    for ((class, what), count) in CLASSES.into_iter().zip(by_class) {
        g.put_for(keys.hitm_of_class, class, what, ratio(count, frames));
    }
}

/// Figures of the directory, if the machine has one.
pub(super) fn directory(w: &View, frames: u64, g: &mut TimingFigures) {
    if !w.end().has_directory {
        return;
    }
    let kilo = w.instructions as f64 / 1e3;
    let (keys, directory) = (DIRECTORY, w.shared(|at| &at.memory.directory));
    for (per_kilo, per_packet, count) in [
        (keys.snoops_pki, keys.snoops_per_packet, directory.snoops),
        (keys.forwards_pki, keys.forwards_per_packet, directory.forwards),
        (keys.back_invalidations_pki, keys.back_invalidations_per_packet, directory.back_invalidations),
    ] {
        g.put(per_kilo, ratio(count, kilo));
        g.put(per_packet, ratio(count, frames));
    }
}
