//! Statistics registers. They saturate and clear on read; reading the high half of a 64-bit counter clears
//! both halves.

use doorbell_sim::Frame;

use super::chip::Common;
use super::{Chip, Controller};
use crate::parts::filter::Cast;
use crate::parts::registers::{RegisterFile, RegisterId, size_class};

/// Receive counters by frame size class.
fn received_by_size<R: Copy>(reg: &Common<R>) -> [R; 6] {
    [reg.prc64, reg.prc127, reg.prc255, reg.prc511, reg.prc1023, reg.prc1522]
}

/// Transmit counters by frame size class.
fn sent_by_size<R: Copy>(reg: &Common<R>) -> [R; 6] {
    [reg.ptc64, reg.ptc127, reg.ptc255, reg.ptc511, reg.ptc1023, reg.ptc1522]
}

impl<R: RegisterId + PartialEq> RegisterFile<R> {
    /// Reads and clears a counter. For a high half listed in `halves`, clears the low half too.
    pub fn take_counter(&mut self, reg: R, index: usize, halves: &[(R, R)]) -> u32 {
        if let Some((_, low)) = halves.iter().find(|(high, _)| *high == reg) {
            self.clear_statistic(*low);
        }
        self.take_at(reg, index)
    }
}

/// High and low halves of the 64-bit counters that all chips have.
pub(crate) fn halves<R: Copy>(reg: &Common<R>) -> [(R, R); 4] {
    [(reg.gorch, reg.gorcl), (reg.gotch, reg.gotcl), (reg.torh, reg.torl), (reg.toth, reg.totl)]
}

impl<C: Chip> Controller<C> {
    /// Counts a good frame that has passed the filters and entered the packet buffer.
    pub(super) fn count_received(&mut self, cast: Cast, bytes_with_fcs: usize) {
        let reg = C::REG;
        self.regs.count(reg.gprc);
        self.regs.count_bytes(reg.gorcl, reg.gorch, bytes_with_fcs);
        self.regs.count(received_by_size(&reg)[size_class(bytes_with_fcs)]);
        match cast {
            Cast::Uni => {}
            Cast::Multi => self.regs.count(reg.mprc),
            Cast::Broad => self.regs.count(reg.bprc),
        }
        C::count_received(&mut self.regs, bytes_with_fcs, cast == Cast::Multi);
    }

    /// Counts a sent frame. PAUSE frames and runts count only in the totals (TPT, TOT).
    pub(super) fn count_sent(&mut self, frame: &Frame, is_pause: bool) {
        let (reg, bytes) = (C::REG, frame.len_with_fcs());
        self.regs.count(reg.tpt);
        self.regs.count_bytes(reg.totl, reg.toth, bytes);
        if is_pause || bytes < Frame::MIN_BYTES_WITH_FCS {
            return;
        }
        self.regs.count(sent_by_size(&reg)[size_class(bytes)]);
        self.regs.count(reg.gptc);
        self.regs.count_bytes(reg.gotcl, reg.gotch, bytes);
        match Cast::of_frame(&frame.bytes) {
            Cast::Uni => {}
            Cast::Multi => self.regs.count(reg.mptc),
            Cast::Broad => self.regs.count(reg.bptc),
        }
        C::count_sent(&mut self.regs, bytes);
    }
}
