//! Co-runners: traces played on extra cores, numbered after those of the harts, while the harts execute. They
//! share the last-level cache, interconnect and memory with harts and devices, but no cache line. The guest
//! does not see them, so one boot serves a machine with and without co-runners.
//!
//! Each restarts when it ends. Only core activity is played; a trace with devices needs a
//! [`Player`](super::Player). Co-runners run while the harts are timed or warming, and stop while the machine
//! runs functionally.
use doorbell_sim::snapshot::{Snapshot, SnapshotError};
use doorbell_sim::{Bytes, CoreCycle, CoreDomain, DomainClock, OpSource, Ps, Until, log};
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

/// Version of [`CorunnersState`].
pub(super) const VERSION: u32 = 1;
/// Checkpoint section of the co-runners.
pub(super) const SECTION: &str = "beside";
/// Memory over which the pages of a trace with virtual addresses only are scattered. Fifteen such traces fit.
const PAGES_IN: Bytes = Bytes(6 << 30);
/// Minimum length of a trace, in instructions. With a shorter one, most of the work would be restarts.
const ROUND_MIN: u64 = 10_000;

/// The co-runners. Number k runs on the k-th core after those of the harts.
pub(crate) struct Corunners {
    pub(super) programs: Vec<Program>,
    /// Relocation state shared by all traces. Its own trace number, 0, is unused.
    relocation: Relocation,
    failure: Option<PlaybackError>,
}

/// One co-runner.
pub(super) struct Program {
    trace: TraceInput,
    stream: HartStream,
    rounds: u64,
    /// Cycle in which this round began.
    begun: CoreCycle,
}

/// Progress of a co-runner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CorunnerStats {
    /// Number of its core.
    pub core: usize,
    /// Instructions played.
    pub instructions: u64,
    /// Number of restarts.
    pub rounds: u64,
}

/// Saved progress of a co-runner. On restore, the trace is read again up to this position.
#[derive(Serialize, Deserialize)]
pub(super) struct ProgramState {
    rounds: u64,
    /// Instructions of this round.
    position: u64,
    /// Instructions of all rounds.
    pub instructions: u64,
    /// Cycle of its core, and cycle in which this round began.
    pub cycle: CoreCycle,
    pub begun: CoreCycle,
}

/// All co-runners, with their memory windows and address-space numbers. These depend on the order of first
/// touch among all traces.
#[derive(Serialize, Deserialize)]
pub(super) struct CorunnersState {
    pub programs: Vec<ProgramState>,
    pub places: RelocationState,
}

impl TraceInput {
    /// Checks that the trace can be played as a co-runner.
    pub fn check_corunner(&self) -> Result<(), PlaybackError> {
        let problem = if self.harts() != 1 {
            format!("has {} harts, but a co-runner has one", self.harts())
        } else if self.file().is_some_and(|file| file.counts().has_traffic()) {
            "has devices, which a co-runner does not use; play it with `doorbell trace run`".to_owned()
        } else if self.instructions() < ROUND_MIN {
            let has = self.instructions();
            format!("has {has} instructions, but a co-runner needs at least {ROUND_MIN}")
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
        clock: DomainClock<CoreDomain>,
    ) -> Result<Program, PlaybackError> {
        let stream = BlockSource::open(trace, 0)
            .and_then(|source| HartStream::new(source, relocation, tables, clock))
            .map_err(|error| trace.with_trace_name(error))?;
        Ok(Program { trace: trace.clone(), stream, rounds: 0, begun: CoreCycle::ZERO })
    }

    /// Restarts the trace. A round takes at least one cycle, so that time advances.
    fn start_over(&mut self) -> Result<(), PlaybackError> {
        let start = self.stream.end_cycle().max(self.begun + 1);
        self.stream.begin_at(start);
        self.begun = start;
        self.stream.start_over(BlockSource::open(&self.trace, 0)?)?;
        self.rounds += 1;
        Ok(())
    }

    pub(super) fn save(&self) -> ProgramState {
        ProgramState {
            rounds: self.rounds,
            position: self.stream.position(),
            instructions: self.stream.instructions(),
            cycle: self.stream.end_cycle(),
            begun: self.begun,
        }
    }

    /// Reads the trace up to the saved position. Pages get the same places, as they are touched in the same
    /// order.
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
        let cores = machine.config.trace_cores as usize;
        if traces.len() != cores {
            let problem = format!("{} traces, but the machine has {cores} co-runner cores", traces.len());
            return Err(ConfigError::new("beside.traces", problem).into());
        }
        pages.validate()?;
        let (harts, first) = (machine.harts.len(), Relocation::new());
        let program = |(number, trace): (usize, &TraceInput)| {
            trace.check_corunner().map_err(|error| trace.with_trace_name(error))?;
            let tables =
                if trace.is_physical() { None } else { Tables::new(pages, PAGES_IN, number as u64 + 1) };
            let clock = DomainClock::new(machine.config.hart(harts + number).core.frequency);
            Program::new(trace, first.for_trace(number as u16 + 1), tables, clock)
        };
        let programs = traces.iter().enumerate().map(program).collect::<Result<_, _>>()?;
        Ok(Corunners { programs, relocation: first, failure: None })
    }
}

impl Machine {
    /// Plays traces on the extra cores of the configuration (`trace_cores`), one per core. To be called on a
    /// machine that was just built.
    pub fn play_corunners(
        &mut self,
        traces: &[TraceInput],
        pages: &PagesConfig,
    ) -> Result<(), PlaybackError> {
        self.corunners = Some(Box::new(Corunners::new(self, traces, pages)?));
        Ok(())
    }

    /// Progress of the co-runners.
    pub fn corunners(&self) -> impl Iterator<Item = CorunnerStats> + '_ {
        let programs = self.corunners.iter().flat_map(|corunners| &corunners.programs);
        programs.zip(self.harts.len()..).map(|(program, core)| CorunnerStats {
            core,
            instructions: program.stream.instructions(),
            rounds: program.rounds,
        })
    }

    /// Takes the error that ended a run with [`Outcome::CorunnerFailed`].
    pub fn take_corunner_failure(&mut self) -> Option<PlaybackError> {
        self.corunners.as_mut().and_then(|corunners| corunners.failure.take())
    }

    /// Runs the co-runners until each has reached `until`. On a tie, the first one runs first.
    /// Returns the time of the earliest one, or `Ps::MAX` if there is none or one failed.
    pub(crate) fn run_corunners(&mut self, until: Ps) -> Ps {
        let Some(corunners) = &mut self.corunners else { return Ps::MAX };
        let timing = self.timing.as_mut().expect("co-runners need timed harts");
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
                log!(time, Machine, Error, "co-runner: {error}");
                corunners.failure = Some(error);
                self.outcome = Some(Outcome::CorunnerFailed);
            }
        }
    }

    /// Moves co-runners that are behind `now` to it, and sets their cores' clocks.
    pub(crate) fn set_corunner_mode(&mut self, now: Ps) {
        let (Some(corunners), Some(timing)) = (&mut self.corunners, &mut self.timing) else { return };
        for (program, core) in corunners.programs.iter_mut().zip(self.harts.len()..) {
            let begin = timing.cycle_at(core, now);
            if program.stream.end_cycle() < begin {
                program.stream.begin_at(begin);
            }
            timing.skip_source_to(core, program.stream.end_cycle());
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

    /// Restores the co-runners, if the checkpoint has any.
    pub(crate) fn restore_corunners(&mut self, snapshot: &Snapshot) -> Result<(), SnapshotError> {
        let wrong = |problem: String| SnapshotError::Inconsistent { name: SECTION.to_owned(), problem };
        let Some(corunners) = self.corunners.as_mut().filter(|_| snapshot.has(SECTION)) else {
            return Ok(());
        };
        let state: CorunnersState = snapshot.get(SECTION, VERSION)?;
        if state.programs.len() != corunners.programs.len() {
            return Err(wrong("it has another number of co-runners".to_owned()));
        }
        for (program, core) in state.programs.iter().zip(self.harts.len()..) {
            let clock = DomainClock::new(self.config.hart(core).core.frequency);
            let latest = clock.edge_at_or_before(Ps(TIME_MAX / 2));
            if program.cycle > latest || program.begun > program.cycle || program.instructions > TIME_MAX {
                return Err(wrong("a co-runner's time is impossible".to_owned()));
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

/// Plays a co-runner's next block. Its device accesses take no time, as there is no device.
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
