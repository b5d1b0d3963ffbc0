use doorbell_loadgen::{Arrivals, StreamConfig};
use tempfile::TempDir;

use super::*;
use crate::request::played::resolve_played;

/// A machine file with this text.
fn file(text: &str) -> (TempDir, Base) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    std::fs::write(&path, text).unwrap();
    let base = Base::read(&path).unwrap();
    (folder, base)
}

/// A result's `config.toml`.
fn result(config: &RunConfig) -> (TempDir, Base) {
    file(&format!("# config_hash = \"{}\"\n\n{}", config.hash(), config.to_toml()))
}

fn owned(set: &[&str]) -> Vec<String> {
    set.iter().map(|&text| text.to_owned()).collect()
}

#[test]
fn configuration_of_a_result_resolves_to_itself() {
    let sets: [&[&str]; 6] = [
        &[],
        &["nic.rx_fifo=48KiB", "pipeline.rob=64", "run.seed=7", "run.frames=100", "loadgen.traffic.rate=40%"],
        &["platform.nics=2", "port.1.attach.kind=llc", "port.1.link.rate=25Gbps", "attach=hte"],
        &["platform.harts=2", "hart.1.pipeline.kind=in-order", "core.model=timed", "run.disks=[\"a/d.img\"]"],
        &["run.image=guest/own.toml", "testpmd.mode=io", "memory.dca.policy.descriptor_ways=0-0"],
        &["attach=pcie", "drive.kind=node", "loadgen.traffic.memcached.popularity={zipf={skew=0.5}}"],
    ];
    for preset in doorbell_machine::PRESETS.iter().filter(|preset| preset.name != "champsim") {
        for set in sets {
            let mut config = match resolve(preset.name, &owned(set)) {
                Ok(config) => (*config).clone(),
                // Some presets have no PCI Express link, or allow a single hart only.
                Err(error) => {
                    assert!(!set.is_empty(), "{}: {error}", preset.name);
                    continue;
                }
            };
            let traffic = &mut config.loadgen.traffic;
            traffic.streams = vec![StreamConfig {
                arrivals: Some(Arrivals::Poisson),
                ..StreamConfig::from_traffic(traffic)
            }];
            let (_folder, base) = result(&config);
            // The benchmark's defaults do not apply to the configuration of a result.
            let layers = Layers { defaults: &["platform.ram=768MiB"], ..Layers::of(&base, &[]) };
            let again = layers.resolve().unwrap();
            assert_eq!(again.to_toml(), config.to_toml(), "{} {set:?}", preset.name);
            assert_eq!(again.hash(), config.hash());
        }
    }
}

#[test]
fn configuration_of_a_played_trace_resolves_to_itself() {
    for (preset, set) in [
        ("server", &["playback.warmup=1000"][..]),
        ("champsim", &[]),
        ("ddiosim", &["playback.rate=1Mpps", "link.latency=2us"]),
        ("server", &["playback.pages=kernel", "platform.ram=2GiB"]),
    ] {
        let config = resolve_played(&Base::find(preset).unwrap(), 1, &owned(set)).unwrap();
        let (_folder, base) = result(&config);
        let again = resolve_played(&base, 1, &[]).unwrap();
        assert_eq!((again.to_toml(), again.hash()), (config.to_toml(), config.hash()), "{preset} {set:?}");
    }
}

#[test]
fn machine_file_overrides_the_benchmark_which_overrides_the_preset() {
    let defaults: &[&str] = &["platform.ram=768MiB", "loadgen.traffic.destination_ip=198.18.0.1"];
    let ram = |base: &Base, set: &[&str]| {
        let layers = Layers { defaults, ..Layers::of(base, &owned(set)) }.resolve().unwrap();
        layers.platform.ram.0 >> 20
    };
    assert_eq!(ram(&Base::find("server").unwrap(), &[]), 768);
    let (_folder, without_ram) = file("base = \"server\"\npipeline.rob = 64\n");
    assert_eq!(
        ram(&without_ram, &[]),
        768,
        "the file does not set it, and the benchmark overrides the preset"
    );
    assert!(Layers { defaults, ..Layers::of(&without_ram, &[]) }.overruled().is_empty());
    let (_folder, with_ram) = file("base = \"server\"\nplatform.ram = \"512MiB\"\n");
    assert_eq!((ram(&with_ram, &[]), ram(&with_ram, &["platform.ram=1GiB"])), (512, 1024));
    let notes = Layers { defaults, ..Layers::of(&with_ram, &[]) }.overruled();
    assert!(
        notes.len() == 1
            && notes[0].ends_with("sets platform.ram = 512MiB; the benchmark's default is 768MiB"),
        "{notes:?}"
    );
    let (_folder, same) = file("base = \"server\"\nplatform.ram = \"786432KiB\"\nrun.warmup = \"0ps\"\n");
    let defaults_again: &[&str] = &["platform.ram=768MiB", "run.warmup=0ns"];
    let same = Layers { defaults: defaults_again, ..Layers::of(&same, &[]) }.overruled();
    assert!(same.is_empty(), "equivalent spellings: {same:?}");
    let traffic = Some(("t.toml", "rate = \"3Mpps\""));
    let (_folder, rate) =
        file("base = \"server\"\nloadgen.traffic.rate = \"2Mpps\"\nloadgen.traffic.frames = 9\n");
    let config = Layers { traffic, ..Layers::of(&rate, &[]) }.resolve().unwrap();
    assert_eq!(
        (config.loadgen.traffic.rate.to_string(), config.loadgen.traffic.frames),
        ("3Mpps".into(), Some(9))
    );
}

#[test]
fn errors_in_a_file_read_as_those_of_the_command_line() {
    for (text, key, part) in [
        ("core.rob = 64", "core.rob", "did you mean \"pipeline.rob\"?"),
        ("core.frequency = 3", "core.frequency", "unit"),
        ("core.frequency = \"3 parsecs\"", "core.frequency", "GHz"),
        ("pipeline = 3", "pipeline", "invalid type"),
        ("pipeline.rob = 0", "pipeline.rob", "1 to 4096"),
    ] {
        let (_folder, base) = file(&format!("base = \"server\"\n{text}\n"));
        let error = Layers::of(&base, &[]).resolve().unwrap_err();
        assert!(error.key == key && error.problem.contains(part), "{text}: {error}");
    }
    let (_folder, network) = file("base = \"server\"\n[cable.wire]\nbetween = [\"a\", \"b\"]\n");
    let error = Layers::of(&network, &[]).resolve().unwrap_err().to_string();
    assert!(
        error.contains("mine.toml: [cable] belongs to a network file") && error.contains("--network"),
        "{error}"
    );
}

#[test]
fn direct_cache_access_for_a_missing_queue_is_rejected() {
    let resolve = |queue: &str, more: &[&str]| {
        let entry = format!("memory.dca.queues=[{{{queue},headers=\"queue-l2\"}}]");
        let set = [&[entry.as_str()], more].concat();
        crate::request::resolve::resolve("server", &owned(&set))
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    assert_eq!(resolve("queue=0", &[]), Ok(()));
    assert_eq!(resolve("queue=15", &["nic.model=82576"]), Ok(()));
    for (queue, message) in [
        ("queue=1", "port 0's 82540EM has only queue 0; set nic.model=82576"),
        ("device=1,queue=1", "device 1 is not a NIC and has only queue 0"),
        ("queue=16", "queues are 0 to 15"),
    ] {
        let error = resolve(queue, &[]).unwrap_err();
        assert!(error.contains("memory") && error.contains(message), "{error}");
    }
}
