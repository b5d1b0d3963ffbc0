//! Instructions, cycles and IPC of each timed core between two times, as lines for a terminal.

use doorbell_machine::{Machine, Mode};
use doorbell_sim::stats::Stats;

/// Snapshot of the cores' instruction and cycle counts. It is empty if the machine is not in timed mode.
#[derive(Clone, Debug, Default)]
pub struct CoreCounts {
    /// Instructions and cycles of each core.
    cores: Vec<[u64; 2]>,
}

impl CoreCounts {
    /// Reads the counts.
    pub fn of(machine: &Machine) -> CoreCounts {
        if machine.mode() != Mode::Detailed {
            return CoreCounts::default();
        }
        let of_hart = |hart| {
            let counters = machine.core_stats(hart)?.counters();
            let value = |name: &str| counters.iter().find(|own| own.name == name).map(|own| own.value);
            Some([value("instructions")?, value("cycles")?])
        };
        let harts = 0..machine.harts().len();
        CoreCounts { cores: harts.map(|hart| of_hart(hart).unwrap_or_default()).collect() }
    }

    /// One line for each core that has executed instructions since `begin`.
    pub fn since(&self, begin: &CoreCounts) -> Vec<String> {
        let at_begin = |hart: usize| begin.cores.get(hart).copied().unwrap_or_default();
        let line = |(hart, [instructions, cycles]): (usize, &[u64; 2])| {
            let [first_instruction, first_cycle] = at_begin(hart);
            let (instructions, cycles) = (instructions - first_instruction, cycles - first_cycle);
            let ipc = instructions as f64 / cycles.max(1) as f64;
            (instructions > 0)
                .then(|| format!("hart {hart}: {instructions} instructions, {cycles} cycles, IPC {ipc:.3}"))
        };
        self.cores.iter().enumerate().filter_map(line).collect()
    }
}
