//! Writer of captures: the classic libpcap file format with nanosecond timestamps (magic 0xa1b23c4d, link
//! type Ethernet; draft-ietf-opsawg-pcap). Frames are stored without FCS, as usual, so a bad FCS is not
//! visible; timestamps are rounded down to a nanosecond.
//!
//! Recording a frame never fails: the first host error is kept, nothing is written after it, and
//! [`PcapWriter::finish`] reports it. Records are written in large blocks; a file truncated by an error is
//! shortened to the last whole record.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use doorbell_sim::frame::Frame;
use doorbell_sim::time::Ps;

const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const LINKTYPE_ETHERNET: u32 = 1;
const FILE_HEADER_BYTES: usize = 24;
const RECORD_HEADER_BYTES: usize = 16;
/// Size at which a block is written.
const BLOCK_BYTES: usize = 1 << 18;
/// Snap length larger than any frame, so no frame is truncated.
pub const WHOLE_FRAMES: u32 = 1 << 18;

/// A capture that could not be written completely.
#[derive(Debug, thiserror::Error)]
#[error("the capture{} is incomplete, it ends after {frames_written} frames: {source}", path.as_ref().map_or(String::new(), |p| format!(" {}", p.display())))]
pub struct PcapError {
    /// Path, if it is a file.
    pub path: Option<PathBuf>,
    /// Number of frames that were written completely.
    pub frames_written: u64,
    /// Error of the host.
    pub source: io::Error,
}

/// Writes a capture to any byte sink.
#[derive(Debug)]
pub struct PcapWriter<W: Write> {
    out: W,
    snap_len: u32,
    /// Whole records (and initially the file header) that are not written yet.
    block: Vec<u8>,
    frames_in_block: u64,
    frames_written: u64,
    /// Bytes of `out` up to the end of the last whole record.
    whole_bytes: u64,
    error: Option<io::Error>,
}

impl<W: Write> PcapWriter<W> {
    /// Creates a capture with at most `snap_len` bytes of each frame.
    pub fn new(out: W, snap_len: u32) -> PcapWriter<W> {
        let mut block = Vec::with_capacity(BLOCK_BYTES + 2048);
        block.extend_from_slice(&MAGIC_NANOSECONDS.to_le_bytes());
        for half in [2u16, 4] {
            block.extend_from_slice(&half.to_le_bytes());
        }
        // Time zone and accuracy are always zero.
        for word in [0, 0, snap_len, LINKTYPE_ETHERNET] {
            block.extend_from_slice(&word.to_le_bytes());
        }
        PcapWriter {
            out,
            snap_len,
            block,
            frames_in_block: 0,
            frames_written: 0,
            whole_bytes: 0,
            error: None,
        }
    }

    /// Records a frame observed at `at`.
    pub fn record(&mut self, at: Ps, frame: &Frame) {
        if self.error.is_some() {
            return;
        }
        let kept = frame.bytes.len().min(self.snap_len as usize);
        let (seconds, ps) = (at.0 / Ps::PER_SECOND, at.0 % Ps::PER_SECOND);
        for word in [seconds as u32, (ps / 1_000) as u32, kept as u32, frame.bytes.len() as u32] {
            self.block.extend_from_slice(&word.to_le_bytes());
        }
        self.block.extend_from_slice(&frame.bytes[..kept]);
        self.frames_in_block += 1;
        if self.block.len() >= BLOCK_BYTES {
            self.write_block();
        }
    }

    /// Writes pending records, so that the file is complete up to here.
    pub fn flush(&mut self) {
        self.write_block();
        if self.error.is_none()
            && let Err(error) = self.out.flush()
        {
            self.error = Some(error);
        }
    }

    /// Writes the remaining records. Returns the number of frames in the capture, or the first error.
    pub fn finish(&mut self) -> Result<u64, PcapError> {
        self.flush();
        match self.error.take() {
            None => Ok(self.frames_written),
            Some(source) => {
                // Keep the error, so that nothing is written after it and a second call fails as well.
                self.error = Some(io::Error::new(source.kind(), source.to_string()));
                Err(PcapError { path: None, frames_written: self.frames_written, source })
            }
        }
    }

    fn write_block(&mut self) {
        let mut done = 0;
        while done < self.block.len() && self.error.is_none() {
            match self.out.write(&self.block[done..]) {
                Ok(0) => self.error = Some(io::ErrorKind::WriteZero.into()),
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => self.error = Some(error),
            }
        }
        if done == self.block.len() {
            self.whole_bytes += done as u64;
            self.frames_written += self.frames_in_block;
        } else {
            self.count_whole_records(done);
        }
        self.block.clear();
        self.frames_in_block = 0;
    }

    /// Counts the whole records within the first `done` bytes of the block.
    fn count_whole_records(&mut self, done: usize) {
        let mut at = if self.whole_bytes == 0 { FILE_HEADER_BYTES } else { 0 };
        if at > done {
            return;
        }
        while at < self.block.len() {
            let kept = &self.block[at + 8..at + 12];
            let kept = u32::from_le_bytes([kept[0], kept[1], kept[2], kept[3]]) as usize;
            if at + RECORD_HEADER_BYTES + kept > done {
                break;
            }
            at += RECORD_HEADER_BYTES + kept;
            self.frames_written += 1;
        }
        self.whole_bytes += at as u64;
    }
}

/// A capture in a file. Dropping it writes pending records; only [`finish`](PcapFile::finish) reports errors.
#[derive(Debug)]
pub struct PcapFile {
    path: PathBuf,
    writer: PcapWriter<File>,
    finished: bool,
}

impl PcapFile {
    /// Creates or truncates the file.
    pub fn create(path: &Path, snap_len: u32) -> Result<PcapFile, PcapError> {
        let file = File::create(path).map_err(|source| PcapError {
            path: Some(path.to_owned()),
            frames_written: 0,
            source,
        })?;
        Ok(PcapFile { path: path.to_owned(), writer: PcapWriter::new(file, snap_len), finished: false })
    }

    /// Records a frame observed at `at`.
    pub fn record(&mut self, at: Ps, frame: &Frame) {
        self.writer.record(at, frame);
    }

    /// Writes the remaining records. Returns the number of frames in the capture, or the first error; the
    /// file then ends with its last whole record.
    pub fn finish(mut self) -> Result<u64, PcapError> {
        self.close()
    }

    fn close(&mut self) -> Result<u64, PcapError> {
        self.finished = true;
        self.writer.finish().map_err(|mut error| {
            // If this fails as well, the first error is still the one to report.
            let _ = self.writer.out.set_len(self.writer.whole_bytes);
            error.path = Some(self.path.clone());
            error
        })
    }
}

impl Drop for PcapFile {
    fn drop(&mut self) {
        if !self.finished {
            let _ = self.close();
        }
    }
}

#[cfg(test)]
#[path = "pcap_tests.rs"]
mod tests;
