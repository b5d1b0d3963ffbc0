//! Checks that the reference covers every key, and that unknown keys are answered with suggestions.

use super::*;
use crate::request::resolve::resolve;

#[test]
fn every_key_and_word_has_a_meaning() {
    let undocumented = |known: &&Parameter| {
        known.meaning.is_empty() || known.words.iter().any(|word| word.meaning.is_empty())
    };
    let all: Vec<&str> = parameters().iter().filter(undocumented).map(|known| known.path.as_str()).collect();
    assert!(all.is_empty(), "without a doc comment: {all:?}");
}

#[test]
fn every_written_key_is_in_the_reference() {
    fn walk(table: &toml::Table, path: &str) {
        for (key, value) in table {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            assert!(parameter(&path).is_some(), "{path}");
            if let toml::Value::Table(inner) = value {
                walk(inner, &path);
            }
        }
    }
    for preset in doorbell_machine::PRESETS {
        walk(&resolve(preset.name, &[]).unwrap().to_table(), "");
        walk(&preset.toml.parse().unwrap(), "");
    }
    let set = ["platform.nics=2", "port.1.attach.kind=llc", "hart.0.pipeline.rob=64", "nic.rx_fifo=64KiB"];
    walk(&resolve("server", &set.map(str::to_owned)).unwrap().to_table(), "");
    assert!(parameter("port.x.nic").is_none() && parameter("nic.rx_fifi").is_none());
    assert_eq!(parameter("node.left.pipeline.rob").unwrap().path, "node.NAME.pipeline.rob");
    assert_eq!(parameter("loadgen.traffic.streams[3].rate").unwrap().name(), "rate");
}

fn refused(set: &str) -> String {
    resolve("server", &[set.to_owned()]).unwrap_err().to_string()
}

#[test]
fn misplaced_keys_are_answered_with_their_full_path() {
    for (set, meant) in [
        ("core.rob=64", "did you mean \"pipeline.rob\"?"),
        ("rob=64", "did you mean \"pipeline.rob\"?"),
        ("l2.size=1MiB", "did you mean \"memory.l2.size\"?"),
        ("cpu.rob=64", "did you mean \"pipeline.rob\"?"),
        ("core.rx_fifo=64KiB", "did you mean \"nic.rx_fifo\"?"),
        ("memory.policy.enabled=false", "did you mean \"memory.dca.policy.enabled\"?"),
        ("nic.dram.channels=2", "did you mean \"memory.dram.channels\"?"),
        ("hart.0.core.rob=64", "did you mean \"hart.0.pipeline.rob\"?"),
        ("port.0.link.rx_fifo=64KiB", "did you mean \"port.0.nic.rx_fifo\"?"),
        ("nic.rxd=256", "did you mean \"dpdk.rxd\" or \"kernel.rxd\"?"),
        ("dpdk.rob=64", "did you mean \"pipeline.rob\"?"),
        ("testpmd.dram.channels=2", "did you mean \"memory.dram.channels\"?"),
        ("nic.rx_fifi=48KiB", "did you mean \"rx_fifo\"?"),
        ("pipeline.issue-width=4", "did you mean \"issue_width\"?"),
        ("nik.rx_fifo=48KiB", "did you mean \"nic.rx_fifo\"?"),
    ] {
        let error = refused(set);
        assert!(error.ends_with(meant), "{set}: {error}");
    }
    let near = refused("loadgen.traffic.streams=[{siez=\"64B\"}]");
    assert!(near.ends_with("did you mean \"size\"?"), "{near}");
    // A few common letters are no reason for a suggestion, nor is a similar name in another section.
    for set in [
        "loadgen.traffic.streams=[{share=1}]",
        "loadgen.traffic.charge=1",
        "loadgen.traffic.streams=[{rob=1}]",
    ] {
        let error = refused(set);
        assert!(error.contains("unknown field") && !error.contains("did you mean"), "{set}: {error}");
    }
    let bare = refused("rx_fifi=48KiB");
    assert!(bare.ends_with("did you mean \"nic.rx_fifo\"?"), "{bare}");
    let many = refused("memory.size=1MiB");
    assert!(many.contains("memory.l2.size\"") && many.contains("\" or \""), "{many}");
    for (path, meant) in [
        ("nic.rx_fifi", "did you mean \"nic.rx_fifo\"?"),
        ("port.1.nic.rx_fifi", "did you mean \"port.1.nic.rx_fifo\"?"),
        ("core.rob", "did you mean \"pipeline.rob\"?"),
        ("pipelin", "did you mean \"pipeline\"?"),
    ] {
        let error = explained(path).unwrap_err().to_string();
        assert!(error.ends_with(meant), "{path}: {error}");
    }
    let none = refused("core.zzzzzz=1");
    assert!(!none.contains("did you mean") && none.contains("expected one of"), "{none}");
}

/// Numbers without bounds, or bounded by another parameter.
const UNBOUNDED: &[&str] = &[
    "run.seed",
    "run.warmup_limit",
    "run.settle_limit",
    "run.duration_limit",
    "run.window",
    "run.drain",
    "run.boot_timeout",
    "run.script_timeout",
    "run.m5_limit",
    "platform.boot_seed",
    "memory.dram.write_high",
    "memory.dram.write_low",
    "memory.dram.write_idle",
    "memory.dram.timing.rfc",
    "loadgen.traffic.start_after",
    "loadgen.traffic.duration",
    "loadgen.traffic.streams[].start_after",
    "loadgen.traffic.streams[].duration",
    "loadgen.traffic.streams[].replay.times",
];

fn is_number(known: &Parameter) -> bool {
    let is_plain = matches!(known.value.as_str(), "a whole number" | "a number");
    let has_units = !known.units.is_empty()
        && !known.value.contains(" rate such as \"5Mpps")
        && !known.value.contains("auto");
    is_plain || has_units && known.value.starts_with("a ") && !known.value.starts_with("a rate")
}

#[test]
fn every_number_documents_its_range() {
    let common = |known: &&Parameter| {
        !known.path.contains(['N']) && !known.path.contains(".on-off.") && !known.path.contains(".gap")
    };
    let without =
        parameters().iter().filter(common).filter(|known| is_number(known) && known.range.is_none());
    let without: Vec<&str> =
        without.map(|known| known.path.as_str()).filter(|path| !UNBOUNDED.contains(path)).collect();
    assert!(without.is_empty(), "state the range in the doc comments: {without:?}");
    let links: Vec<&str> =
        parameters().iter().filter(|known| known.meaning.contains("[`")).map(|k| k.path.as_str()).collect();
    assert!(links.is_empty(), "links that only rustdoc resolves: {links:?}");
}

/// Other settings that a key needs to have an effect.
fn prerequisites(path: &str) -> &'static [&'static str] {
    match path {
        "attach.burst" => &["attach=ste"],
        "attach.register_latency"
        | "attach.width"
        | "attach.clock"
        | "attach.latency"
        | "attach.outstanding" => &["attach.kind=llc"],
        path if path.starts_with("memory.dram.flat.") => {
            &["memory.dram.flat={latency=\"50ns\",rate=\"128Gbps\"}"]
        }
        path if path.starts_with("memory.dca.policy.l2") => &["memory.dca.policy.headers=l2"],
        _ => &[],
    }
}

#[test]
fn values_outside_a_range_are_rejected_and_defaults_are_within() {
    // Settings that are only read as complete tables, or by another kind of run.
    let excluded = ["memory.dram.timing.", ".lengths.", ".popularity.", "playback."];
    let mut count = 0;
    for known in parameters().iter().filter(|known| !known.path.contains(['N', '['])) {
        let Some(range) =
            known.range.as_ref().filter(|_| !excluded.iter().any(|part| known.path.contains(part)))
        else {
            continue;
        };
        let with = |value: &str| {
            let mut all: Vec<String> = prerequisites(&known.path).iter().map(|&set| set.to_owned()).collect();
            all.push(format!("{}={value}", known.path));
            resolve("fast", &["core.model=timed".to_owned()].into_iter().chain(all).collect::<Vec<_>>())
        };
        for value in range.outside(known.value == "a whole number" || !known.units.is_empty()) {
            let error = with(&value).map(|_| ()).unwrap_err();
            let (section, own) = (|path: &str| path.split('.').next().map(str::to_owned), &known.path);
            assert_eq!(section(&error.key), section(own), "{own}={value}: {error}");
            count += 1;
        }
        if let Some(default) = &known.default {
            with(default).unwrap_or_else(|error| panic!("{}={default}: {error}", known.path));
        }
    }
    assert!(count > 300, "{count} values were tried");
}

#[test]
fn errors_about_numbers_name_the_accepted_range() {
    for (set, message) in [
        ("pipeline.rob=-1", "pipeline.rob: -1 is not a whole number from 0 up; it takes "),
        ("platform.harts=1.5", "platform.harts: 1.5 is not a whole number from 0 up; it takes 1 to 64"),
        ("dpdk.rxd=-8", "dpdk.rxd: -8 is not a whole number from 0 up; it takes 32 to 4096"),
        ("pipeline.rob=99999999999", "pipeline.rob: 99999999999 is too large; it takes at most 4294967295"),
    ] {
        let error = resolve("fast", &[set.to_owned()]).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
}

#[test]
fn path_without_an_inner_table_is_completed() {
    for (set, path) in [
        ("memory.dca.ways=0-1", "memory.dca.policy.ways"),
        ("loadgen.clients=3", "loadgen.traffic.memcached.clients"),
    ] {
        let error = resolve("fast", &[set.to_owned()]).unwrap_err().to_string();
        assert!(error.ends_with(&format!("; did you mean \"{path}\"?")), "{error}");
    }
}
