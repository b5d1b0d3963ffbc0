//! Saved state of a switch.

use doorbell_sim::event::QueueState;
use doorbell_sim::snapshot::SnapshotError;
use doorbell_sim::{EventQueue, Ps};
use doorbell_wire::link::LinkState;
use serde::{Deserialize, Serialize};

use super::{Mac, Output, OutputStats, Station, Switch, SwitchEvent, SwitchStats, Waiting};

/// Saved state of a switch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SwitchState {
    stations: Vec<(Mac, Station)>,
    queue: QueueState<SwitchEvent>,
    outputs: Vec<OutputState>,
    stats: SwitchStats,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct OutputState {
    link: LinkState,
    waiting: Vec<Waiting>,
    leaving: Option<u64>,
    stats: OutputStats,
}

impl Switch {
    pub(crate) fn save(&self) -> SwitchState {
        let output = |output: &Output| OutputState {
            link: output.link.save(),
            waiting: output.waiting.iter().cloned().collect(),
            leaving: output.leaving,
            stats: output.stats.clone(),
        };
        SwitchState {
            stations: self.stations.iter().map(|(mac, station)| (*mac, *station)).collect(),
            queue: self.queue.save(),
            outputs: self.outputs.iter().map(output).collect(),
            stats: self.stats.clone(),
        }
    }

    /// Restores a saved state; `present` is the end of the network's present window.
    pub(crate) fn restore(&mut self, state: SwitchState, present: Ps) -> Result<(), SnapshotError> {
        let wrong = |problem: &str| SnapshotError::Inconsistent {
            name: format!("switch {}", self.name),
            problem: problem.to_owned(),
        };
        let ports = self.outputs.len();
        let queue = EventQueue::restore(state.queue.clone());
        let sound = state.queue.is_sound()
            && queue.now() <= present
            && queue.events().all(|due: &SwitchEvent| usize::from(due.port()) < ports);
        if state.outputs.len() != ports || !sound {
            return Err(wrong("the number of ports differs, or a pending event is invalid"));
        }
        let is_valid =
            |(_, station): &(Mac, Station)| usize::from(station.port) < ports && station.heard <= present;
        if state.stations.len() > self.config.stations as usize || !state.stations.iter().all(is_valid) {
            return Err(wrong("its address table is too large or has an invalid entry"));
        }
        let bytes = |output: &OutputState| -> u64 {
            let waiting = output.waiting.iter().map(|waiting| waiting.frame.len_with_fcs() as u64);
            waiting.fold(output.leaving.unwrap_or(0), u64::saturating_add)
        };
        if state.outputs.iter().any(|output| bytes(output) > self.config.queue.0) {
            return Err(wrong("a queue holds more bytes than its configured size"));
        }
        // If frames wait, one is being sent, and a frame being sent has exactly one pending `Left` event.
        let leaving = |port: usize| {
            queue
                .events()
                .filter(|due: &&SwitchEvent| {
                    matches!(due, SwitchEvent::Left { port: own } if usize::from(*own) == port)
                })
                .count()
        };
        let sound = |(port, output): (usize, &OutputState)| {
            leaving(port) == usize::from(output.leaving.is_some())
                && (output.leaving.is_some() || output.waiting.is_empty())
                && output.waiting.iter().all(|waiting| waiting.arrived <= present)
        };
        if !state.outputs.iter().enumerate().all(sound) {
            return Err(wrong("a queue does not match its pending events"));
        }
        for (output, state) in self.outputs.iter_mut().zip(state.outputs) {
            output.queue_bytes = bytes(&state);
            let OutputState { link, waiting, leaving, stats } = state;
            output.link.restore(link)?;
            (output.waiting, output.leaving, output.stats) = (waiting.into(), leaving, stats);
        }
        (self.queue, self.stats) = (queue, state.stats);
        self.stations = state.stations.into_iter().collect();
        Ok(())
    }
}
