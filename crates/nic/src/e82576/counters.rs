//! The chip's statistics registers (§8.18). They stick at their greatest value and reading clears them; of the 64-bit ones,
//! reading the high half clears both.

use doorbell_sim::Frame;

use super::Igb;
use super::regs::{Reg, Regs};
use crate::parts::filter::Cast;
use crate::parts::registers::{Statistic, size_class};

const RECEIVED_BY_SIZE: [Reg; 6] =
    [Reg::Prc64, Reg::Prc127, Reg::Prc255, Reg::Prc511, Reg::Prc1023, Reg::Prc1522];
const SENT_BY_SIZE: [Reg; 6] =
    [Reg::Ptc64, Reg::Ptc127, Reg::Ptc255, Reg::Ptc511, Reg::Ptc1023, Reg::Ptc1522];
/// All queues are of the first pool.
const POOL: usize = 0;

impl Regs {
    /// Reads a counter and clears it.
    pub fn take_counter(&mut self, reg: Reg, index: usize) -> u32 {
        let low = match reg {
            Reg::Gorch => Some(Reg::Gorcl),
            Reg::Gotch => Some(Reg::Gotcl),
            Reg::Torh => Some(Reg::Torl),
            Reg::Toth => Some(Reg::Totl),
            Reg::Hgorch => Some(Reg::Hgorcl),
            Reg::Hgotch => Some(Reg::Hgotcl),
            _ => None,
        };
        if let Some(low) = low {
            self.clear_statistic(low);
        }
        self.take_at(reg, index)
    }
}

impl Igb {
    /// All statistics registers in the order of the table.
    pub fn statistics(&self) -> Vec<Statistic> {
        self.regs.statistics()
    }

    /// A good frame has come through the filters and into the packet buffer.
    pub(super) fn count_received(&mut self, cast: Cast, bytes_with_fcs: usize) {
        self.regs.count(Reg::Gprc);
        self.regs.count_bytes(Reg::Gorcl, Reg::Gorch, bytes_with_fcs);
        self.regs.count(RECEIVED_BY_SIZE[size_class(bytes_with_fcs)]);
        self.regs.count_at(Reg::Vfgprc, POOL, 1);
        self.regs.count_at(Reg::Vfgorc, POOL, bytes_with_fcs as u32);
        match cast {
            Cast::Uni => {}
            Cast::Multi => {
                self.regs.count(Reg::Mprc);
                self.regs.count_at(Reg::Vfmprc, POOL, 1);
            }
            Cast::Broad => self.regs.count(Reg::Bprc),
        }
    }

    /// The host has been given a frame.
    pub(super) fn count_delivered(&mut self, bytes_with_fcs: usize) {
        self.regs.count(Reg::Rpthc);
        self.regs.count_bytes(Reg::Hgorcl, Reg::Hgorch, bytes_with_fcs);
    }

    /// A frame leaves. PAUSE frames and runts are in the totals only.
    pub(super) fn count_sent_frame(&mut self, frame: &Frame, pause: bool) {
        let bytes = frame.len_with_fcs();
        self.regs.count(Reg::Tpt);
        self.regs.count_bytes(Reg::Totl, Reg::Toth, bytes);
        if pause || bytes < Frame::MIN_BYTES_WITH_FCS {
            return;
        }
        self.regs.count(SENT_BY_SIZE[size_class(bytes)]);
        self.regs.count(Reg::Gptc);
        self.regs.count_bytes(Reg::Gotcl, Reg::Gotch, bytes);
        self.regs.count(Reg::Hgptc);
        self.regs.count_bytes(Reg::Hgotcl, Reg::Hgotch, bytes);
        self.regs.count_at(Reg::Vfgptc, POOL, 1);
        self.regs.count_at(Reg::Vfgotc, POOL, bytes as u32);
        match Cast::of(&frame.bytes) {
            Cast::Uni => {}
            Cast::Multi => self.regs.count(Reg::Mptc),
            Cast::Broad => self.regs.count(Reg::Bptc),
        }
    }
}
