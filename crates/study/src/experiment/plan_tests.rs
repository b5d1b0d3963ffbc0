//! Points of experiments, and errors in experiment files.

use doorbell_bench::DpdkConfig;

use super::*;
use crate::experiment::{Cell, Column, Table};

fn plan(text: &str) -> Result<Plan, String> {
    let head = "name = \"x\"\nbenchmark = \"testpmd\"\npreset = \"fast\"\n";
    let file = ExperimentFile::from_toml(&format!("{head}{text}"))?;
    Plan::new(file).map_err(|error| error.to_string())
}

#[test]
fn a_grid_yields_every_combination_with_the_last_parameter_fastest() {
    let plan = plan(
        "repetitions = 2\nseed = 5\n[measure]\nrates = [\"1Mpps\", \"50%\"]\n[grid]\n\
         \"core.ipc\" = [1, 2]\n\"loadgen.traffic.frame_size\" = [\"64B\", \"512B\"]\n",
    )
    .unwrap();
    assert_eq!(plan.points.len(), 2 * 2 * 2 * 2);
    let words: Vec<String> = plan.points.iter().map(PlannedPoint::describe).collect();
    assert_eq!(words[0], "core.ipc=1 loadgen.traffic.frame_size=64B rate=1Mpps seed=5");
    assert_eq!(words[1], "core.ipc=1 loadgen.traffic.frame_size=64B rate=1Mpps seed=6");
    assert_eq!(words[2], "core.ipc=1 loadgen.traffic.frame_size=64B rate=50% seed=5");
    assert_eq!(words[4], "core.ipc=1 loadgen.traffic.frame_size=512B rate=1Mpps seed=5");
    assert_eq!((plan.points[15].config.core.ipc, plan.points[15].config.run.seed), (2.0, 6));
    let rounds = plan.in_rounds();
    assert_eq!((rounds.len(), &rounds[..3], &rounds[8..11]), (16, &[0, 2, 4][..], &[1, 3, 5][..]));
}

#[test]
fn rates_may_be_multiples_of_the_streams_own_rates() {
    let stream = "set = ['loadgen.traffic.streams=[{ name = \"a\", rate = \"1Mpps\" }]']";
    let plan = plan(&format!("{stream}\n[measure]\nrates = [\"1x\", \"2x\", \"2Mpps\"]\n")).unwrap();
    let rates = |of: &PlannedPoint| of.config.loadgen.traffic.requested_rate().to_string();
    assert_eq!(plan.points[..2].iter().map(rates).collect::<Vec<_>>(), ["1x", "2x"]);
    assert_eq!(
        plan.points
            .iter()
            .map(|point| point.identity("testpmd", "guest"))
            .collect::<std::collections::BTreeSet<_>>()
            .len(),
        3
    );
}

#[test]
fn a_profile_changes_point_identities_and_needs_a_timing_model() {
    let of = |preset: &str, profile: &str| {
        let text = format!(
            "name = \"x\"\nbenchmark = \"testpmd\"\npreset = \"{preset}\"\n[measure]\nrates = [\"1Mpps\"]\n{profile}"
        );
        Plan::new(ExperimentFile::from_toml(&text)?).map_err(|error| error.to_string())
    };
    let identity = |profile: &str| of("server", profile).unwrap().points[0].identity("testpmd", "guest");
    assert_ne!(identity("profile = true\n"), identity(""));
    assert_eq!(identity("profile = false\n"), identity(""));
    let error = of("fast", "profile = true\n").map(|plan| plan.points.len()).unwrap_err();
    assert!(error.contains("measure.profile: --profile: this machine runs functionally"), "{error}");
}

#[test]
fn a_list_yields_its_points_and_a_random_sample_is_drawn() {
    let text = "[search]\ngoal = \"ndr\"\n[[list]]\n\"core.ipc\" = 1\n[[list]]\n\"core.ipc\" = 2\n\"dpdk.burst\" = 8\n";
    let points = plan(text).unwrap().points;
    assert_eq!((points.len(), points[1].config.options::<DpdkConfig>().burst), (2, 8));
    assert!(matches!(&points[0].work, Work::Search(request) if request.goal.loss == 0.0));
    let text = "[measure]\nrates = [\"1Mpps\"]\n[random]\npoints = 5\n[random.parameters]\n\"dpdk.burst\" = [8, 16]\n";
    assert_eq!(plan(text).unwrap().points.len(), 5);
}

#[test]
fn a_trace_is_played_at_every_combination_and_inapplicable_options_are_rejected() {
    let plan = |text: &str| {
        let text = format!("name = \"x\"\ntrace = \"t.dbt\"\npreset = \"server\"\n{text}");
        Plan::new(ExperimentFile::from_toml(&text)?).map_err(|error| error.to_string())
    };
    let varied =
        plan("[grid]\n\"memory.llc.size\" = [\"2MiB\", \"4MiB\"]\n\"playback.warmup\" = [0, \"10%\"]\n")
            .unwrap();
    let words: Vec<String> = varied.points.iter().map(PlannedPoint::describe).collect();
    assert_eq!((words.len(), words[3].as_str()), (4, "memory.llc.size=4MiB playback.warmup=10% seed=1"));
    assert!(varied.points.iter().all(|point| point.work == Work::Play && point.config.is_played()));
    for (text, part) in [
        ("[measure]\nrates = [\"1Mpps\"]\n", "do not apply to a trace"),
        ("[search]\ngoal = \"ndr\"\n", "do not apply to a trace"),
        ("[grid]\n\"dpdk.burst\" = [8]\n", "no meaning for a played trace"),
    ] {
        let error = plan(text).map(|plan| plan.points.len()).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn a_name_with_path_components_is_rejected() {
    for name in ["/tmp/x", "../x", "a/b", "..", ".", "", "x/"] {
        let text = format!(
            "name = \"{name}\"\nbenchmark = \"testpmd\"\npreset = \"fast\"\n[measure]\nrates = [\"1Mpps\"]\n"
        );
        let error = Plan::new(ExperimentFile::from_toml(&text).unwrap()).unwrap_err().to_string();
        assert!(error.contains("name: it must be a folder name"), "{name}: {error}");
    }
}

#[test]
fn a_figure_group_may_share_its_name_with_a_configuration_section() {
    let text = |column: &str| {
        format!(
            "name = \"x\"\nbenchmark = \"netperf\"\npreset = \"fast\"\n[measure]\nrates = [\"1Mpps\"]\n[grid]\n\"core.ipc\" = [1, 2]\n\
             [[plot]]\nx = \"core.ipc\"\ny = \"{column}\"\n"
        )
    };
    let plan =
        |column| Plan::new(ExperimentFile::from_toml(&text(column))?).map_err(|error| error.to_string());
    assert_eq!(plan("transfer.goodput_gbps").map(|plan| plan.points.len()), Ok(2));
    let error = plan("core.quantum").map(|plan| plan.points.len()).unwrap_err();
    assert!(
        error.contains("plot.y = \"core.quantum\" is not a parameter that this experiment varies"),
        "{error}"
    );
}

#[test]
fn plots_accept_summary_names_and_parameters_with_units() {
    let plots = [
        "drops.dma",
        "dropped_frames.dma",
        "core.frequency",
        "core.frequency_GHz",
        "timing.LLC.misses_per_packet",
    ];
    let plots: String = plots.iter().map(|y| format!("[[plot]]\nx = \"rate\"\ny = \"{y}\"\n")).collect();
    let text = format!("[measure]\nrates = [\"1Mpps\"]\n[grid]\n\"core.frequency\" = [\"1GHz\"]\n{plots}");
    assert_eq!(plan(&text).map(|plan| plan.points.len()), Ok(1));
}

#[test]
fn rows_are_selected_by_parameter_values() {
    let plan = plan(
        "[measure]\nrates = [\"1Mpps\"]\n[grid]\n\"core.frequency\" = [\"1GHz\", \"2GHz\"]\n\"core.ipc\" = [1, 2]\n",
    )
    .unwrap();
    let index = |rows: &[i64]| Table {
        columns: vec![Column {
            name: "index".to_owned(),
            parameter: None,
            cells: rows.iter().map(|row| Cell::Int(*row)).collect(),
        }],
    };
    let at = |text: &str| values_at(&toml::from_str(text).unwrap()).unwrap();
    // Point 0 is not finished.
    assert_eq!(plan.rows_at(&at("\"core.frequency\" = \"2GHz\""), &index(&[1, 2, 3])), [1, 2]);
    assert_eq!(plan.rows_at(&at("\"core.ipc\" = 2\nrate = \"1Mpps\""), &index(&[1, 2, 3])), [0, 2]);
    assert_eq!(plan.rows_at(&at(""), &index(&[3, 0])), [0, 1], "an empty selection matches all");
    assert!(plan.rows_at(&at("\"core.ipc\" = 3"), &index(&[1, 2, 3])).is_empty());
}

#[test]
fn every_invalid_file_is_rejected_with_a_remedy() {
    let measure = "[measure]\nrates = [\"1Mpps\"]\n";
    for (text, part) in [
        ("", "either [measure] with rates or [search]"),
        ("[measure]\nrates = []\n", "measure.rates is empty"),
        ("[measure]\nrates = [\"5\"]\n", "5Mpps"),
        ("[search]\ngoal = \"mbs\"\n", "search.goal"),
        ("[search]\ngoal = \"msb\"\nmin = \"200Mpps\"\n", "min: "),
        ("trace = \"t.dbt\"\n", "set one of benchmark, network and trace"),
        ("repetition = 2\n", "unknown field `repetition`"),
        (&format!("repetitions = 0\n{measure}"), "repetitions = 0"),
        (&format!("seeds = [1]\nseed = 2\n{measure}"), "remove repetitions and seed"),
        (&format!("{measure}[grid]\nnic = {{ rx_fifo = [\"1KiB\"] }}\n"), "in quotes"),
        (&format!("{measure}[grid]\n\"core.ipc\" = []\n"), "a list of values"),
        (&format!("{measure}[grid]\n\"core.frequenzy\" = [1]\n"), "did you mean \"frequency\""),
        (&format!("{measure}[grid]\n\"dpdk.burst\" = [32, 0]\n"), "point 1 (dpdk.burst=0)"),
        (&format!("{measure}[grid]\n\"core.ipc\" = [1]\n[[list]]\n\"core.ipc\" = 1\n"), "only one of"),
        (
            &format!("{measure}[[plot]]\nx = \"core.ipc\"\ny = \"ipc\"\n"),
            "not a parameter that this experiment varies",
        ),
        (
            &format!("{measure}[[plot]]\nx = \"rate\"\ny = \"drop_rate\"\nat = {{ rate = \"2Mpps\" }}\n"),
            "plot.at selects points with rate=2Mpps, and there are none; use values of [grid]",
        ),
        (
            &format!("{measure}[[plot]]\nx = \"rate\"\ny = \"drop_rat\"\n"),
            "plot.y = \"drop_rat\" is neither a figure of a point nor a varied parameter; did you mean \"drop_rate\"?",
        ),
        (
            &format!("{measure}[[plot]]\nx = \"rate\"\ny = \"p99\"\n"),
            "plot.y = \"p99\" is neither a figure of a point nor a varied parameter; did you mean \"latency_ns.p99\" or",
        ),
        (
            &format!("{measure}[[plot]]\nx = \"speed\"\ny = \"ipc\"\n"),
            "plot.x = \"speed\" is neither a figure",
        ),
        (&format!("{measure}[[plot]]\nx = \"rate\"\ny = \"low_mpps\"\n"), "plot.y = \"low_mpps\" is neither"),
        (&format!("seeds = [1, 2, 1]\n{measure}"), "seeds has 1 twice"),
        (&format!("{measure}[grid]\n\"core.ipc\" = [1, 2, 1]\n"), "grid.\"core.ipc\" has 1 twice"),
        ("[measure]\nrates = [\"1Mpps\", \"1000kpps\"]\n", "measure.rates has 1Mpps twice"),
        ("[measure]\nrates = [\"2x\"]\n", "total = \"2x\" needs streams, and none are configured; set rate"),
        (&format!("set = [\"run.seed=9\"]\n{measure}"), "run.seed has no effect here; write seeds = [1, 2]"),
        (
            &format!("set = [\"run={{seed=9}}\"]\n{measure}"),
            "run.seed has no effect here; write seeds = [1, 2]",
        ),
        (
            &format!("{measure}[grid]\n\"run.seed\" = [1, 2]\n"),
            "write seeds = [1, 2], or seed and repetitions",
        ),
        (
            &format!("{measure}[grid]\n\"loadgen.traffic.rate\" = [\"1Mpps\"]\n"),
            "loadgen.traffic.rate has no effect here; write measure.rates",
        ),
        (
            "[search]\ngoal = \"msb\"\n[[list]]\n\"loadgen.traffic.rate\" = \"1Mpps\"\n",
            "loadgen.traffic.rate has no effect here; write search.min",
        ),
        (
            "set = [\"loadgen.traffic.outstanding=2\"]\n[search]\ngoal = \"msb\"\n",
            "loadgen.traffic.outstanding",
        ),
    ] {
        let error = plan(text).map(|plan| plan.points.len()).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }
}
