//! Results of each queue of each port at each load, for NICs with several queues: frames steered to it by RSS
//! and filters, lost frames, and sent frames.

use crate::html_table::HtmlTable;
use crate::number::{NONE, fixed, grouped};
use crate::page;
use doorbell_results::counters::RX_OFFERED;
use doorbell_results::{PointSummary, PortFigures, QueueFigures};

/// Head of a column, and its counter.
const COLUMNS: [(&str, &str); 6] = [
    ("Offered", RX_OFFERED),
    ("Delivered", "rx_delivered"),
    ("Lost: DMA", "rx_drop_dma"),
    ("Lost: core", "rx_drop_core"),
    ("Lost: TX", "rx_drop_tx"),
    ("Sent", "tx_frames"),
];
/// The section; empty if no port used more than one queue.
pub(crate) fn html(points: &[&PointSummary]) -> String {
    if points.iter().flat_map(|point| &point.ports).all(|port| port.queues.len() < 2) {
        return String::new();
    }
    let mut out = page::section("queues", "Results per queue");
    out.push_str(
        "<p class=\"facts\">Frames in the measurement, per enabled queue: frames that RSS and filters steered to it, and lost frames \
         by cause.</p>\n",
    );
    let heads = ["Queue", "Port", "Load"].into_iter().chain(COLUMNS.map(|(head, _)| head));
    let heads = heads.chain(["Share of the port, %"]);
    let mut table = HtmlTable::begin("Queues, table", "numbers few", heads, &mut out);
    for point in points {
        for (number, port) in point.ports.iter().enumerate() {
            for queue in &port.queues {
                table
                    .name(queue.queue)
                    .cells([&number.to_string(), &point.rate])
                    .counts(COLUMNS.map(|(_, name)| grouped(queue.value(name))))
                    .cells([share(port, queue)])
                    .end_row();
            }
        }
    }
    table.end();
    stage_table(points, &mut out);
    out.push_str("</section>\n");
    out
}

/// Stages of the latency of each queue's and core's frames.
fn stage_table(points: &[&PointSummary], out: &mut String) {
    let Some(first) = points.iter().flat_map(|point| &point.latency_stages_by_queue).next() else { return };
    out.push_str(
        "<p class=\"facts\">Mean stage times, by receive queue and by the core that sent the frames, in µs.</p>\n",
    );
    let stages = first.stages_ns.iter().map(|stage| stage.name.as_str());
    let heads = ["Queue", "Port", "Core", "Load", "Frames"].into_iter().chain(stages);
    let mut table = HtmlTable::begin("Stages by queue, table", "numbers few", heads, out);
    for point in points {
        for entry in &point.latency_stages_by_queue {
            let hart = entry.hart.map_or(NONE.to_owned(), |hart| hart.to_string());
            table
                .name(entry.queue)
                .cells([entry.port.to_string(), hart, point.rate.clone(), grouped(entry.frames)])
                .cells(entry.stages_ns.iter().map(|stage| fixed(stage.mean / 1e3, 3)))
                .end_row();
        }
    }
    table.end();
}

/// The queue's share of the port's offered frames, in percent.
fn share(port: &PortFigures, queue: &QueueFigures) -> String {
    match port.queues.iter().map(|queue| queue.value(RX_OFFERED)).sum::<u64>() {
        0 => NONE.to_owned(),
        all => fixed(queue.value(RX_OFFERED) as f64 * 100.0 / all as f64, 1),
    }
}

#[cfg(test)]
mod tests {
    use doorbell_results::{Figure, QueueStage, QueueStages};

    use super::*;

    fn queue(queue: u32, offered: u64, core: u64) -> QueueFigures {
        let figure = |name: &str, value| Figure { name: name.to_owned(), value };
        QueueFigures {
            queue,
            rss: false,
            figures: vec![figure(RX_OFFERED, offered), figure("rx_drop_core", core)],
        }
    }

    #[test]
    fn several_queues_have_a_row_each_and_a_single_queue_has_no_table() {
        let of = |queues: Vec<QueueFigures>| PointSummary {
            ports: vec![PortFigures { queues, ..PortFigures::default() }],
            ..PointSummary::default()
        };
        assert_eq!(html(&[&of(vec![queue(0, 9, 0)])]), "");
        let mut two = of(vec![queue(0, 3000, 7), queue(1, 1000, 0)]);
        let page = html(&[&two]);
        assert_eq!(page.matches("<th scope=\"row\">").count(), 2, "{page}");
        for expected in ["<td>3,000</td>", "<td>7</td>", "<td>75.0</td>", "<td>25.0</td>"] {
            assert!(page.contains(expected), "no {expected}: {page}");
        }
        let stages_ns = vec![QueueStage { name: "a <stage>".into(), mean: 1234.0, max: 2000.0 }];
        two.latency_stages_by_queue =
            vec![QueueStages { queue: 1, hart: Some(3), frames: 1000, stages_ns, port: 0 }];
        let page = html(&[&two]);
        assert!(
            page.contains("a &lt;stage&gt;</th>")
                && page.contains("<td>3</td>")
                && page.contains("<td>1.234</td>"),
            "{page}"
        );
    }
}
