//! Observers of a timed run: a [`Profile`] of code cost, a pipeline log, and core activity per microsecond.
//! Without them the overhead is one branch per block. They do not affect the simulation, and checkpoints do
//! not contain them. Only blocks in [`Mode::Detailed`] are observed.

use doorbell_core::{Observer, Stages};
use doorbell_memory::Misses;
use doorbell_riscv::Hart;
use doorbell_sim::{CoreCycle, Hertz, Op, OpSource, Ps};

use super::profile::{Profile, Profiler, cost};
use super::{CoreContext, Mode, TimedHart, Timing};
use crate::config::MachineConfig;
use crate::machine::Machine;

/// Maximum number of steps in an [`Activity`]; later ones are dropped.
const STEPS_MAX: usize = 1 << 20;

/// Selects what is observed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchRequest {
    /// Costs per block and call path.
    pub profile: bool,
    /// Number of instructions in the pipeline log.
    pub pipeline: u64,
    /// Instructions and idle time per microsecond.
    pub activity: bool,
}

/// Results of an observation.
#[derive(Debug, Default)]
pub struct WatchReport {
    /// Costs per block and call path.
    pub profile: Option<Profile>,
    /// The ops of the first instructions, in the order in which their timing was computed.
    pub pipeline: Vec<LoggedOp>,
    /// Each hart's activity.
    pub activity: Vec<Activity>,
}

/// An op and its pipeline stage times, in cycles of its hart.
#[derive(Clone, Copy, Debug)]
pub struct LoggedOp {
    /// Its hart.
    pub hart: u32,
    /// The op.
    pub op: Op,
    /// Stage times.
    pub stages: Stages,
}

/// Activity of a hart in steps of about one microsecond, rounded to whole cycles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activity {
    /// Start of the first step.
    pub begin: Ps,
    /// Length of a step.
    pub step: Ps,
    /// Core cycles per step.
    pub step_cycles: u64,
    /// Instructions retired and idle cycles (WFI) per step. A block counts in the step in which its last op
    /// commits.
    pub steps: Vec<(u64, u64)>,
    start: CoreCycle,
    end: CoreCycle,
}

impl Activity {
    fn new(begin: Ps, start: CoreCycle, frequency: Hertz) -> Activity {
        let step_cycles = (frequency.0 / 1_000_000).max(1);
        let step = Ps((u128::from(step_cycles) * 1_000_000_000_000 / u128::from(frequency.0)) as u64);
        let end = start + step_cycles;
        Activity { begin, step, step_cycles, steps: vec![(0, 0)], start, end }
    }

    #[inline]
    fn add(&mut self, cycle: CoreCycle, instructions: u64, idle: u64) {
        if cycle >= self.end {
            let step = ((cycle - self.start) / self.step_cycles) as usize;
            self.end = self.start + (step as u64 + 1) * self.step_cycles;
            if step < STEPS_MAX {
                self.steps.resize(step + 1, (0, 0));
            }
        }
        // Activity after the last step kept is dropped.
        if self.end <= self.start + self.steps.len() as u64 * self.step_cycles
            && let Some(step) = self.steps.last_mut()
        {
            step.0 += instructions;
            step.1 += idle;
        }
    }
}

/// Adds idle time, divided among the steps that it spans.
fn add_idle(activity: &mut Activity, from: CoreCycle, to: CoreCycle) {
    let mut at = from;
    while at < to && activity.steps.len() < STEPS_MAX {
        let next = activity.end.max(at + 1).min(to);
        activity.add(at, 0, next - at);
        at = next;
    }
}

struct PipelineLog {
    left: u64,
    ops: Vec<LoggedOp>,
}

struct HartLog<'a>(&'a mut PipelineLog, u32);

impl Observer for HartLog<'_> {
    fn op(&mut self, op: &Op, stages: &Stages) {
        let log = &mut *self.0;
        if log.left > 0 {
            log.ops.push(LoggedOp { hart: self.1, op: *op, stages: *stages });
            log.left -= u64::from(op.ends_instruction());
        }
    }
}

/// Active observers.
pub(super) struct Watch {
    profiler: Option<Box<Profiler>>,
    pipeline: PipelineLog,
    activity: Vec<Activity>,
    harts: Vec<HartCursor>,
}

/// Observation state of one hart.
#[derive(Clone, Copy, Default)]
struct HartCursor {
    /// Cycle in which the observation began.
    from: CoreCycle,
    /// Cycle of the last update.
    cycle: CoreCycle,
    /// Thread pointer at the last update.
    tp: u64,
    /// Miss counts before and after the fetch and translation of the pending device access.
    start: Option<[Misses; 2]>,
}

impl Watch {
    /// `harts` has the start time, start cycle and thread of each hart. A sleeping hart starts at the
    /// present, later than its core's cycle.
    fn new(
        request: &WatchRequest,
        timing: &Timing,
        harts: &[(Ps, CoreCycle, u64)],
        config: &MachineConfig,
    ) -> Watch {
        let cursor = |((_, start, tp), timed): (&(Ps, CoreCycle, u64), &TimedHart)| {
            let cycle = timed.core.now().max(*start);
            HartCursor { from: cycle, cycle, tp: *tp, start: None }
        };
        let activity = |(id, (begin, start, _)): (usize, &(Ps, CoreCycle, u64))| {
            Activity::new(*begin, *start, config.hart(id).core.frequency)
        };
        Watch {
            profiler: request.profile.then(|| Box::new(Profiler::new(harts.len()))),
            pipeline: PipelineLog { left: request.pipeline, ops: Vec::new() },
            activity: match request.activity {
                true => harts.iter().enumerate().map(activity).collect(),
                false => Vec::new(),
            },
            harts: harts.iter().zip(&timing.harts).map(cursor).collect(),
        }
    }

    fn finish(self) -> WatchReport {
        let watched = self.harts.iter().map(|cursor| cursor.cycle - cursor.from);
        WatchReport {
            profile: self.profiler.map(|profiler| profiler.finish(watched)),
            pipeline: self.pipeline.ops,
            activity: self.activity,
        }
    }

    /// Records that a hart slept until `cycle`.
    pub(super) fn idle(&mut self, id: usize, cycle: CoreCycle) {
        let Some(cursor) = self.harts.get_mut(id) else { return };
        let from = cursor.cycle;
        cursor.cycle = from.max(cycle);
        if let Some(profiler) = &mut self.profiler {
            profiler.idle(id, self.harts[id].cycle - from);
        }
        if let Some(activity) = self.activity.get_mut(id) {
            add_idle(activity, from, cycle);
        }
    }

    /// Adds a block whose timing was computed since the last update.
    #[inline]
    fn block(
        &mut self,
        id: usize,
        (thread, space): (u64, Option<u16>),
        ops: &[Op],
        now: CoreCycle,
        (instructions, [before, after]): (u64, [Misses; 2]),
    ) {
        let cursor = &mut self.harts[id];
        let tp = std::mem::replace(&mut cursor.tp, thread);
        if ops.is_empty() {
            // A trap before the first op: its time counts for the handler.
            return;
        }
        let cycles = now - cursor.cycle;
        cursor.cycle = now;
        if let Some(activity) = self.activity.get_mut(id) {
            activity.add(now, instructions, 0);
        }
        if let Some(profiler) = &mut self.profiler {
            let cost = cost(cycles, instructions, before, after);
            profiler.block(id, ops, space, tp, &cost);
        }
    }
}

impl Timing {
    /// Returns the miss counts before a block, and whether the pipeline log is active; `None` without
    /// observers.
    #[inline]
    pub(super) fn watch_before_block(&self, id: usize) -> Option<(Misses, bool)> {
        // Co-running programs are not observed.
        let watch = self.watch.as_ref().filter(|watch| id < watch.harts.len())?;
        Some((self.memory.misses(self.core_of(id)), watch.pipeline.left > 0))
    }

    /// Computes the timing of a hart's block and logs it.
    #[cold]
    #[inline(never)]
    pub(super) fn execute_logged<S: OpSource>(&mut self, id: usize, source: &mut S, world: &S::World) {
        let Some(watch) = &mut self.watch else { return };
        let mut around = CoreContext { id: id / self.threads, source, world, memory: &mut self.memory };
        let mut log = HartLog(&mut watch.pipeline, id as u32);
        self.harts[id].core.execute_observed(&self.ops, &mut around, &mut log);
    }

    /// Passes the last block to the observers.
    #[inline(never)]
    pub(super) fn watch_block(&mut self, id: usize, thread: u64, instructions: u64, before: Misses) {
        let counts = (instructions, [before, self.memory.misses(self.core_of(id))]);
        let timed = &self.harts[id];
        if let Some(watch) = &mut self.watch {
            watch.block(id, (thread, timed.space), &self.ops, timed.core.now(), counts);
        }
    }

    /// Called when a device access starts. The misses of its fetch and translation are charged to it.
    pub(super) fn begin_device_watched(&mut self, id: usize, before: Misses) {
        let after = self.memory.misses(self.core_of(id));
        if let Some(watch) = &mut self.watch {
            watch.harts[id].start = Some([before, after]);
        }
    }

    /// Completes a device access in its core at `done`, and passes it to the observers.
    pub(super) fn end_device_watched(&mut self, id: usize, thread: u64, op: &Op, done: [CoreCycle; 2]) {
        let TimedHart { core, space, .. } = &mut self.harts[id];
        let Some(watch) = self.watch.as_mut().filter(|watch| id < watch.harts.len()) else {
            return core.end_device(op, done);
        };
        core.end_device_observed(op, done, &mut HartLog(&mut watch.pipeline, id as u32));
        let misses = watch.harts[id].start.take().unwrap_or_default();
        watch.block(id, (thread, *space), &[*op], core.now(), (1, misses));
    }
}

impl Timing {
    /// Starts to observe op sources, given the present cycle and thread of each.
    pub(crate) fn watch_sources(
        &mut self,
        request: &WatchRequest,
        sources: impl Iterator<Item = (CoreCycle, u64)>,
        config: &MachineConfig,
    ) {
        let begins: Vec<_> = (0..)
            .zip(sources)
            .map(|(id, (cycle, thread))| (self.time_of(id, cycle), cycle, thread))
            .collect();
        self.watch = Some(Box::new(Watch::new(request, self, &begins, config)));
    }

    /// Stops observing op sources. `asleep` has the cycle until which each source sleeps, if it does.
    pub(crate) fn end_watch_of_sources(&mut self, asleep: &[Option<CoreCycle>]) -> Option<WatchReport> {
        let mut watch = self.watch.take()?;
        for (id, cycle) in asleep.iter().enumerate() {
            if let Some(cycle) = cycle {
                watch.idle(id, *cycle);
            }
        }
        Some(watch.finish())
    }
}

impl Machine {
    /// Starts an observation and discards a previous one. Returns `false` if the machine has no timing
    /// models.
    pub fn watch(&mut self, request: &WatchRequest) -> bool {
        let Some(mut timing) = self.timing.take() else { return false };
        let now = self.queue.now().max(self.reached);
        let begin = |hart: &Hart| {
            let time = if hart.is_waiting() { now.max(hart.time()) } else { hart.time() };
            (time, CoreCycle::new(hart.slot_at(time)), hart.thread())
        };
        let begins: Vec<_> = self.harts.iter().map(begin).collect();
        timing.watch = Some(Box::new(Watch::new(request, &timing, &begins, &self.config)));
        self.timing = Some(timing);
        true
    }

    /// Ends the observation and returns its results.
    pub fn end_watch(&mut self) -> Option<WatchReport> {
        let timing = self.timing.as_mut()?;
        let mut watch = timing.watch.take()?;
        if timing.mode == Mode::Detailed {
            for (id, hart) in self.harts.iter().enumerate() {
                if hart.is_waiting() {
                    watch.idle(id, CoreCycle::new(hart.slot_at(self.queue.now().max(self.reached))));
                }
            }
        }
        Some(watch.finish())
    }
}
