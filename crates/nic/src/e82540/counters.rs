//! The chip's statistics registers (§13.7). They stick at their greatest value and reading clears
//! them; of the 64-bit ones, reading the high half clears both.

use doorbell_sim::Frame;

use super::Nic;
use super::regs::{Reg, Regs};
use crate::parts::filter::Cast;
use crate::parts::registers::{Statistic, size_class};

const RECEIVED_BY_SIZE: [Reg; 6] =
    [Reg::Prc64, Reg::Prc127, Reg::Prc255, Reg::Prc511, Reg::Prc1023, Reg::Prc1522];
const SENT_BY_SIZE: [Reg; 6] =
    [Reg::Ptc64, Reg::Ptc127, Reg::Ptc255, Reg::Ptc511, Reg::Ptc1023, Reg::Ptc1522];

impl Regs {
    /// Reads a counter and clears it.
    pub fn take(&mut self, reg: Reg) -> u32 {
        let value = self.get(reg);
        self.clear_statistic(reg);
        match reg {
            Reg::Gorch => self.clear_statistic(Reg::Gorcl),
            Reg::Gotch => self.clear_statistic(Reg::Gotcl),
            Reg::Torh => self.clear_statistic(Reg::Torl),
            Reg::Toth => self.clear_statistic(Reg::Totl),
            _ => {}
        }
        value
    }
}

impl Nic {
    /// All statistics registers in the order of the manual.
    pub fn statistics(&self) -> Vec<Statistic> {
        self.regs.statistics()
    }

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
    pub(crate) fn count_sent_frame(&mut self, frame: &Frame, pause: bool) {
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
    use crate::e82540::regs::TABLE;

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
    fn what_software_reads_and_resets_stays_in_the_totals() {
        let mut nic =
            Nic::new(crate::NicConfig::default(), doorbell_sim::BitsPerSec(1_000_000_000), 0).unwrap();
        nic.regs.set(Reg::Gorcl, u32::MAX);
        nic.regs.count_bytes(Reg::Gorcl, Reg::Gorch, 65);
        for _ in 0..3 {
            nic.regs.count(Reg::Mpc);
        }
        let of = |nic: &Nic, name: &str| {
            nic.statistics().into_iter().find(|statistic| statistic.name == name).unwrap()
        };
        let octets = of(&nic, "GORC");
        assert_eq!((octets.value, octets.meaning), ((1 << 32) + 64, "Good bytes received"));
        nic.regs.take(Reg::Gorch);
        nic.regs.take(Reg::Mpc);
        nic.regs.count(Reg::Mpc);
        nic.regs.count_bytes(Reg::Gorcl, Reg::Gorch, 6);
        nic.regs.reset();
        nic.regs.count(Reg::Mpc);
        assert_eq!((of(&nic, "GORC").value, of(&nic, "MPC").value), ((1 << 32) + 70, 5));
        let names: Vec<String> = nic.statistics().into_iter().map(|statistic| statistic.name).collect();
        assert!(names.iter().any(|name| name == "TOT") && !names.iter().any(|name| name == "TOTL"));
        assert_eq!(names.len(), TABLE.iter().filter(|register| register.is_statistic()).count() - 4);
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
