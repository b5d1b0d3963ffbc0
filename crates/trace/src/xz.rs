//! Decoder of one stream of an .xz file. Unlike the library's reader, it delivers the bytes decompressed
//! before an error.

use std::io::{self, BufRead, Read};

use liblzma::stream::{Action, Error, Status, Stream};

use super::source::Source;

/// The decoder; see the module.
pub(super) struct XzDecoder<R> {
    source: Source<R>,
    stream: Stream,
    /// Result of the next read.
    next: Next,
}

enum Next {
    Bytes,
    Error(Error),
    End,
}

impl<R: Read> XzDecoder<R> {
    /// Decodes the stream at the current position, within a memory limit.
    pub(super) fn new(source: Source<R>, memory_bytes: u64) -> io::Result<XzDecoder<R>> {
        let stream = Stream::new_stream_decoder(memory_bytes, 0)?;
        Ok(XzDecoder { source, stream, next: Next::Bytes })
    }

    /// Input, positioned after the consumed bytes.
    pub(super) fn source(&self) -> &Source<R> {
        &self.source
    }

    /// Input, positioned after the consumed bytes.
    pub(super) fn into_source(self) -> Source<R> {
        self.source
    }

    /// Decompresses the available input; `None` if it needs more.
    fn step(&mut self, to: &mut [u8]) -> io::Result<Option<usize>> {
        let input = self.source.fill_buf()?;
        let is_cut = input.is_empty();
        let (taken, given) = (self.stream.total_in(), self.stream.total_out());
        let status = self.stream.process(input, to, if is_cut { Action::Finish } else { Action::Run });
        let taken = (self.stream.total_in() - taken) as usize;
        let given = (self.stream.total_out() - given) as usize;
        self.source.consume(taken);
        match status {
            Ok(Status::StreamEnd) => self.next = Next::End,
            Err(error) if given == 0 => return Err(error.into()),
            Err(error) => self.next = Next::Error(error),
            Ok(_) if given > 0 => {}
            Ok(_) if is_cut => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => return Ok(None),
        }
        Ok(Some(given))
    }
}

impl<R: Read> Read for XzDecoder<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.next {
                Next::Bytes => {}
                Next::Error(error) => return Err(error.into()),
                Next::End => return Ok(0),
            }
            if let Some(given) = self.step(to)? {
                return Ok(given);
            }
        }
    }
}
