//! Memory of frames that are gone, for frames to come. Not state.

/// Buffers kept.
const KEPT: usize = 64;

/// Empty buffers that have their memory.
#[derive(Debug, Default)]
pub(crate) struct Buffers(Vec<Vec<u8>>);

impl Buffers {
    /// An empty buffer.
    pub fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_default()
    }

    /// Keeps a frame's memory for a later one.
    pub fn recycle(&mut self, mut bytes: Vec<u8>) {
        if self.0.len() < KEPT {
            bytes.clear();
            self.0.push(bytes);
        }
    }
}
