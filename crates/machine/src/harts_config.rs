//! What each hart is made of: `[core]`, `[pipeline]` and the private part of `[memory]` hold for all, and what stands under
//! `[hart.1.core]`, `[hart.1.pipeline]` and `[hart.1.memory]` for that hart alone. A hart's own keys are laid over everybody's.
//! No guest can tell: a boot and its checkpoints serve machines of any harts.

use std::collections::BTreeMap;

use doorbell_core::PipelineConfig;
use doorbell_memory::{HartSide, MemoryConfig, PrivateConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::Table;

use crate::config::{ConfigError, CoreConfig, CoreModel};
use crate::overlay::{with_overrides, part_number};

/// Harts that have something of their own.
pub type HartTables = BTreeMap<HartNumber, HartTable>;

part_number! {
    /// A hart's number, as a key of a configuration.
    HartNumber, "hart", "core.frequency"
}

/// What one hart has of its own: any keys of these parts that are not shared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "core, pipeline and memory")]
pub struct HartTable {
    /// Over `[core]`: `frequency`, `ipc`, `warming_ipc`.
    #[schemars(with = "CoreConfig")]
    #[serde(skip_serializing_if = "Table::is_empty")]
    pub core: Table,
    /// Over `[pipeline]`.
    #[schemars(with = "PipelineConfig")]
    #[serde(skip_serializing_if = "Table::is_empty")]
    pub pipeline: Table,
    /// Over `[memory]`: `l1i`, `l1d`, `l2`, `walks`; and `llc_ways`, over `memory.llc.core_ways`.
    #[schemars(with = "PrivateConfig")]
    #[serde(skip_serializing_if = "Table::is_empty")]
    pub memory: Table,
}

/// Keys of `[core]` that hold for the whole machine.
const SHARED_CORE: [&str; 3] = ["model", "quantum", "lookahead"];
/// Parts of `[memory]` that harts share.
const SHARED_MEMORY: [&str; 6] = ["llc", "interconnect", "coherence", "header_bytes", "dca", "dram"];

/// A hart as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct HartParts {
    /// Its clock, and its pace where it is not timed.
    pub core: CoreConfig,
    /// What its core is like inside, where it is timed.
    pub pipeline: PipelineConfig,
    /// Its private caches.
    pub caches: PrivateConfig,
}

impl HartParts {
    /// What the memory system has to know of it.
    pub(crate) fn private_memory(&self) -> HartSide {
        HartSide { clock: self.core.frequency, caches: self.caches.clone() }
    }
}

/// What holds for all harts, and what does not.
#[derive(Clone, Copy, Debug)]
pub struct HartsConfig<'a> {
    /// `[core]`.
    pub core: &'a CoreConfig,
    /// `[pipeline]`.
    pub pipeline: &'a PipelineConfig,
    /// `[memory]`.
    pub memory: &'a MemoryConfig,
    /// `[hart.N]`.
    pub own: &'a HartTables,
}

impl HartsConfig<'_> {
    /// Hart `index`. An error names the key of the hart's own tables.
    pub fn hart(&self, index: usize) -> Result<HartParts, ConfigError> {
        let (core, pipeline, caches) = (self.core.clone(), self.pipeline.clone(), self.memory.private());
        let Some(own) = self.own.get(&HartNumber(index)) else {
            return Ok(HartParts { core, pipeline, caches });
        };
        refuse_shared(index, "core", &own.core, &SHARED_CORE)?;
        refuse_shared(index, "memory", &own.memory, &SHARED_MEMORY)?;
        Ok(HartParts {
            core: with_overrides(&core, &own.core, &format!("hart.{index}.core"))?,
            pipeline: with_overrides(&pipeline, &own.pipeline, &format!("hart.{index}.pipeline"))?,
            caches: with_overrides(&caches, &own.memory, &format!("hart.{index}.memory"))?,
        })
    }

    /// Checks what all have, and each of `count` harts; the memory that they share apart.
    pub fn validate(&self, count: usize) -> Result<(), ConfigError> {
        let timed = self.core.model == CoreModel::Timed;
        let check = |prefix: &str, parts: &HartParts| {
            parts.core.validate(&format!("{prefix}core"))?;
            if timed {
                let below =
                    |part: &str, problem: String| ConfigError::in_part(&format!("{prefix}{part}"), &problem);
                parts.pipeline.validate().map_err(|problem| below("pipeline", problem))?;
                parts.caches.validate(self.memory.llc.ways).map_err(|problem| below("memory", problem))?;
            }
            Ok(())
        };
        let (core, pipeline, caches) = (self.core.clone(), self.pipeline.clone(), self.memory.private());
        check("", &HartParts { core, pipeline, caches })?;
        for &HartNumber(index) in self.own.keys() {
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
    /// Checks that the threads of each core, two by two of `count` harts, can be that.
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
                    "it is another than hart.{}.{part}, and they are threads of one core (platform.threads=2): set both alike",
                    second - 1
                );
                return Err(ConfigError::new(format!("hart.{second}.{part}"), problem));
            }
            if self.core.model == CoreModel::Timed {
                let named = self.own.contains_key(&HartNumber(second));
                let path = if named { format!("hart.{second}.pipeline") } else { "pipeline".to_owned() };
                own.pipeline.validate_threads().map_err(|problem| ConfigError::in_part(&path, &problem))?;
            }
        }
        Ok(())
    }
}

fn refuse_shared(index: usize, part: &str, own: &Table, shared: &[&str]) -> Result<(), ConfigError> {
    match own.keys().find(|key| shared.contains(&key.as_str())) {
        Some(key) => {
            let problem = format!("all harts have it in common; set {part}.{key}");
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
    fn a_hart_has_what_all_have_but_for_its_own() {
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
        // A second-level cache has other ports than a first-level one: what is not named is as everybody's of that level.
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
    fn what_holds_for_all_still_reaches_each_that_has_nothing_of_its_own() {
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
    fn no_guest_can_tell_one_harts_own_but_a_timing_state_can() {
        let plain = with(&[]).unwrap();
        for own in ["hart.1.core.frequency=1GHz", "hart.0.pipeline.rob=64", "hart.2.memory.l1i.ways=2"] {
            let config = with(&[own]).unwrap();
            assert_eq!(config.guest_hash(), plain.guest_hash(), "{own}");
            assert!(config.for_boot().hart.is_empty(), "{own}");
            assert_ne!(config.microarchitecture_hash(), plain.microarchitecture_hash(), "{own}");
        }
    }

    #[test]
    fn threads_of_a_core_are_alike_and_can_share_it() {
        let two = ["platform.harts=4", "platform.threads=2"];
        let with = |own: &[&str]| with(&[&two, own].concat());
        let alike = with(&["hart.2.pipeline.rob=64", "hart.3.pipeline.rob=64"]).unwrap();
        let machine = Machine::new(alike.clone(), 1).unwrap();
        assert_eq!(machine.timing().unwrap().memory.stats().harts.len(), 2, "caches are a core's");
        let plain =
            MachineConfig { platform: PlatformConfig { threads: 1, ..alike.platform.clone() }, ..alike };
        assert!(!toml::to_string(&plain).unwrap().contains("threads"));
        for (wrong, key, problem) in [
            (&["platform.threads=3"][..], "platform.threads", "1 or 2"),
            (&["platform.harts=3"][..], "platform.threads", "3 harts (platform.harts) are no whole number"),
            (&["hart.1.core.frequency=1GHz"][..], "hart.1.core", "another than hart.0.core"),
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
    fn what_cannot_be_is_refused_with_the_path_of_its_key() {
        for (wrong, key, problem) in [
            ("hart.3.core.frequency=1GHz", "hart.3", "hart.0 to hart.2"),
            ("hart.01.core.frequency=1GHz", "hart.01", "\"01\" is no hart's number"),
            ("hart.core.frequency=1GHz", "hart.core", "those of all such as core.frequency"),
            ("hart.1=1GHz", "hart.1", "expected core, pipeline and memory"),
            ("hart.1.core.frequenzy=1GHz", "hart.1.core.frequenzy", "did you mean \"frequency\"?"),
            ("hart.1.core.frequency=1", "hart.1.core.frequency", "unit"),
            ("hart.1.core.frequency=30GHz", "hart.1.core.frequency", "\"20GHz\""),
            ("hart.1.core.ipc=2", "hart.1.core.ipc", "1.0 where the model is \"timed\""),
            ("hart.1.core.model=functional", "hart.1.core.model", "set core.model"),
            ("hart.1.core.quantum=1us", "hart.1.core.quantum", "set core.quantum"),
            ("hart.1.core.lookahead=1ns", "hart.1.core.lookahead", "set core.lookahead"),
            ("core.lookahead=2us", "core.lookahead", "\"0ns\" to \"1us\""),
            ("hart.1.pipeline.rob=0", "hart.1.pipeline.rob", "1 to 4096"),
            ("hart.1.pipeline.kind=vliw", "hart.1.pipeline.kind", "out-of-order"),
            ("hart.1.memory.llc.size=1MiB", "hart.1.memory.llc", "set memory.llc"),
            ("hart.1.memory.dram.channels=1", "hart.1.memory.dram", "set memory.dram"),
            ("hart.1.memory.l2.size=32B", "hart.1.memory.l2.size", "such as 512B"),
            ("hart.1.memory.l3.size=1MiB", "hart.1.memory.l3", "unknown field"),
            ("hart.1.caches.l2.size=1MiB", "hart.1.caches", "expected one of `core`, `pipeline`, `memory`"),
            ("core.frequency=0.1MHz", "core.frequency", "\"1MHz\""),
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
