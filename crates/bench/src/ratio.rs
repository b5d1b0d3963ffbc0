//! Ratios of counts.

/// Returns a ratio, or 0 if the divisor is 0.
pub(crate) fn per(amount: f64, over: f64) -> f64 {
    if over == 0.0 { 0.0 } else { amount / over }
}

/// Amount per frame; not finite without frames, which JSON files show as null.
pub(crate) fn per_frame(amount: u64, frames: u64) -> f64 {
    amount as f64 / frames as f64
}
