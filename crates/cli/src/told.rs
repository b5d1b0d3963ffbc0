//! What is told of a run that its table of points has no columns for.

use doorbell_bench::{IperfFigures, NetworkFigures, PointSummary, Protocol};

/// Lines about a point; none of most.
pub fn told(summary: &PointSummary) -> String {
    let iperf = summary.iperf.as_ref().map(transfer);
    iperf.or(summary.network.as_ref().map(hops)).unwrap_or_default()
}

/// What iperf3 carried.
fn transfer(f: &IperfFigures) -> String {
    let again = match (f.retransmits, f.datagrams_lost) {
        (Some(segments), _) => format!(", {segments} segments sent again"),
        (_, Some(datagrams)) => format!(", {datagrams} datagrams lost"),
        _ => String::new(),
    };
    let (protocol, whose) = (
        if f.protocol == Protocol::Tcp { "TCP" } else { "UDP" },
        if f.cpu_percent.is_some() { "of the guests' time, as iperf3 found" } else { "of a transfer" },
    );
    let mut lines = vec![format!(
        "{protocol} goodput {:.3} Gbps: {} bytes in {:.6} s {whose}{again}",
        f.goodput_gbps, f.bytes_received, f.seconds
    )];
    if let Some([client, server]) = f.cpu_percent {
        lines.push(format!("iperf3's share of a core: client {client:.0} %, server {server:.0} %"));
    }
    for (name, wire, drops) in
        [("server", &f.wire_to_server, f.nic_drops[0]), ("client", &f.wire_to_client, f.nic_drops[1])]
    {
        lines.push(format!(
            "To the {name}: {} frames, {} bytes; {} lost and {} damaged on the cable; its NIC dropped {drops}",
            wire.frames, wire.bytes, wire.lost, wire.corrupted
        ));
    }
    lines.join("\n") + "\n"
}

/// Hops and switches in words.
fn hops(figures: &NetworkFigures) -> String {
    let mut lines = vec![format!(
        "{:<34} {:>10} {:>9} {:>7} {:>7} {:>9}",
        "hop", "frames", "Gbps", "busy %", "lost", "link, ns"
    )];
    for (name, hop) in &figures.hops {
        lines.push(format!(
            "{name:<34} {:>10} {:>9.3} {:>7.1} {:>7} {:>9.1}",
            hop.sent.frames,
            hop.gbps,
            hop.busy * 100.0,
            hop.sent.lost,
            hop.latency_ns
        ));
    }
    if !figures.switches.is_empty() {
        lines.push(format!(
            "{:<34} {:>10} {:>9} {:>9} {:>9} {:>9}",
            "switch: output", "queued", "dropped", "deepest", "p50, ns", "p99, ns"
        ));
    }
    for (switch, figures) in &figures.switches {
        for (cable, output) in &figures.outputs {
            let name = format!("{switch}: {cable}");
            let of = |pick: fn(&doorbell_loadgen::LatencySummary) -> f64| {
                output.residence_ns.as_ref().map_or("-".to_owned(), |of| format!("{:.1}", pick(of)))
            };
            lines.push(format!(
                "{name:<34} {:>10} {:>9} {:>9} {:>9} {:>9}",
                output.queued,
                output.dropped,
                output.deepest,
                of(|of| of.p50),
                of(|of| of.p99)
            ));
        }
    }
    lines.join("\n") + "\n"
}
