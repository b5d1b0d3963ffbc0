//! Which points of a folder count, which files are verified, and which names are accepted.

use super::*;

#[test]
fn a_sweep_has_only_the_points_of_its_table() {
    let results = Results::new();
    let point = |name: &str, value: f64| {
        let config = format!("[core]\nipc = {value}\n");
        results.run(&format!("a/points/{name}"), &[(at("1Mpps", value), &config)]);
    };
    let (kept, gone) = ("0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210");
    point(kept, 2.0);
    point(gone, 3.0);
    let base = results.run("base", &[(at("1Mpps", 2.0), "[core]\nipc = 2\n")]);
    let sweep = results.path("a");
    let points = || compared(&[base.clone(), sweep.clone()]);
    assert_eq!(points().unmatched.len(), 1, "without a table, all points count");
    std::fs::write(sweep.join("table.csv"), format!("index,core.ipc,point\r\n0,2,{kept}\r\n")).unwrap();
    let comparison = points();
    assert_eq!((comparison.points.len(), comparison.unmatched.len(), comparison.sides[1].points), (1, 0, 1));
    assert!(comparison.notes[0].contains("1 of the points"), "{:?}", comparison.notes);
    std::fs::write(sweep.join("table.csv"), "index,core.ipc,point\r\n").unwrap();
    let error = compare(&[base.clone(), sweep.clone()], &CompareRequest::default()).unwrap_err().to_string();
    assert!(error.contains("table.csv does not list"), "{error}");
}

#[test]
fn an_empty_judgement_is_reported() {
    let results = Results::new();
    let none = || SizeSummary { low_mpps: None, ..found(64, 0.0, Some(1.0), None) };
    let (a, b) = (results.search("a", &[none()]), results.search("b", &[none()]));
    let judged = |paths: &[PathBuf], figures: &[&str]| {
        let figures = figures.iter().map(|name| (*name).to_owned()).collect();
        compare(paths, &CompareRequest { fail_over: Some(Share(0.02)), figures })
    };
    let error = judged(&[a.clone(), b.clone()], &[]).unwrap_err();
    assert!(
        matches!(&error, CompareError::NothingToJudge(message) if message.contains("--figure")),
        "{error}"
    );
    assert!(judged(&[a.clone(), b.clone()], &["high_mpps"]).unwrap().failures.is_empty());
    assert!(compare(&[a, b], &CompareRequest::default()).is_ok(), "no judgement was requested");
    // Next to points that are judged, it is a note.
    let two = |name: &str| results.search(name, &[none(), found(512, 5.0, None, None)]);
    let comparison = judged(&[two("c"), two("d")], &[]).unwrap();
    assert!(
        comparison.notes.iter().any(|note| note == "there was nothing to judge at frame_size 64B"),
        "{:?}",
        comparison.notes
    );
}

#[test]
fn every_listed_file_is_verified_and_a_single_load_is_rejected() {
    let results = Results::new();
    let good = results.run("good", &[(at("1Mpps", 1.0), PLAIN)]);
    let message = |path: &Path| {
        compare(&[good.clone(), path.to_owned()], &CompareRequest::default()).unwrap_err().to_string()
    };
    let path = results.run("own", &[(at("1Mpps", 1.0), PLAIN)]);
    let folder = ResultFolder::create(&path).unwrap();
    folder.write("latency.csv", "1\n").unwrap();
    seal(&folder).unwrap();
    std::fs::write(path.join("notes.txt"), "mine").unwrap();
    assert_eq!(compared(&[good.clone(), path.clone()]).points.len(), 1, "unlisted files are ignored");
    std::fs::write(path.join("latency.csv"), "2\n").unwrap();
    assert!(message(&path).contains("latency.csv was changed"), "{}", message(&path));
    std::fs::remove_file(path.join("latency.csv")).unwrap();
    assert!(message(&path).contains("latency.csv is missing"), "{}", message(&path));
    let several = results.run("several", &[(at("1Mpps", 1.0), PLAIN), (at("2Mpps", 2.0), PLAIN)]);
    let load = several.join("point-00");
    std::fs::write(load.join("summary.json"), "{}").unwrap();
    let error = message(&load);
    assert!(
        error.contains("one load of several") && error.ends_with(&several.display().to_string()),
        "{error}"
    );
}

#[test]
fn explicit_member_keys_match_inherited_ones() {
    let results = Results::new();
    let own = "[loadgen.traffic]\nrate = \"1Gbps\"\n[generator.a]\nto = \"server\"\n[node.server]\nbenchmark = \"testpmd\"\n[switch.tor]\nlatency = \"1us\"\n[core]\nipc = 1.0\n";
    let network_config = |rate: &str, ipc: &str| {
        let further = format!("[generator.a.traffic]\nrate = \"{rate}\"\n[node.server.core]\nipc = {ipc}\n");
        own.replace("[core]\n", &format!("{further}[core]\n"))
    };
    let run = results.run("run", &[(at("1x", 1.0), own)]);
    for (index, (rate, ipc)) in [("1Gbps", "1.0"), ("4Gbps", "1.0"), ("1Gbps", "2.0")].into_iter().enumerate()
    {
        results.run(&format!("sweep/points/{index:032x}"), &[(at("1x", 1.0), &network_config(rate, ipc))]);
    }
    let comparison = compared(&[run, results.path("sweep")]);
    let points: Vec<&str> = comparison.points.iter().map(|point| point.at.as_str()).collect();
    assert_eq!(points, ["generator.a.traffic.rate 1Gbps, node.server.core.ipc 1.0"]);
    assert_eq!((comparison.unmatched.len(), comparison.configuration.len()), (2, 0), "{comparison:?}");
}

#[test]
fn search_bounds_are_compared_and_summary_names_accepted() {
    let results = Results::new();
    let sizes = [found(64, 8.0, None, None)];
    let comparison = compared(&[results.search("free", &sizes), results.search("limited", &sizes)]);
    let own = &comparison.configuration[0];
    assert_eq!((own.name.as_str(), &own.values[..]), ("search.max", &[None, Some("8Mpps".to_owned())][..]));
    let lost = |name: &str, core| {
        let drops = Drops { core, ..Drops::default() };
        results.run(name, &[(PointSummary { drops, ..at("5Mpps", 5.0) }, PLAIN)])
    };
    let (a, b) = (lost("a", 1), lost("b", 9));
    for name in ["drops.core", "drops", "dropped_frames.core"] {
        let request = CompareRequest { fail_over: Some(Share(0.02)), figures: vec![name.into()] };
        assert_eq!(compare(&[a.clone(), b.clone()], &request).unwrap().failures.len(), 1, "{name}");
    }
}
