//! The window of a machine under load.
//!
//! A window begins and ends between two frames, so that exactly the frames offered in it reach the NIC while the NIC's
//! counters are watched, one link latency later.

use doorbell_machine::playback::BesideStats;
use doorbell_machine::{CheckpointFile, ConfigError, Machine, Port, WatchRequest, Watched};
use doorbell_nic::{Card, LateDrops, NicStats, WaitedDrops};
use doorbell_results::{Drops, MemoryPart, PortFigures, Steady, WaitedFor};
use doorbell_sim::{Frame, Ps};

use crate::beside;
use crate::config::RunConfig;
use crate::counters::{CountersAt, MeasuredCounters};
use crate::edge::Edge;
use crate::error::RunError;
use crate::measure::merged_measurement;
use crate::observe::Trace;
use crate::phases::Run;
use crate::ports::Moment;
use crate::steady::so_far;
use crate::system::System;
use crate::timing;

/// Instructions of each hart that is measured.
fn instructions_by_hart(machine: &Machine) -> Vec<u64> {
    machine.harts()[..machine.measured_harts].iter().map(|hart| hart.instructions()).collect()
}

/// What the NICs counted, all together.
pub(crate) fn nic_totals(machine: &Machine) -> NicTotals {
    let ports = machine.ports().iter().zip(machine.nics());
    ports.fold(NicTotals::default(), |totals, (port, nic)| totals.with_port(port, nic))
}

/// Frames of the window that were dropped after they had been accepted, at all NICs.
pub(crate) fn late_drops(machine: &Machine) -> LateDrops {
    machine.nics().map(Card::late_drops).fold(LateDrops::default(), |all, own| LateDrops {
        core: all.core + own.core,
        reset: all.reset + own.reset,
    })
}

/// What each of them counted.
pub(crate) fn port_totals(machine: &Machine) -> Vec<NicTotals> {
    let ports = machine.ports().iter().zip(machine.nics());
    ports.map(|(port, nic)| NicTotals::default().with_port(port, nic)).collect()
}

/// Frames that were lost at the NICs and on the links, by cause.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NicTotals {
    pub dma: u64,
    pub core: u64,
    pub tx: u64,
    pub other: u64,
    /// Frames that had been accepted and were dropped later, whenever they had come: these by a reset, which are in `other` too,
    pub reset: u64,
    /// and these, which are in `core` too, because their queue had no descriptor.
    pub no_descriptor: u64,
    /// On the way to a NIC, and from it.
    pub link_in: u64,
    pub link_out: u64,
    /// Frames that left for the NICs, whatever they were.
    pub sent: u64,
    /// Frames that came back when their generators no longer waited for them.
    pub late: u64,
    pub waited: WaitedDrops,
}

impl NicTotals {
    /// What this port counted as well.
    fn with_port(self, port: &Port, nic: &Card) -> NicTotals {
        self.with_way_in(port).with_nic(nic).with_way_back(port)
    }

    /// What this NIC counted as well.
    fn with_nic(mut self, nic: &Card) -> NicTotals {
        let s: &NicStats = nic.stats();
        self.dma += s.rx_drop_dma;
        self.core += s.rx_drop_core;
        self.tx += s.rx_drop_tx;
        let (waited, all) = (nic.waited_drops(), &mut self.waited);
        all.core += waited.core;
        all.tx += waited.tx;
        all.fetch += waited.fetch;
        all.data += waited.data;
        self.other +=
            s.rx_drop_address + s.rx_drop_vlan + s.rx_drop_fcs + s.rx_drop_undersize + s.rx_drop_oversize;
        self.other +=
            s.rx_drop_disabled + s.rx_drop_link_down + s.rx_drop_loopback + s.rx_drop_reset + s.rx_control;
        self.reset += s.rx_drop_reset;
        self.no_descriptor += nic.queue_stats().iter().map(|queue| queue.rx_drop_no_descriptor).sum::<u64>();
        self
    }

    /// The same of frames that arrived since then, `late` being those of them that were dropped after they had been accepted, be it since
    /// this look. On the way back each frame says whether it is one of the window's: so many of them were lost there.
    pub fn of_arrived(&self, begin: &NicTotals, late: &LateDrops, lost_behind: u64) -> Drops {
        let drops = self.since(begin);
        Drops {
            core: drops.core - (self.no_descriptor - begin.no_descriptor) + late.core,
            nic_other: drops.nic_other - (self.reset - begin.reset) + late.reset,
            link: self.link_in - begin.link_in + lost_behind,
            ..drops
        }
    }

    /// Frames lost since another look; what guests dropped is not known here.
    pub fn since(&self, begin: &NicTotals) -> Drops {
        let (now, then) = (&self.waited, &begin.waited);
        Drops {
            dma: self.dma - begin.dma,
            core: self.core - begin.core,
            tx: self.tx - begin.tx,
            nic_other: self.other - begin.other,
            link: self.link_in - begin.link_in + self.link_out - begin.link_out,
            guest: 0,
            unknown: 0,
            waited_for: WaitedFor {
                core: now.core - then.core,
                tx: now.tx - then.tx,
                fetch: now.fetch - then.fetch,
                data: now.data - then.data,
            },
        }
    }

    /// What was sent to this port's NIC and lost before it as well. A frame damaged there is the NIC's to drop.
    fn with_way_in(mut self, port: &Port) -> NicTotals {
        self.link_in += port.link_in.stats().lost;
        self.sent += port.link_in.stats().frames;
        self.late += port.loadgen.stats().late;
        self
    }

    /// What was lost behind this port's NIC as well; a frame damaged there is lost.
    fn with_way_back(mut self, port: &Port) -> NicTotals {
        self.link_out += port.link_out.stats().lost + port.link_out.stats().corrupted;
        self
    }
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

/// A window that has begun.
pub(crate) struct OpenWindow {
    begun: Edge,
    by_hart: Vec<u64>,
    beside: Vec<BesideStats>,
    timed: Option<timing::Moment>,
    counters: CountersAt,
    totals: NicTotals,
    figures: Moment,
    /// What main memory has done, from the window's begin on.
    memory: timing::MemorySeries,
    /// Frames in FIFOs, rings and switches at the same looks.
    queues: Vec<u64>,
    edge: Option<CheckpointFile>,
}

impl OpenWindow {
    /// A window that begins at this very moment.
    pub fn begin(machine: &Machine) -> OpenWindow {
        OpenWindow {
            begun: Edge::of(machine),
            by_hart: instructions_by_hart(machine),
            beside: beside::look(machine),
            timed: timing::Moment::of(machine),
            counters: CountersAt::of(machine),
            totals: nic_totals(machine),
            figures: Moment::of(machine),
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
            begin: self.totals,
            end: nic_totals(machine),
            ports: self.figures.until(&Moment::of(machine), machine),
            instructions: by_hart.iter().sum(),
            by_hart,
            beside: [self.beside, beside::look(machine)],
            timed: self.timed.zip(timing::Moment::of(machine)),
            counters: self.counters.until(CountersAt::of(machine)),
            ..Window::default()
        }
    }
}

impl Run<'_, '_, Machine> {
    /// Begins the window at the next gap between two frames; the one before, if any, is forgotten.
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
        let beside = beside::look(self.system);
        let timed = timing::Moment::of(self.system);
        let counters = CountersAt::of(self.system);
        let mut memory = timing::MemorySeries::default();
        memory.look(self.system);
        let Look { totals, figures, .. } = self.look()?;
        let queues = Vec::new();
        Ok(OpenWindow { begun, by_hart, beside, timed, counters, totals, figures, memory, queues, edge })
    }

    /// Ends the window at the next gap, and the traffic with it.
    pub fn close_window(&mut self, mut open: OpenWindow) -> Result<(Window, Option<Watched>), RunError> {
        self.until(self.system.next_gap())?;
        let edge = self.edge();
        let ended = Edge::of(self.system);
        self.system.end_window();
        self.system.stop_traffic();
        self.system.record(None);
        let by_hart = open.executed(self.system);
        let edges = open.edge.zip(edge).map(|(begin, end)| [begin, end]);
        let beside = [open.beside, beside::look(self.system)];
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
        let end = self.look()?;
        let ports = open.figures.until(&end.figures, self.system);
        Ok((
            Window {
                span: [open.begun, ended],
                begin: open.totals,
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

    /// Goes on until what was sent before is at the NICs.
    fn look(&mut self) -> Result<Look, RunError> {
        let mut look = Look::begin(self.system);
        while let Some(due) = look.due() {
            self.until(due)?;
            look.take(self.system, due);
        }
        Ok(look)
    }

    /// Warms up and measures; a measurement of "auto" that was not steady is discarded, and the next one begins.
    pub fn measure(
        &mut self,
        config: &RunConfig,
        watch: Option<&WatchRequest>,
        trace: Option<&Trace>,
    ) -> Result<(Window, Option<Watched>), RunError> {
        let mut steady = self.approach()?;
        let begun = self.system.now();
        let mut length = config.run.measured_time();
        loop {
            let mut open = self.open_window(watch, trace)?;
            match config.run.frames {
                Some(frames) => {
                    self.control.begin("measuring", open.begun.at, None);
                    self.until_offered(frames, config)?;
                }
                None => self.until_measured(&mut open, length)?,
            }
            let next = self.next_length(&open, length).filter(|next| {
                let all = self.system.now().saturating_sub(begun).saturating_add(*next);
                config.run.is_auto() && trace.is_none() && all <= config.run.duration_limit
            });
            let Some(next) = next else {
                let (window, watched) = self.close_window(open)?;
                let [begin, end] = &window.span;
                let asked = config.run.frames.is_none().then_some(length);
                begin.differs(end, asked).iter().for_each(|line| (self.control.say)(line));
                return Ok((Window { steady: Some(steady), ..window }, watched));
            };
            self.system.end_watch();
            steady.discarded += 1;
            length = next;
        }
    }

    /// Runs an open window to its end, with looks at memory and queues where the machine is timed: a functional run would be cut
    /// within blocks.
    fn until_measured(&mut self, open: &mut OpenWindow, length: Ps) -> Result<(), RunError> {
        let begun = open.begun.at;
        self.control.begin("measuring", begun, Some(length));
        let parts = if open.memory.is_empty() { 0 } else { timing::PARTS };
        for part in 1..=parts {
            self.until(begun + Ps(length.0 / timing::PARTS * part))?;
            open.queues.push(self.system.seen().queues.iter().sum());
            // The last one ends with the window.
            if part < parts {
                open.memory.look(self.system);
            }
        }
        self.until(begun + length)
    }

    /// How long the next measurement is to be, if this one is not shown to be steady: twice as long where it was too short to tell.
    /// Generators that have nothing left to send end the matter.
    fn next_length(&self, open: &OpenWindow, length: Ps) -> Option<Ps> {
        let generators = self.system.generators();
        if self.loads.is_empty() || !generators.iter().all(|generator| generator.is_sending()) {
            return None;
        }
        let batches = merged_measurement(self.system).summary(self.system.now()).batches;
        let phase = so_far(&batches, &open.queues, String::new());
        let changes = phase.criteria.iter().any(|criterion| criterion.met == Some(false));
        let unknown = phase.criteria.iter().any(|criterion| criterion.met.is_none());
        match (changes, unknown) {
            (true, _) => Some(length),
            (false, true) => Some(Ps(length.0.saturating_mul(2))),
            (false, false) => None,
        }
    }

    /// Runs until exactly `frames` frames have been offered in the window by the first generator, and so by each whose link is
    /// as fast.
    fn until_offered(&mut self, frames: u64, config: &RunConfig) -> Result<(), RunError> {
        let offered = |machine: &Machine| {
            let measurement = machine.ports()[0].loadgen.measurement().expect("a window was begun");
            measurement.volumes().0.frames
        };
        let traffic = &config.loadgen.traffic;
        if !traffic.streams.is_empty() || !traffic.is_constant() && traffic.outstanding.is_none() {
            return self.until_offered_one_by_one(frames, config);
        }
        let link = config.port(0).link;
        let line = link.frames_per_second(traffic.frame_len());
        let line = line.0 as f64 / line.1 as f64;
        let due = doorbell_loadgen::Pacing::new(Ps::ZERO, traffic.rate, traffic.frame_len(), &link);
        // What has waited for its turn may leave back to back.
        let per_second = if traffic.outstanding.is_some() { line } else { due.frames_per_second().min(line) };
        loop {
            let left = frames.saturating_sub(offered(self.system));
            if left == 0 {
                return Ok(());
            }
            // Half a frame short of the last: a step never goes beyond it, and the last step is half a frame.
            let step = ((left as f64 - 0.5) / per_second * 1e12) as u64;
            self.until(self.system.now() + Ps(step.max(1)))?;
        }
    }

    /// The same with streams, or at distances that differ, at the first generator: where arrivals are random, others may have sent some more or less.
    fn until_offered_one_by_one(&mut self, frames: u64, config: &RunConfig) -> Result<(), RunError> {
        // The shortest time that a frame takes.
        let (rate, bits) =
            config.port(0).link.frames_per_second(Frame::MIN_BYTES_WITH_FCS - Frame::FCS_BYTES);
        let shortest = bits as f64 / rate as f64 * 1e12;
        loop {
            let generator = &self.system.ports()[0].loadgen;
            let offered = generator.measurement().map_or(0, |window| window.volumes().0.frames);
            let left = frames.saturating_sub(offered);
            if left == 0 {
                return Ok(());
            }
            // No frame leaves before it is due, nor sooner than the line has carried those before it.
            let due = generator.frame_due(left - 1);
            let Some(due) = due.filter(|_| generator.is_sending()) else {
                let short = left - generator.frames_to_come(left);
                return Err(ConfigError::new("run.frames", too_few(frames, short)).into());
            };
            let carried = self.system.now() + Ps(((left as f64 - 0.5) * shortest).max(1.0) as u64);
            self.until(due.max(carried))?;
        }
    }
}

/// The next moment between two frames, if a window cannot begin now: where nothing has been sent yet it can, and a frame that is due at this
/// moment is its first.
pub(crate) fn gap_to_wait_for(machine: &Machine) -> Option<Ps> {
    Some(machine.next_gap()).filter(|gap| *gap > machine.complete_until())
}

/// What is wrong with streams that end before a measurement has its frames.
fn too_few(frames: u64, short: u64) -> String {
    let noun = if short == 1 { "frame" } else { "frames" };
    format!(
        "the streams end {short} {noun} short of these {frames}; let them last longer (a capture: replay.times), let less of them go before \
         the measurement (run.warmup, run.settle), or ask for fewer"
    )
}

#[cfg(test)]
#[path = "window_tests.rs"]
mod tests;
