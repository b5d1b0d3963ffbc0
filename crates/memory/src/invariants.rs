//! Invariants of the memory system, checked line by line after a restore and by tests.

use doorbell_sim::Domain;

use crate::cache::Cache;
use crate::class::DataClass;
use crate::config::Inclusion;
use crate::system::{MemorySystem, Private};

impl Private {
    /// Checks that the L2 includes the L1s and has write permission where they do.
    fn check(&self) -> Result<(), String> {
        for (name, l1) in [("L1I", &self.l1i), ("L1D", &self.l1d)] {
            for (slot, line) in l1.tags.iter() {
                let Some(below) = self.l2.tags.find(line) else {
                    return Err(format!("line {line} is in the {name} and not in the L2"));
                };
                if l1.tags.flags(slot).is_writable() && !self.l2.tags.flags(below).is_writable() {
                    return Err(format!("line {line} may be written in the {name} and not in the L2"));
                }
            }
        }
        let in_l1 = |line: u32| self.l1i.tags.find(line).or(self.l1d.tags.find(line)).is_some();
        let beyond = self.l2.tags.iter().find(|(_, line)| self.directory && !in_l1(*line));
        beyond.map_or(Ok(()), |(_, line)| {
            Err(format!("line {line} is in the directory of a hart without an L2, but in no L1"))
        })
    }
}

impl<D: Domain> Cache<D> {
    /// Checks that lines filled = lines that left + lines present.
    fn check_fill_count(&self, name: &str) -> Result<(), String> {
        let (fills, there) = (self.stats.fills, self.tags.iter().count() as u64);
        let gone = self.stats.evictions + self.stats.invalidations;
        if fills != gone + there {
            return Err(format!(
                "{name} was filled {fills} times, but {gone} lines left and {there} are present"
            ));
        }
        Ok(())
    }
}

impl<M> MemorySystem<M> {
    /// Returns the first violated invariant.
    pub fn check_invariants(&self) -> Result<(), String> {
        for (index, hart) in self.harts.iter().enumerate() {
            hart.check()?;
            for (_, line) in hart.l2.tags.iter() {
                self.check_private_line(index, line)?;
            }
            for (name, cache) in [("an L1I", &hart.l1i), ("an L1D", &hart.l1d), ("an L2", &hart.l2)] {
                cache.check_fill_count(name)?;
            }
        }
        self.check_sharers()?;
        self.llc.check_fill_count("the LLC")?;
        self.check_accounts()
    }

    /// Checks that the sharers recorded for each line are exactly the caches that have it.
    fn check_sharers(&self) -> Result<(), String> {
        let Some(sharers) = &self.sharers else { return Ok(()) };
        sharers.check(&self.harts)?;
        let Some(directory) = &self.directory else { return Ok(()) };
        let all = self.harts.iter().flat_map(|hart| hart.l2.tags.iter().map(|(_, line)| line));
        directory.check_lines(|line| sharers.of(line) != 0, all)
    }

    /// Checks a line of a hart's L2: one writer or many readers, and the inclusion policy.
    fn check_private_line(&self, hart: usize, line: u32) -> Result<(), String> {
        let flags = |hart: &Private| hart.l2.tags.find(line).map(|slot| hart.l2.tags.flags(slot));
        let writable = flags(&self.harts[hart]).is_some_and(|flags| flags.is_writable());
        let others = self.harts.iter().enumerate().filter(|(index, _)| *index != hart);
        if writable && others.filter_map(|(_, other)| flags(other)).next().is_some() {
            return Err(format!("line {line} may be written by hart {hart} and is in another's cache"));
        }
        let in_llc = self.llc.tags.find(line).is_some();
        match self.inclusion {
            Inclusion::Inclusive if !in_llc => {
                Err(format!("line {line} is in an L2 and not in the inclusive LLC"))
            }
            Inclusion::Exclusive if in_llc && writable => {
                Err(format!("line {line} is owned by one hart and also in the exclusive LLC"))
            }
            _ => Ok(()),
        }
    }

    /// Checks that every line a device put into a cache is accounted for, and that the lines per class are
    /// right.
    fn check_accounts(&self) -> Result<(), String> {
        let mut occupancy = [0; DataClass::COUNT];
        let mut fresh = 0;
        for (slot, _) in self.llc.tags.iter() {
            occupancy[self.llc.tags.flags(slot).class() as usize] += 1;
            fresh += u64::from(self.llc.tags.flags(slot).is_fresh());
        }
        if occupancy != self.occupancy {
            return Err(format!(
                "the LLC holds {occupancy:?} lines per class, but {:?} are counted",
                self.occupancy
            ));
        }
        for hart in &self.harts {
            fresh +=
                hart.l2.tags.iter().filter(|(slot, _)| hart.l2.tags.flags(*slot).is_fresh()).count() as u64;
        }
        let counted = &self.devices;
        let used = counted.fresh_used_by_core.wrapping_add(counted.fresh_used_by_device);
        let lost = [counted.fresh_overwritten, counted.fresh_dropped, counted.leaks]
            .iter()
            .fold(0, |sum: u64, n| sum.wrapping_add(*n));
        if counted.fresh_lines != used.wrapping_add(lost).wrapping_add(fresh) {
            return Err(format!(
                "devices put {} lines into caches, but the counters of their use do not add up to that",
                counted.fresh_lines
            ));
        }
        Ok(())
    }
}
