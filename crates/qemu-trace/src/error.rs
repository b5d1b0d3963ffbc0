//! What can be wrong with a raw stream.

use std::io;

use doorbell_trace::system::TraceError;

/// See the module.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// It cannot be read.
    #[error("the recording cannot be read: {0}")]
    Read(#[from] io::Error),
    /// It is something else.
    #[error("this is no recording of the QEMU plugin's, or one of another version")]
    Foreign,
    /// QEMU ended early, or the file was cut.
    #[error("the recording breaks off after {blocks} blocks: QEMU ended early, or the file was cut")]
    Truncated {
        /// How many blocks were executed up to there.
        blocks: u64,
    },
    /// It contradicts itself.
    #[error("the recording is damaged: {what}, after {blocks} blocks")]
    Damaged {
        /// What is wrong.
        what: &'static str,
        /// How many blocks were executed up to there.
        blocks: u64,
    },
    /// What becomes of it cannot be written.
    #[error(transparent)]
    Write(#[from] TraceError),
    /// It is of a guest that has not reached 64-bit mode.
    #[error("the window begins before the guest is in 64-bit mode; begin it later (skip, or a mark)")]
    Not64Bit,
}
