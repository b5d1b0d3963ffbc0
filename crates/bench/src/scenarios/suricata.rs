//! Debian's suricata, an intrusion detection system, on a port that is sent a copy of somebody's traffic (a mirror port, SPAN): it receives
//! whatever comes, by AF_PACKET, and answers nothing. Delivered is what it has seen.

use std::ops::RangeInclusive;

use doorbell_machine::ConfigError;
use doorbell_sim::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::config::RunConfig;
use crate::plan::counting::Counting;
use crate::plan::drive::{DriveConfig, DriveKind};
use crate::plan::kernel::{self, KernelConfig};
use crate::plan::options::{self, Options};

/// The machine that it needs: suricata's tables and its ring. It is handed frames in blocks, of which a measurement should have many.
pub(crate) const DEFAULTS: &[&str] = &[
    "suricata.rules=12",
    "platform.ram=512MiB",
    "loadgen.traffic.rate=200kpps",
    "run.window=50ms",
    "run.duration_limit=200ms",
];

/// Rules that it can be given.
const RULES: RangeInclusive<u32> = 0..=2000;
/// Those of the image itself.
const OWN_RULES: u32 = 12;
/// The farthest that it can be told to look.
const DEPTH_MAX: Bytes = Bytes(1 << 30);
/// What a frame of a ring without blocks has room for.
const MTU_IN_FRAMES: u32 = 1500;
/// Frames of its ring.
const RING: RangeInclusive<u32> = 64..=65_536;
/// What Linux and suricata need beside what follows.
const RAM_BESIDE: u64 = 384 << 20;
/// Of a ring for a frame, rounded up.
const FRAME_BYTES: u64 = 2048;
/// Of a ring that is no more than this the rest has room.
const RING_BESIDE: u64 = 8 << 20;

/// What it counts.
pub(crate) const COUNTING: Counting = Counting {
    program: "suricata",
    counters: &[
        (
            "capture.kernel_packets",
            "Frames that the kernel had for suricata's ring (those for which there was no room among them)",
        ),
        ("capture.kernel_drops", "Frames that the kernel dropped because suricata's ring was full"),
        ("decoder.pkts", "Frames that suricata took out of its ring and decoded: those that it has seen"),
        ("decoder.bytes", "Their bytes, without FCS"),
        ("decoder.invalid", "Frames that suricata could not decode"),
        ("decoder.ipv4", "IPv4 packets among those that suricata has seen"),
        ("decoder.ipv6", "IPv6 packets among those that suricata has seen"),
        ("decoder.tcp", "TCP segments among those that suricata has seen"),
        ("decoder.udp", "UDP datagrams among those that suricata has seen"),
        ("flow.total", "Flows that suricata began to follow"),
        ("tcp.sessions", "TCP connections that suricata saw begin"),
        ("detect.alert", "Alerts: rules that matched"),
    ],
    seen: "decoder.pkts",
    bytes: "decoder.bytes",
    lost: "capture.kernel_drops",
    alerts: "detect.alert",
    // Of 32 KiB, if frames are short.
    block: 300,
};

/// suricata's threads for packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Runmode {
    /// A thread a ring takes a packet through all that is done.
    #[default]
    Workers,
    /// The same with one thread for all.
    Single,
    /// One thread receives and decodes, and others look for what rules say.
    Autofp,
}

/// Which checksums it checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Checksums {
    /// Those of all packets but such as the kernel says have none yet, which only a host's own have.
    #[default]
    Kernel,
    /// All.
    Yes,
    /// None.
    No,
}

/// suricata's options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SuricataConfig {
    /// Rules, 0 to 2000 (the benchmark sets 12): the image's twelve first, and behind them such as look for a text of their own anywhere in
    /// the payloads of UDP and TCP, which no generated frame has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<u32>,
    /// Which threads do what (runmode): "workers", "single" or "autofp".
    pub runmode: Runmode,
    /// Frames for which its ring has room (af-packet.ring-size), 64 to 65536.
    pub ring: u32,
    /// Whether the ring is one of blocks (tpacket-v3), which are handed over when they are full or 10 ms old, or one of frames.
    pub tpacket_v3: bool,
    /// Whether it checks checksums (af-packet.checksum-checks): "yes", "no", or "kernel", which leaves out packets that the kernel says have none yet.
    pub checksums: Checksums,
    /// How far it looks into each direction of a TCP connection (stream.reassembly.depth), at most 1GiB; 0B is to its end. Unless given it is 1MiB,
    /// and to its end beside a server (`netperf.ids`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<Bytes>,
}

impl Default for SuricataConfig {
    fn default() -> Self {
        SuricataConfig {
            rules: None,
            runmode: Runmode::Workers,
            ring: 2048,
            tpacket_v3: true,
            checksums: Checksums::Kernel,
            depth: None,
        }
    }
}

impl Options for SuricataConfig {
    const SECTION: &'static str = "suricata";
    const QUIET: bool = true;

    fn validate(&self, config: &RunConfig) -> Result<(), ConfigError> {
        if !RING.contains(&self.ring) {
            let problem = format!("{} is not from {} to {}", self.ring, RING.start(), RING.end());
            return Err(ConfigError::new("suricata.ring", problem));
        }
        if self.depth.is_some_and(|depth| depth > DEPTH_MAX) {
            let problem = "it must be at most 1GiB, or 0B, which is to a connection's end";
            return Err(ConfigError::new("suricata.depth", problem));
        }
        // Without a number of rules it is the configuration of another benchmark.
        self.rules.map_or(Ok(()), |rules| self.check_alone(rules, config))
    }
}

impl SuricataConfig {
    /// Whether it can watch what a load generator sends to this machine.
    fn check_alone(&self, rules: u32, config: &RunConfig) -> Result<(), ConfigError> {
        self.check_machine(rules, config)?;
        if config.platform.nics != 1 {
            let problem = format!("{}, and suricata watches one port: leave it at 1", config.platform.nics);
            return Err(ConfigError::new("platform.nics", problem));
        }
        if config.options::<DriveConfig>().kind == DriveKind::Node {
            let problem = "what suricata has seen is asked of one machine alone; here it must be \"generator\", or a server that it \
                 watches is driven: doorbell run netperf --set netperf.ids=suricata";
            return Err(ConfigError::new("drive.kind", problem));
        }
        Ok(())
    }

    /// Whether it can watch a port of this machine on which something else is served.
    pub(crate) fn check_beside(&self, config: &RunConfig) -> Result<(), ConfigError> {
        if config.platform.nics != 1 {
            let problem =
                "suricata watches the port of a server that has one (platform.nics = 1); leave it out";
            return Err(ConfigError::new("netperf.ids", problem));
        }
        if config.platform.harts > 1 {
            let problem = format!(
                "suricata watches on the core that serves, and Linux would spread both over {}; set platform.harts=1",
                config.platform.harts
            );
            return Err(ConfigError::new("netperf.ids", problem));
        }
        let kernel = config.options::<KernelConfig>();
        let offloads = [("gro", kernel.gro), ("tso", kernel.tso), ("gso", kernel.gso)];
        if let Some((name, _)) = offloads.into_iter().find(|(_, on)| *on == Some(true)) {
            let problem =
                "suricata switches it off where it watches, to see frames as they are; leave it out";
            return Err(ConfigError::new(format!("kernel.{name}"), problem));
        }
        if let Some(mtu) = kernel.mtu.filter(|mtu| !self.tpacket_v3 && *mtu > MTU_IN_FRAMES) {
            let problem = format!(
                "a ring of frames has room for an MTU of {MTU_IN_FRAMES}, not of {mtu}; leave one of both out"
            );
            return Err(ConfigError::new("suricata.tpacket_v3", problem));
        }
        self.check_machine(self.rules.unwrap_or(OWN_RULES), config)
    }

    fn check_machine(&self, rules: u32, config: &RunConfig) -> Result<(), ConfigError> {
        if !RULES.contains(&rules) {
            let problem = format!("{rules} is not from {} to {}", RULES.start(), RULES.end());
            return Err(ConfigError::new("suricata.rules", problem));
        }
        let ring = u64::from(self.ring) * FRAME_BYTES;
        let needed = RAM_BESIDE + ring.saturating_sub(RING_BESIDE);
        match options::more_ram(needed, config) {
            Some(set) => {
                let (ram, ring) = (config.platform.ram, self.ring);
                let problem = format!("{ram} is too little for suricata and a ring of {ring} frames; {set}");
                Err(ConfigError::new("platform.ram", problem))
            }
            None => Ok(()),
        }
    }

    /// What the script of a server that it watches is told.
    pub(crate) fn told_beside(&self) -> String {
        let depth = self.depth.or(Some(Bytes(0)));
        SuricataConfig { depth, ..self.clone() }.told(self.rules.unwrap_or(OWN_RULES))
    }

    /// What the image's script is told.
    fn told(&self, rules: u32) -> String {
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

/// What the image's /init is told.
pub(crate) fn guest_words(config: &RunConfig) -> String {
    let own = config.options::<SuricataConfig>();
    kernel::words("suricata", &[own.told(own.rules.unwrap_or_default())], config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenarios::registry::benchmark;

    fn resolve(more: &[&str]) -> Result<RunConfig, String> {
        let set: Vec<String> = [DEFAULTS, more].concat().iter().map(|&text| text.to_owned()).collect();
        crate::request::resolve::resolve("fast", &set).map_err(|error| error.to_string())
    }

    #[test]
    fn it_is_told_what_it_is_set_to_and_refused_a_machine_on_which_it_does_not_run() {
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
        for (set, says) in [
            ("suricata.rules=2001", "suricata.rules: 2001 is not from 0 to 2000"),
            ("suricata.ring=63", "suricata.ring: 63 is not from 64 to 65536"),
            ("suricata.runmode=many", "suricata.runmode"),
            ("platform.nics=2", "suricata watches one port"),
            ("suricata.depth=2GiB", "suricata.depth: it must be at most 1GiB"),
            ("drive.kind=node", "drive.kind"),
            ("platform.ram=320MiB", "platform.ram: 320MiB is too little"),
        ] {
            let error = resolve(&[set]).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        let ring = ["suricata.ring=65536", "platform.ram=448MiB"];
        let error = resolve(&ring).unwrap_err();
        assert!(error.contains("a ring of 65536 frames; set platform.ram=512MiB"), "{error}");
        assert!(resolve(&ring[..1]).is_ok(), "as the benchmark has it");
        let other = crate::request::resolve::on_fast(&["platform.nics=2"]).unwrap();
        assert!(!other.to_toml().contains("[suricata]"), "another benchmark has none of it");
    }
}
