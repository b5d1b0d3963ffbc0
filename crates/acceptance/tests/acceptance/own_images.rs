//! Benchmarks in a user's image that extends the benchmark's image.

use std::fs;

use doorbell_acceptance::{cache_with_own_checkpoints, doorbell, scratch};

#[test]
#[ignore = "long: make test-long runs it"]
fn a_benchmark_runs_in_an_image_that_extends_its_image() {
    let cache = cache_with_own_checkpoints("acceptance-own-images");
    let folder = scratch();
    // A fixed path, so that the image is found in the cache.
    let ignores_ping = cache.join("ignores-ping.toml");
    let init = "echo 1 > /proc/sys/net/ipv4/icmp_echo_ignore_all";
    fs::write(&ignores_ping, format!("schema = 1\nextends = \"net\"\ninit = [\"{init}\"]\n")).unwrap();
    let experiment = folder.path().join("images.toml");
    let images = format!("[\"net\", {ignores_ping:?}]");
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
    assert_eq!(
        rows.map(|row| row[column]).collect::<Vec<_>>(),
        ["10", "0"],
        "the second image does not answer pings"
    );

    let load = ["--preset", "fast", "--rate", "10kpps", "--warmup", "0ns", "--duration", "1ms"];
    let single =
        run("run", &[&["run", "ping", "--image", ignores_ping.to_str().unwrap()], &load[..]].concat());
    let summary = fs::read_to_string(single.join("summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary["points"][0]["frames_delivered"], 0);
    let config = fs::read_to_string(single.join("config.toml")).unwrap();
    assert!(config.contains(&format!("image = {ignores_ping:?}")), "{config}");
}

#[test]
fn an_image_that_does_not_extend_the_benchmarks_image_is_rejected() {
    let rejected = |arguments: &[&str], texts: &[&str]| {
        doorbell(&[&["run", "-q"], arguments].concat()).assert_failure(texts)
    };
    rejected(&["testpmd", "--image", "net"], &["run.image", "\"net\" does not extend \"testpmd\""]);
    rejected(&["iperf", "--image", "dpdk"], &["run.image", "does not extend \"net\""]);
    rejected(&["ping", "--set", "run.image=testpmd"], &["run.image", "does not extend \"net\""]);
    rejected(&["ping", "--image", "absent.toml"], &["absent.toml"]);
    let driven = ["testpmd", "--image", "net", "--drive", "node"];
    rejected(&driven, &["run.image", "does not extend \"testpmd\""]);
}
