//! One offered load and what became of it.

use serde::{Deserialize, Serialize};

use crate::drops::Drops;
use crate::functions::FunctionCost;
use crate::iperf::IperfFigures;
use crate::kinds::KindFigures;
use crate::latency::{BatchSummary, Confidence, LatencySummary};
use crate::limit::Limit;
use crate::memory_part::MemoryPart;
use crate::network::{NetworkFigures, WindowSummary};
use crate::number::{known, or_nan, unknown};
use crate::played::{PlayedFigures, PlayedNeighbour};
use crate::ports::PortFigures;
use crate::run::SummaryError;
use crate::stages::{QueueStages, StageSummaries};
use crate::steady::{Steady, SteadyPhase};
use crate::streams::StreamSummary;
use crate::timing::{CoreFigures, TimingFigures};
use crate::transfer::TransferFigures;

/// No rate, time or ratio of a real run is larger; what is comes from a damaged file.
const LARGEST_PLAUSIBLE: f64 = 1e15;

/// One offered load and what became of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PointSummary {
    /// The benchmark's name.
    pub benchmark: String,
    /// Hash of the resolved configuration.
    pub config_hash: String,
    /// The rate as it was asked for; of streams that of all together, `1x` if they are as they stand.
    pub rate: String,
    /// Bytes of each frame with FCS; the mean, where they differ.
    pub frame_size: u64,
    /// Frames whose first bit left in the measurement.
    pub frames_offered: u64,
    /// Of these, those that came back unharmed.
    pub frames_delivered: u64,
    /// Of these, those that came back changed.
    pub frames_corrupt: u64,
    /// Requests given up because others waited for their turn and `loadgen.traffic.timeout` had passed; they are among the lost.
    #[serde(default)]
    pub frames_timed_out: u64,
    /// Frames that came back between the measurement's begin and the end of its drain, and were no longer waited for: `loadgen.traffic.timeout`
    /// had passed, or `loadgen.tracked_frames` others had been sent. They are among the lost.
    #[serde(default)]
    pub frames_late: u64,
    /// Unharmed frames that arrived in the measurement after one that was sent later (RFC 4737 §3.4).
    #[serde(default)]
    pub frames_reordered: u64,
    /// Frames that came back in the measurement though they had before.
    #[serde(default)]
    pub frames_duplicate: u64,
    /// 1 − delivered / offered.
    #[serde(deserialize_with = "or_nan")]
    pub drop_rate: f64,
    /// Where the others were lost.
    pub drops: Drops,
    /// Offered bits a second at layer 2 (with FCS), in units of 10⁹.
    pub offered_gbps: f64,
    /// Delivered bits a second at layer 2. Of requests, what is delivered are the answers, which have sizes of their own.
    pub delivered_gbps: f64,
    /// Offered frames a second, in millions.
    pub offered_mpps: f64,
    /// Delivered frames a second, in millions.
    pub delivered_mpps: f64,
    /// Frames that came back in the measurement, whenever they were sent, a second and in millions: the rate at which the
    /// machine worked. Where more is offered than it can do, this is what it can do, whatever its FIFOs still hold.
    #[serde(default = "unknown")]
    pub arrived_mpps: f64,
    /// The same in 10⁹ bits a second at layer 2, with FCS.
    #[serde(default = "unknown")]
    pub arrived_gbps: f64,
    /// The share of what its cable can carry, preambles and gaps included, that the port with most traffic sent or received, whichever
    /// is more. `null` of networks, and in files of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire_share: Option<f64>,
    /// Frames that were due in the measurement and that a drive node could not send: then it is the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive_behind: Option<u64>,
    /// In a closed loop, so many frames were on their way at most (`loadgen.traffic.outstanding`): others that were due waited for these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outstanding: Option<u32>,
    /// Round trips in nanoseconds, from the time each frame was due; `null` if no frame came back.
    pub latency_ns: Option<LatencySummary>,
    /// Round trips from the time the first bit left: without the wait for the generator's link.
    #[serde(default)]
    pub latency_from_actual_ns: Option<LatencySummary>,
    /// By how much the round trips of two frames differ that came back one after the other (RFC 3393, jitter).
    #[serde(default)]
    pub delay_variation_ns: Option<LatencySummary>,
    /// Half the widths of 95 % confidence intervals; `null` if the measurement is too short to say.
    #[serde(default)]
    pub confidence_95: Option<Confidence>,
    /// Why the measurement is not shown to be steady, such as "latency rises 7.11 → 36.1 µs"; left out if it is (docs/results.md).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_steady: Option<String>,
    /// What kept the machine from doing more, and what that is concluded from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// Whether it began in a steady state; `null` in files of older versions and where nothing came before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady: Option<Steady>,
    /// The measurement in parts of equal length: loss and latency over time.
    #[serde(default)]
    pub batches: Vec<BatchSummary>,
    /// What main memory did meanwhile, channel by channel in each part; nothing where it was not timed, or the measurement's length was
    /// not known before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory_over_time: Vec<MemoryPart>,
    /// The round trips of `latency_ns` split by where the time was spent, by the stages' names in the order of a packet's way. Their means sum to
    /// that of `latency_ns` if all frames' stages are known (`stats.json` has how many are not).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_stages_ns: Option<StageSummaries>,
    /// The same by receive queue and core, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latency_stages_by_queue: Vec<QueueStages>,
    /// The figures of each stream of the traffic, if it has any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<StreamSummary>,
    /// Length of the measurement in simulated seconds.
    pub simulated_seconds: f64,
    /// Instructions retired in the measurement.
    pub instructions: u64,
    /// Instructions a core cycle in the measurement, waiting included.
    #[serde(deserialize_with = "or_nan")]
    pub ipc: f64,
    /// Instructions retired a delivered frame, empty polls included.
    #[serde(deserialize_with = "or_nan")]
    pub instructions_per_frame: f64,
    /// Ticks of the guest's timer in the measurement: timer interrupts that the measured harts took. `None` where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer_ticks: Option<u64>,
    /// Interrupts that the NICs raised in a simulated second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupts_per_second: Option<f64>,
    /// Time the host took from the restored checkpoint to the end.
    pub host_seconds: f64,
    /// Million guest instructions a host second in that time.
    #[serde(deserialize_with = "or_nan")]
    pub host_mips: f64,
    /// Hash of the machine's state at the end: two runs of one configuration have the same.
    pub state_hash: String,
    /// What the timing models say, by group and name; `meanings` explains each as `group.name`. Functional runs have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing: Option<TimingFigures>,
    /// What each core did, where the run was timed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<CoreFigures>,
    /// What traces did that were played beside the machine, on cores of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<PlayedNeighbour>,
    /// The most expensive guest functions, if they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub functions: Option<Vec<FunctionCost>>,
    /// CPU time by kind, if it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kinds: Option<KindFigures>,
    /// What each port counted in the measurement.
    #[serde(default)]
    pub ports: Vec<PortFigures>,
    /// The exit status of the user's script, if the run was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_status: Option<u8>,
    /// What iperf3 has beside these, in one object with them.
    #[serde(flatten)]
    pub iperf: Option<IperfFigures>,
    /// What moved between two nodes, how it came to its pace, and whether the drive node had time to spare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer: Option<TransferFigures>,
    /// What a played trace has beside these, in one object with them.
    #[serde(flatten)]
    pub played: Option<PlayedFigures>,
    /// What each member of a network did, if the run was of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkFigures>,
}

/// What a machine's time went into.
#[derive(Clone, Copy, Debug)]
pub struct Profiled<'a> {
    /// Its name, if it is a network's.
    pub node: &'a str,
    /// Its most expensive functions.
    pub functions: &'a [FunctionCost],
    /// Its CPU time by kind; `None` in files of older versions.
    pub kinds: Option<&'a KindFigures>,
    /// Frames that it delivered, or of a network's node that it received.
    pub frames: u64,
}

impl PointSummary {
    /// Fields that are left out of the file where a point has none of them.
    pub const SOMETIMES: [&str; 20] = [
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

    /// Takes the verdict on the measurement itself.
    pub fn set_measured(&mut self, measured: SteadyPhase) {
        let Some(steady) = &mut self.steady else { return };
        steady.measured = Some(measured);
        self.not_steady = steady.unsteady();
    }

    /// Whether it stands for its load: nothing still changed, and FIFOs and rings did not only fill.
    pub fn is_sustained(&self) -> bool {
        self.not_steady.is_none() && self.unsustained().is_none()
    }

    /// The share of the offered frames by which those inside the machine became more in the measurement, if that says that the machine
    /// cannot go on like this: FIFOs and rings filled, and loss begins when they are full. The rule is that of searches for 1 % of loss:
    /// more than half of that; and more frames than a burst or two, which are no trend.
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

    /// What the machine can go on doing, in Mpps and Gbps: what was delivered, or what came back in the measurement if not all that was
    /// delivered could be while more was offered.
    pub fn kept_up(&self) -> (f64, f64) {
        match self.unsustained() {
            Some(_) => (self.arrived_mpps, self.arrived_gbps),
            None => (self.delivered_mpps, self.delivered_gbps),
        }
    }

    /// What load generators measured, whose frames have (in the mean) so many bytes with FCS; the rest is still to be filled in.
    pub fn of_window(window: WindowSummary, frame_size: u64) -> PointSummary {
        // Frames that came back after they were forgotten did come back; how long each was is not known any more.
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

    /// Frames that did not come back unharmed.
    pub fn lost(&self) -> u64 {
        self.frames_offered.saturating_sub(self.frames_delivered)
    }

    /// Whether a script's guest took every frame and sent none back: nobody knows that it should have.
    pub fn is_unanswered(&self) -> bool {
        self.exit_status.is_some()
            && self.frames_offered > 0
            && self.frames_delivered == 0
            && self.drops.guest == self.lost()
    }

    /// The share of the offered frames that was lost, where anything can be said of loss.
    pub fn loss(&self) -> Option<f64> {
        known(self.drop_rate).filter(|_| !self.is_unanswered())
    }

    /// Lost frames less those that a cause is named for; negative if more drops were counted than frames were
    /// lost. Zero when the books balance.
    pub fn imbalance(&self) -> i128 {
        let Drops { dma, core, tx, nic_other, link, guest, unknown, .. } = self.drops;
        let beside = [self.frames_corrupt, self.frames_late];
        let named: i128 =
            [dma, core, tx, nic_other, link, guest, unknown].into_iter().chain(beside).map(i128::from).sum();
        i128::from(self.frames_offered) - i128::from(self.frames_delivered) - named
    }

    /// The most expensive guest functions; none if they were not asked for.
    pub fn functions(&self) -> &[FunctionCost] {
        self.functions.as_deref().unwrap_or_default()
    }

    /// Each machine that was profiled: the one that is tested, or those of a network.
    pub fn profiles(&self) -> impl Iterator<Item = Profiled<'_>> {
        let own = Profiled {
            node: "",
            functions: self.functions(),
            kinds: self.kinds.as_ref(),
            frames: self.frames_delivered,
        };
        let nodes = self.network.iter().flat_map(|network| &network.nodes);
        let nodes = nodes.map(|(name, node)| Profiled {
            node: name,
            functions: node.functions.as_deref().unwrap_or_default(),
            kinds: node.kinds.as_ref(),
            frames: node.kinds.as_ref().map_or(0, |kinds| kinds.frames_received),
        });
        std::iter::once(own).chain(nodes).filter(|of| of.kinds.is_some() || !of.functions.is_empty())
    }

    /// What reached its goal, in bytes: of transfers the payload, of others the delivered frames at layer 2, with FCS.
    pub fn delivered_bytes(&self) -> u64 {
        let frames = self.delivered_gbps * 1e9 / 8.0 * self.simulated_seconds;
        let iperf = self.iperf.as_ref().map(|iperf| iperf.bytes_received);
        let moved = self.transfer.as_ref().map(|transfer| transfer.bytes_received);
        iperf.or(moved).unwrap_or(frames.round() as u64)
    }

    /// Payload that arrived in bits a second, in units of 10⁹, of benchmarks that transfer something; they have no round trips.
    pub fn goodput_gbps(&self) -> Option<f64> {
        let moved = self.transfer.as_ref().and_then(|transfer| transfer.goodput_gbps);
        self.iperf.as_ref().map(|iperf| iperf.goodput_gbps).or(moved)
    }

    /// Requests with their responses, a second, of benchmarks that count them.
    pub fn transactions_per_second(&self) -> Option<f64> {
        self.transfer.as_ref().and_then(|transfer| transfer.transactions_per_second)
    }

    /// What the timing models say: of all cores and of each, of each node.
    pub(crate) fn timing_figures_mut(&mut self) -> impl Iterator<Item = &mut TimingFigures> {
        let nodes = self.network.iter_mut().flat_map(|network| network.nodes.values_mut());
        let of_nodes = nodes.flat_map(|node| {
            node.timing.iter_mut().chain(node.cores.iter_mut().map(|core| &mut core.figures))
        });
        let cores = self.cores.iter_mut().map(|core| &mut core.figures);
        self.timing.iter_mut().chain(cores).chain(of_nodes)
    }

    pub(crate) fn check(&self, point: usize) -> Result<(), SummaryError> {
        let latency = self.latency_ns.as_ref();
        let fields = [
            ("drop_rate", known(self.drop_rate)),
            ("offered_gbps", Some(self.offered_gbps)),
            ("delivered_gbps", Some(self.delivered_gbps)),
            ("offered_mpps", Some(self.offered_mpps)),
            ("delivered_mpps", Some(self.delivered_mpps)),
            ("goodput_gbps", self.goodput_gbps()),
            ("transfer.transactions_per_second", self.transactions_per_second()),
            ("simulated_seconds", Some(self.simulated_seconds)),
            ("ipc", known(self.ipc)),
            ("instructions_per_frame", known(self.instructions_per_frame)),
            ("timer_ticks", self.timer_ticks.map(|ticks| ticks as f64)),
            ("interrupts_per_second", self.interrupts_per_second),
            ("host_seconds", Some(self.host_seconds)),
            ("host_mips", known(self.host_mips)),
            ("latency_ns.mean", latency.map(|l| l.mean)),
            ("latency_ns.stddev", latency.and_then(|l| known(l.stddev))),
            ("latency_ns.min", latency.map(|l| l.min)),
            ("latency_ns.p50", latency.map(|l| l.p50)),
            ("latency_ns.p90", latency.map(|l| l.p90)),
            ("latency_ns.p99", latency.map(|l| l.p99)),
            ("latency_ns.p99_9", latency.map(|l| l.p99_9)),
            ("latency_ns.p99_99", latency.and_then(|l| known(l.p99_99))),
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
