//! The generator's saved state. Buffers kept for reuse are no part of it.

use doorbell_sim::Ps;
use doorbell_sim::snapshot::SnapshotError;
use serde::{Deserialize, Serialize};

use crate::arrival::LoadGenStats;
use crate::config::TrafficConfig;
use crate::generator::{LoadGen, Stage, make_run};
use crate::in_flight::{InFlight, InFlightState};
use crate::measure::{Measurement, MeasurementState};
use crate::streams::LaneState;

/// What a snapshot keeps of a [`LoadGen`].
///
/// The traffic is part of it, so a generator that is restored in the middle of a run goes on with the traffic
/// that was running, whatever it was made with; [`LoadGen::set_traffic`] then sets another. Captures are not part of it:
/// their files must be there again. So that a checkpoint from before any traffic needs none, streams that have not
/// been started are left out if there are captures among them. What has not been started is saved as the traffic alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadGenState {
    stream: u32,
    run: u32,
    traffic: TrafficConfig,
    /// With this key the frames on their way were filled; those of later runs follow the generator's own seed.
    key: u64,
    streams: Vec<LaneState>,
    pub(crate) stage: Stage,
    wake: Option<Ps>,
    blocked: bool,
    in_flight: InFlightState,
    highest_returned: Option<u64>,
    stats: LoadGenStats,
    measurement: Option<MeasurementState>,
}

impl LoadGenState {
    /// The version to save this state under.
    pub const VERSION: u32 = 10;

    /// The traffic that goes on.
    pub fn traffic(&self) -> &TrafficConfig {
        &self.traffic
    }
}

impl LoadGen {
    /// The generator's state for a snapshot.
    pub fn save(&self) -> LoadGenState {
        let mut traffic = self.run.traffic.clone();
        if self.run.stage == Stage::Idle && traffic.streams.iter().any(|stream| stream.capture.is_some()) {
            (traffic.streams, traffic.total) = (Vec::new(), None);
        }
        let begun = self.run.stage != Stage::Idle;
        LoadGenState {
            stream: self.stream,
            run: self.run.number,
            traffic,
            key: self.run.streams.stored_key(),
            streams: if begun { self.run.streams.save() } else { Vec::new() },
            stage: self.run.stage,
            wake: self.run.wake,
            blocked: self.run.blocked,
            in_flight: self.in_flight.save(),
            highest_returned: self.highest_returned,
            stats: self.stats.clone(),
            measurement: self.measurement.as_ref().map(Measurement::save),
        }
    }

    /// Takes up a saved state. The generator is unchanged if the state is refused.
    pub fn restore(&mut self, state: LoadGenState) -> Result<(), SnapshotError> {
        let wrong = |problem: String| SnapshotError::Inconsistent { name: "loadgen".to_owned(), problem };
        if state.stream != self.stream {
            return Err(wrong(format!("it is of generator {}, not {}", state.stream, self.stream)));
        }
        state.traffic.validate().map_err(|error| wrong(error.to_string()))?;
        let run = make_run(state.run, state.traffic, self.stream, state.key, &self.link);
        let mut run = run.map_err(|error| wrong(error.to_string()))?;
        let in_flight = InFlight::restore(self.in_flight.sized(state.in_flight), run.streams.are_several())
            .filter(|in_flight| in_flight.streams().all(|stream| stream < run.streams.count()));
        let in_flight = in_flight.ok_or_else(|| wrong("its frames in flight do not add up".to_owned()))?;
        let measurement = state.measurement.as_ref().map(Measurement::restore).transpose()?;
        // Frames that a window waits for are frames in flight, or its books could not be closed.
        let awaited = |window: &Measurement| in_flight.count(|sequence| window.has(sequence));
        if measurement.as_ref().is_some_and(|window| window.outstanding() != awaited(window)) {
            return Err(wrong("its window waits for other frames than are in flight".to_owned()));
        }
        match state.stage {
            Stage::Idle if state.streams.is_empty() && in_flight.outstanding() == 0 => {}
            Stage::Idle => return Err(wrong("traffic that was not started is on its way".to_owned())),
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
