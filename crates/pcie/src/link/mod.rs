//! The link as transactions: the timed path between a device and memory.
//!
//! Documents: PCI Express Base Specification 5.0, chapter 2 (transaction layer: packets, splitting, ordering, flow control)
//! and 3 (data link layer); Neugebauer et al., "Understanding PCIe performance for end host networking" (SIGCOMM 2018) for
//! the bytes a packet and for measured hosts; Binkert et al., "Analyzing NIC Overheads in Network-Intensive Workloads" (2005) for
//! places of attachment. Modelled: rate by generation, lanes and encoding; packets split by MPS, MRRS, RCB and the 4 KiB
//! rule; serialisation of each packet on its direction; tags; credits for posted headers and data and for non-posted
//! headers, held until the root complex has done with the request and given back over the link; the device's own issue rate; a latency
//! each way over the link and through the root complex; posted writes stay in order, reads and register answers push
//! writes. A direction is never idle while a packet is ready ([`direction`]): writes pass reads that wait for a tag, a credit or the
//! device's issue rate, and no read passes a write that is older. **Each line goes through [`HostMemory`] when its packet has arrived:** a write's buffer is held until memory says that
//! it is visible, a read's completions leave when memory has given their lines. Not modelled: single acknowledgement and
//! flow-control packets (they take a fixed share of the rate), replays, power states, virtual channels, atomic operations, limited
//! completion credits (endpoints grant them without limit), completions of one device overtaking each other, and of PCI bridges
//! in front of the device anything but a latency: packets of several devices behind one do not contend in it.
//!
//! [`Path`](crate::Path) is the same with a fixed latency and without tags, credits and memory: the functional model.
//! *Up* is from the device to memory. A device asks in the order of time; cores may ask some microseconds earlier or later.

mod config;
mod direction;
mod registers;
mod state;
mod stats;

use doorbell_sim::memory::{DmaAccess, HostMemory, LINE_BYTES, each_line};
use doorbell_sim::ports::DmaKind;
use doorbell_sim::{BitsPerSec, FutureBookings, PhysAddr, Pool, Ps};
use serde::{Deserialize, Serialize};

use crate::path::{COMPLETION_OVERHEAD_BYTES, KINDS, PathStats, REQUEST_OVERHEAD_BYTES, Sent, slot};

use direction::Direction;

pub use config::{Attached, Latencies, LinkConfig};
pub use registers::RegisterWrite;
pub use state::LinkState;
pub use stats::LinkStats;

/// No packet crosses a multiple of this.
const PAGE_BYTES: u64 = 4096;
/// No time is later, so that sums of a few fit.
const LATEST: Ps = Ps(u64::MAX / 4);
/// Bytes of a data credit.
const CREDIT_BYTES: u64 = 16;

/// Times that order requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Order {
    /// The device can send its next read request, or write.
    next_read: Ps,
    next_write: Ps,
    /// The device's last write went out: a read that is asked for later does not overtake it, but a write may overtake
    /// reads that wait for a tag.
    last_write_sent: Ps,
    /// What nothing that comes later overtakes.
    sent: Sent,
}

/// The live link.
#[derive(Clone, Debug)]
pub struct PcieLink {
    config: LinkConfig,
    /// What the machine has come to, if it says so.
    present: Option<Ps>,
    bridges: u32,
    latencies: Latencies,
    rate: BitsPerSec,
    up: Direction,
    down: Direction,
    order: Order,
    tags: Pool,
    posted_headers: Pool,
    posted_data: Pool,
    non_posted_headers: Pool,
    register_writes: Pool,
    /// When writes wait for room in the root complex.
    posted_waits: FutureBookings,
    kinds: [PathStats; KINDS.len()],
    stats: LinkStats,
}

impl PcieLink {
    /// An idle link. The configuration has to be valid.
    pub fn new(config: &LinkConfig) -> PcieLink {
        PcieLink::behind(config, 0)
    }

    /// An idle link to a device behind so many PCI bridges.
    pub fn behind(config: &LinkConfig, bridges: u32) -> PcieLink {
        if let Err(problem) = config.validate() {
            panic!("a PCIe link was made without validating it: {problem}");
        }
        PcieLink {
            latencies: config.latencies_behind(bridges),
            bridges,
            present: None,
            rate: config.packet_rate(),
            up: Direction::default(),
            down: Direction::default(),
            order: Order::default(),
            tags: Pool::new(config.tags),
            posted_headers: Pool::new(config.posted_headers),
            posted_data: Pool::new(config.posted_data),
            non_posted_headers: Pool::new(config.non_posted_headers),
            register_writes: Pool::new(config.register_writes),
            posted_waits: FutureBookings::default(),
            kinds: Default::default(),
            stats: LinkStats::default(),
            config: config.clone(),
        }
    }

    /// The parameters.
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// What has been moved for one kind of DMA.
    pub fn kind_stats(&self, kind: DmaKind) -> &PathStats {
        &self.kinds[slot(kind)]
    }

    /// What the link has done; the data link layer's bytes follow from its share.
    pub fn stats(&self) -> LinkStats {
        let share = self.config.data_link_share();
        let beside = |bytes: u64| bytes * share / (10_000 - share);
        LinkStats {
            up_dllp_bytes: beside(self.stats.up_bytes),
            down_dllp_bytes: beside(self.stats.down_bytes),
            ..self.stats.clone()
        }
    }

    /// The same until a moment: the directions' time, and that of writes that wait, without what is booked for later.
    pub fn stats_until(&self, at: Ps) -> LinkStats {
        let stats = self.stats();
        LinkStats {
            up_busy_ps: stats.up_busy_ps.saturating_sub(self.up.behind(at)),
            down_busy_ps: stats.down_busy_ps.saturating_sub(self.down.behind(at)),
            posted_stall_ps: stats.posted_stall_ps.saturating_sub(self.posted_waits.time_after(at)),
            ..stats
        }
    }

    /// What has been sent, so that another model of the same link can go on behind it.
    pub fn sent(&self) -> Sent {
        self.order.sent
    }

    /// Goes on behind what another model of the same link has sent.
    pub fn follow(&mut self, sent: Sent) {
        self.order.sent.follow(sent);
    }

    /// The machine has come to this moment; devices may ask for later ones.
    pub fn come_to(&mut self, present: Ps) {
        self.present = Some(present);
    }

    /// The moment of which nothing before is asked for any more, when something is asked for at `now`.
    fn known(&self, now: Ps) -> Ps {
        self.present.map_or(now, |present| present.min(now))
    }

    fn send_up(&mut self, now: Ps, ready: Ps, bytes: u64) -> (Ps, Ps) {
        self.stats.up_packets += 1;
        self.stats.up_bytes += bytes;
        let (begin, end) = self.up.send(self.known(now), ready, bytes, self.rate);
        self.stats.up_busy_ps += (end - begin).0;
        (begin, end)
    }

    fn send_down(&mut self, now: Ps, ready: Ps, bytes: u64) -> Ps {
        self.stats.down_packets += 1;
        self.stats.down_bytes += bytes;
        let (begin, end) = self.down.send(self.known(now), ready, bytes, self.rate);
        self.stats.down_busy_ps += (end - begin).0;
        end
    }

    /// Sends a write or a read request of one kind of DMA, which the device asks for at `now` and which may go at `ready`.
    fn request(&mut self, now: Ps, ready: Ps, bytes: u64, kind: DmaKind) -> (Ps, Ps) {
        let of_kind = &mut self.kinds[slot(kind)];
        of_kind.up_packets += 1;
        of_kind.up_bytes += bytes;
        self.send_up(now, ready, bytes)
    }

    /// Prices a posted write of `len` bytes that the device has ready at `now`: returns when all of it is visible.
    pub fn write(
        &mut self,
        now: Ps,
        addr: PhysAddr,
        len: u32,
        access: DmaAccess,
        memory: &mut impl HostMemory,
    ) -> Ps {
        self.kinds[slot(access.kind)].request(u64::from(len));
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
        self.posted_waits.forget_ended(self.known(now));
        self.posted_waits.add(issued, granted);
        let packet = REQUEST_OVERHEAD_BYTES + bytes;
        let (begin, sent) = self.request(now, granted, packet, access.kind);
        self.order.next_write = granted + self.config.write_issue_interval;
        self.order.last_write_sent = begin;
        let arrived = sent + self.latencies.link + self.latencies.root;
        // Posted writes do not overtake each other: visible in order.
        let mut visible = self.order.sent.writes_visible.max(arrived);
        let mut ask = arrived;
        each_line(PhysAddr(addr), bytes, |line, part, offset| {
            let whole = u64::from(part) == LINE_BYTES;
            self.stats.full_line_writes += u64::from(whole);
            self.stats.partial_line_writes += u64::from(!whole);
            let access = access.advanced_by(offset);
            visible = visible.max(memory.device_write(ask, line, part, access));
            ask += self.config.line_interval;
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

    /// Prices a read of `len` bytes that the device asks for at `now`: returns when the last byte is at the device.
    pub fn read(
        &mut self,
        now: Ps,
        addr: PhysAddr,
        len: u32,
        access: DmaAccess,
        memory: &mut impl HostMemory,
    ) -> Ps {
        self.kinds[slot(access.kind)].request(u64::from(len));
        let mut asked = 0;
        loop {
            let at = addr.0.wrapping_add(asked);
            let left = u64::from(len) - asked;
            let bytes = left.min(self.config.max_read_request.0).min(PAGE_BYTES - at % PAGE_BYTES);
            let access = access.advanced_by(asked as u32);
            self.read_request(now, at, bytes, access, memory);
            asked += bytes;
            if asked == u64::from(len) {
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
        let (begin, sent) = self.request(now, granted, REQUEST_OVERHEAD_BYTES, access.kind);
        self.order.next_read = granted + self.config.read_issue_interval;
        let arrived = sent + self.latencies.link + self.latencies.root;
        let pushed =
            if self.config.relaxed_ordering { arrived } else { self.order.sent.writes_visible.max(arrived) };
        self.stats.ordering_stall_ps += (pushed - arrived).0;
        self.non_posted_headers.release(pushed + self.latencies.link, 1);
        let end = self.completions(now, pushed, (addr, bytes), access, memory);
        self.stats.read_requests += 1;
        self.stats.round_trip_ps += (end - begin).0;
        self.tags.release(end, 1);
        self.order.sent.reads_done = self.order.sent.reads_done.max(end);
    }

    /// Reads memory from `from` on, for a request that was made at `now`, and sends what it gives: completions end at multiples of
    /// RCB and carry at most MPS.
    fn completions(
        &mut self,
        now: Ps,
        from: Ps,
        (addr, bytes): (u64, u64),
        access: DmaAccess,
        memory: &mut impl HostMemory,
    ) -> Ps {
        let boundary = self.config.read_completion_boundary.0;
        let (mut ready, mut ask, mut sent) = (from, from, 0);
        loop {
            let at = addr.wrapping_add(sent);
            let chunk = (bytes - sent).min(self.config.max_payload.0 - at % boundary);
            each_line(PhysAddr(at), chunk, |line, part, offset| {
                self.stats.line_reads += 1;
                let offset = access.offset.saturating_add(sent as u32 + offset);
                ready = ready.max(memory.device_read(ask, line, part, DmaAccess { offset, ..access }));
                ask += self.config.line_interval;
            });
            let packet = COMPLETION_OVERHEAD_BYTES + chunk;
            let kind = &mut self.kinds[slot(access.kind)];
            kind.down_packets += 1;
            kind.down_bytes += packet;
            let out = self.send_down(now, ready + self.latencies.root, packet);
            sent += chunk;
            if sent == bytes {
                return out + self.latencies.link;
            }
            // The next completion of this request does not overtake this one.
            ready = ready.max(out.saturating_sub(self.latencies.root));
        }
    }
}

#[cfg(test)]
mod tests;
