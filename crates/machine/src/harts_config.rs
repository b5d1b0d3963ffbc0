//! Configuration per hart. `[core]`, `[pipeline]` and the private part of `[memory]` apply to all harts;
//! `[hart.1.core]`, `[hart.1.pipeline]` and `[hart.1.memory]` override them for hart 1. Guests cannot detect
//! the difference: a boot and its checkpoints serve machines with any hart configuration.

use std::collections::BTreeMap;

use doorbell_core::PipelineConfig;
use doorbell_memory::{HartSide, PrivateConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::Table;

use crate::config::{ConfigError, CoreConfig, CoreModel, MachineConfig};
use crate::overlay::{part_number, with_overrides};

/// Overrides per hart.
pub type HartTables = BTreeMap<HartNumber, HartTable>;

part_number! {
    /// Hart number as a configuration key.
    HartNumber, "hart", "core.frequency"
}

/// Overrides of one hart: any keys of these tables that harts do not share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "core, pipeline and memory")]
pub struct HartTable {
    /// Overrides of `[core]`: `frequency`, `ipc`, `warming_ipc`.
    #[schemars(with = "CoreConfig")]
    #[serde(skip_serializing_if = "Table::is_empty")]
    pub core: Table,
    /// Overrides of `[pipeline]`.
    #[schemars(with = "PipelineConfig")]
    #[serde(skip_serializing_if = "Table::is_empty")]
    pub pipeline: Table,
    /// Overrides of `[memory]`: `l1i`, `l1d`, `l2`, `walks`; and `llc_ways`, which overrides
    /// `memory.llc.core_ways`.
    #[schemars(with = "PrivateConfig")]
    #[serde(skip_serializing_if = "Table::is_empty")]
    pub memory: Table,
}

/// Keys of `[core]` that apply to the whole machine.
const SHARED_CORE: [&str; 3] = ["model", "quantum", "lookahead"];
/// Parts of `[memory]` that harts share.
const SHARED_MEMORY: [&str; 6] = ["llc", "interconnect", "coherence", "header_bytes", "dca", "dram"];

/// Resolved configuration of one hart.
#[derive(Clone, Debug, PartialEq)]
pub struct HartParts {
    /// Clock, and instruction rates in functional execution.
    pub core: CoreConfig,
    /// Pipeline of the core, in timed machines.
    pub pipeline: PipelineConfig,
    /// Its private caches.
    pub caches: PrivateConfig,
}

impl HartParts {
    /// The hart's clock and private caches, for the memory system.
    pub(crate) fn private_memory(&self) -> HartSide {
        HartSide { clock: self.core.frequency, caches: self.caches.clone() }
    }
}

/// Configuration of a machine's harts: common to all, and overrides per hart.
#[derive(Clone, Copy, Debug)]
pub struct HartsConfig<'a>(pub(crate) &'a MachineConfig);

impl HartsConfig<'_> {
    /// Configuration of a hart without overrides.
    fn common(&self) -> HartParts {
        let MachineConfig { core, pipeline, memory, .. } = self.0;
        HartParts { core: core.clone(), pipeline: pipeline.clone(), caches: memory.private() }
    }

    /// Resolves hart `index`. An error names the key in the hart's own tables.
    pub fn hart(&self, index: usize) -> Result<HartParts, ConfigError> {
        let HartParts { core, pipeline, caches } = self.common();
        let Some(own) = self.0.hart.get(&HartNumber(index)) else { return Ok(self.common()) };
        reject_shared(index, "core", &own.core, &SHARED_CORE)?;
        reject_shared(index, "memory", &own.memory, &SHARED_MEMORY)?;
        Ok(HartParts {
            core: with_overrides(&core, &own.core, &format!("hart.{index}.core"))?,
            pipeline: with_overrides(&pipeline, &own.pipeline, &format!("hart.{index}.pipeline"))?,
            caches: with_overrides(&caches, &own.memory, &format!("hart.{index}.memory"))?,
        })
    }

    /// Checks the common configuration and each of `count` harts, except for shared memory.
    pub fn validate(&self, count: usize) -> Result<(), ConfigError> {
        let timed = self.0.core.model == CoreModel::Timed;
        let check = |prefix: &str, parts: &HartParts| {
            parts.core.validate(&format!("{prefix}core"))?;
            if timed {
                let below =
                    |part: &str, problem: String| ConfigError::in_part(&format!("{prefix}{part}"), &problem);
                parts.pipeline.validate().map_err(|problem| below("pipeline", problem))?;
                parts.caches.validate(self.0.memory.llc.ways).map_err(|problem| below("memory", problem))?;
            }
            Ok(())
        };
        check("", &self.common())?;
        for &HartNumber(index) in self.0.hart.keys() {
            if index >= count {
                let problem = match count {
                    1 => "this machine has one hart (platform.harts), which is hart.0".to_owned(),
                    _ => format!(
                        "this machine has {count} harts (platform.harts): hart.0 to hart.{}",
                        count - 1
                    ),
                };
                return Err(ConfigError::new(format!("hart.{index}"), problem));
            }
            check(&format!("hart.{index}."), &self.hart(index)?)?;
        }
        Ok(())
    }
}

impl HartsConfig<'_> {
    /// Checks, for `count` harts, that the two threads of each core have equal configurations and that its
    /// pipeline supports threads.
    pub(crate) fn validate_threads(&self, count: usize) -> Result<(), ConfigError> {
        for second in (1..count).step_by(2) {
            let [first, own] = [self.hart(second - 1)?, self.hart(second)?];
            let differs = [
                ("core", first.core != own.core),
                ("pipeline", first.pipeline != own.pipeline),
                ("memory", first.caches != own.caches),
            ];
            if let Some((part, _)) = differs.iter().find(|part| part.1) {
                let problem = format!(
                    "it differs from hart.{}.{part}, but both are threads of one core (platform.threads=2): set both alike",
                    second - 1
                );
                return Err(ConfigError::new(format!("hart.{second}.{part}"), problem));
            }
            if self.0.core.model == CoreModel::Timed {
                let named = self.0.hart.contains_key(&HartNumber(second));
                let path = if named { format!("hart.{second}.pipeline") } else { "pipeline".to_owned() };
                own.pipeline.validate_threads().map_err(|problem| ConfigError::in_part(&path, &problem))?;
            }
        }
        Ok(())
    }
}

fn reject_shared(index: usize, part: &str, own: &Table, shared: &[&str]) -> Result<(), ConfigError> {
    match own.keys().find(|key| shared.contains(&key.as_str())) {
        Some(key) => {
            let problem = format!("all harts share it; set {part}.{key}");
            Err(ConfigError::new(format!("hart.{index}.{part}.{key}"), problem))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use doorbell_core::CoreKind;
    use doorbell_sim::{Bytes, Hertz};

    use super::*;
    use crate::config::{MachineConfig, PlatformConfig};
    use crate::machine::Machine;
    use crate::overlay::Overlay;

    fn with(assignments: &[&str]) -> Result<MachineConfig, ConfigError> {
        let mut overlay = Overlay::default();
        let timed = ["platform.harts=3", "core.model=timed"];
        timed.iter().chain(assignments).try_for_each(|assignment| overlay.set(assignment))?;
        let config: MachineConfig = overlay.resolve()?;
        config.validate()?;
        Ok(config)
    }

    #[test]
    fn hart_tables_override_common_values() {
        let config = with(&[
            "core.frequency=2GHz",
            "pipeline.rob=64",
            "memory.l2.size=512KiB",
            "hart.1.core.frequency=1GHz",
            "hart.1.pipeline.kind=in-order",
            "hart.2.memory.l2.size=2MiB",
            "hart.2.memory.l1d.prefetch.kind=stride",
        ])
        .unwrap();
        let [one, two, three] = [0, 1, 2].map(|index| config.hart(index));
        assert_eq!([&one, &two, &three].map(|hart| hart.core.frequency.0 / 1_000_000), [2000, 1000, 2000]);
        let kinds = [&one, &two, &three].map(|hart| (hart.pipeline.kind, hart.pipeline.rob));
        assert_eq!(kinds, [(CoreKind::OutOfOrder, 64), (CoreKind::InOrder, 64), (CoreKind::OutOfOrder, 64)]);
        assert_eq!([&one, &two, &three].map(|hart| hart.caches.l2.size.0 >> 10), [512, 512, 2048]);
        // Values that hart 2 does not set come from the common L2 cache, whose ports differ from an L1
        // cache's.
        assert_eq!(
            (three.caches.l2.ports, three.caches.l2.mshrs),
            (one.caches.l2.ports, one.caches.l2.mshrs)
        );
        assert_ne!(three.caches.l1d.prefetch, one.caches.l1d.prefetch);
        let machine = Machine::new(config, 1).unwrap();
        let timing = machine.timing().unwrap();
        assert_eq!(timing.core(1).config(), &two.pipeline);
        assert_eq!(timing.core(2).config(), &three.pipeline);
        assert_eq!(machine.harts()[1].slot_at(doorbell_sim::Ps::from_us(1)), 1000);
    }

    #[test]
    fn common_values_apply_to_harts_without_overrides() {
        let config = with(&["core.frequency=1GHz", "hart.0.core.frequency=3GHz"]).unwrap();
        assert_eq!(
            [0, 1, 2].map(|index| config.hart(index).core.frequency.0 / 1_000_000),
            [3000, 1000, 1000]
        );
        let text = toml::to_string(&config).unwrap();
        assert!(text.contains("[hart.0.core]\nfrequency = \"3GHz\""), "{text}");
        assert_eq!(toml::from_str::<MachineConfig>(&text).unwrap(), config);
    }

    #[test]
    fn hart_overrides_change_the_microarchitecture_hash_but_not_the_guest_hash() {
        let plain = with(&[]).unwrap();
        for own in ["hart.1.core.frequency=1GHz", "hart.0.pipeline.rob=64", "hart.2.memory.l1i.ways=2"] {
            let config = with(&[own]).unwrap();
            assert_eq!(config.guest_hash(), plain.guest_hash(), "{own}");
            assert!(config.for_boot().hart.is_empty(), "{own}");
            assert_ne!(config.microarchitecture_hash(), plain.microarchitecture_hash(), "{own}");
        }
    }

    #[test]
    fn threads_of_a_core_need_equal_configurations() {
        let two = ["platform.harts=4", "platform.threads=2"];
        let with = |own: &[&str]| with(&[&two, own].concat());
        let alike = with(&["hart.2.pipeline.rob=64", "hart.3.pipeline.rob=64"]).unwrap();
        let machine = Machine::new(alike.clone(), 1).unwrap();
        assert_eq!(
            machine.timing().unwrap().memory.stats().harts.len(),
            2,
            "threads share their core's caches"
        );
        let plain =
            MachineConfig { platform: PlatformConfig { threads: 1, ..alike.platform.clone() }, ..alike };
        assert!(!toml::to_string(&plain).unwrap().contains("threads"));
        for (wrong, key, problem) in [
            (&["platform.threads=3"][..], "platform.threads", "from 1 to 2"),
            (
                &["platform.harts=3"][..],
                "platform.threads",
                "3 harts (platform.harts) do not fill whole cores",
            ),
            (&["hart.1.core.frequency=1GHz"][..], "hart.1.core", "differs from hart.0.core"),
            (&["hart.2.pipeline.rob=64"][..], "hart.3.pipeline", "set both alike"),
            (&["hart.2.memory.l2.size=512KiB"][..], "hart.3.memory", "threads of one core"),
            (&["pipeline.kind=in-order"][..], "pipeline.kind", "must be out-of-order"),
            (&["pipeline.iq=4"][..], "pipeline.iq", "must be 8 or more"),
        ] {
            let error = with(wrong).unwrap_err();
            assert_eq!(error.key, key, "{wrong:?}: {error}");
            assert!(error.problem.contains(problem), "{wrong:?}: {error}");
        }
    }

    #[test]
    fn invalid_values_are_rejected_with_the_path_of_their_key() {
        for (wrong, key, problem) in [
            ("hart.3.core.frequency=1GHz", "hart.3", "hart.0 to hart.2"),
            ("hart.01.core.frequency=1GHz", "hart.01", "\"01\" is not a hart number"),
            ("hart.core.frequency=1GHz", "hart.core", "core.frequency for all"),
            ("hart.1=1GHz", "hart.1", "expected core, pipeline and memory"),
            ("hart.1.core.frequenzy=1GHz", "hart.1.core.frequenzy", "did you mean \"frequency\"?"),
            ("hart.1.core.frequency=1", "hart.1.core.frequency", "unit"),
            ("hart.1.core.frequency=30GHz", "hart.1.core.frequency", "to 20GHz"),
            ("hart.1.core.ipc=2", "hart.1.core.ipc", "1.0 with core.model=timed"),
            ("hart.1.core.model=functional", "hart.1.core.model", "set core.model"),
            ("hart.1.core.quantum=1us", "hart.1.core.quantum", "set core.quantum"),
            ("hart.1.core.lookahead=1ns", "hart.1.core.lookahead", "set core.lookahead"),
            ("core.lookahead=2us", "core.lookahead", "at most 1us"),
            ("hart.1.pipeline.rob=0", "hart.1.pipeline.rob", "1 to 4096"),
            ("hart.1.pipeline.kind=vliw", "hart.1.pipeline.kind", "out-of-order"),
            ("hart.1.memory.llc.size=1MiB", "hart.1.memory.llc", "set memory.llc"),
            ("hart.1.memory.dram.channels=1", "hart.1.memory.dram", "set memory.dram"),
            ("hart.1.memory.l2.size=32B", "hart.1.memory.l2.size", "such as 512B"),
            ("hart.1.memory.l3.size=1MiB", "hart.1.memory.l3", "unknown field"),
            ("hart.1.caches.l2.size=1MiB", "hart.1.caches", "expected one of `core`, `pipeline`, `memory`"),
            ("core.frequency=0.1MHz", "core.frequency", "from 1MHz"),
            ("memory.l2.size=32B", "memory.l2.size", "such as 512B"),
        ] {
            let error = with(&[wrong]).unwrap_err();
            assert_eq!(error.key, key, "{wrong}: {error}");
            assert!(error.problem.contains(problem), "{wrong}: {error}");
        }
        let error = with(&["platform.harts=1", "hart.1.core.frequency=1GHz"]).unwrap_err();
        assert_eq!(error.problem, "this machine has one hart (platform.harts), which is hart.0");
        let whole = with(&["hart.1.memory.l2.size=2MiB"]).unwrap();
        assert_eq!(whole.hart(1).core.frequency, Hertz(3_000_000_000));
        assert_eq!(whole.hart(0).caches.l2.size, Bytes(1 << 20));
    }
}
