//! Round trips split into stages: a table for the page. A run that cannot split them (for example, one of
//! requests) has none.

use std::collections::BTreeMap;

use crate::html_table::HtmlTable;
use crate::number::{NONE, fixed};
use doorbell_results::{PointSummary, StageSummaries};

/// Table of one frame size: all figures of a single load, or the means of several.
pub(crate) fn html(points: &[&PointSummary], meanings: &BTreeMap<String, String>) -> String {
    let Some(names) = points.iter().find_map(|point| point.latency_stages_ns.as_ref()) else {
        return String::new();
    };
    let micros = |ns: f64| fixed(ns / 1e3, 3);
    let heads: Vec<String> = match points {
        [_] => ["mean", "share, %", "p50", "p99", "max"].map(str::to_owned).to_vec(),
        _ => points.iter().map(|point| point.rate.clone()).collect(),
    };
    let cells = |name: &str| -> Vec<String> {
        let of = |point: &PointSummary| point.latency_stages_ns.as_ref()?.get(name);
        match points {
            [point] => of(point).map_or(Vec::new(), |stage| {
                let all = point.latency_stages_ns.as_ref().map_or(0.0, StageSummaries::mean);
                let share = fixed(100.0 * stage.mean / all.max(f64::MIN_POSITIVE), 1);
                vec![micros(stage.mean), share, micros(stage.p50), micros(stage.p99), micros(stage.max)]
            }),
            _ => points
                .iter()
                .map(|point| of(point).map_or(NONE.to_owned(), |stage| micros(stage.mean)))
                .collect(),
        }
    };
    let what = if points.len() == 1 { "µs" } else { "mean, µs" };
    let mut out = String::new();
    let heads = [format!("Latency by stage, {what}")].into_iter().chain(heads);
    let mut table = HtmlTable::begin("Stages of the latency", "numbers few", heads, &mut out);
    for (name, _) in &names.0 {
        let meaning = meanings.get(name).map_or("", String::as_str);
        table.explained_name(name, meaning).cells(cells(name)).end_row();
    }
    table.end();
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn staged() -> crate::RunSummary {
        let mut summary = sample::loads();
        for (point, factor) in summary.points.iter_mut().zip([1.0, 2.0, 3.0]) {
            let text = format!(
                r#"{{"wire in": {{"place": 1, "mean": {0}, "p50": {0}, "p99": {0}, "max": {0}}},
                     "core": {{"place": 2, "mean": {1}, "p50": 900.0, "p99": 2000.0, "max": 3210.0}}}}"#,
                500.0 * factor,
                1500.0 * factor
            );
            point.latency_stages_ns = Some(serde_json::from_str(&text).unwrap());
        }
        summary
    }

    #[test]
    fn the_page_table_has_all_figures_of_one_load_or_the_means_of_several() {
        let summary = staged();
        let all: Vec<&PointSummary> = summary.points.iter().collect();
        let meanings = BTreeMap::from([("core".to_owned(), "until it's \"rung\"".to_owned())]);
        let one = html(&all[..1], &meanings);
        assert!(one.contains("title=\"until it") && !one.contains("\"rung"), "{one}");
        assert!(one.contains(">core</th><td>1.500</td><td>75.0</td><td>0.900</td>"), "{one}");
        let several = html(&all, &BTreeMap::new());
        assert!(
            several.contains(">core</th><td>1.500</td><td>3.000</td><td>4.500</td><td>–</td>"),
            "{several}"
        );
        let plain = sample::loads();
        assert_eq!(html(&plain.points.iter().collect::<Vec<_>>(), &meanings), "");
    }
}
