//! What is played: traces, and what paces them.

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

/// A trace that can be played: of our own format, or ChampSim's. Clones share what was read.
#[derive(Clone)]
pub struct TraceInput {
    pub(super) from: Input,
    /// How its user knows it.
    name: Option<Arc<Path>>,
}

#[derive(Clone)]
pub(super) enum Input {
    Own(Arc<TraceFile>),
    ChampSim(Arc<champsim::Trace>),
}

impl TraceInput {
    /// Opens a file of either format: ours is known by its first bytes, whatever else there is is taken for ChampSim's, plain or
    /// compressed, of this variant. Of ChampSim's no more than `instructions` are taken, if that is given; it is gone through once here,
    /// as what its ops are depends on all of it.
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

    /// One of our own format.
    pub fn own(file: TraceFile) -> TraceInput {
        TraceInput { from: Input::Own(Arc::new(file)), name: None }
    }

    /// With the name by which errors call it where several are played.
    #[must_use]
    pub fn named(self, path: &Path) -> TraceInput {
        TraceInput { name: Some(Arc::from(path)), ..self }
    }

    /// An error of its stream's names it.
    pub(super) fn with_trace_name(&self, error: PlaybackError) -> PlaybackError {
        match (&self.name, error) {
            (Some(name), error) if error.is_of_one() => {
                PlaybackError::Of { path: name.to_path_buf(), error: Box::new(error) }
            }
            (_, error) => error,
        }
    }

    /// The file, if it is of our own format.
    pub fn file(&self) -> Option<&TraceFile> {
        match &self.from {
            Input::Own(file) => Some(file),
            Input::ChampSim(_) => None,
        }
    }

    /// How many harts it has; each is played on a core of its own.
    pub fn harts(&self) -> u16 {
        self.file().map_or(1, |file| file.description().harts)
    }

    /// How many of them share memory at most: those of one recording.
    pub(super) fn sharing(&self) -> usize {
        let parts = self.file().map_or_else(Vec::new, |file| file.description().parts());
        parts.iter().map(ExactSizeIterator::len).max().unwrap_or(1)
    }

    /// Whether it tells physical addresses.
    pub fn is_physical(&self) -> bool {
        self.file().is_some_and(|file| file.description().physical)
    }

    /// Instructions of all its harts.
    pub fn instructions(&self) -> u64 {
        match &self.from {
            Input::Own(file) => file.counts().instructions.iter().sum(),
            Input::ChampSim(trace) => trace.instructions(),
        }
    }

    /// How many NICs have done something in it, or as many as a machine can have. All that its devices did is gone through once.
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

    /// What may be wrong with how it is read, in words.
    pub fn doubt(&self, variant: Variant) -> Option<String> {
        match &self.from {
            Input::Own(_) => None,
            Input::ChampSim(trace) => trace.survey().doubt(variant),
        }
    }
}

/// What happens when a trace is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtEnd {
    /// Its harts stand still from then on.
    Ends,
    /// It begins again: as a whole, when its last hart has ended and its last event has happened. What caches and predictors have learnt
    /// stays.
    StartsOver,
}

/// One of the traces that are played side by side.
#[derive(Clone)]
pub struct PlannedTrace {
    /// The trace.
    pub trace: TraceInput,
    /// What happens when it is over before the first of the plan is.
    pub at_end: AtEnd,
}

/// When frames reach the devices of the first trace.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Pace {
    /// As recorded: events at their instructions.
    #[default]
    Recorded,
    /// At this rate on each port that receives frames, whenever the arrival process says. The k-th arrival that finds a free descriptor is
    /// the trace's k-th frame; one that finds none is dropped.
    Rate {
        /// Bits and percent are of the mean of the trace's frames.
        rate: Rate,
        /// How arrivals are spread.
        arrivals: Arrivals,
    },
    /// So many requests are outstanding: the next one arrives a link's round trip after an answer left.
    Closed {
        /// 1 at least.
        window: u32,
    },
}

/// What is played. The first trace is the one that is measured, paced as `pace` says; playing ends with it. Further ones are its
/// *neighbours*, played as recorded: each trace has cores of its own, one after the other, and physical memory, address spaces and threads
/// of its own, so that they share the last level, DRAM and the links of devices, and not one line.
#[derive(Clone)]
pub struct Plan {
    /// At least one.
    pub traces: Vec<PlannedTrace>,
    /// See [`Pace`].
    pub pace: Pace,
    /// Whether the first trace's harts sleep as long as they did. If not, frames come as fast as the instructions that take them.
    pub sleeps: bool,
    /// Page tables of those that tell virtual addresses alone.
    pub pages: PagesConfig,
    /// From which random arrivals come, and where a kernel's pages lie.
    pub seed: u64,
}

impl Plan {
    /// One trace as it was recorded.
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

    /// And another one beside it, which starts over whenever it has ended.
    #[must_use]
    pub fn with_neighbour(mut self, trace: TraceInput) -> Plan {
        self.traces.push(PlannedTrace { trace, at_end: AtEnd::StartsOver });
        self
    }

    /// And at this pace.
    #[must_use]
    pub fn at_pace(mut self, pace: Pace) -> Plan {
        self.pace = pace;
        self
    }

    /// The harts of all traces: what `platform.harts` has to be.
    pub fn harts(&self) -> u32 {
        self.traces.iter().map(|planned| u32::from(planned.trace.harts())).sum()
    }
}
