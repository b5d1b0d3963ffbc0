//! Benchmarks in an image of the user's own that extends theirs.

use std::fs;

use doorbell_acceptance::{cache_with_own_checkpoints, doorbell, scratch};

#[test]
#[ignore = "long: make test-long runs it"]
fn a_benchmark_runs_in_an_image_that_extends_its_own() {
    let cache = cache_with_own_checkpoints("acceptance-own-images");
    let folder = scratch();
    // Always the same path, and so the same image in the cache.
    let deaf = cache.join("deaf.toml");
    let init = "echo 1 > /proc/sys/net/ipv4/icmp_echo_ignore_all";
    fs::write(&deaf, format!("schema = 1\nextends = \"net\"\ninit = [\"{init}\"]\n")).unwrap();
    let experiment = folder.path().join("hearing.toml");
    let images = format!("[\"net\", {deaf:?}]");
    let set = r#"set = ["loadgen.traffic.arrivals=constant", "run.warmup=0ns", "run.duration=1ms"]"#;
    fs::write(
        &experiment,
        format!(
            "benchmark = \"ping\"\npreset = \"fast\"\n{set}\n[grid]\n\"run.image\" = {images}\n[measure]\nrates = [\"10kpps\"]\n"
        ),
    )
    .unwrap();
    let run = |name: &str, arguments: &[&str]| {
        let out = folder.path().join(name).display().to_string();
        let cache = cache.display().to_string();
        doorbell(&[&["--cache", &cache], arguments, &["--out", &out, "-q"]].concat()).success();
        folder.path().join(name)
    };

    let sweep = run("sweep", &["sweep", experiment.to_str().unwrap()]);
    let table = fs::read_to_string(sweep.join("table.csv")).unwrap();
    let mut rows = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let column = rows.next().unwrap().iter().position(|name| *name == "frames_delivered").unwrap();
    assert_eq!(rows.map(|row| row[column]).collect::<Vec<_>>(), ["10", "0"], "the other kernel is deaf");

    let load = ["--preset", "fast", "--rate", "10kpps", "--warmup", "0ns", "--duration", "1ms"];
    let alone = run("run", &[&["run", "ping", "--image", deaf.to_str().unwrap()], &load[..]].concat());
    let summary = fs::read_to_string(alone.join("summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary["points"][0]["frames_delivered"], 0);
    let config = fs::read_to_string(alone.join("config.toml")).unwrap();
    assert!(config.contains(&format!("image = {deaf:?}")), "{config}");
}

#[test]
fn an_image_that_does_not_extend_the_benchmark_s_own_is_refused() {
    let refused = |arguments: &[&str], texts: &[&str]| {
        doorbell(&[&["run", "-q"], arguments].concat()).assert_failure(texts)
    };
    refused(&["testpmd", "--image", "net"], &["run.image", "\"net\" does not extend \"testpmd\""]);
    refused(&["iperf", "--image", "dpdk"], &["run.image", "does not extend \"net\""]);
    refused(&["ping", "--set", "run.image=testpmd"], &["run.image", "does not extend \"net\""]);
    refused(&["ping", "--image", "absent.toml"], &["absent.toml"]);
    let driven = ["testpmd", "--image", "net", "--drive", "node"];
    refused(&driven, &["run.image", "does not extend \"testpmd\""]);
}
