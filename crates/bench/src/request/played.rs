//! The configuration of a played trace, from a machine, the traces' shape and overrides.

use doorbell_machine::playback::Pages;
use doorbell_machine::{Base, ConfigError};

use crate::plan::options::{self, OptionSections, Options, Section, path_of};
use crate::plan::playback::{KEYS, LINK, NICS, OF_PORTS, PlaybackConfig, RAM, Shape, WHOLE};
use crate::plan::resolved::Resolved;
use crate::registry;
use crate::request::resolve::Layers;

/// Resolves a machine with the overrides of `--set` and experiment files. The machine has as many harts as the traces,
/// and as many NICs unless `platform.nics` is set.
pub fn resolve_played(
    base: &Base,
    shape: impl Into<Shape>,
    overrides: &[String],
) -> Result<Resolved, ConfigError> {
    let Shape { harts, nics, is_physical } = shape.into();
    let pages = base.pages();
    let own = base.user_table().get(PlaybackConfig::SECTION);
    let in_base = |key: &str| own.is_some_and(|own| own.get(key).is_some());
    let keys: Vec<&str> = overrides.iter().map(|assignment| path_of(assignment)).collect();
    let is_set = |name: &str| keys.contains(&name);
    let paced = is_set("playback.rate") || is_set("playback.window") || in_base("rate") || in_base("window");
    let paged = is_set("playback.pages") || in_base("pages") || pages != Pages::Identity;
    for key in &keys {
        let is_links = key.split('.').next() == Some(LINK);
        if !(paced && is_links || paged && *key == RAM) {
            check_key(key)?;
        }
    }
    let defaults: &[&str] = if pages == Pages::ChampSim { &["playback.pages=champsim"] } else { &[] };
    let harts = format!("platform.harts={harts}");
    let mut all: Vec<String> = overrides.iter().cloned().chain([harts]).collect();
    let resolve = |all: &[String]| {
        let sections = OptionSections::of([Section::of::<PlaybackConfig>()]);
        Layers { defaults, ..Layers::of(base, all) }.with_options(sections)
    };
    let platform = base.user_table().get("platform");
    let sets_nics = is_set(NICS) || platform.is_some_and(|own| own.get("nics").is_some());
    let mut config = resolve(&all);
    // Settings of further ports are no error if the trace has NICs for these ports.
    let has_fewer = config.as_ref().map_or(true, |config| config.platform.nics < nics);
    if has_fewer && nics > 1 && !sets_nics {
        all.push(format!("{NICS}={nics}"));
        config = resolve(&all);
    }
    let config = config?;
    let configured = config.options::<PlaybackConfig>().pages;
    // A result's configuration lists all settings, those without effect included.
    let is_from_result = base.is_result() && !is_set("playback.pages");
    let problem = "the traces have physical addresses, so page tables have no effect; leave it out";
    options::reject_if(
        is_physical && configured != Pages::Identity && configured != pages && !is_from_result,
        "playback.pages",
        problem,
    )?;
    Ok(config)
}

/// Rejects a key that has no effect in playback.
fn check_key(key: &str) -> Result<(), ConfigError> {
    let parts: Vec<&str> = key.split('.').collect();
    let counts = match parts[..] {
        ["port", _, table, ..] => OF_PORTS.contains(&table),
        ["platform" | "run", ..] => KEYS.contains(&key),
        ["nic" | LINK | "loadgen" | "disk" | "node" | "switch" | "generator" | "cable", ..] => false,
        [section, ..] => !registry::sections().names().contains(&section),
        [] => true,
    };
    if counts {
        return Ok(());
    }
    let problem = format!(
        "has no meaning for a played trace, which replays the recorded behaviour of guest, NIC and traffic; the keys with an effect are {}, \
         port.N.attach, port.N.pcie and {}; with playback.rate or playback.window also {LINK}, and with playback.pages also {RAM}",
        WHOLE.join(", "),
        KEYS.join(", ")
    );
    Err(ConfigError::new(key, problem))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::playback::Warmup;
    use crate::request::changes::changes;

    fn resolved(set: &[&str]) -> Result<Resolved, String> {
        let set: Vec<String> = set.iter().map(|text| (*text).to_owned()).collect();
        resolve_played(&Base::find("server").unwrap(), 1, &set).map_err(|error| error.to_string())
    }

    #[test]
    fn configuration_and_hash_have_only_the_keys_that_affect_playback() {
        let plain = resolved(&[]).unwrap();
        let text = plain.to_toml();
        assert!(text.contains("[playback]\nwarmup = \"50%\"") && text.contains("[memory.llc]"), "{text}");
        for absent in ["[nic]", "[loadgen", "[dpdk]", "warmup_limit", "[link]"] {
            assert!(!text.contains(absent), "{absent} in {text}");
        }
        for set in [
            "playback.warmup=5",
            "playback.sleeps=false",
            "memory.llc.size=2MiB",
            "hart.0.core.frequency=1GHz",
            "port.0.attach.kind=llc",
        ] {
            assert_ne!(resolved(&[set]).unwrap().hash(), plain.hash(), "{set}");
        }
        let paced = ["playback.rate=1Mpps", "link.latency=2us"];
        assert!(resolved(&paced).unwrap().to_toml().contains("[link]"));
        let paged = resolved(&["playback.pages=kernel", "platform.ram=2GiB"]).unwrap();
        assert!(paged.to_toml().contains("ram = \"2GiB\"") && !text.contains("ram ="), "{text}");
        let champsim = resolve_played(&Base::find("champsim").unwrap(), 1, &[]).unwrap();
        assert_eq!(champsim.options::<PlaybackConfig>().pages, Pages::ChampSim);
        let set = ["playback.warmup=1_000", "memory.llc.size=2MiB"];
        let changed = changes(&Base::find("server").unwrap(), &resolved(&set).unwrap()).unwrap();
        let keys: Vec<&str> = changed.iter().map(|change| change.key.as_str()).collect();
        assert_eq!(keys, ["memory.llc.size", "playback.warmup"]);
    }

    #[test]
    fn keys_without_effect_are_rejected_by_name() {
        for set in [
            "nic.rx_fifo=48KiB",
            "dpdk.burst=8",
            "testpmd.mode=io",
            "run.warmup=1ms",
            "platform.ram=1GiB",
            "link.rate=10Gbps",
            "port.0.nic.rx_fifo=48KiB",
            "loadgen.traffic.rate=1Mpps",
            "drive.kind=node",
        ] {
            let error = resolved(&[set]).unwrap_err();
            let key = set.split('=').next().unwrap();
            assert!(
                error.starts_with(key) && error.contains("no meaning for a played trace"),
                "{set}: {error}"
            );
        }
        for (set, part) in [
            ("playback.warmup=100%", "nothing to measure"),
            ("playback.warmup=half", "a share such as"),
            ("playback.warmup=-1", "a number of instructions"),
            ("playback.instructions=0", "nothing to measure"),
            ("playback.page_size=2MiB", "playback.pages=kernel"),
            ("memory.llc.sise=1MiB", "did you mean"),
        ] {
            let error = resolved(&[set]).unwrap_err();
            assert!(error.contains(part), "{set}: {error}");
        }
    }

    #[test]
    fn ports_follow_the_nics_of_the_trace_unless_set() {
        let base = Base::find("server").unwrap();
        let with = |nics, set: &[&str]| {
            let set: Vec<String> = set.iter().map(|text| (*text).to_owned()).collect();
            resolve_played(&base, Shape { nics, ..Shape::from(1) }, &set).unwrap()
        };
        assert_eq!([0, 1, 2].map(|nics| with(nics, &[]).platform.nics), [1, 1, 2]);
        assert_eq!(with(1, &[]).hash(), with(0, &[]).hash());
        assert_ne!(with(2, &[]).hash(), with(1, &[]).hash());
        assert_eq!(with(2, &["platform.nics=1"]).platform.nics, 1, "rejected later, by the player");
        assert_eq!(with(2, &["platform.nics=3"]).platform.nics, 3);
        let ports = with(2, &["port.1.pcie.link_latency=5us"]);
        assert_eq!(
            (ports.platform.nics, ports.port(1).pcie.link_latency),
            (2, Some(doorbell_sim::Ps::from_us(5)))
        );
    }

    #[test]
    fn page_tables_without_effect_are_rejected_unless_the_preset_sets_them() {
        let physical = Shape { is_physical: true, ..Shape::from(1) };
        let with = |preset: &str, set: &[&str]| {
            let set: Vec<String> = set.iter().map(|text| (*text).to_owned()).collect();
            let config = resolve_played(&Base::find(preset).unwrap(), physical, &set);
            config.map(|config| config.hash()).map_err(|error| error.to_string())
        };
        let error = with("server", &["playback.pages=kernel"]).unwrap_err();
        assert!(error.starts_with("playback.pages: ") && error.contains("physical addresses"), "{error}");
        assert_eq!(with("server", &["playback.pages=identity"]), with("server", &[]));
        assert!(with("champsim", &[]).is_ok() && with("champsim", &["playback.pages=kernel"]).is_err());
    }

    #[test]
    fn warmup_is_a_share_of_the_instructions_or_a_number() {
        let share = |text: &str, all| text.parse::<Warmup>().unwrap().of(all);
        assert_eq!((share("50%", 9), share("0", 9), share("17_000", 9), share("0%", 9)), (4, 0, 17_000, 0));
        assert_eq!(share("99%", u64::MAX), (u128::from(u64::MAX) * 99 / 100) as u64);
        assert!("101x".parse::<Warmup>().is_err() && "-1%".parse::<Warmup>().is_err());
    }
}
