//! The figures of a run as `summary.json` holds them.

use std::collections::BTreeMap;

use doorbell_image::Provenance;
use doorbell_loadgen::{BatchSummary, Confidence, LatencySummary, StageSummaries, StreamSummary};
use serde::Serialize;

use crate::iperf::IperfFigures;
use crate::network::NetworkFigures;
use crate::observe::FunctionCost;
use crate::ports::PortFigures;
use crate::timing::{CoreFigures, TimingFigures};

/// Where the frames of the measurement that did not come back were lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Drops {
    /// RX FIFO full because DMA was too slow.
    pub dma: u64,
    /// RX FIFO full because the cores returned descriptors too slowly.
    pub core: u64,
    /// RX FIFO full because transmission was too slow.
    pub tx: u64,
    /// Dropped by the NIC for any other reason (filters, bad FCS, sizes, receiver off); `stats.json` has each.
    pub nic_other: u64,
    /// Lost on the link (configured faults).
    pub link: u64,
    /// Accepted by the NIC and not sent back: dropped by the guest's software. Derived, the forwarder being one-to-one.
    pub guest: u64,
}

/// One offered load and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
    pub frames_timed_out: u64,
    /// Unharmed frames that arrived in the measurement after one that was sent later (RFC 4737 §3.4).
    pub frames_reordered: u64,
    /// Frames that came back in the measurement though they had before.
    pub frames_duplicate: u64,
    /// 1 − delivered / offered.
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
    pub arrived_mpps: f64,
    /// The same in 10⁹ bits a second at layer 2, with FCS.
    pub arrived_gbps: f64,
    /// Round trips in nanoseconds, from the time each frame was due; `null` if no frame came back.
    pub latency_ns: Option<LatencySummary>,
    /// Round trips from the time the first bit left: without the wait for the generator's link.
    pub latency_from_actual_ns: Option<LatencySummary>,
    /// By how much the round trips of two frames differ that came back one after the other (RFC 3393, jitter).
    pub delay_variation_ns: Option<LatencySummary>,
    /// Half the widths of 95 % confidence intervals; `null` if the measurement is too short to say.
    pub confidence_95: Option<Confidence>,
    /// The measurement in parts of equal length: loss and latency over time.
    pub batches: Vec<BatchSummary>,
    /// The round trips of `latency_ns` split by where the time was spent, by the stages' names in the order of a packet's way. Their means sum to
    /// that of `latency_ns` if all frames' stages are known (`stats.json` has how many are not).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_stages_ns: Option<StageSummaries>,
    /// The figures of each stream of the traffic, if it has any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<StreamSummary>,
    /// Length of the measurement in simulated seconds.
    pub simulated_seconds: f64,
    /// Instructions retired in the measurement.
    pub instructions: u64,
    /// Instructions a core cycle in the measurement, waiting included.
    pub ipc: f64,
    /// Instructions retired a delivered frame, empty polls included.
    pub instructions_per_frame: f64,
    /// Time the host took from the restored checkpoint to the end.
    pub host_seconds: f64,
    /// Million guest instructions a host second in that time.
    pub host_mips: f64,
    /// Hash of the machine's state at the end: two runs of one configuration have the same.
    pub state_hash: String,
    /// What the timing models say, by group and name; `meanings` explains each as `group.name`. Functional runs have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timing: Option<TimingFigures>,
    /// What each core did, where the run was timed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<CoreFigures>,
    /// The dearest guest functions, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub functions: Option<Vec<FunctionCost>>,
    /// What each port counted in the measurement.
    pub ports: Vec<PortFigures>,
    /// The exit status of the user's script, if the run was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_status: Option<u8>,
    /// What iperf3 has beside these, in one object with them.
    #[serde(flatten)]
    pub iperf: Option<IperfFigures>,
    /// What each member of a network did, if the run was of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkFigures>,
}

/// A parameter that is not as the preset has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Its path, as `--set` takes it.
    pub key: String,
    /// The preset's value; empty if it has none.
    pub preset: String,
    /// The run's.
    pub here: String,
}

/// What ran: enough to tell whether two results are of the same simulator and the same software.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ran {
    /// Doorbell's commit, with `-dirty` if the source had been changed; `unknown` if it was not built in a checkout.
    pub doorbell_commit: String,
    /// Each node's image: kernel, DPDK and packages with their versions and hashes.
    pub images: Vec<Provenance>,
    /// Hash of the checkpoint from which the measurement started, as 16 hexadecimal digits: what the boot left.
    pub boot: String,
}

/// A whole run: one point or a table of several.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunSummary {
    /// The benchmark's name.
    pub benchmark: String,
    /// The preset that the configuration started from.
    pub preset: String,
    /// The version of Doorbell.
    pub doorbell_version: String,
    /// The command that made this.
    pub command: String,
    /// What ran, exactly.
    pub ran: Ran,
    /// What is missing, if the run was ended early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
    /// Parameters that are not as the preset has them.
    pub changed: Vec<Change>,
    /// What each figure of `ports` means, by name.
    pub meanings: BTreeMap<String, String>,
    /// Every point, in the order in which the rates were given.
    pub points: Vec<PointSummary>,
}
