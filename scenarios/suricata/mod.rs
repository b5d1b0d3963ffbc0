//! Debian's suricata, an intrusion detection system, behind a mirror port (SPAN): it receives a copy of other
//! machines' traffic by AF_PACKET and sends nothing. A frame is delivered when suricata has decoded it.

use doorbell_loadgen::Returned;
use std::ops::RangeInclusive;

use doorbell_machine::ConfigError;
use doorbell_sim::{Bytes, config};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::benchmark::Benchmark;
use crate::measure::kinds::{KERNEL, KERNEL_PROGRAM};
use crate::plan::config::RunConfig;
use crate::plan::counting::Counting;
use crate::plan::drive::{DriveConfig, DriveKind};
use crate::plan::kernel::{self, KernelConfig};
use crate::plan::options::{self, Options, Section};

/// The benchmark.
pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "suricata",
    summary: "an intrusion detection system monitors a copy of the traffic; a frame is delivered when decoded",
    image: "suricata",
    guest_words,
    options: &[KERNEL, Section::of::<SuricataConfig>()],
    defaults: DEFAULTS,
    returned: |_| Returned::Sink,
    counting: Some(&COUNTING),
    ..KERNEL_PROGRAM
};

/// RAM for suricata's tables and its ring, and a long window: suricata receives frames in blocks, and a
/// window should include many blocks.
const DEFAULTS: &[&str] = &[
    "suricata.rules=12",
    "platform.ram=512MiB",
    "loadgen.traffic.rate=200kpps",
    "run.window=50ms",
    "run.duration_limit=200ms",
];

/// Number of rules.
const RULES: RangeInclusive<u32> = 0..=2000;
/// Number of rules in the image.
const OWN_RULES: u32 = 12;
/// Maximum reassembly depth.
const DEPTH_MAX: Bytes = Bytes(1 << 30);
/// Maximum MTU with a ring of frames (no tpacket-v3 blocks).
const MTU_IN_FRAMES: u32 = 1500;
/// Frames per ring.
const RING: RangeInclusive<u32> = 64..=65_536;
/// RAM for Linux and suricata, including a ring of up to [`RING_INCLUDED`] bytes.
const RAM_BASE: u64 = 384 << 20;
/// Ring bytes per frame, rounded up.
const FRAME_BYTES: u64 = 2048;
/// Ring bytes that [`RAM_BASE`] includes.
const RING_INCLUDED: u64 = 8 << 20;

/// suricata's counters.
pub(crate) const COUNTING: Counting = Counting {
    program: "suricata",
    counters: &[
        (
            "capture.kernel_packets",
            "Frames that the kernel received for suricata's ring, including those dropped because it was full",
        ),
        ("capture.kernel_drops", "Frames that the kernel dropped because suricata's ring was full"),
        ("decoder.pkts", "Frames that suricata took from its ring and decoded"),
        ("decoder.bytes", "Bytes of the frames that suricata decoded, without FCS"),
        ("decoder.invalid", "Frames that suricata could not decode"),
        ("decoder.ipv4", "IPv4 packets that suricata decoded"),
        ("decoder.ipv6", "IPv6 packets that suricata decoded"),
        ("decoder.tcp", "TCP segments that suricata decoded"),
        ("decoder.udp", "UDP datagrams that suricata decoded"),
        ("flow.total", "Flows that suricata created"),
        ("tcp.sessions", "TCP connections whose start suricata observed"),
        ("detect.alert", "Alerts raised by matching rules"),
    ],
    seen: "decoder.pkts",
    bytes: "decoder.bytes",
    lost: "capture.kernel_drops",
    alerts: "detect.alert",
    // Short frames per block of 32 KiB.
    block: 300,
};

/// suricata's threading of packet processing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Runmode {
    /// One thread per ring, which does all processing of a packet.
    #[default]
    Workers,
    /// One thread for all rings, which does all processing.
    Single,
    /// One thread receives and decodes; other threads match the rules.
    Autofp,
}

/// Verification of packet checksums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Checksums {
    /// All packets except those that the kernel marks as not yet checksummed, which only a host's own packets
    /// are.
    #[default]
    Kernel,
    /// All packets.
    Yes,
    /// No packets.
    No,
}

config! {
    /// suricata's options.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct SuricataConfig {
        /// Number of rules, 0 to 2000 (the benchmark sets 12): first the image's twelve, then generated ones.
        /// Each of these searches UDP and TCP payloads for its own text, which no generated frame contains.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub rules: Option<u32> = None,
        /// Threading (runmode): "workers", "single" or "autofp".
        pub runmode: Runmode = Runmode::Workers,
        /// Capacity of the ring in frames (af-packet.ring-size), 64 to 65536.
        pub ring: u32 = 2048,
        /// Whether the ring consists of blocks (tpacket-v3), each handed over when it is full or 10 ms old,
        /// or of frames.
        pub tpacket_v3: bool = true,
        /// Checksum verification (af-packet.checksum-checks): "yes", "no", or "kernel", which skips packets
        /// that the kernel marks as not yet checksummed.
        pub checksums: Checksums = Checksums::Kernel,
        /// Bytes inspected in each direction of a TCP connection (stream.reassembly.depth), at most 1GiB; 0B
        /// inspects all. If unset, 1MiB, or all for a monitored server (`netperf.ids`).
        #[serde(skip_serializing_if = "Option::is_none")]
        pub depth: Option<Bytes> = None,
    }
}

impl Options for SuricataConfig {
    const SECTION: &'static str = "suricata";
    const QUIET: bool = true;

    fn validate(&self, config: &RunConfig) -> Result<(), ConfigError> {
        options::check_range("suricata.ring", self.ring, RING)?;
        let problem = "it must be at most 1GiB, or 0B to inspect whole connections";
        options::reject_if(self.depth.is_some_and(|depth| depth > DEPTH_MAX), "suricata.depth", problem)?;
        // Other benchmarks do not set the number of rules.
        self.rules.map_or(Ok(()), |rules| self.check_mirror_port(rules, config))
    }
}

impl SuricataConfig {
    /// Checks that suricata can monitor a load generator's traffic on this machine.
    fn check_mirror_port(&self, rules: u32, config: &RunConfig) -> Result<(), ConfigError> {
        self.check_machine(rules, config)?;
        let problem =
            format!("{}, but suricata monitors one port; set platform.nics=1", config.platform.nics);
        options::reject_if(config.platform.nics != 1, "platform.nics", problem)?;
        let problem = "suricata's counters can be read with a load generator only; set drive.kind=generator, or monitor a server: \
                 doorbell run netperf --set netperf.ids=suricata";
        options::reject_if(config.options::<DriveConfig>().kind == DriveKind::Node, "drive.kind", problem)?;
        Ok(())
    }

    /// Checks that suricata can monitor the port of a server on this machine.
    pub(crate) fn check_monitored_server(&self, config: &RunConfig) -> Result<(), ConfigError> {
        let problem = "suricata monitors a server with one port; set platform.nics=1, or remove netperf.ids";
        options::reject_if(config.platform.nics != 1, "netperf.ids", problem)?;
        let problem = format!(
            "suricata runs on the server's core, but Linux would spread both over {} harts; set platform.harts=1",
            config.platform.harts
        );
        options::reject_if(config.platform.harts > 1, "netperf.ids", problem)?;
        let kernel = config.options::<KernelConfig>();
        let offloads = [("gro", kernel.gro), ("tso", kernel.tso), ("gso", kernel.gso)];
        if let Some((name, _)) = offloads.into_iter().find(|(_, on)| *on == Some(true)) {
            let problem = "suricata switches it off on the monitored port, to receive unmodified frames; remove this setting";
            return Err(ConfigError::new(format!("kernel.{name}"), problem));
        }
        if let Some(mtu) = kernel.mtu.filter(|mtu| !self.tpacket_v3 && *mtu > MTU_IN_FRAMES) {
            let problem = format!(
                "a ring of frames supports an MTU of at most {MTU_IN_FRAMES}, not {mtu}; remove suricata.tpacket_v3 or kernel.mtu"
            );
            return Err(ConfigError::new("suricata.tpacket_v3", problem));
        }
        self.check_machine(self.rules.unwrap_or(OWN_RULES), config)
    }

    fn check_machine(&self, rules: u32, config: &RunConfig) -> Result<(), ConfigError> {
        options::check_range("suricata.rules", rules, RULES)?;
        let ring = u64::from(self.ring) * FRAME_BYTES;
        let needed = RAM_BASE + ring.saturating_sub(RING_INCLUDED);
        let (ram, frames) = (config.platform.ram, self.ring);
        let problem = format!("{ram} is too little for suricata and a ring of {frames} frames");
        options::check_ram("platform.ram", needed, problem, config)
    }

    /// Shell variables for the script of a monitored server.
    pub(crate) fn server_script_variables(&self) -> String {
        let depth = self.depth.or(Some(Bytes(0)));
        SuricataConfig { depth, ..self.clone() }.script_variables(self.rules.unwrap_or(OWN_RULES))
    }

    /// Shell variables for the image's script.
    fn script_variables(&self, rules: u32) -> String {
        let runmode = match self.runmode {
            Runmode::Workers => "workers",
            Runmode::Single => "single",
            Runmode::Autofp => "autofp",
        };
        let checksums = match self.checksums {
            Checksums::Kernel => "kernel",
            Checksums::Yes => "yes",
            Checksums::No => "no",
        };
        let v3 = if self.tpacket_v3 { "yes" } else { "no" };
        let depth = self.depth.map_or(String::new(), |depth| format!(" depth={}", depth.0));
        format!("rules={rules} runmode={runmode} ring={} v3={v3} checksums={checksums}{depth}", self.ring)
    }
}

/// Kernel command-line words for the image's /init.
fn guest_words(config: &RunConfig) -> String {
    let own = config.options::<SuricataConfig>();
    kernel::words("suricata", &[own.script_variables(own.rules.unwrap_or_default())], config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::benchmark;

    fn resolve(more: &[&str]) -> Result<crate::plan::resolved::Resolved, String> {
        let set: Vec<String> = [DEFAULTS, more].concat().iter().map(|&text| text.to_owned()).collect();
        crate::request::resolve::resolve("fast", &set).map_err(|error| error.to_string())
    }

    #[test]
    fn the_script_gets_the_options_and_unsuitable_machines_are_rejected() {
        let words = |more: &[&str]| benchmark("suricata").unwrap().workload(&resolve(more).unwrap()).words;
        assert_eq!(
            words(&[]),
            "-- \"rules=12 runmode=workers ring=2048 v3=yes checksums=kernel; . /scripts/suricata\""
        );
        let set = ["suricata.rules=0", "suricata.runmode=single", "suricata.tpacket_v3=false"];
        assert_eq!(
            words(&[&set[..], &["suricata.checksums=yes", "suricata.ring=64"]].concat()),
            "-- \"rules=0 runmode=single ring=64 v3=no checksums=yes; . /scripts/suricata\""
        );
        for (set, message) in [
            ("suricata.rules=2001", "suricata.rules: 2001 is not from 0 to 2000"),
            ("suricata.ring=63", "suricata.ring: 63 is not from 64 to 65536"),
            ("suricata.runmode=many", "suricata.runmode"),
            ("platform.nics=2", "suricata monitors one port"),
            ("suricata.depth=2GiB", "suricata.depth: it must be at most 1GiB"),
            ("drive.kind=node", "drive.kind"),
            ("platform.ram=320MiB", "platform.ram: 320MiB is too little"),
        ] {
            let error = resolve(&[set]).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
        let ring = ["suricata.ring=65536", "platform.ram=448MiB"];
        let error = resolve(&ring).unwrap_err();
        assert!(error.contains("a ring of 65536 frames; set platform.ram=512MiB"), "{error}");
        assert!(resolve(&ring[..1]).is_ok(), "the benchmark's default RAM is enough");
        let other = crate::request::resolve::on_fast(&["platform.nics=2"]).unwrap();
        assert!(!other.to_toml().contains("[suricata]"), "the section is omitted for other benchmarks");
    }
}
