//! Programs over the kernel's own network stack, in the net image: the guest is 10.0.N.2 at port N, the generator 10.0.N.1.

use doorbell_loadgen::Returned;
use doorbell_machine::{ConfigError, Place};
use doorbell_nic::NicModel;
use doorbell_sim::Ps;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::config::RunConfig;
use crate::plan::options::Options;

/// How the kernel is told to drive the NIC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct KernelConfig {
    /// InterruptThrottleRate of Linux' e1000, with which its module is loaded, 0 to 100000. 0 moderates nothing; 1 adapts, between 4,000
    /// interrupts a second for bulk and 70,000 where latency counts; 3 the same with 20,000 at most; 4 with 8,000 at most; 100 and more are
    /// so many a second, and the rest is refused. Unset, the driver does as it likes, which is 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupt_throttle_rate: Option<u32>,
    /// The ports' MTU, 576 to 9000 bytes. Unset, Ethernet's usual 1500.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Descriptors of each receive ring (`ethtool -G`), 64 to 4096 in eights. Unset, as the driver likes: e1000 and igb have 256.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rxd: Option<u32>,
    /// Descriptors of each transmit ring, 64 to 4096 in eights. Unset, as the driver likes: 256.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub txd: Option<u32>,
    /// Whether the NIC cuts TCP segments (TSO). Unset, as the driver likes: it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tso: Option<bool>,
    /// Whether the stack cuts segments late (GSO). Unset, as the kernel likes: it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gso: Option<bool>,
    /// Whether the stack puts segments together early (GRO). Unset, as the kernel likes: it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gro: Option<bool>,
    /// Whether the kernels clear memory when they allocate it (init_on_alloc on the kernel's command line), pages and slab objects alike. Unset,
    /// as the kernel was built: Debian's 6.12 clears (CONFIG_INIT_ON_ALLOC_DEFAULT_ON); kernels before 5.3 did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init_on_alloc: Option<bool>,
}

impl KernelConfig {
    /// Words of the command line besides those of the program, for the kernel and for /init with its ports. A space precedes each.
    pub(crate) fn words(&self, ports: u32) -> String {
        // The first port's has no number.
        let number = |port: u32| if port == 0 { String::new() } else { port.to_string() };
        let of = |mtu: u32| (0..ports).map(|port| format!(" doorbell.mtu{}={mtu}", number(port))).collect();
        let mtu: String = self.mtu.map_or(String::new(), of);
        let clears = |on: bool| format!(" init_on_alloc={}", u8::from(on));
        mtu + &self.init_on_alloc.map_or(String::new(), clears)
    }

    /// What a shell does before its program starts, in a guest whose ports have this address, in which they are counted by `n`. `places` are
    /// where its ports are, if Linux does not name them in this order ([`places_to_name`]).
    pub(crate) fn commands(&self, address: &str, places: &[String]) -> Vec<String> {
        let named = (!places.is_empty()).then(|| [by_place(places), self.ports_up(address)]);
        let reload = |rate: u32| [format!("{RELOAD}{rate} || exit"), self.ports_up(address)];
        let reloaded = self.interrupt_throttle_rate.map(reload);
        named.into_iter().chain(reloaded).flatten().chain(self.rings()).chain(self.offloads()).collect()
    }

    /// What /init does for ports.
    fn ports_up(&self, address: &str) -> String {
        let mtu = self.mtu.map_or(String::new(), |mtu| format!(" mtu {mtu}"));
        format!(
            "n=0; while [ -e /sys/class/net/eth$n ]; do ip address add {address} dev eth$n; ip link set eth$n up{mtu}; \
             until read -r up < /sys/class/net/eth$n/carrier && [ $up = 1 ]; do busybox usleep 10000; done; n=$((n + 1)); done"
        )
    }

    /// The command that sets the ports' rings, if there is something to set. The driver starts a port again for it, and its link comes up again.
    fn rings(&self) -> Option<String> {
        let given =
            [("rx", self.rxd), ("tx", self.txd)].into_iter().filter_map(|(name, ring)| Some((name, ring?)));
        let words: String = given.map(|(name, ring)| format!(" {name} {ring}")).collect();
        (!words.is_empty()).then(|| {
            format!(
                "for n in /sys/class/net/eth*; do ethtool -G ${{n##*/}}{words} || exit; \
                 until read -r up < $n/carrier && [ $up = 1 ]; do busybox usleep 10000; done; done"
            )
        })
    }

    /// The command that sets the ports' offloads, if there is something to set.
    fn offloads(&self) -> Option<String> {
        let of = [("tso", self.tso), ("gso", self.gso), ("gro", self.gro)];
        let given = of.into_iter().filter_map(|(name, on)| Some((name, on?)));
        let words: String =
            given.map(|(name, on)| format!(" {name} {}", if on { "on" } else { "off" })).collect();
        (!words.is_empty())
            .then(|| format!("for n in /sys/class/net/eth*; do ethtool -K ${{n##*/}}{words} || exit; done"))
    }
}

/// Where the first ports of a machine are on its buses, if their cards differ: Linux names ports driver by driver, whatever their order is there.
pub(crate) fn places_to_name(config: &RunConfig, ports: u32) -> Vec<String> {
    let model = |port: usize| config.port(port).nic.model;
    let ports = 0..ports as usize;
    match ports.clone().all(|port| model(port) == model(0)) {
        true => Vec::new(),
        false => ports.map(|port| in_sysfs(config, config.place(port))).collect(),
    }
}

/// A place as sysfs has it: functions of the root bus by their numbers, and the folder of each bridge's bus within the bridge's, whatever
/// number Linux has given to that bus.
fn in_sysfs(config: &RunConfig, Place { behind, device, function }: Place) -> String {
    let own = format!("{device:02x}.{function}");
    match behind {
        None => format!("0000:00:{own}"),
        Some(bridge) => {
            format!("{}/*:{own}", in_sysfs(config, config.platform.bridges[usize::from(bridge)]))
        }
    }
}

/// Names the ports by where they are, over names that no driver gives; they are down then, and have no addresses. A kernel's command line
/// has room for little more.
fn by_place(places: &[String]) -> String {
    let devices: String = places.iter().map(|place| format!(" /sys/bus/pci/devices/{place}/net/*")).collect();
    format!(
        "n=0; for net in{devices}; do net=${{net##*/}}; ip link set $net down && ip address flush dev $net && \
         ip link set $net name port$n || exit; n=$((n + 1)); done; \
         while [ $n -gt 0 ]; do n=$((n - 1)); ip link set port$n name eth$n || exit; done"
    )
}

impl Options for KernelConfig {
    const SECTION: &'static str = "kernel";

    /// As the driver has it (`e1000_check_options`): it would take another value for its default, and say so where nobody looks.
    fn validate(&self, config: &RunConfig) -> Result<(), ConfigError> {
        if let Some(mtu) = self.mtu.filter(|mtu| !(576..=9000).contains(mtu)) {
            return Err(ConfigError::new("kernel.mtu", format!("{mtu} is not from 576 to 9000")));
        }
        let unfit = |ring: &u32| !(64..=4096).contains(ring) || !ring.is_multiple_of(8);
        for (key, ring) in [("kernel.rxd", self.rxd), ("kernel.txd", self.txd)] {
            if let Some(ring) = ring.filter(unfit) {
                return Err(ConfigError::new(key, format!("{ring} is not a multiple of 8 from 64 to 4096")));
            }
        }
        let ports = 0..config.platform.nics as usize;
        let others = ports.into_iter().find(|port| config.port(*port).nic.model != NicModel::E82540em);
        if let (Some(_), Some(port)) = (self.interrupt_throttle_rate, others) {
            let problem = format!(
                "it is e1000's, and port {port} has another card (nic.model); leave it out, and set that driver's with `ethtool -C` in a script"
            );
            return Err(ConfigError::new("kernel.interrupt_throttle_rate", problem));
        }
        match self.interrupt_throttle_rate {
            None | Some(0 | 1 | 3 | 4 | 100..=100_000) => Ok(()),
            Some(other) => {
                let problem = format!("{other} is none of 0, 1, 3, 4 and 100 to 100000, which e1000 takes");
                Err(ConfigError::new("kernel.interrupt_throttle_rate", problem))
            }
        }
    }
}

/// The image's scripts print this when what they start can be asked.
pub(crate) const READY_MARKER: &str = "doorbell: ready";

/// How long the kernel may keep a frame that nothing else holds up: Linux' e1000 has its interrupts 250 µs apart (4,000 a second) when
/// they say little of latency (`e1000_set_itr`), a program that is woken waits for its turn, and what it answers waits for the next
/// interrupt.
pub(crate) const PAUSE: Ps = Ps::from_ms(1);

/// The kernel alone handles on the order of a hundred thousand requests a second; a rate far above says little.
pub(crate) const PING: &[&str] = &[
    "loadgen.traffic.kind=ping",
    "loadgen.traffic.rate=20kpps",
    "loadgen.traffic.source_ip=10.0.0.1",
    "loadgen.traffic.destination_ip=10.0.0.2",
];

/// The window is long, because the rate is low.
pub(crate) const MEMCACHED: &[&str] = &[
    "loadgen.traffic.kind=memcached-get",
    "loadgen.traffic.rate=20kpps",
    "loadgen.traffic.outstanding=64",
    "loadgen.traffic.source_ip=10.0.0.1",
    "loadgen.traffic.destination_ip=10.0.0.2",
    "loadgen.traffic.destination_port=11211",
    "run.window=50ms",
    "run.duration_limit=200ms",
];

/// Loads the driver again, with the parameter behind this text, for all ports.
const RELOAD: &str = "rmmod e1000 && insmod /lib/modules/e1000.ko InterruptThrottleRate=";
/// The addresses of a guest's ports, in a shell that counts them by `n`.
const ADDRESSES: &str = "10.0.$n.2/24";
/// What the image's /init is told to run one of its scripts, and commands before it.
pub(crate) fn words(script: &str, first: &[String], config: &RunConfig) -> String {
    let kernel = config.options::<KernelConfig>();
    let commands = kernel.commands(ADDRESSES, &places_to_name(config, config.platform.nics));
    let before: String = commands.iter().chain(first).map(|command| format!("{command}; ")).collect();
    let words = kernel.words(config.platform.nics);
    match before.as_str() {
        "" => format!("doorbell.app={script}{words}"),
        _ => format!("{words} -- \"{before}. /scripts/{script}\"").trim_start().to_owned(),
    }
}

/// What the image's /init is told: nothing runs but the kernel.
pub(crate) fn respond(config: &RunConfig) -> String {
    words("respond", &[], config)
}

/// Answers are checked by the protocol that asks.
pub(crate) fn returned(_: &RunConfig) -> Returned {
    Returned::Any
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_is_loaded_again_only_if_it_is_told_something_and_only_what_it_takes() {
        let config = |set: &[&str]| {
            crate::request::resolve::resolve(
                "fast",
                &set.iter().map(|set| (*set).to_owned()).collect::<Vec<_>>(),
            )
        };
        let ping = |set: &[&str]| respond(&config(set).unwrap());
        assert_eq!(ping(&[]), "doorbell.app=respond");
        let words = ping(&["kernel.interrupt_throttle_rate=3"]);
        assert!(
            words.starts_with("-- \"rmmod e1000 && insmod /lib/modules/e1000.ko InterruptThrottleRate=3 ||")
        );
        assert!(words.ends_with("; . /scripts/respond\""), "{words}");
        let two = &["kernel.mtu=9000", "platform.nics=2"];
        assert_eq!(ping(two), "doorbell.app=respond doorbell.mtu=9000 doorbell.mtu1=9000");
        assert_eq!(ping(&["kernel.init_on_alloc=true"]), "doorbell.app=respond init_on_alloc=1");
        let words = ping(&["kernel.init_on_alloc=false", "kernel.gro=true"]);
        assert!(
            words.starts_with("init_on_alloc=0 -- \"for n in"),
            "the kernel reads its words in front of --: {words}"
        );
        let words = ping(&["kernel.rxd=1024", "kernel.txd=512"]);
        assert!(
            words.starts_with("-- \"for n in /sys/class/net/eth*; do ethtool -G ${n##*/} rx 1024 tx 512 ||"),
            "{words}"
        );
        for wrong in ["kernel.rxd=32", "kernel.rxd=1020", "kernel.txd=8192"] {
            let error = config(&[wrong]).unwrap_err().to_string();
            assert!(error.contains("a multiple of 8 from 64 to 4096"), "{error}");
        }
        let words = ping(&["kernel.mtu=576", "kernel.tso=false", "kernel.gro=true"]);
        let offloads = "for n in /sys/class/net/eth*; do ethtool -K ${n##*/} tso off gro on || exit; done";
        assert_eq!(words, format!("doorbell.mtu=576 -- \"{offloads}; . /scripts/respond\""));
        let mixed = ping(&["platform.nics=2", "port.0.nic.model=82576"]);
        assert!(mixed.starts_with("-- \"n=0; for net in /sys/bus/pci/devices/0000:00:01.0/net/* /sys/bus/pci/devices/0000:00:02.0/net/*; do"), "{mixed}");
        assert!(
            mixed.contains("ip address add 10.0.$n.2/24 dev eth$n; ip link set eth$n up; until"),
            "{mixed}"
        );
        let behind =
            ["platform.bridges=[\"1e.0\", \"0:01.0\"]", "port.1.at=1:02.0", "port.1.nic.model=82576"];
        let mixed = ping(&[&["platform.nics=2"], &behind[..]].concat());
        assert!(
            mixed.contains("/0000:00:01.0/net/* /sys/bus/pci/devices/0000:00:1e.0/*:01.0/*:02.0/net/*; do"),
            "{mixed}"
        );
        assert_eq!(ping(&["platform.nics=2", "nic.model=82576"]), ping(&["platform.nics=2"]));
        for rate in ["2", "5", "99", "100001"] {
            let error = config(&[&format!("kernel.interrupt_throttle_rate={rate}")]).unwrap_err().to_string();
            assert!(
                error.contains("kernel.interrupt_throttle_rate") && error.contains("100 to 100000"),
                "{error}"
            );
        }
    }
}
