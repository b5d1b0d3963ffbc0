//! iperf3 between two nodes: Debian's own, over the kernel's stack, TCP or UDP. Either a part of a transfer is measured, by
//! what crosses the cable, or a whole test, by what iperf3 itself finds.

use std::time::Instant;

use doorbell_machine::{ConfigError, Mode, Network, NetworkOutcome, Outcome};
use doorbell_results::{IperfFigures, Protocol, Steady, SteadyPhase};
use doorbell_sim::{BitsPerSec, Ps};
use doorbell_wire::pcap::{PcapFile, WHOLE_FRAMES};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::RunConfig;
use crate::control::{Control, LINES_SHOWN, run_network_watched};
use crate::error::{RunError, describe};
use crate::folder::pretty;
use crate::interval::{Interval, OpenInterval, all_dropped, meanings};
use crate::length::Length;
use crate::nodes::NodeGuest;
use crate::observe::{NodeTrace, Observe};
use crate::options::Options;
use crate::prepared::{Measured, NodesLoad, profile_test_node};
use crate::steady::{Pace, Watch};
use crate::system::System;
use crate::testbed::Testbed;

/// What a measurement needs beside the presets' times: TCP comes to its pace on a timed machine in some milliseconds.
pub(crate) const DEFAULTS: &[&str] = &["run.settle=5ms", "run.duration=20ms"];

/// What runs in the nodes: the server in node 0, the client in node 1.
pub fn guests() -> [NodeGuest; 2] {
    let role = |name: &str, lines: &str, ready_marker: &str, address| NodeGuest {
        image: "net".to_owned(),
        instead: None,
        disks: Vec::new(),
        words: format!("doorbell.app={name} doorbell.ip={address}"),
        script: Some((name.to_owned(), lines.to_owned())),
        ready_marker: ready_marker.to_owned(),
    };
    [
        role(
            "iperf-server",
            include_str!("../../../guest/scripts/iperf-server"),
            "Server listening",
            "10.0.0.2/24",
        ),
        role(
            "iperf-client",
            include_str!("../../../guest/scripts/iperf-client"),
            "iperf: waiting",
            "10.0.0.3/24",
        ),
    ]
}

/// Simulated time after which a test that does not end, or does not begin, is given up.
const PATIENCE: Ps = Ps(600 * Ps::PER_SECOND);
/// How often it is looked whether data flow.
const STEP: Ps = Ps::from_us(100);
/// More payload than this is not of the talk before a test.
const TALK_BYTES_MAX: u64 = 8 << 10;
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
    /// Connections side by side (--parallel), 1 to 16.
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
            streams: 1,
            rate: BitsPerSec(1_000_000_000),
            reverse: false,
            mss: None,
        }
    }
}

impl Options for IperfConfig {
    const SECTION: &'static str = "iperf";

    fn validate(&self, _: &RunConfig) -> Result<(), ConfigError> {
        if !(1..=16).contains(&self.streams) {
            return Err(ConfigError::new("iperf.streams", format!("{} is not from 1 to 16", self.streams)));
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
    /// The node that sends the data.
    fn sender(&self) -> usize {
        if self.reverse { 0 } else { 1 }
    }

    /// What is typed at the client.
    fn options(&self) -> String {
        let seconds = self.seconds.unwrap_or(WITHOUT_END);
        let mut words =
            format!("--client 10.0.0.2 --interval 0 --time {seconds} --parallel {}", self.streams);
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

/// Runs iperf3 once, and writes what it found, if it came to its end.
pub(crate) fn measure(
    nodes: &Testbed,
    load: &NodesLoad,
    control: &mut Control,
) -> Result<Measured, RunError> {
    let NodesLoad { config, observe, folder, .. } = *load;
    let own = config.options::<IperfConfig>();
    let started = Instant::now();
    let mut network = nodes.network()?;
    observe.check_nodes(&network)?;
    network.follow_flows(0);
    if let Some(path) = &observe.capture {
        network.capture(0, PcapFile::create(path, WHOLE_FRAMES)?);
    }
    let what = format!("iperf, {}", own.in_words());
    let trace = NodeTrace::create(observe, &network, Some(0), |_| config, &what)?;
    let before = network.instructions();
    let mut test = Test { network: &mut network, config, observe, trace: trace.as_ref(), control };
    let ((mut interval, iperf3), steady) = match own.seconds {
        Some(_) => (test.whole()?, None),
        None => {
            let (interval, steady) = test.part()?;
            ((interval, None), Some(steady))
        }
    };
    network.check_conservation();
    network.finish_captures()?;
    trace.map_or(Ok(()), |trace| trace.finish(nodes, &mut network))?;
    let host = (started.elapsed().as_secs_f64(), network.instructions() - before);
    let named = ("iperf", own.in_words());
    let mut summary = interval.point(named, config, &network, own.sender(), host);
    summary.steady = steady;
    summary.iperf = Some(match &iperf3 {
        Some(result) => figures_of_whole(config, &interval, result),
        None => figures_of_part(config, &interval),
    });
    profile_test_node(load, nodes, (&mut network, interval.watched[0].take()), &mut summary)?;
    folder.write_nodes(config, &network)?;
    if let Some(found) = &iperf3 {
        folder.write("iperf3.json", &pretty(found))?;
    }
    Ok(Measured { config: config.clone(), meanings: meanings(&summary, &network), summary })
}

/// A test on its way.
struct Test<'a, 'c> {
    network: &'a mut Network,
    config: &'a RunConfig,
    observe: &'a Observe,
    trace: Option<&'a NodeTrace>,
    control: &'a mut Control<'c>,
}

impl Test<'_, '_> {
    /// Lets the client begin.
    fn begin(&mut self) {
        let typed = format!("{}\n", self.config.options::<IperfConfig>().options());
        let taken = self.network.node_mut(1).type_input(typed.as_bytes());
        assert_eq!(taken, typed.len(), "the keyboard has room for a line");
    }

    /// Runs to a time; anything else that ends the run is an error.
    fn until(&mut self, time: Ps) -> Result<(), RunError> {
        match run_network_watched(self.network, time, false, self.control)? {
            NetworkOutcome::Time => Ok(()),
            outcome => Err(self.ended(&outcome)),
        }
    }

    /// Measures a part of a transfer: the test node's caches warm up while it comes to its pace, then everything is timed.
    fn part(&mut self) -> Result<(Interval, Steady), RunError> {
        let (run, sender) = (&self.config.run, self.config.options::<IperfConfig>().sender());
        self.begin();
        let patience = self.network.now() + PATIENCE;
        let payload = |network: &Network| {
            let carried = &network.carried(0).expect("its flows are followed")[sender];
            carried.tcp_payload + carried.udp_payload
        };
        while payload(self.network) <= TALK_BYTES_MAX {
            if self.network.now() >= patience {
                return Err(self.ended(&NetworkOutcome::Time));
            }
            self.until(self.network.now() + STEP)?;
        }
        let timed = self.network.node(0).timing().is_some();
        self.network.node_mut(0).set_mode(Mode::Warming);
        let mut steady = Steady { warmup: self.phase(timed, (run.warmup, run.warmup_limit))?, settle: None };
        if timed {
            self.network.node_mut(0).set_mode(Mode::Detailed);
            steady.settle = self.phase(false, (run.settle, run.settle_limit))?;
        }
        let open = OpenInterval::begin(self.network, self.observe, self.trace);
        self.until(self.network.now() + run.duration)?;
        Ok((open.end(self.network, self.trace), steady))
    }

    /// A phase in which the test node's caches are to become steady, or queues; and the pace of the transfer.
    fn phase(&mut self, caches: bool, length: (Length, Ps)) -> Result<Option<SteadyPhase>, RunError> {
        let network = &*self.network;
        let watch = Watch::begin(caches, Pace::Programs, network.longest_link(), network.seen());
        watch.until_steady(length, |time| {
            self.until(time)?;
            Ok(self.network.seen())
        })
    }

    /// Measures a whole test, from the start of the client to its end, timed from the beginning.
    fn whole(&mut self) -> Result<(Interval, Option<Value>), RunError> {
        self.network.node_mut(0).set_mode(Mode::Detailed);
        let open = OpenInterval::begin(self.network, self.observe, self.trace);
        self.begin();
        let patience = self.network.now() + PATIENCE;
        let ends_well = |nodes: &[(usize, Outcome)]| {
            nodes.iter().all(|(_, outcome)| matches!(outcome, Outcome::PowerOff { code: 0 }))
        };
        while !self.network.is_off(1) {
            match run_network_watched(self.network, patience, false, self.control)? {
                NetworkOutcome::Nodes(nodes) if ends_well(&nodes) => {}
                outcome => return Err(self.ended(&outcome)),
            }
        }
        let found = result(&self.network.node(1).console.text());
        match found.filter(|found| found["error"].is_null()) {
            Some(found) => Ok((open.end(self.network, self.trace), Some(found))),
            None => Err(self.ended(&NetworkOutcome::Nodes(vec![(1, Outcome::PowerOff { code: 0 })]))),
        }
    }

    /// Why a test failed: iperf3's own words, if it has some.
    fn ended(&self, outcome: &NetworkOutcome) -> RunError {
        let said = result(&self.network.node(1).console.text());
        let (node, why) = match (outcome, said.as_ref().and_then(|said| said["error"].as_str())) {
            (_, Some(problem)) => (0, format!("iperf3: {problem}")),
            (NetworkOutcome::Nodes(nodes), None) => {
                let (node, outcome) = nodes[0];
                (node, format!("node {node}: {}", describe(outcome, self.network.now())))
            }
            (NetworkOutcome::Asleep, None) => {
                (1, "both nodes sleep, and nothing is left that would wake them".to_owned())
            }
            (NetworkOutcome::Time, None) => {
                (1, format!("iperf3 did not come to its end, or to sending, in {PATIENCE}"))
            }
        };
        RunError::Ended { why, console: self.network.node(node).console.last_lines(LINES_SHOWN) }
    }
}

/// The JSON object that iperf3 printed on a console.
fn result(console: &str) -> Option<Value> {
    let begin = console.find("\n{\n")? + 1;
    let end = begin + console[begin..].find("\n}\n")? + 3;
    serde_json::from_str(&console[begin..end]).ok()
}

/// As the cable shows them.
fn figures_of_part(config: &RunConfig, interval: &Interval) -> IperfFigures {
    let sender = config.options::<IperfConfig>().sender();
    let carried = &interval.carried.as_ref().expect("its flows are followed")[sender];
    let (bytes_sent, bytes_received) = match config.options::<IperfConfig>().protocol {
        Protocol::Tcp => (carried.tcp_payload, carried.tcp_acknowledged),
        Protocol::Udp => {
            // Datagrams are all of one size, and nearly all frames there are.
            let frames = interval.sent[sender].frames;
            let lost = all_dropped(&interval.dropped[1 - sender]) + interval.sent[sender].lost;
            let accepted = frames.saturating_sub(lost) as f64 / frames.max(1) as f64;
            (carried.udp_payload, (carried.udp_payload as f64 * accepted) as u64)
        }
    };
    IperfFigures {
        protocol: config.options::<IperfConfig>().protocol,
        bytes_sent,
        bytes_received,
        seconds: interval.seconds,
        goodput_gbps: bytes_received as f64 * 8e-9 / interval.seconds,
        retransmits: None,
        datagrams_lost: None,
        cpu_percent: None,
        wire_to_client: interval.sent[0].clone(),
        wire_to_server: interval.sent[1].clone(),
        nic_drops: [0, 1].map(|node| all_dropped(&interval.dropped[node])),
        node_instructions: [0, 1].map(|node| interval.instructions[node]),
    }
}

/// As iperf3 says.
fn figures_of_whole(config: &RunConfig, interval: &Interval, iperf3: &Value) -> IperfFigures {
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
        ..figures_of_part(config, interval)
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
        let wrong = IperfConfig { streams: 0, ..Default::default() };
        assert_eq!(wrong.validate(&RunConfig::default()).unwrap_err().key, "iperf.streams");
    }
}
