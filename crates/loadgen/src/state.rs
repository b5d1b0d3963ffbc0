//! The generator's saved state. Spare buffers are not saved.

use doorbell_sim::Ps;
use doorbell_sim::snapshot::SnapshotError;
use serde::{Deserialize, Serialize};

use crate::arrival::LoadGenStats;
use crate::config::TrafficConfig;
use crate::generator::{LoadGen, Stage, make_run};
use crate::in_flight::{InFlight, InFlightState};
use crate::measure::Measurement;
use crate::streams::LaneState;

/// Saved state of a [`LoadGen`].
///
/// It includes the traffic, so a generator restored in the middle of a run continues with that traffic,
/// whatever its configuration; [`LoadGen::set_traffic`] then replaces it. Capture files are not included and
/// must exist on restore. So that a checkpoint from before any traffic needs none, unstarted streams are
/// omitted if there are captures among them. Unstarted traffic is saved as configuration only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadGenState {
    stream: u32,
    run: u32,
    traffic: TrafficConfig,
    /// Fill key of the frames in flight; later runs use the generator's own seed.
    key: u64,
    streams: Vec<LaneState>,
    pub(crate) stage: Stage,
    wake: Option<Ps>,
    blocked: bool,
    in_flight: InFlightState,
    highest_returned: Option<u64>,
    stats: LoadGenStats,
    measurement: Option<Measurement>,
}

impl LoadGenState {
    /// Version of this state.
    pub const VERSION: u32 = 10;

    /// The traffic that continues.
    pub fn traffic(&self) -> &TrafficConfig {
        &self.traffic
    }
}

impl LoadGen {
    /// Returns the state to save.
    pub fn save(&self) -> LoadGenState {
        let mut traffic = self.run.traffic.clone();
        if self.run.stage == Stage::Idle && traffic.streams.iter().any(|stream| stream.capture.is_some()) {
            (traffic.streams, traffic.total) = (Vec::new(), None);
        }
        let started = self.run.stage != Stage::Idle;
        LoadGenState {
            stream: self.stream,
            run: self.run.number,
            traffic,
            key: self.run.streams.stored_key(),
            streams: if started { self.run.streams.save() } else { Vec::new() },
            stage: self.run.stage,
            wake: self.run.wake,
            blocked: self.run.blocked,
            in_flight: self.in_flight.save(),
            highest_returned: self.highest_returned,
            stats: self.stats.clone(),
            measurement: self.measurement.clone(),
        }
    }

    /// Restores a saved state. The generator is unchanged if the state is invalid.
    pub fn restore(&mut self, state: LoadGenState) -> Result<(), SnapshotError> {
        let wrong = |problem: String| SnapshotError::Inconsistent { name: "loadgen".to_owned(), problem };
        if state.stream != self.stream {
            return Err(wrong(format!("the state is of generator {}, not {}", state.stream, self.stream)));
        }
        state.traffic.validate().map_err(|error| wrong(error.to_string()))?;
        let run = make_run(state.run, state.traffic, self.stream, state.key, &self.link);
        let mut run = run.map_err(|error| wrong(error.to_string()))?;
        let in_flight = InFlight::restore(self.in_flight.sized(state.in_flight), run.streams.are_several())
            .filter(|in_flight| in_flight.streams().all(|stream| stream < run.streams.count()));
        let in_flight = in_flight.ok_or_else(|| wrong("its frames in flight are inconsistent".to_owned()))?;
        let mut measurement = state.measurement;
        measurement.as_mut().map_or(Ok(()), Measurement::resume)?;
        // A window's outstanding frames must be in flight, or its counts could never be completed.
        let awaited = |window: &Measurement| in_flight.count(|sequence| window.has(sequence));
        if measurement.as_ref().is_some_and(|window| window.outstanding() != awaited(window)) {
            return Err(wrong("the outstanding frames of its window are not in flight".to_owned()));
        }
        match state.stage {
            Stage::Idle if state.streams.is_empty() && in_flight.outstanding() == 0 => {}
            Stage::Idle => return Err(wrong("traffic that was not started has frames in flight".to_owned())),
            _ => {
                let restored = run.streams.restore(state.streams, &in_flight);
                restored.map_err(|problem| wrong(problem.to_owned()))?;
            }
        }
        self.run = run;
        self.run.stage = state.stage;
        self.run.wake = state.wake;
        self.run.blocked = state.blocked;
        self.in_flight = in_flight;
        self.highest_returned = state.highest_returned;
        self.stats = state.stats;
        self.measurement = measurement;
        Ok(())
    }
}
