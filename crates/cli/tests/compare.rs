//! `doorbell compare` as a command: output, written files, rejected arguments and exit status.

use std::fs;
use std::path::Path;

use doorbell_bench::verify;
use serde_json::Value;

use crate::loop_trace::{doorbell, record};

/// Standard output and error of a command that must end with this status.
#[track_caller]
fn ends(folder: &Path, status: i32, words: &[&str]) -> (String, String) {
    let output = doorbell(folder, words);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(status), "{words:?}: {stdout}{stderr}");
    (stdout, stderr)
}

#[test]
fn results_are_compared_printed_written_and_judged() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    record(&folder.join("loop.dbt"));
    let play = |out: &str, further: &[&str]| {
        let words = ["trace", "run", "loop.dbt", "--warmup", "1000", "-q", "--out", out];
        ends(folder, 0, &[&words, further].concat());
    };
    play("base", &[]);
    play("again", &[]);
    play("other", &["--set", "memory.dca.policy.enabled=false"]);

    let (text, _) = ends(folder, 0, &["compare", "base", "again", "--fail-over", "0%"]);
    for part in ["Configuration and software are the same", "ended in the same state", "base  (run of trace"]
    {
        assert!(text.contains(part), "no {part}: {text}");
    }
    let (text, stderr) =
        ends(folder, 3, &["compare", "base", "other", "--fail-over", "0%", "--out", "against"]);
    assert!(
        text.contains("memory.dca.policy.enabled  true") && text.contains("Comparison in against"),
        "{text}"
    );
    assert!(stderr.contains("doorbell: B: cycles is") && stderr.contains("instead of"), "{stderr}");
    ends(folder, 0, &["compare", "base", "other"]);
    ends(folder, 0, &["compare", "base", "other", "--fail-over", "1000%"]);
    ends(folder, 0, &["compare", "base", "other", "--fail-over", "0%", "--figure", "frames_in"]);
    let against = folder.join("against");
    assert_eq!(verify(&against), Ok(()));
    let page = fs::read_to_string(against.join("report.html")).unwrap();
    assert!(page.contains("base and other") && page.ends_with("</html>\n"), "{page}");

    let (json, _) = ends(folder, 0, &["compare", "base", "other", "again", "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["sides"].as_array().unwrap().len(), 3);
    assert_eq!(json["configuration"][0]["name"], "memory.dca.policy.enabled");
    let cycles =
        json["points"][0]["figures"].as_array().unwrap().iter().find(|f| f["name"] == "cycles").unwrap();
    assert!(cycles["differences"][0]["difference"].as_f64().unwrap() != 0.0, "{cycles}");
    assert_eq!(cycles["differences"][1]["relative"], 0.0);
    let of_file: Value = serde_json::from_slice(&fs::read(against.join("comparison.json")).unwrap()).unwrap();
    assert_eq!(
        of_file["points"][0]["figures"].as_array().map(Vec::len),
        json["points"][0]["figures"].as_array().map(Vec::len)
    );

    // A sweep compared with a run: the matching point is used.
    let file = "trace = \"loop.dbt\"\npreset = \"server\"\nset = [\"playback.warmup=1000\"]\n[grid]\n\
                \"memory.dca.policy.enabled\" = [true, false]\n";
    fs::write(folder.join("dca.toml"), file).unwrap();
    ends(folder, 0, &["sweep", "dca.toml", "-q"]);
    let (text, _) = ends(folder, 0, &["compare", "other", "results/dca"]);
    for part in
        ["At memory.dca.policy.enabled false", "ended in the same state", "B  memory.dca.policy.enabled true"]
    {
        assert!(text.contains(part), "no {part}: {text}");
    }
    // One of its points is damaged.
    for point in fs::read_dir(folder.join("results/dca/points")).unwrap() {
        let summary = point.unwrap().path().join("summary.json");
        if fs::read_to_string(&summary).is_ok_and(|text| text.contains("\"here\": \"false\"")) {
            fs::write(summary, "{}").unwrap();
        }
    }
    let (text, _) = ends(folder, 0, &["compare", "base", "results/dca"]);
    assert!(text.contains("B: left out: results/dca/points/") && text.contains("was changed"), "{text}");

    for (status, words, part) in [
        (2, &["base"][..], "2 values required"),
        (2, &["base", "other", "--fail-over", "2"], "2%"),
        (2, &["base", "other", "--figure", "speed"], "--figure"),
        (2, &["base", "other", "--out", "base"], "would overwrite the input base"),
        (2, &["base", "other", "--out", "."], "would overwrite the input base"),
        (1, &["base", "missing"], "missing: there is no such folder"),
        (1, &["base", "cache"], "cache"),
        (1, &["base", "loop.dbt"], "loop.dbt"),
    ] {
        let (stdout, stderr) = ends(folder, status, &[&["compare"], words].concat());
        assert!(stdout.is_empty() && stderr.contains(part), "{words:?}: {stdout}{stderr}");
    }
    // A sweep's page and table would overwrite the run's.
    let (_, stderr) = ends(folder, 1, &["sweep", "dca.toml", "--out", "base"]);
    assert!(stderr.contains("base cannot be the result folder") && stderr.contains("--out"), "{stderr}");
    assert_eq!(verify(&folder.join("base")), Ok(()));
}
