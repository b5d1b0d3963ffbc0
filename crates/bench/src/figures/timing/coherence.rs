//! What cores take from each other, and what a directory does for that.

use super::figures::{CLASSES, Filling, over};
use super::span::View;

/// Lines that harts take from each other; none where there is one hart.
pub(super) fn taken(w: &View) -> Option<Filling> {
    if !w.has("sharing.hitm") {
        return None;
    }
    let mut g = Filling::new("shared lines");
    let (kilo, frames) = (w.instructions as f64 / 1e3, w.frames as f64);
    let kinds = [
        ("hit", "lines that came from another core's cache, which had not written them"),
        ("hitm", "lines that came from another core's cache, which had written them"),
        ("true_sharing", "misses after another core's store, of a word that others had written since"),
        ("false_sharing", "misses after another core's store, of a word that nobody else had written since"),
        ("ping_pong", "lines got for writing from a core that had got them so from this one"),
    ];
    for (kind, meaning) in kinds {
        let count = w.n(&format!("sharing.{kind}"));
        g.put(format!("{kind}_pki"), over(count, kilo), format!("{meaning}, a thousand instructions"));
        g.put(format!("{kind}_per_packet"), over(count, frames), "the same a delivered packet");
    }
    for (class, what) in CLASSES {
        let count = w.n(&format!("sharing.hitm_{class}"));
        g.put(format!("{class}_hitm_per_packet"), over(count, frames), format!("of hitm, {what}"));
    }
    Some(g)
}

/// What a directory does; none where there is none.
pub(super) fn directory(w: &View) -> Option<Filling> {
    if !w.has("directory.snoops") {
        return None;
    }
    let mut g = Filling::new("directory");
    let (kilo, frames) = (w.instructions as f64 / 1e3, w.frames as f64);
    for (name, counter, meaning) in [
        ("snoops", "snoops", "snoops sent to private caches"),
        ("forwards", "forwards", "of these, such as brought the line"),
        (
            "back_invalidations",
            "back_invalidations",
            "lines taken from private caches because the directory was full",
        ),
    ] {
        let count = w.n(&format!("directory.{counter}"));
        g.put(format!("{name}_pki"), over(count, kilo), format!("{meaning}, a thousand instructions"));
        g.put(format!("{name}_per_packet"), over(count, frames), "the same a delivered packet");
    }
    Some(g)
}
