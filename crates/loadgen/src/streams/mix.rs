//! The total rate of several streams: each stream's share, and the mean over all frames.

use std::sync::Arc;

use doorbell_sim::{Frame, Ps};
use doorbell_wire::LinkConfig;

use super::clock::{RampProfile, RateProfile};
use super::config::StreamConfig;
use super::replay::Replay;
use super::replay_config::Timing;
use crate::config::TrafficConfig;
use crate::rate::{Pacing, Rate};
use crate::volume::Volume;

/// The frames of a stream, as far as its rate depends on them.
pub(crate) struct Shape {
    /// Frame lengths of a round, without FCS.
    round: Vec<usize>,
    replay: Option<Arc<Replay>>,
}

impl Shape {
    pub(crate) fn new(stream: &StreamConfig, replay: Option<Arc<Replay>>) -> Shape {
        let round = match &replay {
            Some(replay) => replay.lens(),
            None => stream.size.round().into_iter().map(|size| size.0 as usize - Frame::FCS_BYTES).collect(),
        };
        Shape { round, replay }
    }

    /// The stream's configured rate profile.
    fn profile(&self, stream: &StreamConfig, link: &LinkConfig) -> RateProfile {
        if stream.timing() == Some(Timing::Stamps) {
            let speed = stream.replay.clone().unwrap_or_default().speed;
            return RateProfile { begin: Pacing::of_clock(speed.0), ramp: None, stamps: self.replay.clone() };
        }
        let pacing = |rate| Pacing::of_round(Ps::ZERO, rate, &self.round, link);
        let ramp = stream.ramp.map(|ramp| RampProfile { over: ramp.over, after: pacing(ramp.to) });
        RateProfile { begin: pacing(stream.rate), ramp, stamps: None }
    }

    /// The volume of a round.
    fn volume(&self, link: &LinkConfig) -> Volume {
        let mut sum = Volume::default();
        self.round.iter().for_each(|frame_len| sum.add(Volume::of_frame(*frame_len, link)));
        sum
    }
}

impl RateProfile {
    fn scale_rates(&mut self, by: impl Fn(Pacing) -> Pacing) {
        self.begin = by(self.begin);
        self.ramp.iter_mut().for_each(|ramp| ramp.after = by(ramp.after));
    }

    /// Initial frames per second.
    fn frames_per_second(&self) -> f64 {
        match &self.stamps {
            None => self.begin.frames_per_second(),
            Some(replay) => {
                let span = self.begin.offset(u128::from(replay.span().0), 0).unwrap_or(u64::MAX);
                replay.count() as f64 / Ps(span.max(1)).as_secs_f64()
            }
        }
    }
}

/// Rate profiles of validated streams: their own, or scaled to the traffic's `total`.
pub(crate) fn profiles(traffic: &TrafficConfig, shapes: &[Shape], link: &LinkConfig) -> Vec<RateProfile> {
    let own = traffic.streams.iter().zip(shapes).map(|(stream, shape)| shape.profile(stream, link));
    let mut profiles: Vec<RateProfile> = own.collect();
    match (traffic.total, profiles.as_mut_slice()) {
        (None, _) => {}
        (Some(Rate::Times(times)), all) => {
            all.iter_mut().for_each(|profile| profile.scale_rates(|own| own.scaled_by_millionths(times)))
        }
        // A single stream without ramp or timestamps takes the total exactly.
        (Some(total), [only]) if only.ramp.is_none() && only.stamps.is_none() => {
            only.begin = Pacing::of_round(Ps::ZERO, total, &shapes[0].round, link);
        }
        (Some(total), all) => {
            let mix = Mix::of(shapes, all, link);
            let factor = mix.frames_per_second_at(total, link) / mix.rate;
            all.iter_mut().for_each(|profile| profile.scale_rates(|own| own.scaled(factor)));
        }
    }
    profiles
}

/// All streams together.
pub(crate) struct Mix {
    /// Frames per second.
    rate: f64,
    /// Mean bits per frame at layer 2 and layer 1.
    pub(crate) bits_l2: f64,
    bits_l1: f64,
}

impl Mix {
    pub(crate) fn of(shapes: &[Shape], profiles: &[RateProfile], link: &LinkConfig) -> Mix {
        let mut mix = Mix { rate: 0.0, bits_l2: 0.0, bits_l1: 0.0 };
        for (shape, profile) in shapes.iter().zip(profiles) {
            let (rate, sum) = (profile.frames_per_second(), shape.volume(link));
            mix.rate += rate;
            mix.bits_l2 += rate * 8.0 * sum.bytes_l2 as f64 / sum.frames as f64;
            mix.bits_l1 += rate * 8.0 * sum.bytes_l1 as f64 / sum.frames as f64;
        }
        Mix { bits_l2: mix.bits_l2 / mix.rate, bits_l1: mix.bits_l1 / mix.rate, ..mix }
    }

    /// Converts a rate of the mix to frames per second.
    fn frames_per_second_at(&self, rate: Rate, link: &LinkConfig) -> f64 {
        match rate {
            Rate::Frames(frames) => frames as f64,
            Rate::BitsL2(bits) => bits.0 as f64 / self.bits_l2,
            Rate::BitsL1(bits) => bits.0 as f64 / self.bits_l1,
            Rate::Line(share) => link.rate.0 as f64 / self.bits_l1 * share as f64 / 1e8,
            Rate::Times(times) => self.rate * times as f64 / Rate::ONCE as f64,
        }
    }
}
