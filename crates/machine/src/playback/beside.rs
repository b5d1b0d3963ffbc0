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
use super::place::{Place, Places};
use super::plan::TraceInput;
use super::source::BlockSource;
use super::stream::HartStream;
use crate::checkpoint::LATEST;
use crate::config::ConfigError;
use crate::machine::Machine;
use crate::run::Outcome;
use crate::timed::Timing;

/// The version of [`BesideState`].
pub(super) const VERSION: u32 = 1;
/// The section of a checkpoint with the programs.
pub(super) const SECTION: &str = "beside";
/// Memory for the pages of each trace that tells virtual addresses alone: so much that fifteen of them, scattered over all of it, have room.
const PAGES_IN: Bytes = Bytes(6 << 30);
/// Instructions of the shortest trace.
const ROUND_MIN: u64 = 10_000;

/// The programs, the k-th of which has the core behind those of the machine's harts and of the k programs before it.
pub(crate) struct Beside {
    pub(super) programs: Vec<Program>,
    /// Of no trace: what all have together.
    place: Place,
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
pub struct BesideStats {
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
pub(super) struct BesideState {
    pub programs: Vec<ProgramState>,
    pub places: Places,
}

impl TraceInput {
    /// Whether it can be played beside a machine.
    pub fn fits_beside(&self) -> Result<(), PlaybackError> {
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
        Err(PlaybackError::Beside(problem))
    }
}

impl Program {
    fn new(
        trace: &TraceInput,
        place: Place,
        tables: Option<Tables>,
        clock: Clock,
    ) -> Result<Program, PlaybackError> {
        let stream = BlockSource::open(trace, 0)
            .and_then(|source| HartStream::new(source, place, tables, clock))
            .map_err(|error| trace.blamed(error))?;
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
            self.stream.pass(u64::MAX);
            self.start_over()?;
            self.rounds = state.rounds;
        }
        self.stream.pass(state.position);
        self.stream.stands_at(state.instructions, state.cycle);
        self.begun = state.begun;
        self.stream.failure().map_or(Ok(()), Err)
    }
}

impl Beside {
    fn new(machine: &Machine, traces: &[TraceInput], pages: &PagesConfig) -> Result<Beside, PlaybackError> {
        let cores = machine.config.beside as usize;
        if traces.len() != cores {
            let problem = format!("{} traces, and the machine has {cores} cores for them", traces.len());
            return Err(ConfigError::new("beside.traces", problem).into());
        }
        pages.validate()?;
        let (harts, first) = (machine.harts.len(), Place::new());
        let program = |(number, trace): (usize, &TraceInput)| {
            trace.fits_beside().map_err(|error| trace.blamed(error))?;
            let tables =
                if trace.is_physical() { None } else { Tables::new(pages, PAGES_IN, number as u64 + 1) };
            let clock = Clock::new(machine.config.hart(harts + number).core.frequency);
            Program::new(trace, first.beside(number as u16 + 1), tables, clock)
        };
        let programs = traces.iter().enumerate().map(program).collect::<Result<_, _>>()?;
        Ok(Beside { programs, place: first, failure: None })
    }
}

impl Machine {
    /// Plays traces beside the harts, one on each of the cores that the configuration has for them (`beside`). To be said of a machine that
    /// was just built.
    pub fn play_beside(&mut self, traces: &[TraceInput], pages: &PagesConfig) -> Result<(), PlaybackError> {
        self.beside = Some(Box::new(Beside::new(self, traces, pages)?));
        Ok(())
    }

    /// What the programs beside the harts have done.
    pub fn beside(&self) -> impl Iterator<Item = BesideStats> + '_ {
        let programs = self.beside.iter().flat_map(|beside| &beside.programs);
        programs.zip(self.harts.len()..).map(|(program, core)| BesideStats {
            core,
            instructions: program.stream.instructions(),
            rounds: program.rounds,
        })
    }

    /// Why a run has ended with [`Outcome::Beside`].
    pub fn take_failure_beside(&mut self) -> Option<PlaybackError> {
        self.beside.as_mut().and_then(|beside| beside.failure.take())
    }

    /// Programs go on until each has come to a time. Of two at the same time the first goes first.
    pub(crate) fn run_beside(&mut self, until: Ps) -> Ps {
        let Some(beside) = &mut self.beside else { return Ps::MAX };
        let timing = self.timing.as_mut().expect("programs are played beside timed harts");
        let first = self.harts.len();
        loop {
            let times = beside.programs.iter().zip(first..);
            let times = times.map(|(program, core)| (timing.time_of(core, program.stream.cycle()), core));
            let Some((time, core)) = times.min().filter(|_| beside.failure.is_none()) else { return Ps::MAX };
            if time >= until {
                return time;
            }
            let program = &mut beside.programs[core - first];
            if let Err(error) = step(timing, core, program, until) {
                let error = program.trace.blamed(error);
                log!(time, Machine, Error, "a trace beside the machine: {error}");
                beside.failure = Some(error);
                self.outcome = Some(Outcome::Beside);
            }
        }
    }

    /// Programs stand where their cores are to go on from `now`.
    pub(crate) fn set_mode_beside(&mut self, now: Ps) {
        let (Some(beside), Some(timing)) = (&mut self.beside, &mut self.timing) else { return };
        for (program, core) in beside.programs.iter_mut().zip(self.harts.len()..) {
            let begin = timing.cycle_at(core, now);
            if program.stream.over() < begin {
                program.stream.begin_at(begin);
            }
            timing.skip_source_to(core, program.stream.over());
        }
    }

    pub(crate) fn save_beside(&self, snapshot: &mut Snapshot) {
        if let Some(beside) = &self.beside {
            let programs = beside.programs.iter().map(Program::save).collect();
            snapshot.put(SECTION, VERSION, &BesideState { programs, places: beside.place.places() });
        }
    }

    /// Programs go on where the saved ones stopped, if there were some.
    pub(crate) fn restore_beside(&mut self, snapshot: &Snapshot) -> Result<(), SnapshotError> {
        let wrong = |problem: String| SnapshotError::Inconsistent { name: SECTION.to_owned(), problem };
        let Some(beside) = self.beside.as_mut().filter(|_| snapshot.has(SECTION)) else { return Ok(()) };
        let state: BesideState = snapshot.get(SECTION, VERSION)?;
        if state.programs.len() != beside.programs.len() {
            return Err(wrong("it is of another number of programs".to_owned()));
        }
        for (program, core) in state.programs.iter().zip(self.harts.len()..) {
            let latest = Clock::new(self.config.hart(core).core.frequency).edge_at_or_before(Ps(LATEST / 2));
            if program.cycle > latest || program.begun > program.cycle || program.instructions > LATEST {
                return Err(wrong("a program's time is impossible".to_owned()));
            }
        }
        beside.place.set_places(state.places);
        for (program, state) in beside.programs.iter_mut().zip(&state.programs) {
            let restored = program.restore(state).map_err(|error| program.trace.blamed(error));
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
