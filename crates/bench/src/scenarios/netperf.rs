//! netperf between two nodes: Debian's own netperf and netserver, over the kernel's stack. Either a part of a test is measured, by what
//! crosses the cable, from a checkpoint at which it is at its pace; or a whole test, by what netperf itself finds. The test node runs netserver,
//! but in TCP_SENDFILE, which only netperf itself sends: there it runs netperf.

use std::collections::BTreeMap;

use doorbell_machine::ConfigError;
use doorbell_results::{Protocol, TransferFigures};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::RunError;
use crate::measure::benchmark::{Measured, NodesLoad};
use crate::measure::roles::{CLIENT, Pair, SERVER, role};
use crate::measure::shards;
use crate::measure::transfer::{self, TransferConfig, Transfers};
use crate::plan::config::RunConfig;
use crate::plan::cores;
use crate::plan::kernel::KernelConfig;
use crate::plan::options::{Options, Setting};
use crate::scenarios::suricata::{self, SuricataConfig};
use crate::testbed::control::Control;
use crate::testbed::nodes::NodeGuest;
use crate::testbed::nodes::NodesTestbed;
use crate::testbed::ramp::RunUp;
use crate::window::transfer_counts::{Load, Transaction, is_more_than_talk};

/// The port of the first test's data, of tests on several cores.
const PORT: u16 = 20_000;
/// What netperf is told if it is stopped from outside, in seconds: the longest that it takes.
const WITHOUT_END: u32 = 86_400;
/// More payload than this is not of the talk before a stream.
const TALK_BYTES_MAX: u64 = 64 << 10;
/// The most payload of a request or response by TCP; by UDP it is what one frame holds.
const TCP_MESSAGE_MAX: u32 = 65_536;
/// Bytes of IPv4's and UDP's headers.
const UDP_HEADERS: u32 = 28;
/// What is asked of netperf about a whole test, by its names: of streams, and of requests.
const OF_STREAMS: &str = "THROUGHPUT,THROUGHPUT_UNITS,ELAPSED_TIME";
const OF_REQUESTS: &str =
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
    /// The timed client sends a file, which no core reads or copies.
    TcpSendfile,
    /// A request and its response in turns, by TCP.
    TcpRr,
    /// The same by UDP.
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

/// What watches the server's port beside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Ids {
    /// Nothing.
    #[default]
    None,
    /// suricata, as its own keys have it.
    Suricata,
}

impl Ids {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
    fn is_none(&self) -> bool {
        *self == Ids::None
    }
}

/// netperf's options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NetperfConfig {
    /// The test (-t): TCP_STREAM, TCP_MAERTS, TCP_SENDFILE, TCP_RR or UDP_RR. With TCP_SENDFILE the test node runs netperf and the drive node
    /// netserver, as only netperf sends by sendfile(2); it has one core.
    pub test: NetperfTest,
    /// Cores, 1 to 8 (without this, one), to which tests belong in turns; each has a queue of the NIC that interrupts it, and its tests'
    /// connections (ports 20000 and up) come in by that queue. More than one needs as many harts, NICs of the model 82576,
    /// `platform.interrupts = "aia"`, without which Linux gives a port one queue, and as many streams for each.
    #[serde(skip_serializing_if = "cores::is_one")]
    pub cores: u32,
    /// Tests side by side, each a process with a connection of its own, 1 to 16; of several cores those of all together.
    pub streams: u32,
    /// Bytes of a request (-r), 1 to 65536; by UDP at most what a frame holds.
    pub request: u32,
    /// Bytes of a response (-r), 1 to 65536; by UDP at most what a frame holds.
    pub response: u32,
    /// Measure a whole test of so many seconds (-l), 1 to 60. Without this, `run.duration` of one that goes on for `run.warmup` and
    /// `run.settle`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u32>,
    /// An intrusion detection system that watches a copy of the server's traffic on the server's own core: `none` or `suricata`, of which its
    /// keys say the rest. It needs a `platform.ram` of 384MiB, and one core.
    #[serde(skip_serializing_if = "Ids::is_none")]
    pub ids: Ids,
}

impl Default for NetperfConfig {
    fn default() -> Self {
        NetperfConfig {
            test: NetperfTest::TcpStream,
            cores: 1,
            streams: 1,
            request: 1,
            response: 1,
            seconds: None,
            ids: Ids::None,
        }
    }
}

impl Options for NetperfConfig {
    const SECTION: &'static str = "netperf";

    fn follow(&self, config: &RunConfig) -> Vec<Setting> {
        shards::follow_streams("netperf.streams", (self.cores, self.streams), config)
    }

    fn validate(&self, config: &RunConfig) -> Result<(), ConfigError> {
        let refused = |key: &str, problem: String| Err(ConfigError::new(format!("netperf.{key}"), problem));
        if !(1..=16).contains(&self.streams) {
            return refused("streams", format!("{} is not from 1 to 16", self.streams));
        }
        shards::check_streams(Self::SECTION, self.cores, self.streams, config)?;
        if self.ids == Ids::Suricata {
            if self.cores != 1 {
                let problem = "suricata watches a server of one core; leave out netperf.cores";
                return refused("ids", problem.to_owned());
            }
            config.options::<SuricataConfig>().check_beside(config)?;
            if matches!(self.test, NetperfTest::TcpMaerts | NetperfTest::TcpSendfile) {
                let problem = format!(
                    "what is watched receives, and {} has the test node send; choose another test",
                    self.test.name()
                );
                return refused("ids", problem);
            }
        }
        if self.test == NetperfTest::TcpSendfile && self.cores != 1 {
            let problem = "TCP_SENDFILE is sent by netperf on one core of the test node; leave this out, or choose TCP_MAERTS";
            return refused("cores", problem.to_owned());
        }
        let udp = self.test == NetperfTest::UdpRr;
        let most = match config.options::<KernelConfig>().mtu.unwrap_or(1500) {
            mtu if udp => mtu.saturating_sub(UDP_HEADERS),
            _ => TCP_MESSAGE_MAX,
        };
        for (key, bytes) in [("request", self.request), ("response", self.response)] {
            if !(1..=most).contains(&bytes) {
                return refused(key, format!("{bytes} is not from 1 to {most}"));
            }
            // Other than netperf's default.
            if bytes != 1 && self.test.is_stream() {
                let problem = format!("{} has none; set netperf.test=TCP_RR, or UDP_RR", self.test.name());
                return refused(key, problem);
            }
        }
        match self.seconds {
            Some(seconds) if !(1..=60).contains(&seconds) => {
                refused("seconds", format!("{seconds} is not from 1 to 60"))
            }
            Some(_) if self.streams > 1 => {
                refused("seconds", "several tests end at different times; measure a part of them".to_owned())
            }
            Some(_) if config.options::<TransferConfig>().samples > 1 => {
                refused("seconds", "samples are parts of a test; leave out one of both".to_owned())
            }
            _ => Ok(()),
        }
    }
}

impl NetperfConfig {
    /// The node that sends what is counted: the stream, or the responses.
    fn sender(&self) -> usize {
        if self.test == NetperfTest::TcpStream { 1 } else { 0 }
    }

    /// What is typed at the client: how many tests, and their options.
    fn typed(&self) -> String {
        let mut own = String::new();
        if !self.test.is_stream() {
            own.push_str(&format!(" -r {},{}", self.request, self.response));
        }
        let timing = match self.seconds {
            Some(_) if self.test.is_stream() => {
                own.push_str(&format!(" -k {OF_STREAMS}"));
                ""
            }
            Some(_) => {
                own.push_str(&format!(" -k {OF_REQUESTS}"));
                " -j"
            }
            None => "",
        };
        let seconds = self.seconds.unwrap_or(WITHOUT_END);
        // On several cores the client adds a test's ports.
        let own = if own.is_empty() && self.cores == 1 { own } else { format!(" --{own}") };
        format!("{} -t {} -l {seconds}{timing}{own}", self.streams, self.test.name())
    }
}

impl Transfers for NetperfConfig {
    fn load(&self) -> Load {
        let udp = self.test == NetperfTest::UdpRr;
        Load {
            program: "netperf",
            name: self.test.name().to_owned(),
            connections: self.streams,
            depth: 1,
            in_parts: true,
            start: RunUp {
                client: self.test.client(),
                typed: self.typed(),
                counted: self.sender(),
                begun: if self.test.is_stream() {
                    |carried| carried.tcp_payload > TALK_BYTES_MAX
                } else {
                    is_more_than_talk
                },
                whole: (self.cores > 1).then_some("netperf: all tests are connected"),
            },
            protocol: if udp { Protocol::Udp } else { Protocol::Tcp },
            transaction: (!self.test.is_stream())
                .then_some(Transaction { node: 0, bytes: u64::from(self.response) }),
            failure: |_| None,
            counting: (self.ids == Ids::Suricata).then_some(&suricata::COUNTING),
            servers: shards::ports(PORT, self.streams, self.cores),
        }
    }

    /// netserver and netperf; [`NetperfTest::client`] says where each runs.
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

/// What runs in the nodes.
pub(crate) fn guests(config: &RunConfig) -> Result<Vec<NodeGuest>, ConfigError> {
    let (own, suricata) = (config.options::<NetperfConfig>(), config.options::<SuricataConfig>());
    let Pair { image, server, client } = own.pair();
    if own.ids == Ids::Suricata {
        let server = role!("netperf-watched", "doorbell: ready").after(&suricata.told_beside());
        let [server, client] = [(server, SERVER, "netperf-suricata"), (client, CLIENT, image)]
            .map(|(role, address, image)| role.guest(config, image, (address, 1), ""));
        return Ok(vec![server, client]);
    }
    if *suricata != SuricataConfig::default() {
        let problem = "its keys are set, and nothing watches; add netperf.ids=suricata, or leave them out";
        return Err(ConfigError::new("suricata", problem));
    }
    let pair = Pair { image, server, client };
    Ok(if own.test.client() == 0 { pair.client_first(config) } else { pair.guests(config) })
}

/// A test that goes on is at its pace when measurements begin.
pub(crate) fn run_up(config: &RunConfig) -> Option<RunUp> {
    let own = config.options::<NetperfConfig>();
    own.seconds.is_none().then(|| own.load().start)
}

/// Runs netperf once, and writes what it found, if it came to its end.
pub(crate) fn measure(
    nodes: &NodesTestbed,
    load: &NodesLoad,
    control: &mut Control,
) -> Result<Measured, RunError> {
    measure_load(nodes, load, &load.config.options::<NetperfConfig>().load(), control)
}

/// The same of a load that goes as this configuration says.
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
                test.whole(|console| Some(said(console)).filter(|said| said.contains_key("ELAPSED_TIME")))
            }
            None => test.part(),
        },
        |summary, said| {
            if let (Some(figures), Some(said)) = (&mut summary.transfer, said) {
                as_netperf_says(figures, own, said);
            }
        },
    )
}

/// What netperf printed by its names.
fn said(console: &str) -> BTreeMap<String, String> {
    let named = console.lines().filter_map(|line| line.trim().split_once('='));
    let of_netperf = named.filter(|(name, _)| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
    });
    of_netperf.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Figures of a whole test are netperf's own, if it has said some: what crossed the cable has its talk among it.
fn as_netperf_says(figures: &mut TransferFigures, load: &Load, said: BTreeMap<String, String>) {
    let number = |name: &str| said.get(name).and_then(|text| text.parse::<f64>().ok());
    let Some(seconds) = number("ELAPSED_TIME") else { return };
    figures.seconds = seconds;
    if let Some(megabits) = number("THROUGHPUT") {
        figures.goodput_gbps = Some(megabits * 1e-3);
        figures.bytes_received = (megabits * 1e6 / 8.0 * seconds).round() as u64;
    }
    if let Some(rate) = number("TRANSACTION_RATE") {
        figures.transactions = Some((rate * seconds).round() as u64);
        figures.transactions_per_second = Some(rate);
        figures.round_trip_us = load.round_trip_us(rate);
    }
    figures.said = said;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::resolve::resolve;

    fn typed(set: &[&str]) -> Result<String, String> {
        let set: Vec<String> = set.iter().map(|&text| text.to_owned()).collect();
        let config = resolve("fast", &set).map_err(|error| error.to_string())?;
        Ok(config.options::<NetperfConfig>().typed())
    }

    #[test]
    fn options_are_those_of_the_configuration() {
        assert_eq!(typed(&[]).unwrap(), "1 -t TCP_STREAM -l 86400");
        let set = ["netperf.test=UDP_RR", "netperf.streams=4", "netperf.request=64", "netperf.response=128"];
        assert_eq!(typed(&set).unwrap(), "4 -t UDP_RR -l 86400 -- -r 64,128");
        assert_eq!(typed(&["netperf.test=TCP_SENDFILE"]).unwrap(), "1 -t TCP_SENDFILE -l 86400");
        let machine = ["platform.harts=2", "nic.model=82576", "platform.interrupts=aia"];
        let two = typed(&[&machine[..], &["netperf.cores=2", "netperf.streams=4"]].concat()).unwrap();
        assert_eq!(two, "4 -t TCP_STREAM -l 86400 --");
        let whole = typed(&["netperf.test=TCP_RR", "netperf.seconds=1"]).unwrap();
        assert!(whole.starts_with("1 -t TCP_RR -l 1 -j -- -r 1,1 -k TRANSACTION_RATE,"), "{whole}");
    }

    #[test]
    fn what_netperf_cannot_do_or_would_not_measure_is_refused() {
        for (set, says) in [
            (&["netperf.streams=17"][..], "netperf.streams: 17 is not from 1 to 16"),
            (
                &["netperf.test=UDP_RR", "netperf.response=1473"],
                "netperf.response: 1473 is not from 1 to 1472",
            ),
            (&["netperf.test=TCP_RR", "netperf.request=0"], "netperf.request: 0 is not from 1 to 65536"),
            (&["netperf.seconds=1", "netperf.streams=2"], "netperf.seconds: several"),
            (&["netperf.seconds=1", "transfer.samples=2"], "netperf.seconds: samples"),
            (&["netperf.seconds=61"], "netperf.seconds: 61 is not from 1 to 60"),
            (&["netperf.test=TCP_CRR"], "netperf.test"),
            (&["netperf.ids=snort"], "netperf.ids"),
            (&["netperf.ids=suricata"], "platform.ram: 256MiB is too little for suricata"),
            (&["netperf.ids=suricata", "platform.nics=2"], "netperf.ids: suricata watches the port"),
            (&["netperf.ids=suricata", "platform.harts=2"], "netperf.ids: suricata watches on the core"),
            (
                &["netperf.ids=suricata", "platform.ram=384MiB", "netperf.test=TCP_MAERTS"],
                "netperf.ids: what is watched receives",
            ),
            (
                &["netperf.ids=suricata", "platform.ram=384MiB", "netperf.test=TCP_SENDFILE"],
                "TCP_SENDFILE has the test node send",
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
                "netperf.cores: TCP_SENDFILE is sent by netperf on one core",
            ),
            (&["netperf.ids=suricata", "kernel.gro=true"], "kernel.gro: suricata switches it off"),
            (
                &["netperf.ids=suricata", "kernel.mtu=9000", "suricata.tpacket_v3=false"],
                "suricata.tpacket_v3: a ring of frames has room for an MTU of 1500, not of 9000",
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
                "netperf.ids: suricata watches a server of one core",
            ),
            (&["transfer.samples=0"], "transfer.samples: 0 is not from 1 to 1000"),
            (&["kernel.mtu=9001"], "kernel.mtu: 9001 is not from 576 to 9000"),
        ] {
            let error = typed(set).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        let jumbo = ["netperf.test=UDP_RR", "netperf.response=1473", "kernel.mtu=9000"];
        assert!(typed(&jumbo).is_ok());
    }

    fn guests_of(set: &[&str]) -> Result<Vec<NodeGuest>, String> {
        let set: Vec<String> = set.iter().map(|&text| text.to_owned()).collect();
        guests(&resolve("fast", &set).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_test_node_sends_a_file_to_a_server_in_the_drive_node() {
        let all = guests_of(&["netperf.test=TCP_SENDFILE"]).unwrap();
        let usual = guests_of(&[]).unwrap();
        assert_eq!([&all[0], &all[1]], [&usual[1], &usual[0]], "the same two guests in the other order");
        let start = |test| NetperfConfig { test, ..NetperfConfig::default() }.load().start;
        let nodes = [NetperfTest::TcpStream, NetperfTest::TcpMaerts, NetperfTest::TcpSendfile]
            .map(|test| (start(test).client, start(test).counted));
        assert_eq!(nodes, [(1, 1), (1, 0), (0, 0)], "of client and sender");
    }

    #[test]
    fn suricata_watches_the_server_alone_and_only_if_it_is_asked_to() {
        let ids = ["netperf.ids=suricata", "platform.ram=384MiB"];
        let all = guests_of(&[&ids[..], &["suricata.rules=3", "suricata.depth=2MiB"]].concat()).unwrap();
        assert_eq!([&*all[0].image, &*all[1].image], ["netperf-suricata", "netperf"]);
        let lines = &all[0].script.as_ref().unwrap().1;
        assert!(
            lines.contains("rules=3 runmode=workers ring=2048 v3=yes checksums=kernel depth=2097152\n"),
            "{lines}"
        );
        let usual = guests_of(&ids).unwrap();
        let lines = &usual[0].script.as_ref().unwrap().1;
        assert!(
            lines.contains("rules=12 ") && lines.contains(" depth=0\n"),
            "the image's own, and all of a stream"
        );
        assert_eq!(guests_of(&[]).unwrap()[0].image, "netperf");
        let error = guests_of(&["suricata.ring=64"]).unwrap_err();
        assert!(error.starts_with("suricata: its keys are set, and nothing watches"), "{error}");
    }

    #[test]
    fn what_netperf_says_is_found_among_other_lines() {
        let found =
            said("netperf: waiting\n1 -t TCP_RR\nTRANSACTION_RATE=20000.5\r\nP50_LATENCY=49\nx=1\n=2\n");
        assert_eq!(found.len(), 2);
        assert_eq!(found["TRANSACTION_RATE"], "20000.5");
    }
}
