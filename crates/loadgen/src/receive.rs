//! Arrivals at a generator: returned test frames, replies to its requests, requests to its responder, and
//! other frames. Each arrival has one [`Arrival`] class and is counted once.

use doorbell_sim::{Frame, Ps, log};
use doorbell_wire::MacAddr;

use crate::arrival::Arrival;
use crate::config::Returned;
use crate::frame::{Mismatch, Signature};
use crate::generator::{LoadGen, LoadGenPorts};
use crate::in_flight::{Lookup, SendTimes};
use crate::measure::ReturnedFrame;
use crate::requests;
use crate::stages::RoundTrip;
use crate::streams::Origin;
use crate::volume::Volume;

impl LoadGen {
    /// Handles a frame whose last bit arrived at `now`, replies if it is for the responder, and returns its
    /// class.
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

    /// Handles an own frame that arrived at another generator's port, whose MAC address is `station`.
    pub fn frame_arrived_at_other_port(
        &mut self,
        now: Ps,
        frame: &Frame,
        station: MacAddr,
        ports: &mut impl LoadGenPorts,
    ) -> Arrival {
        let arrival = self.account_arrival(now, frame, station, ports);
        self.stats.count_at_other_port(arrival);
        self.after_arrival(now, arrival, ports);
        arrival
    }

    /// Records that a frame was lost or damaged after the NIC returned it. Returns the generator's number if
    /// the frame is another generator's.
    pub fn frame_lost_after_nic(&mut self, frame: &Frame) -> Option<u32> {
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
            measurement.on_lost_after_nic(sequence);
        }
        None
    }

    /// Whether frames count as delivered when they are in the receiver's memory ([`Returned::Sink`]).
    pub fn expects_sink(&self) -> bool {
        self.run.traffic.returned == Returned::Sink
    }

    /// Handles a frame in the receiver's memory since `now`, if it is one of the generator's.
    pub fn frame_delivered(&mut self, now: Ps, frame: &Frame, ports: &mut impl LoadGenPorts) {
        let arrival = self.account_arrival(now, frame, self.station(), ports);
        if !matches!(arrival, Arrival::Foreign | Arrival::OtherGenerator(_)) {
            self.stats.count(arrival);
            self.after_arrival(now, arrival, ports);
        }
    }

    /// MAC address of the generator.
    pub fn station(&self) -> MacAddr {
        self.run.traffic.source
    }

    /// Handles a frame that is neither a test frame nor a reply to a request.
    fn answer(&mut self, now: Ps, frame: &Frame, ports: &mut impl LoadGenPorts) -> Arrival {
        let traffic = &self.run.traffic;
        if traffic.kind.sends_requests()
            && let Some(station) =
                requests::station_in_reply(&frame.bytes, traffic.destination_ip, traffic.source)
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
        // The link queues it; due test frames then wait for the link as usual.
        ports.send(now, answer);
        Arrival::Answered(answered)
    }

    fn after_arrival(&mut self, now: Ps, arrival: Arrival, ports: &mut impl LoadGenPorts) {
        if let Some(measurement) = &mut self.measurement {
            measurement.on_unexpected(&arrival);
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
        // Packets of a capture are matched by content, even if the capture contains signatures.
        let (sequence, certain) = match self.run.streams.recognise(&frame.bytes, &self.in_flight) {
            Some(found) => found,
            None => match self.run.streams.read(self.stream, next, &frame.bytes) {
                None => return Arrival::Foreign,
                Some(Signature { stream, .. }) if stream != self.stream => {
                    return Arrival::OtherGenerator(stream);
                }
                Some(Signature { sequence, .. }) => (sequence, true),
            },
        };
        match self.in_flight.look_up(sequence) {
            Lookup::Returned => Arrival::Duplicate,
            Lookup::Forgotten => Arrival::Late,
            Lookup::EarlierRun => Arrival::Stale,
            Lookup::NeverSent => Arrival::NeverSent,
            Lookup::Outstanding(times) => {
                // A corrupt frame is no longer outstanding. If its sequence number was damaged, the real
                // frame with that number will count as a duplicate.
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
                        self.account_returned(now, sequence, left, origin, times, frame.bytes.len())
                    }
                    Err(mismatch) => self.account_corrupt(sequence, origin, mismatch),
                }
            }
        }
    }

    fn account_corrupt(&mut self, sequence: u64, origin: Origin, mismatch: Mismatch) -> Arrival {
        if let Some(measurement) = self.measurement.as_mut().filter(|window| window.has(sequence)) {
            measurement.on_corrupt(sequence);
            if let Some(stream) = measurement.stream(origin.stream) {
                stream.on_corrupt(self.run.streams.flow(origin));
            }
        }
        Arrival::Corrupt(mismatch)
    }

    /// Accounts for a returned frame. `times` is none if several frames have the same content.
    fn account_returned(
        &mut self,
        now: Ps,
        sequence: u64,
        left: Ps,
        origin: Origin,
        times: Option<SendTimes>,
        frame_len: usize,
    ) -> Arrival {
        // A reply may differ in length from its request.
        let volume = Volume::of_frame(frame_len, &self.link);
        let reordered = self.highest_returned.is_some_and(|highest| sequence < highest);
        self.stats.reordered += u64::from(reordered);
        self.highest_returned = self.highest_returned.max(Some(sequence));
        let (flow, behind) = (self.run.streams.flow(origin), self.run.streams.returned(origin));
        if let Some(measurement) = &mut self.measurement {
            let returned = ReturnedFrame { sequence, left, volume, times };
            measurement.on_returned(now, &returned, reordered);
            measurement.on_stream_returned(now, &returned, origin.stream, flow, behind);
        }
        Arrival::Returned
    }
}
