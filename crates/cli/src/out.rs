//! What the command prints. Whatever happens to a terminal, a pipe or a full disk behind them, printing never ends the work:
//! lines on standard error are lost if nobody takes them, and what cannot be written to standard output makes the command fail
//! at its end, after everything else is done.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

static FAILED: AtomicBool = AtomicBool::new(false);

/// Prints to standard output, as `print!` does.
macro_rules! out {
    ($($words:tt)*) => { $crate::out::print(format_args!($($words)*)) };
}

/// Prints a line to standard output, as `println!` does.
macro_rules! outln {
    ($($words:tt)*) => { $crate::out::print(format_args!("{}\n", format_args!($($words)*))) };
}

/// Tells a line on standard error, as `eprintln!` does.
macro_rules! tell {
    ($($words:tt)*) => { $crate::out::tell_text(format_args!("{}\n", format_args!($($words)*))) };
}

pub(crate) use {out, outln, tell};

/// Prints to standard output, unless that has failed before.
pub fn print(text: Arguments) {
    if FAILED.load(Ordering::Relaxed) {
        return;
    }
    let mut stdout = std::io::stdout().lock();
    if let Err(error) = stdout.write_fmt(text).and_then(|()| stdout.flush()) {
        FAILED.store(true, Ordering::Relaxed);
        // A reader that has seen enough, as `head` has, need not be told.
        if error.kind() != ErrorKind::BrokenPipe {
            tell_text(format_args!("doorbell: cannot write to standard output: {error}\n"));
        }
    }
}

/// Tells something on standard error, if anybody listens.
pub fn tell_text(text: Arguments) {
    let _ = std::io::stderr().lock().write_fmt(text);
}

/// Whether something could not be printed.
pub fn has_failed() -> bool {
    FAILED.load(Ordering::Relaxed)
}
