//! Bytes from a file or a pipe.

use std::io::Read;

use crate::error::StreamError;

const BUFFER_BYTES: usize = 1 << 18;

/// Buffered reader of single bytes.
#[derive(Debug)]
pub(super) struct Input<R> {
    input: R,
    buffer: Vec<u8>,
    at: usize,
    end: usize,
}

impl<R: Read> Input<R> {
    pub(super) fn new(input: R) -> Input<R> {
        Input { input, buffer: vec![0; BUFFER_BYTES], at: 0, end: 0 }
    }

    /// The next byte. `Err(None)` is the end.
    pub(super) fn byte(&mut self) -> Result<u8, Option<StreamError>> {
        if self.at == self.end {
            self.fill()?;
        }
        self.at += 1;
        Ok(self.buffer[self.at - 1])
    }

    #[cold]
    fn fill(&mut self) -> Result<(), Option<StreamError>> {
        self.at = 0;
        self.end = loop {
            match self.input.read(&mut self.buffer) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                other => break other.map_err(|error| Some(error.into()))?,
            }
        };
        if self.end == 0 { Err(None) } else { Ok(()) }
    }
}
