//! Totals of a trace, and information that Doorbell's format cannot express.

use std::collections::{BTreeMap, BTreeSet};

/// Totals; see the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub instructions: u64,
    /// Instructions whose encoding is not in the file.
    pub without_encoding: u64,
    /// Instructions executed by the kernel.
    pub privileged: u64,
    /// No file has loads and stores.
    pub without_data: bool,
    threads: BTreeSet<u64>,
    /// Current thread of each hart.
    last: BTreeMap<u16, u64>,
    pub switches: u64,
    pub system_calls: u64,
    /// Signals and other kernel events.
    pub events: u64,
    /// Instructions that do not follow the previous one, without an explaining marker.
    pub jumps: u64,
    /// Accesses without an instruction.
    pub stray: u64,
    /// Pages with recorded physical addresses.
    pub physical: u64,
}

impl Tally {
    /// Records the current thread of a hart; returns whether it replaced another.
    pub fn run_thread(&mut self, hart: u16, thread: u64) -> bool {
        self.threads.insert(thread);
        let is_switch = self.last.insert(hart, thread).is_some_and(|last| last != thread);
        self.switches += u64::from(is_switch);
        is_switch
    }

    /// Summary, one line each.
    pub fn summary(&self, processes: usize) -> Vec<String> {
        let Tally { privileged, switches, system_calls, events, .. } = self;
        let mut lines = vec![format!(
            "threads: {}; processes: {processes}; switches between threads: {switches}; system calls: {system_calls}; signals and \
             interrupts: {events}; kernel instructions: {privileged}",
            self.threads.len()
        )];
        let mut add = |count: u64, summary: &str| {
            if count > 0 {
                lines.push(format!("{count} {summary}"));
            }
        };
        add(
            self.without_encoding,
            "instructions have no encoding in the file: only their accesses and branches are known, not their registers",
        );
        add(self.jumps, "instructions do not follow the previous one, and no marker explains it");
        add(self.stray, "accesses have no instruction, and are left out");
        add(self.physical, "physical page addresses are not used: playback.pages sets the mapping");
        if self.without_data {
            lines.push(
                "it was recorded without loads and stores: only instruction fetches access memory".to_owned(),
            );
        }
        lines
    }
}
