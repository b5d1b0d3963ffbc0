//! Text about a point for which the table of points has no columns.

use doorbell_bench::{
    Direction, IperfFigures, NetworkFigures, PointSummary, Protocol, TransferCore, TransferFigures,
    TransferTotals,
};

/// Additional lines about a point; empty for most benchmarks.
pub fn point_text(summary: &PointSummary) -> String {
    let iperf = summary.iperf.as_ref().map(iperf);
    let transfer = summary.transfer.as_ref();
    let text = iperf
        .or_else(|| transfer.map(transfer_text))
        .map(|text| text + &transfer.map_or(String::new(), details));
    text.or(summary.network.as_ref().map(hops)).unwrap_or_default()
}

/// Results of iperf3.
fn iperf(f: &IperfFigures) -> String {
    let again = match (f.retransmits, f.datagrams_lost) {
        (Some(segments), _) => format!(", {segments} segments retransmitted"),
        (_, Some(datagrams)) => format!(", {datagrams} datagrams lost"),
        _ => String::new(),
    };
    let (protocol, time_base) = (
        if f.protocol == Protocol::Tcp { "TCP" } else { "UDP" },
        if f.cpu_percent.is_some() { "of guest time, measured by iperf3" } else { "of a transfer" },
    );
    let mut lines = vec![format!(
        "{protocol} goodput {:.3} Gbps: {} bytes in {:.6} s {time_base}{again}",
        f.goodput_gbps, f.totals.bytes_received, f.totals.seconds
    )];
    if let Some([client, server]) = f.cpu_percent {
        lines.push(format!("iperf3's share of a core: client {client:.0} %, server {server:.0} %"));
    }
    let ends = ["server", "client"];
    lines.join("\n") + "\n" + &main_cable(ends, &f.totals)
}

/// Traffic on the cable between server and client.
fn main_cable(ends: [&str; 2], f: &TransferTotals) -> String {
    cable(ends, [&f.wire_to_server, &f.wire_to_client], f.nic_drops)
}

/// Traffic on a cable.
fn cable(ends: [&str; 2], wires: [&Direction; 2], drops: [u64; 2]) -> String {
    let of = |(name, (wire, drops)): (&str, (&Direction, u64))| {
        format!(
            "To the {name}: {} frames, {} bytes; {} lost and {} damaged on the cable; its NIC dropped {drops}\n",
            wire.frames, wire.bytes, wire.lost, wire.corrupted
        )
    };
    ends.into_iter().zip(wires.into_iter().zip(drops)).map(of).collect()
}

/// Results of a transfer between two nodes.
fn transfer_text(f: &TransferFigures) -> String {
    let time_base = if f.said.is_empty() { "" } else { " of guest time, measured by the program" };
    let first = match (f.goodput_gbps, f.transactions_per_second) {
        (Some(goodput), _) => {
            format!(
                "goodput {goodput:.3} Gbps: {} bytes in {:.6} s{time_base}",
                f.totals.bytes_received, f.totals.seconds
            )
        }
        (None, rate) => format!(
            "{:.0} transactions per second: {} in {:.6} s{time_base}, {:.2} µs each on average",
            rate.unwrap_or(0.0),
            f.transactions.unwrap_or(0),
            f.totals.seconds,
            f.round_trip_us.unwrap_or(0.0)
        ),
    };
    let many = if f.connections == 1 { String::new() } else { format!(", {} connections", f.connections) };
    let reported: String = f.said.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
    let ends = [if f.behind.is_some() { "gateway" } else { "server" }, "client"];
    let behind = f.behind.as_ref().map_or(String::new(), |own| {
        cable(["server behind it", "gateway"], [&own.wire_to_server, &own.wire_to_gateway], own.nic_drops)
    });
    let first_cable = main_cable(ends, &f.totals);
    format!("{}{many}: {first}\n{reported}{first_cable}{behind}", f.load)
}

/// Results of one of several cores.
fn core(f: &TransferCore) -> String {
    let amount = match (f.goodput_gbps, f.transactions_per_second) {
        (Some(goodput), _) => format!("{goodput:.3} Gbps"),
        (None, rate) => format!("{:.0} transactions per second", rate.unwrap_or(0.0)),
    };
    let ports: Vec<String> = f.ports.iter().map(u16::to_string).collect();
    format!(
        "Core {}: {amount} by port {}; its queue received {} frames\n",
        f.core,
        ports.join(", "),
        f.queue_received
    )
}

/// Idle times, per-core results and samples of a transfer.
fn details(f: &TransferFigures) -> String {
    let mut lines =
        format!("Idle: test node {:.1} %, drive node {:.1} %", f.test_idle * 100.0, f.drive_idle * 100.0);
    if let Some(server) = &f.behind {
        lines.push_str(&format!(", server behind the gateway {:.1} %", server.idle * 100.0));
    }
    lines.push('\n');
    lines.extend(f.cores.iter().map(core));
    if let Some(samples) = &f.samples {
        lines.push_str(&format!(
            "{} samples of {:.3} ms: {:.3} {} on average, standard deviation {:.3}, coefficient of variation {:.2} %\n",
            samples.values.len(),
            samples.seconds * 1e3,
            samples.mean,
            samples.unit,
            samples.stddev,
            samples.variation * 100.0
        ));
    }
    lines
}

/// Table of hops and switches.
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
