//! Captures: the classic libpcap file format with nanosecond stamps (magic 0xa1b23c4d, link type
//! Ethernet; draft-ietf-opsawg-pcap). Frames are stored without FCS, as capture programs store them, so a
//! frame with a bad FCS looks like any other; stamps are cut to the nanosecond below.
//!
//! Writing never fails where a frame is recorded: the first error of the host is kept, nothing is written after
//! it, and [`PcapWriter::finish`] reports it. Records reach the file in whole blocks; a file that an
//! error cut inside a record is shortened to the last whole one.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use doorbell_sim::frame::Frame;
use doorbell_sim::time::Ps;

const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const LINKTYPE_ETHERNET: u32 = 1;
const FILE_HEADER_BYTES: usize = 24;
const RECORD_HEADER_BYTES: usize = 16;
/// How much is gathered before it is written.
const BLOCK_BYTES: usize = 1 << 18;
/// More than any frame: nothing is cut.
pub const WHOLE_FRAMES: u32 = 1 << 18;

/// A capture could not be written to its end.
#[derive(Debug, thiserror::Error)]
#[error("the capture{} is incomplete, it ends after {frames_written} frames: {source}", path.as_ref().map_or(String::new(), |p| format!(" {}", p.display())))]
pub struct PcapError {
    /// The file, where it is one.
    pub path: Option<PathBuf>,
    /// Frames that are in it whole.
    pub frames_written: u64,
    /// What the host said.
    pub source: io::Error,
}

/// Writes a capture to anything that takes bytes.
#[derive(Debug)]
pub struct PcapWriter<W: Write> {
    out: W,
    snap_len: u32,
    /// Whole records (and, at first, the file header) that are not written yet.
    block: Vec<u8>,
    frames_in_block: u64,
    frames_written: u64,
    /// Bytes of `out` up to the end of the last whole record.
    whole_bytes: u64,
    error: Option<io::Error>,
}

impl<W: Write> PcapWriter<W> {
    /// A capture that keeps at most `snap_len` bytes of each frame.
    pub fn new(out: W, snap_len: u32) -> PcapWriter<W> {
        let mut block = Vec::with_capacity(BLOCK_BYTES + 2048);
        block.extend_from_slice(&MAGIC_NANOSECONDS.to_le_bytes());
        for half in [2u16, 4] {
            block.extend_from_slice(&half.to_le_bytes());
        }
        // Time zone and accuracy are zero in every file.
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

    /// Records a frame that was seen at `at`.
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

    /// Writes what is gathered, so that the file is whole up to here.
    pub fn flush(&mut self) {
        self.write_block();
        if self.error.is_none()
            && let Err(error) = self.out.flush()
        {
            self.error = Some(error);
        }
    }

    /// Writes the rest. Says how many frames the capture has, or what went wrong.
    pub fn finish(&mut self) -> Result<u64, PcapError> {
        self.flush();
        match self.error.take() {
            None => Ok(self.frames_written),
            Some(source) => {
                // Nothing may follow the place of the error, and asking again must not say that all is well.
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

    /// Finds the last record of the block that lies within its first `done` bytes.
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

/// A capture in a file. Dropping it writes what is gathered; only [`finish`](PcapFile::finish) tells of errors.
#[derive(Debug)]
pub struct PcapFile {
    path: PathBuf,
    writer: PcapWriter<File>,
    finished: bool,
}

impl PcapFile {
    /// Creates (or empties) the file.
    pub fn create(path: &Path, snap_len: u32) -> Result<PcapFile, PcapError> {
        let file = File::create(path).map_err(|source| PcapError {
            path: Some(path.to_owned()),
            frames_written: 0,
            source,
        })?;
        Ok(PcapFile { path: path.to_owned(), writer: PcapWriter::new(file, snap_len), finished: false })
    }

    /// Records a frame that was seen at `at`.
    pub fn record(&mut self, at: Ps, frame: &Frame) {
        self.writer.record(at, frame);
    }

    /// Writes what is gathered, so that the file is whole up to here.
    pub fn flush(&mut self) {
        self.writer.flush();
    }

    /// Writes the rest. Says how many frames the capture has, or what went wrong; then the file ends with
    /// its last whole record.
    pub fn finish(mut self) -> Result<u64, PcapError> {
        self.close()
    }

    fn close(&mut self) -> Result<u64, PcapError> {
        self.finished = true;
        self.writer.finish().map_err(|mut error| {
            // If even this fails there is nothing left to do, and the first error says why.
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
