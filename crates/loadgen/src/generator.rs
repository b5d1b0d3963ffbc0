//! The generator: transmits frames and accounts for them; `receive` handles arrivals.
//!
//! *Runs.* Traffic is sent in runs. A run begins with [`LoadGen::set_traffic`] or [`LoadGen::start`] and ends
//! with the next. Sequence numbers continue from run to run, so that a late frame of an earlier run is
//! recognised and counted as stale.
//!
//! *Sending.* Frame n of a run is due at a time computed from n (the *intended* time). It leaves when it is
//! due and the link is free (the *actual* time). Above link rate, the backlog grows without limit and frames
//! leave back to back.
//!
//! *Requests.* Request traffic first resolves its station by ARP, retrying every ten milliseconds; the run's
//! time begins with the reply. With a limit on `outstanding`, a due request waits until an earlier one is
//! answered or given up.
//!
//! *Several ports.* A machine may send a frame out of a different port than it came in on. The generator
//! there reports its owner ([`Arrival::OtherGenerator`](crate::Arrival::OtherGenerator)). The machine then
//! passes it to that generator ([`LoadGen::frame_arrived_at_other_port`]), which accounts for it as its own.

use doorbell_sim::ports::{Timers, WirePort};
use doorbell_sim::{Bytes, Frame, Ps, log};
use doorbell_wire::{LinkConfig, MacAddr};
use serde::{Deserialize, Serialize};

use crate::arrival::LoadGenStats;
use crate::config::{ConfigError, LoadGenConfig, TrafficConfig};
use crate::frame::FrameMaker;
use crate::in_flight::{InFlight, SendTimes};
use crate::measure::{Measurement, Summary};
use crate::requests;
use crate::responder::Responder;
use crate::stages::RoundTripObserver;
use crate::streams::{Origin, Streams};
use crate::volume::Volume;

/// Wake-up events of a generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// The next frame of this run is due, the link is free for it, or a retry or timeout is due.
    Send {
        /// The run that scheduled it; wake-ups of earlier runs are ignored.
        run: u32,
    },
}

/// Ports that a generator needs.
pub trait LoadGenPorts: WirePort + Timers<Event> + RoundTripObserver {}
impl<T: WirePort + Timers<Event> + RoundTripObserver> LoadGenPorts for T {}

/// State of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stage {
    /// Configured, not started.
    Idle,
    /// Waiting for an ARP reply.
    Resolving,
    /// Sending until `until`.
    Sending { until: Ps },
    /// Ended at this time.
    Over { since: Ps },
}

/// The current run and its progress.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) number: u32,
    pub(crate) traffic: TrafficConfig,
    pub(crate) streams: Streams,
    pub(crate) stage: Stage,
    /// Time of the pending wake-up; others are stale.
    pub(crate) wake: Option<Ps>,
    /// A frame is due, but the limit of outstanding frames is reached.
    pub(crate) blocked: bool,
}

/// Interval between ARP requests.
const ARP_RETRY: Ps = Ps::from_ms(10);

/// Maximum number of spare buffers: the likely size of a batch of returning frames.
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
    pub(crate) responder: Option<Responder>,
    spare_buffers: Vec<Vec<u8>>,
}

impl LoadGen {
    /// Creates a generator that has sent nothing. `stream` is its number in the machine, `seed` is the run's,
    /// and `link` is its transmit link, to which rates in percent and layer 1 refer.
    pub fn new(
        stream: u32,
        seed: u64,
        config: &LoadGenConfig,
        link: &LinkConfig,
    ) -> Result<LoadGen, ConfigError> {
        config.validate()?;
        let run = make_run(0, config.traffic.clone(), stream, FrameMaker::key(seed, stream), link)?;
        let mut in_flight = InFlight::new(config.tracked_frames);
        in_flight.begin_run(run.streams.are_several());
        Ok(LoadGen {
            stream,
            seed,
            link: link.clone(),
            run,
            in_flight,
            highest_returned: None,
            stats: LoadGenStats::default(),
            measurement: None,
            responder: Responder::new(&config.responder, stream),
            spare_buffers: Vec::new(),
        })
    }

    /// The traffic of the current run.
    pub fn traffic(&self) -> &TrafficConfig {
        &self.run.traffic
    }

    /// Bytes of the current traffic's frames with FCS; for streams, the rounded mean.
    pub fn mean_frame_size(&self) -> Bytes {
        self.run.streams.mean_size()
    }

    /// Counters since the generator was made.
    pub fn stats(&self) -> &LoadGenStats {
        &self.stats
    }

    /// Frames of this run that are in flight.
    pub fn outstanding(&self) -> u64 {
        self.in_flight.outstanding()
    }

    /// Whether the run is sending.
    pub fn is_sending(&self) -> bool {
        matches!(self.run.stage, Stage::Sending { .. })
    }

    /// Whether the run waits for an ARP reply.
    pub fn is_resolving(&self) -> bool {
        self.run.stage == Stage::Resolving
    }

    /// Sets new traffic as a new run that is not started yet. Frames in flight are given up.
    pub fn set_traffic(&mut self, traffic: TrafficConfig) -> Result<(), ConfigError> {
        traffic.validate()?;
        let (number, key) = (self.run.number.wrapping_add(1), FrameMaker::key(self.seed, self.stream));
        let run = make_run(number, traffic, self.stream, key, &self.link)?;
        if let Some(measurement) = &mut self.measurement {
            measurement.give_up_all();
        }
        self.stats.abandoned += self.in_flight.outstanding();
        self.in_flight.begin_run(run.streams.are_several());
        self.highest_returned = None;
        self.run = run;
        Ok(())
    }

    /// Starts the run; if it was started before, starts the same traffic as a new run.
    pub fn start(&mut self, now: Ps, ports: &mut impl LoadGenPorts) {
        if self.run.stage != Stage::Idle
            && let Err(error) = self.set_traffic(self.run.traffic.clone())
        {
            // The traffic was valid before; a capture file has been removed since.
            log!(now, Loadgen, Info, "port{}: sends nothing: {error}", self.stream);
            self.run.stage = Stage::Over { since: now };
            return;
        }
        if self.run.traffic.kind.sends_requests() {
            self.run.stage = Stage::Resolving;
            self.send_arp_request(now, ports);
        } else {
            self.begin_sending(now, ports);
        }
    }

    fn send_arp_request(&mut self, now: Ps, ports: &mut impl LoadGenPorts) {
        let traffic = &self.run.traffic;
        ports.send(now, requests::arp_request(traffic.destination_ip, traffic.source, traffic.source_ip));
        self.stats.arp_asked += 1;
        self.wake_at(now.saturating_add(ARP_RETRY), ports);
    }

    pub(crate) fn station_found(&mut self, now: Ps, station: MacAddr, ports: &mut impl LoadGenPorts) {
        self.run.traffic.destination = station;
        let streams = Streams::new(&self.run.traffic, self.stream, self.run.streams.stored_key(), &self.link);
        self.run.streams = streams.expect("request traffic reads no file");
        self.begin_sending(now, ports);
    }

    fn begin_sending(&mut self, now: Ps, ports: &mut impl LoadGenPorts) {
        let traffic = &self.run.traffic;
        let first = now.saturating_add(traffic.start_after);
        let until = traffic.duration.map_or(Ps::MAX, |duration| first.saturating_add(duration));
        self.run.streams.begin(first);
        self.run.stage = Stage::Sending { until };
        log!(
            now,
            Loadgen,
            Info,
            "port{}: starts to send {} of {} frames, streams: {}",
            self.stream,
            self.run.traffic.requested_rate(),
            self.mean_frame_size(),
            self.run.traffic.streams.len()
        );
        self.wake_for_next(first, ports);
    }

    /// Sends a frame that is not part of the traffic; no return is expected.
    pub fn inject(&mut self, now: Ps, frame: Frame, ports: &mut impl LoadGenPorts) {
        self.stats.injected += 1;
        ports.send(now, frame);
    }

    /// Stops sending. Frames in flight may still return.
    pub fn stop(&mut self, now: Ps) {
        if self.is_sending() || self.is_resolving() {
            self.run.stage = Stage::Over { since: now };
            log!(now, Loadgen, Info, "port{}: stops sending, {} frames sent", self.stream, self.stats.sent);
        }
    }

    /// Handles a wake-up.
    pub fn on_event(&mut self, now: Ps, event: Event, ports: &mut impl LoadGenPorts) {
        let Event::Send { run } = event;
        if run != self.run.number || self.run.wake != Some(now) {
            return;
        }
        self.run.wake = None;
        match self.run.stage {
            Stage::Resolving => return self.send_arp_request(now, ports),
            Stage::Sending { until } if now < until => {}
            Stage::Sending { .. } => return self.stop(now),
            Stage::Idle | Stage::Over { .. } => return,
        }
        let free_at = ports.free_at();
        if free_at > now {
            // The link is busy with another sender's frame.
            self.wake_for_next(free_at, ports);
            return;
        }
        if let Some(until) = self.blocked_until(now) {
            self.run.blocked = true;
            self.wake_at(until, ports);
            return;
        }
        let mut frame = Frame::new(self.spare_buffers.pop().unwrap_or_default());
        let (origin, intended) = (self.run.streams.next_frame(), self.run.streams.next_due());
        self.run.streams.make(self.in_flight.next(), origin, &mut frame.bytes);
        let volume = Volume::of_frame(frame.bytes.len(), &self.link);
        self.run.streams.advance(volume.bytes_l1);
        log!(now, Loadgen, Trace, "port{}: frame {} sent", self.stream, self.in_flight.next());
        let free_at = ports.send(now, frame);
        self.account_sent(origin, volume, SendTimes { intended, actual: now });
        self.wake_for_next(free_at, ports);
    }

    /// When the nth next frame is due, counted from 0; none if the run or its streams end before.
    pub fn frame_due(&self, n: u64) -> Option<Ps> {
        Some(self.run.streams.due_after(n)).filter(|due| *due != Ps::MAX)
    }

    /// Number of frames left in the run, at most `most`, not considering its end time.
    pub fn frames_to_come(&self, most: u64) -> u64 {
        let sent = self.in_flight.next() - self.in_flight.run_first();
        let left = self.run.traffic.frames.map_or(most, |frames| frames.saturating_sub(sent).min(most));
        if self.is_sending() { self.run.streams.to_come(left) } else { 0 }
    }

    /// Gives up timed-out frames at the `outstanding` limit. If the limit is still reached, returns the next
    /// timeout.
    fn blocked_until(&mut self, now: Ps) -> Option<Ps> {
        let most = u64::from(self.run.traffic.outstanding?);
        while self.in_flight.outstanding() >= most {
            let (sequence, times) = self.in_flight.oldest_outstanding()?;
            let expires = times.actual.saturating_add(self.run.traffic.timeout);
            if expires > now {
                return Some(expires);
            }
            self.in_flight.give_up(sequence);
            self.stats.timed_out += 1;
            self.measurement.iter_mut().for_each(|m| m.on_timed_out(sequence));
        }
        None
    }

    fn account_sent(&mut self, origin: Origin, volume: Volume, times: SendTimes) {
        self.stats.sent += 1;
        let sequence = self.in_flight.next();
        let given_up = self.in_flight.push(times, origin);
        self.run.streams.sent(origin, sequence, |sequence| self.in_flight.is_awaited(sequence));
        self.stats.expired += u64::from(given_up.is_some());
        if let Some(measurement) = &mut self.measurement {
            measurement.on_sent(volume, times);
            if measurement.is_open()
                && let Some(book) = measurement.stream(origin.stream)
            {
                book.on_sent(times.actual, volume, self.run.streams.flow(origin));
            }
            if let Some(sequence) = given_up {
                measurement.on_given_up(sequence);
            }
        }
    }

    /// Schedules the next frame, not before `earliest`, or ends the run.
    pub(crate) fn wake_for_next(&mut self, earliest: Ps, ports: &mut impl LoadGenPorts) {
        let Stage::Sending { until } = self.run.stage else { return };
        let index = self.in_flight.next() - self.in_flight.run_first();
        let at = self.run.streams.next_due().max(earliest);
        // A due time of `Ps::MAX` also ends the run.
        if self.run.traffic.frames.is_some_and(|frames| index >= frames) || at >= until {
            self.run.stage = Stage::Over { since: earliest };
        } else {
            self.wake_at(at, ports);
        }
    }

    fn wake_at(&mut self, at: Ps, ports: &mut impl LoadGenPorts) {
        self.run.wake = Some(at);
        ports.wake_at(at, Event::Send { run: self.run.number });
    }

    /// Takes a frame's buffer for reuse. Optional; saves one host allocation per frame.
    pub fn recycle(&mut self, frame: Frame) {
        if self.spare_buffers.len() < SPARE_BUFFERS_MAX {
            self.spare_buffers.push(frame.bytes);
        }
    }

    /// Begins a measurement window and discards the previous one.
    pub fn begin_window(&mut self, now: Ps) {
        let books = self.run.streams.empty_results(now, &self.run.traffic);
        self.measurement = Some(Measurement::begin(now, self.in_flight.next(), books));
    }

    /// Ends the window. Its outstanding frames still count when they return.
    pub fn end_window(&mut self, now: Ps) {
        let next = self.in_flight.next();
        self.measurement.iter_mut().for_each(|m| m.close(now, next));
    }

    /// The latest window.
    pub fn measurement(&self) -> Option<&Measurement> {
        self.measurement.as_ref()
    }

    /// The results of the latest window, see [`Measurement::summary`].
    pub fn summary(&self, now: Ps) -> Option<Summary> {
        self.measurement.as_ref().map(|measurement| measurement.summary(now))
    }

    /// Asserts that every frame sent and every frame received is accounted for exactly once.
    pub fn assert_conservation(&self) {
        self.stats.assert_conservation(self.outstanding());
    }
}

/// Creates a run of validated traffic and reads its captures.
pub(crate) fn make_run(
    number: u32,
    traffic: TrafficConfig,
    stream: u32,
    key: u64,
    link: &LinkConfig,
) -> Result<Run, ConfigError> {
    Ok(Run {
        number,
        streams: Streams::new(&traffic, stream, key, link)?,
        stage: Stage::Idle,
        wake: None,
        blocked: false,
        traffic,
    })
}

#[cfg(test)]
#[path = "generator_tests.rs"]
mod tests;
