//! What a trace holds, and what of it has no place in one of ours.

use std::collections::{BTreeMap, BTreeSet};

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub instructions: u64,
    /// Of these, those whose encoding is not in the file.
    pub without_encoding: u64,
    /// And those that the operating system executed.
    pub privileged: u64,
    /// No file tells loads and stores.
    pub without_data: bool,
    threads: BTreeSet<u64>,
    /// Each hart's thread, and how often it changed.
    last: BTreeMap<u16, u64>,
    pub switches: u64,
    pub system_calls: u64,
    /// Signals and other events of the operating system's.
    pub events: u64,
    /// Instructions that did not follow the one before, and nothing says why.
    pub jumps: u64,
    /// Accesses without an instruction.
    pub stray: u64,
    /// Pages whose physical addresses are told.
    pub physical: u64,
}

impl Tally {
    /// A hart goes on with this thread; whether it had another one before.
    pub fn saw(&mut self, hart: u16, thread: u64) -> bool {
        self.threads.insert(thread);
        let is_switch = self.last.insert(hart, thread).is_some_and(|last| last != thread);
        self.switches += u64::from(is_switch);
        is_switch
    }

    /// In words, a line each.
    pub fn words(&self, processes: usize) -> Vec<String> {
        let Tally { privileged, switches, system_calls, events, .. } = self;
        let mut lines = vec![format!(
            "threads: {}, of processes: {processes}, with {switches} switches between them; system calls: {system_calls}; signals and \
             interrupts: {events}; instructions of the operating system: {privileged}",
            self.threads.len()
        )];
        let mut add = |count: u64, words: &str| {
            if count > 0 {
                lines.push(format!("{count} {words}"));
            }
        };
        add(
            self.without_encoding,
            "instructions have no encoding in the file: of these only accesses and branches are known, and nothing of registers",
        );
        add(self.jumps, "times an instruction does not follow the one before, and no marker says why");
        add(self.stray, "accesses belong to no instruction, and are left out");
        add(self.physical, "physical pages are told, and not used: playback.pages says where pages lie");
        if self.without_data {
            lines.push(
                "it was recorded without loads and stores: memory is accessed for instructions alone"
                    .to_owned(),
            );
        }
        lines
    }
}
