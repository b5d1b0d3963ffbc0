//! Ratios of counts.

/// A ratio, or nothing of nothing.
pub(crate) fn per(amount: f64, over: f64) -> f64 {
    if over == 0.0 { 0.0 } else { amount / over }
}

/// What there is of it for each frame: not known, and null in files, where there was none.
pub(crate) fn for_each(amount: u64, frames: u64) -> f64 {
    amount as f64 / frames as f64
}
