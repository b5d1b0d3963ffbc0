//! Everything that decides a run, in one struct: a preset, the user's overrides, and what follows
//! from them. It is written to the result folder with its hash.

use std::path::PathBuf;

use doorbell_loadgen::LoadGenConfig;
use doorbell_machine::overlay;
use doorbell_machine::overlay::Overlay;
use doorbell_machine::{ConfigError, CoreConfig, MachineConfig, PlatformConfig};
use doorbell_nic::NicConfig;
use doorbell_sim::Ps;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::iperf::IperfConfig;

/// A run's whole configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunConfig {
    /// How long, from when, with which seed.
    pub run: RunParams,
    /// testpmd's options.
    pub testpmd: TestpmdConfig,
    /// iperf's options.
    pub iperf: IperfConfig,
    /// What the guest sees.
    pub platform: PlatformConfig,
    /// The cores.
    pub core: CoreConfig,
    /// What the cores are like inside, where they are timed.
    pub pipeline: doorbell_machine::PipelineConfig,
    /// Caches, interconnect and DRAM, where they are timed.
    pub memory: doorbell_machine::MemoryConfig,
    /// The disks.
    pub disk: doorbell_machine::DiskConfig,
    /// The PCI Express link of each NIC.
    pub pcie: doorbell_machine::PcieConfig,
    /// The NICs.
    pub nic: NicConfig,
    /// The links.
    pub link: doorbell_machine::LinkConfig,
    /// The load generators and their traffic.
    pub loadgen: LoadGenConfig,
}

/// How a measurement goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunParams {
    /// From this all random streams of a run come.
    pub seed: u64,
    /// Simulated time of traffic before the measurement: buffers reach their level, programs their pace; where the machine
    /// is timed, caches, predictors and TLBs learn.
    pub warmup: Ps,
    /// Simulated time of traffic with everything timed, between warm-up and measurement; nothing where the machine is not timed.
    pub settle: Ps,
    /// Simulated time of the measurement, unless a number of frames is given.
    pub duration: Ps,
    /// Frames to send in the measurement instead.
    pub frames: Option<u64>,
    /// How long, at most, the last frames are waited for after the traffic has stopped.
    pub drain: Ps,
    /// Simulated time after which a guest that is not ready is given up.
    pub boot_timeout: Ps,
    /// Files of the host's that the guest has as virtio disks, behind the image's own if it has one. They are only read.
    pub disks: Vec<PathBuf>,
    /// Simulated time after which a user's script that has not ended is given up.
    pub script_timeout: Ps,
}

impl Default for RunParams {
    fn default() -> Self {
        RunParams {
            seed: 1,
            warmup: Ps::from_ms(10),
            settle: Ps::from_ms(1),
            duration: Ps::from_ms(10),
            frames: None,
            drain: Ps::from_ms(20),
            // Twenty times what the boot takes; a guest that spins that long costs minutes of host time.
            boot_timeout: Ps(5 * Ps::PER_SECOND),
            disks: Vec::new(),
            script_timeout: Ps(10 * Ps::PER_SECOND),
        }
    }
}

/// What testpmd does with frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ForwardMode {
    /// Sends frames back as they came.
    Io,
    /// Sends frames back with the addresses exchanged.
    MacSwap,
}

/// By which port a frame leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Topology {
    /// By the one that it came in by.
    Loop,
    /// By the other one of a pair: ports 0 and 1, 2 and 3 and so on.
    Paired,
}

/// testpmd's options, those that shape its footprint among them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TestpmdConfig {
    /// What it does with frames.
    pub mode: ForwardMode,
    /// By which port frames leave (--port-topology).
    pub topology: Topology,
    /// Receive descriptors (--rxd), 32 to 4096 in steps of 8.
    pub rxd: u32,
    /// Transmit descriptors (--txd), 32 to 4096 in steps of 8.
    pub txd: u32,
    /// Frames it takes at once (--burst), 1 to 512.
    pub burst: u32,
    /// Packet buffers for each NIC (--total-num-mbufs is their sum). 2,048 would starve rings of 1024.
    pub mbufs: u32,
    /// Packet buffers cached by a core (--mbcache), 0 to 512.
    pub mbcache: u32,
    /// Transmit descriptors between requests for a status write-back (--txrst); 32 is the driver's default.
    pub txrst: u32,
}

impl Default for TestpmdConfig {
    fn default() -> Self {
        TestpmdConfig {
            mode: ForwardMode::MacSwap,
            topology: Topology::Loop,
            rxd: 1024,
            txd: 1024,
            burst: 32,
            mbufs: 4096,
            mbcache: 250,
            txrst: 32,
        }
    }
}

impl RunConfig {
    /// The machine's part.
    pub fn machine(&self) -> MachineConfig {
        MachineConfig {
            platform: self.platform.clone(),
            core: self.core.clone(),
            pipeline: self.pipeline.clone(),
            memory: self.memory.clone(),
            disk: self.disk.clone(),
            pcie: self.pcie.clone(),
            nic: self.nic.clone(),
            link: self.link.clone(),
            loadgen: self.loadgen.clone(),
        }
    }

    /// Checks every value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.machine().validate()?;
        self.iperf.validate()?;
        let t = &self.testpmd;
        let ranges = [
            ("testpmd.rxd", t.rxd, 32, 4096),
            ("testpmd.txd", t.txd, 32, 4096),
            ("testpmd.burst", t.burst, 1, 512),
            ("testpmd.mbufs", t.mbufs, 256, 1 << 17),
            ("testpmd.mbcache", t.mbcache, 0, 512),
            ("testpmd.txrst", t.txrst, 1, 4096),
        ];
        for (key, value, least, most) in ranges {
            if !(least..=most).contains(&value) {
                return Err(ConfigError::new(key, format!("{value} is not from {least} to {most}")));
            }
        }
        for (key, value) in [("testpmd.rxd", t.rxd), ("testpmd.txd", t.txd)] {
            if value % 8 != 0 {
                return Err(ConfigError::new(
                    key,
                    format!("{value} is not a multiple of 8, as the NIC demands"),
                ));
            }
        }
        if self.platform.nics == 0 {
            return Err(ConfigError::new("platform.nics", "a run needs at least one NIC"));
        }
        if t.topology == Topology::Paired && !self.platform.nics.is_multiple_of(2) {
            return Err(ConfigError::new(
                "testpmd.topology",
                "\"paired\" needs an even number of platform.nics",
            ));
        }
        if self.run.duration == Ps::ZERO || self.run.frames == Some(0) {
            return Err(ConfigError::new("run.duration", "a measurement needs some time or some frames"));
        }
        Ok(())
    }

    /// The configuration as the result folder keeps it.
    pub fn to_toml(&self) -> String {
        toml::to_string_pretty(self).expect("a configuration can be written as TOML")
    }

    /// A hash of the whole configuration, as 16 hexadecimal digits: equal runs have equal hashes.
    pub fn hash(&self) -> String {
        format!("{:016x}", xxh3_64(self.to_toml().as_bytes()))
    }
}

/// A preset with `overrides` ("path=value", the last one wins), as a checked configuration.
pub fn resolve(preset: &str, overrides: &[String]) -> Result<RunConfig, ConfigError> {
    resolve_with_traffic(preset, None, overrides)
}

/// The same, with the text of a traffic file, whose name comes first, between preset and overrides: it holds what else stands
/// in `loadgen.traffic`.
pub fn resolve_with_traffic(
    preset: &str,
    traffic: Option<(&str, &str)>,
    overrides: &[String],
) -> Result<RunConfig, ConfigError> {
    let mut overlay: Overlay = doorbell_machine::preset(preset)?;
    if let Some((name, text)) = traffic {
        overlay.merge_toml_at("loadgen.traffic", name, text)?;
    }
    for assignment in overrides {
        overlay.set(assignment)?;
    }
    let config: RunConfig = overlay::Overlay::resolve(&overlay)?;
    config.validate()?;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_written_configuration_reads_back_the_same() {
        let config = resolve("fast", &["nic.rx_fifo=48KiB".into(), "testpmd.mode=io".into()]).unwrap();
        let back: RunConfig = toml::from_str(&config.to_toml()).unwrap();
        assert_eq!(back, config);
        assert_eq!(back.hash(), config.hash());
        assert_ne!(resolve("fast", &[]).unwrap().hash(), config.hash());
    }

    #[test]
    fn values_out_of_range_name_their_key() {
        for (wrong, key) in [
            ("testpmd.rxd=100", "testpmd.rxd"),
            ("platform.ram=1MiB", "platform.ram"),
            ("core.ipc=0", "core.ipc"),
        ] {
            let error = resolve("fast", &[wrong.into()]).unwrap_err();
            assert_eq!(error.key, key);
        }
    }
}
