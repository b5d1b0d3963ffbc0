//! Signal handling. SIGTERM ends each command at once with status 130; commands that clean up replace this
//! handler when they start their work. Only those commands handle SIGINT; otherwise the system ends the
//! process, which shells also report as 130. When the host is out of memory, Rust's standard library raises
//! SIGABRT; the status is that of any failure.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGABRT, SIGTERM};
use signal_hook::flag::register_conditional_shutdown;

use crate::exit::{FAILED, INTERRUPTED};

static AT_ONCE: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Installs the handlers for all commands. If the host rejects one, the system's default applies.
pub fn begin() {
    let at_once = AT_ONCE.get_or_init(|| Arc::new(AtomicBool::new(true)));
    let _ = register_conditional_shutdown(SIGTERM, INTERRUPTED.into(), Arc::clone(at_once));
    let _ = register_conditional_shutdown(SIGABRT, FAILED.into(), Arc::new(AtomicBool::new(true)));
}

/// Called when the command has its own handler for SIGTERM.
pub fn handled() {
    AT_ONCE.get().into_iter().for_each(|at_once| at_once.store(false, Ordering::Relaxed));
}
