//! One direction of an Ethernet link: a serial resource with a rate, a latency and an overhead a frame.
//!
//! Modelled: serialisation of preamble and start delimiter, frame, FCS and inter-frame gap
//! (IEEE 802.3 §3.1.1, §4.4.2), propagation and PHY delay as one latency, and faults: loss and bit errors.
//! Not modelled: line coding (the rate is the MAC's), auto-negotiation (the PHY's registers are the NIC's),
//! collisions, and the tolerance of real clocks (±100 ppm).
//!
//! Times are exact to the bit. The link knows when it is free as a rational number of picoseconds with the
//! rate as denominator, and rounds up only what it tells others. A sender that comes at the rounded
//! time goes on where the bits before really ended, so back-to-back frames never drift.

use doorbell_sim::frame::Frame;
use doorbell_sim::rng::Rng;
use doorbell_sim::snapshot::SnapshotError;
use doorbell_sim::{BitsPerSec, Bytes, Ps};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::faults::Faults;
use crate::heard::Heard;

/// One direction of a link, as configuration files write it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LinkConfig {
    /// Bits a second of the MAC (what a 10GBASE link calls 10 Gbps), 1kbps to 100Tbps.
    pub rate: BitsPerSec,
    /// From the last bit's departure to its arrival, at most 100s.
    pub latency: Ps,
    /// Bytes of time a frame costs besides itself, at most 1024B. The default, 20, is the real one: 8 of preamble and start
    /// delimiter before the frame, 12 of gap behind it. A smaller value is preamble first.
    pub overhead: Bytes,
    /// Whether the four bytes of FCS, and the padding of short frames to 64 bytes with it, take time. Off,
    /// with an overhead of 0, gives the links of simulators that charge only the bytes they store.
    pub include_fcs: bool,
    /// The share of frames that vanish, 0 to 1.
    pub frame_loss: f64,
    /// The share of bits that arrive inverted, 0 to 1. A frame with any arrives with a bad FCS.
    pub bit_error_rate: f64,
}

impl Default for LinkConfig {
    fn default() -> Self {
        LinkConfig {
            rate: BitsPerSec(100_000_000_000),
            latency: Ps::from_ns(500),
            overhead: Bytes(20),
            include_fcs: true,
            frame_loss: 0.0,
            bit_error_rate: 0.0,
        }
    }
}

/// What is wrong with a link's configuration.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LinkConfigError {
    /// A rate that no link has.
    #[error("rate = \"{0}\" is out of range; a link's rate is from \"1kbps\" to \"100Tbps\"")]
    Rate(BitsPerSec),
    /// A latency that would leave simulated time.
    #[error("latency = \"{0}\" is out of range; a link's latency is at most \"100s\"")]
    Latency(Ps),
    /// More overhead than any frame has.
    #[error("overhead = \"{0}\" is out of range; a link's overhead is at most \"1024B\"")]
    Overhead(Bytes),
    /// Not a share.
    #[error("{field} = {value} is not a share; it must be from 0 to 1")]
    Share {
        /// Which field.
        field: &'static str,
        /// Its value.
        value: f64,
    },
}

impl LinkConfig {
    /// Bytes of preamble and start delimiter.
    const PREAMBLE_BYTES: u64 = 8;

    /// Checks every field's range.
    pub fn validate(&self) -> Result<(), LinkConfigError> {
        if !(1_000..=100_000_000_000_000).contains(&self.rate.0) {
            return Err(LinkConfigError::Rate(self.rate));
        }
        if self.latency.0 > 100 * Ps::PER_SECOND {
            return Err(LinkConfigError::Latency(self.latency));
        }
        if self.overhead.0 > 1024 {
            return Err(LinkConfigError::Overhead(self.overhead));
        }
        for (field, value) in [("frame_loss", self.frame_loss), ("bit_error_rate", self.bit_error_rate)] {
            if !(0.0..=1.0).contains(&value) {
                return Err(LinkConfigError::Share { field, value });
            }
        }
        Ok(())
    }

    /// Bytes of the frame itself that take time, for one whose length without FCS is `frame_len`.
    pub fn charged_bytes(&self, frame_len: usize) -> u64 {
        if self.include_fcs { frame_bytes_l2(frame_len) } else { frame_len as u64 }
    }

    /// Bytes of time that a frame takes on this link, overhead included.
    pub fn wire_bytes(&self, frame_len: usize) -> u64 {
        self.charged_bytes(frame_len) + self.overhead.0
    }

    /// The most frames of this length (without FCS) that this link carries in a second, as a fraction
    /// (numerator, denominator).
    pub fn frames_per_second(&self, frame_len: usize) -> (u64, u64) {
        (self.rate.0, 8 * self.wire_bytes(frame_len))
    }

    fn preamble_bytes(&self) -> u64 {
        self.overhead.0.min(Self::PREAMBLE_BYTES)
    }
}

/// A frame's bytes as layer 2 counts them: with FCS, and 64 at least.
fn frame_bytes_l2(frame_len: usize) -> u64 {
    (frame_len + Frame::FCS_BYTES).max(Frame::MIN_BYTES_WITH_FCS) as u64
}

doorbell_sim::stats! {
    /// What one direction of a link has carried.
    pub struct LinkStats {
        /// Frames sent into the link, those lost to faults included.
        frames,
        /// Their bytes at layer 2: with FCS, short frames padded to 64.
        bytes_l2,
        /// Their bytes at layer 1: as charged, with preamble and gap.
        bytes_l1,
        /// Picoseconds in which the link was busy, gaps included.
        busy_ps,
        /// Frames that vanished (fault injection).
        lost,
        /// Frames that arrive with a bad FCS because of bit errors (fault injection).
        corrupted,
    }
}

/// When a frame left and arrives. Times are rounded up to the picosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The first bit of the preamble leaves.
    pub start: Ps,
    /// The last bit of the frame (of its FCS) leaves.
    pub last_bit_left: Ps,
    /// The gap is over: the next frame may start.
    pub free_at: Ps,
    /// The last bit arrives at the far end; only then the frame is whole and can be taken.
    pub arrives_at: Ps,
    /// The frame does not arrive (fault injection).
    pub lost: bool,
}

/// A point in time as `ps + part / rate`, with `part < rate`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Exact {
    ps: u64,
    part: u64,
}

impl Exact {
    /// The point `bytes` later at `rate`.
    fn after_bytes(self, bytes: u64, rate: u64) -> Exact {
        let span = u128::from(bytes) * 8 * u128::from(Ps::PER_SECOND);
        // Frames shorter than 2 MB take the cheap division.
        let (whole, rest) = match u64::try_from(span) {
            Ok(span) => (span / rate, span % rate),
            Err(_) => ((span / u128::from(rate)) as u64, (span % u128::from(rate)) as u64),
        };
        let part = self.part + rest;
        let carry = part >= rate;
        Exact { ps: self.ps + whole + u64::from(carry), part: if carry { part - rate } else { part } }
    }

    fn rounded_up(self) -> Ps {
        Ps(self.ps + u64::from(self.part != 0))
    }
}

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct Link {
    config: LinkConfig,
    free: Exact,
    faults: Faults,
    /// No faults happen now.
    spared: bool,
    stats: LinkStats,
    /// What went over it, if somebody wants to know. An observer.
    heard: Option<Heard>,
}

/// What a snapshot keeps of a [`Link`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkState {
    rate: u64,
    free: Exact,
    rng: Rng,
    stats: LinkStats,
}

impl LinkState {
    /// The version to save this state under.
    pub const VERSION: u32 = 1;
}

impl Link {
    /// An idle link. `rng` is the stream from which its faults are drawn.
    pub fn new(config: LinkConfig, rng: Rng) -> Result<Link, LinkConfigError> {
        config.validate()?;
        let faults = Faults::new(config.frame_loss, config.bit_error_rate, rng);
        let (free, stats) = (Exact::default(), LinkStats::default());
        Ok(Link { config, free, faults, spared: false, stats, heard: None })
    }

    /// The configuration that the link was made with.
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// Whether frames may be lost or damaged on it.
    pub fn may_fail(&self) -> bool {
        self.faults.are_possible() && !self.spared
    }

    /// Whether it has no faults from now on: while what is measured later is prepared. A snapshot does not keep it.
    pub fn spare(&mut self, spared: bool) {
        self.spared = spared;
    }

    /// What the link has carried so far.
    pub fn stats(&self) -> &LinkStats {
        &self.stats
    }

    /// Begins to take in what goes over the link. An observer.
    pub fn hear(&mut self) {
        self.heard = Some(Heard::default());
    }

    /// What went over the link since [`hear`](Self::hear).
    pub fn heard(&self) -> Option<Heard> {
        self.heard
    }

    /// When another frame may start.
    pub fn free_at(&self) -> Ps {
        self.free.rounded_up()
    }

    /// For how many picoseconds it was busy until a moment that lies not before the last call of [`send`](Self::send): of frames that
    /// are still leaving then, or begin later, without the time behind it.
    pub fn busy_until(&self, at: Ps) -> u64 {
        self.stats.busy_ps.saturating_sub(self.free_at().saturating_sub(at).0)
    }

    /// Books the link for a frame of `frame_len` bytes without FCS, from `now` or as soon after as it is
    /// free. No faults are drawn.
    pub fn send(&mut self, now: Ps, frame_len: usize) -> Sent {
        // A sender that waited for the rounded time is not late: it goes on at the bit before.
        let start = if now > self.free_at() { Exact { ps: now.0, part: 0 } } else { self.free };
        let (rate, preamble) = (self.config.rate.0, self.config.preamble_bytes());
        let last = start.after_bytes(preamble + self.config.charged_bytes(frame_len), rate);
        let free = last.after_bytes(self.config.overhead.0 - preamble, rate);
        let sent = Sent {
            start: start.rounded_up(),
            last_bit_left: last.rounded_up(),
            free_at: free.rounded_up(),
            arrives_at: last.rounded_up() + self.config.latency,
            lost: false,
        };
        self.stats.frames += 1;
        self.stats.bytes_l2 += frame_bytes_l2(frame_len);
        self.stats.bytes_l1 += self.config.wire_bytes(frame_len);
        self.stats.busy_ps += sent.free_at.0 - sent.start.0;
        self.free = free;
        sent
    }

    /// Sends a frame: books the link and lets faults, if configured, lose the frame or invert one of its
    /// bits. A frame whose FCS is bad already stays so.
    pub fn transmit(&mut self, now: Ps, frame: &mut Frame) -> Sent {
        let mut sent = self.send(now, frame.bytes.len());
        if self.may_fail() {
            let bits = self.config.charged_bytes(frame.bytes.len()) * 8;
            sent.lost = self.faults.lose();
            let corrupted = !sent.lost && self.faults.corrupt(frame, bits);
            self.stats.lost += u64::from(sent.lost);
            self.stats.corrupted += u64::from(corrupted);
        }
        if let Some(heard) = &mut self.heard {
            heard.take(&sent, frame);
        }
        sent
    }

    /// The stream from which its faults are drawn.
    pub fn fault_stream(&self) -> &Rng {
        self.faults.rng()
    }

    /// Draws its faults from another stream from now on.
    pub fn set_fault_stream(&mut self, stream: Rng) {
        self.faults.set_rng(stream);
    }

    /// The link's state for a snapshot.
    pub fn save(&self) -> LinkState {
        LinkState {
            rate: self.config.rate.0,
            free: self.free,
            rng: self.faults.rng().clone(),
            stats: self.stats.clone(),
        }
    }

    /// Takes up a saved state. A link whose rate has changed since is busy until the same picosecond.
    pub fn restore(&mut self, state: LinkState) -> Result<(), SnapshotError> {
        if state.rate == 0 || state.free.part >= state.rate || state.free.ps > u64::MAX / 4 {
            let problem = "a link's time is impossible or not a fraction of its rate".to_owned();
            return Err(SnapshotError::Inconsistent { name: "link".to_owned(), problem });
        }
        self.free = if state.rate == self.config.rate.0 {
            state.free
        } else {
            Exact { ps: state.free.rounded_up().0, part: 0 }
        };
        self.faults.set_rng(state.rng);
        self.stats = state.stats;
        Ok(())
    }
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
