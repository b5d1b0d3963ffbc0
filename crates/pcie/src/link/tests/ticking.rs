//! The link beside one that goes from nanosecond to nanosecond: it knows nothing beforehand, keeps what has to go in two queues, and
//! looks each nanosecond what may begin.

use std::collections::VecDeque;

use doorbell_sim::rng::Rng;

use super::*;

/// A request of the device, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Asked {
    at: u64,
    write: bool,
    addr: u64,
    len: u64,
}

/// A packet that waits for the link, of the request of that number.
#[derive(Clone, Copy)]
struct Packet {
    request: usize,
    bytes: u64,
}

/// A completion that is ready from a time on.
#[derive(Clone, Copy)]
struct Completion {
    ready: u64,
    request: usize,
    bytes: u64,
    last: bool,
}

/// What comes back to the device.
#[derive(Clone, Copy)]
enum Back {
    Tag,
    Posted { data: u64 },
    NonPosted,
}

/// The link of [`plain`] of any latency, with the memory of [`memory`].
struct Ticking {
    config: LinkConfig,
    /// Over the link, one way.
    link: u64,
    now: u64,
    /// Writes and read requests that the device's engine has not handed over.
    writes: VecDeque<Packet>,
    reads: VecDeque<Packet>,
    /// Those that it has, which wait for the link alone.
    given_writes: VecDeque<Packet>,
    given_reads: VecDeque<Packet>,
    /// Until when each direction is busy.
    up: u64,
    down: u64,
    completions: Vec<Completion>,
    tags: u32,
    posted_headers: u32,
    posted_data: u64,
    non_posted: u32,
    back: Vec<(u64, Back)>,
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
            given_writes: VecDeque::new(),
            given_reads: VecDeque::new(),
            up: 0,
            down: 0,
            completions: Vec::new(),
            tags: config.tags,
            posted_headers: config.posted_headers,
            posted_data: config.posted_data.into(),
            non_posted: config.non_posted_headers,
            back: Vec::new(),
            next_read: 0,
            next_write: 0,
            visible: 0,
            done: vec![0; requests],
            config: config.clone(),
        }
    }

    fn ask(&mut self, request: usize, asked: Asked) {
        let (most, queue) = match asked.write {
            true => (self.config.max_payload.0, &mut self.writes),
            false => (self.config.max_read_request.0, &mut self.reads),
        };
        let mut left = asked.len;
        while left > 0 {
            let bytes = left.min(most);
            queue.push_back(Packet { request, bytes });
            left -= bytes;
        }
    }

    /// Whether nothing is under way.
    fn is_idle(&self) -> bool {
        [&self.writes, &self.reads, &self.given_writes, &self.given_reads]
            .iter()
            .all(|queue| queue.is_empty())
            && self.completions.is_empty()
    }

    fn tick(&mut self) {
        for (_, back) in self.back.extract_if(.., |(at, _)| *at == self.now) {
            match back {
                Back::Tag => self.tags += 1,
                Back::Posted { data } => {
                    self.posted_headers += 1;
                    self.posted_data += data;
                }
                Back::NonPosted => self.non_posted += 1,
            }
        }
        self.hand_over();
        if self.up <= self.now {
            self.begin_up();
        }
        if self.down <= self.now {
            self.begin_down();
        }
        self.now += 1;
    }

    /// The device's engines hand over what has its credits, a read its tag too. A read is not before a write that is older.
    fn hand_over(&mut self) {
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
            self.given_writes.push_back(write);
        }
        while let Some(read) = self.reads.front().copied()
            && self.tags > 0
            && self.non_posted > 0
            && self.now >= self.next_read
            && self
                .given_writes
                .front()
                .or(self.writes.front())
                .is_none_or(|write| read.request < write.request)
        {
            self.reads.pop_front();
            self.tags -= 1;
            self.non_posted -= 1;
            self.next_read = self.now + interval(self.config.read_issue_interval);
            self.given_reads.push_back(read);
        }
    }

    /// The older one of what was handed over.
    fn begin_up(&mut self) {
        let [write, read] = [&self.given_writes, &self.given_reads].map(|queue| queue.front().copied());
        match (write, read) {
            (Some(write), read) if read.is_none_or(|read| write.request < read.request) => {
                self.given_writes.pop_front();
                self.send_write(write);
                // A read that had to wait for this write may be handed over now.
                self.hand_over();
            }
            (_, Some(read)) => {
                self.given_reads.pop_front();
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
        self.back.push((self.visible + self.link, Back::Posted { data }));
    }

    fn send_read(&mut self, Packet { request, bytes }: Packet) {
        self.up = self.now + 24;
        let pushed = self.visible.max(self.up + self.link + 20);
        self.back.push((pushed + self.link, Back::NonPosted));
        let (ready, most, mut left) = (pushed + 50 + 20, self.config.max_payload.0, bytes);
        while left > 0 {
            let bytes = left.min(most);
            left -= bytes;
            self.completions.push(Completion { ready, request, bytes, last: left == 0 });
        }
    }

    fn begin_down(&mut self) {
        let ready = self.completions.iter().position(|completion| completion.ready <= self.now);
        let Some(Completion { request, bytes, last, .. }) = ready.map(|index| self.completions.remove(index))
        else {
            return;
        };
        self.down = self.now + 20 + bytes;
        if last {
            let done = self.down + self.link;
            self.done[request] = self.done[request].max(done);
            self.back.push((done, Back::Tag));
        }
    }

    /// When each request is done.
    fn run(mut self, asked: &[Asked]) -> Vec<u64> {
        let mut next = 0;
        while next < asked.len() || !self.is_idle() {
            while asked.get(next).is_some_and(|asked| asked.at == self.now) {
                self.ask(next, asked[next]);
                next += 1;
            }
            self.tick();
        }
        self.done
    }
}

/// When the model says that each request is done.
fn model(config: &LinkConfig, asked: &[Asked]) -> Vec<u64> {
    let (mut link, mut memory) = (PcieLink::new(config), memory());
    let each = asked.iter().map(|asked| {
        let (now, addr, len) = (ns(asked.at), PhysAddr(asked.addr), asked.len as u32);
        let done = match asked.write {
            true => link.write(now, addr, len, RX, &mut memory),
            false => link.read(now, addr, len, TX, &mut memory),
        };
        done.0 / 1000
    });
    each.collect()
}

/// Bursts of requests: lengths up to 1518, `load` hundredths of what the link can carry on average.
fn requests(seed: u64, count: usize, load: u64, writes: u64) -> Vec<Asked> {
    let mut rng = Rng::stream(seed, "requests");
    let mut at = 0;
    let each = (0..count).map(|index| {
        let len = [64, 256, 512, 1024, 1518][rng.below(5) as usize];
        if rng.below(8) == 0 {
            // The burst before has had its time.
            at += rng.below(2 * 8 * 700 * 100 / load);
        }
        Asked { at, write: rng.below(100) < writes, addr: index as u64 % 64 * 4096, len }
    });
    each.collect()
}

/// How far the model is from the reference, in nanoseconds: how early and how late reads and writes are at most, and the ends of all.
#[derive(Debug)]
struct Compared {
    reads: (u64, u64),
    writes: (u64, u64),
    ends: (u64, u64),
}

fn compare(config: &LinkConfig, load: u64, writes: u64) -> Compared {
    let asked = requests(config.tags.into(), 3000, load, writes);
    let (ours, expected) = (model(config, &asked), Ticking::new(config, asked.len()).run(&asked));
    let last = |of: &[u64]| *of.iter().max().expect("there are requests");
    let mut compared = Compared { reads: (0, 0), writes: (0, 0), ends: (last(&ours), last(&expected)) };
    let mut reads_done = 0;
    for ((asked, ours), mut expected) in asked.iter().zip(ours).zip(expected) {
        if !asked.write {
            // The device is told of reads in their order.
            reads_done = expected.max(reads_done);
            expected = reads_done;
        }
        let (early, late) = if asked.write { &mut compared.writes } else { &mut compared.reads };
        *early = (*early).max(expected.saturating_sub(ours));
        *late = (*late).max(ours.saturating_sub(expected));
    }
    compared
}

/// Load in hundredths of a direction's rate, both directions summed, and the share of writes in hundredths.
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
fn where_no_request_waits_for_what_comes_later_each_is_done_when_the_ticking_link_does_it() {
    for config in [link(256, 0, 128, 1000), link(16, 0, 128, 100), link(16, 20, 8, 100)] {
        for (load, writes) in STREAMS {
            let Compared { reads, writes, ends } = compare(&config, load, writes);
            assert_eq!((reads, writes, ends.0), ((0, 0), (0, 0), ends.1), "load {load}, {config:?}");
        }
    }
}

#[test]
fn a_read_that_makes_way_is_early_by_a_packet_and_none_is_late() {
    // The engine's interval makes reads that are asked for at once ready one after the other, and writes go between.
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
fn where_tags_are_what_reads_want_the_link_is_at_most_four_hundredths_faster_than_the_ticking_one() {
    // A round trip of 2.7 us of which 4 tags cover 0.8: each read waits for one before it, which was early.
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
