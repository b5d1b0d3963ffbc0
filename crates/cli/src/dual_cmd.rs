//! `doorbell run BENCHMARK --drive node`: the load comes from a second node.

use std::process::ExitCode;

use doorbell_bench::{
    Benchmark, Control, DrivenPoint, Places, RunConfig, Testbed, TestbedPlan, driven_guests, run_driven,
};
use doorbell_loadgen::Rate;

use crate::loads::Loads;
use crate::run_cmd::{RunArgs, two_nodes_ready, what_is_sent};
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
    let mut loads = Loads::begin(args, chosen.name, config, rates.len())?;
    let screen = Screen::new(args.output.quiet);
    screen.simulating(|control| {
        let name = format!("{}-driven", chosen.name);
        let plan = TestbedPlan::two_nodes(config, &name, guests)?;
        let mut nodes = Testbed::prepare(plan, places, &args.guest.source(), control)?;
        two_nodes_ready(args, &mut nodes, control)?;
        for rate in &rates {
            (control.say)(&format!("{}: {rate} of {} from a drive node", chosen.name, what_is_sent(config)));
            let measured = measure((&nodes, config), chosen, *rate, &mut loads, control);
            loads.but_some_are_done(measured)?;
        }
        Ok(())
    })?;
    screen.clear();
    loads.finish("")?;
    Ok(ExitCode::SUCCESS)
}

/// Measures one load.
fn measure(
    (nodes, config): (&Testbed, &RunConfig),
    chosen: &Benchmark,
    rate: Rate,
    loads: &mut Loads,
    control: &mut Control,
) -> anyhow::Result<()> {
    let (own, capture) = loads.next()?;
    let load = (rate, config.loadgen.traffic.frame_size);
    let point = run_driven(nodes, config, chosen, load, capture.as_deref(), control)?;
    own.write_nodes(&point.config, &point.network)?;
    if point.behind > 0 {
        (control.say)(&behind(&point));
    }
    loads.done(&own, &point.config, point.summary, point.meanings, nodes.ran())
}

/// What to know of a load that the drive node was too slow for.
fn behind(point: &DrivenPoint) -> String {
    format!(
        "the drive node could not send {} frames that were due by the end: its core (drive.ipc, drive.frequency), NIC or \
         link is the limit, and what was offered is less than {}",
        point.behind, point.summary.rate
    )
}
