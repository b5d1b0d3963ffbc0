//! Length of a machine's measurement: a fixed time, a number of offered frames, or until a window is steady.

use doorbell_machine::{ConfigError, Machine, WatchReport, WatchRequest};
use doorbell_sim::{Frame, Ps};

use crate::error::RunError;
use crate::figures::timing;
use crate::measure::point::merged_measurement;
use crate::plan::config::RunConfig;
use crate::testbed::steady::so_far;
use crate::testbed::system::System;
use crate::window::machine::{OpenWindow, Window};
use crate::window::observe::Trace;
use crate::window::phases::Run;

impl Run<'_, '_, Machine> {
    /// Warms up and measures. With an automatic length, a window that was not steady is discarded, and the
    /// next one begins.
    pub fn measure(
        &mut self,
        config: &RunConfig,
        watch: Option<&WatchRequest>,
        trace: Option<&Trace>,
    ) -> Result<(Window, Option<WatchReport>), RunError> {
        let mut steady = self.approach()?;
        let start = self.system.now();
        let mut length = config.run.measured_time();
        loop {
            let mut open = self.open_window(watch, trace)?;
            match config.run.frames {
                Some(frames) => {
                    self.control.begin("measuring", open.start.at, None);
                    self.until_offered(&mut open, frames, config)?;
                }
                None => self.until_measured(&mut open, length)?,
            }
            let next = self.next_length(&open, length).filter(|next| {
                let all = self.system.now().saturating_sub(start).saturating_add(*next);
                config.run.is_auto() && trace.is_none() && all <= config.run.duration_limit
            });
            let Some(next) = next else {
                let (window, watched) = self.close_window(open)?;
                let [begin, end] = &window.span;
                let requested = config.run.frames.is_none().then_some(length);
                begin.differs(end, requested).iter().for_each(|line| (self.control.say)(line));
                return Ok((Window { steady: Some(steady), ..window }, watched));
            };
            self.system.end_watch();
            steady.discarded += 1;
            length = next;
        }
    }

    /// Runs a window to its end. Memory and queues are sampled if the machine is timed; in a functional run,
    /// stops would split blocks of instructions.
    fn until_measured(&mut self, open: &mut OpenWindow, length: Ps) -> Result<(), RunError> {
        let start = open.start.at;
        self.control.begin("measuring", start, Some(length));
        let parts = if open.memory.is_empty() { 0 } else { timing::PARTS };
        for part in 1..=parts {
            self.until_in(open, start + Ps(length.0 / timing::PARTS * part))?;
            open.queues.push(self.system.sample().queues.iter().sum());
            // The last memory sample is taken when the window closes.
            if part < parts {
                open.memory.sample(self.system);
            }
        }
        self.until_in(open, start + length)
    }

    /// Length of the next window, or `None` if this one was steady or a generator has no frames left. The
    /// length doubles if this window was too short to tell.
    fn next_length(&self, open: &OpenWindow, length: Ps) -> Option<Ps> {
        let generators = self.system.generators();
        if self.loads.is_empty() || !generators.iter().all(|generator| generator.is_sending()) {
            return None;
        }
        let batches = merged_measurement(self.system).summary(self.system.now()).batches;
        let phase = so_far(&batches, &open.queues, String::new());
        let changes = phase.criteria.iter().any(|criterion| criterion.met == Some(false));
        let unknown = phase.criteria.iter().any(|criterion| criterion.met.is_none());
        match (changes, unknown) {
            (true, _) => Some(length),
            (false, true) => Some(Ps(length.0.saturating_mul(2))),
            (false, false) => None,
        }
    }

    /// Runs until the first generator has offered exactly `frames` frames in the window. Generators on
    /// equally fast links have then offered as many.
    fn until_offered(
        &mut self,
        open: &mut OpenWindow,
        frames: u64,
        config: &RunConfig,
    ) -> Result<(), RunError> {
        let offered = |machine: &Machine| {
            let measurement = machine.ports()[0].loadgen.measurement().expect("a window is open");
            measurement.volumes().0.frames
        };
        let traffic = &config.loadgen.traffic;
        if !traffic.streams.is_empty() || !traffic.is_constant() && traffic.outstanding.is_none() {
            return self.until_offered_one_by_one(open, frames, config);
        }
        let link = config.port(0).link;
        let line = link.frames_per_second(traffic.frame_len());
        let line = line.0 as f64 / line.1 as f64;
        let due = doorbell_loadgen::Pacing::new(Ps::ZERO, traffic.rate, traffic.frame_len(), &link);
        // In a closed loop, frames that were held back may leave back to back.
        let per_second = if traffic.outstanding.is_some() { line } else { due.frames_per_second().min(line) };
        loop {
            let left = frames.saturating_sub(offered(self.system));
            if left == 0 {
                return Ok(());
            }
            // Half a frame time before the last frame, so that a step never passes it; the last step is half
            // a frame.
            let step = ((left as f64 - 0.5) / per_second * 1e12) as u64;
            let until = self.system.complete_until() + Ps(step.max(1));
            self.until_in(open, until)?;
        }
    }

    /// The same for streams and for varying distances between frames. With random arrivals, other generators
    /// may have sent slightly more or fewer frames.
    fn until_offered_one_by_one(
        &mut self,
        open: &mut OpenWindow,
        frames: u64,
        config: &RunConfig,
    ) -> Result<(), RunError> {
        // Time of the shortest frame on the link.
        let (rate, bits) =
            config.port(0).link.frames_per_second(Frame::MIN_BYTES_WITH_FCS - Frame::FCS_BYTES);
        let shortest = bits as f64 / rate as f64 * 1e12;
        loop {
            let generator = &self.system.ports()[0].loadgen;
            let offered = generator.measurement().map_or(0, |window| window.volumes().0.frames);
            let left = frames.saturating_sub(offered);
            if left == 0 {
                return Ok(());
            }
            // A frame leaves when it is due and the link has transmitted the frames before it, whichever is
            // later.
            let due = generator.frame_due(left - 1);
            let Some(due) = due.filter(|_| generator.is_sending()) else {
                let short = left - generator.frames_to_come(left);
                return Err(ConfigError::new("run.frames", too_few(frames, short)).into());
            };
            let carried = self.system.complete_until() + Ps(((left as f64 - 0.5) * shortest).max(1.0) as u64);
            self.until_in(open, due.max(carried))?;
        }
    }
}

/// The error for streams that end before the measurement has its frames.
fn too_few(frames: u64, short: u64) -> String {
    let noun = if short == 1 { "frame" } else { "frames" };
    format!(
        "the streams end {short} {noun} short of these {frames}; make the streams longer (a capture: replay.times), shorten the phases \
         before the measurement (run.warmup, run.settle), or set fewer frames"
    )
}
