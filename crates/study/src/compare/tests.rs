//! Comparisons of synthetic results whose outcome is given.

use std::path::{Path, PathBuf};

use doorbell_bench::{ResultFolder, seal};
use doorbell_results::{
    ComparedFigure, Comparison, Confidence, Drops, Interval, LatencySummary, PointSummary, RunSummary,
    SearchSummary, SizeSummary,
};

use super::{CompareError, CompareRequest, Share, compare};

mod folders;

/// Results in a temporary folder.
struct Results(tempfile::TempDir);

impl Results {
    fn new() -> Results {
        Results(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A run of these points, each with additional configuration.
    fn run(&self, name: &str, points: &[(PointSummary, &str)]) -> PathBuf {
        let folder = ResultFolder::create(&self.path(name)).unwrap();
        let summary = RunSummary {
            benchmark: "testpmd".into(),
            preset: "server".into(),
            doorbell_version: "0.1.0".into(),
            command: "doorbell run".into(),
            ran: Default::default(),
            incomplete: None,
            changed: Vec::new(),
            meanings: Default::default(),
            points: points.iter().map(|(point, _)| point.clone()).collect(),
        };
        folder.write("summary.json", &summary.to_json()).unwrap();
        for (index, (_, config)) in points.iter().enumerate() {
            let own = if points.len() == 1 {
                folder.clone()
            } else {
                folder.sub(&format!("point-{index:02}")).unwrap()
            };
            own.write("config.toml", config).unwrap();
        }
        seal(&folder).unwrap();
        self.path(name)
    }

    fn search(&self, name: &str, sizes: &[SizeSummary]) -> PathBuf {
        let folder = ResultFolder::create(&self.path(name)).unwrap();
        let summary = SearchSummary {
            benchmark: "testpmd".into(),
            preset: "server".into(),
            doorbell_version: "0.1.0".into(),
            ran: Default::default(),
            command: "doorbell search".into(),
            goal: "MSB".into(),
            loss_goal: 0.01,
            precision: 0.02,
            min: None,
            max: (name == "limited").then(|| "8Mpps".into()),
            frames: None,
            jobs: 1,
            host_seconds: 1.0,
            incomplete: None,
            searches: sizes.to_vec(),
        };
        folder.write("summary.json", &summary.to_json()).unwrap();
        folder.write("config.toml", "[core]\nfrequency = \"3GHz\"\n").unwrap();
        seal(&folder).unwrap();
        self.path(name)
    }
}

fn at(rate: &str, delivered_mpps: f64) -> PointSummary {
    PointSummary { rate: rate.into(), frame_size: 64, delivered_mpps, ipc: 1.0, ..PointSummary::default() }
}

fn sure(point: PointSummary, half: f64, share: f64) -> PointSummary {
    let confidence = Confidence {
        batches: 40,
        batch_ns: 1e3,
        correlated: false,
        delivered_mpps: half,
        drop_rate: share,
        latency_ns: None,
    };
    PointSummary { confidence_95: Some(confidence), ..point }
}

fn found(frame_size: u64, low: f64, high: Option<f64>, at_low: Option<PointSummary>) -> SizeSummary {
    SizeSummary {
        frame_size,
        low_mpps: Some(low),
        high_mpps: high,
        low_gbps: None,
        high_gbps: None,
        ended: "precise".into(),
        inversions_mpps: Vec::new(),
        trials: Vec::new(),
        cost: Default::default(),
        limit: None,
        at_low,
    }
}

fn compared(paths: &[PathBuf]) -> Comparison {
    compare(paths, &CompareRequest::default()).unwrap()
}

/// The failures if figures may differ by `limit`.
fn failures(paths: &[PathBuf], limit: &str) -> Vec<String> {
    let request = CompareRequest { fail_over: Some(limit.parse().unwrap()), figures: Vec::new() };
    compare(paths, &request).unwrap().failures
}

#[track_caller]
fn figure<'a>(comparison: &'a Comparison, name: &str) -> &'a ComparedFigure {
    let figures = &comparison.points[0].figures;
    figures.iter().find(|figure| figure.name == name).unwrap_or_else(|| panic!("no {name} in {figures:?}"))
}

const PLAIN: &str = "[core]\nfrequency = \"3GHz\"\n";

#[test]
fn a_difference_is_significant_only_outside_both_intervals() {
    let results = Results::new();
    let one = |name: &str, value, half| results.run(name, &[(sure(at("5Mpps", value), half, 0.0), PLAIN)]);
    let base = one("base", 5.0, 0.1);
    let outside = |other: &Path| {
        figure(&compared(&[base.clone(), other.to_owned()]), "delivered_mpps").differences[0]
            .unwrap()
            .outside_both
    };
    assert_eq!(outside(&one("near", 4.91, 0.01)), Some(false), "it is in the base's interval");
    assert_eq!(outside(&one("wide", 4.8, 0.25)), Some(false), "the base is in its interval");
    assert_eq!(outside(&one("far", 4.8, 0.19)), Some(true));
    assert_eq!(outside(&results.run("unsure", &[(at("5Mpps", 4.0), PLAIN)])), None);
    let same = compared(&[base.clone(), base.clone()]);
    assert_eq!(figure(&same, "delivered_mpps").differences[0].unwrap().outside_both, Some(false));
    assert!(same.configuration.is_empty() && same.ran.is_empty() && same.unmatched.is_empty());
}

#[test]
fn a_difference_above_the_limit_fails_unless_within_the_error() {
    let results = Results::new();
    let one = |name: &str, value, half| results.run(name, &[(sure(at("5Mpps", value), half, 0.0), PLAIN)]);
    let base = one("base", 5.0, 0.01);
    assert!(failures(&[base.clone(), one("less", 4.91, 0.01)], "2%").is_empty());
    assert_eq!(
        failures(&[base.clone(), one("far", 4.8, 0.01)], "2%"),
        ["B: delivered_mpps is 4.8 instead of 5"]
    );
    assert_eq!(
        failures(&[base.clone(), one("long", 14.095713391859602, 0.01)], "2%"),
        ["B: delivered_mpps is 14.096 instead of 5"]
    );
    assert_eq!(failures(&[one("far", 4.8, 0.01), base.clone()], "2%").len(), 1, "better is another, too");
    assert!(failures(&[base.clone(), one("wide", 4.8, 0.3)], "2%").is_empty());
    assert_eq!(failures(&[base.clone(), one("less", 4.91, 0.01)], "0%").len(), 1);
    for text in ["2", "0.02", "-1%", "NaN%", "inf%", "%", ""] {
        assert!(text.parse::<Share>().unwrap_err().contains("2%"), "{text}");
    }
}

#[test]
fn zero_base_has_no_relative_difference_and_drop_rates_compare_absolutely() {
    let results = Results::new();
    let lost = |name: &str, share: f64, count: u64| {
        let drops = Drops { core: count, ..Drops::default() };
        results.run(name, &[(PointSummary { drop_rate: share, drops, ..at("5Mpps", 5.0) }, PLAIN)])
    };
    let (none, few, many) = (lost("none", 0.0, 0), lost("few", 0.015, 15), lost("many", 0.03, 30));
    let comparison = compared(&[none.clone(), few.clone()]);
    let difference = figure(&comparison, "dropped_frames.core").differences[0].unwrap();
    assert_eq!((difference.difference, difference.relative), (15.0, None));
    assert!(failures(&[none.clone(), few.clone()], "2%").is_empty());
    assert_eq!(failures(&[none.clone(), many.clone()], "2%"), ["B: drop_rate is 0.03 instead of 0"]);
    assert!(failures(&[few.clone(), many], "2%").is_empty(), "1.5 points are no doubling");
    let by_count = CompareRequest { fail_over: Some(Share(0.02)), figures: vec!["dropped_frames".into()] };
    assert_eq!(
        compare(&[none.clone(), few], &by_count).unwrap().failures.len(),
        1,
        "an increase from zero exceeds any share"
    );
    assert!(compare(&[none.clone(), none], &by_count).unwrap().failures.is_empty());
}

#[test]
fn a_non_number_on_one_side_counts_as_missing_and_fails() {
    let results = Results::new();
    let per_frame = |name: &str, value| {
        results.run(name, &[(PointSummary { instructions_per_frame: value, ..at("5Mpps", 5.0) }, PLAIN)])
    };
    let (finite, endless, unknown) =
        (per_frame("a", 300.0), per_frame("b", f64::INFINITY), per_frame("c", f64::NAN));
    let comparison = compared(&[finite.clone(), endless.clone()]);
    let own = figure(&comparison, "instructions_per_frame");
    assert_eq!((own.values[1], own.differences[0]), (None, None));
    assert!(own.differs());
    assert_eq!(failures(&[finite.clone(), endless.clone()], "50%"), ["B: it has no instructions_per_frame"]);
    assert_eq!(
        failures(&[endless.clone(), finite], "50%"),
        ["A: it has no instructions_per_frame, which B has"]
    );
    assert!(failures(&[endless, unknown], "50%").is_empty(), "what none has is not compared");
}

#[test]
fn points_are_matched_by_the_keys_that_vary_within_a_side() {
    let results = Results::new();
    let (fast, slow) = ("[core]\nfrequency = \"3GHz\"\n", "[core]\nfrequency = \"1GHz\"\n[dca]\nways = 2\n");
    let a = results.run("a", &[(at("1Mpps", 1.0), fast), (at("2Mpps", 2.0), fast), (at("3Mpps", 3.0), fast)]);
    let b = results.run("b", &[(at("2Mpps", 1.9), slow), (at("1Mpps", 1.0), slow)]);
    let comparison = compared(&[a.clone(), b.clone()]);
    let points: Vec<&str> = comparison.points.iter().map(|point| point.at.as_str()).collect();
    assert_eq!(points, ["rate 1Mpps", "rate 2Mpps"]);
    let words = |own: &super::ComparedWords| (own.name.clone(), own.values.clone());
    let [one, two] = comparison.configuration.as_slice() else { panic!("{:?}", comparison.configuration) };
    assert_eq!(words(one), ("core.frequency".into(), vec![Some("3GHz".into()), Some("1GHz".into())]));
    assert_eq!(words(two), ("dca.ways".into(), vec![None, Some("2".into())]));
    let alone = &comparison.unmatched[..];
    assert_eq!((alone.len(), alone[0].side.as_str(), alone[0].at.as_str()), (1, "A", "rate 3Mpps"));
    assert!(failures(&[a.clone(), b.clone()], "50%").contains(&"only A has rate 3Mpps".to_owned()));
    // One point each: their difference is the object of the comparison, including the rate.
    let (one, other) =
        (results.run("c", &[(at("1Mpps", 1.0), fast)]), results.run("d", &[(at("9Mpps", 9.0), fast)]));
    let comparison = compared(&[one.clone(), other.clone()]);
    assert_eq!((comparison.points.len(), comparison.configuration[0].name.as_str()), (1, "rate"));
    // A single point is matched with the one that has the same rate.
    assert_eq!(compared(&[a.clone(), one]).points[0].at, "rate 1Mpps");
    let error = compare(&[a, other], &CompareRequest::default()).unwrap_err();
    assert!(
        matches!(&error, CompareError::NothingInCommon(all) if all.contains("B has rate 9Mpps")),
        "{error}"
    );
}

#[test]
fn three_sides_compare_with_the_first_and_one_may_lack_a_point() {
    let results = Results::new();
    let all = |name: &str, factor: f64| {
        results.run(name, &[(at("1Mpps", factor), PLAIN), (at("2Mpps", 2.0 * factor), PLAIN)])
    };
    let (a, b, c) = (all("a", 1.0), all("b", 0.5), results.run("c", &[(at("2Mpps", 3.0), PLAIN)]));
    let comparison = compared(&[a.clone(), b.clone(), c.clone()]);
    let of = |point: usize| {
        let own =
            comparison.points[point].figures.iter().find(|figure| figure.name == "delivered_mpps").unwrap();
        own.differences.iter().map(|own| own.and_then(|own| own.relative)).collect::<Vec<_>>()
    };
    assert_eq!((of(0), of(1)), (vec![Some(-0.5), None], vec![Some(-0.5), Some(0.5)]));
    assert_eq!(comparison.points[0].repetitions, [1, 1, 0]);
    assert_eq!(
        (comparison.unmatched[0].side.as_str(), comparison.unmatched[0].at.as_str()),
        ("C", "nothing at rate 1Mpps")
    );
    // A point that the base lacks has no counterpart.
    let comparison = compared(&[c.clone(), a.clone(), b.clone()]);
    let alone: Vec<&str> = comparison.unmatched.iter().map(|point| point.side.as_str()).collect();
    assert_eq!((comparison.points.len(), alone), (1, vec!["B", "C"]));
    assert!(matches!(compare(&[a], &CompareRequest::default()), Err(CompareError::Request(_))));
}

#[test]
fn a_search_compares_with_a_run_by_its_lower_end() {
    let results = Results::new();
    let rate = |name: &str, low, high| results.search(name, &[found(64, low, high, Some(at("x", low)))]);
    let base = rate("base", 10.0, Some(10.2));
    let outside = |other: &Path| {
        figure(&compared(&[base.clone(), other.to_owned()]), "low_mpps").differences[0].unwrap().outside_both
    };
    assert_eq!(outside(&rate("overlaps", 9.9, Some(10.1))), Some(false));
    assert_eq!(outside(&rate("above", 10.3, Some(10.4))), Some(true));
    let at_line = rate("at line", 10.3, None);
    assert_eq!(outside(&at_line), Some(true));
    let own = compared(&[at_line.clone(), base.clone()]);
    let interval = figure(&own, "low_mpps").values[0].unwrap().interval;
    assert_eq!(interval, Some(Interval { low: 10.3, high: None }));
    let run = results.run("run", &[(at("10Mpps", 9.0), PLAIN)]);
    let comparison = compared(&[base.clone(), run.clone()]);
    assert_eq!(figure(&comparison, "delivered_mpps").differences[0].unwrap().relative, Some(-0.1));
    assert_eq!(figure(&comparison, "low_mpps").values[1], None);
    assert!(comparison.notes.iter().any(|note| note.contains("A search is compared with a run")));
    // With several sizes, the one that the run has is used.
    let sizes = [found(512, 5.0, None, None), found(64, 10.0, None, Some(at("x", 10.0)))];
    let sizes = results.search("sizes", &sizes);
    assert_eq!(compared(&[sizes, run]).points[0].at, "frame_size 64B");
    // A goal that no rate met has no figures.
    let none = SizeSummary { low_mpps: None, ..found(64, 0.0, Some(1.0), None) };
    let none = results.search("none", &[none]);
    assert_eq!(figure(&compared(&[base.clone(), none.clone()]), "low_mpps").values[1], None);
    assert!(failures(&[base, none], "2%").contains(&"B: it has no low_mpps".to_owned()));
}

#[test]
fn sweep_points_that_differ_in_seed_are_pooled_with_an_interval() {
    let results = Results::new();
    let sweep = |name: &str, values: &[f64]| {
        for (seed, value) in values.iter().enumerate() {
            let config = format!("[run]\nseed = {seed}\n{PLAIN}");
            results.run(&format!("{name}/points/{seed:032x}"), &[(at("1Mpps", *value), &config)]);
        }
        results.path(name)
    };
    let (a, b) = (sweep("a", &[1.0, 2.0, 3.0]), sweep("b", &[10.0, 10.0]));
    let comparison = compared(&[a.clone(), b]);
    let [point] = comparison.points.as_slice() else { panic!("{:?}", comparison.points) };
    assert_eq!(point.repetitions, [3, 2]);
    let own = figure(&comparison, "delivered_mpps");
    let base = own.values[0].unwrap();
    // t(0.975; 2) · 1 / √3
    let half = base.interval.unwrap().high.unwrap() - base.value;
    assert!(base.value == 2.0 && (half - 2.4843).abs() < 1e-3, "{base:?}");
    assert_eq!(own.differences[0].unwrap().outside_both, Some(true));
    assert_eq!(comparison.sides[0].kind, "sweep");
    // A point that is not complete is left out, with a note.
    std::fs::remove_file(a.join("points").join(format!("{:032x}", 2)).join("files.sha256")).unwrap();
    let comparison = compared(&[a.clone(), a]);
    assert_eq!(comparison.points[0].repetitions, [2, 2]);
    assert!(comparison.notes[0].contains("left out") && comparison.notes[0].contains("files.sha256"));
}

#[test]
fn sweep_points_are_in_the_order_of_the_table() {
    let results = Results::new();
    for (folder, rate) in [(0, "2Mpps"), (1, "1Mpps")] {
        results.run(&format!("s/points/{folder:032x}"), &[(at(rate, 1.0), PLAIN)]);
    }
    let path = results.path("s");
    let table = format!("rate,point\r\n1Mpps,{:032x}\r\n2Mpps,{:032x}\r\n", 1, 0);
    std::fs::write(path.join("table.csv"), table).unwrap();
    let order: Vec<String> =
        compared(&[path.clone(), path]).points.into_iter().map(|point| point.at).collect();
    assert_eq!(order, ["rate 1Mpps", "rate 2Mpps"]);
}

#[test]
fn an_incomplete_result_is_rejected() {
    let results = Results::new();
    let good = results.run("good", &[(at("1Mpps", 1.0), PLAIN)]);
    let message = |path: &Path| {
        compare(&[good.clone(), path.to_owned()], &CompareRequest::default()).unwrap_err().to_string()
    };
    assert!(message(&results.path("none")).contains("no such folder"));
    assert!(message(&good.join("summary.json")).contains("no such folder"));
    std::fs::create_dir_all(results.path("empty")).unwrap();
    assert!(message(&results.path("empty")).contains("not a result of run"));
    std::fs::create_dir_all(results.path("empty/fig1/rates/points")).unwrap();
    let parts = message(&results.path("empty"));
    assert!(
        parts.ends_with(&format!("can be compared: {}", results.path("empty/fig1/rates").display())),
        "{parts}"
    );
    std::fs::create_dir_all(results.path("planned/points")).unwrap();
    assert!(message(&results.path("planned")).contains("no point of the sweep is finished"));
    let broken = |name: &str, change: &dyn Fn(&ResultFolder)| {
        let path = results.run(name, &[(at("1Mpps", 1.0), PLAIN)]);
        change(&ResultFolder::create(&path).unwrap());
        message(&path)
    };
    assert!(
        broken("unsealed", &|folder| std::fs::remove_file(folder.path().join("files.sha256")).unwrap())
            .contains("files.sha256")
    );
    assert!(broken("changed", &|folder| folder.write("summary.json", "{}").unwrap()).contains("was changed"));
    let resealed = |name: &str, file: &'static str, text: &'static str| {
        broken(name, &|folder| {
            folder.write(file, text).unwrap();
            seal(folder).unwrap();
        })
    };
    assert!(resealed("cut", "summary.json", "{\"points\": [").contains("cut off"));
    assert!(
        resealed("foreign", "summary.json", "{\"points\": 5}").contains("not the summary of a Doorbell run")
    );
    assert!(resealed("nan", "summary.json", "{\"points\": [NaN]}").contains("not a summary.json"));
    assert!(resealed("config", "config.toml", "core = ").contains("config.toml"));
}

#[test]
fn figures_are_selected_by_name_and_unknown_names_rejected() {
    let results = Results::new();
    let latency = LatencySummary {
        frames: 9,
        mean: 3.0,
        stddev: 1.0,
        min: 1.0,
        p50: 3.0,
        p90: 4.0,
        p99: 5.0,
        p99_9: 5.0,
        p99_99: 5.0,
        max: 5.0,
    };
    let point =
        |mean| PointSummary { latency_ns: Some(LatencySummary { mean, ..latency }), ..at("1Mpps", 1.0) };
    let (a, b) = (results.run("a", &[(point(3.0), PLAIN)]), results.run("b", &[(point(6.0), PLAIN)]));
    let judged = |name: &str| {
        let request = CompareRequest { fail_over: Some(Share(0.02)), figures: vec![name.into()] };
        compare(&[a.clone(), b.clone()], &request).map(|comparison| comparison.failures.len())
    };
    assert_eq!(judged("latency_ns").unwrap(), 1);
    assert_eq!(judged("latency_ns.mean").unwrap(), 1);
    assert_eq!(judged("latency_ns.p50").unwrap(), 0);
    for name in ["latency", "latency_ns.mea", "nonsense", ""] {
        assert!(
            matches!(judged(name), Err(CompareError::Request(message)) if message.contains("--figure")),
            "{name}"
        );
    }
    assert!(figure(&compared(&[a.clone(), b]), "host_seconds").of_host);
}
