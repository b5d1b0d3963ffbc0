//! Watching a timed run: a [`Profile`] of what code costs, a log of the pipeline, and how busy the cores were from microsecond
//! to microsecond. A machine that is not watched pays a branch a block. Nothing simulated depends on what is watched, and
//! no checkpoint keeps it. Only blocks priced in [`Mode::Detailed`] are seen.

use doorbell_core::{Observer, Stages};
use doorbell_memory::Misses;
use doorbell_riscv::Hart;
use doorbell_sim::{Hertz, Op, OpSource, Ps};

use super::profile::{Profile, Profiler, cost};
use super::{Around, Mode, TimedHart, Timing};
use crate::config::MachineConfig;
use crate::machine::Machine;

/// More steps of [`Activity`] than this are not kept.
const STEPS_MAX: usize = 1 << 20;

/// What to watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchRequest {
    /// Costs by block and by call.
    pub profile: bool,
    /// So many instructions' way through the pipeline.
    pub pipeline: u64,
    /// Instructions and idle time by microsecond.
    pub activity: bool,
}

/// What was watched.
#[derive(Debug, Default)]
pub struct Watched {
    /// Costs by block and by call.
    pub profile: Option<Profile>,
    /// The ops of the first instructions, in the order in which they were priced.
    pub pipeline: Vec<LoggedOp>,
    /// Each hart's activity.
    pub activity: Vec<Activity>,
}

/// An op and when it passed the stages, in cycles of its hart.
#[derive(Clone, Copy, Debug)]
pub struct LoggedOp {
    /// Its hart.
    pub hart: u32,
    /// The op.
    pub op: Op,
    /// When it passed the stages.
    pub stages: Stages,
}

/// How busy a hart was: steps of a microsecond, more or less, as cycles have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activity {
    /// When the first step begins.
    pub begin: Ps,
    /// How long a step is.
    pub step: Ps,
    /// Core cycles of a step.
    pub step_cycles: u64,
    /// Instructions retired and idle cycles (WFI) of each step. A block counts where its last op commits.
    pub steps: Vec<(u64, u64)>,
    begun: u64,
    end: u64,
}

impl Activity {
    fn new((begin, begun): (Ps, u64), frequency: Hertz) -> Activity {
        let step_cycles = (frequency.0 / 1_000_000).max(1);
        let step = Ps((u128::from(step_cycles) * 1_000_000_000_000 / u128::from(frequency.0)) as u64);
        let end = begun + step_cycles;
        Activity { begin, step, step_cycles, steps: vec![(0, 0)], begun, end }
    }

    #[inline]
    fn add(&mut self, cycle: u64, instructions: u64, idle: u64) {
        if cycle >= self.end {
            let step = ((cycle - self.begun) / self.step_cycles) as usize;
            self.end = self.begun + (step as u64 + 1) * self.step_cycles;
            if step < STEPS_MAX {
                self.steps.resize(step + 1, (0, 0));
            }
        }
        // What is beyond the last step kept is in none.
        if self.end <= self.begun + self.steps.len() as u64 * self.step_cycles
            && let Some(step) = self.steps.last_mut()
        {
            step.0 += instructions;
            step.1 += idle;
        }
    }
}

/// Idle time that spans several steps belongs to each of them.
fn add_idle(activity: &mut Activity, from: u64, to: u64) {
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

struct LogOf<'a>(&'a mut PipelineLog, u32);

impl Observer for LogOf<'_> {
    fn op(&mut self, op: &Op, stages: &Stages) {
        let log = &mut *self.0;
        if log.left > 0 {
            log.ops.push(LoggedOp { hart: self.1, op: *op, stages: *stages });
            log.left -= u64::from(op.ends_instruction());
        }
    }
}

/// What is being watched.
pub(super) struct Watch {
    profiler: Option<Box<Profiler>>,
    pipeline: PipelineLog,
    activity: Vec<Activity>,
    harts: Vec<Looked>,
}

/// When a hart was looked at last, and what it had.
#[derive(Clone, Copy, Default)]
struct Looked {
    /// Of the first look.
    from: u64,
    cycle: u64,
    tp: u64,
    /// Counted when a device access began, which ends later.
    begun: Option<[Misses; 2]>,
}

impl Watch {
    /// Of each hart: when it begins, in time and in slots, and its thread. One that sleeps begins later than its core has come.
    fn new(
        request: &WatchRequest,
        timing: &Timing,
        harts: &[(Ps, u64, u64)],
        config: &MachineConfig,
    ) -> Watch {
        let looked = |((_, begun, tp), timed): (&(Ps, u64, u64), &TimedHart)| {
            let cycle = timed.core.now().max(*begun);
            Looked { from: cycle, cycle, tp: *tp, begun: None }
        };
        let activity = |(id, (begin, begun, _)): (usize, &(Ps, u64, u64))| {
            Activity::new((*begin, *begun), config.hart(id).core.frequency)
        };
        Watch {
            profiler: request.profile.then(|| Box::new(Profiler::new(harts.len()))),
            pipeline: PipelineLog { left: request.pipeline, ops: Vec::new() },
            activity: match request.activity {
                true => harts.iter().enumerate().map(activity).collect(),
                false => Vec::new(),
            },
            harts: harts.iter().zip(&timing.harts).map(looked).collect(),
        }
    }

    fn finish(self) -> Watched {
        let watched = self.harts.iter().map(|looked| looked.cycle - looked.from);
        Watched {
            profile: self.profiler.map(|profiler| profiler.finish(watched)),
            pipeline: self.pipeline.ops,
            activity: self.activity,
        }
    }

    /// A hart sleeps until `cycle`.
    pub(super) fn idle(&mut self, id: usize, cycle: u64) {
        let Some(looked) = self.harts.get_mut(id) else { return };
        let from = looked.cycle;
        looked.cycle = from.max(cycle);
        if let Some(profiler) = &mut self.profiler {
            profiler.idle(id, self.harts[id].cycle - from);
        }
        if let Some(activity) = self.activity.get_mut(id) {
            add_idle(activity, from, cycle);
        }
    }

    /// Looks at what has been priced since the last time.
    #[inline]
    fn look(
        &mut self,
        id: usize,
        (thread, space): (u64, Option<u16>),
        ops: &[Op],
        now: u64,
        (instructions, [before, after]): (u64, [Misses; 2]),
    ) {
        let looked = &mut self.harts[id];
        let tp = std::mem::replace(&mut looked.tp, thread);
        if ops.is_empty() {
            // A trap before the first op: its time is the handler's.
            return;
        }
        let cycles = now - looked.cycle;
        looked.cycle = now;
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
    /// If somebody watches: the misses before a block, and whether its way through the pipeline is logged.
    #[inline]
    pub(super) fn before_watched(&self, id: usize) -> Option<(Misses, bool)> {
        // Programs beside the harts are not watched.
        let watch = self.watch.as_ref().filter(|watch| id < watch.harts.len())?;
        Some((self.memory.misses(self.core_of(id)), watch.pipeline.left > 0))
    }

    /// Prices the block that a hart has executed, and logs it.
    #[cold]
    #[inline(never)]
    pub(super) fn execute_logged<S: OpSource>(&mut self, id: usize, source: &mut S, world: &S::World) {
        let Some(watch) = &mut self.watch else { return };
        let mut around = Around { id: id / self.threads, source, world, memory: &mut self.memory };
        let mut log = LogOf(&mut watch.pipeline, id as u32);
        self.harts[id].core.execute_observed(&self.ops, &mut around, &mut log);
    }

    /// Looks at the block that was priced last.
    #[inline(never)]
    pub(super) fn look(&mut self, id: usize, thread: u64, instructions: u64, before: Misses) {
        let counts = (instructions, [before, self.memory.misses(self.core_of(id))]);
        let timed = &self.harts[id];
        if let Some(watch) = &mut self.watch {
            watch.look(id, (thread, timed.space), &self.ops, timed.core.now(), counts);
        }
    }

    /// A device access begins; what its fetch and translation miss is its own.
    pub(super) fn begin_device_watched(&mut self, id: usize, before: Misses) {
        let after = self.memory.misses(self.core_of(id));
        if let Some(watch) = &mut self.watch {
            watch.harts[id].begun = Some([before, after]);
        }
    }

    /// A device access is over at `done`, and its core is told.
    pub(super) fn end_device_watched(&mut self, id: usize, thread: u64, op: &Op, done: [u64; 2]) {
        let TimedHart { core, space, .. } = &mut self.harts[id];
        let Some(watch) = self.watch.as_mut().filter(|watch| id < watch.harts.len()) else {
            return core.end_device(op, done);
        };
        core.end_device_observed(op, done, &mut LogOf(&mut watch.pipeline, id as u32));
        let misses = watch.harts[id].begun.take().unwrap_or_default();
        watch.look(id, (thread, *space), &[*op], core.now(), (1, misses));
    }
}

impl Timing {
    /// Watches sources from now on, which have come to these cycles and run these threads.
    pub(crate) fn watch_sources(
        &mut self,
        request: &WatchRequest,
        sources: impl Iterator<Item = (u64, u64)>,
        config: &MachineConfig,
    ) {
        let begins: Vec<_> = (0..)
            .zip(sources)
            .map(|(id, (cycle, thread))| (self.time_of(id, cycle), cycle, thread))
            .collect();
        self.watch = Some(Box::new(Watch::new(request, self, &begins, config)));
    }

    /// Watches sources no more; of each, until which cycle it is asleep, if it is.
    pub(crate) fn end_watch_of_sources(&mut self, asleep: &[Option<u64>]) -> Option<Watched> {
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
    /// Watches from now on; what was being watched is forgotten. `false` if the machine has no timing models, so that
    /// there is nothing to be seen.
    pub fn watch(&mut self, request: &WatchRequest) -> bool {
        let Some(mut timing) = self.timing.take() else { return false };
        let now = self.queue.now().max(self.reached);
        let begin = |hart: &Hart| {
            let time = if hart.is_waiting() { now.max(hart.time()) } else { hart.time() };
            (time, hart.slot_at(time), hart.thread())
        };
        let begins: Vec<_> = self.harts.iter().map(begin).collect();
        timing.watch = Some(Box::new(Watch::new(request, &timing, &begins, &self.config)));
        self.timing = Some(timing);
        true
    }

    /// Watches no more, and tells what was seen.
    pub fn end_watch(&mut self) -> Option<Watched> {
        let timing = self.timing.as_mut()?;
        let mut watch = timing.watch.take()?;
        if timing.mode == Mode::Detailed {
            for (id, hart) in self.harts.iter().enumerate() {
                if hart.is_waiting() {
                    watch.idle(id, hart.slot_at(self.queue.now().max(self.reached)));
                }
            }
        }
        Some(watch.finish())
    }
}
