//! Setup of a rate-controlled replay: whether a trace allows it, and its parameters.

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

/// Pace and machine of a rate-controlled replay.
pub(super) struct RateSetup {
    pub config: MachineConfig,
    pub pace: Pace,
    pub seed: u64,
}

impl RateSetup {
    /// Creates the replay of harts recorded together, from `begin` on; or returns why it is impossible.
    pub fn create(
        &self,
        survey: &Survey,
        at_end: AtEnd,
        begin: Ps,
        harts: &Range<usize>,
    ) -> Result<RateReplay, PlaybackError> {
        let refuse = |problem: String| Err(PlaybackError::Pace(problem));
        if at_end == AtEnd::StartsOver {
            return refuse("a trace at this pace cannot repeat".to_owned());
        }
        if let Some(problem) = survey.pace_problem() {
            return refuse(problem);
        }
        if let Some(device) = survey.split_device(harts) {
            return refuse(format!(
                "the events of device {device} follow instructions of harts that were not recorded together; play it as recorded"
            ));
        }
        if let Pace::Closed { window } = self.pace {
            if window == 0 {
                return refuse("the window must be at least 1 request".to_owned());
            }
            if let Some(problem) = survey.pairing_problem() {
                return refuse(format!("a closed loop needs one answer per request: {problem}"));
            }
            if survey.devices.values().any(|of| of.received > 0 && of.follows_harts(harts))
                && !survey.has_all_traffic(harts)
            {
                return refuse(
                    "a closed loop needs the answers from the harts that receive the requests, but another part of the merged trace sends frames too"
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
        match Ports::new(&survey.nics, ports).port_of(device) {
            port if port < ports => self.config.port(port).link,
            _ => self.config.link.clone(),
        }
    }

    /// Frame arrivals at a device, if it receives any.
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
                    DueTimes::new(rate, arrivals, frame_len, begin, key, &link)?,
                    frame_len,
                    &link,
                )
            }
        }))
    }
}
