//! What another pace than the recorded one asks of a trace.

use std::ops::Range;

use doorbell_loadgen::DueTimes;
use doorbell_sim::Ps;
use doorbell_wire::LinkConfig;

use super::PlaybackError;
use super::devices::Ports;
use super::frame_arrivals::FrameArrivals;
use super::plan::{AtEnd, Pace};
use super::rate_replay::RateReplay;
use super::survey::Survey;
use crate::config::MachineConfig;

/// A pace, on a machine.
pub(super) struct RateSetup {
    pub config: MachineConfig,
    pub pace: Pace,
    pub seed: u64,
}

impl RateSetup {
    /// Of some harts of a trace, all that were recorded together, whose devices do this, from `begin` on; or why not.
    pub fn of(
        &self,
        survey: &Survey,
        at_end: AtEnd,
        begin: Ps,
        harts: &Range<usize>,
    ) -> Result<RateReplay, PlaybackError> {
        let refuse = |problem: String| Err(PlaybackError::Pace(problem));
        if at_end == AtEnd::StartsOver {
            return refuse("a trace that is rate_replay ends, and does not start over".to_owned());
        }
        if let Some(problem) = survey.pace_problem() {
            return refuse(problem);
        }
        if let Some(device) = survey.split_device(harts) {
            return refuse(format!(
                "harts that were not recorded together tell what its device {device} did; play it as recorded"
            ));
        }
        if let Pace::Closed { window } = self.pace {
            if window == 0 {
                return refuse("a window has 1 request at least".to_owned());
            }
            if let Some(problem) = survey.pairing_problem() {
                return refuse(format!(
                    "a closed loop needs requests and answers that pair, and in it {problem}"
                ));
            }
            if survey.devices.values().any(|of| of.received > 0 && of.is_driven_by(harts))
                && !survey.has_all_traffic(harts)
            {
                return refuse(
                    "a closed loop needs answers of those that are asked, and another of the traces that it was merged of sends frames, too"
                        .to_owned(),
                );
            }
        }
        let mut problem = None;
        let mut arrivals = |device: u8| match self.arrivals(survey, device, begin) {
            Ok(arrivals) => (self.link(survey, device), arrivals),
            Err(wrong) => {
                problem = Some(wrong);
                (self.link(survey, device), None)
            }
        };
        let rate_replay = RateReplay::new(survey, harts, &mut arrivals);
        problem.map_or(Ok(rate_replay), refuse)
    }

    fn link(&self, survey: &Survey, device: u8) -> LinkConfig {
        let ports = self.config.platform.nics as usize;
        match Ports::new(&survey.nics, ports).of(device) {
            port if port < ports => self.config.port(port).link,
            _ => self.config.link.clone(),
        }
    }

    /// Frames that arrive at a device, if it receives any.
    fn arrivals(&self, survey: &Survey, device: u8, begin: Ps) -> Result<Option<FrameArrivals>, String> {
        let (of, link) = (&survey.devices[&device], self.link(survey, device));
        if of.received == 0 {
            return Ok(None);
        }
        let frame_len = of.mean_frame_len();
        Ok(Some(match self.pace {
            Pace::Recorded => return Ok(None),
            Pace::Closed { window } => FrameArrivals::closed(window, frame_len, begin, &link),
            Pace::Rate { rate, arrivals } => {
                let key = self.seed ^ (u64::from(device) << 32);
                FrameArrivals::at_rate(
                    DueTimes::new(rate, arrivals, (frame_len, begin), key, &link)?,
                    frame_len,
                    &link,
                )
            }
        }))
    }
}
