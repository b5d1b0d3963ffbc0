//! The chip's statistics registers (§13.7). They stick at their greatest value and reading clears
//! them; of the 64-bit ones, reading the high half clears both.

use doorbell_sim::Frame;

use crate::Nic;
use crate::regs::{Reg, Regs};

const RECEIVED_BY_SIZE: [Reg; 6] =
    [Reg::Prc64, Reg::Prc127, Reg::Prc255, Reg::Prc511, Reg::Prc1023, Reg::Prc1522];
const SENT_BY_SIZE: [Reg; 6] =
    [Reg::Ptc64, Reg::Ptc127, Reg::Ptc255, Reg::Ptc511, Reg::Ptc1023, Reg::Ptc1522];

fn size_class(bytes: usize) -> usize {
    match bytes {
        0..=64 => 0,
        65..=127 => 1,
        128..=255 => 2,
        256..=511 => 3,
        512..=1023 => 4,
        _ => 5,
    }
}

/// Whom a frame is addressed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cast {
    Uni,
    Multi,
    Broad,
}

impl Cast {
    pub fn of(bytes: &[u8]) -> Cast {
        match bytes.get(..6) {
            Some([0xff, 0xff, 0xff, 0xff, 0xff, 0xff]) => Cast::Broad,
            Some([first, ..]) if first & 1 != 0 => Cast::Multi,
            _ => Cast::Uni,
        }
    }
}

impl Regs {
    /// Counts one.
    pub fn count(&mut self, reg: Reg) {
        self.set(reg, self.get(reg).saturating_add(1));
    }

    /// Adds to a 64-bit counter.
    pub fn count_bytes(&mut self, low: Reg, high: Reg, bytes: usize) {
        let value = u64::from(self.get(high)) << 32 | u64::from(self.get(low));
        let value = value.saturating_add(bytes as u64);
        self.set(low, value as u32);
        self.set(high, (value >> 32) as u32);
    }

    /// Reads a counter and clears it.
    pub fn take(&mut self, reg: Reg) -> u32 {
        let value = self.get(reg);
        self.set(reg, 0);
        match reg {
            Reg::Gorch => self.set(Reg::Gorcl, 0),
            Reg::Gotch => self.set(Reg::Gotcl, 0),
            Reg::Torh => self.set(Reg::Torl, 0),
            Reg::Toth => self.set(Reg::Totl, 0),
            _ => {}
        }
        value
    }
}

impl Nic {
    /// A good frame has come through the filters and into the FIFO.
    pub(crate) fn count_received(&mut self, cast: Cast, bytes_with_fcs: usize) {
        self.regs.count(Reg::Gprc);
        self.regs.count_bytes(Reg::Gorcl, Reg::Gorch, bytes_with_fcs);
        self.regs.count(RECEIVED_BY_SIZE[size_class(bytes_with_fcs)]);
        match cast {
            Cast::Uni => {}
            Cast::Multi => self.regs.count(Reg::Mprc),
            Cast::Broad => self.regs.count(Reg::Bprc),
        }
    }

    /// A frame leaves. PAUSE frames and runts are in the totals only.
    pub(crate) fn count_sent(&mut self, frame: &Frame, pause: bool) {
        let bytes = frame.len_with_fcs();
        self.regs.count(Reg::Tpt);
        self.regs.count_bytes(Reg::Totl, Reg::Toth, bytes);
        if pause || bytes < Frame::MIN_BYTES_WITH_FCS {
            return;
        }
        self.regs.count(SENT_BY_SIZE[size_class(bytes)]);
        self.regs.count(Reg::Gptc);
        self.regs.count_bytes(Reg::Gotcl, Reg::Gotch, bytes);
        match Cast::of(&frame.bytes) {
            Cast::Uni => {}
            Cast::Multi => self.regs.count(Reg::Mptc),
            Cast::Broad => self.regs.count(Reg::Bptc),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_stick_and_clear_when_read() {
        let mut regs = Regs::new();
        regs.set(Reg::Gprc, u32::MAX - 1);
        for _ in 0..3 {
            regs.count(Reg::Gprc);
        }
        assert_eq!((regs.take(Reg::Gprc), regs.take(Reg::Gprc)), (u32::MAX, 0));
    }

    #[test]
    fn wide_counters_carry_and_clear_with_the_high_half() {
        let mut regs = Regs::new();
        regs.set(Reg::Torl, u32::MAX);
        regs.count_bytes(Reg::Torl, Reg::Torh, 65);
        assert_eq!((regs.get(Reg::Torl), regs.get(Reg::Torh)), (64, 1));
        assert_eq!(regs.take(Reg::Torh), 1);
        assert_eq!(regs.get(Reg::Torl), 0);
    }
}
