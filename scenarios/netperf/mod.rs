//! netperf between two nodes: Debian's netperf and netserver over the kernel's stack. Either a part of a test
//! is measured on the cable, from a steady-state checkpoint, or a whole test with netperf's own results. The
//! test node runs netserver, or netperf with TCP_SENDFILE, because only netperf sends by sendfile(2).

use std::collections::BTreeMap;

use doorbell_machine::ConfigError;
use doorbell_results::{Protocol, TransferFigures};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::RunError;
use crate::measure::benchmark::{Benchmark, Measured, Nodes, NodesLoad};
use crate::measure::kinds::{BETWEEN_NODES, KERNEL, TRANSFER};
use crate::measure::roles::{CLIENT, Pair, SERVER, role};
use crate::measure::shards;
use crate::measure::transfer::{self, TransferConfig, Transfers};
use crate::plan::config::RunConfig;
use crate::plan::cores;
use crate::plan::kernel::KernelConfig;
use crate::plan::options::{self, Options, Section, Setting};
use crate::plan::workload::READY_MARKER;
use crate::scenarios::suricata::{self, SuricataConfig};
use crate::testbed::control::Control;
use crate::testbed::nodes::NodeGuest;
use crate::testbed::nodes::NodesTestbed;
use crate::testbed::ramp::Ramp;
use crate::window::transfer_counts::{Load, Transaction};

/// The benchmark.
pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "netperf",
    summary: "netperf between two nodes on one cable: streams in both directions, requests over TCP and UDP",
    nodes: Nodes::Joined { guests, ramp, measure },
    image: "netperf",
    options: &[KERNEL, Section::of::<NetperfConfig>(), TRANSFER, Section::of::<SuricataConfig>()],
    ..BETWEEN_NODES
};

/// Data port of the first test, with tests on several cores.
const PORT: u16 = 20_000;
/// Test duration in seconds if the simulator ends the measurement: the maximum that netperf accepts.
const UNLIMITED_SECONDS: u32 = 86_400;
/// Maximum payload of the setup exchange before a stream, in bytes; with more, the stream has started.
const SETUP_BYTES_MAX: u64 = 64 << 10;
/// Maximum payload of a TCP request or response, in bytes. With UDP, one frame limits it.
const TCP_MESSAGE_MAX: u32 = 65_536;
/// Bytes of the IPv4 and UDP headers.
const UDP_HEADERS: u32 = 28;
/// netperf's output selectors for a whole test: stream tests, and request/response tests.
const STREAM_OUTPUT: &str = "THROUGHPUT,THROUGHPUT_UNITS,ELAPSED_TIME";
const REQUEST_OUTPUT: &str =
    "TRANSACTION_RATE,ELAPSED_TIME,MEAN_LATENCY,P50_LATENCY,P90_LATENCY,P99_LATENCY,MIN_LATENCY,MAX_LATENCY";

/// netperf's tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum NetperfTest {
    /// The client sends a byte stream to the timed server.
    #[default]
    TcpStream,
    /// The server sends a byte stream.
    TcpMaerts,
    /// The timed client sends a file by sendfile(2), without reading or copying its data.
    TcpSendfile,
    /// Alternating requests and responses over TCP.
    TcpRr,
    /// Alternating requests and responses over UDP.
    UdpRr,
}

impl NetperfTest {
    const fn name(self) -> &'static str {
        match self {
            NetperfTest::TcpStream => "TCP_STREAM",
            NetperfTest::TcpMaerts => "TCP_MAERTS",
            NetperfTest::TcpSendfile => "TCP_SENDFILE",
            NetperfTest::TcpRr => "TCP_RR",
            NetperfTest::UdpRr => "UDP_RR",
        }
    }

    const fn is_stream(self) -> bool {
        matches!(self, NetperfTest::TcpStream | NetperfTest::TcpMaerts | NetperfTest::TcpSendfile)
    }

    /// The node that runs netperf; the other one runs netserver.
    const fn client(self) -> usize {
        if matches!(self, NetperfTest::TcpSendfile) { 0 } else { 1 }
    }
}

/// Intrusion detection system that monitors the server's port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Ids {
    /// No monitoring.
    #[default]
    None,
    /// suricata, configured by its own keys.
    Suricata,
}

impl Ids {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde requires a reference")]
    fn is_none(&self) -> bool {
        *self == Ids::None
    }
}

doorbell_sim::config! {
    /// netperf's options.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct NetperfConfig {
        /// The test (-t): TCP_STREAM, TCP_MAERTS, TCP_SENDFILE, TCP_RR or UDP_RR. With TCP_SENDFILE the test
        /// node runs netperf and the drive node netserver, because only netperf sends by sendfile(2); it
        /// supports one core only.
        pub test: NetperfTest = NetperfTest::TcpStream,
        /// Cores, 1 to 8 (1 if unset), among which the tests are distributed round-robin. Each core has its
        /// own NIC queue and interrupt, which receive its tests' connections (ports 20000 and up). More than
        /// one needs as many harts, NICs of the model 82576, `platform.interrupts = "aia"`, without which
        /// Linux uses one queue per port, and equally many streams per core.
        #[serde(skip_serializing_if = "cores::is_one")]
        pub cores: u32 = 1,
        /// Concurrent tests, 1 to 16, each a process with its own connection; the total of all cores.
        pub streams: u32 = 1,
        /// Bytes per request (-r), 1 to 65536; with UDP at most one frame's payload.
        pub request: u32 = 1,
        /// Bytes per response (-r), 1 to 65536; with UDP at most one frame's payload.
        pub response: u32 = 1,
        /// Measure a whole test of this many seconds (-l), 1 to 60. If unset, `run.duration` of a running
        /// test is measured, after `run.warmup` and `run.settle`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub seconds: Option<u32> = None,
        /// Intrusion detection system that monitors a copy of the server's traffic on the server's core:
        /// `none` or `suricata`, which its own keys configure. It needs a `platform.ram` of 384MiB, and one
        /// core.
        #[serde(skip_serializing_if = "Ids::is_none")]
        pub ids: Ids = Ids::None,
    }
}

impl Options for NetperfConfig {
    const SECTION: &'static str = "netperf";

    fn required_settings(&self, config: &RunConfig) -> Vec<Setting> {
        shards::follow_streams("netperf.streams", self.cores, self.streams, config)
    }

    fn validate(&self, config: &RunConfig) -> Result<(), ConfigError> {
        let refused = |key: &str, problem: String| Err(ConfigError::new(format!("netperf.{key}"), problem));
        options::check_range("netperf.streams", self.streams, 1..=16)?;
        shards::check_streams(Self::SECTION, self.cores, self.streams, config)?;
        if self.ids == Ids::Suricata {
            if self.cores != 1 {
                let problem = "suricata monitors a server on one core only; remove netperf.cores";
                return refused("ids", problem.to_owned());
            }
            config.options::<SuricataConfig>().check_monitored_server(config)?;
            if matches!(self.test, NetperfTest::TcpMaerts | NetperfTest::TcpSendfile) {
                let problem = format!(
                    "the monitored node must receive, but with {} it sends; choose another test",
                    self.test.name()
                );
                return refused("ids", problem);
            }
        }
        if self.test == NetperfTest::TcpSendfile && self.cores != 1 {
            let problem = "TCP_SENDFILE runs netperf on one core of the test node; remove netperf.cores, or choose TCP_MAERTS";
            return refused("cores", problem.to_owned());
        }
        let udp = self.test == NetperfTest::UdpRr;
        let most = match config.options::<KernelConfig>().mtu.unwrap_or(1500) {
            mtu if udp => mtu.saturating_sub(UDP_HEADERS),
            _ => TCP_MESSAGE_MAX,
        };
        for (key, bytes) in [("request", self.request), ("response", self.response)] {
            options::check_range(format!("netperf.{key}"), bytes, 1..=most)?;
            // 1 is netperf's default.
            if bytes != 1 && self.test.is_stream() {
                let problem = format!(
                    "{} is a stream without requests; set netperf.test=TCP_RR or UDP_RR",
                    self.test.name()
                );
                return refused(key, problem);
            }
        }
        options::check_range("netperf.seconds", self.seconds.unwrap_or(1), 1..=60)?;
        match self.seconds {
            Some(_) if self.streams > 1 => {
                let problem =
                    "several tests end at different times; remove netperf.seconds to measure a part of them";
                refused("seconds", problem.to_owned())
            }
            Some(_) if config.options::<TransferConfig>().samples > 1 => {
                let problem = "samples are parts of a test; remove netperf.seconds or transfer.samples";
                refused("seconds", problem.to_owned())
            }
            _ => Ok(()),
        }
    }
}

impl NetperfConfig {
    /// The node that sends the measured data: the stream, or the responses.
    fn sender(&self) -> usize {
        if self.test == NetperfTest::TcpStream { 1 } else { 0 }
    }

    /// Line typed on the client's console: number of tests and their options.
    fn command(&self) -> String {
        let mut own = String::new();
        if !self.test.is_stream() {
            own.push_str(&format!(" -r {},{}", self.request, self.response));
        }
        let timing = match self.seconds {
            Some(_) if self.test.is_stream() => {
                own.push_str(&format!(" -k {STREAM_OUTPUT}"));
                ""
            }
            Some(_) => {
                own.push_str(&format!(" -k {REQUEST_OUTPUT}"));
                " -j"
            }
            None => "",
        };
        let seconds = self.seconds.unwrap_or(UNLIMITED_SECONDS);
        // On several cores the client's script appends each test's ports.
        let own = if own.is_empty() && self.cores == 1 { own } else { format!(" --{own}") };
        format!("{} -t {} -l {seconds}{timing}{own}", self.streams, self.test.name())
    }
}

impl Transfers for NetperfConfig {
    fn load(&self) -> Load {
        let udp = self.test == NetperfTest::UdpRr;
        let mut start = Ramp {
            client: self.test.client(),
            sender: self.sender(),
            all_started: (self.cores > 1).then_some("netperf: all tests are connected"),
            ..Ramp::of_server(self.command())
        };
        if self.test.is_stream() {
            start.detects_start = |carried| carried.tcp_payload > SETUP_BYTES_MAX;
        }
        Load {
            connections: self.streams,
            protocol: if udp { Protocol::Udp } else { Protocol::Tcp },
            transaction: (!self.test.is_stream())
                .then_some(Transaction { node: 0, bytes: u64::from(self.response) }),
            counting: (self.ids == Ids::Suricata).then_some(&suricata::COUNTING),
            servers: shards::ports(PORT, self.streams, self.cores),
            ..Load::tcp("netperf", self.test.name().to_owned(), start)
        }
    }

    /// netserver and netperf; [`NetperfTest::client`] determines their nodes.
    fn pair(&self) -> Pair {
        let (server, client) = match self.cores {
            1 => (role!("netperf-server", "Starting netserver"), role!("netperf-client", "netperf: waiting")),
            _ => {
                (role!("netperf-servers", "Starting netserver"), role!("netperf-clients", "netperf: waiting"))
            }
        };
        shards::on_cores(self.cores, Pair { image: "netperf", server, client })
    }
}

/// The guests of the two nodes.
fn guests(config: &RunConfig) -> Result<Vec<NodeGuest>, ConfigError> {
    let (own, suricata) = (config.options::<NetperfConfig>(), config.options::<SuricataConfig>());
    let Pair { image, server, client } = own.pair();
    if own.ids == Ids::Suricata {
        let server = role!("netperf-watched", READY_MARKER).after(&suricata.server_script_variables());
        let [server, client] = [(server, SERVER, "netperf-suricata"), (client, CLIENT, image)]
            .map(|(role, address, image)| role.guest(config, image, address, 1, ""));
        return Ok(vec![server, client]);
    }
    let problem = "its settings have no effect without netperf.ids=suricata; set that, or remove them";
    options::reject_if(*suricata != SuricataConfig::default(), "suricata", problem)?;
    let pair = Pair { image, server, client };
    Ok(if own.test.client() == 0 { pair.client_first(config) } else { pair.guests(config) })
}

/// The load that reaches steady state before measurements begin; none for a whole test.
pub(crate) fn ramp(config: &RunConfig) -> Option<Ramp> {
    let own = config.options::<NetperfConfig>();
    own.seconds.is_none().then(|| own.load().start)
}

/// Measures netperf once; a whole test with netperf's own figures.
fn measure(nodes: &NodesTestbed, load: &NodesLoad, control: &mut Control) -> Result<Measured, RunError> {
    measure_load(nodes, load, &load.config.options::<NetperfConfig>().load(), control)
}

/// Measures `own`, a load derived from the netperf options, once.
pub(crate) fn measure_load(
    nodes: &NodesTestbed,
    load: &NodesLoad,
    own: &Load,
    control: &mut Control,
) -> Result<Measured, RunError> {
    let options = load.config.options::<NetperfConfig>();
    transfer::measure(
        nodes,
        load,
        own,
        control,
        |test| match options.seconds {
            Some(_) => {
                let complete = |output: &BTreeMap<_, _>| output.contains_key("ELAPSED_TIME");
                test.whole(|console| Some(netperf_output(console)).filter(complete))
            }
            None => test.part(),
        },
        |summary, output| {
            if let (Some(figures), Some(output)) = (&mut summary.transfer, output) {
                use_netperf_figures(figures, own, output);
            }
        },
    )
}

/// netperf's output variables (`NAME=value` lines) on a console.
fn netperf_output(console: &str) -> BTreeMap<String, String> {
    let assignments = console.lines().filter_map(|line| line.trim().split_once('='));
    let variables = assignments.filter(|(name, _)| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
    });
    variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Replaces a whole test's figures by netperf's own, if it printed any. Figures from the cable include the
/// setup exchange.
fn use_netperf_figures(figures: &mut TransferFigures, load: &Load, output: BTreeMap<String, String>) {
    let number = |name: &str| output.get(name).and_then(|text| text.parse::<f64>().ok());
    let Some(seconds) = number("ELAPSED_TIME") else { return };
    figures.totals.seconds = seconds;
    if let Some(megabits) = number("THROUGHPUT") {
        figures.goodput_gbps = Some(megabits * 1e-3);
        figures.totals.bytes_received = (megabits * 1e6 / 8.0 * seconds).round() as u64;
    }
    if let Some(rate) = number("TRANSACTION_RATE") {
        figures.transactions = Some((rate * seconds).round() as u64);
        figures.transactions_per_second = Some(rate);
        figures.round_trip_us = load.round_trip_us(rate);
    }
    figures.said = output;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::resolve::resolve;

    fn command(set: &[&str]) -> Result<String, String> {
        let set: Vec<String> = set.iter().map(|&text| text.to_owned()).collect();
        let config = resolve("fast", &set).map_err(|error| error.to_string())?;
        Ok(config.options::<NetperfConfig>().command())
    }

    #[test]
    fn the_typed_line_follows_the_configuration() {
        assert_eq!(command(&[]).unwrap(), "1 -t TCP_STREAM -l 86400");
        let set = ["netperf.test=UDP_RR", "netperf.streams=4", "netperf.request=64", "netperf.response=128"];
        assert_eq!(command(&set).unwrap(), "4 -t UDP_RR -l 86400 -- -r 64,128");
        assert_eq!(command(&["netperf.test=TCP_SENDFILE"]).unwrap(), "1 -t TCP_SENDFILE -l 86400");
        let machine = ["platform.harts=2", "nic.model=82576", "platform.interrupts=aia"];
        let two = command(&[&machine[..], &["netperf.cores=2", "netperf.streams=4"]].concat()).unwrap();
        assert_eq!(two, "4 -t TCP_STREAM -l 86400 --");
        let whole = command(&["netperf.test=TCP_RR", "netperf.seconds=1"]).unwrap();
        assert!(whole.starts_with("1 -t TCP_RR -l 1 -j -- -r 1,1 -k TRANSACTION_RATE,"), "{whole}");
    }

    #[test]
    fn unsupported_combinations_are_rejected() {
        for (set, message) in [
            (&["netperf.streams=17"][..], "netperf.streams: 17 is not from 1 to 16"),
            (&["netperf.test=UDP_RR", "netperf.response=1473"], "netperf.response: 1473 is not from 1 to"),
            (&["netperf.test=TCP_RR", "netperf.request=0"], "netperf.request: 0 is not from 1 to 65536"),
            (&["netperf.seconds=1", "netperf.streams=2"], "netperf.seconds: several"),
            (&["netperf.seconds=1", "transfer.samples=2"], "netperf.seconds: samples"),
            (&["netperf.seconds=61"], "netperf.seconds: 61 is not from 1 to 60"),
            (&["netperf.test=TCP_CRR"], "netperf.test"),
            (&["netperf.ids=snort"], "netperf.ids"),
            (&["netperf.ids=suricata"], "platform.ram: 256MiB is too little for suricata"),
            (&["netperf.ids=suricata", "platform.nics=2"], "netperf.ids: suricata monitors a server with"),
            (&["netperf.ids=suricata", "platform.harts=2"], "netperf.ids: suricata runs on the server's"),
            (
                &["netperf.ids=suricata", "platform.ram=384MiB", "netperf.test=TCP_MAERTS"],
                "netperf.ids: the monitored node must receive",
            ),
            (
                &["netperf.ids=suricata", "platform.ram=384MiB", "netperf.test=TCP_SENDFILE"],
                "with TCP_SENDFILE it sends",
            ),
            (
                &[
                    "netperf.test=TCP_SENDFILE",
                    "netperf.cores=2",
                    "netperf.streams=2",
                    "platform.harts=2",
                    "nic.model=82576",
                    "platform.interrupts=aia",
                ],
                "netperf.cores: TCP_SENDFILE runs netperf on one core",
            ),
            (&["netperf.ids=suricata", "kernel.gro=true"], "kernel.gro: suricata switches it off"),
            (
                &["netperf.ids=suricata", "kernel.mtu=9000", "suricata.tpacket_v3=false"],
                "suricata.tpacket_v3: a ring of frames supports an MTU of at most 1500, not 9000",
            ),
            (
                &[
                    "netperf.ids=suricata",
                    "netperf.cores=2",
                    "netperf.streams=2",
                    "platform.ram=384MiB",
                    "platform.harts=2",
                    "nic.model=82576",
                    "platform.interrupts=aia",
                ],
                "netperf.ids: suricata monitors a server on one core",
            ),
            (&["transfer.samples=0"], "transfer.samples: 0 is not from 1 to 1000"),
            (&["kernel.mtu=9001"], "kernel.mtu: 9001 is not from 576 to 9000"),
        ] {
            let error = command(set).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
        let jumbo = ["netperf.test=UDP_RR", "netperf.response=1473", "kernel.mtu=9000"];
        assert!(command(&jumbo).is_ok());
    }

    fn guests_of(set: &[&str]) -> Result<Vec<NodeGuest>, String> {
        let set: Vec<String> = set.iter().map(|&text| text.to_owned()).collect();
        guests(&resolve("fast", &set).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn with_tcp_sendfile_the_test_node_runs_the_client() {
        let sendfile = guests_of(&["netperf.test=TCP_SENDFILE"]).unwrap();
        let default = guests_of(&[]).unwrap();
        assert_eq!([&sendfile[0], &sendfile[1]], [&default[1], &default[0]], "the same guests, swapped");
        let start = |test| NetperfConfig { test, ..NetperfConfig::default() }.load().start;
        let nodes = [NetperfTest::TcpStream, NetperfTest::TcpMaerts, NetperfTest::TcpSendfile]
            .map(|test| (start(test).client, start(test).sender));
        assert_eq!(nodes, [(1, 1), (1, 0), (0, 0)], "nodes of client and sender");
    }

    #[test]
    fn suricata_monitors_only_the_server_and_only_if_configured() {
        let ids = ["netperf.ids=suricata", "platform.ram=384MiB"];
        let guests = guests_of(&[&ids[..], &["suricata.rules=3", "suricata.depth=2MiB"]].concat()).unwrap();
        assert_eq!([&*guests[0].image, &*guests[1].image], ["netperf-suricata", "netperf"]);
        let lines = &guests[0].script.as_ref().unwrap().1;
        assert!(
            lines.contains("rules=3 runmode=workers ring=2048 v3=yes checksums=kernel depth=2097152\n"),
            "{lines}"
        );
        let default = guests_of(&ids).unwrap();
        let lines = &default[0].script.as_ref().unwrap().1;
        assert!(
            lines.contains("rules=12 ") && lines.contains(" depth=0\n"),
            "the image's rules, and unlimited depth"
        );
        assert_eq!(guests_of(&[]).unwrap()[0].image, "netperf");
        let error = guests_of(&["suricata.ring=64"]).unwrap_err();
        assert!(error.starts_with("suricata: its settings have no effect without netperf.ids"), "{error}");
    }

    #[test]
    fn netperf_output_is_found_among_other_lines() {
        let console = "netperf: waiting\n1 -t TCP_RR\nTRANSACTION_RATE=20000.5\r\nP50_LATENCY=49\nx=1\n=2\n";
        let output = netperf_output(console);
        assert_eq!(output.len(), 2);
        assert_eq!(output["TRANSACTION_RATE"], "20000.5");
    }
}
