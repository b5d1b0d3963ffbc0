//! Steady-state detection on a synthetic system.

use doorbell_machine::BufferUse;
use doorbell_pcie::network::RingLevel;

use super::*;

/// A synthetic system with constant frame rate.
struct Made {
    sample: Sample,
    /// Frames per sampling interval.
    frames: u64,
    /// LLC misses per frame as a function of the frames so far.
    misses: fn(u64) -> u64,
    /// Growth of a queue per sampling interval.
    growth: u64,
    /// Number of packet buffers.
    pool: u64,
}

impl Made {
    fn new() -> Made {
        let ring = RingLevel { descriptors: 1024, waiting: 0, consumed: 70_000 };
        let sample = Sample {
            now: Ps::from_ms(500),
            frames: 5,
            instructions: 0,
            misses: [("LLC, other".to_owned(), 0)].into(),
            queues: [0; 5],
            rings: vec![ring; 2],
            buffers: BufferUse::default(),
        };
        Made { sample, frames: 20, misses: |_| 0, growth: 0, pool: 2048 }
    }

    /// Runs to a time.
    fn to(&mut self, time: Ps) -> Result<Sample, ()> {
        while self.sample.now < time {
            self.sample.now += SAMPLE_INTERVAL;
            let Sample { frames, instructions, misses, queues, rings, buffers, .. } = &mut self.sample;
            *misses.get_mut("LLC, other").unwrap() += (self.misses)(*frames) * self.frames;
            *frames += self.frames;
            *instructions += 50_000;
            queues[1] += self.growth;
            rings.iter_mut().for_each(|ring| ring.consumed += self.frames / 2);
            buffers.used += self.frames;
            buffers.new = buffers.used.min(self.pool);
        }
        Ok(self.sample.clone())
    }

    fn phase(&mut self, caches: bool, length: Length, limit: Ps) -> Option<SteadyPhase> {
        let watch = Watch::begin(caches, Pace::Generators, Ps::ZERO, self.sample.clone());
        watch.until_steady(length, limit, |time| self.to(time)).unwrap()
    }
}

fn of<'a>(phase: &'a SteadyPhase, name: &str) -> &'a SteadyCriterion {
    phase.criteria.iter().find(|criterion| criterion.name == name).unwrap()
}

/// Milliseconds, rounded to the resolution of the sampling interval.
fn ms(seconds: f64) -> f64 {
    (seconds * 1e5).round() / 100.0
}

const LONG: Ps = Ps::from_ms(100);

#[test]
fn caches_are_steady_after_five_stretches_if_rings_wrap_around_in_the_first() {
    // 100 descriptors per sample: rings wrap around in 11 samples. All buffers are used in the same stretch.
    let mut made = Made { frames: 200, ..Made::new() };
    let phase = made.phase(true, Length::Auto, LONG).unwrap();
    assert_eq!((phase.asked.as_str(), ms(phase.seconds)), ("auto", 5.0));
    assert!(phase.unmet().next().is_none());
    assert_eq!(ms(of(&phase, "rings").seconds.unwrap()), 0.17);
}

#[test]
fn stretches_do_not_count_before_rings_have_wrapped_around_and_buffers_are_reused() {
    // Frames miss until 4096 have arrived and rings have wrapped around twice: after 103 and 205 samples of
    // 10 descriptors.
    let mut made = Made { misses: |frames| u64::from(frames < 4096), pool: 4096, ..Made::new() };
    let phase = made.phase(true, Length::Auto, LONG).unwrap();
    let rings = of(&phase, "rings").seconds.unwrap();
    assert_eq!(ms(rings), ms(103.0 * SAMPLE_INTERVAL.as_secs_f64()));
    // A stretch is a quarter of a ring, 26 samples of 15.625 µs, but at least a millisecond: 64 samples.
    let caches = of(&phase, "caches").seconds.unwrap();
    assert_eq!(ms(caches), ms(8.0 * 1e-3));
    assert_eq!(phase.seconds, caches);
    assert!(phase.seconds > 205.0 * SAMPLE_INTERVAL.as_secs_f64());
}

#[test]
fn phase_ends_at_its_limit_with_the_unmet_criteria() {
    let mut made = Made { frames: 2, ..Made::new() };
    let phase = made.phase(true, Length::Auto, Ps::from_ms(10)).unwrap();
    assert_eq!(ms(phase.seconds), 10.0);
    let rings = of(&phase, "rings");
    assert_eq!((rings.met, rings.seconds, rings.seen.as_str()), (Some(false), None, "0.62 rounds"));
    assert_eq!(of(&phase, "caches").met, None);
    // Misses per frame keep rising.
    let mut made = Made { frames: 200, misses: |frames| frames >> 10, ..Made::new() };
    let phase = made.phase(true, Length::Auto, Ps::from_ms(20)).unwrap();
    let caches = of(&phase, "caches");
    assert_eq!((caches.met, caches.seconds), (Some(false), None));
    assert!(caches.seen.starts_with("LLC, other: "), "{}", caches.seen);
}

#[test]
fn system_without_frames_is_not_steady_unless_none_are_expected() {
    let mut made = Made { frames: 0, ..Made::new() };
    let phase = made.phase(true, Length::Auto, LONG).unwrap();
    assert_eq!(ms(phase.seconds), 100.0);
    assert_eq!(of(&phase, "rings").seen, "no descriptor was used");
    assert_eq!(
        (of(&phase, "caches").met, of(&phase, "caches").seen.as_str()),
        (Some(false), "no frames arrived")
    );
    // If no frames are expected, misses are counted per instruction.
    let watch = Watch::begin(true, Pace::Silent, Ps::ZERO, made.sample.clone());
    let phase = watch.until_steady(Length::Auto, LONG, |time| made.to(time)).unwrap().unwrap();
    assert_eq!((ms(phase.seconds), phase.unmet().count()), (4.0, 0));
}

#[test]
fn queues_are_steady_once_they_stop_growing() {
    let steady = Made::new().phase(false, Length::Auto, LONG).unwrap();
    assert_eq!((ms(steady.seconds), steady.unmet().count()), (1.0, 0));
    // One frame in twenty stays in the queue.
    let mut made = Made { growth: 1, ..Made::new() };
    let phase = made.phase(false, Length::Auto, Ps::from_ms(20)).unwrap();
    assert_eq!((ms(phase.seconds), of(&phase, "queues").met), (20.0, Some(false)));
    // No more frames stay.
    made.growth = 0;
    let phase = made.phase(false, Length::Auto, LONG).unwrap();
    assert_eq!((ms(phase.seconds), phase.unmet().count()), (1.0, 0));
}

#[test]
fn phase_of_given_length_lasts_that_long_and_is_evaluated() {
    assert_eq!(Made::new().phase(false, Length::For(Ps::ZERO), LONG), None);
    let short = Made::new().phase(false, Length::For(Ps(SAMPLE_INTERVAL.0 * 4)), LONG).unwrap();
    assert_eq!((short.asked.as_str(), ms(short.seconds)), ("62500ns", 0.06));
    assert_eq!((of(&short, "queues").met, of(&short, "queues").seen.as_str()), (None, "too short to tell"));
    let long = Made { frames: 200, ..Made::new() }.phase(true, Length::For(Ps::from_ms(30)), LONG).unwrap();
    assert_eq!((ms(long.seconds), ms(of(&long, "caches").seconds.unwrap())), (30.0, 5.0));
}

#[test]
fn stretches_are_longer_on_a_longer_link() {
    let made = Made::new();
    let mut other = Made::new();
    let watch = Watch::begin(false, Pace::Generators, Ps::from_us(500), made.sample);
    let phase = watch.until_steady(Length::Auto, LONG, |time| other.to(time)).unwrap().unwrap();
    assert_eq!(ms(phase.seconds), 8.0);
}

#[test]
fn infrequent_misses_are_steady_over_longer_stretches() {
    // There are misses every 512,000 frames, which are four stretches.
    let mut made =
        Made { frames: 2000, misses: |frames| u64::from(frames % 512_000 < 20_000), ..Made::new() };
    let phase = made.phase(true, Length::Auto, LONG).unwrap();
    assert_eq!(phase.unmet().count(), 0);
    assert!(phase.seconds > 9e-3 && phase.seconds < 60e-3, "{}", phase.seconds);
}
