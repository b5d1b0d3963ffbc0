//! Errors of reading a raw stream.

use std::io;

use doorbell_trace::system::TraceError;

/// Error of reading a raw stream.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// Reading fails.
    #[error("the recording cannot be read: {0}")]
    Read(#[from] io::Error),
    /// Another file type.
    #[error("this is not a recording of the QEMU plugin, or of another version")]
    Foreign,
    /// The stream is truncated: QEMU ended early, or the file was cut.
    #[error("the recording ends after {blocks} blocks: QEMU ended early, or the file was cut")]
    Truncated {
        /// Executed blocks before the end.
        blocks: u64,
    },
    /// The contents are inconsistent.
    #[error("the recording is damaged: {what}, after {blocks} blocks")]
    Damaged {
        /// Description of the damage.
        what: &'static str,
        /// Executed blocks before it.
        blocks: u64,
    },
    /// Writing the trace fails.
    #[error(transparent)]
    Write(#[from] TraceError),
    /// The window begins before the guest enters 64-bit mode.
    #[error("the window begins before the guest is in 64-bit mode; start it later (skip, or a mark)")]
    Not64Bit,
}
