//! How signals end the process. SIGTERM ends each command with 130, at once; commands that end in good order take it over when they
//! begin their work. SIGINT is theirs alone: where nothing takes it, the system ends the process, and shells see that as 130 too.
//! When the host has no memory left, Rust's standard library says so and raises SIGABRT: the status is that of any failure.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGABRT, SIGTERM};
use signal_hook::flag::register_conditional_shutdown;

use crate::exit::{FAILED, INTERRUPTED};

static AT_ONCE: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// For all commands. A host that refuses a handler leaves the system's own in place.
pub fn begin() {
    let at_once = AT_ONCE.get_or_init(|| Arc::new(AtomicBool::new(true)));
    let _ = register_conditional_shutdown(SIGTERM, INTERRUPTED.into(), Arc::clone(at_once));
    let _ = register_conditional_shutdown(SIGABRT, FAILED.into(), Arc::new(AtomicBool::new(true)));
}

/// The command has a handler of its own for SIGTERM.
pub fn handled() {
    AT_ONCE.get().into_iter().for_each(|at_once| at_once.store(false, Ordering::Relaxed));
}
