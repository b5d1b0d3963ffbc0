//! PCI Express link, transaction by transaction: the timed path between a device and memory.
//!
//! Documents: PCI Express Base Specification 5.0, chapter 2 (transaction layer: packets, splitting, ordering,
//! flow control) and 3 (data link layer); Neugebauer et al., "Understanding PCIe performance for end host
//! networking" (SIGCOMM 2018) for the bytes per packet and for measured hosts; Binkert et al., "Analyzing NIC
//! Overheads in Network-Intensive Workloads" (2005) for attachment points. Modelled: rate by generation,
//! lanes and encoding; packets split by MPS, MRRS, RCB and the 4 KiB rule; serialisation of each packet on
//! its direction; tags; credits for posted headers and data and for non-posted headers, held until the root
//! complex has completed the request and returned over the link; the device's own issue rate; a latency each
//! way over the link and through the root complex; posted writes in order, and reads and register responses
//! that push writes. A direction is never idle while a packet is ready ([`direction`]): writes pass reads
//! that wait for a tag, a credit or the device's issue rate, and no read passes an older write. **Each line
//! goes through [`HostMemory`] when its packet has arrived:** a write's buffer is held until the write is
//! visible, and a read's completions leave when memory has returned their lines. Not modelled: individual
//! acknowledgement and flow-control packets (they take a fixed share of the rate), replays, power states,
//! virtual channels, atomic operations, limited completion credits (endpoints advertise infinite ones),
//! reordering of one device's completions. PCI bridges in front of the device add only a latency: packets of
//! several devices do not contend in a bridge.
//!
//! [`Path`](crate::Path) is the same with a fixed latency and without tags, credits and memory: the
//! functional model. *Up* is from the device to memory. A device issues requests in time order; cores may be
//! some microseconds earlier or later.

mod config;
mod direction;
mod registers;
mod state;
mod stats;

use doorbell_sim::memory::{DmaAccess, HostMemory, LINE_BYTES, each_line};
use doorbell_sim::ports::{DmaDirection, DmaPurpose};
use doorbell_sim::{BitsPerSec, FutureBookings, PhysAddr, Pool, Ps};
use serde::{Deserialize, Serialize};

use crate::path::{COMPLETION_OVERHEAD_BYTES, KINDS, PathStats, REQUEST_OVERHEAD_BYTES, Sent, slot};

use direction::Direction;

pub use config::{Attached, Latencies, LinkConfig};
pub use registers::RegisterWrite;
pub use stats::LinkStats;

/// Packets do not cross a multiple of this.
const PAGE_BYTES: u64 = 4096;
/// Upper limit of times, so that sums of a few fit.
const LATEST: Ps = Ps(u64::MAX / 4);
/// Bytes per data credit.
const CREDIT_BYTES: u64 = 16;

/// Times that order requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Order {
    /// Earliest time of the device's next read request; `next_write`, of its next write.
    next_read: Ps,
    next_write: Ps,
    /// Start of the device's last write on the link. A later read does not overtake it, but a write may
    /// overtake reads that wait for a tag.
    last_write_sent: Ps,
    /// Times that no later access overtakes.
    sent: Sent,
}

/// A PCI Express link; see the module. Saved without what follows from the configuration.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PcieLink {
    #[serde(skip)]
    config: LinkConfig,
    #[serde(skip)]
    bridges: u32,
    #[serde(skip)]
    latencies: Latencies,
    #[serde(skip)]
    rate: BitsPerSec,
    up: Direction,
    down: Direction,
    order: Order,
    tags: Pool,
    posted_headers: Pool,
    posted_data: Pool,
    non_posted_headers: Pool,
    register_writes: Pool,
    /// Intervals for which writes wait for room in the root complex.
    posted_waits: FutureBookings,
    kinds: [PathStats; KINDS.len()],
    stats: LinkStats,
    /// Current time of the machine at the last DMA request, if the machine provides it: bookings that ended
    /// before it are dropped.
    present: Option<Ps>,
}

impl PcieLink {
    /// An idle link to a device behind `bridges` PCI bridges. The configuration must be valid.
    pub fn behind_bridges(config: &LinkConfig, bridges: u32) -> PcieLink {
        if let Err(problem) = config.validate() {
            panic!("a PCIe link was made without validating it: {problem}");
        }
        PcieLink {
            latencies: config.latencies_behind(bridges),
            bridges,
            rate: config.packet_rate(),
            tags: Pool::new(config.tags),
            posted_headers: Pool::new(config.posted_headers),
            posted_data: Pool::new(config.posted_data),
            non_posted_headers: Pool::new(config.non_posted_headers),
            register_writes: Pool::new(config.register_writes),
            config: config.clone(),
            ..PcieLink::default()
        }
    }

    /// The parameters.
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// Counters of one kind of DMA.
    pub fn kind_stats(&self, purpose: DmaPurpose, direction: DmaDirection) -> &PathStats {
        &self.kinds[slot(purpose, direction)]
    }

    /// Counters of the link. Data link layer bytes are computed from their share of the rate.
    pub fn stats(&self) -> LinkStats {
        let share = self.config.data_link_share();
        let dllp_bytes = |bytes: u64| bytes * share / (10_000 - share);
        LinkStats {
            up_dllp_bytes: dllp_bytes(self.stats.up_bytes),
            down_dllp_bytes: dllp_bytes(self.stats.down_bytes),
            ..self.stats.clone()
        }
    }

    /// The same up to `at`: busy time of the directions and wait time of writes exclude bookings for later.
    pub fn stats_until(&self, at: Ps) -> LinkStats {
        let stats = self.stats();
        LinkStats {
            up_busy_ps: stats.up_busy_ps.saturating_sub(self.up.booked_after(at)),
            down_busy_ps: stats.down_busy_ps.saturating_sub(self.down.booked_after(at)),
            posted_stall_ps: stats.posted_stall_ps.saturating_sub(self.posted_waits.time_after(at)),
            ..stats
        }
    }

    /// Ordering limits, so that another model of the same link can take over.
    pub fn sent(&self) -> Sent {
        self.order.sent
    }

    /// Orders later accesses after those of another model of the same link.
    pub fn follow(&mut self, sent: Sent) {
        self.order.sent.follow(sent);
    }

    /// Sets the machine's current time; devices may request later times.
    pub fn advance_to(&mut self, present: Ps) {
        self.present = Some(present);
    }

    /// Time before which there will be no more requests, given a request at `now`.
    fn past(&self, now: Ps) -> Ps {
        self.present.map_or(now, |present| present.min(now))
    }

    fn send_up(&mut self, now: Ps, ready: Ps, bytes: u64) -> (Ps, Ps) {
        self.stats.up_packets += 1;
        self.stats.up_bytes += bytes;
        let (begin, end) = self.up.send(self.past(now), ready, bytes, self.rate);
        self.stats.up_busy_ps += (end - begin).0;
        (begin, end)
    }

    fn send_down(&mut self, now: Ps, ready: Ps, bytes: u64) -> Ps {
        self.stats.down_packets += 1;
        self.stats.down_bytes += bytes;
        let (begin, end) = self.down.send(self.past(now), ready, bytes, self.rate);
        self.stats.down_busy_ps += (end - begin).0;
        end
    }

    /// Sends a write or read request of the kind of DMA with this index, issued at `now` and allowed to start
    /// at `ready`.
    fn request(&mut self, now: Ps, ready: Ps, bytes: u64, kind: usize) -> (Ps, Ps) {
        let of_kind = &mut self.kinds[kind];
        of_kind.up_packets += 1;
        of_kind.up_bytes += bytes;
        self.send_up(now, ready, bytes)
    }

    /// Times a posted write of `len` bytes that the device issues at `now`; returns when all of it is
    /// visible.
    pub fn write(
        &mut self,
        now: Ps,
        addr: PhysAddr,
        len: u32,
        access: DmaAccess,
        memory: &mut impl HostMemory,
    ) -> Ps {
        self.kinds[slot(access.purpose, DmaDirection::Write)].request(u64::from(len));
        let mut done = 0;
        let mut visible = now;
        loop {
            let at = addr.0.wrapping_add(done);
            let bytes =
                (u64::from(len) - done).min(self.config.max_payload.0).min(PAGE_BYTES - at % PAGE_BYTES);
            let access = access.advanced_by(done as u32);
            visible = visible.max(self.write_packet(now, at, bytes, access, memory));
            done += bytes;
            if done == u64::from(len) {
                return visible;
            }
        }
    }

    fn write_packet(
        &mut self,
        now: Ps,
        addr: u64,
        bytes: u64,
        access: DmaAccess,
        memory: &mut impl HostMemory,
    ) -> Ps {
        let issued = now.max(self.order.next_write);
        self.stats.issue_stall_ps += issued.saturating_sub(now).0;
        let credits = bytes.div_ceil(CREDIT_BYTES);
        let header = self.posted_headers.take(issued, 1);
        let granted = if credits > 0 { self.posted_data.take(header, credits) } else { header };
        self.stats.posted_stall_ps += (granted - issued).0;
        self.posted_waits.forget_ended(self.past(now));
        self.posted_waits.add(issued, granted);
        let packet = REQUEST_OVERHEAD_BYTES + bytes;
        let kind = slot(access.purpose, DmaDirection::Write);
        let (begin, sent) = self.request(now, granted, packet, kind);
        self.order.next_write = granted + self.config.write_issue_interval;
        self.order.last_write_sent = begin;
        let arrived = sent + self.latencies.link + self.latencies.root;
        // Posted writes do not overtake each other: they become visible in order.
        let mut visible = self.order.sent.writes_visible.max(arrived);
        let mut issue = arrived;
        each_line(PhysAddr(addr), bytes, |line, part, offset| {
            let whole = u64::from(part) == LINE_BYTES;
            self.stats.full_line_writes += u64::from(whole);
            self.stats.partial_line_writes += u64::from(!whole);
            let access = access.advanced_by(offset);
            visible = visible.max(memory.device_write(issue, line, part, access));
            issue += self.config.line_interval;
        });
        self.order.sent.writes_visible = visible;
        self.stats.write_visible_ps += (visible - begin).0;
        let back = visible + self.latencies.link;
        self.posted_headers.release(back, 1);
        if credits > 0 {
            self.posted_data.release(back, credits);
        }
        visible
    }

    /// Times a read of `len` bytes that the device issues at `now`; returns when the last byte is at the
    /// device.
    pub fn read(
        &mut self,
        now: Ps,
        addr: PhysAddr,
        len: u32,
        access: DmaAccess,
        memory: &mut impl HostMemory,
    ) -> Ps {
        self.kinds[slot(access.purpose, DmaDirection::Read)].request(u64::from(len));
        let mut done = 0;
        loop {
            let at = addr.0.wrapping_add(done);
            let left = u64::from(len) - done;
            let bytes = left.min(self.config.max_read_request.0).min(PAGE_BYTES - at % PAGE_BYTES);
            let access = access.advanced_by(done as u32);
            self.read_request(now, at, bytes, access, memory);
            done += bytes;
            if done == u64::from(len) {
                return self.order.sent.reads_done;
            }
        }
    }

    fn read_request(
        &mut self,
        now: Ps,
        addr: u64,
        bytes: u64,
        access: DmaAccess,
        memory: &mut impl HostMemory,
    ) {
        let mut issued = now.max(self.order.next_read);
        self.stats.issue_stall_ps += issued.saturating_sub(now).0;
        if !self.config.relaxed_ordering {
            issued = issued.max(self.order.last_write_sent);
        }
        let tagged = self.tags.take(issued, 1);
        self.stats.tag_stall_ps += (tagged - issued).0;
        let granted = self.non_posted_headers.take(tagged, 1);
        self.stats.non_posted_stall_ps += (granted - tagged).0;
        let kind = slot(access.purpose, DmaDirection::Read);
        let (begin, sent) = self.request(now, granted, REQUEST_OVERHEAD_BYTES, kind);
        self.order.next_read = granted + self.config.read_issue_interval;
        let arrived = sent + self.latencies.link + self.latencies.root;
        let pushed =
            if self.config.relaxed_ordering { arrived } else { self.order.sent.writes_visible.max(arrived) };
        self.stats.ordering_stall_ps += (pushed - arrived).0;
        self.non_posted_headers.release(pushed + self.latencies.link, 1);
        let end = self.completions(now, pushed, addr, bytes, access, memory);
        self.stats.read_requests += 1;
        self.stats.round_trip_ps += (end - begin).0;
        self.tags.release(end, 1);
        self.order.sent.reads_done = self.order.sent.reads_done.max(end);
    }

    /// Reads memory from time `from` on, for a request issued at `now`, and sends the completions: they end
    /// at multiples of RCB and carry at most MPS.
    fn completions(
        &mut self,
        now: Ps,
        from: Ps,
        addr: u64,
        bytes: u64,
        access: DmaAccess,
        memory: &mut impl HostMemory,
    ) -> Ps {
        let boundary = self.config.read_completion_boundary.0;
        let (mut ready, mut issue, mut sent) = (from, from, 0);
        loop {
            let at = addr.wrapping_add(sent);
            let chunk = (bytes - sent).min(self.config.max_payload.0 - at % boundary);
            each_line(PhysAddr(at), chunk, |line, part, offset| {
                self.stats.line_reads += 1;
                let offset = access.offset.saturating_add(sent as u32 + offset);
                ready = ready.max(memory.device_read(issue, line, part, DmaAccess { offset, ..access }));
                issue += self.config.line_interval;
            });
            let packet = COMPLETION_OVERHEAD_BYTES + chunk;
            let kind = &mut self.kinds[slot(access.purpose, DmaDirection::Read)];
            kind.down_packets += 1;
            kind.down_bytes += packet;
            let out = self.send_down(now, ready + self.latencies.root, packet);
            sent += chunk;
            if sent == bytes {
                return out + self.latencies.link;
            }
            // Completions of a request do not overtake each other.
            ready = ready.max(out.saturating_sub(self.latencies.root));
        }
    }
}

#[cfg(test)]
mod tests;
