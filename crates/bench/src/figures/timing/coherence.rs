//! Figures of coherence: lines shared by cores, and the directory.

use super::figures::{CLASSES, GroupBuilder, ratio};
use super::span::View;

/// Lines that cores take from each other; `None` with a single core.
pub(super) fn shared_lines(w: &View) -> Option<GroupBuilder> {
    if !w.has("sharing.hitm") {
        return None;
    }
    let mut g = GroupBuilder::new("shared lines");
    let (kilo, frames) = (w.instructions as f64 / 1e3, w.frames as f64);
    let kinds = [
        ("hit", "lines from another core's cache, unmodified there"),
        ("hitm", "lines from another core's cache, modified there"),
        ("true_sharing", "misses after another core's store, on a word that other cores have written since"),
        (
            "false_sharing",
            "misses after another core's store, on a word that no other core has written since",
        ),
        (
            "ping_pong",
            "lines obtained for writing from a core that had obtained them for writing from this one",
        ),
    ];
    for (kind, meaning) in kinds {
        let count = w.n(&format!("sharing.{kind}"));
        g.put(format!("{kind}_pki"), ratio(count, kilo), format!("{meaning}, per thousand instructions"));
        g.put(format!("{kind}_per_packet"), ratio(count, frames), "the same per delivered packet");
    }
    for (class, what) in CLASSES {
        let count = w.n(&format!("sharing.hitm_{class}"));
        g.put(
            format!("{class}_hitm_per_packet"),
            ratio(count, frames),
            format!("hitm of {what}, per delivered packet"),
        );
    }
    Some(g)
}

/// Figures of the directory, if the machine has one.
pub(super) fn directory(w: &View) -> Option<GroupBuilder> {
    if !w.has("directory.snoops") {
        return None;
    }
    let mut g = GroupBuilder::new("directory");
    let (kilo, frames) = (w.instructions as f64 / 1e3, w.frames as f64);
    for (name, counter, meaning) in [
        ("snoops", "snoops", "snoops sent to private caches"),
        ("forwards", "forwards", "snoops that returned the line"),
        (
            "back_invalidations",
            "back_invalidations",
            "lines invalidated in private caches because the directory was full",
        ),
    ] {
        let count = w.n(&format!("directory.{counter}"));
        g.put(format!("{name}_pki"), ratio(count, kilo), format!("{meaning}, per thousand instructions"));
        g.put(format!("{name}_per_packet"), ratio(count, frames), "the same per delivered packet");
    }
    Some(g)
}
