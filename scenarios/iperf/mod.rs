//! iperf3 between two nodes: Debian's iperf3 over the kernel's stack, TCP or UDP. Either a part of a transfer
//! is measured on the cable, or a whole test with iperf3's own results.

use doorbell_machine::ConfigError;
use doorbell_results::{IperfFigures, Protocol, TransferFigures, TransferTotals};
use doorbell_sim::{BitsPerSec, config};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::RunError;
use crate::measure::benchmark::{Benchmark, Measured, Nodes, NodesLoad};
use crate::measure::kinds::{BETWEEN_NODES, KERNEL, TRANSFER};
use crate::measure::roles::{Pair, role};
use crate::measure::shards;
use crate::measure::transfer::{self, Transfers};
use crate::plan::config::RunConfig;
use crate::plan::cores;
use crate::plan::options::{self, Options, Section, Setting};
use crate::store::folder::pretty;
use crate::testbed::control::Control;
use crate::testbed::nodes::NodesTestbed;
use crate::testbed::ramp::Ramp;
use crate::window::transfer_counts::Load;

/// The benchmark.
pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "iperf",
    summary: "iperf3 over TCP or UDP between two nodes on one cable: the kernel's network stack on both sides",
    nodes: Nodes::Joined { guests: transfer::guests::<IperfConfig>, ramp: |_| None, measure },
    options: &[KERNEL, Section::of::<IperfConfig>(), TRANSFER],
    ..BETWEEN_NODES
};

/// Maximum payload of the setup exchange before a test, in bytes; with more, the transfer has started.
const SETUP_BYTES_MAX: u64 = 8 << 10;
/// Port of the first server.
const PORT: u16 = 5201;
/// Test duration in seconds if the simulator ends the measurement: the maximum that iperf3 accepts.
const UNLIMITED_SECONDS: u32 = 86_400;

config! {
    /// iperf3's options.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct IperfConfig {
        /// TCP or UDP.
        pub protocol: Protocol = Protocol::Tcp,
        /// Measure a whole test of this many seconds (--time), 1 to 60; iperf3 has no shorter tests. (A
        /// number of bytes would be imprecise: iperf3 checks only at intervals whether all bytes were sent,
        /// and measures the time until such a check.) If unset, `run.duration` of a running transfer is
        /// measured, after `run.warmup` and `run.settle`.
        pub seconds: Option<u32> = None,
        /// Cores, 1 to 8 (1 if unset), each with its own iperf3 server (ports from 5201 on), NIC queue and
        /// interrupt, and an iperf3 client whose connections use that queue. More than one needs as many
        /// harts, NICs of the model 82576, `platform.interrupts = "aia"`, without which Linux uses one queue
        /// per port, and equally many streams per core.
        #[serde(skip_serializing_if = "cores::is_one")]
        pub cores: u32 = 1,
        /// Parallel connections (--parallel), 1 to 16; the total of all cores.
        pub streams: u32 = 1,
        /// UDP send rate per stream (--bitrate), 1kbps to 1Tbps.
        pub rate: BitsPerSec = BitsPerSec(1_000_000_000),
        /// The server sends instead of the client (--reverse).
        pub reverse: bool = false,
        /// Maximum payload of a TCP segment (--set-mss), 88 to 9216 bytes; if unset, the MTU determines it.
        pub mss: Option<u16> = None,
    }
}

impl Options for IperfConfig {
    const SECTION: &'static str = "iperf";

    fn required_settings(&self, config: &RunConfig) -> Vec<Setting> {
        shards::follow_streams("iperf.streams", self.cores, self.streams, config)
    }

    fn validate(&self, config: &RunConfig) -> Result<(), ConfigError> {
        options::check_range("iperf.streams", self.streams, 1..=16)?;
        shards::check_streams(Self::SECTION, self.cores, self.streams, config)?;
        let problem =
            "tests on several cores end at different times; remove this setting to measure a part of them";
        options::reject_if(self.cores > 1 && self.seconds.is_some(), "iperf.seconds", problem)?;
        options::check_range("iperf.seconds", self.seconds.unwrap_or(1), 1..=60)?;
        if let Some(mss) = self.mss {
            let problem = "UDP has no segments; remove this setting";
            options::reject_if(self.protocol == Protocol::Udp, "iperf.mss", problem)?;
            options::check_range("iperf.mss", mss, 88..=9216)?;
        }
        options::check_range("iperf.rate", self.rate, BitsPerSec(1_000)..=BitsPerSec(1_000_000_000_000))
    }
}

impl IperfConfig {
    /// Line typed on the client's console.
    fn options(&self) -> String {
        let seconds = self.seconds.unwrap_or(UNLIMITED_SECONDS);
        let per_core = self.streams / self.cores;
        let mut words = format!("--client 10.0.0.2 --interval 0 --time {seconds} --parallel {per_core}");
        if self.cores > 1 {
            words.insert_str(0, &format!("{per_core} "));
        }
        if self.protocol == Protocol::Udp {
            words.push_str(&format!(" --udp --bitrate {}", self.rate.0));
        }
        if self.reverse {
            words.push_str(" --reverse");
        }
        if let Some(mss) = self.mss {
            words.push_str(&format!(" --set-mss {mss}"));
        }
        words
    }

    /// Short description of the load.
    fn load_name(&self) -> String {
        match self.protocol {
            Protocol::Tcp => "TCP".to_owned(),
            Protocol::Udp => format!("UDP {}", self.rate),
        }
    }
}

impl Transfers for IperfConfig {
    fn load(&self) -> Load {
        let start = Ramp {
            sender: if self.reverse { 0 } else { 1 },
            detects_start: |carried| carried.tcp_payload + carried.udp_payload > SETUP_BYTES_MAX,
            all_started: (self.cores > 1).then_some("iperf: all streams are connected"),
            ..Ramp::of_server(self.options())
        };
        Load {
            connections: self.streams,
            in_parts: false,
            protocol: self.protocol,
            failure: |console| Some(result(console)?["error"].as_str()?.to_owned()),
            servers: shards::ports(PORT, self.cores, self.cores),
            ..Load::tcp("iperf3", self.load_name(), start)
        }
    }

    /// The server in node 0 and the client in node 1, one of each per core.
    fn pair(&self) -> Pair {
        let (server, client) = match self.cores {
            1 => (role!("iperf-server", "Server listening"), role!("iperf-client", "iperf: waiting")),
            _ => (role!("iperf-servers", "iperf: serving"), role!("iperf-clients", "iperf: waiting")),
        };
        shards::on_cores(self.cores, Pair { image: "net", server, client })
    }
}

/// Measures iperf3 once, and writes its own result (`iperf3.json`) if the whole test was run.
fn measure(nodes: &NodesTestbed, load: &NodesLoad, control: &mut Control) -> Result<Measured, RunError> {
    let own = load.config.options::<IperfConfig>();
    let mut found = None;
    let measured = transfer::measure(
        nodes,
        load,
        &own.load(),
        control,
        |test| match own.seconds {
            Some(_) => test.whole(|console| result(console).filter(|found| found["error"].is_null())),
            None => {
                test.begin_and_wait()?;
                test.part()
            }
        },
        |summary, result| {
            let part = summary.transfer.as_ref().map(|transfer| cable_figures(own.protocol, transfer));
            summary.iperf = match &result {
                Some(result) => part.map(|part| iperf3_figures(part, result)),
                None => part,
            };
            found = result;
        },
    )?;
    if let Some(found) = &found {
        load.folder.write("iperf3.json", &pretty(found))?;
    }
    Ok(measured)
}

/// The JSON object that iperf3 printed on a console.
fn result(console: &str) -> Option<Value> {
    let begin = console.find("\n{\n")? + 1;
    let end = begin + console[begin..].find("\n}\n")? + 3;
    serde_json::from_str(&console[begin..end]).ok()
}

/// Figures measured on the cable.
fn cable_figures(protocol: Protocol, transfer: &TransferFigures) -> IperfFigures {
    let (goodput_gbps, totals) = (transfer.goodput_gbps.unwrap_or(0.0), transfer.totals.clone());
    IperfFigures { protocol, goodput_gbps, totals, ..IperfFigures::default() }
}

/// The figures of `part`, replaced by iperf3's own results where it has them.
fn iperf3_figures(part: IperfFigures, iperf3: &Value) -> IperfFigures {
    let end = &iperf3["end"];
    // With UDP, `sum_sent` has what was sent, and `sum_received` the lost datagrams.
    let (sent, received) = (&end["sum_sent"], &end["sum_received"]);
    let number = |object: &Value, name: &str| object[name].as_f64().unwrap_or(0.0);
    let cpu = &end["cpu_utilization_percent"];
    IperfFigures {
        goodput_gbps: number(received, "bits_per_second") / 1e9,
        retransmits: sent["retransmits"].as_u64(),
        datagrams_lost: received["lost_packets"].as_u64(),
        cpu_percent: Some([number(cpu, "host_total"), number(cpu, "remote_total")]),
        totals: TransferTotals {
            bytes_sent: number(sent, "bytes") as u64,
            bytes_received: number(received, "bytes") as u64,
            seconds: number(received, "seconds"),
            ..part.totals
        },
        ..part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_is_found_among_other_lines() {
        let console = "--client 10.0.0.2\n[ 1.0] e1000: x\n{\n\t\"end\":\t{\n\t}\n}\ndoorbell: exit 0\n";
        assert!(result(console).unwrap()["end"].is_object());
        assert!(result("\n{\n broken").is_none());
    }

    #[test]
    fn the_typed_line_follows_the_configuration() {
        let config = IperfConfig {
            protocol: Protocol::Udp,
            seconds: Some(1),
            streams: 2,
            reverse: true,
            ..Default::default()
        };
        let expected =
            "--client 10.0.0.2 --interval 0 --time 1 --parallel 2 --udp --bitrate 1000000000 --reverse";
        assert_eq!(config.options(), expected);
        let shared = IperfConfig { streams: 4, cores: 2, ..Default::default() };
        assert_eq!(
            shared.options(),
            "2 --client 10.0.0.2 --interval 0 --time 86400 --parallel 2",
            "half of the streams to each server"
        );
        let wrong = IperfConfig { streams: 0, ..Default::default() };
        assert_eq!(wrong.validate(&crate::registry::defaults()).unwrap_err().key, "iperf.streams");
    }
}
