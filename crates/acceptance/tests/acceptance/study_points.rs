//! Runs one point of every study, with its guest, machine and figures but with shorter times, to show that
//! the studies still run.

use std::fs;
use std::path::Path;
use std::process::Command;

use doorbell_acceptance::{CommandOutput, Running, cache_with_own_checkpoints, doorbell_path, scratch};
use doorbell_study::experiment::{ExperimentFile, Plan};
use doorbell_study::reproduce::{STUDIES, figures};

/// Study, figure and part whose first point is run. For a study of traces, the test records a trace and
/// replays it.
const PARTS: [(&str, &str, &str); 5] = [
    ("ispass24", "fig05", "memcached-dpdk"),
    ("ddio", "descriptors", "full-size"),
    ("fdio", "events", "l3fwd"),
    ("ddiosim", "llc", "bulk"),
    ("m5-nics", "receive", "receive"),
];
/// Times that replace those of the point.
const SHORT: [&str; 4] = ["run.warmup=200us", "run.settle=20us", "run.duration=200us", "run.drain=200us"];

fn doorbell((folder, cache): (&Path, &Path), arguments: &[&str]) -> CommandOutput {
    let mut command = Command::new(doorbell_path());
    command.env("DOORBELL_CACHE", cache);
    command.current_dir(folder).args(arguments);
    Running::start(command).end()
}

/// The experiment of a part, with short times.
fn experiment(study: &str, figure: &str, part: &str, folder: &Path) -> toml::Table {
    let (_, all) = figures(study).expect("the study can be read");
    let figure = all.iter().find(|other| other.name == figure).expect("the figure exists");
    let parts = figure.parts(true).expect("the figure's parts can be read");
    let part = parts.iter().find(|other| other.name == part).expect("the part exists");
    let text = part.text(&[]).expect("the part's rates do not depend on other results");
    let mut table: toml::Table = text.parse().expect("the experiment is TOML");
    let set = table.get_mut("set").and_then(toml::Value::as_array_mut).expect("each study sets something");
    let is_time = |word: &toml::Value| {
        let key = word.as_str().and_then(|word| word.split_once('=')).map_or("", |word| word.0);
        SHORT.iter().any(|short| short.split_once('=').is_some_and(|short| short.0 == key))
    };
    set.retain(|word| !is_time(word));
    if table.contains_key("trace") {
        let trace = folder.join("recorded/trace.dbt");
        table.insert("trace".to_owned(), trace.display().to_string().into());
    } else {
        let set = table.get_mut("set").and_then(toml::Value::as_array_mut).expect("see above");
        set.extend(SHORT.map(toml::Value::from));
    }
    table
}

/// Runs the first point of a part and returns its summary.
fn run_first_point(study: &str, figure: &str, part: &str) -> String {
    let folder = scratch();
    let cache = cache_with_own_checkpoints(&format!("acceptance-{study}"));
    let places = (folder.path(), cache.as_path());
    let table = experiment(study, figure, part, folder.path());
    if table.contains_key("trace") {
        let record =
            ["trace", "record", "testpmd", "--preset", "fast", "--rate", "2Mpps", "--out", "recorded"];
        doorbell(places, &[&record[..], &["--warmup", "50us", "--duration", "200us"]].concat()).success();
    }
    fs::write(folder.path().join("point.toml"), table.to_string()).expect("the folder can be written");
    let file = ExperimentFile::from_toml(&table.to_string()).expect("the experiment is valid");
    assert!(!Plan::new(file).expect("the experiment can be planned").points.is_empty());
    doorbell(places, &["sweep", "run", "point.toml", "--index", "0", "--out", "out"]).success();
    let points = fs::read_dir(folder.path().join("out/points")).expect("a point was run");
    let names: Vec<_> = points.map(|entry| entry.expect("the folder can be listed").path()).collect();
    assert_eq!(names.len(), 1, "{study}: {names:?}");
    fs::read_to_string(names[0].join("summary.json")).expect("a point has a summary")
}

#[test]
fn a_point_of_every_study_runs() {
    let listed: Vec<&str> = STUDIES.iter().map(|study| study.name).collect();
    assert_eq!(listed, PARTS.map(|part| part.0));
    for (study, figure, part) in PARTS {
        let summary: serde_json::Value =
            serde_json::from_str(&run_first_point(study, figure, part)).expect("the summary is JSON");
        assert!(
            summary["timing"]["ipc"].is_null() || summary["timing"]["ipc"].as_f64() > Some(0.0),
            "{study}"
        );
    }
}
