//! Playback plan: traces, and the pace of the first one.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use doorbell_loadgen::{Arrivals, Rate};
use doorbell_trace::champsim::{self, Variant};
use doorbell_trace::system::{TraceError, TraceFile};

use super::PlaybackError;
use super::devices::is_of_nic;
use super::pages::PagesConfig;
use crate::config::NICS_MAX;

/// A trace to play, in our own format or ChampSim's. Clones share the file.
#[derive(Clone)]
pub struct TraceInput {
    pub(super) from: Input,
    /// Path for error messages.
    name: Option<Arc<Path>>,
}

#[derive(Clone)]
pub(super) enum Input {
    Own(Arc<TraceFile>),
    ChampSim(Arc<champsim::Trace>),
}

impl TraceInput {
    /// Opens a file of either format. Our own is recognised by its first bytes; any other file is read as
    /// ChampSim's, plain or compressed, in this variant. ChampSim traces are cut after `instructions`, if
    /// given. They are read once here, as each op depends on the whole trace.
    pub fn open(
        path: &Path,
        variant: Variant,
        instructions: Option<u64>,
    ) -> Result<TraceInput, PlaybackError> {
        match TraceFile::open(path) {
            Ok(file) => Ok(TraceInput::own(file)),
            Err(TraceError::Foreign { .. }) => {
                let trace = champsim::Trace::open(path, variant, instructions)?;
                if trace.instructions() == 0 {
                    return Err(champsim::Error::Empty(path.to_owned()).into());
                }
                Ok(TraceInput { from: Input::ChampSim(Arc::new(trace)), name: None })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A trace in our own format.
    pub fn own(file: TraceFile) -> TraceInput {
        TraceInput { from: Input::Own(Arc::new(file)), name: None }
    }

    /// Sets the path that errors name if several traces are played.
    #[must_use]
    pub fn named(self, path: &Path) -> TraceInput {
        TraceInput { name: Some(Arc::from(path)), ..self }
    }

    /// Adds the trace's path to an error that concerns this trace.
    pub(super) fn with_trace_name(&self, error: PlaybackError) -> PlaybackError {
        match (&self.name, error) {
            (Some(name), error) if error.is_of_one() => {
                PlaybackError::Of { path: name.to_path_buf(), error: Box::new(error) }
            }
            (_, error) => error,
        }
    }

    /// The file, if it is in our own format.
    pub fn file(&self) -> Option<&TraceFile> {
        match &self.from {
            Input::Own(file) => Some(file),
            Input::ChampSim(_) => None,
        }
    }

    /// Number of harts; each is played on its own core.
    pub fn harts(&self) -> u16 {
        self.file().map_or(1, |file| file.description().harts)
    }

    /// Largest number of harts that share memory: those of one recording.
    pub(super) fn sharing(&self) -> usize {
        let parts = self.file().map_or_else(Vec::new, |file| file.description().parts());
        parts.iter().map(ExactSizeIterator::len).max().unwrap_or(1)
    }

    /// Whether the trace has physical addresses.
    pub fn is_physical(&self) -> bool {
        self.file().is_some_and(|file| file.description().physical)
    }

    /// Instructions of all harts.
    pub fn instructions(&self) -> u64 {
        match &self.from {
            Input::Own(file) => file.counts().instructions.iter().sum(),
            Input::ChampSim(trace) => trace.instructions(),
        }
    }

    /// Number of NICs active in the trace, at most that of a machine. Reads all device events.
    pub fn nics(&self) -> Result<u32, PlaybackError> {
        let (mut nics, Some(file)) = (BTreeSet::new(), self.file()) else { return Ok(0) };
        let mut events = file.devices()?;
        while let Some(event) = events.next()? {
            if is_of_nic(&event) {
                nics.insert(event.device);
            }
        }
        Ok((nics.len() as u32).min(NICS_MAX))
    }

    /// A warning if the ChampSim variant looks wrong.
    pub fn doubt(&self, variant: Variant) -> Option<String> {
        match &self.from {
            Input::Own(_) => None,
            Input::ChampSim(trace) => trace.survey().doubt(variant),
        }
    }
}

/// Action at the end of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtEnd {
    /// Its harts stay idle.
    Ends,
    /// The whole trace starts over, once its last hart has ended and its last event has run. Caches and
    /// predictors stay warm.
    StartsOver,
}

/// One of the traces played together.
#[derive(Clone)]
pub struct PlannedTrace {
    /// The trace.
    pub trace: TraceInput,
    /// Action if it ends before the first trace.
    pub at_end: AtEnd,
}

/// When frames arrive at the devices of the first trace.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Pace {
    /// As recorded: events follow their instructions.
    #[default]
    Recorded,
    /// At this rate on each receiving port, spaced by the arrival process. The k-th arrival that finds a free
    /// descriptor is the trace's k-th frame; others are dropped.
    Rate {
        /// Bits and percentages refer to the mean frame length of the trace.
        rate: Rate,
        /// Arrival process.
        arrivals: Arrivals,
    },
    /// Closed loop with this many outstanding requests: the next one arrives a link round trip after an
    /// answer left.
    Closed {
        /// At least 1.
        window: u32,
    },
}

/// Traces to play. The first trace is measured, at `pace`, and playback ends with it. Further ones are
/// *neighbours*, played as recorded. Each trace has its own cores (in order), physical memory, address spaces
/// and threads. They share the last-level cache, DRAM and device links, but no cache line.
#[derive(Clone)]
pub struct Plan {
    /// At least one trace.
    pub traces: Vec<PlannedTrace>,
    /// Pace of the first trace.
    pub pace: Pace,
    /// Whether the first trace's harts sleep as long as recorded. Otherwise frames arrive as fast as the
    /// instructions that process them.
    pub sleeps: bool,
    /// Page tables for traces with virtual addresses only.
    pub pages: PagesConfig,
    /// Seed of random arrivals and of the kernel's page placement.
    pub seed: u64,
}

impl Plan {
    /// Plans one trace, as recorded.
    pub fn of(trace: TraceInput) -> Plan {
        let first = PlannedTrace { trace, at_end: AtEnd::Ends };
        Plan {
            traces: vec![first],
            pace: Pace::Recorded,
            pages: PagesConfig::default(),
            sleeps: true,
            seed: 1,
        }
    }

    /// Adds a neighbour, which restarts whenever it ends.
    #[must_use]
    pub fn with_neighbour(mut self, trace: TraceInput) -> Plan {
        self.traces.push(PlannedTrace { trace, at_end: AtEnd::StartsOver });
        self
    }

    /// Sets the pace of the first trace.
    #[must_use]
    pub fn at_pace(mut self, pace: Pace) -> Plan {
        self.pace = pace;
        self
    }

    /// Number of harts of all traces, which `platform.harts` must equal.
    pub fn harts(&self) -> u32 {
        self.traces.iter().map(|planned| u32::from(planned.trace.harts())).sum()
    }
}
