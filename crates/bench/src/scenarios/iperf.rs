//! iperf3 between two nodes: Debian's own, over the kernel's stack, TCP or UDP. Either a part of a transfer is measured, by
//! what crosses the cable, or a whole test, by what iperf3 itself finds.

use doorbell_machine::ConfigError;
use doorbell_results::{IperfFigures, Protocol, TransferFigures};
use doorbell_sim::BitsPerSec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::RunError;
use crate::measure::benchmark::{Measured, NodesLoad};
use crate::measure::roles::{Pair, role};
use crate::measure::shards;
use crate::measure::transfer::{self, Transfers};
use crate::plan::config::RunConfig;
use crate::plan::cores;
use crate::plan::options::{Options, Setting};
use crate::store::folder::pretty;
use crate::testbed::control::Control;
use crate::testbed::nodes::NodesTestbed;
use crate::testbed::ramp::RunUp;
use crate::window::transfer_counts::Load;

/// What a measurement needs beside the presets' times: TCP comes to its pace on a timed machine in some milliseconds.
pub(crate) const DEFAULTS: &[&str] = &["run.settle=5ms", "run.window=20ms"];

/// More payload than this is not of the talk before a test.
const TALK_BYTES_MAX: u64 = 8 << 10;
/// The port of the first server.
const PORT: u16 = 5201;
/// What iperf3 is told if it is stopped from outside, in seconds: the longest that it takes.
const WITHOUT_END: u32 = 86_400;

/// iperf3's options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct IperfConfig {
    /// TCP or UDP.
    pub protocol: Protocol,
    /// Measure a whole test of so many seconds (--time), 1 to 60; iperf3 knows none that is shorter. (An amount of bytes
    /// would be no measure: iperf3 looks only now and then whether all of it was sent, and takes the time until then.)
    /// Without this, `run.duration` of a transfer is measured that has gone on for `run.warmup` and `run.settle`.
    pub seconds: Option<u32>,
    /// Cores, 1 to 8 (without this, one), each with an iperf3 server on a port of its own (from 5201 on), a queue of the NIC that interrupts
    /// it, and an iperf3 client whose connections come in by that queue. More than one needs as many harts, NICs of the model 82576,
    /// `platform.interrupts = "aia"`, without which Linux gives a port one queue, and as many streams for each.
    #[serde(skip_serializing_if = "cores::is_one")]
    pub cores: u32,
    /// Connections side by side (--parallel), 1 to 16; of several cores those of all together.
    pub streams: u32,
    /// What UDP sends in a second, each stream (--bitrate), 1kbps to 1Tbps.
    pub rate: BitsPerSec,
    /// The server sends instead of the client (--reverse).
    pub reverse: bool,
    /// The most payload of a TCP segment (--set-mss), 88 to 9216 bytes; without it, what the MTU leaves.
    pub mss: Option<u16>,
}

impl Default for IperfConfig {
    fn default() -> Self {
        IperfConfig {
            protocol: Protocol::Tcp,
            seconds: None,
            cores: 1,
            streams: 1,
            rate: BitsPerSec(1_000_000_000),
            reverse: false,
            mss: None,
        }
    }
}

impl Options for IperfConfig {
    const SECTION: &'static str = "iperf";

    fn follow(&self, config: &RunConfig) -> Vec<Setting> {
        shards::follow_streams("iperf.streams", (self.cores, self.streams), config)
    }

    fn validate(&self, config: &RunConfig) -> Result<(), ConfigError> {
        if !(1..=16).contains(&self.streams) {
            return Err(ConfigError::new("iperf.streams", format!("{} is not from 1 to 16", self.streams)));
        }
        shards::check_streams(Self::SECTION, self.cores, self.streams, config)?;
        if self.cores > 1 && self.seconds.is_some() {
            let problem = "tests on several cores end at different times; measure a part of them".to_owned();
            return Err(ConfigError::new("iperf.seconds", problem));
        }
        if let Some(seconds) = self.seconds.filter(|seconds| !(1..=60).contains(seconds)) {
            return Err(ConfigError::new("iperf.seconds", format!("{seconds} is not from 1 to 60")));
        }
        if let Some(mss) = self.mss {
            if self.protocol == Protocol::Udp {
                return Err(ConfigError::new("iperf.mss", "UDP has no segments; leave it out".to_owned()));
            }
            if !(88..=9216).contains(&mss) {
                return Err(ConfigError::new("iperf.mss", format!("{mss} is not from 88 to 9216")));
            }
        }
        if !(1_000..=1_000_000_000_000).contains(&self.rate.0) {
            let problem = format!("{} is not from \"1kbps\" to \"1Tbps\"", self.rate);
            return Err(ConfigError::new("iperf.rate", problem));
        }
        Ok(())
    }
}

impl IperfConfig {
    /// What is typed at the client.
    fn options(&self) -> String {
        let seconds = self.seconds.unwrap_or(WITHOUT_END);
        let each = self.streams / self.cores;
        let mut words = format!("--client 10.0.0.2 --interval 0 --time {seconds} --parallel {each}");
        if self.cores > 1 {
            words.insert_str(0, &format!("{each} "));
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

    /// The load in a few words.
    fn in_words(&self) -> String {
        match self.protocol {
            Protocol::Tcp => "TCP".to_owned(),
            Protocol::Udp => format!("UDP {}", self.rate),
        }
    }
}

impl Transfers for IperfConfig {
    fn load(&self) -> Load {
        Load {
            program: "iperf3",
            name: self.in_words(),
            connections: self.streams,
            depth: 1,
            in_parts: false,
            start: RunUp {
                client: 1,
                typed: self.options(),
                counted: if self.reverse { 0 } else { 1 },
                begun: |carried| carried.tcp_payload + carried.udp_payload > TALK_BYTES_MAX,
                whole: (self.cores > 1).then_some("iperf: all streams are connected"),
            },
            protocol: self.protocol,
            transaction: None,
            failure: |console| Some(result(console)?["error"].as_str()?.to_owned()),
            counting: None,
            servers: shards::ports(PORT, self.cores, self.cores),
        }
    }

    /// The server in node 0, the client in node 1; of several cores, one on each.
    fn pair(&self) -> Pair {
        let (server, client) = match self.cores {
            1 => (role!("iperf-server", "Server listening"), role!("iperf-client", "iperf: waiting")),
            _ => (role!("iperf-servers", "iperf: serving"), role!("iperf-clients", "iperf: waiting")),
        };
        shards::on_cores(self.cores, Pair { image: "net", server, client })
    }
}

/// Runs iperf3 once, and writes what it found, if it came to its end.
pub(crate) fn measure(
    nodes: &NodesTestbed,
    load: &NodesLoad,
    control: &mut Control,
) -> Result<Measured, RunError> {
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
        |summary, said| {
            let part = summary.transfer.as_ref().map(|moved| figures_of_part(own.protocol, moved));
            summary.iperf = match &said {
                Some(result) => part.map(|part| figures_of_whole(part, result)),
                None => part,
            };
            found = said;
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

/// As the cable shows them.
fn figures_of_part(protocol: Protocol, moved: &TransferFigures) -> IperfFigures {
    IperfFigures {
        protocol,
        bytes_sent: moved.bytes_sent,
        bytes_received: moved.bytes_received,
        seconds: moved.seconds,
        goodput_gbps: moved.goodput_gbps.unwrap_or(0.0),
        retransmits: None,
        datagrams_lost: None,
        cpu_percent: None,
        wire_to_client: moved.wire_to_client.clone(),
        wire_to_server: moved.wire_to_server.clone(),
        nic_drops: moved.nic_drops,
        node_instructions: moved.node_instructions,
    }
}

/// As iperf3 says.
fn figures_of_whole(part: IperfFigures, iperf3: &Value) -> IperfFigures {
    let end = &iperf3["end"];
    // With UDP the client's part of the sums says what was sent, and the loss what did not arrive.
    let (sent, received) = (&end["sum_sent"], &end["sum_received"]);
    let number = |of: &Value, name: &str| of[name].as_f64().unwrap_or(0.0);
    let cpu = &end["cpu_utilization_percent"];
    IperfFigures {
        bytes_sent: number(sent, "bytes") as u64,
        bytes_received: number(received, "bytes") as u64,
        seconds: number(received, "seconds"),
        goodput_gbps: number(received, "bits_per_second") / 1e9,
        retransmits: sent["retransmits"].as_u64(),
        datagrams_lost: received["lost_packets"].as_u64(),
        cpu_percent: Some([number(cpu, "host_total"), number(cpu, "remote_total")]),
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
    fn options_are_those_of_the_configuration() {
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
        assert_eq!(wrong.validate(&crate::scenarios::registry::defaults()).unwrap_err().key, "iperf.streams");
    }
}
