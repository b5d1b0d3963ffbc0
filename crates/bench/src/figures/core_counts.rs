//! Instructions, cycles and IPC of each timed core between two moments, as lines for a terminal.

use doorbell_machine::{Machine, Mode};
use doorbell_sim::stats::Stats;

/// What timed cores have counted so far; nothing where the machine is not timed at present.
#[derive(Clone, Debug, Default)]
pub struct CoreCounts {
    /// Instructions and cycles.
    cores: Vec<[u64; 2]>,
}

impl CoreCounts {
    /// Until now.
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

    /// A line for each core that has executed something since `begin`.
    pub fn since(&self, begin: &CoreCounts) -> Vec<String> {
        let begun = |hart: usize| begin.cores.get(hart).copied().unwrap_or_default();
        let line = |(hart, [instructions, cycles]): (usize, &[u64; 2])| {
            let [first_instruction, first_cycle] = begun(hart);
            let (instructions, cycles) = (instructions - first_instruction, cycles - first_cycle);
            let ipc = instructions as f64 / cycles.max(1) as f64;
            (instructions > 0)
                .then(|| format!("hart {hart}: {instructions} instructions, {cycles} cycles, IPC {ipc:.3}"))
        };
        self.cores.iter().enumerate().filter_map(line).collect()
    }
}
