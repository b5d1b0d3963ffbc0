//! Buffered input for decoders, which consume exactly their own bytes.

use std::io::{self, BufRead, Read};

/// Size of a read.
const READ_BYTES: usize = 128 << 10;

/// Buffered input with look-ahead.
pub(super) struct Source<R> {
    from: R,
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
    /// File offset of the buffer.
    passed: u64,
    /// Set when the file cannot be read, because decoders report this like corrupt data.
    failed: bool,
}

impl<R: Read> Source<R> {
    /// Starts at the beginning of `from`.
    pub(super) fn new(from: R) -> Source<R> {
        Source { from, buffer: vec![0; READ_BYTES], begin: 0, end: 0, passed: 0, failed: false }
    }

    /// File offset of the next byte.
    pub(super) fn at(&self) -> u64 {
        self.passed + self.begin as u64
    }

    /// Look-ahead: at least `count` bytes, or all that are left.
    pub(super) fn peek(&mut self, count: usize) -> io::Result<&[u8]> {
        if self.end - self.begin < count {
            self.buffer.copy_within(self.begin..self.end, 0);
            self.passed += self.begin as u64;
            (self.begin, self.end) = (0, self.end - self.begin);
            while self.end < count && self.read_more()? > 0 {}
        }
        Ok(&self.buffer[self.begin..self.end])
    }

    /// Returns whether reading the file failed.
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
