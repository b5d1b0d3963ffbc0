//! The generator: sends, receives, accounts.
//!
//! *Runs.* Traffic comes in runs. A run begins with [`LoadGen::set_traffic`] or [`LoadGen::start`]
//! and ends with the next. Sequence numbers go on from run to run, so a frame of an earlier run that comes back
//! late is told from the frames of this one; it is counted as stale.
//!
//! *Sending.* Frame n of a run is due at a time computed from n (the *intended* time). It leaves when it is
//! due and the link is free (the *actual* time): a rate above the link's makes it a queue without end
//! whose frames leave back to back.
//!
//! *Routing.* A machine with several NICs may send a frame out of another port than it came in by. Then the
//! machine asks [`Signature::read`] whose frame it is and hands it to that generator; what carries no
//! signature goes to the generator at whose port it arrived.

use doorbell_sim::ports::{Timers, WirePort};
use doorbell_sim::{Frame, Ps, log};
use doorbell_wire::LinkConfig;
use serde::{Deserialize, Serialize};

use crate::arrival::{Arrival, LoadGenStats};
use crate::config::{ConfigError, LoadGenConfig, TrafficConfig};
use crate::frame::{FrameMaker, Signature};
use crate::in_flight::{InFlight, Lookup, SendTimes};
use crate::measure::{Measurement, Summary, Volume};
use crate::rate::Pacing;
use crate::responder::Responder;

/// A generator's wake-ups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// The next frame of this run is due, or the link is free for it.
    Send {
        /// The run that asked; a wake-up of an earlier run does nothing.
        run: u32,
    },
}

/// What a generator needs of the machine.
pub trait LoadGenPorts: WirePort + Timers<Event> {}
impl<T: WirePort + Timers<Event>> LoadGenPorts for T {}

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stage {
    /// Set, not started.
    Idle,
    /// Sending until `until`.
    Sending { until: Ps },
    /// Over since this time.
    Over { since: Ps },
}

/// The traffic being sent and how far it is.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) number: u32,
    pub(crate) traffic: TrafficConfig,
    pub(crate) maker: FrameMaker,
    pub(crate) pacing: Pacing,
    pub(crate) stage: Stage,
    /// The volume of one frame.
    pub(crate) frame_volume: Volume,
}

/// Buffers kept for reuse: as many as a batch of returning frames is likely to hold.
const SPARE_BUFFERS_MAX: usize = 256;

/// A load generator at one port.
#[derive(Clone, Debug)]
pub struct LoadGen {
    pub(crate) stream: u32,
    pub(crate) seed: u64,
    pub(crate) link: LinkConfig,
    pub(crate) run: Run,
    pub(crate) in_flight: InFlight,
    pub(crate) highest_returned: Option<u64>,
    pub(crate) stats: LoadGenStats,
    pub(crate) measurement: Option<Measurement>,
    responder: Option<Responder>,
    spare_buffers: Vec<Vec<u8>>,
}

impl LoadGen {
    /// A generator that has sent nothing yet. `stream` names it among the machine's generators, `seed` is the
    /// run's, and `link` is the link into which it sends (rates in percent and layer 1 refer to it).
    pub fn new(
        stream: u32,
        seed: u64,
        config: &LoadGenConfig,
        link: &LinkConfig,
    ) -> Result<LoadGen, ConfigError> {
        config.validate()?;
        let run = make_run(0, config.traffic.clone(), stream, FrameMaker::key(seed, stream), link);
        Ok(LoadGen {
            stream,
            seed,
            link: link.clone(),
            run,
            in_flight: InFlight::new(config.tracked_frames),
            highest_returned: None,
            stats: LoadGenStats::default(),
            measurement: None,
            responder: Responder::new(&config.responder, stream),
            spare_buffers: Vec::new(),
        })
    }

    /// The number by which frames name this generator.
    pub fn stream(&self) -> u32 {
        self.stream
    }

    /// The traffic of the present run.
    pub fn traffic(&self) -> &TrafficConfig {
        &self.run.traffic
    }

    /// Counters since the generator was made.
    pub fn stats(&self) -> &LoadGenStats {
        &self.stats
    }

    /// Frames of this run that may still come back.
    pub fn outstanding(&self) -> u64 {
        self.in_flight.outstanding()
    }

    /// Whether frames are still to be sent.
    pub fn is_sending(&self) -> bool {
        matches!(self.run.stage, Stage::Sending { .. })
    }

    /// When the run's last frame had left, if the run is over.
    pub fn over_since(&self) -> Option<Ps> {
        match self.run.stage {
            Stage::Over { since } => Some(since),
            Stage::Idle | Stage::Sending { .. } => None,
        }
    }

    /// Sets other traffic and with it begins a new run, not started yet. The frames that are still on their
    /// way are given up.
    pub fn set_traffic(&mut self, traffic: TrafficConfig) -> Result<(), ConfigError> {
        traffic.validate()?;
        if let Some(measurement) = &mut self.measurement {
            measurement.give_up_all();
        }
        self.stats.abandoned += self.in_flight.outstanding();
        self.in_flight.begin_run();
        self.highest_returned = None;
        let (number, key) = (self.run.number.wrapping_add(1), FrameMaker::key(self.seed, self.stream));
        self.run = make_run(number, traffic, self.stream, key, &self.link);
        Ok(())
    }

    /// Starts the run, or the same traffic again as a new run if it was started before.
    pub fn start(&mut self, now: Ps, ports: &mut impl LoadGenPorts) {
        if self.run.stage != Stage::Idle {
            self.set_traffic(self.run.traffic.clone()).expect("the traffic was valid before");
        }
        let traffic = &self.run.traffic;
        let first = now.saturating_add(traffic.start_after);
        let until = traffic.duration.map_or(Ps::MAX, |duration| first.saturating_add(duration));
        self.run.pacing = Pacing::new(first, traffic.rate, traffic.frame_len(), &self.link);
        self.run.stage = Stage::Sending { until };
        log!(
            now,
            Loadgen,
            Info,
            "port{}: begins to send {} of {} frames",
            self.stream,
            traffic.rate,
            traffic.frame_size
        );
        self.wake_for_next(first, ports);
    }

    /// Sends no more. What is on its way is still waited for.
    pub fn stop(&mut self, now: Ps) {
        if self.is_sending() {
            self.run.stage = Stage::Over { since: now };
            log!(now, Loadgen, Info, "port{}: sends no more, {} frames sent", self.stream, self.stats.sent);
        }
    }

    /// Takes a wake-up.
    pub fn on_event(&mut self, now: Ps, event: Event, ports: &mut impl LoadGenPorts) {
        let Event::Send { run } = event;
        if run != self.run.number || !self.is_sending() {
            return;
        }
        let free_at = ports.free_at();
        if free_at > now {
            // Someone else has sent into this link.
            self.wake_for_next(free_at, ports);
            return;
        }
        let mut frame = Frame::new(self.spare_buffers.pop().unwrap_or_default());
        self.run.maker.make(self.in_flight.next(), &mut frame.bytes);
        let intended = self.run.pacing.nth(self.in_flight.next() - self.in_flight.run_first());
        log!(now, Loadgen, Trace, "port{}: frame {} sent", self.stream, self.in_flight.next());
        let free_at = ports.send(now, frame);
        self.account_sent(SendTimes { intended, actual: now });
        self.wake_for_next(free_at, ports);
    }

    fn account_sent(&mut self, times: SendTimes) {
        self.stats.sent += 1;
        let given_up = self.in_flight.push(times);
        self.stats.expired += u64::from(given_up.is_some());
        if let Some(measurement) = &mut self.measurement {
            measurement.on_sent(self.run.frame_volume, times);
            if let Some(sequence) = given_up {
                measurement.on_given_up(sequence);
            }
        }
    }

    /// Asks to be woken for the next frame, not before `earliest`, or ends the run.
    fn wake_for_next(&mut self, earliest: Ps, ports: &mut impl LoadGenPorts) {
        let Stage::Sending { until } = self.run.stage else { return };
        let index = self.in_flight.next() - self.in_flight.run_first();
        let at = self.run.pacing.nth(index).max(earliest);
        // A time that no run reaches ends the run as well.
        if self.run.traffic.frames.is_some_and(|frames| index >= frames) || at >= until {
            self.run.stage = Stage::Over { since: earliest };
        } else {
            ports.wake_at(at, Event::Send { run: self.run.number });
        }
    }

    /// Takes a frame whose last bit arrived at `now`, answers it if it is for the responder, and says what it was.
    pub fn frame_arrived(&mut self, now: Ps, frame: &Frame, ports: &mut impl LoadGenPorts) -> Arrival {
        let mut arrival = self.account_arrival(now, frame);
        if arrival == Arrival::Foreign
            && let Some(responder) = &self.responder
            && let Some((answered, answer)) = responder.answer(self.run.traffic.source, &frame.bytes)
        {
            // The link takes it when it is free; test frames that are due wait for the link as they do behind their own.
            ports.send(now, answer);
            arrival = Arrival::Answered(answered);
        }
        self.stats.count(arrival);
        let (stream, bytes) = (self.stream, frame.len_with_fcs());
        log!(now, Loadgen, Debug, "port{stream}: frame of {bytes} bytes received: {arrival:?}");
        if let Some(measurement) = &mut self.measurement {
            match arrival {
                Arrival::Duplicate => measurement.on_duplicate(),
                Arrival::Foreign => measurement.on_foreign(),
                Arrival::Late => measurement.on_late(),
                _ => {}
            }
        }
        arrival
    }

    fn account_arrival(&mut self, now: Ps, frame: &Frame) -> Arrival {
        if frame.fcs_bad {
            return Arrival::BadFcs;
        }
        let Some(Signature { stream, sequence }) = Signature::read(&frame.bytes) else {
            return Arrival::Foreign;
        };
        if stream != self.stream {
            return Arrival::Misrouted;
        }
        match self.in_flight.look_up(sequence) {
            Lookup::Returned => Arrival::Duplicate,
            Lookup::Forgotten => Arrival::Late,
            Lookup::EarlierRun => Arrival::Stale,
            Lookup::NeverSent => Arrival::NeverSent,
            Lookup::Outstanding(times) => {
                // A corrupt frame is waited for no longer. Should its number be what is damaged, the frame that
                // has this number rightly will be taken for a duplicate.
                self.in_flight.returned(sequence);
                match self.run.maker.check(sequence, &frame.bytes) {
                    Ok(()) => self.account_returned(now, sequence, times),
                    Err(mismatch) => {
                        self.measurement.iter_mut().for_each(|m| m.on_corrupt(sequence));
                        Arrival::Corrupt(mismatch)
                    }
                }
            }
        }
    }

    fn account_returned(&mut self, now: Ps, sequence: u64, times: SendTimes) -> Arrival {
        let reordered = self.highest_returned.is_some_and(|highest| sequence < highest);
        self.stats.reordered += u64::from(reordered);
        self.highest_returned = self.highest_returned.max(Some(sequence));
        if let Some(measurement) = &mut self.measurement {
            measurement.on_returned(now, sequence, self.run.frame_volume, times, reordered);
        }
        Arrival::Returned
    }

    /// Gives a frame's buffer back for reuse. Optional; saves the host an allocation a frame.
    pub fn recycle(&mut self, frame: Frame) {
        if self.spare_buffers.len() < SPARE_BUFFERS_MAX {
            self.spare_buffers.push(frame.bytes);
        }
    }

    /// Begins a measurement window. The one before, if any, is forgotten.
    pub fn begin_window(&mut self, now: Ps) {
        self.measurement = Some(Measurement::begin(now, self.in_flight.next()));
    }

    /// Ends the window. Frames of it that are outstanding still count when they come back.
    pub fn end_window(&mut self, now: Ps) {
        let next = self.in_flight.next();
        self.measurement.iter_mut().for_each(|m| m.close(now, next));
    }

    /// The window begun last.
    pub fn measurement(&self) -> Option<&Measurement> {
        self.measurement.as_ref()
    }

    /// The figures of the window begun last, see [`Measurement::summary`].
    pub fn summary(&self, now: Ps) -> Option<Summary> {
        self.measurement.as_ref().map(|measurement| measurement.summary(now))
    }

    /// Asserts that every frame sent and every frame received is accounted for exactly once.
    pub fn assert_conservation(&self) {
        self.stats.assert_conservation(self.outstanding());
    }
}

pub(crate) fn make_run(number: u32, traffic: TrafficConfig, stream: u32, key: u64, link: &LinkConfig) -> Run {
    let frame_len = traffic.frame_len();
    let frame_volume =
        Volume { frames: 1, bytes_l2: traffic.frame_size.0, bytes_l1: link.wire_bytes(frame_len) };
    Run {
        number,
        maker: FrameMaker::new(&traffic, stream, key),
        pacing: Pacing::new(Ps::ZERO, traffic.rate, frame_len, link),
        stage: Stage::Idle,
        frame_volume,
        traffic,
    }
}

#[cfg(test)]
#[path = "generator_tests.rs"]
mod tests;
