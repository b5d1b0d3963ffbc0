//! DPDK's testpmd, unmodified: it forwards every frame to the receiving port, or to the other port of a pair.

use doorbell_loadgen::Returned;
use doorbell_machine::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::benchmark::Benchmark;
use crate::measure::kinds::{DPDK, DPDK_PROGRAM};
use crate::plan::config::RunConfig;
use crate::plan::cores;
use crate::plan::dpdk::{self, DpdkConfig};
use crate::plan::options::{self, Options, Section, Setting};

/// The benchmark.
pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "testpmd",
    summary: "DPDK's testpmd forwards every frame back: the path through NIC, PCIe, memory and a polling core",
    image: "testpmd",
    // Printed by testpmd when it forwards and waits for a key.
    ready_marker: "Press enter to exit",
    guest_words,
    options: &[DPDK, Section::of::<TestpmdConfig>()],
    returned,
    check: |config| dpdk::check_jumbo_program(config.options::<TestpmdConfig>().queues(), config),
    remark,
    ..DPDK_PROGRAM
};

/// testpmd's forwarding mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ForwardMode {
    /// Sends frames back unmodified.
    Io,
    /// Sends frames back with the MAC addresses swapped.
    MacSwap,
}

/// The port that transmits a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Topology {
    /// The receiving port.
    Loop,
    /// The other port of a pair: ports 0 and 1, 2 and 3 and so on.
    Paired,
}

doorbell_sim::config! {
    /// testpmd's own options; options shared with other programs are in `dpdk`.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct TestpmdConfig {
        /// Forwarding mode (--forward-mode).
        pub mode: ForwardMode = ForwardMode::MacSwap,
        /// The port that transmits frames (--port-topology).
        pub topology: Topology = Topology::Loop,
        /// Forwarding cores, 1 to 16 (1 if unset), each with its own receive and transmit queue on every
        /// port. RSS spreads flows over them; default traffic is one flow (`--flows 1000`). More than one
        /// needs as many harts and NICs with as many queues (`nic.model = "82576"`). `dpdk.mbufs` is per
        /// core.
        #[serde(skip_serializing_if = "cores::is_one")]
        pub cores: u32 = 1,
        /// Receive and transmit queues per port, 1 to 16 and at most `cores`; `cores` if unset. With fewer,
        /// the cores divide the queues of all ports among them: with 1 queue and 16 ports, each of 8 cores
        /// has two ports. Every core needs a queue.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub queues: Option<u32> = None,
    }
}

impl Options for TestpmdConfig {
    const SECTION: &'static str = "testpmd";

    fn validate(&self, config: &RunConfig) -> Result<(), ConfigError> {
        let problem = "\"paired\" needs an even number of platform.nics";
        options::reject_if(
            self.topology == Topology::Paired && !config.platform.nics.is_multiple_of(2),
            "testpmd.topology",
            problem,
        )?;
        self.check_queues(config)?;
        match self.queues() {
            1 if self.cores > 1 => cores::check_harts("testpmd.cores", self.cores, config),
            _ => cores::check("testpmd.cores", self.cores, config),
        }
    }

    fn required_settings(&self, config: &RunConfig) -> Vec<Setting> {
        cores::required_settings(self.cores, config)
    }
}

impl TestpmdConfig {
    /// Receive and transmit queues per port.
    pub(crate) fn queues(&self) -> u32 {
        self.queues.unwrap_or(self.cores)
    }

    fn check_queues(&self, config: &RunConfig) -> Result<(), ConfigError> {
        let Some(queues) = self.queues else { return Ok(()) };
        let (cores, nics) = (self.cores, config.platform.nics);
        let fail = |problem: String| Err(ConfigError::new("testpmd.queues", problem));
        match queues {
            0 => fail("a port needs at least one".to_owned()),
            _ if queues > cores => {
                fail(format!("{queues} queues, but {cores} core(s); set testpmd.cores={queues} or more"))
            }
            _ if queues.saturating_mul(nics) < cores => fail(format!(
                "{queues} on each of {nics} ports (platform.nics) are fewer than the {cores} cores (testpmd.cores), and each core needs one"
            )),
            _ => Ok(()),
        }
    }

    /// Command-line words for several cores. The main lcore, 0, shares hart 0 with the first forwarding
    /// lcore.
    fn core_words(&self) -> String {
        let cores = self.cores;
        if cores == 1 {
            return String::new();
        }
        let queues = match self.queues() {
            1 => String::new(),
            queues => {
                format!(" doorbell.arg=--rxq={queues} doorbell.arg=--txq={queues} doorbell.arg=--rss-udp")
            }
        };
        let lcores: String = (0..cores).map(|core| format!(",{}@{core}", core + 1)).collect();
        format!(" doorbell.cores={cores} doorbell.lcores=0@0{lcores}{queues}")
    }
}

/// Kernel command-line words for the image's /init.
fn guest_words(config: &RunConfig) -> String {
    let own = config.options::<TestpmdConfig>();
    let mode = match own.mode {
        ForwardMode::Io => "io",
        ForwardMode::MacSwap => "macswap",
    };
    let topology = match own.topology {
        Topology::Loop => "",
        Topology::Paired => " doorbell.topology=paired",
    };
    let footprint = config.options::<DpdkConfig>().guest_words(config.platform.nics * own.queues());
    let (cores, frames) = (own.core_words(), dpdk::frame_words(config));
    format!("doorbell.app=testpmd doorbell.mode={mode} {footprint}{topology}{cores}{frames}")
}

/// Warnings: unused harts, or a single flow for several queues.
fn remark(config: &RunConfig) -> Option<String> {
    let own = config.options::<TestpmdConfig>();
    match own.queues() {
        1 if own.cores > 1 => None,
        _ => cores::remark("testpmd.cores", own.cores, config),
    }
}

/// How frames are modified when they return to the load generator.
fn returned(config: &RunConfig) -> Returned {
    match config.options::<TestpmdConfig>().mode {
        ForwardMode::Io => Returned::AsSent,
        ForwardMode::MacSwap => Returned::MacSwap,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::resolve::on_fast;

    #[test]
    fn main_lcore_shares_the_hart_of_the_first_forwarding_lcore() {
        assert!(!guest_words(&on_fast(&[]).unwrap()).contains("lcores"));
        let four = ["testpmd.cores=4", "platform.harts=4", "nic.model=82576"];
        let words = guest_words(&on_fast(&four).unwrap());
        assert!(words.contains("doorbell.lcores=0@0,1@0,2@1,3@2,4@3 doorbell.arg=--rxq=4"), "{words}");
    }

    #[test]
    fn cores_divide_the_ports_if_there_are_fewer_queues_than_cores() {
        let set = ["testpmd.cores=8", "platform.nics=16", "platform.ports_per_card=4", "platform.ram=1GiB"];
        let words = guest_words(&on_fast(&[&set[..], &["testpmd.queues=1"]].concat()).unwrap());
        assert!(words.contains("doorbell.mbufs=65536") && words.contains("7@6,8@7"), "{words}");
        assert!(!words.contains("--rxq"), "{words}");
        let timeout = |set: &[&str]| on_fast(set).unwrap().run.boot_timeout;
        assert_eq!(
            timeout(&[&set[..], &["testpmd.queues=1"]].concat()),
            doorbell_sim::Ps::from_us(20_000_000)
        );
        assert!(timeout(&[]) < doorbell_sim::Ps::from_us(20_000_000));
        for (wrong, message) in [
            (
                ["testpmd.queues=9", "platform.nics=16"],
                "9 queues, but 8 core(s); set testpmd.cores=9 or more",
            ),
            (
                ["testpmd.queues=1", "platform.nics=4"],
                "1 on each of 4 ports (platform.nics) are fewer than the 8 cores",
            ),
        ] {
            let error = on_fast(&[&set[..1], &wrong].concat()).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
    }
}
