//! The window of a machine under load.
//!
//! A window begins and ends between two frames, so that exactly the frames offered in it reach the NIC while the NIC's
//! counters are watched, one link latency later.

use doorbell_machine::playback::BesideStats;
use doorbell_machine::{CheckpointFile, Machine, WatchRequest, Watched};
use doorbell_results::{MemoryPart, PortFigures, Steady};
use doorbell_sim::Ps;

use crate::error::RunError;
use crate::figures::counters::{CountersAt, MeasuredCounters};
use crate::figures::nic_totals::{NicTotals, nic_totals};
use crate::figures::ports::Moment;
use crate::figures::timing;
use crate::plan::config::RunConfig;
use crate::testbed::corunners;
use crate::window::observe::Trace;
use crate::window::phases::Run;
use crate::window::snapshot::Edge;

/// Instructions of each hart that is measured.
fn instructions_by_hart(machine: &Machine) -> Vec<u64> {
    machine.harts()[..machine.measured_harts].iter().map(|hart| hart.instructions()).collect()
}

/// What the NICs have counted of the frames that were sent before this look began: each is looked at when these have come to it.
pub(crate) struct Look {
    /// When each port is to be looked at, the next one last.
    due: Vec<(Ps, usize)>,
    pub totals: NicTotals,
    pub figures: Moment,
}

impl Look {
    /// At what was sent until now.
    pub fn begin(machine: &Machine) -> Look {
        let ports = 0..machine.ports().len();
        let mut due: Vec<_> = ports.map(|port| (machine.sent_arrives_by(port), port)).collect();
        due.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        let figures = Moment::unseen(due.len());
        // What is lost on its way to a NIC is counted when it is sent.
        let totals = machine.ports().iter().fold(NicTotals::default(), NicTotals::with_way_in);
        Look { due, totals, figures }
    }

    /// At this very moment, whatever is on its way.
    fn now(machine: &Machine) -> Look {
        Look { due: Vec::new(), totals: nic_totals(machine), figures: Moment::of(machine) }
    }

    /// When the next ports are to be looked at; `None` when all have been.
    pub fn due(&self) -> Option<Ps> {
        self.due.last().map(|(at, _)| *at)
    }

    /// Looks at the ports whose time has come when it is `now`, or as late as it will get.
    pub fn take(&mut self, machine: &Machine, now: Ps) {
        while let Some((_, index)) = self.due.pop_if(|(at, _)| *at <= now) {
            self.totals = self.totals.with_nic(machine.nic(index)).with_way_back(&machine.ports()[index]);
            self.figures.see(machine, index);
        }
    }
}

/// What changed during the window.
#[derive(Clone, Debug, Default)]
pub(crate) struct Window {
    /// When it began and ended.
    pub span: [Edge; 2],
    pub begin: NicTotals,
    pub end: NicTotals,
    pub ports: Vec<PortFigures>,
    pub instructions: u64,
    /// Those of each hart, of a node.
    pub by_hart: Vec<u64>,
    /// What programs beside the harts had done at both ends.
    pub beside: [Vec<BesideStats>; 2],
    /// What the timing models had counted at both ends.
    pub timed: Option<(timing::Moment, timing::Moment)>,
    /// What every counter stood at, at both ends.
    pub counters: MeasuredCounters,
    /// What main memory did over its time.
    pub memory: Vec<MemoryPart>,
    /// Whether what has not come back of it never will.
    pub settled: bool,
    /// How the load came to its pace before it.
    pub steady: Option<Steady>,
    /// Frames in FIFOs, rings and switches at regular looks, where the machine is timed.
    pub queues: Vec<u64>,
    /// The machine at its begin and end, where these are kept.
    pub edges: Option<[CheckpointFile; 2]>,
}

impl Window {
    /// Cycles of the measured harts' cores in it, asleep or not: of timed ones those that their books have.
    pub fn core_cycles(&self, config: &RunConfig) -> f64 {
        let [begin, end] = &self.span;
        match &self.timed {
            Some((begun, ended)) => ended.cycles_since(begun) as f64,
            None => begin.core_cycles(end, config),
        }
    }
}

/// A window that has begun.
pub(crate) struct OpenWindow {
    pub begun: Edge,
    by_hart: Vec<u64>,
    beside: Vec<BesideStats>,
    timed: Option<timing::Moment>,
    counters: CountersAt,
    /// At what was sent before it.
    look: Look,
    /// What main memory has done, from the window's begin on.
    pub memory: timing::MemorySeries,
    /// Frames in FIFOs, rings and switches at the same looks.
    pub queues: Vec<u64>,
    edge: Option<CheckpointFile>,
}

impl OpenWindow {
    /// A window that begins at this very moment.
    pub fn begin(machine: &Machine) -> OpenWindow {
        OpenWindow {
            begun: Edge::of(machine),
            by_hart: instructions_by_hart(machine),
            beside: corunners::look(machine),
            timed: timing::Moment::of(machine),
            counters: CountersAt::of(machine),
            look: Look::now(machine),
            memory: timing::MemorySeries::default(),
            queues: Vec::new(),
            edge: None,
        }
    }

    /// What each hart has executed since it began.
    fn executed(&self, machine: &Machine) -> Vec<u64> {
        instructions_by_hart(machine).iter().zip(&self.by_hart).map(|(now, begin)| now - begin).collect()
    }

    /// What has changed up to this moment.
    pub fn end(self, machine: &Machine) -> Window {
        let by_hart = self.executed(machine);
        Window {
            span: [self.begun, Edge::of(machine)],
            begin: self.look.totals,
            end: nic_totals(machine),
            ports: self.look.figures.until(&Moment::of(machine), machine),
            instructions: by_hart.iter().sum(),
            by_hart,
            beside: [self.beside, corunners::look(machine)],
            timed: self.timed.zip(timing::Moment::of(machine)),
            counters: self.counters.until(CountersAt::of(machine)),
            ..Window::default()
        }
    }
}

impl Run<'_, '_, Machine> {
    /// Begins the window at the next gap between two frames; the one before, if any, is forgotten. What was sent before has still to
    /// [arrive](Self::arrive_in) at the NICs.
    pub fn open_window(
        &mut self,
        watch: Option<&WatchRequest>,
        trace: Option<&Trace>,
    ) -> Result<OpenWindow, RunError> {
        if let Some(gap) = gap_to_wait_for(self.system) {
            self.until(gap)?;
        }
        let edge = self.edge();
        self.system.begin_window();
        self.system.record(trace.map(Trace::recorder));
        if let Some(request) = watch {
            self.system.watch(request);
        }
        let (begun, by_hart) = (Edge::of(self.system), instructions_by_hart(self.system));
        let beside = corunners::look(self.system);
        let timed = timing::Moment::of(self.system);
        let counters = CountersAt::of(self.system);
        let mut memory = timing::MemorySeries::default();
        memory.look(self.system);
        let look = Look::begin(self.system);
        let queues = Vec::new();
        Ok(OpenWindow { begun, by_hart, beside, timed, counters, look, memory, queues, edge })
    }

    /// Goes on in a window until what was sent before it is at the NICs.
    pub fn arrive_in(&mut self, open: &mut OpenWindow) -> Result<(), RunError> {
        self.finish(&mut open.look, Ps::MAX)
    }

    /// Goes on to a time in a window, and looks on the way at the NICs to which what was sent before it has come.
    pub fn until_in(&mut self, open: &mut OpenWindow, time: Ps) -> Result<(), RunError> {
        self.finish(&mut open.look, time)?;
        self.until(time)
    }

    /// Goes on until what was sent before a look is at the NICs, but no further than `time`.
    fn finish(&mut self, look: &mut Look, time: Ps) -> Result<(), RunError> {
        while let Some(due) = look.due().filter(|due| *due <= time) {
            self.until(due)?;
            look.take(self.system, due);
        }
        Ok(())
    }

    /// Ends the window at the next gap, and the traffic with it.
    pub fn close_window(&mut self, mut open: OpenWindow) -> Result<(Window, Option<Watched>), RunError> {
        self.until_in(&mut open, self.system.next_gap())?;
        let edge = self.edge();
        let ended = Edge::of(self.system);
        self.system.end_window();
        self.system.stop_traffic();
        self.system.record(None);
        let by_hart = open.executed(self.system);
        let edges = open.edge.zip(edge).map(|(begin, end)| [begin, end]);
        let beside = [open.beside, corunners::look(self.system)];
        let timed = open.timed.zip(timing::Moment::of(self.system));
        let counters = open.counters.until(CountersAt::of(self.system));
        // Where nobody has looked meanwhile, nobody asks.
        let memory = match open.memory.is_a_course() {
            true => {
                open.memory.look(self.system);
                open.memory.parts(&self.system.config().memory)
            }
            false => Vec::new(),
        };
        let watched = self.system.end_watch();
        let mut end = Look::begin(self.system);
        // What was sent before a short window may still be on its way.
        self.finish(&mut open.look, Ps::MAX)?;
        self.finish(&mut end, Ps::MAX)?;
        let ports = open.look.figures.until(&end.figures, self.system);
        Ok((
            Window {
                span: [open.begun, ended],
                begin: open.look.totals,
                end: end.totals,
                ports,
                instructions: by_hart.iter().sum(),
                by_hart,
                beside,
                timed,
                counters,
                memory,
                queues: open.queues,
                edges,
                ..Window::default()
            },
            watched,
        ))
    }

    /// The machine as it is, if it is to be kept.
    fn edge(&self) -> Option<CheckpointFile> {
        let kept = self.loads.iter().any(|load| load.kept);
        kept.then(|| self.system.checkpoint(self.guest, "the edge of a window"))
    }
}

/// The next moment between two frames, if a window cannot begin now: where nothing has been sent yet it can, and a frame that is due at this
/// moment is its first.
pub(crate) fn gap_to_wait_for(machine: &Machine) -> Option<Ps> {
    Some(machine.next_gap()).filter(|gap| *gap > machine.complete_until())
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
