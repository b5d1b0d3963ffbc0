//! The results of one offered load.

use serde::{Deserialize, Serialize};

use crate::drops::Drops;
use crate::figures::FigureKey;
use crate::functions::FunctionCost;
use crate::iperf::IperfFigures;
use crate::kinds::KindFigures;
use crate::latency::{BatchSummary, Confidence, LatencySummary};
use crate::limit::{self, Limit};
use crate::memory_part::MemoryPart;
use crate::network::{NetworkFigures, WindowSummary};
use crate::number::{finite, or_nan, unknown};
use crate::played::{PlayedFigures, PlayedNeighbour};
use crate::ports::PortFigures;
use crate::run::SummaryError;
use crate::stages::{QueueStages, StageSummaries};
use crate::steady::{Steady, SteadyPhase};
use crate::streams::StreamSummary;
use crate::timing::{CoreFigures, TimingFigures};
use crate::transfer::TransferFigures;

/// Larger rates, times or ratios do not occur in a real run: the file is damaged.
const LARGEST_PLAUSIBLE: f64 = 1e15;

/// The results of one offered load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PointSummary {
    /// The benchmark's name.
    pub benchmark: String,
    /// Hash of the resolved configuration.
    pub config_hash: String,
    /// The rate as configured; with streams, their total, or `1x` if their own rates are unchanged.
    pub rate: String,
    /// Bytes of each frame with FCS; the mean if they differ.
    pub frame_size: u64,
    /// Frames whose first bit was sent in the measurement.
    pub frames_offered: u64,
    /// Offered frames that came back intact.
    pub frames_delivered: u64,
    /// Offered frames that came back modified.
    pub frames_corrupt: u64,
    /// Requests given up after `loadgen.traffic.timeout` while others waited for their turn; counted as lost.
    #[serde(default)]
    pub frames_timed_out: u64,
    /// Frames that came back between the start of the measurement and the end of its drain, but too late:
    /// `loadgen.traffic.timeout` had passed, or `loadgen.tracked_frames` others had been sent. Counted as
    /// lost.
    #[serde(default)]
    pub frames_late: u64,
    /// Intact frames that arrived in the measurement after a frame that was sent later (RFC 4737 §3.4).
    #[serde(default)]
    pub frames_reordered: u64,
    /// Frames that came back in the measurement more than once.
    #[serde(default)]
    pub frames_duplicate: u64,
    /// 1 − delivered / offered.
    #[serde(deserialize_with = "or_nan")]
    pub drop_rate: f64,
    /// Causes of the loss.
    pub drops: Drops,
    /// Offered bits per second at layer 2 (with FCS), in units of 10⁹.
    pub offered_gbps: f64,
    /// Delivered bits per second at layer 2. For requests, the delivered frames are the responses, which have
    /// their own sizes.
    pub delivered_gbps: f64,
    /// Offered frames per second, in millions.
    pub offered_mpps: f64,
    /// Delivered frames per second, in millions.
    pub delivered_mpps: f64,
    /// Frames per second, in millions, that came back in the measurement, whenever they were sent: the
    /// machine's throughput. Under overload this is its capacity, independent of the fill level of its FIFOs.
    #[serde(default = "unknown")]
    pub arrived_mpps: f64,
    /// The same in 10⁹ bits per second at layer 2, with FCS.
    #[serde(default = "unknown")]
    pub arrived_gbps: f64,
    /// Utilisation of the cable of the port with most traffic, in the busier direction, including preambles
    /// and gaps. `null` for networks, and in files of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire_share: Option<f64>,
    /// Frames that were due in the measurement but that a drive node could not send: then it is the
    /// bottleneck.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive_behind: Option<u64>,
    /// In a closed loop, the most frames in flight (`loadgen.traffic.outstanding`); other due frames waited
    /// for these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outstanding: Option<u32>,
    /// Round trips in nanoseconds, from the time each frame was due; `null` if no frame came back.
    pub latency_ns: Option<LatencySummary>,
    /// Round trips from the time the first bit was sent: without the wait for the generator's link.
    #[serde(default)]
    pub latency_from_actual_ns: Option<LatencySummary>,
    /// Difference between the round trips of two consecutive returned frames (RFC 3393, jitter).
    #[serde(default)]
    pub delay_variation_ns: Option<LatencySummary>,
    /// Half-widths of 95 % confidence intervals; `null` if the measurement is too short for them.
    #[serde(default)]
    pub confidence_95: Option<Confidence>,
    /// Why the measurement was not shown to be steady, such as "latency rises 7.11 → 36.1 µs"; absent if it
    /// was (docs/results.md).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_steady: Option<String>,
    /// The machine's bottleneck, and the evidence for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// Whether it began in a steady state; `null` in files of older versions, and without earlier phases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady: Option<Steady>,
    /// The measurement in parts of equal length: loss and latency over time.
    #[serde(default)]
    pub batches: Vec<BatchSummary>,
    /// Main memory activity over time, by channel; empty if memory was not timed, or the measurement's length
    /// was not known in advance.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory_over_time: Vec<MemoryPart>,
    /// The round trips of `latency_ns` split into stages, in the order of a packet's path. Their means sum to
    /// that of `latency_ns` if the stages of all frames are known (`stats.json` has the number of frames
    /// without).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_stages_ns: Option<StageSummaries>,
    /// The same by receive queue and core, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latency_stages_by_queue: Vec<QueueStages>,
    /// Figures of each stream of the traffic, if it has streams.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<StreamSummary>,
    /// Length of the measurement in simulated seconds.
    pub simulated_seconds: f64,
    /// Instructions retired in the measurement.
    pub instructions: u64,
    /// Instructions per core cycle in the measurement, including waiting.
    #[serde(deserialize_with = "or_nan")]
    pub ipc: f64,
    /// Instructions retired per delivered frame, including empty polls.
    #[serde(deserialize_with = "or_nan")]
    pub instructions_per_frame: f64,
    /// Ticks of the guest's timer in the measurement: timer interrupts taken by the measured harts. `None` if
    /// unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer_ticks: Option<u64>,
    /// Interrupts raised by the NICs per simulated second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupts_per_second: Option<f64>,
    /// Host time from the restored checkpoint to the end.
    pub host_seconds: f64,
    /// Million guest instructions per host second in that time.
    #[serde(deserialize_with = "or_nan")]
    pub host_mips: f64,
    /// Hash of the machine's final state: runs of one configuration have the same hash.
    pub state_hash: String,
    /// Figures of the timing models, by group and name; `meanings` explains each as `group.name`. Absent in
    /// functional runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing: Option<TimingFigures>,
    /// Figures of each core, if the run was timed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<CoreFigures>,
    /// Figures of traces that were played on separate cores at the same time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<PlayedNeighbour>,
    /// The most expensive guest functions, if they were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub functions: Option<Vec<FunctionCost>>,
    /// CPU time by kind, if it was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kinds: Option<KindFigures>,
    /// Counters of each port in the measurement.
    #[serde(default)]
    pub ports: Vec<PortFigures>,
    /// The exit status of the user's script, if the run had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_status: Option<u8>,
    /// Additional figures of iperf3, in the same JSON object.
    #[serde(flatten)]
    pub iperf: Option<IperfFigures>,
    /// Figures of a transfer between two nodes: volume, ramp-up, and the drive node's idle time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer: Option<TransferFigures>,
    /// Additional figures of a played trace, in the same JSON object.
    #[serde(flatten)]
    pub played: Option<PlayedFigures>,
    /// Figures of each member, if the run was of a network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkFigures>,
}

/// Profile of a machine's CPU time.
#[derive(Clone, Copy, Debug)]
pub struct MachineProfile<'a> {
    /// The node's name in a network; otherwise empty.
    pub node: &'a str,
    /// The most expensive functions.
    pub functions: &'a [FunctionCost],
    /// CPU time by kind; `None` in files of older versions.
    pub kinds: Option<&'a KindFigures>,
    /// Delivered frames; for a network's node, received frames.
    pub frames: u64,
}

impl PointSummary {
    /// Fields that are absent from the file if a point does not have them.
    pub const OPTIONAL_FIELDS: [&str; 20] = [
        "beside",
        "cores",
        "drive_behind",
        "exit_status",
        "functions",
        "interrupts_per_second",
        "kinds",
        "latency_stages_by_queue",
        "latency_stages_ns",
        "limit",
        "memory_over_time",
        "network",
        "not_steady",
        "outstanding",
        "steady",
        "streams",
        "timer_ticks",
        "timing",
        "transfer",
        "wire_share",
    ];

    /// Stores the steadiness result of the measurement itself.
    pub fn set_measured(&mut self, measured: SteadyPhase) {
        let Some(steady) = &mut self.steady else { return };
        steady.measured = Some(measured);
        self.not_steady = steady.unsteady();
    }

    /// Whether the machine could sustain the load: nothing was still changing, and FIFOs and rings were not
    /// only filling up.
    pub fn is_sustained(&self) -> bool {
        self.not_steady.is_none() && self.unsustained().is_none()
    }

    /// The growth of frames inside the machine during the measurement, as a share of the offered frames, if
    /// it shows that the load is not sustainable: FIFOs and rings fill up, and loss begins when they are
    /// full. The threshold is that of searches for 1 % loss: more than half of it, and more frames than one
    /// or two bursts, which are no trend.
    pub fn unsustained(&self) -> Option<f64> {
        const SHARE: f64 = 0.005;
        const FRAMES: f64 = 128.0;
        if self.arrived_mpps.is_nan() || self.offered_mpps <= 0.0 {
            return None;
        }
        let more =
            (self.offered_mpps - self.arrived_mpps) * 1e6 * self.simulated_seconds - self.lost() as f64;
        let share = more / self.frames_offered.max(1) as f64;
        (share > SHARE && more > FRAMES).then_some(share)
    }

    /// The sustainable throughput, in Mpps and Gbps: the delivered frames or, if the offered load was not
    /// sustainable, the frames that came back in the measurement.
    pub fn sustained_rate(&self) -> (f64, f64) {
        match self.unsustained() {
            Some(_) => (self.arrived_mpps, self.arrived_gbps),
            None => (self.delivered_mpps, self.delivered_gbps),
        }
    }

    /// A point with the load generators' figures; `frame_size` is the mean, with FCS. The caller fills in the
    /// rest.
    pub fn from_window(window: WindowSummary, frame_size: u64) -> PointSummary {
        // Frames that came back too late still arrived; their individual sizes are no longer known.
        let late = |amount: f64, over: f64| {
            if over == 0.0 { 0.0 } else { window.frames_late as f64 * amount / over }
        };
        PointSummary {
            frame_size,
            frames_offered: window.frames_offered,
            frames_delivered: window.frames_delivered,
            frames_corrupt: window.frames_corrupt,
            frames_timed_out: window.frames_timed_out,
            frames_reordered: window.frames_reordered,
            frames_duplicate: window.frames_duplicate,
            drop_rate: window.drop_rate,
            offered_gbps: window.offered.gbps_l2,
            delivered_gbps: window.delivered.gbps_l2,
            offered_mpps: window.offered.mpps,
            delivered_mpps: window.delivered.mpps,
            arrived_mpps: window.arrived.mpps + late(1.0, window.seconds * 1e6),
            arrived_gbps: window.arrived.gbps_l2 + late(frame_size as f64 * 8.0, window.seconds * 1e9),
            latency_ns: window.latency_ns,
            latency_from_actual_ns: window.latency_from_actual_ns,
            delay_variation_ns: window.delay_variation_ns,
            confidence_95: window.confidence_95,
            batches: window.batches,
            streams: window.streams,
            simulated_seconds: window.seconds,
            ..PointSummary::default()
        }
    }

    /// Frames that did not come back intact.
    pub fn lost(&self) -> u64 {
        self.frames_offered.saturating_sub(self.frames_delivered)
    }

    /// Whether the guest of a user's script took every frame and sent none back, which may be intended.
    pub fn is_unanswered(&self) -> bool {
        self.exit_status.is_some()
            && self.frames_offered > 0
            && self.frames_delivered == 0
            && self.drops.guest == self.lost()
    }

    /// Adds the bottleneck, if it can be determined.
    pub fn with_limit(mut self) -> PointSummary {
        self.limit = limit::of_point(&self);
        self
    }

    /// A figure of all cores together, if the point has it.
    pub fn figure(&self, key: FigureKey) -> Option<f64> {
        self.timing.as_ref()?.get(key)
    }

    /// The share of the offered frames that was lost, if loss can be determined.
    pub fn loss(&self) -> Option<f64> {
        finite(self.drop_rate).filter(|_| !self.is_unanswered())
    }

    /// Lost frames minus those with a known cause; negative if more drops were counted than frames were lost.
    /// Zero if the counts are consistent.
    pub fn imbalance(&self) -> i128 {
        let Drops { dma, core, tx, nic_other, link, guest, unknown, .. } = self.drops;
        let others = [self.frames_corrupt, self.frames_late];
        let named: i128 =
            [dma, core, tx, nic_other, link, guest, unknown].into_iter().chain(others).map(i128::from).sum();
        i128::from(self.frames_offered) - i128::from(self.frames_delivered) - named
    }

    /// The most expensive guest functions; empty if they were not requested.
    pub fn functions(&self) -> &[FunctionCost] {
        self.functions.as_deref().unwrap_or_default()
    }

    /// Each machine that was profiled: the one under test, or the nodes of a network.
    pub fn profiles(&self) -> impl Iterator<Item = MachineProfile<'_>> {
        let own = MachineProfile {
            node: "",
            functions: self.functions(),
            kinds: self.kinds.as_ref(),
            frames: self.frames_delivered,
        };
        let nodes = self.network.iter().flat_map(|network| &network.nodes);
        let nodes = nodes.map(|(name, node)| MachineProfile {
            node: name,
            functions: node.functions.as_deref().unwrap_or_default(),
            kinds: node.kinds.as_ref(),
            frames: node.kinds.as_ref().map_or(0, |kinds| kinds.frames_received),
        });
        std::iter::once(own).chain(nodes).filter(|of| of.kinds.is_some() || !of.functions.is_empty())
    }

    /// Bytes that reached their destination: the payload of transfers, otherwise the delivered frames at
    /// layer 2, with FCS.
    pub fn delivered_bytes(&self) -> u64 {
        let frames = self.delivered_gbps * 1e9 / 8.0 * self.simulated_seconds;
        let iperf = self.iperf.as_ref().map(|iperf| iperf.totals.bytes_received);
        let moved = self.transfer.as_ref().map(|transfer| transfer.totals.bytes_received);
        iperf.or(moved).unwrap_or(frames.round() as u64)
    }

    /// Delivered payload in bits per second, in units of 10⁹, for benchmarks that transfer data; they have no
    /// round trips.
    pub fn goodput_gbps(&self) -> Option<f64> {
        let moved = self.transfer.as_ref().and_then(|transfer| transfer.goodput_gbps);
        self.iperf.as_ref().map(|iperf| iperf.goodput_gbps).or(moved)
    }

    /// Transactions (requests with responses) per second, for benchmarks that count them.
    pub fn transactions_per_second(&self) -> Option<f64> {
        self.transfer.as_ref().and_then(|transfer| transfer.transactions_per_second)
    }

    pub(crate) fn check(&self, point: usize) -> Result<(), SummaryError> {
        let latency = self.latency_ns.as_ref();
        let fields = [
            ("drop_rate", finite(self.drop_rate)),
            ("offered_gbps", Some(self.offered_gbps)),
            ("delivered_gbps", Some(self.delivered_gbps)),
            ("offered_mpps", Some(self.offered_mpps)),
            ("delivered_mpps", Some(self.delivered_mpps)),
            ("goodput_gbps", self.goodput_gbps()),
            ("transfer.transactions_per_second", self.transactions_per_second()),
            ("simulated_seconds", Some(self.simulated_seconds)),
            ("ipc", finite(self.ipc)),
            ("instructions_per_frame", finite(self.instructions_per_frame)),
            ("timer_ticks", self.timer_ticks.map(|ticks| ticks as f64)),
            ("interrupts_per_second", self.interrupts_per_second),
            ("host_seconds", Some(self.host_seconds)),
            ("host_mips", finite(self.host_mips)),
            ("latency_ns.mean", latency.map(|l| l.mean)),
            ("latency_ns.stddev", latency.and_then(|l| finite(l.stddev))),
            ("latency_ns.min", latency.map(|l| l.min)),
            ("latency_ns.p50", latency.map(|l| l.p50)),
            ("latency_ns.p90", latency.map(|l| l.p90)),
            ("latency_ns.p99", latency.map(|l| l.p99)),
            ("latency_ns.p99_9", latency.map(|l| l.p99_9)),
            ("latency_ns.p99_99", latency.and_then(|l| finite(l.p99_99))),
            ("latency_ns.max", latency.map(|l| l.max)),
        ];
        let streams = self.streams.iter().flat_map(StreamSummary::figures);
        for (field, value) in fields.into_iter().chain(streams) {
            if let Some(value) = value.filter(|v| !(0.0..=LARGEST_PLAUSIBLE).contains(v)) {
                return Err(SummaryError::Implausible { point, field, value });
            }
        }
        Ok(())
    }
}
