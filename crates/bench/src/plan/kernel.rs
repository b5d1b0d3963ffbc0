//! Programs that use the kernel's network stack, in the net image. At port N the guest's address is 10.0.N.2
//! and the generator's is 10.0.N.1.

use doorbell_machine::{ConfigError, Place};
use doorbell_sim::Ps;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::config::RunConfig;
use crate::plan::options::{self, Options};

/// Options of the guest's kernel, network driver and network stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct KernelConfig {
    /// InterruptThrottleRate, a parameter of Linux' e1000 module, 0 to 100000. 0 disables moderation; 1
    /// adapts between 4,000 interrupts per second for bulk traffic and 70,000 for low latency; 3 adapts with
    /// a maximum of 20,000; 4 with a maximum of 8,000; 100 and more set a fixed rate per second; other values
    /// are rejected. Unset, the driver's default, which is 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupt_throttle_rate: Option<u32>,
    /// The ports' MTU, 576 to 9000 bytes. Unset, Ethernet's usual 1500.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Descriptors of each receive ring (`ethtool -G`), 64 to 4096 in steps of 8. Unset, the driver's
    /// default: 256 for e1000 and igb.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rxd: Option<u32>,
    /// Descriptors of each transmit ring, 64 to 4096 in steps of 8. Unset, the driver's default: 256.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub txd: Option<u32>,
    /// TCP segmentation offload to the NIC (TSO). Unset, the driver's default: on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tso: Option<bool>,
    /// Generic segmentation offload in the stack (GSO). Unset, the kernel's default: on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gso: Option<bool>,
    /// Generic receive offload in the stack (GRO). Unset, the kernel's default: on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gro: Option<bool>,
    /// Whether the kernels clear pages and slab objects on allocation (init_on_alloc on the kernel's command
    /// line). Unset, the kernel's build option: Debian's 6.12 clears them (CONFIG_INIT_ON_ALLOC_DEFAULT_ON);
    /// kernels before 5.3 did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init_on_alloc: Option<bool>,
}

impl KernelConfig {
    /// Kernel command line words for the kernel itself, and for /init, which sets the ports' MTU. A space
    /// precedes each.
    pub(crate) fn words(&self, ports: u32) -> String {
        // The key of the first port has no number.
        let number = |port: u32| if port == 0 { String::new() } else { port.to_string() };
        let of = |mtu: u32| (0..ports).map(|port| format!(" doorbell.mtu{}={mtu}", number(port))).collect();
        let mtu: String = self.mtu.map_or(String::new(), of);
        let clears = |on: bool| format!(" init_on_alloc={}", u8::from(on));
        mtu + &self.init_on_alloc.map_or(String::new(), clears)
    }

    /// Shell commands to run before the program. `address` is the ports' address, with `$n` for the port
    /// number. `places` has the ports' locations if Linux would number the ports in another order
    /// ([`locations_to_rename`]).
    pub(crate) fn commands(&self, address: &str, places: &[String]) -> Vec<String> {
        let named = (!places.is_empty()).then(|| [by_place(places), self.ports_up(address)]);
        let reload = |rate: u32| [format!("{RELOAD}{rate} || exit"), self.ports_up(address)];
        let reloaded = self.interrupt_throttle_rate.map(reload);
        named.into_iter().chain(reloaded).flatten().chain(self.rings()).chain(self.offloads()).collect()
    }

    /// The command that brings the ports up, as /init does.
    fn ports_up(&self, address: &str) -> String {
        let mtu = self.mtu.map_or(String::new(), |mtu| format!(" mtu {mtu}"));
        format!(
            "n=0; while [ -e /sys/class/net/eth$n ]; do ip address add {address} dev eth$n; ip link set eth$n up{mtu}; \
             until read -r up < /sys/class/net/eth$n/carrier && [ $up = 1 ]; do busybox usleep 10000; done; n=$((n + 1)); done"
        )
    }

    /// The command that sets the ports' ring sizes, if any are configured, and waits for carrier: the driver
    /// then resets the port and its link.
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

    /// The command that sets the ports' offloads, if any are configured.
    fn offloads(&self) -> Option<String> {
        let of = [("tso", self.tso), ("gso", self.gso), ("gro", self.gro)];
        let given = of.into_iter().filter_map(|(name, on)| Some((name, on?)));
        let words: String =
            given.map(|(name, on)| format!(" {name} {}", if on { "on" } else { "off" })).collect();
        (!words.is_empty())
            .then(|| format!("for n in /sys/class/net/eth*; do ethtool -K ${{n##*/}}{words} || exit; done"))
    }
}

/// Locations of a machine's first ports in sysfs, if their cards differ; otherwise empty. Linux numbers ports
/// driver by driver, in an order other than that of the buses.
pub(crate) fn locations_to_rename(config: &RunConfig, ports: u32) -> Vec<String> {
    let model = |port: usize| config.port(port).nic.model;
    let ports = 0..ports as usize;
    match ports.clone().all(|port| model(port) == model(0)) {
        true => Vec::new(),
        false => ports.map(|port| in_sysfs(config, config.ports().place(port))).collect(),
    }
}

/// The path of a PCI location in sysfs: functions of the root bus by number, and functions behind a bridge
/// below the bridge's folder, with a wildcard for the bus number that Linux assigned.
fn in_sysfs(config: &RunConfig, Place { behind, device, function }: Place) -> String {
    let own = format!("{device:02x}.{function}");
    match behind {
        None => format!("0000:00:{own}"),
        Some(bridge) => {
            format!("{}/*:{own}", in_sysfs(config, config.platform.bridges[usize::from(bridge)]))
        }
    }
}

/// The command that renames the ports by their locations, by way of names that no driver assigns. The ports
/// are then down and without addresses. It is terse, since the kernel's command line is short.
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

    /// Rejects values that the driver does not accept (`e1000_check_options`): it would use its default, with
    /// only a line in the kernel log.
    fn validate(&self, config: &RunConfig) -> Result<(), ConfigError> {
        options::check_range("kernel.mtu", self.mtu.unwrap_or(1500), 576..=9000)?;
        let is_invalid = |ring: &u32| !(64..=4096).contains(ring) || !ring.is_multiple_of(8);
        for (key, ring) in [("kernel.rxd", self.rxd), ("kernel.txd", self.txd)] {
            if let Some(ring) = ring.filter(is_invalid) {
                return Err(ConfigError::new(key, format!("{ring} is not a multiple of 8 from 64 to 4096")));
            }
        }
        let ports = 0..config.platform.nics as usize;
        let others = ports.into_iter().find(|port| config.port(*port).nic.model.driver() != "e1000");
        if let (Some(_), Some(port)) = (self.interrupt_throttle_rate, others) {
            let problem = format!(
                "it applies to e1000 only, and port {port} has another card (nic.model); leave it out, and use `ethtool -C` in a script instead"
            );
            return Err(ConfigError::new("kernel.interrupt_throttle_rate", problem));
        }
        match self.interrupt_throttle_rate {
            None | Some(0 | 1 | 3 | 4 | 100..=100_000) => Ok(()),
            Some(other) => {
                let problem = format!("{other} is not valid; e1000 accepts 0, 1, 3, 4 and 100 to 100000");
                Err(ConfigError::new("kernel.interrupt_throttle_rate", problem))
            }
        }
    }
}

/// Maximum time for which an unloaded kernel holds a frame. For bulk traffic, Linux' e1000 spaces
/// interrupts by 250 µs (4,000 per second, `e1000_set_itr`); a woken program waits to be scheduled, and its
/// answer waits for the next interrupt.
pub(crate) const PAUSE: Ps = Ps::from_ms(1);

/// Command that reloads the driver for all ports; the parameter's value follows.
const RELOAD: &str = "rmmod e1000 && insmod /lib/modules/e1000.ko InterruptThrottleRate=";
/// Address of each guest port, with the port number in the shell variable `n`.
const ADDRESSES: &str = "10.0.$n.2/24";

/// Kernel command line words by which the image's /init runs one of its scripts, after the commands `first`.
pub(crate) fn words(script: &str, first: &[String], config: &RunConfig) -> String {
    let kernel = config.options::<KernelConfig>();
    let commands = kernel.commands(ADDRESSES, &locations_to_rename(config, config.platform.nics));
    let before: String = commands.iter().chain(first).map(|command| format!("{command}; ")).collect();
    let words = kernel.words(config.platform.nics);
    match before.as_str() {
        "" => format!("doorbell.app={script}{words}"),
        _ => format!("{words} -- \"{before}. /scripts/{script}\"").trim_start().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn driver_reload_and_ethtool_commands_follow_the_kernel_options() {
        let config = |set: &[&str]| {
            crate::request::resolve::resolve(
                "fast",
                &set.iter().map(|set| (*set).to_owned()).collect::<Vec<_>>(),
            )
        };
        let ping = |set: &[&str]| words("respond", &[], &config(set).unwrap());
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
            "the kernel reads only the words before --: {words}"
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
