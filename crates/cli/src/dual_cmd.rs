//! `doorbell run BENCHMARK --drive node`: the load comes from a second node.

use std::collections::BTreeMap;
use std::process::ExitCode;

use doorbell_bench::{
    Benchmark, DrivenPoint, Places, ResultFolder, RunConfig, TwoNodes, driven_guests, run_driven,
};

use crate::run_cmd::{RunArgs, finish, two_nodes_ready, what_is_sent, write_report};
use crate::screen::Screen;

/// Measures and reports.
pub fn run(
    args: &RunArgs,
    chosen: &Benchmark,
    config: &RunConfig,
    places: &Places,
) -> anyhow::Result<ExitCode> {
    args.observe.refuse("two nodes")?;
    let (rates, guests) = (args.rates(config)?, driven_guests(chosen, config)?);
    let folder = ResultFolder::create(&args.output.out)?;
    let screen = Screen::new(args.output.quiet);
    let (points, meanings) = screen.simulating(|control| {
        let name = format!("{}-driven", chosen.name);
        let nodes = TwoNodes::prepare(config, &name, &guests, places, &args.guest.source(), control)?;
        two_nodes_ready(args, &nodes, control)?;
        let (mut points, mut meanings) = (Vec::new(), BTreeMap::new());
        for (index, rate) in rates.iter().enumerate() {
            (control.say)(&format!("{}: {rate} of {} from a drive node", chosen.name, what_is_sent(config)));
            let own =
                if rates.len() == 1 { folder.clone() } else { folder.sub(&format!("point-{index:02}"))? };
            let capture = args.pcap.then(|| own.path().join("wire.pcap"));
            let load = (*rate, config.loadgen.traffic.frame_size);
            let point = run_driven(&nodes, chosen, load, capture.as_deref(), control)?;
            own.write_nodes(&point.config, &point.pair)?;
            if point.behind > 0 {
                (control.say)(&behind(&point));
            }
            if rates.len() > 1 {
                let DrivenPoint { summary, meanings, config, .. } = &point;
                write_report(args, chosen.name, &own, config, (vec![summary.clone()], meanings.clone()))?;
            }
            points.push(point.summary);
            meanings = point.meanings;
        }
        Ok((points, meanings))
    })?;
    screen.clear();
    finish(args, chosen.name, &folder, config, points, meanings)?;
    Ok(ExitCode::SUCCESS)
}

/// What to know of a load that the drive node was too slow for.
fn behind(point: &DrivenPoint) -> String {
    format!(
        "the drive node could not send {} frames that were due by the end: its core (drive.ipc, drive.frequency), NIC or \
         link is the limit, and what was offered is less than {}",
        point.behind, point.summary.rate
    )
}
