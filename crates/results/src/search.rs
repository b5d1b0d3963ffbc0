//! A whole search, as its `summary.json` holds it.

use serde::{Deserialize, Serialize};

use crate::drops::Drops;
use crate::limit::Limit;
use crate::point::PointSummary;
use crate::ran::Ran;
use crate::run::SummaryError;
use crate::steady::Steady;

/// A whole search as `summary.json` has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchSummary {
    /// The benchmark's name.
    pub benchmark: String,
    /// The preset that the configuration started from.
    pub preset: String,
    /// The version of Doorbell.
    pub doorbell_version: String,
    /// What ran, exactly.
    #[serde(default)]
    pub ran: Ran,
    /// The command that made this.
    pub command: String,
    /// What was sought, in words.
    pub goal: String,
    /// Lost frames as a share of the offered, at most.
    pub loss_goal: f64,
    /// How narrow the interval was to be, as a share of its upper end.
    #[serde(default)]
    pub precision: f64,
    /// The lowest rate that was to be tried, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<String>,
    /// The highest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<String>,
    /// The least number of frames of a trial's window, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<u64>,
    /// How many trials ran at once.
    #[serde(default)]
    pub jobs: usize,
    /// Host time from the warm checkpoint to the end.
    pub host_seconds: f64,
    /// What is missing, if the search was ended before all sizes were done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
    /// One search for each frame size that is done.
    pub searches: Vec<SizeSummary>,
}

impl SearchSummary {
    /// Whether a `summary.json` is a search's and not a run's.
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

/// The search for one frame size. Rates are those at each port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizeSummary {
    /// Bytes of each frame with FCS.
    pub frame_size: u64,
    /// The highest rate that met the goal, in million frames a second; `null` if none did.
    pub low_mpps: Option<f64>,
    /// The lowest rate that missed it; `null` if none did.
    pub high_mpps: Option<f64>,
    /// The same in bits a second at layer 2, in units of 10⁹.
    pub low_gbps: Option<f64>,
    /// The same.
    pub high_gbps: Option<f64>,
    /// Why the interval is no narrower: `precise`, `at_highest`, `below_lowest`, `undecided` or `too_many`.
    pub ended: String,
    /// Rates above the interval that met the goal although a lower one missed it, in million frames a second.
    pub inversions_mpps: Vec<f64>,
    /// The trials that the answer is built of, in their order.
    pub trials: Vec<TrialSummary>,
    /// What it took.
    pub cost: SearchCost,
    /// What kept the rate from being higher; `None` if no trial shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// All figures at the interval's lower end.
    #[serde(default)]
    pub at_low: Option<PointSummary>,
}

/// One trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialSummary {
    /// Offered frames a second at each port, in millions.
    pub rate_mpps: f64,
    /// `below` the rate that is sought, `above` it, or `undecided`.
    pub verdict: String,
    /// Frames offered in the window.
    pub frames_offered: u64,
    /// Of these, those that never came back.
    #[serde(default)]
    pub frames_lost: u64,
    /// What frames of the whole trial were lost to; `None` in files of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drops: Option<Drops>,
    /// Lost frames as a share of the offered: 1 − arrived / offered, corrected for the change in what queues and links hold.
    pub loss: f64,
    /// By how much chance may have moved it.
    pub loss_error: f64,
    /// That correction: by how much what they hold grew, as a share of the offered frames.
    pub occupancy_correction: f64,
    /// Length of the window in simulated seconds.
    pub window_seconds: f64,
    /// Simulated time of the trial, from the warm checkpoint.
    pub simulated_seconds: f64,
    /// Delivered frames a second in the window at all ports, in millions.
    pub delivered_mpps: f64,
    /// Round trips in nanoseconds; `null` if no frame came back.
    #[serde(default)]
    pub latency_p50_ns: Option<f64>,
    /// The same.
    pub latency_p99_ns: Option<f64>,
    /// Between which times the percentile lies that the goal bounds, in nanoseconds; `null` if it bounds none.
    #[serde(default)]
    pub latency_bounded_ns: Option<[f64; 2]>,
    /// Whether its caches were steady before it was timed; that its queues are is for its verdict to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady: Option<Steady>,
    /// Hash of the machine's state at the end.
    #[serde(default)]
    pub state_hash: String,
    /// Host time of the trial.
    pub host_seconds: f64,
}

/// What a search took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SearchCost {
    /// Trials that the answer is built of.
    pub trials: u64,
    /// Simulated time of these.
    pub simulated_seconds: f64,
    /// Host time of these, summed over cores.
    pub host_seconds: f64,
    /// Trials that were begun ahead and not needed.
    pub trials_ahead: u64,
    /// Host time of those.
    pub host_seconds_ahead: f64,
    /// Host time from begin to end.
    pub host_seconds_elapsed: f64,
}
