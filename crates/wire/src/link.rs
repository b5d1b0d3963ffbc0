//! One direction of an Ethernet link: a serial resource with a rate, a latency and a per-frame overhead.
//!
//! Modelled: serialisation of preamble and start delimiter, frame, FCS and inter-frame gap
//! (IEEE 802.3 §3.1.1, §4.4.2), propagation and PHY delay as one latency, and faults: loss and bit errors.
//! Not modelled: line coding (the rate is the MAC's), auto-negotiation (the PHY registers are part of the
//! NIC), collisions, and clock tolerance (±100 ppm).
//!
//! Times are exact to the bit. The link keeps its free time as a rational number of picoseconds with the rate
//! as denominator, and rounds up only the times it returns. A sender that waits for the rounded time
//! continues at the exact end of the previous frame, so back-to-back frames never drift.

use doorbell_sim::frame::Frame;
use doorbell_sim::rng::Rng;
use doorbell_sim::snapshot::SnapshotError;
use doorbell_sim::{BitsPerSec, Bytes, Ps};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::faults::Faults;
use crate::wire_hash::WireHash;

/// Configuration of one direction of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LinkConfig {
    /// MAC bit rate (10 Gbps for a 10GBASE link), 1kbps to 100Tbps.
    pub rate: BitsPerSec,
    /// Latency from the departure of the last bit to its arrival, at most 100s.
    pub latency: Ps,
    /// Per-frame overhead in byte times, at most 1024B. The default, 20, is that of Ethernet: 8 bytes of
    /// preamble and start delimiter and 12 of inter-frame gap. The first 8 bytes of the value are preamble.
    pub overhead: Bytes,
    /// Whether the four bytes of FCS, and the padding of short frames to 64 bytes with FCS, take time. Off
    /// with an overhead of 0 matches simulators that charge only the stored bytes.
    pub include_fcs: bool,
    /// Probability that a frame is lost, 0 to 1.
    pub frame_loss: f64,
    /// Bit error probability, 0 to 1. A frame with a bit error arrives with a bad FCS.
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

/// Error in a link's configuration.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LinkConfigError {
    /// Rate out of range.
    #[error("rate = \"{0}\" is out of range; it must be from \"1kbps\" to \"100Tbps\"")]
    Rate(BitsPerSec),
    /// Latency out of range.
    #[error("latency = \"{0}\" is out of range; it must be at most \"100s\"")]
    Latency(Ps),
    /// Overhead out of range.
    #[error("overhead = \"{0}\" is out of range; it must be at most \"1024B\"")]
    Overhead(Bytes),
    /// Probability out of range.
    #[error("{field} = {value} is out of range; it must be from 0 to 1")]
    Share {
        /// Name of the field.
        field: &'static str,
        /// Value of the field.
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

    /// Bytes of a frame that take time, without overhead; `frame_len` excludes the FCS.
    pub fn charged_bytes(&self, frame_len: usize) -> u64 {
        if self.include_fcs { frame_bytes_l2(frame_len) } else { frame_len as u64 }
    }

    /// Byte times of a frame on this link, overhead included.
    pub fn wire_bytes(&self, frame_len: usize) -> u64 {
        self.charged_bytes(frame_len) + self.overhead.0
    }

    /// Maximum frame rate at this length (without FCS) in frames per second, as a fraction (numerator,
    /// denominator).
    pub fn frames_per_second(&self, frame_len: usize) -> (u64, u64) {
        (self.rate.0, 8 * self.wire_bytes(frame_len))
    }

    fn preamble_bytes(&self) -> u64 {
        self.overhead.0.min(Self::PREAMBLE_BYTES)
    }
}

/// Layer 2 length of a frame: with FCS, and at least 64 bytes.
fn frame_bytes_l2(frame_len: usize) -> u64 {
    (frame_len + Frame::FCS_BYTES).max(Frame::MIN_BYTES_WITH_FCS) as u64
}

doorbell_sim::stats! {
    /// Counters of one direction of a link.
    pub struct LinkStats {
        /// Frames sent into the link, including those lost by fault injection.
        frames,
        /// Their bytes at layer 2: with FCS, short frames padded to 64.
        bytes_l2,
        /// Their bytes at layer 1: as charged, with preamble and gap.
        bytes_l1,
        /// Picoseconds during which the link was busy, gaps included.
        busy_ps,
        /// Frames lost (fault injection).
        lost,
        /// Frames that arrive with a bad FCS because of bit errors (fault injection).
        corrupted,
    }
}

/// Departure and arrival of a frame. Times are rounded up to the picosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The first bit of the preamble leaves.
    pub start: Ps,
    /// The last bit of the frame (of its FCS) leaves.
    pub last_bit_left: Ps,
    /// End of the gap: the next frame may start.
    pub free_at: Ps,
    /// The last bit arrives at the far end, which can then use the frame.
    pub arrives_at: Ps,
    /// The frame does not arrive (fault injection).
    pub lost: bool,
}

/// A point in time, `ps + part / rate`, with `part < rate`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Exact {
    ps: u64,
    part: u64,
}

impl Exact {
    /// The time after `bytes` bytes at `rate`.
    fn after_bytes(self, bytes: u64, rate: u64) -> Exact {
        let span = u128::from(bytes) * 8 * u128::from(Ps::PER_SECOND);
        // Frames shorter than 2 MB use the cheap division.
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
    /// Fault injection is switched off.
    faults_disabled: bool,
    stats: LinkStats,
    /// Hash of the frames carried, if enabled. An observer.
    hash: Option<WireHash>,
}

/// Saved state of a [`Link`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkState {
    rate: u64,
    free: Exact,
    rng: Rng,
    stats: LinkStats,
}

impl LinkState {
    /// Version of this state.
    pub const VERSION: u32 = 1;
}

impl Link {
    /// Creates an idle link. `rng` is the random stream of its faults.
    pub fn new(config: LinkConfig, rng: Rng) -> Result<Link, LinkConfigError> {
        config.validate()?;
        let faults = Faults::new(config.frame_loss, config.bit_error_rate, rng);
        let (free, stats) = (Exact::default(), LinkStats::default());
        Ok(Link { config, free, faults, faults_disabled: false, stats, hash: None })
    }

    /// The link's configuration.
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// Whether frames may be lost or damaged.
    pub fn may_fail(&self) -> bool {
        self.faults.are_possible() && !self.faults_disabled
    }

    /// Switches fault injection off or on, for phases that prepare a measurement. Not saved in snapshots.
    pub fn disable_faults(&mut self, faults_disabled: bool) {
        self.faults_disabled = faults_disabled;
    }

    /// Counters so far.
    pub fn stats(&self) -> &LinkStats {
        &self.stats
    }

    /// Starts hashing the frames carried. An observer.
    pub fn start_hash(&mut self) {
        self.hash = Some(WireHash::default());
    }

    /// Hash of the frames carried since [`start_hash`](Self::start_hash).
    pub fn wire_hash(&self) -> Option<WireHash> {
        self.hash
    }

    /// When the next frame may start.
    pub fn free_at(&self) -> Ps {
        self.free.rounded_up()
    }

    /// Busy picoseconds up to `at`, which must not be before the last call of [`send`](Self::send). The part
    /// of booked frames after `at` is excluded.
    pub fn busy_until(&self, at: Ps) -> u64 {
        self.stats.busy_ps.saturating_sub(self.free_at().saturating_sub(at).0)
    }

    /// Books the link for a frame of `frame_len` bytes without FCS, from `now` or when it is free. Draws no
    /// faults.
    pub fn send(&mut self, now: Ps, frame_len: usize) -> Sent {
        // A sender that waited for the rounded time continues at the exact time.
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

    /// Books the link for a frame, and may lose it or invert one of its bits by fault injection. A bad FCS
    /// stays bad.
    pub fn transmit(&mut self, now: Ps, frame: &mut Frame) -> Sent {
        let mut sent = self.send(now, frame.bytes.len());
        if self.may_fail() {
            let bits = self.config.charged_bytes(frame.bytes.len()) * 8;
            sent.lost = self.faults.lose();
            let corrupted = !sent.lost && self.faults.corrupt(frame, bits);
            self.stats.lost += u64::from(sent.lost);
            self.stats.corrupted += u64::from(corrupted);
        }
        if let Some(hash) = &mut self.hash {
            hash.take(&sent, frame);
        }
        sent
    }

    /// The random stream of its faults.
    pub fn fault_stream(&self) -> &Rng {
        self.faults.rng()
    }

    /// Replaces the random stream of its faults.
    pub fn set_fault_stream(&mut self, stream: Rng) {
        self.faults.set_rng(stream);
    }

    /// Returns the state to save.
    pub fn save(&self) -> LinkState {
        LinkState {
            rate: self.config.rate.0,
            free: self.free,
            rng: self.faults.rng().clone(),
            stats: self.stats.clone(),
        }
    }

    /// Restores a saved state. If the rate has changed, the link is busy until the same picosecond.
    pub fn restore(&mut self, state: LinkState) -> Result<(), SnapshotError> {
        if state.rate == 0 || state.free.part >= state.rate || state.free.ps > u64::MAX / 4 {
            let problem = "the link's time is out of range or not a fraction of its rate".to_owned();
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
