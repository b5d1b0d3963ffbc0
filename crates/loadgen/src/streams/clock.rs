//! Due times of a stream.
//!
//! A stream has a *position*: the average number of frames due so far. It advances by a gap per frame
//! (`arrivals`). A *rate profile* converts positions to times. At a constant rate, it uses the exact
//! fractional period; on a ramp, the inverse of the area under the rate; for a capture, its timestamps.
//! Off-periods and the frames of a burst are added after that. Only gaps with a resolution of 2^-40 frames
//! are accumulated, so no stream drifts from its rate.

use std::sync::Arc;

use doorbell_sim::Ps;
use serde::{Deserialize, Serialize};

use super::arrivals::{Arrivals, FRACTION_BITS, ONE, Spacing};
use super::replay::Replay;
use crate::frame::hash;
use crate::rate::Pacing;

/// Conversion from positions to times since the stream's start.
#[derive(Clone, Debug)]
pub(crate) struct RateProfile {
    /// The initial or constant rate; for a capture, the scaling of its timestamps.
    pub(crate) begin: Pacing,
    pub(crate) ramp: Option<RampProfile>,
    /// A capture whose timestamps determine the times.
    pub(crate) stamps: Option<Arc<Replay>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct RampProfile {
    pub(crate) over: Ps,
    /// The rate after the ramp.
    pub(crate) after: Pacing,
}

impl RateProfile {
    /// The time of a position; none if out of range.
    fn time(&self, position: u128) -> Option<u64> {
        if let Some(replay) = &self.stamps {
            let index = u64::try_from(position >> FRACTION_BITS).ok()?;
            return self.begin.offset(u128::from(replay.stamp(index)?), 0);
        }
        let Some(ramp) = self.ramp else { return steady(&self.begin, position) };
        let second = Ps::PER_SECOND as f64;
        let (a, b) = (self.begin.frames_per_second() / second, ramp.after.frames_per_second() / second);
        let over = ramp.over.0 as f64;
        let at_end = ((a + b) / 2.0 * over * ONE as f64) as u128;
        if position >= at_end {
            return steady(&ramp.after, position - at_end)?.checked_add(ramp.over.0);
        }
        // At time t, a·t + (b − a)·t²/(2·over) frames are due.
        let frames = position as f64 / ONE as f64;
        let root = (a * a + 2.0 * (b - a) * frames / over).max(0.0).sqrt();
        Some(((2.0 * frames / (a + root)) as u64).min(ramp.over.0))
    }
}

fn steady(pacing: &Pacing, position: u128) -> Option<u64> {
    pacing.offset(position >> FRACTION_BITS, (position & (ONE - 1)) as u64)
}

/// Saved state of a [`Clock`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClockState {
    start: Ps,
    /// Index, position and due time of the next frame.
    pub(crate) index: u64,
    position: u128,
    pub(crate) due: Ps,
    /// Bytes on the line since the burst began.
    burst: u64,
    /// Number of the on-period, its end (in accumulated on-time), and the accumulated off-time before it.
    turn: u64,
    on_end: u64,
    silence: u64,
}

/// Computes the due times of a stream's frames one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    profile: RateProfile,
    arrivals: Arrivals,
    /// Key of the random gaps.
    key: u64,
    frames: u64,
    duration: Ps,
    /// Line rate in bits per second.
    line: u64,
    pub(crate) state: ClockState,
}

/// Maximum number of off-periods between two frames that are drawn individually; further ones take their mean
/// length.
const OFF_PERIODS_MAX: u32 = 1_000;
/// Salts of the random lengths of on-periods and off-periods, distinct from those of gaps.
const ON_LENGTHS: u64 = 0x4f4e;
const OFF_LENGTHS: u64 = 0x4f46_4600;

impl Clock {
    pub(crate) fn new(
        profile: RateProfile,
        arrivals: Arrivals,
        key: u64,
        frames: Option<u64>,
        duration: Option<Ps>,
        line: u64,
    ) -> Clock {
        let (frames, duration) = (frames.unwrap_or(u64::MAX), duration.unwrap_or(Ps::MAX));
        Clock { profile, arrivals, key, frames, duration, line, state: ClockState::default() }
    }

    /// Starts with the first frame.
    pub(crate) fn begin(&mut self, start: Ps) {
        self.state = ClockState { start, ..ClockState::default() };
        if let Arrivals::OnOff { on, lengths, .. } = self.arrivals {
            self.state.on_end = self.length(on, lengths, ON_LENGTHS);
        }
        // With random gaps, the first frame is not due exactly at the start.
        if self.arrivals == Arrivals::Jitter || self.arrivals.spacing() != Spacing::Constant {
            self.step();
        }
        self.state.due = self.next_due();
    }

    /// Advances to the next frame; the due one takes `wire_bytes` bytes on the line.
    pub(crate) fn advance(&mut self, wire_bytes: u64) {
        self.state.index += 1;
        self.state.burst = self.state.burst.saturating_add(wire_bytes);
        match self.arrivals {
            Arrivals::Bursts { frames, .. } if !self.state.index.is_multiple_of(u64::from(frames)) => {}
            _ => self.step(),
        }
        self.state.due = self.next_due().max(self.state.due);
    }

    /// Advances the position by a gap.
    fn step(&mut self) {
        if self.arrivals == Arrivals::Jitter {
            let random = hash(self.key ^ self.state.index) >> (u64::BITS - FRACTION_BITS);
            self.state.position = (u128::from(self.state.index) << FRACTION_BITS) + u128::from(random);
            return;
        }
        let frames = match self.arrivals {
            Arrivals::Bursts { frames, .. } => u128::from(frames),
            _ => 1,
        };
        let gap = self.arrivals.spacing().gap(hash(self.key ^ self.state.index));
        self.state.position = self.state.position.saturating_add(gap.saturating_mul(frames));
        self.state.burst = 0;
    }

    fn next_due(&mut self) -> Ps {
        let since_start = self.since_start().unwrap_or(u64::MAX);
        if self.state.index >= self.frames || since_start >= self.duration.0 {
            return Ps::MAX;
        }
        self.state.start.saturating_add(Ps(since_start))
    }

    fn since_start(&mut self) -> Option<u64> {
        let time = self.profile.time(self.state.position)?;
        match self.arrivals {
            Arrivals::OnOff { on, off, lengths, .. } => {
                let cycle = u128::from(on.0) + u128::from(off.0);
                let sending = u64::try_from(u128::from(time) * u128::from(on.0) / cycle).ok()?;
                self.with_off_periods(sending, on, off, lengths)
            }
            Arrivals::Bursts { frames, gap, .. } => {
                let in_burst = self.state.index % u64::from(frames);
                let behind = match gap {
                    Some(gap) => gap.0.checked_mul(in_burst)?,
                    None => {
                        let bits = u128::from(self.state.burst) * 8 * u128::from(Ps::PER_SECOND);
                        u64::try_from(bits.div_ceil(u128::from(self.line))).ok()?
                    }
                };
                time.checked_add(behind)
            }
            _ => Some(time),
        }
    }

    /// The time at which `sending` of on-time has passed, including off-periods.
    fn with_off_periods(&mut self, sending: u64, on: Ps, off: Ps, lengths: Spacing) -> Option<u64> {
        if lengths == Spacing::Constant {
            return (sending / on.0).checked_mul(off.0)?.checked_add(sending);
        }
        for _ in 0..OFF_PERIODS_MAX {
            if sending < self.state.on_end {
                return sending.checked_add(self.state.silence);
            }
            let silence = self.length(off, lengths, OFF_LENGTHS);
            self.state.silence = self.state.silence.checked_add(silence)?;
            self.state.turn = self.state.turn.wrapping_add(1);
            self.state.on_end = self.state.on_end.checked_add(self.length(on, lengths, ON_LENGTHS).max(1))?;
        }
        let turns = sending.saturating_sub(self.state.on_end) / on.0 + 1;
        self.state.turn = self.state.turn.wrapping_add(turns);
        self.state.silence = self.state.silence.checked_add(turns.checked_mul(off.0)?)?;
        self.state.on_end = self.state.on_end.checked_add(turns.checked_mul(on.0)?)?;
        sending.checked_add(self.state.silence)
    }

    /// Length of the current on-period or of the off-period after it.
    fn length(&self, mean: Ps, lengths: Spacing, which: u64) -> u64 {
        let gap = lengths.gap(hash(hash(self.key ^ which) ^ self.state.turn));
        u64::try_from(gap.saturating_mul(u128::from(mean.0)) >> FRACTION_BITS).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
#[path = "clock_tests.rs"]
mod tests;
