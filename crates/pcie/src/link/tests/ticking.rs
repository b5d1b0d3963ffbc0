//! The link against a reference that advances by nanoseconds: without advance information, it keeps waiting
//! packets in two queues and checks each nanosecond which one may start.

use std::collections::VecDeque;

use doorbell_sim::rng::Rng;

use super::*;

/// A request of the device; the time is in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Request {
    at: u64,
    write: bool,
    addr: u64,
    len: u64,
}

/// A packet that waits for the link; `request` is the index of its request.
#[derive(Clone, Copy)]
struct Packet {
    request: usize,
    bytes: u64,
}

/// A completion that is ready at a given time.
#[derive(Clone, Copy)]
struct Completion {
    ready: u64,
    request: usize,
    bytes: u64,
    last: bool,
}

/// Resource that returns to the device.
#[derive(Clone, Copy)]
enum Returned {
    Tag,
    Posted { data: u64 },
    NonPosted,
}

/// The link of [`plain`], with any latency, and the memory of [`memory`].
struct Ticking {
    config: LinkConfig,
    /// One-way latency of the link.
    link: u64,
    now: u64,
    /// Writes and read requests not yet issued by the device's engines.
    writes: VecDeque<Packet>,
    reads: VecDeque<Packet>,
    /// Issued packets, which wait only for the link.
    issued_writes: VecDeque<Packet>,
    issued_reads: VecDeque<Packet>,
    /// Time until which each direction is busy.
    up: u64,
    down: u64,
    completions: Vec<Completion>,
    tags: u32,
    posted_headers: u32,
    posted_data: u64,
    non_posted: u32,
    returns: Vec<(u64, Returned)>,
    next_read: u64,
    next_write: u64,
    visible: u64,
    done: Vec<u64>,
}

impl Ticking {
    fn new(config: &LinkConfig, requests: usize) -> Ticking {
        Ticking {
            link: config.latencies().link.0 / 1000,
            now: 0,
            writes: VecDeque::new(),
            reads: VecDeque::new(),
            issued_writes: VecDeque::new(),
            issued_reads: VecDeque::new(),
            up: 0,
            down: 0,
            completions: Vec::new(),
            tags: config.tags,
            posted_headers: config.posted_headers,
            posted_data: config.posted_data.into(),
            non_posted: config.non_posted_headers,
            returns: Vec::new(),
            next_read: 0,
            next_write: 0,
            visible: 0,
            done: vec![0; requests],
            config: config.clone(),
        }
    }

    fn enqueue(&mut self, request: usize, new: Request) {
        let (most, queue) = match new.write {
            true => (self.config.max_payload.0, &mut self.writes),
            false => (self.config.max_read_request.0, &mut self.reads),
        };
        let mut left = new.len;
        while left > 0 {
            let bytes = left.min(most);
            queue.push_back(Packet { request, bytes });
            left -= bytes;
        }
    }

    /// Whether no packet or completion is outstanding.
    fn is_idle(&self) -> bool {
        [&self.writes, &self.reads, &self.issued_writes, &self.issued_reads]
            .iter()
            .all(|queue| queue.is_empty())
            && self.completions.is_empty()
    }

    fn tick(&mut self) {
        for (_, returned) in self.returns.extract_if(.., |(at, _)| *at == self.now) {
            match returned {
                Returned::Tag => self.tags += 1,
                Returned::Posted { data } => {
                    self.posted_headers += 1;
                    self.posted_data += data;
                }
                Returned::NonPosted => self.non_posted += 1,
            }
        }
        self.issue();
        if self.up <= self.now {
            self.start_up();
        }
        if self.down <= self.now {
            self.start_down();
        }
        self.now += 1;
    }

    /// The device's engines issue packets that have credits, and a tag in the case of reads. A read does not
    /// pass an older write.
    fn issue(&mut self) {
        let interval = |interval: Ps| interval.0 / 1000;
        while let Some(write) = self.writes.front().copied()
            && self.posted_headers > 0
            && self.posted_data >= write.bytes.div_ceil(16)
            && self.now >= self.next_write
        {
            self.writes.pop_front();
            self.posted_headers -= 1;
            self.posted_data -= write.bytes.div_ceil(16);
            self.next_write = self.now + interval(self.config.write_issue_interval);
            self.issued_writes.push_back(write);
        }
        while let Some(read) = self.reads.front().copied()
            && self.tags > 0
            && self.non_posted > 0
            && self.now >= self.next_read
            && self
                .issued_writes
                .front()
                .or(self.writes.front())
                .is_none_or(|write| read.request < write.request)
        {
            self.reads.pop_front();
            self.tags -= 1;
            self.non_posted -= 1;
            self.next_read = self.now + interval(self.config.read_issue_interval);
            self.issued_reads.push_back(read);
        }
    }

    /// Starts the older one of the issued packets.
    fn start_up(&mut self) {
        let [write, read] = [&self.issued_writes, &self.issued_reads].map(|queue| queue.front().copied());
        match (write, read) {
            (Some(write), read) if read.is_none_or(|read| write.request < read.request) => {
                self.issued_writes.pop_front();
                self.send_write(write);
                // A read that had to wait for this write may be issued now.
                self.issue();
            }
            (_, Some(read)) => {
                self.issued_reads.pop_front();
                self.send_read(read);
            }
            _ => {}
        }
    }

    fn send_write(&mut self, Packet { request, bytes }: Packet) {
        let data = bytes.div_ceil(16);
        self.up = self.now + 24 + bytes;
        self.visible = self.visible.max(self.up + self.link + 20 + 30);
        self.done[request] = self.visible;
        self.returns.push((self.visible + self.link, Returned::Posted { data }));
    }

    fn send_read(&mut self, Packet { request, bytes }: Packet) {
        self.up = self.now + 24;
        let pushed = self.visible.max(self.up + self.link + 20);
        self.returns.push((pushed + self.link, Returned::NonPosted));
        let (ready, most, mut left) = (pushed + 50 + 20, self.config.max_payload.0, bytes);
        while left > 0 {
            let bytes = left.min(most);
            left -= bytes;
            self.completions.push(Completion { ready, request, bytes, last: left == 0 });
        }
    }

    fn start_down(&mut self) {
        let ready = self.completions.iter().position(|completion| completion.ready <= self.now);
        let Some(Completion { request, bytes, last, .. }) = ready.map(|index| self.completions.remove(index))
        else {
            return;
        };
        self.down = self.now + 20 + bytes;
        if last {
            let done = self.down + self.link;
            self.done[request] = self.done[request].max(done);
            self.returns.push((done, Returned::Tag));
        }
    }

    /// Completion time of each request.
    fn run(mut self, requests: &[Request]) -> Vec<u64> {
        let mut next = 0;
        while next < requests.len() || !self.is_idle() {
            while requests.get(next).is_some_and(|request| request.at == self.now) {
                self.enqueue(next, requests[next]);
                next += 1;
            }
            self.tick();
        }
        self.done
    }
}

/// Completion time of each request in the model.
fn model(config: &LinkConfig, requests: &[Request]) -> Vec<u64> {
    let (mut link, mut memory) = (PcieLink::new(config), memory());
    let each = requests.iter().map(|request| {
        let (now, addr, len) = (ns(request.at), PhysAddr(request.addr), request.len as u32);
        let done = match request.write {
            true => link.write(now, addr, len, RX, &mut memory),
            false => link.read(now, addr, len, TX, &mut memory),
        };
        done.0 / 1000
    });
    each.collect()
}

/// Bursts of requests of up to 1518 bytes, with a mean load of `load` percent of the link's rate.
fn requests(seed: u64, count: usize, load: u64, writes: u64) -> Vec<Request> {
    let mut rng = Rng::stream(seed, "requests");
    let mut at = 0;
    let each = (0..count).map(|index| {
        let len = [64, 256, 512, 1024, 1518][rng.below(5) as usize];
        if rng.below(8) == 0 {
            // Mean time for the previous burst.
            at += rng.below(2 * 8 * 700 * 100 / load);
        }
        Request { at, write: rng.below(100) < writes, addr: index as u64 % 64 * 4096, len }
    });
    each.collect()
}

/// Error of the model in nanoseconds: maximum earliness and lateness of reads and writes; and the ends of all
/// requests in both.
#[derive(Debug)]
struct Compared {
    reads: (u64, u64),
    writes: (u64, u64),
    ends: (u64, u64),
}

fn compare(config: &LinkConfig, load: u64, writes: u64) -> Compared {
    let requests = requests(config.tags.into(), 3000, load, writes);
    let (ours, expected) = (model(config, &requests), Ticking::new(config, requests.len()).run(&requests));
    let last = |of: &[u64]| *of.iter().max().expect("the list of requests is not empty");
    let mut compared = Compared { reads: (0, 0), writes: (0, 0), ends: (last(&ours), last(&expected)) };
    let mut reads_done = 0;
    for ((request, ours), mut expected) in requests.iter().zip(ours).zip(expected) {
        if !request.write {
            // Reads complete to the device in order.
            reads_done = expected.max(reads_done);
            expected = reads_done;
        }
        let (early, late) = if request.write { &mut compared.writes } else { &mut compared.reads };
        *early = (*early).max(expected.saturating_sub(ours));
        *late = (*late).max(ours.saturating_sub(expected));
    }
    compared
}

/// Load in percent of a direction's rate, both directions summed, and percentage of writes.
const STREAMS: [(u64, u64); 6] = [(30, 50), (90, 50), (150, 50), (220, 50), (90, 20), (90, 80)];

fn link(tags: u32, interval: u64, posted_headers: u32, latency: u64) -> LinkConfig {
    LinkConfig {
        tags,
        posted_headers,
        posted_data: 4096,
        read_issue_interval: ns(interval),
        link_latency: Some(ns(latency)),
        ..plain()
    }
}

#[test]
fn without_waits_for_later_packets_times_equal_those_of_the_ticking_link() {
    for config in [link(256, 0, 128, 1000), link(16, 0, 128, 100), link(16, 20, 8, 100)] {
        for (load, writes) in STREAMS {
            let Compared { reads, writes, ends } = compare(&config, load, writes);
            assert_eq!((reads, writes, ends.0), ((0, 0), (0, 0), ends.1), "load {load}, {config:?}");
        }
    }
}

#[test]
fn a_delayed_read_is_early_by_at_most_a_packet_and_none_is_late() {
    // The issue interval makes simultaneous reads ready one after another, and writes go in between.
    for config in [link(32, 40, 128, 100), link(256, 60, 128, 100)] {
        for (load, share) in STREAMS {
            let Compared { reads, writes, ends } = compare(&config, load, share);
            assert!(reads.0 <= 24 + 256 && reads.1 == 0, "load {load}: {reads:?}");
            assert!(writes.0.max(writes.1) <= 24, "load {load}: {writes:?}");
            assert!(ends.0.abs_diff(ends.1) <= 24 + 256, "load {load}: {ends:?}");
        }
    }
}

#[test]
fn when_tags_limit_reads_the_link_is_at_most_4_percent_faster_than_the_ticking_one() {
    // 4 tags cover 0.8 us of a round trip of 2.7 us: each read waits for the tag of an earlier one, whose
    // time was early.
    for config in [link(4, 0, 128, 1000), link(4, 0, 128, 100), link(8, 0, 128, 1000)] {
        for (load, share) in STREAMS {
            let Compared { reads, ends: (ours, expected), .. } = compare(&config, load, share);
            assert_eq!(reads.1, 0, "none is late");
            assert!(
                ours <= expected && (expected - ours) * 100 <= 4 * expected,
                "load {load}: {ours}, {expected}"
            );
        }
    }
}
