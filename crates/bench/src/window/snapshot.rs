//! The edges of a measurement window.
//!
//! On the wires a window begins and ends at a time up to which all events have been processed, and no later ones
//! ([`Machine::complete_until`]). Its length is measured between these times. A timed hart stops later, at the end of a
//! block of instructions. Each hart therefore has its own time at an edge, and its counts cover the cycles between
//! its own times.

use doorbell_machine::Machine;
use doorbell_sim::Ps;

use crate::plan::config::RunConfig;

/// Relative difference between measured and requested times above which a note is printed.
const NOTICED: f64 = 0.01;

/// Beginning or end of a window.
#[derive(Clone, Debug, Default)]
pub(crate) struct Edge {
    /// Time on the wires.
    pub at: Ps,
    /// Time of each measured hart.
    harts: Vec<Ps>,
    /// Busy time of the link to each NIC and of the link from it, in picoseconds.
    wires: Vec<[u64; 2]>,
}

impl Edge {
    /// The edge at the present time.
    pub fn of(machine: &Machine) -> Edge {
        let at = machine.complete_until();
        let harts = machine.harts()[..machine.measured_harts].iter();
        let wires = machine.ports().iter().map(|port| [&port.link_in, &port.link_out]);
        Edge {
            at,
            // A sleeping hart is at the machine's time.
            harts: harts.map(|hart| hart.time().max(at)).collect(),
            wires: wires.map(|links| links.map(|link| link.busy_until(at))).collect(),
        }
    }

    /// Length of the window from this edge to `end`.
    pub fn length(&self, end: &Edge) -> Ps {
        end.at.saturating_sub(self.at)
    }

    /// Length of the window for each measured hart.
    fn of_harts<'a>(&'a self, end: &'a Edge) -> impl Iterator<Item = Ps> + 'a {
        end.harts.iter().zip(&self.harts).map(|(end, begin)| end.saturating_sub(*begin))
    }

    /// Cycles of the measured harts' cores in the window, including idle ones.
    pub fn core_cycles(&self, end: &Edge, config: &RunConfig) -> f64 {
        let lengths = self.of_harts(end).enumerate();
        lengths.map(|(hart, length)| length.as_secs_f64() * config.hart(hart).core.frequency.0 as f64).sum()
    }

    /// Utilization of the busiest link direction; `None` if nothing was sent or received.
    pub fn wire_share(&self, end: &Edge) -> Option<f64> {
        let grown = |(end, begin): (&[u64; 2], &[u64; 2])| (end[0] - begin[0]).max(end[1] - begin[1]);
        let busy = end.wires.iter().zip(&self.wires).map(grown).max().filter(|busy| *busy > 0)?;
        Some(busy as f64 / self.length(end).0.max(1) as f64)
    }

    /// Notes about a window whose length differs from the requested one, or differs for a hart from that on the wires.
    pub fn differs(&self, end: &Edge, asked: Option<Ps>) -> Vec<String> {
        let length = self.length(end);
        let differs = |own: Ps, from: Ps| own.0.abs_diff(from.0) as f64 > from.0 as f64 * NOTICED;
        let ns = |time: Ps| format!("{}\u{a0}ns", time.as_ns_f64());
        let mut notes = Vec::new();
        if let Some(asked) = asked.filter(|asked| differs(length, *asked)) {
            notes.push(format!(
                "the measurement took {} instead of run.duration = {asked}, because it begins and ends between two frames. All rates use \
                 the actual time",
                ns(length)
            ));
        }
        let farthest = self.of_harts(end).max_by_key(|own| own.0.abs_diff(length.0));
        if let Some(own) = farthest.filter(|own| differs(*own, length)) {
            let enough = (own.0.abs_diff(length.0) as f64 / NOTICED * 1e-6).ceil();
            notes.push(format!(
                "a core was measured for {} and the wires for {}: a core stops only at the end of a block of instructions. With run.duration = \
                 \"{enough}us\" or more the two agree within {}\u{a0}%",
                ns(own),
                ns(length),
                NOTICED * 100.0
            ));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(at: u64, harts: [u64; 2], wires: [u64; 2]) -> Edge {
        Edge { at: Ps(at), harts: harts.map(Ps).to_vec(), wires: vec![wires] }
    }

    #[test]
    fn length_is_that_on_the_wires_and_cycles_are_counted_between_each_harts_own_times() {
        let (begin, end) = (edge(1000, [1400, 1000], [100, 0]), edge(3000, [3100, 3400], [1900, 2000]));
        assert_eq!(begin.length(&end), Ps(2000));
        assert_eq!(begin.wire_share(&end), Some(1.0));
        let config = crate::registry::defaults();
        let clock = config.hart(0).core.frequency.0 as f64;
        let cycles = begin.core_cycles(&edge(3000, [3100, 3400], [0, 0]), &two_harts());
        assert!((cycles - (1700.0 + 2400.0) * 1e-12 * clock).abs() < 1e-9, "{cycles}");
        assert_eq!(edge(0, [0, 0], [7, 7]).wire_share(&edge(5, [5, 5], [7, 7])), None);
    }

    fn two_harts() -> crate::plan::resolved::Resolved {
        crate::request::resolve::resolve("fast", &["platform.harts=2".to_owned()]).unwrap()
    }

    #[test]
    fn notes_report_a_different_length_and_the_duration_that_avoids_it() {
        let begin = edge(1000, [1400, 1400], [0, 0]);
        let end = |length: u64| edge(1000 + length, [1400 + length + 443_000, 1400 + length], [0, 0]);
        let notes = begin.differs(&end(5120), Some(Ps(1)));
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(
            notes[0].starts_with("the measurement took 5.12\u{a0}ns instead of run.duration = 1ps"),
            "{notes:?}"
        );
        assert!(notes[1].contains("run.duration = \"45us\" or more"), "{notes:?}");
        assert!(begin.differs(&end(44_300_000), Some(Ps(44_300_000))).is_empty());
        assert!(begin.differs(&end(44_300_000), None).is_empty());
    }
}
