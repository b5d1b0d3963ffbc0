//! The window of a machine under load.
//!
//! A window begins and ends between two frames. The NIC's counters are read one link latency later than the edges on
//! the generator's side, so that they cover exactly the frames offered in the window.

use doorbell_machine::playback::CorunnerStats;
use doorbell_machine::{CheckpointFile, Machine, WatchReport, WatchRequest};
use doorbell_results::{MemoryPart, PointSummary, PortFigures, Steady, WindowSummary};
use doorbell_sim::Ps;

use crate::error::RunError;
use crate::figures::counters::{CountersAt, MeasuredCounters};
use crate::figures::host_cost::HostCost;
use crate::figures::nic_totals::{NicTotals, nic_totals};
use crate::figures::ports::{PortsSnapshot, interrupts_per_second};
use crate::figures::timing;
use crate::plan::config::RunConfig;
use crate::ratio::{per, per_frame};
use crate::testbed::corunners;
use crate::window::observe::Trace;
use crate::window::phases::Run;
use crate::window::snapshot::Edge;

/// Instructions executed by each measured hart.
fn instructions_by_hart(machine: &Machine) -> Vec<u64> {
    machine.harts()[..machine.measured_harts].iter().map(|hart| hart.instructions()).collect()
}

/// NIC counts of the frames sent before a given time. Each NIC is read when the last of these frames has reached it.
pub(crate) struct NicSnapshot {
    /// Time at which each remaining port is read; the next one is last.
    due: Vec<(Ps, usize)>,
    pub totals: NicTotals,
    pub figures: PortsSnapshot,
}

impl NicSnapshot {
    /// Starts a snapshot of the frames sent up to now.
    pub fn begin(machine: &Machine) -> NicSnapshot {
        let ports = 0..machine.ports().len();
        let mut due: Vec<_> = ports.map(|port| (machine.sent_arrives_by(port), port)).collect();
        due.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        let figures = PortsSnapshot::empty(due.len());
        // A frame lost on its way to a NIC is counted when it is sent.
        let totals = machine.ports().iter().fold(NicTotals::default(), NicTotals::with_link_in);
        NicSnapshot { due, totals, figures }
    }

    /// A complete snapshot of the present counts, regardless of frames in flight.
    fn now(machine: &Machine) -> NicSnapshot {
        NicSnapshot { due: Vec::new(), totals: nic_totals(machine), figures: PortsSnapshot::of(machine) }
    }

    /// Time at which the next port is read; `None` when all have been read.
    pub fn due(&self) -> Option<Ps> {
        self.due.last().map(|(at, _)| *at)
    }

    /// Reads the ports that are due at `now`. [`Ps::MAX`] reads all remaining ones.
    pub fn take(&mut self, machine: &Machine, now: Ps) {
        while let Some((_, index)) = self.due.pop_if(|(at, _)| *at <= now) {
            self.totals = self.totals.with_nic(machine.nic(index)).with_link_out(&machine.ports()[index]);
            self.figures.read_port(machine, index);
        }
    }
}

/// Changes during a window.
#[derive(Clone, Debug, Default)]
pub(crate) struct Window {
    /// Its beginning and end.
    pub span: [Edge; 2],
    pub begin: NicTotals,
    pub end: NicTotals,
    pub ports: Vec<PortFigures>,
    pub instructions: u64,
    /// Instructions of each measured hart.
    pub by_hart: Vec<u64>,
    /// Counts of the co-runners at both ends.
    pub corunners: [Vec<CorunnerStats>; 2],
    /// Counts of the timing models at both ends.
    pub timed: Option<(timing::TimingSnapshot, timing::TimingSnapshot)>,
    /// All counter values at both ends.
    pub counters: MeasuredCounters,
    /// Main memory activity over the window.
    pub memory: Vec<MemoryPart>,
    /// Whether the drain was complete: frames that have not returned are lost.
    pub settled: bool,
    /// Warm-up and settling before it.
    pub steady: Option<Steady>,
    /// Frames in FIFOs, rings and switches, sampled regularly; empty if the machine is not timed.
    pub queues: Vec<u64>,
    /// Checkpoints at its beginning and end, where they are needed.
    pub edges: Option<[CheckpointFile; 2]>,
}

impl Window {
    /// Cycles of the measured harts' cores in it, including idle ones; timed cores have their own cycle counts.
    pub fn core_cycles(&self, config: &RunConfig) -> f64 {
        let [begin, end] = &self.span;
        match &self.timed {
            Some((start, ended)) => ended.cycles_since(start) as f64,
            None => begin.core_cycles(end, config),
        }
    }

    /// The machine's figures in it, with the given figures of the traffic. `cost` is that of the whole run.
    pub fn summary(
        &self,
        config: &RunConfig,
        machine: &Machine,
        traffic: WindowSummary,
        frame_size: u64,
        cost: HostCost,
    ) -> PointSummary {
        let (frames, instructions) = (traffic.frames_delivered, self.instructions);
        let span = |(begin, end)| timing::Span { begin, end, frames, instructions, config };
        let span = self.timed.clone().map(span);
        PointSummary {
            config_hash: config.hash(),
            instructions,
            ipc: per(instructions as f64, self.core_cycles(config)),
            instructions_per_frame: per_frame(instructions, frames),
            host_seconds: cost.seconds,
            host_mips: cost.mips(),
            timing: span.as_ref().map(|span| timing::figures(span, machine)),
            cores: span.as_ref().map(timing::cores).unwrap_or_default(),
            timer_ticks: Some(self.counters.timer_ticks(machine)),
            interrupts_per_second: interrupts_per_second(&self.ports, traffic.seconds),
            ports: self.ports.clone(),
            beside: corunners::figures(&self.corunners, config, traffic.seconds),
            ..PointSummary::from_window(traffic, frame_size)
        }
    }
}

/// A window in progress: counts at its beginning, and samples so far.
pub(crate) struct OpenWindow {
    pub start: Edge,
    by_hart: Vec<u64>,
    corunners: Vec<CorunnerStats>,
    timed: Option<timing::TimingSnapshot>,
    counters: CountersAt,
    /// NIC counts of the frames sent before it.
    pub snapshot: NicSnapshot,
    /// Samples of main memory activity since its beginning.
    pub memory: timing::MemorySeries,
    /// Frames in FIFOs, rings and switches, sampled at the same times.
    pub queues: Vec<u64>,
    edge: Option<CheckpointFile>,
}

impl OpenWindow {
    /// Starts a window now.
    pub fn begin(machine: &Machine) -> OpenWindow {
        OpenWindow::begin_with(machine, NicSnapshot::now(machine))
    }

    fn begin_with(machine: &Machine, snapshot: NicSnapshot) -> OpenWindow {
        OpenWindow {
            start: Edge::of(machine),
            by_hart: instructions_by_hart(machine),
            corunners: corunners::stats(machine),
            timed: timing::TimingSnapshot::of(machine),
            counters: CountersAt::of(machine),
            snapshot,
            memory: timing::MemorySeries::default(),
            queues: Vec::new(),
            edge: None,
        }
    }

    /// The results at the end of the window, except those that are read later or from the NICs.
    fn measured(&mut self, machine: &Machine) -> Window {
        let harts = instructions_by_hart(machine).into_iter().zip(&self.by_hart);
        let by_hart: Vec<u64> = harts.map(|(now, begin)| now - begin).collect();
        let counters = std::mem::take(&mut self.counters);
        Window {
            span: [self.start.clone(), Edge::of(machine)],
            instructions: by_hart.iter().sum(),
            by_hart,
            corunners: [std::mem::take(&mut self.corunners), corunners::stats(machine)],
            timed: self.timed.take().zip(timing::TimingSnapshot::of(machine)),
            counters: counters.until(CountersAt::of(machine)),
            ..Window::default()
        }
    }

    /// Starts a window of a running load now, together with its observations and its trace. Frames sent before it have
    /// yet to arrive at the NICs.
    pub fn begin_recorded(
        machine: &mut Machine,
        watch: Option<&WatchRequest>,
        trace: Option<&Trace>,
    ) -> OpenWindow {
        machine.begin_window();
        machine.record(trace.map(Trace::recorder));
        if let Some(request) = watch {
            machine.watch(request);
        }
        OpenWindow::begin_with(machine, NicSnapshot::begin(machine))
    }

    /// Ends a window of a running load, and the load, now. Its last frames have yet to arrive at the NICs, which are
    /// read by the snapshots of both ends and added by [`OpenWindow::with_nics`].
    pub fn close(&mut self, machine: &mut Machine) -> (Window, Option<WatchReport>, NicSnapshot) {
        machine.end_window();
        machine.stop_traffic();
        machine.record(None);
        (self.measured(machine), machine.end_watch(), NicSnapshot::begin(machine))
    }

    /// The window with the NICs' counts at both ends.
    pub fn with_nics(self, window: Window, end: NicSnapshot, machine: &Machine) -> Window {
        let ports = self.snapshot.figures.until(&end.figures, machine);
        Window { begin: self.snapshot.totals, end: end.totals, ports, queues: self.queues, ..window }
    }

    /// Ends the window now.
    pub fn end(mut self, machine: &Machine) -> Window {
        let window = self.measured(machine);
        Window {
            begin: self.snapshot.totals,
            end: nic_totals(machine),
            ports: self.snapshot.figures.until(&PortsSnapshot::of(machine), machine),
            ..window
        }
    }
}

impl Run<'_, '_, Machine> {
    /// Starts the window at the next gap between two frames, and discards an earlier window. Frames sent before it have
    /// yet to [arrive](Self::arrive_in) at the NICs.
    pub fn open_window(
        &mut self,
        watch: Option<&WatchRequest>,
        trace: Option<&Trace>,
    ) -> Result<OpenWindow, RunError> {
        if let Some(gap) = gap_to_wait_for(self.system) {
            self.until(gap)?;
        }
        let edge = self.edge();
        let mut open = OpenWindow::begin_recorded(self.system, watch, trace);
        open.memory.sample(self.system);
        Ok(OpenWindow { edge, ..open })
    }

    /// Runs until the frames sent before the window have reached the NICs.
    pub fn arrive_in(&mut self, open: &mut OpenWindow) -> Result<(), RunError> {
        self.finish(&mut open.snapshot, Ps::MAX)
    }

    /// Runs to a time in a window. On the way, reads each NIC as soon as the frames sent before the window have reached it.
    pub fn until_in(&mut self, open: &mut OpenWindow, time: Ps) -> Result<(), RunError> {
        self.finish(&mut open.snapshot, time)?;
        self.until(time)
    }

    /// Runs until the NICs of a snapshot are read, but no further than `time`.
    fn finish(&mut self, snapshot: &mut NicSnapshot, time: Ps) -> Result<(), RunError> {
        while let Some(due) = snapshot.due().filter(|due| *due <= time) {
            self.until(due)?;
            snapshot.take(self.system, due);
        }
        Ok(())
    }

    /// Ends the window, and the traffic, at the next gap between two frames.
    pub fn close_window(&mut self, mut open: OpenWindow) -> Result<(Window, Option<WatchReport>), RunError> {
        self.until_in(&mut open, self.system.next_gap())?;
        let edge = self.edge();
        let (window, watched, mut end) = open.close(self.system);
        let edges = open.edge.take().zip(edge).map(|(begin, end)| [begin, end]);
        // Without samples inside the window there is no series.
        let memory = match open.memory.has_parts() {
            true => {
                open.memory.sample(self.system);
                open.memory.parts(&self.system.config().memory)
            }
            false => Vec::new(),
        };
        // Frames sent before a short window may still be in flight.
        self.finish(&mut open.snapshot, Ps::MAX)?;
        self.finish(&mut end, Ps::MAX)?;
        Ok((open.with_nics(Window { memory, edges, ..window }, end, self.system), watched))
    }

    /// A checkpoint of the machine at an edge, if any load needs one.
    fn edge(&self) -> Option<CheckpointFile> {
        let kept = self.loads.iter().any(|load| load.keeps_checkpoints);
        kept.then(|| self.system.checkpoint(self.guest, "the edge of a window"))
    }
}

/// The next time between two frames, or `None` if a window can begin now. It can if nothing has been sent yet; a frame
/// that is due now is then its first.
pub(crate) fn gap_to_wait_for(machine: &Machine) -> Option<Ps> {
    Some(machine.next_gap()).filter(|gap| *gap > machine.complete_until())
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
