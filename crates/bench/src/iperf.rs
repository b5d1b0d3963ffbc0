//! iperf3 between two nodes: Debian's own, over the kernel's stack, TCP or UDP. The goodput is what iperf3 itself found,
//! by the guests' clocks; beside it stands what the cable and the NICs counted.

use std::path::Path;
use std::time::Instant;

use doorbell_machine::{ConfigError, Machine, Outcome, Pair, PairOutcome};
use doorbell_sim::stats::Stats;
use doorbell_sim::{BitsPerSec, Ps};
use doorbell_wire::pcap::{PcapFile, WHOLE_FRAMES};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::RunConfig;
use crate::error::{RunError, describe};
use crate::session::Control;
use crate::two_nodes::{Role, TwoNodes, run_watched};

/// What runs in the nodes: the server in node 0, the client in node 1.
pub const ROLES: [Role; 2] = [
    Role {
        name: "iperf-server",
        script: include_str!("../../../guest/scripts/iperf-server"),
        ready_marker: "Server listening",
        address: "10.0.0.2/24",
    },
    Role {
        name: "iperf-client",
        script: include_str!("../../../guest/scripts/iperf-client"),
        ready_marker: "iperf: waiting",
        address: "10.0.0.3/24",
    },
];

/// Simulated time after which a test that does not end is given up.
const PATIENCE: Ps = Ps(600 * Ps::PER_SECOND);
const LINES_SHOWN: usize = 12;

/// How iperf3 sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// A byte stream, as fast as it goes.
    Tcp,
    /// Datagrams at a rate.
    Udp,
}

/// iperf3's options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct IperfConfig {
    /// TCP or UDP.
    pub protocol: Protocol,
    /// How long it sends, in whole seconds (--time), 1 to 60. An amount of bytes instead would be no measure: iperf3
    /// looks only now and then whether all of it was sent, and takes the time until then.
    pub seconds: u32,
    /// Connections side by side (--parallel), 1 to 16.
    pub streams: u32,
    /// What UDP sends in a second, each stream (--bitrate).
    pub rate: BitsPerSec,
    /// The server sends instead of the client (--reverse).
    pub reverse: bool,
}

impl Default for IperfConfig {
    fn default() -> Self {
        IperfConfig {
            protocol: Protocol::Tcp,
            seconds: 1,
            streams: 1,
            rate: BitsPerSec(1_000_000_000),
            reverse: false,
        }
    }
}

impl IperfConfig {
    /// Checks every value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if !(1..=16).contains(&self.streams) {
            return Err(ConfigError::new("iperf.streams", format!("{} is not from 1 to 16", self.streams)));
        }
        if !(1..=60).contains(&self.seconds) {
            return Err(ConfigError::new("iperf.seconds", format!("{} is not from 1 to 60", self.seconds)));
        }
        if !(1_000..=1_000_000_000_000).contains(&self.rate.0) {
            let problem = format!("{} is not from \"1kbps\" to \"1Tbps\"", self.rate);
            return Err(ConfigError::new("iperf.rate", problem));
        }
        Ok(())
    }

    /// What is typed at the client.
    fn options(&self) -> String {
        let mut words =
            format!("--client 10.0.0.2 --interval 0 --time {} --parallel {}", self.seconds, self.streams);
        if self.protocol == Protocol::Udp {
            words.push_str(&format!(" --udp --bitrate {}", self.rate.0));
        }
        if self.reverse {
            words.push_str(" --reverse");
        }
        words
    }
}

/// What went through one direction of the cable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Direction {
    /// Frames sent into it.
    pub frames: u64,
    /// Their bytes with FCS.
    pub bytes: u64,
    /// Lost to configured faults.
    pub lost: u64,
    /// Damaged by configured faults.
    pub corrupted: u64,
}

/// The result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IperfSummary {
    /// Always `iperf`.
    pub benchmark: &'static str,
    /// Hash of the resolved configuration.
    pub config_hash: String,
    /// The command's version.
    pub doorbell_version: &'static str,
    /// TCP or UDP.
    pub protocol: Protocol,
    /// Bytes of payload that the sender's iperf3 sent, and that the receiver's got.
    pub bytes_sent: u64,
    /// See above.
    pub bytes_received: u64,
    /// How long the test took by the guests' clocks.
    pub seconds: f64,
    /// Payload that arrived, in bits a second, in units of 10⁹.
    pub goodput_gbps: f64,
    /// TCP segments sent again; `null` with UDP.
    pub retransmits: Option<u64>,
    /// UDP datagrams lost; `null` with TCP.
    pub datagrams_lost: Option<u64>,
    /// Share of a core that iperf3 took, in percent: client, server.
    pub cpu_percent: [f64; 2],
    /// From the server to the client.
    pub wire_to_client: Direction,
    /// From the client to the server.
    pub wire_to_server: Direction,
    /// Frames that the NICs dropped on arrival for whatever reason: server's, client's.
    pub nic_drops: [u64; 2],
    /// Simulated time from the start of the client to its end.
    pub simulated_seconds: f64,
    /// Instructions retired in that time: server's node, client's node.
    pub instructions: [u64; 2],
    /// Host time from the restored checkpoint to the end.
    pub host_seconds: f64,
    /// Million guest instructions a host second in that time.
    pub host_mips: f64,
    /// Hash of the state of both nodes and the cable at the end.
    pub state_hash: String,
}

/// A run of iperf3.
pub struct IperfRun {
    /// Its figures.
    pub summary: IperfSummary,
    /// What iperf3 printed at the client, whole.
    pub iperf3: Value,
    /// The nodes as they were at the end, for their counters.
    pub pair: Pair,
    /// Frames that the capture has, if one was written.
    pub captured: Option<u64>,
}

/// Runs iperf3 once. With `capture`, writes what crosses the cable to that file.
pub fn run_iperf(
    nodes: &TwoNodes,
    capture: Option<&Path>,
    control: &mut Control,
) -> Result<IperfRun, RunError> {
    let started = Instant::now();
    let config = nodes.config();
    let mut pair = nodes.pair()?;
    if let Some(path) = capture {
        pair.capture(PcapFile::create(path, WHOLE_FRAMES)?);
    }
    let begun = pair.now();
    let before = [0, 1].map(|node| pair.nodes()[node].instructions());
    let typed = format!("{}\n", config.iperf.options());
    let taken = pair.node_mut(1).type_input(typed.as_bytes());
    assert_eq!(taken, typed.len(), "the keyboard has room for a line");
    let mut client_off = false;
    while !client_off {
        match run_watched(&mut pair, begun + PATIENCE, false, control)? {
            PairOutcome::Node { node, outcome: Outcome::PowerOff { code: 0 } } => client_off = node == 1,
            PairOutcome::Node { node, outcome } => return Err(ended(&pair, node, outcome)),
            PairOutcome::Asleep => return Err(ended(&pair, 1, Outcome::Asleep)),
            PairOutcome::Time => return Err(ended(&pair, 1, Outcome::Time)),
        }
    }
    pair.check_conservation();
    let captured = pair.finish_capture()?;
    let host_seconds = started.elapsed().as_secs_f64();
    let instructions = [0, 1].map(|node| pair.nodes()[node].instructions() - before[node]);
    let iperf3 = result(&pair.nodes()[1].console.text()).ok_or_else(|| RunError::Ended {
        why: "iperf3 printed no result".to_owned(),
        console: pair.nodes()[1].console.last_lines(LINES_SHOWN),
    })?;
    if let Some(problem) = iperf3["error"].as_str() {
        let console = pair.nodes()[0].console.last_lines(LINES_SHOWN);
        return Err(RunError::Ended { why: format!("iperf3: {problem}"), console });
    }
    let simulated = (pair.now() - begun).as_secs_f64();
    let summary = summarise(config, &pair, &iperf3, (simulated, host_seconds, instructions));
    Ok(IperfRun { summary, iperf3, pair, captured })
}

fn ended(pair: &Pair, node: usize, outcome: Outcome) -> RunError {
    RunError::Ended {
        why: format!("node {node}: {}", describe(outcome, pair.now())),
        console: pair.nodes()[node].console.last_lines(LINES_SHOWN),
    }
}

/// The JSON object that iperf3 printed on a console.
fn result(console: &str) -> Option<Value> {
    let begin = console.find("\n{\n")? + 1;
    let end = begin + console[begin..].find("\n}\n")? + 3;
    serde_json::from_str(&console[begin..end]).ok()
}

fn summarise(
    config: &RunConfig,
    pair: &Pair,
    iperf3: &Value,
    (simulated_seconds, host_seconds, instructions): (f64, f64, [u64; 2]),
) -> IperfSummary {
    let end = &iperf3["end"];
    // With UDP the client's part of the sums says what was sent, and the loss what did not arrive.
    let (sent, received) = (&end["sum_sent"], &end["sum_received"]);
    let number = |of: &Value, name: &str| of[name].as_f64().unwrap_or(0.0);
    let cpu = &end["cpu_utilization_percent"];
    let direction = |node: usize| {
        let link = pair.nodes()[node].ports()[0].link_out.stats();
        let (frames, bytes) = (link.frames, link.bytes_l2);
        Direction { frames, bytes, lost: link.lost, corrupted: link.corrupted }
    };
    let executed: u64 = instructions.iter().sum();
    IperfSummary {
        benchmark: "iperf",
        config_hash: config.hash(),
        doorbell_version: env!("CARGO_PKG_VERSION"),
        protocol: config.iperf.protocol,
        bytes_sent: number(sent, "bytes") as u64,
        bytes_received: number(received, "bytes") as u64,
        seconds: number(received, "seconds"),
        goodput_gbps: number(received, "bits_per_second") / 1e9,
        retransmits: sent["retransmits"].as_u64(),
        datagrams_lost: received["lost_packets"].as_u64(),
        cpu_percent: [number(cpu, "host_total"), number(cpu, "remote_total")],
        wire_to_client: direction(0),
        wire_to_server: direction(1),
        nic_drops: [0, 1].map(|node| nic_drops(&pair.nodes()[node])),
        simulated_seconds,
        instructions,
        host_seconds,
        host_mips: if host_seconds == 0.0 { 0.0 } else { executed as f64 / 1e6 / host_seconds },
        state_hash: format!("{:016x}", pair.state_hash()),
    }
}

fn nic_drops(node: &Machine) -> u64 {
    let counters = node.ports()[0].nic.stats().counters();
    counters.iter().filter(|counter| counter.name.starts_with("rx_drop_")).map(|counter| counter.value).sum()
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
        let config = IperfConfig { protocol: Protocol::Udp, streams: 2, reverse: true, ..Default::default() };
        let expected =
            "--client 10.0.0.2 --interval 0 --time 1 --parallel 2 --udp --bitrate 1000000000 --reverse";
        assert_eq!(config.options(), expected);
        let wrong = IperfConfig { streams: 0, ..Default::default() };
        assert_eq!(wrong.validate().unwrap_err().key, "iperf.streams");
    }
}
