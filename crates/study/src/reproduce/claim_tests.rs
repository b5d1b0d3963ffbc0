use super::*;
use crate::experiment::{Cell, Column, ExperimentFile};

/// Results for two frame sizes and two modes, of which the last point is not finished.
fn measured() -> MeasuredPart {
    let text = "name = \"p\"\nbenchmark = \"testpmd\"\npreset = \"fast\"\nmeasure.rates = [\"1Mpps\"]\n[grid]\n\
                \"loadgen.traffic.frame_size\" = [\"64B\", \"128B\"]\n\"testpmd.mode\" = [\"io\", \"macswap\"]\n";
    let plan = Plan::new(ExperimentFile::from_toml(text).unwrap()).unwrap();
    let column = |name: &str, cells| Column { name: name.to_owned(), cells, parameter: None };
    let table = Table {
        columns: vec![
            column("index", [0, 1, 2].map(Cell::Int).to_vec()),
            column("delivered_gbps", [30.0, 20.0, 50.0].map(Cell::Float).to_vec()),
        ],
    };
    MeasuredPart { plan, table }
}

fn measured_without() -> MeasuredPart {
    let MeasuredPart { plan, mut table } = measured();
    table.columns.retain(|column| column.name != "delivered_gbps");
    MeasuredPart { plan, table }
}

fn claim(text: &str) -> Claim {
    let head = "says = \"x\"\npart = \"p\"\nfigure = \"delivered_gbps\"\n";
    toml::from_str(&format!("{head}{text}")).unwrap()
}

fn judge_claim(text: &str) -> ClaimVerdict {
    let measured = measured();
    let claim = claim(text);
    claim.check(std::slice::from_ref(&measured.plan), false).unwrap();
    claim.judge(&[&measured])
}

const IO_64: &str = "at = { \"loadgen.traffic.frame_size\" = \"64B\", \"testpmd.mode\" = \"io\" }\n";

#[test]
fn a_value_inside_the_interval_confirms_and_one_outside_differs_with_the_reason() {
    let inside = judge_claim(&format!("{IO_64}confirmed = [25, 30]"));
    assert_eq!(inside, ClaimVerdict { ours: Some(30.0), verdict: Verdict::Confirmed });
    let outside = judge_claim(&format!("{IO_64}confirmed = [0, 29.9]\nwhy = \"because\""));
    assert_eq!(outside, ClaimVerdict { ours: Some(30.0), verdict: Verdict::Differs(Some("because".into())) });
}

#[test]
fn a_value_within_a_fifth_of_the_papers_number_confirms() {
    for (paper, verdict) in [
        ("25", Verdict::Confirmed),
        ("37.5", Verdict::Confirmed),
        ("24.9", Verdict::Differs(None)),
        ("37.6", Verdict::Differs(None)),
    ] {
        assert_eq!(judge_claim(&format!("{IO_64}paper = {paper}")).verdict, verdict, "{paper}");
    }
    assert_eq!(claim("paper = -10").interval().unwrap().map(|bound| bound.round()), [-12.0, -8.0]);
}

#[test]
fn steps_of_a_load_grid_confirm_values_up_to_the_next_step() {
    // Our value is 30, which is 6 steps of 5.
    let one = judge_claim(&format!("{IO_64}steps = [6]\nper = 5"));
    assert_eq!(one, ClaimVerdict { ours: Some(6.0), verdict: Verdict::Confirmed });
    assert_eq!(judge_claim(&format!("{IO_64}steps = [4]\nper = 5")).verdict, Verdict::Confirmed);
    assert_eq!(judge_claim(&format!("{IO_64}steps = [3]\nper = 5")).verdict, Verdict::Differs(None));
    let over = "over = { \"testpmd.mode\" = \"macswap\" }\n";
    let gain = claim(&format!("{IO_64}{over}steps = [5, 3]"));
    assert!((gain.paper().unwrap() - 200.0 / 3.0).abs() < 1e-9 && gain.is_numeric());
    assert_eq!(gain.interval().unwrap().map(f64::round), [25.0, 100.0]);
    let many = claim(&format!("{IO_64}{over}steps = [150, 100]")).interval().unwrap();
    assert_eq!(many.map(f64::round), [40.0, 60.0], "a fifth, if the step range is narrower");
    assert_eq!(judge_claim(&format!("{IO_64}{over}steps = [5, 3]")).ours, Some(50.0));
    let plans = [measured().plan];
    for (text, word) in
        [("steps = [5, 3]", "not 1 steps"), ("steps = [5]\npaper = 5", "not both"), ("steps = [0]", "from 1")]
    {
        let problem = claim(text).check(&plans, false).unwrap_err();
        assert!(problem.contains(word), "{problem}");
    }
}

#[test]
fn a_threshold_crossing_is_interpolated_between_points() {
    let text = "name = \"p\"\nbenchmark = \"testpmd\"\npreset = \"fast\"\nmeasure.rates = [\"1Mpps\", \"2Mpps\", \"4Mpps\"]\n";
    let plan = Plan::new(ExperimentFile::from_toml(text).unwrap()).unwrap();
    let column = |name: &str, cells: Vec<Cell>| Column { name: name.to_owned(), cells, parameter: None };
    let table = |loss: [f64; 3]| Table {
        columns: vec![
            column("index", [2, 0, 1].map(Cell::Int).to_vec()),
            column("offered_mpps", [4.0, 1.0, 2.0].map(Cell::Float).to_vec()),
            column("delivered_gbps", loss.map(Cell::Float).to_vec()),
        ],
    };
    let claim = claim("first = { along = \"offered_mpps\", above = 0.01 }\npaper = 2.5");
    claim.check(std::slice::from_ref(&plan), false).unwrap();
    let judged = |loss| claim.judge(&[&MeasuredPart { plan: plan.clone(), table: table(loss) }]);
    assert_eq!(judged([0.04, 0.0, 0.0]), ClaimVerdict { ours: Some(2.5), verdict: Verdict::Confirmed });
    assert_eq!(judged([0.5, 0.1, 0.2]), ClaimVerdict { ours: Some(1.0), verdict: Verdict::Differs(None) });
    assert_eq!(judged([0.0, 0.0, 0.0]), ClaimVerdict { ours: None, verdict: Verdict::Differs(None) });
}

#[test]
fn gains_are_in_percent_and_ratios_in_times() {
    let over = "over = { \"testpmd.mode\" = \"macswap\" }\nconfirmed = [0, 60]\n";
    assert!((judge_claim(&format!("{IO_64}{over}")).ours.unwrap() - 50.0).abs() < 1e-9);
    assert_eq!(judge_claim(&format!("{IO_64}{over}ratio = true")).ours, Some(1.5));
    assert_eq!(claim(&format!("{IO_64}{over}")).unit(), "%");
    assert_eq!(claim(&format!("{IO_64}{over}ratio = true")).unit(), "times");
}

#[test]
fn host_times_are_judged_by_pairs_only_if_statistically_significant() {
    let judged = |node: &[f64], generator: &[f64]| {
        let text = format!(
            "name = \"p\"\nbenchmark = \"testpmd\"\npreset = \"fast\"\nmeasure.rates = [\"1Mpps\"]\nrepetitions = {}\n[grid]\n\
             \"drive.kind\" = [\"generator\", \"node\"]\n",
            node.len()
        );
        let plan = Plan::new(ExperimentFile::from_toml(&text).unwrap()).unwrap();
        let column = |name: &str, cells| Column { name: name.to_owned(), cells, parameter: None };
        let times = generator.iter().chain(node).map(|time| Cell::Float(*time));
        let indices = 0..2 * node.len() as i64;
        let columns = vec![
            column("index", indices.clone().map(Cell::Int).collect()),
            column("repetition", indices.map(|index| Cell::Int(index % node.len() as i64)).collect()),
            column("host_seconds", times.collect()),
        ];
        let claim: Claim = toml::from_str(
            "says = \"x\"\npart = \"p\"\nfigure = \"host_seconds\"\npaper = 70\nat = { \"drive.kind\" = \"node\" }\n\
             over = { \"drive.kind\" = \"generator\" }\n",
        )
        .unwrap();
        claim.judge(&[&MeasuredPart { plan, table: Table { columns } }])
    };
    // Pairs vary less than times: the host was twice as slow in the second one.
    let sure = judged(&[1.71, 3.40, 1.69], &[1.0, 2.0, 1.0]);
    assert_eq!(sure.verdict, Verdict::Confirmed);
    assert!((sure.ours.unwrap() - 70.0).abs() < 0.1, "{sure:?}");
    assert_eq!(judged(&[1.0, 1.01, 0.99], &[1.0; 3]).verdict, Verdict::Differs(None));
    let Verdict::Undecided(why) = judged(&[1.2, 1.7, 2.2], &[1.0; 3]).verdict else { panic!() };
    assert!(why.starts_with("the mean of 3 pairs is "), "{why}");
    let once = judged(&[1.7], &[1.0]);
    assert!(matches!(&once.verdict, Verdict::Undecided(why) if why.contains("3 pairs")), "{once:?}");
}

#[test]
fn a_claim_with_missing_points_is_not_judged() {
    let at = "at = { \"loadgen.traffic.frame_size\" = \"128B\" }\nconfirmed = [0, 100]";
    assert_eq!(judge_claim(at), ClaimVerdict { ours: None, verdict: Verdict::NotMeasured });
    // The column is missing from the table because the counted event did not occur.
    let none =
        claim("at = { \"loadgen.traffic.frame_size\" = \"64B\" }\npaper = 93").judge(&[&measured_without()]);
    assert_eq!(none, ClaimVerdict { ours: None, verdict: Verdict::Differs(None) });
    assert_eq!(judge_claim("untestable = \"no silicon\"").verdict, Verdict::NotTestable("no silicon".into()));
}

#[test]
fn an_invalid_claim_is_rejected() {
    let plans = [measured().plan];
    for (text, word) in [
        ("confirmed = [2, 1]", "not an interval"),
        ("at = { \"testpmd.mode\" = \"mac\" }\nconfirmed = [1, 2]", "no point"),
        (
            "over_figure = \"delivered_gbs\"\nconfirmed = [1, 2]",
            "over_figure = \"delivered_gbs\" is neither a figure of a point",
        ),
        ("first = { along = \"ofered_mpps\", above = 1 }\npaper = 1", "did you mean \"offered_mpps\"?"),
        ("over_part = \"q\"\nconfirmed = [1, 2]", "\"q\""),
        ("", "confirmed"),
        ("confirmed = [0, 1e5, 3]", "not two numbers"),
        ("paper = 10\nconfirmed = [7.9, 12]", "wider than a fifth"),
        ("paper = 0", "confirmed"),
        (
            "first = { along = \"rate\", above = 1 }\nover_part = \"p\"\nconfirmed = [1, 2]",
            "threshold crossing",
        ),
    ] {
        let problem = claim(text).check(&plans, false).unwrap_err();
        assert!(problem.contains(word), "{problem}");
    }
}
