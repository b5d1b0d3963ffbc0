//! Programs beside a machine: traces that are played on cores of their own, behind those of the harts, while the harts execute. They share
//! the last level, the interconnect and memory with the harts and with devices, and not one line; no guest sees them, so that one boot
//! serves a machine with neighbours and without.
//!
//! Each goes on as recorded and starts over whenever it has ended. Only what a core does is played: a trace with devices of its own has
//! them in a player. They go on while the machine's harts are timed or warm up, and stand still while it runs functionally.

use doorbell_sim::snapshot::{Snapshot, SnapshotError};
use doorbell_sim::{Bytes, Clock, OpSource, Ps, Until, log};
use serde::{Deserialize, Serialize};

use super::PlaybackError;
use super::pages::{PagesConfig, Tables};
use super::plan::TraceInput;
use super::relocation::{Relocation, RelocationState};
use super::source::BlockSource;
use super::stream::HartStream;
use crate::checkpoint::TIME_MAX;
use crate::config::ConfigError;
use crate::machine::Machine;
use crate::run::Outcome;
use crate::timed::Timing;

/// The version of [`CorunnersState`].
pub(super) const VERSION: u32 = 1;
/// The section of a checkpoint with the programs.
pub(super) const SECTION: &str = "beside";
/// Memory for the pages of each trace that tells virtual addresses alone: so much that fifteen of them, scattered over all of it, have room.
const PAGES_IN: Bytes = Bytes(6 << 30);
/// Instructions of the shortest trace.
const ROUND_MIN: u64 = 10_000;

/// The programs, the k-th of which has the core behind those of the machine's harts and of the k programs before it.
pub(crate) struct Corunners {
    pub(super) programs: Vec<Program>,
    /// Of no trace: what all have together.
    relocation: Relocation,
    failure: Option<PlaybackError>,
}

/// One of them.
pub(super) struct Program {
    trace: TraceInput,
    stream: HartStream,
    rounds: u64,
    /// The cycle in which this round began.
    begun: u64,
}

/// What a program has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CorunnerStats {
    /// Its core's number.
    pub core: usize,
    /// Instructions played.
    pub instructions: u64,
    /// How often it has started over.
    pub rounds: u64,
}

/// Where a program stands. What has been read of the trace to get there is read again.
#[derive(Serialize, Deserialize)]
pub(super) struct ProgramState {
    rounds: u64,
    /// Instructions of this round.
    position: u64,
    /// And of all.
    pub instructions: u64,
    /// The cycle of its core, and that in which this round began.
    pub cycle: u64,
    pub begun: u64,
}

/// All of them, and where their memory lies and how their address spaces are numbered: both in order of first touch, among all.
#[derive(Serialize, Deserialize)]
pub(super) struct CorunnersState {
    pub programs: Vec<ProgramState>,
    pub places: RelocationState,
}

impl TraceInput {
    /// Whether it can be played beside a machine.
    pub fn check_corunner(&self) -> Result<(), PlaybackError> {
        let problem = if self.harts() != 1 {
            format!("has {} harts, and one hart is played on a core beside a machine", self.harts())
        } else if self.file().is_some_and(|file| file.counts().has_traffic()) {
            "has devices of its own, which do nothing beside a machine that has some; play it with `doorbell trace run`".to_owned()
        } else if self.instructions() < ROUND_MIN {
            let has = self.instructions();
            format!(
                "has {has} instructions; with fewer than {ROUND_MIN} most of the work would be to begin it again"
            )
        } else {
            return Ok(());
        };
        Err(PlaybackError::Corunner(problem))
    }
}

impl Program {
    fn new(
        trace: &TraceInput,
        relocation: Relocation,
        tables: Option<Tables>,
        clock: Clock,
    ) -> Result<Program, PlaybackError> {
        let stream = BlockSource::open(trace, 0)
            .and_then(|source| HartStream::new(source, relocation, tables, clock))
            .map_err(|error| trace.with_trace_name(error))?;
        Ok(Program { trace: trace.clone(), stream, rounds: 0, begun: 0 })
    }

    /// From the trace's beginning on; a round takes a cycle at least, or time would stand still.
    fn start_over(&mut self) -> Result<(), PlaybackError> {
        let over = self.stream.over().max(self.begun + 1);
        self.stream.begin_at(over);
        self.begun = over;
        self.stream.start_over(BlockSource::open(&self.trace, 0)?)?;
        self.rounds += 1;
        Ok(())
    }

    pub(super) fn save(&self) -> ProgramState {
        ProgramState {
            rounds: self.rounds,
            position: self.stream.position(),
            instructions: self.stream.instructions(),
            cycle: self.stream.over(),
            begun: self.begun,
        }
    }

    /// Goes where it was saved: pages lie where they did, as they are touched in the same order.
    fn restore(&mut self, state: &ProgramState) -> Result<(), PlaybackError> {
        if state.rounds > 0 {
            self.stream.skip_to(u64::MAX);
            self.start_over()?;
            self.rounds = state.rounds;
        }
        self.stream.skip_to(state.position);
        self.stream.set_progress(state.instructions, state.cycle);
        self.begun = state.begun;
        self.stream.failure().map_or(Ok(()), Err)
    }
}

impl Corunners {
    fn new(
        machine: &Machine,
        traces: &[TraceInput],
        pages: &PagesConfig,
    ) -> Result<Corunners, PlaybackError> {
        let cores = machine.config.beside as usize;
        if traces.len() != cores {
            let problem = format!("{} traces, and the machine has {cores} cores for them", traces.len());
            return Err(ConfigError::new("beside.traces", problem).into());
        }
        pages.validate()?;
        let (harts, first) = (machine.harts.len(), Relocation::new());
        let program = |(number, trace): (usize, &TraceInput)| {
            trace.check_corunner().map_err(|error| trace.with_trace_name(error))?;
            let tables =
                if trace.is_physical() { None } else { Tables::new(pages, PAGES_IN, number as u64 + 1) };
            let clock = Clock::new(machine.config.hart(harts + number).core.frequency);
            Program::new(trace, first.for_trace(number as u16 + 1), tables, clock)
        };
        let programs = traces.iter().enumerate().map(program).collect::<Result<_, _>>()?;
        Ok(Corunners { programs, relocation: first, failure: None })
    }
}

impl Machine {
    /// Plays traces beside the harts, one on each of the cores that the configuration has for them (`beside`). To be said of a machine that
    /// was just built.
    pub fn play_corunners(
        &mut self,
        traces: &[TraceInput],
        pages: &PagesConfig,
    ) -> Result<(), PlaybackError> {
        self.corunners = Some(Box::new(Corunners::new(self, traces, pages)?));
        Ok(())
    }

    /// What the programs beside the harts have done.
    pub fn corunners(&self) -> impl Iterator<Item = CorunnerStats> + '_ {
        let programs = self.corunners.iter().flat_map(|corunners| &corunners.programs);
        programs.zip(self.harts.len()..).map(|(program, core)| CorunnerStats {
            core,
            instructions: program.stream.instructions(),
            rounds: program.rounds,
        })
    }

    /// Why a run has ended with [`Outcome::CorunnerFailed`].
    pub fn take_corunner_failure(&mut self) -> Option<PlaybackError> {
        self.corunners.as_mut().and_then(|corunners| corunners.failure.take())
    }

    /// Programs go on until each has come to a time. Of two at the same time the first goes first.
    pub(crate) fn run_corunners(&mut self, until: Ps) -> Ps {
        let Some(corunners) = &mut self.corunners else { return Ps::MAX };
        let timing = self.timing.as_mut().expect("programs are played beside timed harts");
        let first = self.harts.len();
        loop {
            let times = corunners.programs.iter().zip(first..);
            let times = times.map(|(program, core)| (timing.time_of(core, program.stream.cycle()), core));
            let Some((time, core)) = times.min().filter(|_| corunners.failure.is_none()) else {
                return Ps::MAX;
            };
            if time >= until {
                return time;
            }
            let program = &mut corunners.programs[core - first];
            if let Err(error) = step(timing, core, program, until) {
                let error = program.trace.with_trace_name(error);
                log!(time, Machine, Error, "a trace beside the machine: {error}");
                corunners.failure = Some(error);
                self.outcome = Some(Outcome::CorunnerFailed);
            }
        }
    }

    /// Programs stand where their cores are to go on from `now`.
    pub(crate) fn set_corunner_mode(&mut self, now: Ps) {
        let (Some(corunners), Some(timing)) = (&mut self.corunners, &mut self.timing) else { return };
        for (program, core) in corunners.programs.iter_mut().zip(self.harts.len()..) {
            let begin = timing.cycle_at(core, now);
            if program.stream.over() < begin {
                program.stream.begin_at(begin);
            }
            timing.skip_source_to(core, program.stream.over());
        }
    }

    pub(crate) fn save_corunners(&self, snapshot: &mut Snapshot) {
        if let Some(corunners) = &self.corunners {
            let programs = corunners.programs.iter().map(Program::save).collect();
            snapshot.put(
                SECTION,
                VERSION,
                &CorunnersState { programs, places: corunners.relocation.state() },
            );
        }
    }

    /// Programs go on where the saved ones stopped, if there were some.
    pub(crate) fn restore_corunners(&mut self, snapshot: &Snapshot) -> Result<(), SnapshotError> {
        let wrong = |problem: String| SnapshotError::Inconsistent { name: SECTION.to_owned(), problem };
        let Some(corunners) = self.corunners.as_mut().filter(|_| snapshot.has(SECTION)) else {
            return Ok(());
        };
        let state: CorunnersState = snapshot.get(SECTION, VERSION)?;
        if state.programs.len() != corunners.programs.len() {
            return Err(wrong("it is of another number of programs".to_owned()));
        }
        for (program, core) in state.programs.iter().zip(self.harts.len()..) {
            let latest =
                Clock::new(self.config.hart(core).core.frequency).edge_at_or_before(Ps(TIME_MAX / 2));
            if program.cycle > latest || program.begun > program.cycle || program.instructions > TIME_MAX {
                return Err(wrong("a program's time is impossible".to_owned()));
            }
        }
        corunners.relocation.set_state(state.places);
        for (program, state) in corunners.programs.iter_mut().zip(&state.programs) {
            let restored = program.restore(state).map_err(|error| program.trace.with_trace_name(error));
            restored.map_err(|error| wrong(error.to_string()))?;
        }
        Ok(())
    }
}

/// A program's next block. What it says to a device, which is not there, costs it nothing.
fn step(timing: &mut Timing, core: usize, program: &mut Program, until: Ps) -> Result<(), PlaybackError> {
    let end = Until { cycle: timing.cycle_at(core, until), instructions: u64::MAX };
    timing.block(core, &mut program.stream, &mut (), end);
    if let Some(error) = program.stream.failure() {
        return Err(error);
    }
    if !program.stream.is_ready() {
        program.start_over()?;
    }
    Ok(())
}
