//! `doorbell run iperf`: two nodes on one cable.

use std::process::ExitCode;

use anyhow::bail;
use doorbell_bench::{
    Benchmark, IperfFigures, IperfRun, NodeGuest, Places, Protocol, Testbed, TestbedPlan, run_iperf,
};

use crate::loads::Loads;
use crate::run_cmd::{RunArgs, two_nodes_ready};
use crate::screen::Screen;

/// Runs iperf3 between two nodes and reports.
pub fn run(
    args: &RunArgs,
    chosen: &Benchmark,
    guests: [NodeGuest; 2],
    places: &Places,
) -> anyhow::Result<ExitCode> {
    refuse_what_has_no_meaning(args)?;
    let config = args.config(chosen.defaults)?;
    let mut loads = Loads::begin(args, chosen.name, &config, 1)?;
    let (folder, capture) = loads.next()?;
    let screen = Screen::new(args.output.quiet);
    let (run, ran) = screen.simulating(|control| {
        let source = args.guest.source();
        let plan = TestbedPlan::two_nodes(&config, chosen.name, guests)?;
        let mut nodes = Testbed::prepare(plan, places, &source, control)?;
        two_nodes_ready(args, &mut nodes, control)?;
        Ok((run_iperf(&nodes, &config, capture.as_deref(), control)?, nodes.ran()))
    })?;
    screen.clear();
    folder.write_iperf(&config, &run)?;
    let lines = lines(&run);
    loads.done(&folder, &config, run.summary, run.meanings, ran)?;
    loads.finish(&lines)?;
    Ok(ExitCode::SUCCESS)
}

/// The load comes from the client, not from a load generator.
fn refuse_what_has_no_meaning(args: &RunArgs) -> anyhow::Result<()> {
    let given = [
        ("--rate", !args.rate.is_empty(), "--set iperf.rate=1Gbps (UDP)"),
        ("--frame-size", args.frame_size.is_some(), "nothing: the kernel decides"),
        ("--drive", args.drive.is_some(), "nothing: its client is a node already"),
        ("--frames", args.frames.is_some(), "--duration 20ms"),
        (
            args.traffic.given().unwrap_or("--traffic"),
            args.traffic.given().is_some(),
            "nothing: the client sends",
        ),
    ];
    for (option, given, instead) in given {
        if given {
            bail!("{option} is for load generators, and iperf has none; instead: {instead}");
        }
    }
    Ok(())
}

/// What the table has no columns for.
fn lines(run: &IperfRun) -> String {
    let Some(f): Option<&IperfFigures> = run.summary.iperf.as_ref() else { return String::new() };
    let again = match (f.retransmits, f.datagrams_lost) {
        (Some(segments), _) => format!(", {segments} segments sent again"),
        (_, Some(datagrams)) => format!(", {datagrams} datagrams lost"),
        _ => String::new(),
    };
    let (protocol, whose) = (
        if f.protocol == Protocol::Tcp { "TCP" } else { "UDP" },
        if run.iperf3.is_some() { "of the guests' time, as iperf3 found" } else { "of a transfer" },
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
