//! Pool of frame buffers for reuse. Not saved.

/// Maximum number of buffers kept.
const KEPT: usize = 64;

/// Empty buffers with allocated memory.
#[derive(Debug, Default)]
pub(crate) struct Buffers(Vec<Vec<u8>>);

impl Buffers {
    /// Returns an empty buffer.
    pub fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_default()
    }

    /// Puts a buffer into the pool.
    pub fn recycle(&mut self, mut bytes: Vec<u8>) {
        if self.0.len() < KEPT {
            bytes.clear();
            self.0.push(bytes);
        }
    }
}
