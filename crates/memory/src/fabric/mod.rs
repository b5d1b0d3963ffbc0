//! Topology: distances of cores, LLC slices, memory controllers and devices on a ring or mesh.
//!
//! Every component is at a stop; neighbouring stops have a link in each direction. A line occupies each link
//! according to its bytes per cycle and is forwarded from its first flit (cut-through). Requests and snoops
//! have separate wires that accept one per cycle; acknowledgements only take time. Intel's rings are divided
//! like this (AD, BL and AK: Xeon E5-2600 v2 uncore performance monitoring reference manual, R3QPI and ring
//! events). A message waits at a stop until its next link is free. Not modelled: priority of messages already
//! on the ring, buffer space at the stops, and the two polarities of a ring's slots.
//!
//! A fabric starts and ends at the links of the cores and the root complex: `interconnect.latency` is from a
//! core to its stop, `io_latency` from the root complex to its stop. This module adds the time between two
//! stops. Without a fabric all components are at the same stop and nothing is added.

pub mod config;
mod routes;
pub mod stats;

use doorbell_sim::memory::LINE_BYTES;
use doorbell_sim::{UncoreCycle, UncoreDomain};
use serde::{Deserialize, Serialize};

use crate::backing::MainMemory;
use crate::config::MemoryConfig;
use crate::slots::{Link, Ports, SlotsState, Transfer};
use crate::system::MemorySystem;
use config::Places;
use routes::Routes;
use stats::{FabricStats, LinkStats, SliceStats};

/// Cycles in the booking ring of a link.
const LINK_WINDOW: usize = 2048;
/// Cycles in the booking ring of a slice's ports: the same as for an undivided LLC.
const PORT_WINDOW: usize = 8192;

/// Number of a stop.
pub(crate) type Stop = u8;

/// A time at a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    pub at: UncoreCycle,
    pub stop: Stop,
}

/// Bookings of one link.
#[derive(Clone, Debug)]
struct Wires {
    requests: Ports<UncoreDomain>,
    lines: Link<UncoreDomain>,
    hop: u64,
    stats: LinkStats,
}

/// Bookings of one slice's ports.
#[derive(Clone, Debug)]
struct Slice {
    ports: Ports<UncoreDomain>,
    stats: SliceStats,
}

/// The ring or mesh; see the module.
#[derive(Clone, Debug)]
pub struct Fabric {
    places: Places,
    routes: Routes,
    wires: Vec<Wires>,
    slices: Vec<Slice>,
    line_cycles: u64,
}

/// Saved state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FabricState {
    wires: Vec<(SlotsState<UncoreDomain>, SlotsState<UncoreDomain>, LinkStats)>,
    slices: Vec<(SlotsState<UncoreDomain>, SliceStats)>,
}

impl Fabric {
    /// An idle fabric, if the configuration, which must be valid, has one for `cores` cores.
    pub(crate) fn new(config: &MemoryConfig, cores: usize) -> Option<Fabric> {
        let own = &config.fabric;
        let places = own.places(cores, config.llc.slices, config.dram.channels);
        let places = places.expect("the configuration is valid")?;
        let routes = Routes::new(own.kind, &places, own.hop, own.hop_across);
        let wires = routes.links.iter().map(|link| Wires {
            requests: Ports::new(1, LINK_WINDOW),
            lines: Link::new(own.bytes_per_cycle, LINK_WINDOW),
            hop: link.hop,
            stats: LinkStats::default(),
        });
        let slice = Slice { ports: Ports::new(config.llc.ports, PORT_WINDOW), stats: SliceStats::default() };
        let slices = vec![slice; places.slices.len()];
        let line_cycles = LINE_BYTES.div_ceil(u64::from(own.bytes_per_cycle));
        Some(Fabric { wires: wires.collect(), slices, line_cycles, places, routes })
    }

    /// Sends a request or a snoop at `t`. Returns when it arrives.
    fn request(&mut self, from: Stop, to: Stop, t: UncoreCycle, now: UncoreCycle) -> UncoreCycle {
        let mut at = t;
        for link in self.routes.way(from, to) {
            let wires = &mut self.wires[usize::from(*link)];
            let leaves = wires.requests.take(at, now);
            wires.stats.requests += 1;
            wires.stats.wait_cycles += leaves - at;
            at = leaves + wires.hop;
        }
        at
    }

    /// Sends bytes of a line at `t`. Returns when the first and the last of them arrive.
    fn line(
        &mut self,
        from: Stop,
        to: Stop,
        t: UncoreCycle,
        bytes: u64,
        now: UncoreCycle,
    ) -> Transfer<UncoreDomain> {
        let mut sent = Transfer { first: t, last: t };
        for link in self.routes.way(from, to) {
            let wires = &mut self.wires[usize::from(*link)];
            let Transfer { first, last } = wires.lines.take_many(sent.first, bytes, now);
            wires.stats.bytes += bytes;
            wires.stats.wait_cycles += first - sent.first;
            sent = Transfer { first: first + wires.hop, last: last.max(sent.last) + wires.hop };
        }
        sent
    }

    /// Cycles from one stop to another without contention.
    pub(crate) fn distance(&self, from: Stop, to: Stop) -> u64 {
        self.routes.distance(from, to)
    }

    /// Links from one stop to another.
    #[cfg(test)]
    pub(crate) fn way(&self, from: Stop, to: Stop) -> impl Iterator<Item = &routes::Link> {
        self.routes.way(from, to).iter().map(|link| &self.routes.links[usize::from(*link)])
    }

    /// Counters of all links together up to a cycle: see [`links_until`](Fabric::links_until).
    pub fn stats_until(&self, cycle: UncoreCycle) -> FabricStats {
        let mut all = FabricStats::default();
        for (_, LinkStats { requests, bytes, wait_cycles }) in self.links_until(cycle) {
            all.request_hops += requests;
            all.byte_hops += bytes;
            all.wait_cycles += wait_cycles;
        }
        all
    }

    /// Counters of each link, named by its two stops. Bytes booked for `cycle` or later are excluded.
    pub fn links_until(&self, cycle: UncoreCycle) -> impl Iterator<Item = (String, LinkStats)> {
        let name = |link: &routes::Link| format!("{}to{}", link.from, link.to);
        let stats = move |wires: &Wires| {
            let bytes = wires.stats.bytes.saturating_sub(wires.lines.taken_from(cycle));
            LinkStats { bytes, ..wires.stats.clone() }
        };
        self.routes.links.iter().map(name).zip(self.wires.iter().map(stats))
    }

    /// The same for each slice's accesses.
    pub fn slices_until(&self, cycle: UncoreCycle) -> impl Iterator<Item = SliceStats> {
        self.slices.iter().map(move |slice| {
            let accesses = slice.stats.accesses.saturating_sub(slice.ports.taken_from(cycle));
            SliceStats { accesses, ..slice.stats.clone() }
        })
    }

    /// Requests for a time before the booking rings of links and ports.
    pub(crate) fn late(&self) -> u64 {
        let links = self.wires.iter().map(|wires| wires.requests.late() + wires.lines.late());
        links.chain(self.slices.iter().map(|slice| slice.ports.late())).sum()
    }

    pub(crate) fn save(&self) -> FabricState {
        let wires = |wires: &Wires| (wires.requests.save(), wires.lines.save(), wires.stats.clone());
        let slice = |slice: &Slice| (slice.ports.save(), slice.stats.clone());
        FabricState {
            wires: self.wires.iter().map(wires).collect(),
            slices: self.slices.iter().map(slice).collect(),
        }
    }

    /// Checks a saved state; no time may be after `latest`.
    pub(crate) fn check(&self, state: &FabricState, latest: UncoreCycle) -> Result<(), String> {
        if (state.wires.len(), state.slices.len()) != (self.wires.len(), self.slices.len()) {
            return Err("the saved state has links and slices of a different ring or mesh".to_owned());
        }
        for (wires, (requests, lines, _)) in self.wires.iter().zip(&state.wires) {
            wires.requests.check(requests, latest)?;
            wires.lines.check(lines, latest)?;
        }
        let mut slices = self.slices.iter().zip(&state.slices);
        slices.try_for_each(|(slice, (ports, _))| slice.ports.check(ports, latest))
    }

    pub(crate) fn restore(&mut self, state: FabricState) {
        for (wires, (requests, lines, stats)) in self.wires.iter_mut().zip(state.wires) {
            wires.requests.restore(requests);
            wires.lines.restore(lines);
            wires.stats = stats;
        }
        for (slice, (ports, stats)) in self.slices.iter_mut().zip(state.slices) {
            slice.ports.restore(ports);
            slice.stats = stats;
        }
    }
}

/// Stops of the components.
impl<M: MainMemory> MemorySystem<M> {
    #[inline]
    pub(crate) fn core_stop(&self, hart: usize) -> Stop {
        self.fabric.as_ref().map_or(0, |fabric| fabric.places.cores[hart])
    }

    /// Stop of a line's slice: its *home*.
    #[inline]
    pub(crate) fn home(&self, line: u32) -> Stop {
        let slice = |fabric: &Fabric| fabric.places.slices[self.llc.tags.slice(line)];
        self.fabric.as_deref().map_or(0, slice)
    }

    /// Stop of the memory controller of a line.
    #[inline]
    pub(crate) fn memory_stop(&self, line: u32) -> Stop {
        let stop = |fabric: &Fabric| fabric.places.memory[self.memory.channel(self.ram.addr(line))];
        self.fabric.as_deref().map_or(0, stop)
    }

    #[inline]
    pub(crate) fn device_stop(&self, device: u8) -> Stop {
        let devices =
            |fabric: &Fabric| fabric.places.devices[usize::from(device) % fabric.places.devices.len()];
        self.fabric.as_deref().map_or(0, devices)
    }
}

/// Messages between stops; without a fabric they take no time.
impl<M> MemorySystem<M> {
    /// See [`Fabric::request`].
    #[inline]
    pub(crate) fn request(&mut self, from: Stop, to: Stop, t: UncoreCycle) -> UncoreCycle {
        let now = self.llc.now;
        self.fabric.as_mut().map_or(t, |fabric| fabric.request(from, to, t, now))
    }

    /// See [`Fabric::line`].
    #[inline]
    pub(crate) fn carry(
        &mut self,
        from: Stop,
        to: Stop,
        t: UncoreCycle,
        bytes: u64,
    ) -> Transfer<UncoreDomain> {
        let now = self.llc.now;
        let there = Transfer { first: t, last: t };
        self.fabric.as_mut().map_or(there, |fabric| fabric.line(from, to, t, bytes, now))
    }

    /// Returns when a line that follows another one has arrived completely.
    #[inline]
    pub(crate) fn carry_behind(&mut self, Moment { at, stop }: Moment, to: Stop) -> UncoreCycle {
        let now = self.llc.now;
        match &mut self.fabric {
            Some(fabric) if stop != to => {
                fabric.line(stop, to, at + fabric.line_cycles, LINE_BYTES, now).last
            }
            _ => at,
        }
    }

    /// Returns when an acknowledgement sent at `seen` arrives at `to`.
    #[inline]
    pub(crate) fn ack_arrival(&self, seen: Moment, to: Stop) -> UncoreCycle {
        let distance = |fabric: &Fabric| fabric.distance(seen.stop, to);
        seen.at + self.fabric.as_deref().map_or(0, distance)
    }

    /// The one of two messages that arrives at `to` later.
    #[inline]
    pub(crate) fn later(&self, one: Moment, other: Moment, to: Stop) -> Moment {
        if self.ack_arrival(other, to) > self.ack_arrival(one, to) { other } else { one }
    }

    /// Returns when a request that arrives at a line's slice at `t` gets a port.
    #[inline]
    pub(crate) fn llc_port(&mut self, line: u32, t: UncoreCycle) -> UncoreCycle {
        let Some(fabric) = &mut self.fabric else { return self.llc.port(t) };
        let slice = &mut fabric.slices[self.llc.tags.slice(line)];
        let at = slice.ports.take(t, self.llc.now);
        slice.stats.accesses += 1;
        slice.stats.port_wait_cycles += at - t;
        self.llc.stats.port_wait_cycles += at - t;
        at
    }
}
