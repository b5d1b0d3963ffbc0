//! `doorbell run iperf`: two nodes on one cable.

use std::process::ExitCode;

use anyhow::bail;
use doorbell_bench::{
    Control, IperfRun, IperfSummary, Places, Protocol, ResultFolder, Role, TwoNodes, run_iperf,
};

use doorbell_machine::CoreModel;

use crate::run_cmd::RunArgs;
use crate::screen::{Screen, end_on_closed_pipe, interrupt_flag};

/// Runs iperf3 between two nodes and reports.
pub fn run(args: &RunArgs, roles: &[Role; 2], places: &Places) -> anyhow::Result<ExitCode> {
    refuse_what_has_no_meaning(args)?;
    let config = args.common.resolve(&[])?;
    let folder = ResultFolder::create(&args.output.out)?;
    let screen = Screen::new(args.output.quiet);
    let interrupted = interrupt_flag()?;
    let mut control = Control {
        m5: None,
        interrupted: &interrupted,
        say: &mut |line| screen.say(line),
        progress: &mut |instructions, now| screen.progress("simulating", instructions, now),
    };
    if config.core.model == CoreModel::Timed {
        (control.say)(
            "two nodes run functionally: cores, caches and PCI Express of the preset are not timed",
        );
    }
    let nodes = TwoNodes::prepare(&config, roles, places, &args.guest.source(), &mut control)?;
    if let Some((seconds, instructions)) = nodes.boot {
        let millions = instructions as f64 / 1e6;
        (control.say)(&format!("both ready after {millions:.0} M instructions, {seconds:.1} s"));
    }
    if let Some(path) = &args.guest.save_checkpoint {
        nodes.checkpoint().write(path)?;
    }
    let capture = args.pcap.then(|| folder.path().join("wire.pcap"));
    let run = run_iperf(&nodes, capture.as_deref(), &mut control)?;
    screen.clear();
    let json = folder.write_iperf(&config, &run)?;
    end_on_closed_pipe()?;
    if args.output.json {
        print!("{json}");
    } else {
        print!("{}", table(&run));
        println!(
            "Results in {} (summary.json, iperf3.json, stats.json, config.toml, both consoles).",
            folder.path().display()
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// The load comes from the client, not from a load generator.
fn refuse_what_has_no_meaning(args: &RunArgs) -> anyhow::Result<()> {
    let given = [
        ("--rate", !args.rate.is_empty(), "--set iperf.rate=1Gbps (UDP)"),
        ("--frame-size", args.frame_size.is_some(), "nothing: the kernel decides"),
        ("--frames", args.frames.is_some(), "--set iperf.seconds=2"),
        ("--duration", args.duration.is_some(), "--set iperf.seconds=2"),
        (
            args.traffic.given().unwrap_or("--traffic"),
            args.traffic.given().is_some(),
            "nothing: the client sends",
        ),
        ("--warmup", args.warmup.is_some(), "nothing: all of the test counts"),
    ];
    for (option, given, instead) in given {
        if given {
            bail!("{option} is for load generators, and iperf has none; instead: {instead}");
        }
    }
    Ok(())
}

fn table(run: &IperfRun) -> String {
    let s: &IperfSummary = &run.summary;
    let (protocol, again) = match s.protocol {
        Protocol::Tcp => ("TCP", format!("{} segments sent again", s.retransmits.unwrap_or(0))),
        Protocol::Udp => ("UDP", format!("{} datagrams lost", s.datagrams_lost.unwrap_or(0))),
    };
    let mut lines = vec![
        format!("iperf · {protocol} · two nodes · Doorbell {}", s.doorbell_version),
        String::new(),
        format!(
            "Goodput {:.3} Gbps: {} bytes in {:.6} s of the guests' time, {again}",
            s.goodput_gbps, s.bytes_received, s.seconds
        ),
        format!(
            "iperf3's share of a core: client {:.0} %, server {:.0} %",
            s.cpu_percent[0], s.cpu_percent[1]
        ),
    ];
    for (name, wire, drops) in
        [("server", &s.wire_to_server, s.nic_drops[0]), ("client", &s.wire_to_client, s.nic_drops[1])]
    {
        lines.push(format!(
            "To the {name}: {} frames, {} bytes; {} lost and {} damaged on the cable; its NIC dropped {drops}",
            wire.frames, wire.bytes, wire.lost, wire.corrupted
        ));
    }
    lines.push(String::new());
    lines.join("\n") + "\n"
}
