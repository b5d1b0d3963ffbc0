//! Console output: kept for reports, and searched for a marker.

/// The guest's output. An observer: not part of the machine's state.
#[derive(Clone, Debug, Default)]
pub struct Console {
    text: Vec<u8>,
    /// Offsets at which the search for the marker began, and up to which it is done.
    watched_from: usize,
    searched: usize,
    /// Offset up to which [`take_new`](Console::take_new) has returned the output.
    taken: usize,
    marker: Option<String>,
}

/// Bytes of output that are kept; older output is dropped.
const BYTES_KEPT: usize = 4 << 20;

impl Console {
    /// Appends output.
    pub fn push(&mut self, bytes: &[u8]) {
        self.text.extend_from_slice(bytes);
        if self.text.len() > 2 * BYTES_KEPT {
            let excess = self.text.len() - BYTES_KEPT;
            self.text.drain(..excess);
            self.watched_from = self.watched_from.saturating_sub(excess);
            self.searched = self.searched.saturating_sub(excess);
            self.taken = self.taken.saturating_sub(excess);
        }
    }

    /// Searches for a marker in the output from now on.
    pub fn watch(&mut self, marker: Option<&str>) {
        self.marker = marker.map(str::to_owned);
        self.watched_from = self.text.len();
        self.searched = self.text.len();
    }

    /// Whether the marker has appeared; it is reported once.
    pub fn marker_seen(&mut self) -> bool {
        let Some(marker) = &self.marker else { return false };
        // The marker may arrive in two pieces.
        let from = self.searched.saturating_sub(marker.len()).max(self.watched_from);
        let found = self.text[from..].windows(marker.len().max(1)).any(|window| window == marker.as_bytes());
        self.searched = self.text.len();
        if found {
            self.marker = None;
        }
        found
    }

    /// Output since the last call, byte for byte.
    pub fn take_new(&mut self) -> Vec<u8> {
        let new = self.text[self.taken..].to_vec();
        self.taken = self.text.len();
        new
    }

    /// Hash of the kept output.
    pub(crate) fn hash(&self) -> u64 {
        xxhash_rust::xxh3::xxh3_64(&self.text)
    }

    /// The kept output, without carriage returns.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.text).replace('\r', "")
    }

    /// The last `count` lines.
    pub fn last_lines(&self, count: usize) -> String {
        let text = self.text();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(count)..].join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marker_is_found_once_even_if_it_arrives_in_pieces() {
        let mut console = Console::default();
        console.push(b"ready");
        console.watch(Some("ready"));
        assert!(!console.marker_seen(), "earlier output does not count");
        console.push(b" ... rea");
        assert!(!console.marker_seen());
        console.push(b"dy\n");
        assert!(console.marker_seen());
        assert!(!console.marker_seen());
    }
}
