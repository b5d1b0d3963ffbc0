//! Synthetic systems with a given capacity: a queue before a server, with effects that can mislead a search.

use std::sync::atomic::AtomicBool;

use doorbell_sim::Ps;
use doorbell_sim::rng::Rng;

use super::{Account, Queues, System, Trial, TrialStatus};

/// A queue of `depth` frames before a server.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    /// Frames that the server processes per second.
    pub capacity: f64,
    /// Capacity of the queue, in frames.
    pub depth: f64,
    /// Share of frames lost at every load.
    pub leak: f64,
    /// Whether the guest loses these frames, so that no counter detects them.
    pub leak_unseen: bool,
    /// Variation of the capacity over time, as a share.
    pub noise: f64,
    /// Range of rates at which only 80 % of the frames get through.
    pub dip: Option<(u64, u64)>,
    /// Latency of the queue and the rest of the path.
    pub latency: Ps,
    /// Rate above which the latency is ten times as long.
    pub slow_from: u64,
    /// Number of ports, each of which offers the rate.
    pub ports: u64,
    /// Share of the rate that is actually offered.
    pub offered: f64,
}

impl Queue {
    pub fn new(capacity: u64, depth: u64) -> Queue {
        Queue {
            capacity: capacity as f64,
            depth: depth as f64,
            leak: 0.0,
            leak_unseen: false,
            noise: 0.0,
            dip: None,
            latency: Ps::from_us(5),
            slow_from: u64::MAX,
            ports: 1,
            offered: 1.0,
        }
    }

    fn latency_at(&self, rate: u64) -> Ps {
        Ps(self.latency.0 * if rate > self.slow_from { 10 } else { 1 })
    }

    /// Share of frames that a load loses in steady state.
    pub fn loss(&self, rate: u64) -> f64 {
        let through = (rate as f64 * (1.0 - self.leak)).min(self.capacity_at(rate));
        1.0 - through / rate as f64
    }

    fn capacity_at(&self, rate: u64) -> f64 {
        let dips = self.dip.is_some_and(|(from, to)| (from..=to).contains(&rate));
        if dips { rate as f64 * 0.8 } else { self.capacity }
    }
}

impl System for Queue {
    type Error = &'static str;
    type Summary = ();
    type Trial<'a> = Load<'a>;

    fn begin<'a>(&'a self, rate: u64, _stop: &'a AtomicBool) -> Result<Load<'a>, &'static str> {
        let rng = Rng::stream(rate, "synthetic");
        Ok(Load {
            queue: self,
            rate,
            rng,
            rest: 0.0,
            all: Totals::default(),
            begin: Totals::default(),
            gone: Ps::ZERO,
            opened: Ps::ZERO,
        })
    }

    fn queues(&self, _rate: u64) -> Queues {
        Queues { before_loss: self.depth as u64, at_most: self.depth as u64 + 64 }
    }

    fn due(&self, rate: u64) -> u64 {
        rate * self.ports
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    offered: f64,
    returned: f64,
    dropped: f64,
    unseen: f64,
    queued: f64,
}

pub(super) struct Load<'a> {
    queue: &'a Queue,
    rate: u64,
    rng: Rng,
    rest: f64,
    all: Totals,
    begin: Totals,
    gone: Ps,
    opened: Ps,
}

impl Load<'_> {
    /// Advances by one step of 10 us, with its own random capacity.
    fn step(&mut self, seconds: f64) {
        let q = self.queue;
        let offered = (self.rate * q.ports) as f64 * q.offered * seconds;
        let leaked = offered * q.leak;
        let noise = 1.0 + q.noise * ((self.rng.next_u64() >> 11) as f64 / (1u64 << 52) as f64 - 1.0);
        let served = (q.capacity_at(self.rate) * seconds * noise).min(self.all.queued + offered - leaked);
        let queued = self.all.queued + offered - leaked - served;
        let over = (queued - q.depth).max(0.0);
        self.all.offered += offered;
        self.all.returned += served;
        self.all.dropped += over;
        if q.leak_unseen {
            self.all.unseen += leaked
        } else {
            self.all.dropped += leaked
        }
        self.all.queued = queued - over;
    }
}

impl Trial for Load<'_> {
    type Error = &'static str;
    type Summary = ();

    fn advance(&mut self, time: Ps) -> Result<TrialStatus, &'static str> {
        const STEP: f64 = 1e-5;
        self.gone += time;
        self.rest += time.as_secs_f64();
        while self.rest >= STEP {
            self.rest -= STEP;
            self.step(STEP);
        }
        let all = &self.all;
        let (returned, dropped) = (all.returned as u64, all.dropped as u64);
        let latency = self.queue.latency_at(self.rate);
        let latency = Some((latency, latency));
        Ok(TrialStatus { offered: (all.offered as u64).max(returned + dropped), returned, dropped, latency })
    }

    fn open_window(&mut self) -> Result<(), &'static str> {
        (self.begin, self.opened) = (self.all, self.gone);
        Ok(())
    }

    fn close(self) -> Result<(Account, ()), &'static str> {
        let (a, b) = (&self.all, &self.begin);
        let lost = (a.dropped - b.dropped + a.unseen - b.unseen).round() as u64;
        let account = Account {
            offered: (a.offered - b.offered).round() as u64,
            lost,
            arrived: (a.returned - b.returned).round() as u64,
            latency: Some((self.queue.latency_at(self.rate), self.queue.latency_at(self.rate))),
            window: Ps(self.gone.0 - self.opened.0),
            simulated: self.gone,
        };
        Ok((account, ()))
    }
}
