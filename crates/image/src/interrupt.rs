//! Whether the user has interrupted this process. The flag is global, as signals are per process. Running
//! host programs are ended, and no new ones are started.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::error::ImageError;

static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Sets the flag whose setting interrupts builds. Only the first call has an effect.
pub fn interrupted_by(flag: Arc<AtomicBool>) {
    let _ = FLAG.set(flag);
}

/// Whether the flag is set.
pub(crate) fn is_requested() -> bool {
    FLAG.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// Returns an error if the flag is set.
pub(crate) fn check() -> Result<(), ImageError> {
    if is_requested() { Err(ImageError::Interrupted) } else { Ok(()) }
}
