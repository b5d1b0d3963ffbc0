//! Whether the user wants this process to stop. Signals are the process's, and so is the flag that their handler sets: the host's programs
//! at work are ended, and nothing further is begun.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::error::ImageError;

static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on, this flag ends what is being built once it is set. The first one that is given counts.
pub fn interrupted_by(flag: Arc<AtomicBool>) {
    let _ = FLAG.set(flag);
}

/// Whether it is set.
pub(crate) fn is_asked() -> bool {
    FLAG.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// An error if it is.
pub(crate) fn check() -> Result<(), ImageError> {
    if is_asked() { Err(ImageError::Interrupted) } else { Ok(()) }
}
