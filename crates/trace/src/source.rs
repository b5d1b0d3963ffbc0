//! A file's bytes, in order, for decoders that take as many of them as are theirs.

use std::io::{self, BufRead, Read};

/// Bytes read at once.
const READ_BYTES: usize = 128 << 10;

/// A file's bytes, with a look at those to come.
pub(super) struct Source<R> {
    from: R,
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
    /// Bytes in front of the buffer's.
    passed: u64,
    /// Decoders say in the same way that a file cannot be read and that its bytes are wrong.
    failed: bool,
}

impl<R: Read> Source<R> {
    /// From the beginning of `from`.
    pub(super) fn new(from: R) -> Source<R> {
        Source { from, buffer: vec![0; READ_BYTES], begin: 0, end: 0, passed: 0, failed: false }
    }

    /// Where in the file the next byte is.
    pub(super) fn at(&self) -> u64 {
        self.passed + self.begin as u64
    }

    /// The bytes to come, `count` of them or all that there are.
    pub(super) fn peek(&mut self, count: usize) -> io::Result<&[u8]> {
        if self.end - self.begin < count {
            self.buffer.copy_within(self.begin..self.end, 0);
            self.passed += self.begin as u64;
            (self.begin, self.end) = (0, self.end - self.begin);
            while self.end < count && self.read_more()? > 0 {}
        }
        Ok(&self.buffer[self.begin..self.end])
    }

    /// Whether the file itself could not be read.
    pub(super) fn has_failed(&self) -> bool {
        self.failed
    }

    fn read_more(&mut self) -> io::Result<usize> {
        loop {
            match self.from.read(&mut self.buffer[self.end..]) {
                Ok(count) => {
                    self.end += count;
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.failed = true;
                    return Err(error);
                }
            }
        }
    }
}

impl<R: Read> BufRead for Source<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.peek(1)
    }

    fn consume(&mut self, count: usize) {
        self.begin += count;
    }
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let there = self.fill_buf()?;
        let count = there.len().min(to.len());
        to[..count].copy_from_slice(&there[..count]);
        self.consume(count);
        Ok(count)
    }
}
