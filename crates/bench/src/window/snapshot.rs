//! The edges of a measurement window.
//!
//! On the wires a window begins and ends at a moment up to which everything has happened and behind which no event has
//! ([`Machine::complete_until`]): its seconds lie between two of these. A timed hart stops behind a block of instructions, later than that,
//! so that each has a time of its own there, and what a hart has counted belongs to the cycles between its own times.

use doorbell_machine::Machine;
use doorbell_sim::Ps;

use crate::plan::config::RunConfig;

/// What was measured is said to differ from what was asked for if it does so by more than this share.
const NOTICED: f64 = 0.01;

/// A window's begin or end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Edge {
    /// On the wires.
    pub at: Ps,
    /// How far each measured hart had come.
    harts: Vec<Ps>,
    /// For how many picoseconds the link to each NIC, and the one from it, had been busy.
    wires: Vec<[u64; 2]>,
}

impl Edge {
    /// The present.
    pub fn of(machine: &Machine) -> Edge {
        let at = machine.complete_until();
        let harts = machine.harts()[..machine.measured_harts].iter();
        let wires = machine.ports().iter().map(|port| [&port.link_in, &port.link_out]);
        Edge {
            at,
            // One that sleeps has come as far as the machine.
            harts: harts.map(|hart| hart.time().max(at)).collect(),
            wires: wires.map(|links| links.map(|link| link.busy_until(at))).collect(),
        }
    }

    /// How long the window is that begins here.
    pub fn length(&self, end: &Edge) -> Ps {
        end.at.saturating_sub(self.at)
    }

    /// How long it is for each hart.
    fn of_harts<'a>(&'a self, end: &'a Edge) -> impl Iterator<Item = Ps> + 'a {
        end.harts.iter().zip(&self.harts).map(|(end, begin)| end.saturating_sub(*begin))
    }

    /// Cycles of the measured harts' cores in it, asleep or not.
    pub fn core_cycles(&self, end: &Edge, config: &RunConfig) -> f64 {
        let lengths = self.of_harts(end).enumerate();
        lengths.map(|(hart, length)| length.as_secs_f64() * config.hart(hart).core.frequency.0 as f64).sum()
    }

    /// The share of it in which the busiest cable was busy, one way; none where nothing was sent or received.
    pub fn wire_share(&self, end: &Edge) -> Option<f64> {
        let grown = |(end, begin): (&[u64; 2], &[u64; 2])| (end[0] - begin[0]).max(end[1] - begin[1]);
        let busy = end.wires.iter().zip(&self.wires).map(grown).max().filter(|busy| *busy > 0)?;
        Some(busy as f64 / self.length(end).0.max(1) as f64)
    }

    /// What to say of a window that is not as long as was asked, or much shorter or longer for a hart than on the wires.
    pub fn differs(&self, end: &Edge, asked: Option<Ps>) -> Vec<String> {
        let length = self.length(end);
        let differs = |own: Ps, from: Ps| own.0.abs_diff(from.0) as f64 > from.0 as f64 * NOTICED;
        let ns = |time: Ps| format!("{}\u{a0}ns", time.as_ns_f64());
        let mut said = Vec::new();
        if let Some(asked) = asked.filter(|asked| differs(length, *asked)) {
            said.push(format!(
                "the measurement took {}, and not the {asked} of run.duration: it begins and ends between two frames. All rates are of the \
                 time that it took",
                ns(length)
            ));
        }
        let farthest = self.of_harts(end).max_by_key(|own| own.0.abs_diff(length.0));
        if let Some(own) = farthest.filter(|own| differs(*own, length)) {
            let enough = (own.0.abs_diff(length.0) as f64 / NOTICED * 1e-6).ceil();
            said.push(format!(
                "a core was measured for {} and the wires for {}: a core's counts end behind a block of instructions. With run.duration = \
                 \"{enough}us\" or more the two are the same within {}\u{a0}%",
                ns(own),
                ns(length),
                NOTICED * 100.0
            ));
        }
        said
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(at: u64, harts: [u64; 2], wires: [u64; 2]) -> Edge {
        Edge { at: Ps(at), harts: harts.map(Ps).to_vec(), wires: vec![wires] }
    }

    #[test]
    fn a_window_is_as_long_as_the_wires_were_watched_and_cycles_are_counted_between_each_harts_own_times() {
        let (begin, end) = (edge(1000, [1400, 1000], [100, 0]), edge(3000, [3100, 3400], [1900, 2000]));
        assert_eq!(begin.length(&end), Ps(2000));
        assert_eq!(begin.wire_share(&end), Some(1.0));
        let config = crate::scenarios::registry::defaults();
        let clock = config.hart(0).core.frequency.0 as f64;
        let cycles = begin.core_cycles(&edge(3000, [3100, 3400], [0, 0]), &two_harts());
        assert!((cycles - (1700.0 + 2400.0) * 1e-12 * clock).abs() < 1e-9, "{cycles}");
        assert_eq!(edge(0, [0, 0], [7, 7]).wire_share(&edge(5, [5, 5], [7, 7])), None);
    }

    fn two_harts() -> RunConfig {
        crate::request::resolve::resolve("fast", &["platform.harts=2".to_owned()]).unwrap()
    }

    #[test]
    fn a_window_that_is_not_as_asked_is_said_with_the_length_that_would_do() {
        let begin = edge(1000, [1400, 1400], [0, 0]);
        let end = |length: u64| edge(1000 + length, [1400 + length + 443_000, 1400 + length], [0, 0]);
        let said = begin.differs(&end(5120), Some(Ps(1)));
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(
            said[0].starts_with("the measurement took 5.12\u{a0}ns, and not the 1ps of run.duration"),
            "{said:?}"
        );
        assert!(said[1].contains("run.duration = \"45us\" or more"), "{said:?}");
        assert!(begin.differs(&end(44_300_000), Some(Ps(44_300_000))).is_empty());
        assert!(begin.differs(&end(44_300_000), None).is_empty());
    }
}
