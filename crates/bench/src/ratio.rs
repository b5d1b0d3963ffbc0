//! Ratios of counts.

/// Returns a ratio, or 0 if the divisor is 0.
pub(crate) fn per(amount: f64, over: f64) -> f64 {
    if over == 0.0 { 0.0 } else { amount / over }
}

/// Amount per frame; not finite without frames, which JSON files show as null.
pub(crate) fn per_frame(amount: u64, frames: u64) -> f64 {
    amount as f64 / frames as f64
}

/// A number that can be part of a ratio.
pub(crate) trait Number {
    fn float(self) -> f64;
}

impl Number for f64 {
    fn float(self) -> f64 {
        self
    }
}

impl Number for u64 {
    fn float(self) -> f64 {
        self as f64
    }
}

/// Returns `amount / by`, or `None` unless `by` is positive.
pub(crate) fn ratio(amount: impl Number, by: impl Number) -> Option<f64> {
    let by = by.float();
    (by > 0.0).then(|| amount.float() / by)
}
