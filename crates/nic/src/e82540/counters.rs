//! The chip's statistics registers (§13.7). They stick at their greatest value and reading clears
//! them; of the 64-bit ones, reading the high half clears both.

use doorbell_sim::Frame;

use super::Nic;
use super::regs::{Access, Reg, Regs, TABLE};
use crate::parts::filter::Cast;

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

/// A statistics register as reports list it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistic {
    /// The manual's name; for the two halves of a 64-bit counter without the last letter.
    pub name: String,
    /// What it counts, from the register table.
    pub meaning: &'static str,
    /// What was counted since this object was made, whatever software has read and reset.
    pub value: u64,
}

impl Nic {
    /// All statistics registers in the order of the manual.
    pub fn statistics(&self) -> Vec<Statistic> {
        let mut all = Vec::new();
        let mut low_half = 0;
        for (index, register) in TABLE.iter().enumerate().filter(|(_, register)| register.is_statistic()) {
            let value = self.regs.total(index);
            if register.access == Access::Ro {
                // The low half: it stands before the high one, and only the high one clears.
                low_half = value;
                continue;
            }
            let (name, meaning, value) = match register.summary.split_once(", high half") {
                Some((meaning, _)) => {
                    (register.name.trim_end_matches('H'), meaning, (value << 32).wrapping_add(low_half))
                }
                None => (register.name, register.summary.trim_end_matches('.'), value),
            };
            all.push(Statistic { name: name.to_owned(), meaning, value });
        }
        all
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
