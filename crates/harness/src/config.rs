//! Random configurations. Whatever values the keys have, either the configuration is refused with a message
//! that names one of the keys, or the machine is built and runs under traffic.

use doorbell_machine::overlay::Overlay;
use doorbell_machine::{ConfigError, Machine, MachineConfig, Mode};
use doorbell_sim::Ps;
use toml::Value;

use crate::guest;
use crate::input::Input;
use crate::operations;
use crate::watchdog::Watchdog;

const CHANGES_MAX: u64 = 4;
const RUN: Ps = Ps::from_ms(1);
const RUN_INSTRUCTIONS: u64 = 20_000;
/// Enough frames to fill rings and FIFOs.
const FRAMES_MAX: u64 = 600;
/// Limits of RAM and tracked frames; larger values cost host time and reveal nothing new.
const RAM_MAX: u64 = 1 << 30;
const TRACKED_FRAMES_MAX: u32 = 1 << 16;

/// Keys without a default value, which a walk over the default configuration does not find.
const OPTIONAL_KEYS: [&str; 30] = [
    "nic.mac",
    "nic.rx_fifo",
    "nic.tx_fifo",
    "nic.dma_rate",
    "nic.descriptor_prefetch",
    "loadgen.traffic.frames",
    "loadgen.traffic.duration",
    "loadgen.traffic.total",
    "attach.enters",
    "attach.burst",
    "attach.width",
    "attach.clock",
    "attach.latency",
    "attach.outstanding",
    "attach.register_latency",
    "pcie.link_latency",
    "pcie.root_latency",
    "pcie.register_latency",
    "pcie.data_link_share",
    "memory.dca.policy.descriptor_ways",
    "memory.coherence.kind",
    "memory.coherence.entries",
    "memory.fabric.kind",
    "memory.fabric.columns",
    "memory.fabric.rows",
    "memory.fabric.hop",
    "hart.0.core.frequency",
    "hart.0.pipeline.rob",
    "hart.0.memory.l2.size",
    "hart.0.memory.l1d.prefetch.degree",
];

pub(crate) const NUMBERS: [&str; 16] = [
    "0",
    "1",
    "2",
    "3",
    "7",
    "8",
    "63",
    "64",
    "100",
    "128",
    "1000",
    "1024",
    "4096",
    "65535",
    "16777216",
    "18446744073709551615",
];
pub(crate) const UNITS: [&str; 21] = [
    "ps", "ns", "us", "ms", "s", "B", "KiB", "MiB", "GiB", "bps", "kbps", "Mbps", "Gbps", "Tbps", "Hz",
    "MHz", "GHz", "pps", "Mpps", "%", "",
];
const WORDS: [&str; 19] = [
    "true",
    "false",
    "sv39",
    "sv48",
    "macswap",
    "io",
    "pcie",
    "directory",
    "ring",
    "mesh",
    "bus",
    "memory-bus",
    "llc",
    "any",
    "02:00:00:00:00:01",
    "01:00:00:00:00:01",
    "10.0.0.1",
    "",
    "0.5",
];

/// All keys of a configuration.
pub fn keys() -> Vec<String> {
    let tree = Value::try_from(MachineConfig::default()).expect("a configuration is TOML");
    let mut keys = OPTIONAL_KEYS.map(str::to_owned).to_vec();
    walk(&tree, "", &mut keys);
    keys.sort();
    keys.dedup();
    keys
}

fn walk(value: &Value, path: &str, keys: &mut Vec<String>) {
    let Value::Table(table) = value else { return keys.push(path.to_owned()) };
    for (key, value) in table {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        walk(value, &path, keys);
    }
}

/// Runs the case for the input bytes.
pub fn run(bytes: &[u8]) {
    let _watchdog = Watchdog::start();
    let mut input = Input::new(bytes);
    let keys = keys();
    let mut overlay = Overlay::default();
    let mut changed = Vec::new();
    if input.u8() & 1 != 0 {
        overlay.set("core.model=timed").expect("the key is a path");
        changed.push("core.model");
    }
    for _ in 0..1 + input.below(CHANGES_MAX) {
        let key = &keys[input.below(keys.len() as u64) as usize];
        changed.push(key.as_str());
        overlay.set(&format!("{key}={}", value(key, &mut input))).expect("the key is a path");
    }
    let config =
        match overlay.resolve::<MachineConfig>().and_then(|config| config.validate().map(|()| config)) {
            Ok(config) => config,
            Err(error) => return assert_names_a_key(&error, &changed),
        };
    run_machine(config);
}

/// A value for a key, usually of the right kind with the unit of its default.
fn value(key: &str, input: &mut Input<'_>) -> String {
    let unit = match input.u8() % 8 {
        0 => input.pick(&UNITS),
        1 => return input.pick(&WORDS).to_owned(),
        2 => return format!("{}.{}", input.u8(), input.u8()),
        _ => default_unit(key),
    };
    match input.u8() % 4 {
        0 => format!("{}{unit}", input.pick(&NUMBERS)),
        1 => format!("{}{unit}", input.value() >> (input.u8() % 64)),
        // Near the default, which is usually valid.
        _ => format!(
            "{}{unit}",
            (default_number(key) >> (input.u8() % 4)).wrapping_mul(u64::from(input.u8() % 8))
                + u64::from(input.u8() & 1)
        ),
    }
}

/// The default value as text.
fn default_text(key: &str) -> String {
    let tree = Value::try_from(MachineConfig::default()).expect("a configuration is TOML");
    let value = key.split('.').try_fold(&tree, |tree, part| tree.get(part));
    value.map_or(String::new(), |value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

fn default_number(key: &str) -> u64 {
    let text = default_text(key);
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..digits].parse().unwrap_or(64)
}

fn default_unit(key: &str) -> &'static str {
    let text = default_text(key);
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    UNITS.iter().find(|other| **other == unit).copied().unwrap_or_default()
}

/// Checks that the message contains a changed key, in full or its last part.
fn assert_names_a_key(error: &ConfigError, changed: &[&str]) {
    let message = error.to_string();
    let named = changed.iter().any(|key| message.contains(key.rsplit('.').next().expect("a key has a part")));
    assert!(named, "\"{message}\" contains none of {changed:?}");
}

fn run_machine(mut config: MachineConfig) {
    config.platform.ram.0 = config.platform.ram.0.min(RAM_MAX);
    config.loadgen.tracked_frames = config.loadgen.tracked_frames.min(TRACKED_FRAMES_MAX);
    let frames = config.loadgen.traffic.frames.unwrap_or(FRAMES_MAX);
    config.loadgen.traffic.frames = Some(frames.min(FRAMES_MAX));
    let mut machine = Machine::new(config.clone(), 1).expect("a validated configuration builds");
    machine.load(&guest::guest(operations::idle_program(), 1)).expect("the guest fits into the least RAM");
    machine.start_traffic(&config.loadgen.traffic).expect("validated traffic");
    machine.begin_window();
    machine.set_mode(Mode::Detailed);
    let (end, instructions) = (machine.now() + RUN, machine.instructions() + RUN_INSTRUCTIONS);
    guest::run_to(&mut machine, end, instructions);
    assert!(machine.instructions() < RUN_INSTRUCTIONS, "the guest should sleep");
    machine.end_window();
    machine.check_conservation();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_values_of_all_keys_round_trip() {
        let tree = Value::try_from(MachineConfig::default()).unwrap();
        for key in keys() {
            let Some(value) = key.split('.').try_fold(&tree, |tree, part| tree.get(part)) else { continue };
            let mut overlay = Overlay::default();
            overlay.insert(&key, value.clone()).unwrap();
            assert_eq!(overlay.resolve::<MachineConfig>().unwrap(), MachineConfig::default(), "{key}");
        }
    }

    #[test]
    fn optional_keys_exist_and_have_no_default() {
        let tree = Value::try_from(MachineConfig::default()).unwrap();
        for key in OPTIONAL_KEYS {
            assert!(
                key.split('.').try_fold(&tree, |tree, part| tree.get(part)).is_none(),
                "{key} has a default"
            );
            let mut overlay = Overlay::default();
            overlay.set(&format!("{key}=[]")).unwrap();
            // Per-hart settings are only parsed by the validation.
            let config = overlay.resolve::<MachineConfig>().and_then(|config| config.validate());
            let error = config.unwrap_err().to_string();
            assert!(!error.contains("unknown field"), "{error}");
        }
    }
}
