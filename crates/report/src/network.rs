//! Results of a network's members at each load: nodes, hops, switch outputs and load generators, one table
//! each.

use std::fmt::Write;

use crate::escape::Esc;
use crate::html_table::HtmlTable;
use crate::number::{NONE, duration_ns, fixed, grouped, percent};
use crate::page;
use doorbell_results::{NetworkFigures, PointSummary};

/// The page section; empty for a run of one machine.
pub(crate) fn html(points: &[&PointSummary]) -> String {
    let networks: Vec<(&str, &NetworkFigures)> =
        points.iter().filter_map(|point| Some((point.rate.as_str(), point.network.as_ref()?))).collect();
    if networks.is_empty() {
        return String::new();
    }
    let mut out = page::section("network", "Network");
    out.push_str(
        "<p class=\"facts\">In the measurement, without warm-up and drain. Residence in a switch lasts from a frame's last bit in to its last \
         bit out.</p>\n",
    );
    for (rate, network) in &networks {
        if networks.len() > 1 {
            let _ = writeln!(out, "<h3>{}</h3>", Esc(rate));
        }
        hops(network, &mut out);
        switches(network, &mut out);
        generators(network, &mut out);
        nodes(network, &mut out);
    }
    out.push_str("</section>\n");
    out
}

fn hops(network: &NetworkFigures, out: &mut String) {
    let rows = network.hops.iter().map(|(name, hop)| {
        let figures =
            [grouped(hop.sent.frames), fixed(hop.gbps, 3), percent(Some(hop.busy)), grouped(hop.sent.lost)];
        (name.clone(), [&figures[..], &[grouped(hop.sent.corrupted), duration_ns(hop.latency_ns)]].concat())
    });
    table("Hop", &["Frames", "Gbps", "Busy, %", "Lost", "Damaged", "Latency"], rows, out);
}

fn switches(network: &NetworkFigures, out: &mut String) {
    let outputs = network.switches.iter().flat_map(|(switch, figures)| {
        figures.outputs.iter().map(move |(cable, output)| (format!("{switch}: {cable}"), output))
    });
    let rows = outputs.map(|(name, output)| {
        let time = |of: Option<f64>| of.map_or_else(|| NONE.to_owned(), duration_ns);
        let stay = output.residence_ns.as_ref();
        let figures = [grouped(output.queued), grouped(output.dropped), grouped(output.deepest)];
        let times = [time(stay.map(|of| of.p50)), time(stay.map(|of| of.p99)), time(stay.map(|of| of.max))];
        (name, [figures, times].concat())
    });
    table(
        "Output of a switch",
        &["Queued", "Dropped", "Maximum depth, B", "p50", "p99", "Maximum"],
        rows,
        out,
    );
}

fn generators(network: &NetworkFigures, out: &mut String) {
    let rows = network.generators.iter().map(|(name, generator)| {
        let of = &generator.summary;
        let p99 = of.latency_ns.as_ref().map_or_else(|| NONE.to_owned(), |latency| duration_ns(latency.p99));
        let rates = [generator.rate.clone(), fixed(of.offered.mpps, 3), fixed(of.delivered.mpps, 3)];
        (name.clone(), [&rates[..], &[percent(Some(of.drop_rate)), p99]].concat())
    });
    table(
        "Load generator",
        &["Rate", "Offered, Mpps", "Delivered, Mpps", "Lost, %", "Round trip, p99"],
        rows,
        out,
    );
}

fn nodes(network: &NetworkFigures, out: &mut String) {
    let rows = network.nodes.iter().map(|(name, node)| {
        let drops = &node.drops;
        let dropped = drops.dma + drops.core + drops.tx + drops.nic_other;
        let timed = if node.timing.is_some() { "timed" } else { "functional" };
        (
            name.clone(),
            vec![timed.to_owned(), grouped(node.instructions), fixed(node.ipc, 3), grouped(dropped)],
        )
    });
    table("Node", &["Model", "Instructions", "IPC", "Dropped by its NICs"], rows, out);
}

fn table(first: &str, heads: &[&str], rows: impl Iterator<Item = (String, Vec<String>)>, out: &mut String) {
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
        return;
    }
    let heads = [first].into_iter().chain(heads.iter().copied());
    let mut table = HtmlTable::begin(first, "numbers few", heads, out);
    rows.for_each(|(name, cells)| table.row(name, cells));
    table.end();
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use doorbell_results::{Direction, HopFigures};

    use super::*;

    #[test]
    fn hops_are_listed_by_name_and_a_run_of_one_machine_has_none() {
        let sent = Direction { frames: 12_345, bytes: 1, lost: 6, corrupted: 7 };
        let hop = HopFigures { sent, gbps: 9.5, busy: 0.25, latency_ns: 500.0 };
        let network = NetworkFigures {
            nodes: BTreeMap::new(),
            hops: BTreeMap::from([("up: a > <b>".to_owned(), hop)]),
            switches: BTreeMap::new(),
            generators: BTreeMap::new(),
        };
        let without = PointSummary::default();
        assert_eq!(html(&[&without]), "");
        let page = html(&[&PointSummary { network: Some(network), ..without }]);
        for expected in ["up: a &gt; &lt;b&gt;", "<td>12,345</td>", "<td>9.500</td>", "<td>500 ns</td>"] {
            assert!(page.contains(expected), "no {expected}: {page}");
        }
        assert!(!page.contains("Output of a switch"), "{page}");
    }
}
