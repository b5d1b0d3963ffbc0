//! Output of the command. A closed terminal, a broken pipe or a full disk never ends the work. Lines on
//! standard error are then lost; a failure to write standard output makes the command fail at its end.

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

/// Prints a line to standard error, as `eprintln!` does.
macro_rules! errln {
    ($($words:tt)*) => { $crate::out::print_error(format_args!("{}\n", format_args!($($words)*))) };
}

pub(crate) use {errln, out, outln};

/// Prints to standard output, unless that has failed before.
pub fn print(text: Arguments) {
    if FAILED.load(Ordering::Relaxed) {
        return;
    }
    let mut stdout = std::io::stdout().lock();
    if let Err(error) = stdout.write_fmt(text).and_then(|()| stdout.flush()) {
        FAILED.store(true, Ordering::Relaxed);
        // A broken pipe is not an error: the reader, for example `head`, has read enough.
        if error.kind() != ErrorKind::BrokenPipe {
            print_error(format_args!("doorbell: cannot write to standard output: {error}\n"));
        }
    }
}

/// Prints to standard error, ignoring errors.
pub fn print_error(text: Arguments) {
    let _ = std::io::stderr().lock().write_fmt(text);
}

/// Whether printing to standard output failed.
pub fn has_failed() -> bool {
    FAILED.load(Ordering::Relaxed)
}
