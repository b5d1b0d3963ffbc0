//! The run loop: the earliest hart or event advances first.

use doorbell_riscv::{Hart, Stop};
use doorbell_sim::Ps;
use doorbell_trace::system::EventKind;

use crate::events::Event;
use crate::machine::Machine;
use crate::port::LoadGenSide;
use crate::timed::{device_op, earliest};

/// Limits of a run, which ends at the first one reached.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Simulated time.
    pub time: Ps,
    /// Instructions retired by all harts since the machine was built. The limit is exact, except while timing
    /// models are in use: then runs end after a block.
    pub instructions: u64,
    /// Also end when the console's watched marker appears.
    pub on_marker: bool,
    /// Also end when a gem5 m5op retires; otherwise m5ops have no effect.
    pub on_m5op: bool,
}

impl Limits {
    /// Runs to a point in simulated time.
    pub fn until(time: Ps) -> Limits {
        Limits { time, instructions: u64::MAX, on_marker: false, on_m5op: true }
    }
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The time limit was reached.
    Time,
    /// The instruction limit was reached.
    Instructions,
    /// The marker appeared on the console.
    Marker,
    /// The guest switched the machine off.
    PowerOff {
        /// Its exit code; 0 is success.
        code: u16,
    },
    /// The guest requested a reset, as a panicking kernel does with `panic=-1`.
    Reset,
    /// All harts wait and no event is pending.
    Asleep,
    /// The next instruction of this hart has a breakpoint.
    Breakpoint {
        /// Which hart.
        hart: usize,
    },
    /// A co-running program cannot continue; [`Machine::take_corunner_failure`] returns the reason.
    CorunnerFailed,
    /// A gem5 m5op retired.
    M5Op {
        /// The hart that executed it.
        hart: usize,
        /// Its function number.
        function: u8,
        /// Its arguments.
        args: [u64; 2],
    },
}

/// The next step of the run loop.
pub(crate) enum Step {
    /// A hart executes.
    Hart(Turn),
    /// The next event is handled.
    Event,
    /// The run ends for a reason that is already stored.
    Stored,
    /// No hart can run and no event is pending.
    Asleep,
    /// The time limit is reached.
    Time,
}

/// A hart's turn: it executes until `end`. `others` is the earliest time of other harts and events. Sleeping
/// harts do not count: they resume at the current time.
pub(crate) struct Turn {
    pub hart: usize,
    pub end: Ps,
    pub others: Ps,
}

impl Machine {
    /// Runs until a limit is reached or something ends the run.
    pub fn run(&mut self, limits: &Limits) -> Outcome {
        let (timed, several) = (self.uses_timing(), self.harts.len() > 1);
        let in_turns = several && (!timed || self.config.core.lookahead > Ps::ZERO);
        loop {
            if let Some(outcome) = self.pending_outcome(limits) {
                return outcome;
            }
            let step = if in_turns { self.next_turn(limits) } else { self.earliest_first(limits) };
            match step {
                Step::Hart(_) if self.instructions_left(limits) == 0 => return Outcome::Instructions,
                Step::Hart(turn) if in_turns => self.take_turn(&turn, limits),
                Step::Hart(turn) => {
                    self.run_hart(turn.hart, turn.end, limits);
                }
                Step::Event => {
                    self.handle_next_event();
                    if in_turns {
                        self.turns.restart();
                    }
                }
                Step::Stored => {}
                Step::Asleep => return self.asleep(limits),
                Step::Time => {
                    self.reached = self.reached.max(limits.time);
                    return Outcome::Time;
                }
            }
        }
    }

    /// The next step of a single hart, and of timed harts without look-ahead: the earliest hart executes
    /// until another hart or an event is earlier.
    fn earliest_first(&mut self, limits: &Limits) -> Step {
        let next_event = self.queue.next_time();
        let horizon = next_event.min(limits.time);
        let (first, mut others) = earliest(self.harts.ready().iter().copied().enumerate());
        let now = first.map_or(horizon, |(time, _)| horizon.min(time));
        if self.corunners.is_some() && self.uses_timing() && now < Ps::MAX {
            let next = self.run_corunners(now);
            others = others.min(next.max(now + Ps(1)));
            if self.outcome.is_some() {
                return Step::Stored;
            }
        }
        match first {
            Some((time, hart)) if time < horizon => {
                Step::Hart(Turn { hart, end: horizon.min(others), others })
            }
            _ if next_event <= limits.time && next_event < Ps::MAX => Step::Event,
            None if next_event == Ps::MAX => Step::Asleep,
            _ => Step::Time,
        }
    }

    /// Runs a hart to `end`, or until it stops, with or without timing.
    pub(crate) fn run_hart(&mut self, hart: usize, end: Ps, limits: &Limits) -> Stop {
        match self.uses_timing() {
            true => self.run_hart_timed(hart, end, limits),
            false => self.run_hart_functionally(hart, end, limits),
        }
    }

    /// Instructions that may still retire. Without a limit, the harts' counts are not added up.
    pub(crate) fn instructions_left(&mut self, limits: &Limits) -> u64 {
        match limits.instructions {
            u64::MAX => u64::MAX,
            limit => limit.saturating_sub(self.harts.instructions()),
        }
    }

    /// Ends a run in which no hart can run and no event is pending. Time still advances to the time limit.
    pub(crate) fn asleep(&mut self, limits: &Limits) -> Outcome {
        if limits.time < Ps::MAX {
            self.reached = self.reached.max(limits.time);
        }
        Outcome::Asleep
    }

    /// Takes the reason to end the run, if there is one.
    pub(crate) fn pending_outcome(&mut self, limits: &Limits) -> Option<Outcome> {
        let marker = limits.on_marker && self.console.marker_seen();
        self.outcome.take().or(marker.then_some(Outcome::Marker))
    }

    /// Time of the next event or hart that can run; [`Ps::MAX`] if there is none.
    pub(crate) fn next_activity(&self) -> Ps {
        let hart = self.harts.iter().filter(|hart| Machine::can_run(hart)).map(Hart::time).min();
        hart.unwrap_or(Ps::MAX).min(self.queue.next_time())
    }

    /// Whether a hart can execute before another event.
    pub(crate) fn can_run(hart: &Hart) -> bool {
        hart.pending_mmio().is_none() && (!hart.is_waiting() || hart.interrupt_pending())
    }

    /// Runs a hart to the first slot at or after `horizon`, and handles the reason for which it stops.
    fn run_hart_functionally(&mut self, index: usize, horizon: Ps, limits: &Limits) -> Stop {
        let end = self.harts[index].slot_at(horizon);
        let stop = loop {
            let left = self.instructions_left(limits);
            let hart = &mut self.harts[index];
            let until = end.min(hart.slots().saturating_add(left));
            let stop = match &mut self.recording {
                None => hart.run(&mut self.ram, until),
                Some(recording) => recording.run(index, hart, &mut self.ram, until),
            };
            // A trap takes a slot and retires nothing: only instructions count towards their limit.
            if stop != Stop::Slot || hart.slots() >= end || self.instructions_left(limits) == 0 {
                break stop;
            }
        };
        if let Stop::Mmio(request) = &stop
            && self.recording.is_some()
        {
            let answered = self.region(request.addr).is_some();
            let recording = self.recording.as_mut().expect("there is one");
            let hart = &mut self.harts[index];
            let op = answered.then(|| device_op(hart, &self.ram, request));
            recording.access(index, hart, &self.ram, op);
        }
        self.handle_stop(index, stop, limits);
        stop
    }

    /// Handles the reason for which a hart has stopped.
    #[inline]
    pub(crate) fn handle_stop(&mut self, index: usize, stop: Stop, limits: &Limits) {
        let id = index as u32;
        match stop {
            Stop::Slot | Stop::Wfi | Stop::Ahead => {}
            Stop::Mmio(request) => self.start_device_access(id, request),
            Stop::Events => self.update_guest_events(index),
            Stop::Timer => {
                let now = self.harts[index].time();
                self.update_timers(id, now);
            }
            Stop::Breakpoint => self.outcome = Some(Outcome::Breakpoint { hart: index }),
            Stop::M5Op { function, args } => self.m5op(index, function, args, limits),
        }
    }

    fn m5op(&mut self, hart: usize, function: u8, args: [u64; 2], limits: &Limits) {
        if limits.on_m5op {
            self.outcome = Some(Outcome::M5Op { hart, function, args });
        }
    }

    pub(crate) fn handle_next_event(&mut self) {
        let Some((now, event)) = self.queue.pop() else { return };
        self.stats.events += 1;
        match event {
            Event::DeviceWrite { addr, size, value } => self.device_write(now, addr, size, value),
            Event::DeviceRead { hart } => self.device_read(now, hart),
            Event::DeviceAnswer { hart, value } => self.device_answer(now, hart, value),
            Event::DeviceStart { hart } => self.device_start(hart),
            Event::HartTimer { hart } => self.timer_due(hart, now),
            Event::HartStart { hart } => {
                let hart = &mut self.harts[hart as usize];
                let slot = hart.slot_at(now);
                hart.release(slot);
            }
            Event::RtcAlarm => {
                self.rtc.expire(now);
                self.update_alarm(now);
            }
            Event::Function { function, event } => {
                self.with_function(function, |function, side| function.wake(now, event, side));
            }
            Event::Message { function, addr, data } => self.message_arrives(now, function, addr, data),
            Event::Disk { slot } => self.disk_due(now, slot),
            Event::DcaChange { index } => self.change_dca(now, usize::from(index)),
            Event::FrameAtNic { port, frame } => {
                let function = self.ports[usize::from(port)].function;
                self.record_event(function, now, EventKind::FrameIn { bytes: frame.len_with_fcs() as u32 });
                self.with_network(port.into(), |nic, side| nic.frame_arrived(now, frame, side));
            }
            Event::LoadGen { port, event } => {
                self.with_loadgen(port, |gen_, side| gen_.on_event(now, event, side))
            }
            Event::FrameAtLoadGen { port, frame } => {
                if let Some(capture) = &mut self.ports[usize::from(port)].capture {
                    capture.record(now, &frame);
                }
                self.frame_at_loadgen(now, port, frame);
            }
            Event::FrameAtSink { port, frame } => {
                self.with_loadgen(port, |generator, side| generator.frame_delivered(now, &frame, side));
            }
            Event::FrameSpoilt { port, frame } => self.frame_lost_after_nic(port, &frame),
        }
    }

    /// Calls a load generator with its interface to the machine.
    pub(crate) fn with_loadgen<R>(
        &mut self,
        port: u8,
        call: impl FnOnce(&mut doorbell_loadgen::LoadGen, &mut LoadGenSide<'_>) -> R,
    ) -> R {
        let parts = &mut self.ports[usize::from(port)];
        let mut side = LoadGenSide {
            port,
            queue: &mut self.queue,
            link: &mut parts.link_in,
            capture: &mut parts.capture,
            stages: &mut self.stages,
        };
        call(&mut parts.loadgen, &mut side)
    }
}
