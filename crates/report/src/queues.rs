//! What each queue of each port did at each load, where a card has several: the frames that RSS and filters gave it, those that it lost, and
//! those that it sent.

use std::fmt::Write;

use crate::escape::Esc;
use crate::number::{NONE, fixed, grouped};
use doorbell_results::{PointSummary, PortFigures, QueueFigures};

/// Frames that filters and hash gave a queue.
const OFFERED: &str = "rx_offered";
/// A column's head, and its counter.
const COLUMNS: [(&str, &str); 6] = [
    ("Offered", OFFERED),
    ("Delivered", "rx_delivered"),
    ("Lost: DMA", "rx_drop_dma"),
    ("Lost: core", "rx_drop_core"),
    ("Lost: TX", "rx_drop_tx"),
    ("Sent", "tx_frames"),
];
/// The section, or nothing where no port used more than one queue.
pub(crate) fn html(points: &[&PointSummary]) -> String {
    if points.iter().flat_map(|point| &point.ports).all(|port| port.queues.len() < 2) {
        return String::new();
    }
    let mut out = String::from(
        "<section aria-labelledby=\"queues\">\n<h2 id=\"queues\">Queue by queue</h2>\n\
         <p class=\"facts\">Frames in the measurement, of each queue that did anything: those that RSS and filters gave it, and those of them that \
         were lost, by cause.</p>\n\
         <div class=\"scroll\" role=\"region\" aria-label=\"Queues\" tabindex=\"0\">\n<table class=\"numbers few\">\n\
         <thead><tr><th scope=\"col\">Queue</th><th scope=\"col\">Port</th><th scope=\"col\">Load</th>",
    );
    for (head, _) in COLUMNS {
        let _ = write!(out, "<th scope=\"col\">{head}</th>");
    }
    out.push_str("<th scope=\"col\">Of the mean</th></tr></thead>\n<tbody>\n");
    for point in points {
        for (number, port) in point.ports.iter().enumerate() {
            port.queues.iter().for_each(|queue| row(&point.rate, (number, port), queue, &mut out));
        }
    }
    out.push_str("</tbody>\n</table></div>\n</section>\n");
    out
}

fn count(queue: &QueueFigures, name: &str) -> u64 {
    queue.figures.iter().find(|figure| figure.name == name).map_or(0, |figure| figure.value)
}

fn row(rate: &str, (number, port): (usize, &PortFigures), queue: &QueueFigures, out: &mut String) {
    let _ = write!(out, "<tr><th scope=\"row\">{}</th><td>{number}</td><td>{}</td>", queue.queue, Esc(rate));
    for (_, name) in COLUMNS {
        let value = count(queue, name);
        let class = if value == 0 { " class=\"zero\"" } else { "" };
        let _ = write!(out, "<td{class}>{}</td>", grouped(value));
    }
    let all: u64 = port.queues.iter().map(|queue| count(queue, OFFERED)).sum();
    let share = match all {
        0 => NONE.to_owned(),
        _ => fixed(count(queue, OFFERED) as f64 * port.queues.len() as f64 / all as f64, 2),
    };
    let _ = writeln!(out, "<td>{share}</td></tr>");
}

#[cfg(test)]
mod tests {
    use doorbell_results::Figure;

    use super::*;

    fn queue(queue: u32, offered: u64, core: u64) -> QueueFigures {
        let figure = |name: &str, value| Figure { name: name.to_owned(), value };
        QueueFigures { queue, figures: vec![figure(OFFERED, offered), figure("rx_drop_core", core)] }
    }

    #[test]
    fn each_of_several_queues_has_a_row_and_one_alone_has_no_table() {
        let of = |queues: Vec<QueueFigures>| PointSummary {
            ports: vec![PortFigures { groups: Vec::new(), queues }],
            ..PointSummary::default()
        };
        assert_eq!(html(&[&of(vec![queue(0, 9, 0)])]), "");
        let page = html(&[&of(vec![queue(0, 3000, 7), queue(1, 1000, 0)])]);
        assert_eq!(page.matches("<th scope=\"row\">").count(), 2, "{page}");
        for expected in ["<td>3,000</td>", "<td>7</td>", "<td>1.50</td>", "<td>0.50</td>"] {
            assert!(page.contains(expected), "no {expected}: {page}");
        }
    }
}
