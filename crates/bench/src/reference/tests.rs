//! Every key is in the reference, and keys that there are not are answered with those that were meant.

use super::*;
use crate::resolve::resolve;

#[test]
fn every_key_has_a_meaning_and_so_has_every_word() {
    let mute = |known: &&Parameter| {
        known.meaning.is_empty() || known.words.iter().any(|word| word.meaning.is_empty())
    };
    let all: Vec<&str> = parameters().iter().filter(mute).map(|known| known.path.as_str()).collect();
    assert!(all.is_empty(), "without a doc comment: {all:?}");
}

#[test]
fn every_key_that_a_configuration_is_written_with_is_in_the_reference() {
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
fn a_key_that_stands_elsewhere_is_told_with_its_whole_path() {
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
        ("nic.rxd=256", "did you mean \"dpdk.rxd\"?"),
        ("dpdk.rob=64", "did you mean \"pipeline.rob\"?"),
        ("testpmd.dram.channels=2", "did you mean \"memory.dram.channels\"?"),
        ("nic.rx_fifi=48KiB", "did you mean \"rx_fifo\"?"),
        ("pipeline.issue-width=4", "did you mean \"issue_width\"?"),
        ("nik.rx_fifo=48KiB", "did you mean \"nic.rx_fifo\"?"),
    ] {
        let error = refused(set);
        assert!(error.ends_with(meant), "{set}: {error}");
    }
    let many = refused("memory.size=1MiB");
    assert!(many.contains("memory.l2.size\"") && many.contains("\" or \""), "{many}");
    let none = refused("core.zzzzzz=1");
    assert!(!none.contains("did you mean") && none.contains("expected one of"), "{none}");
}
