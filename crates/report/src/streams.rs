//! Results of each stream of a point's traffic: a table for the terminal, and one for the page. Traffic of
//! one stream without flows has none.

use std::fmt::Write;

use crate::escape::Esc;
use crate::html_table::HtmlTable;
use crate::number::{NONE, count, duration_ns, grouped, percent, rate};
use crate::page;
use doorbell_results::{Confidence, FlowSummary, LatencySummary, PointSummary, StreamSummary, finite};

/// Maximum width of a name on the terminal.
const NAME_WIDTH: usize = 16;

/// Whether the streams provide more information than the point's own line.
pub(crate) fn are_several(point: &PointSummary) -> bool {
    point.streams.len() > 1 || point.streams.iter().any(|stream| stream.flows.is_some())
}

/// One line per stream, if there are several.
pub(crate) fn lines(point: &PointSummary, out: &mut String) {
    if !are_several(point) {
        return;
    }
    let printable =
        |name: &str| -> String { name.chars().filter(|c| !c.is_control()).take(NAME_WIDTH).collect() };
    let width =
        point.streams.iter().map(|stream| printable(&stream.name).chars().count()).max().unwrap_or(0).max(6);
    let _ = writeln!(
        out,
        "{:<width$}  {:>7} {:>8}  {:>7} {:>7}  {:>7} {:>6} {:>6}  {:>9} {:>9}",
        "stream", "Mpps", "Gbps", "lost", "%", "corrupt", "reord.", "flows", "p50", "p99"
    );
    for stream in &point.streams {
        let percentile = |of: fn(&LatencySummary) -> f64| {
            stream.latency_ns.as_ref().map_or_else(|| NONE.to_owned(), |latency| duration_ns(of(latency)))
        };
        let flows = stream.flows.as_ref().map_or_else(|| NONE.to_owned(), |flows| count(flows.offered));
        let _ = writeln!(
            out,
            "{:<width$}  {:>7} {:>8}  {:>7} {:>7}  {:>7} {:>6} {:>6}  {:>9} {:>9}",
            printable(&stream.name),
            rate(stream.offered.mpps),
            rate(stream.offered.gbps_l2),
            count(stream.frames_lost),
            percent(finite(stream.drop_rate)),
            count(stream.frames_corrupt),
            count(stream.frames_reordered),
            flows,
            percentile(|l| l.p50),
            percentile(|l| l.p99)
        );
    }
    for stream in &point.streams {
        if let Some(flows) = stream.flows.as_ref().filter(|flows| flows.with_loss > 0) {
            let (with_loss, most) = (grouped(flows.with_loss), grouped(flows.frames_lost_max));
            let _ =
                writeln!(out, "{}: {with_loss} flows lost frames, {most} at most.", printable(&stream.name));
        }
    }
}

/// The page section with the streams of each load, if there are several.
pub(crate) fn html(points: &[&PointSummary]) -> String {
    let mut points = points.iter().filter(|point| are_several(point)).peekable();
    if points.peek().is_none() {
        return String::new();
    }
    let mut out = page::section("streams", "Streams");
    out.push_str(
        "<p class=\"facts\">± are half the \
         widths of 95 % confidence intervals. Each stream over time is in streams.csv, each flow in \
         flows.csv.</p>\n",
    );
    for point in points {
        table(point, &mut out);
    }
    out.push_str("</section>\n");
    out
}

fn table(point: &PointSummary, out: &mut String) {
    let _ = writeln!(out, "<h3>At {} ({} Mpps)</h3>", Esc(&point.rate), rate(point.offered_mpps));
    let heads = [
        "Stream",
        "Offered, Mpps",
        "Gbps",
        "Delivered, Mpps",
        "Lost",
        "%",
        "Corrupt",
        "Reordered",
        "Flows",
        "with loss",
        "Latency, mean",
        "p50",
        "p99",
        "max",
    ];
    let label = format!("Streams at {}", point.rate);
    let mut table = HtmlTable::begin(label, "numbers", heads, out);
    point.streams.iter().for_each(|stream| table.row(&stream.name, cells(stream)));
    table.end();
}

/// The figures of a stream in the order of the table's columns.
fn cells(stream: &StreamSummary) -> [String; 13] {
    let or_none = |text: Option<String>| text.unwrap_or_else(|| NONE.to_owned());
    let latency = |of: fn(&LatencySummary) -> f64| {
        or_none(stream.latency_ns.as_ref().map(|latency| duration_ns(of(latency))))
    };
    let with_error = |figure: String, of: fn(&Confidence) -> Option<String>| match &stream.confidence_95 {
        Some(confidence) => of(confidence).map_or(figure.clone(), |half| format!("{figure} ± {half}")),
        None => figure,
    };
    let flows = |of: fn(&FlowSummary) -> u64| or_none(stream.flows.as_ref().map(|flows| grouped(of(flows))));
    [
        rate(stream.offered.mpps),
        rate(stream.offered.gbps_l2),
        with_error(rate(stream.delivered.mpps), |c| Some(rate(c.delivered_mpps))),
        grouped(stream.frames_lost),
        with_error(percent(finite(stream.drop_rate)), |c| Some(percent(Some(c.drop_rate)))),
        grouped(stream.frames_corrupt),
        grouped(stream.frames_reordered),
        flows(|flows| flows.offered),
        flows(|flows| flows.with_loss),
        with_error(latency(|l| l.mean), |c| c.latency_ns.as_ref().map(|latency| duration_ns(latency.mean))),
        latency(|l| l.p50),
        latency(|l| l.p99),
        latency(|l| l.max),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn streams() -> Vec<StreamSummary> {
        let stream = |name: &str, extra: &str| {
            format!(
                r#"{{"name": "{name}", "frames_offered": 1000, "frames_delivered": 950, "frames_corrupt": 0,
                     "frames_lost": 50, "frames_reordered": 3, "drop_rate": 0.05,
                     "offered": {{"mpps": 1.5, "gbps_l2": 0.768, "gbps_l1": 1.0}},
                     "delivered": {{"mpps": 1.4, "gbps_l2": 0.7, "gbps_l1": 0.9}}, "latency_ns": null{extra}}}"#
            )
        };
        let flows =
            r#", "flows": {"offered": 64, "with_loss": 2, "frames_lost_max": 40, "with_reordering": 1}"#;
        let text =
            format!("[{}, {}]", stream("voice", flows), stream("a\\u0007 very long name of a stream", ""));
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn each_stream_has_a_line_and_flows_with_loss_are_reported() {
        let mut point = sample::loads().points.remove(0);
        let mut out = String::new();
        lines(&point, &mut out);
        assert_eq!(out, "", "traffic without streams");
        point.streams = streams();
        lines(&point, &mut out);
        let shown: Vec<&str> = out.lines().collect();
        assert_eq!(shown.len(), 4, "{out}");
        assert!(
            shown[1].starts_with("voice ")
                && shown[1].contains(" 64 ")
                && shown[2].starts_with("a very long name ")
        );
        assert_eq!(shown[3], "voice: 2 flows lost frames, 40 at most.");
        assert!(shown.iter().all(|line| line.chars().count() <= crate::text::WIDTH), "{out}");
    }

    #[test]
    fn the_page_has_a_row_per_stream_of_each_load() {
        let mut loads = sample::loads().points;
        assert_eq!(html(&loads.iter().collect::<Vec<_>>()), "", "traffic without streams");
        loads[1].streams = streams();
        loads[1].streams[0].name = "<b>".to_owned();
        let page = html(&loads.iter().collect::<Vec<_>>());
        assert_eq!(page.matches("<table").count(), 1);
        assert_eq!(page.matches("<th scope=\"col\">").count(), 14);
        assert_eq!(page.matches("<th scope=\"row\">").count(), 2);
        assert_eq!(page.matches("<td>").count(), 2 * 13);
        assert!(page.contains("<th scope=\"row\">&lt;b&gt;</th><td>1.500</td>"), "{page}");
        assert!(page.contains("<td>64</td><td>2</td>"), "{page}");
    }
}
