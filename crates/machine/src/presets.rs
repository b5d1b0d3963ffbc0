//! Presets: named machines, each a TOML file whose comments give the sources of its values.

use crate::config::ConfigError;
use crate::overlay::{Overlay, nearest};
use crate::playback::Pages;

/// A named machine.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Its name on the command line.
    pub name: &'static str,
    /// One-line description.
    pub summary: &'static str,
    /// Text of the TOML file.
    pub toml: &'static str,
    /// Page tables for traces that contain only virtual addresses.
    pub pages: Pages,
}

impl Preset {
    /// A preset with identity page tables.
    const fn of(name: &'static str, summary: &'static str, toml: &'static str) -> Preset {
        Preset { name, summary, toml, pages: Pages::Identity }
    }
}

/// A machine whose file has its name.
macro_rules! file {
    ($name:literal, $summary:literal) => {
        Preset::of($name, $summary, include_str!(concat!("../presets/", $name, ".toml")))
    };
}

/// Machine of the M5 study with a NIC placement and a memory latency: 65 ns if the memory controller is a
/// separate chip, otherwise 50 ns.
macro_rules! m5 {
    ($name:literal, $place:literal, $memory:literal, $where:literal) => {
        Preset::of(
            $name,
            concat!("timed: the machine of Binkert et al. (2005), its NIC ", $where),
            concat!(
                "attach = \"",
                $place,
                "\"\n",
                include_str!("../presets/m5.toml"),
                "[memory.dram.flat]\nlatency = \"",
                $memory,
                "\"\nrate = \"128Gbps\"\n"
            ),
        )
    };
}

/// One of the Broadwell servers, which differ in clock, slices and ring.
macro_rules! broadwell {
    ($name:literal, $clock:literal) => {
        Preset::of(
            $name,
            concat!(
                "timed: a Broadwell-EP Xeon of ",
                $clock,
                " from published figures, its slices on a ring"
            ),
            concat!(
                include_str!("../presets/broadwell-ep.toml"),
                include_str!(concat!("../presets/", $name, ".toml"))
            ),
        )
    };
}

/// All presets; the first is the default.
pub const PRESETS: &[Preset] = &[
    file!("server", "timed: the gem5 paper's core and caches, a current NIC engine, PCIe Gen4 x16"),
    file!(
        "altra",
        "timed: an Ampere Altra from published figures, direct cache access off as in the measurements"
    ),
    file!(
        "skylake-sp",
        "timed: a Xeon Gold 6140 from published figures, with DDIO in 2 of 11 ways of 18 hashed slices"
    ),
    broadwell!("xeon-e5-2699v4", "2.2 GHz"),
    broadwell!("xeon-e5-2667v4", "3.2 GHz"),
    file!("big-server", "timed: a wide core of 2022 (Zen 4 class), DDR5, PCIe Gen5 x16"),
    file!("small-in-order", "timed: a two-wide in-order core like gem5's MinorCPU, 10 Gbps"),
    file!("ispass24", "timed: the machine of \"Userspace Networking in gem5\" (ISPASS 2024)"),
    m5!("m5-ste", "ste-2005", "65ns", "in a slot behind two chips"),
    m5!("m5-hte", "hte-2005", "50ns", "in a slot behind one chip"),
    m5!("m5-htd", "htd-2005", "50ns", "on the processor's HyperTransport"),
    m5!("m5-ocm", "ocm", "50ns", "on the die, at the memory bus"),
    m5!("m5-occ", "occ", "50ns", "on the die, at the last-level cache"),
    m5!("m5-ocs", "ocs", "50ns", "on the die, headers to the LLC, payload to memory"),
    Preset {
        pages: Pages::ChampSim,
        ..file!("champsim", "timed: ChampSim's default machine, for its traces; no devices")
    },
    file!("ddiosim", "timed: the machine of \"DDIOSim\", for traces that include a NIC's DMA"),
    file!("fast", "functional: fixed time per instruction, latency and bandwidth for DMA and links"),
];

/// The preset called `name`, ready for overrides.
pub fn preset(name: &str) -> Result<Overlay, ConfigError> {
    let Some(preset) = PRESETS.iter().find(|preset| preset.name == name) else {
        let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
        let hint =
            nearest(name, names.iter()).map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
        let problem = format!("there is no preset \"{name}\"{hint} (presets: {})", names.join(", "));
        return Err(ConfigError::new("preset", problem));
    };
    Overlay::from_toml(preset.name, preset.toml)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{CoreModel, MachineConfig};

    #[test]
    fn every_preset_is_a_valid_machine() {
        for entry in PRESETS {
            let config: MachineConfig = preset(entry.name).unwrap().resolve().unwrap();
            config.validate().unwrap();
        }
    }

    #[test]
    fn transmit_fifo_of_timed_presets_holds_a_burst_and_a_round_trip_of_wire_data() {
        // DPDK sends bursts of 32 frames, here of 1518 bytes rounded up to a multiple of 16. A DMA read takes
        // 0.6 us plus queueing: 1 us of wire data is added.
        const BURST: u64 = 32 * 1520;
        // Bytes that the drivers' PBA setting leaves for the transmit FIFO.
        const LEFT_BY_PBA: u64 = 24 << 10;
        for entry in PRESETS {
            let config: MachineConfig = preset(entry.name).unwrap().resolve().unwrap();
            let round_trip = config.link.rate.0 / 8 / 1_000_000;
            let fifo = config.nic.tx_fifo.map_or(LEFT_BY_PBA, |bytes| bytes.0);
            let is_timed = config.core.model == CoreModel::Timed;
            assert!(!is_timed || fifo >= BURST + round_trip, "{}: {fifo} bytes", entry.name);
        }
    }

    #[test]
    fn m5_nic_has_one_dma_in_flight_per_direction_and_one_header_line_per_frame() {
        use doorbell_memory::DataClass;
        use doorbell_sim::memory::{DmaAccess, each_line};
        use doorbell_sim::ports::{DmaPurpose, PhysAddr};
        for place in ["ste", "hte", "htd", "ocm", "occ", "ocs"] {
            let config: MachineConfig = preset(&format!("m5-{place}")).unwrap().resolve().unwrap();
            let nic = &config.nic;
            assert_eq!(
                (nic.reads_in_flight, nic.writes_in_flight, nic.descriptor_fetches_in_flight),
                (1, 1, 1)
            );
            for into_line in 0..3 {
                let mut headers = Vec::new();
                each_line(PhysAddr(into_line), 1514, |_, bytes, offset| {
                    let class = DataClass::of(
                        &DmaAccess::plain(0, DmaPurpose::RxData, offset),
                        config.memory.header_bytes,
                    );
                    if class == DataClass::Header {
                        headers.push(bytes);
                    }
                });
                assert_eq!(headers, [64 - into_line as u32], "{place}: the line in which a frame begins");
            }
        }
    }

    #[test]
    fn ddiosim_matches_the_papers_table() {
        let config: MachineConfig = preset("ddiosim").unwrap().resolve().unwrap();
        let (core, memory) = (&config.pipeline, &config.memory);
        assert_eq!((config.core.frequency.0, config.platform.ram.0), (4_000_000_000, 4 << 30));
        assert_eq!((core.issue_width, core.commit_width, core.rob), (6, 4, 352));
        let tlb = &core.tlb;
        assert_eq!([tlb.instruction_entries, tlb.data_entries, tlb.second_entries], [64, 64, 1536]);
        let caches = [&memory.l1i, &memory.l1d, &memory.l2];
        let shape = caches.map(|cache| (cache.size.0 >> 10, cache.ways, cache.mshrs));
        assert_eq!(shape, [(32, 8, 8), (48, 12, 16), (512, 8, 32)]);
        // ChampSim's instruction cache takes three cycles more than its setting.
        assert_eq!(caches.map(|cache| cache.latency), [4 + 3, 5, 10]);
        let llc = &memory.llc;
        assert_eq!((llc.size.0 >> 10, llc.ways, llc.latency, llc.mshrs), (2048, 16, 20, 64));
        assert_eq!(memory.interconnect.clock, config.core.frequency);
        assert_eq!((memory.dca.policy.enabled, memory.dca.policy.ways.to_string()), (true, "0-1".to_owned()));
        let dram = &memory.dram;
        assert_eq!((dram.timing().clock.0 * 2 / 1_000_000, dram.channels), (2666, 1));
        assert_eq!((dram.read_queue, dram.write_queue), (64, 64));
    }

    #[test]
    fn unknown_preset_error_suggests_a_name() {
        let error = preset("fats").unwrap_err().to_string();
        assert!(error.contains("did you mean \"fast\"?"), "{error}");
    }
}
