//! A whole search, as in its `summary.json`.

use serde::{Deserialize, Serialize};

use crate::drops::Drops;
use crate::limit::Limit;
use crate::point::PointSummary;
use crate::run::SummaryError;
use crate::run_identity::RunIdentity;
use crate::steady::Steady;

/// A whole search, as in its `summary.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchSummary {
    /// The benchmark's name.
    pub benchmark: String,
    /// The preset that the configuration started from.
    pub preset: String,
    /// The version of Doorbell.
    pub doorbell_version: String,
    /// The simulator, images and traces of the search.
    #[serde(default)]
    pub ran: RunIdentity,
    /// The command line of the search.
    pub command: String,
    /// The goal, in words.
    pub goal: String,
    /// Largest acceptable loss, as a share of the offered frames.
    pub loss_goal: f64,
    /// Requested width of the interval, as a share of its upper end.
    #[serde(default)]
    pub precision: f64,
    /// The lowest rate to try, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<String>,
    /// The highest rate to try, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<String>,
    /// The least number of frames in a trial's window, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<u64>,
    /// Number of concurrent trials.
    #[serde(default)]
    pub jobs: usize,
    /// Host time from the warm checkpoint to the end.
    pub host_seconds: f64,
    /// Missing parts, if the search ended before all sizes were done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
    /// One search for each completed frame size.
    pub searches: Vec<SizeSummary>,
}

impl SearchSummary {
    /// Whether a `summary.json` belongs to a search rather than a run.
    pub fn is_in(text: &str) -> bool {
        serde_json::from_str::<serde_json::Value>(text).is_ok_and(|value| value.get("searches").is_some())
    }

    /// Reads the text of a `summary.json`.
    pub fn from_json(text: &str) -> Result<SearchSummary, SummaryError> {
        Ok(serde_json::from_str(text)?)
    }

    /// The text of `summary.json`.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a summary serialises");
        text.push('\n');
        text
    }
}

/// The search for one frame size. Rates are per port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizeSummary {
    /// Bytes of each frame with FCS.
    pub frame_size: u64,
    /// The highest rate that met the goal, in million frames per second; `null` if none did.
    pub low_mpps: Option<f64>,
    /// The lowest rate that missed the goal; `null` if none did.
    pub high_mpps: Option<f64>,
    /// `low_mpps` in bits per second at layer 2, in units of 10⁹.
    pub low_gbps: Option<f64>,
    /// `high_mpps` in the same unit.
    pub high_gbps: Option<f64>,
    /// Why the search ended: `precise`, `at_highest`, `below_lowest`, `undecided` or `too_many`.
    pub ended: String,
    /// Rates above the interval that met the goal although a lower rate missed it, in million frames per
    /// second.
    pub inversions_mpps: Vec<f64>,
    /// The trials that determine the result, in order.
    pub trials: Vec<TrialSummary>,
    /// Resources used.
    pub cost: SearchCost,
    /// The bottleneck; `None` if no trial shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// All figures at the interval's lower end.
    #[serde(default)]
    pub at_low: Option<PointSummary>,
}

/// One trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialSummary {
    /// Offered frames per second at each port, in millions.
    pub rate_mpps: f64,
    /// `below` the sought rate, `above` it, or `undecided`.
    pub verdict: String,
    /// Frames offered in the window.
    pub frames_offered: u64,
    /// Offered frames that never came back.
    #[serde(default)]
    pub frames_lost: u64,
    /// Causes of loss in the whole trial; `None` in files of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drops: Option<Drops>,
    /// Lost frames as a share of the offered frames: 1 − arrived / offered, corrected for the change of
    /// frames in queues and on links.
    pub loss: f64,
    /// Statistical error of `loss`.
    pub loss_error: f64,
    /// The correction: growth of the frames in queues and on links, as a share of the offered frames.
    pub occupancy_correction: f64,
    /// Length of the window in simulated seconds.
    pub window_seconds: f64,
    /// Simulated time of the trial, from the warm checkpoint.
    pub simulated_seconds: f64,
    /// Delivered frames per second in the window at all ports, in millions.
    pub delivered_mpps: f64,
    /// Median round trip in nanoseconds; `null` if no frame came back.
    #[serde(default)]
    pub latency_p50_ns: Option<f64>,
    /// The 99th percentile.
    pub latency_p99_ns: Option<f64>,
    /// Confidence interval of the percentile that the goal bounds, in nanoseconds; `null` if it bounds none.
    #[serde(default)]
    pub latency_bounded_ns: Option<[f64; 2]>,
    /// Whether its caches were steady before the timed part; the verdict covers the queues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady: Option<Steady>,
    /// Hash of the machine's state at the end.
    #[serde(default)]
    pub state_hash: String,
    /// Host time of the trial.
    pub host_seconds: f64,
}

/// Resources used by a search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SearchCost {
    /// Trials that determine the result.
    pub trials: u64,
    /// Simulated time of these trials.
    pub simulated_seconds: f64,
    /// Host time of these trials, summed over cores.
    pub host_seconds: f64,
    /// Speculative trials that turned out not to be needed.
    pub trials_ahead: u64,
    /// Host time of the speculative trials.
    pub host_seconds_ahead: f64,
    /// Elapsed host time.
    pub host_seconds_elapsed: f64,
}
