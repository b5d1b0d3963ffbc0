//! What arrives at a generator: its own frames back, answers to its requests, requests that it answers itself, and the
//! frames of others. Each arrival is one [`Arrival`] and counted once.

use doorbell_sim::{Frame, Ps, log};
use doorbell_wire::MacAddr;

use crate::arrival::Arrival;
use crate::config::Returned;
use crate::frame::{Mismatch, Signature};
use crate::generator::{LoadGen, LoadGenPorts};
use crate::in_flight::{Lookup, SendTimes};
use crate::requests;
use crate::stages::RoundTrip;
use crate::streams::Origin;
use crate::volume::Volume;

impl LoadGen {
    /// Takes a frame whose last bit arrived at `now`, answers it if it is for the responder, and says what it was.
    pub fn frame_arrived(&mut self, now: Ps, frame: &Frame, ports: &mut impl LoadGenPorts) -> Arrival {
        let mut arrival = self.account_arrival(now, frame, self.station(), ports);
        if arrival == Arrival::Foreign {
            arrival = self.answer(now, frame, ports);
        }
        self.stats.count(arrival);
        let (stream, bytes) = (self.stream, frame.len_with_fcs());
        log!(now, Loadgen, Debug, "port{stream}: frame of {bytes} bytes received: {arrival:?}");
        self.after_arrival(now, arrival, ports);
        arrival
    }

    /// Takes an own frame that arrived at another generator's port, whose address is `station`.
    pub fn frame_arrived_elsewhere(
        &mut self,
        now: Ps,
        frame: &Frame,
        station: MacAddr,
        ports: &mut impl LoadGenPorts,
    ) -> Arrival {
        let arrival = self.account_arrival(now, frame, station, ports);
        self.stats.count_elsewhere(arrival);
        self.after_arrival(now, arrival, ports);
        arrival
    }

    /// Takes note that a frame of this window was lost or damaged behind the NIC that sent it back. If it is the frame of another
    /// generator, says of which.
    pub fn frame_spoilt(&mut self, frame: &Frame) -> Option<u32> {
        let next = self.in_flight.next();
        let sequence = match self.run.streams.recognise(&frame.bytes, &self.in_flight) {
            Some((sequence, _)) => sequence,
            None => match self.run.streams.read(self.stream, next, &frame.bytes)? {
                Signature { stream, .. } if stream != self.stream => return Some(stream),
                Signature { sequence, .. } => sequence,
            },
        };
        if let Lookup::Outstanding(_) = self.in_flight.look_up(sequence)
            && let Some(measurement) = &mut self.measurement
        {
            measurement.on_spoilt(sequence);
        }
        None
    }

    /// Whether frames are delivered when they are in the receiver's memory ([`Returned::Sink`]).
    pub fn wants_a_sink(&self) -> bool {
        self.run.traffic.returned == Returned::Sink
    }

    /// Takes note that what the receiver's memory has held since `now` is this frame, which may be one of the generator's.
    pub fn frame_delivered(&mut self, now: Ps, frame: &Frame, ports: &mut impl LoadGenPorts) {
        let arrival = self.account_arrival(now, frame, self.station(), ports);
        if !matches!(arrival, Arrival::Foreign | Arrival::OfOther(_)) {
            self.stats.count(arrival);
            self.after_arrival(now, arrival, ports);
        }
    }

    /// The generator's own address.
    pub fn station(&self) -> MacAddr {
        self.run.traffic.source
    }

    /// What a frame that is no test frame and no answer to a request may be.
    fn answer(&mut self, now: Ps, frame: &Frame, ports: &mut impl LoadGenPorts) -> Arrival {
        let traffic = &self.run.traffic;
        if traffic.kind.asks_by_ipv4()
            && let Some(station) = requests::reply_from(&frame.bytes, traffic.destination_ip, traffic.source)
        {
            if self.is_resolving() {
                self.station_found(now, station, ports);
            }
            return Arrival::ArpReply;
        }
        let Some(responder) = &self.responder else { return Arrival::Foreign };
        let Some((answered, answer)) = responder.answer(self.station(), &frame.bytes) else {
            return Arrival::Foreign;
        };
        // The link takes it when it is free; test frames that are due wait for the link as they do behind their own.
        ports.send(now, answer);
        Arrival::Answered(answered)
    }

    fn after_arrival(&mut self, now: Ps, arrival: Arrival, ports: &mut impl LoadGenPorts) {
        if let Some(measurement) = &mut self.measurement {
            match arrival {
                Arrival::Duplicate => measurement.on_duplicate(),
                Arrival::Foreign => measurement.on_foreign(),
                Arrival::Late => measurement.on_late(),
                _ => {}
            }
        }
        if self.run.blocked && matches!(arrival, Arrival::Returned | Arrival::Corrupt(_)) {
            self.run.blocked = false;
            self.wake_for_next(now, ports);
        }
    }

    fn account_arrival(
        &mut self,
        now: Ps,
        frame: &Frame,
        station: MacAddr,
        ports: &mut impl LoadGenPorts,
    ) -> Arrival {
        if frame.fcs_bad {
            return Arrival::BadFcs;
        }
        let next = self.in_flight.next();
        // A packet of a capture is known by its content, whatever signature the capture may have brought along.
        let (sequence, certain) = match self.run.streams.recognise(&frame.bytes, &self.in_flight) {
            Some(found) => found,
            None => match self.run.streams.read(self.stream, next, &frame.bytes) {
                None => return Arrival::Foreign,
                Some(Signature { stream, .. }) if stream != self.stream => return Arrival::OfOther(stream),
                Some(Signature { sequence, .. }) => (sequence, true),
            },
        };
        match self.in_flight.look_up(sequence) {
            Lookup::Returned => Arrival::Duplicate,
            Lookup::Forgotten => Arrival::Late,
            Lookup::EarlierRun => Arrival::Stale,
            Lookup::NeverSent => Arrival::NeverSent,
            Lookup::Outstanding(times) => {
                // A corrupt frame is waited for no longer. Should its number be what is damaged, the frame that
                // has this number rightly will be taken for a duplicate.
                let origin = self.in_flight.origin(sequence);
                self.in_flight.returned(sequence);
                match self.run.streams.check(sequence, origin, &frame.bytes, station) {
                    Ok(()) => {
                        let left = times.actual;
                        let times = certain.then_some(times);
                        if let Some(SendTimes { intended, actual }) = times {
                            let measured =
                                self.measurement.as_ref().is_some_and(|window| window.has(sequence));
                            let returned = now;
                            ports.frame_returned(RoundTrip {
                                sequence,
                                intended,
                                actual,
                                returned,
                                measured,
                            });
                        }
                        self.account_returned(now, (sequence, left), origin, times, frame.bytes.len())
                    }
                    Err(mismatch) => self.account_corrupt(sequence, origin, mismatch),
                }
            }
        }
    }

    fn account_corrupt(&mut self, sequence: u64, origin: Origin, mismatch: Mismatch) -> Arrival {
        if let Some(measurement) = self.measurement.as_mut().filter(|window| window.has(sequence)) {
            measurement.on_corrupt(sequence);
            if let Some(book) = measurement.stream(origin.stream) {
                book.on_corrupt(self.run.streams.flow(origin));
            }
        }
        Arrival::Corrupt(mismatch)
    }

    /// A frame is back. Its times are known, unless it may have been another one with the same content.
    fn account_returned(
        &mut self,
        now: Ps,
        (sequence, left): (u64, Ps),
        origin: Origin,
        times: Option<SendTimes>,
        frame_len: usize,
    ) -> Arrival {
        // An answer has a length of its own.
        let volume = Volume::of_frame(frame_len, &self.link);
        let reordered = self.highest_returned.is_some_and(|highest| sequence < highest);
        self.stats.reordered += u64::from(reordered);
        self.highest_returned = self.highest_returned.max(Some(sequence));
        let (flow, behind) = (self.run.streams.flow(origin), self.run.streams.returned(origin));
        if let Some(measurement) = &mut self.measurement {
            measurement.on_returned(now, (sequence, left), volume, times, reordered);
            let of = (origin.stream, flow, behind);
            measurement.on_stream_returned(now, (sequence, left), volume, times, of);
        }
        Arrival::Returned
    }
}
