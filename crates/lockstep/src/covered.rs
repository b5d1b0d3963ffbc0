//! Coverage of a comparison, printed at its end.

use std::collections::BTreeMap;

use doorbell_riscv::Privilege;
use doorbell_riscv::inst::Kind;

/// Coverage counts of one or more harts.
#[derive(Default)]
pub struct Covered {
    /// Injected values, by kind.
    pub injected: BTreeMap<&'static str, u64>,
    /// Traps taken by both, by cause.
    pub traps: BTreeMap<u64, u64>,
    /// Executed instructions, by kind.
    pub kinds: BTreeMap<Kind, u64>,
    /// Compared instructions, by privilege level.
    pub levels: BTreeMap<Privilege, u64>,
}

impl Covered {
    /// Instructions compared at a privilege level.
    pub fn at(&self, level: Privilege) -> u64 {
        self.levels.get(&level).copied().unwrap_or(0)
    }

    /// Adds the coverage of another hart.
    pub fn add(&mut self, other: &Covered) {
        fn add<K: Ord + Copy>(to: &mut BTreeMap<K, u64>, from: &BTreeMap<K, u64>) {
            for (key, times) in from {
                *to.entry(*key).or_default() += times;
            }
        }
        add(&mut self.injected, &other.injected);
        add(&mut self.traps, &other.traps);
        add(&mut self.kinds, &other.kinds);
        add(&mut self.levels, &other.levels);
    }

    /// Prints all counts except the levels, which are printed per hart.
    pub fn print(&self) {
        println!("kinds of instructions covered: {}", self.kinds.len());
        for (what, times) in &self.injected {
            println!("injected: {what}: {times}");
        }
        for (cause, times) in &self.traps {
            let kind = if cause >> 63 != 0 { "interrupt" } else { "exception" };
            println!("{kind} {}: {times}", cause << 1 >> 1);
        }
    }
}
