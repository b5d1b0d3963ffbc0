//! One point: a machine of its own, measured or searched, and its results made durable.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use doorbell_bench::{
    Benchmark, Control, DriveConfig, DriveKind, Nodes, Places, PointSummary, Ran, ResultFolder, RunConfig,
    RunError, RunSummary, Session, Source, Testbed, TestbedPlan, changes, driven_guests, run_driven,
    run_iperf, run_network, run_point,
};
use doorbell_loadgen::Rate;

use super::plan::{ExperimentError, Identity, Plan, PlannedPoint, Work};
use super::store::Store;
use crate::search::{SearchRequest, search_sizes, search_summary};

/// Measures a point, unless it is done.
pub fn measure(
    plan: &Plan,
    index: usize,
    identity: &Identity,
    store: &Store,
    places: &Places,
    control: &mut Control,
) -> Result<(), ExperimentError> {
    let point = &plan.points[index];
    let preset = &plan.file.preset;
    let mut told = false;
    let busy = |control: &mut &mut Control| {
        if !std::mem::replace(&mut told, true) {
            (control.say)("waiting for another process that measures this point");
        }
        let stop = control.interrupted.load(Ordering::Relaxed);
        if stop { Err(ExperimentError::from(RunError::Interrupted)) } else { Ok(()) }
    };
    store.complete(identity, &mut &mut *control, busy, |folder, control| {
        let command = format!("doorbell sweep run --index {index} ({})", plan.file.name());
        let own = Own { point, benchmark: plan.benchmark, places, preset, command };
        match &point.work {
            Work::Measure(rate) if has_two_nodes(plan.benchmark, &point.config) => {
                own.two_nodes(*rate, folder, control)
            }
            Work::Measure(rate) => own.at_rate(*rate, folder, control),
            Work::Search(request) => own.found(request, folder, control),
        }
    })
}

/// Whether a second node takes the load generator's place.
pub(super) fn has_two_nodes(benchmark: &Benchmark, config: &RunConfig) -> bool {
    matches!(benchmark.nodes, Nodes::Two(_) | Nodes::Network)
        || config.options::<DriveConfig>().kind == DriveKind::Node
}

/// A point, and what its results say of where they come from.
struct Own<'a> {
    point: &'a PlannedPoint,
    benchmark: &'static Benchmark,
    places: &'a Places,
    preset: &'a str,
    command: String,
}

impl Own<'_> {
    fn session(&self, control: &mut Control) -> Result<Session, RunError> {
        Session::prepare(&self.point.config, self.benchmark, self.places, &Source::Cache, control)
    }

    fn at_rate(
        self,
        rate: Rate,
        folder: &ResultFolder,
        control: &mut Control,
    ) -> Result<(), ExperimentError> {
        let frame_size = self.point.config.loadgen.traffic.frame_size;
        let session = self.session(control)?;
        let measured = run_point(&session, rate, frame_size, None, control)?;
        folder.write_point(&measured)?;
        self.write(measured.summary, measured.meanings, session.ran(), folder)
    }

    /// Measures between two nodes: a benchmark that has two, or one whose load comes from a second.
    fn two_nodes(
        self,
        rate: Rate,
        folder: &ResultFolder,
        control: &mut Control,
    ) -> Result<(), ExperimentError> {
        let (config, benchmark, source) = (&self.point.config, self.benchmark, &Source::Cache);
        if let Nodes::Network = benchmark.nodes {
            // The sweep has a process for each core already.
            let (plan, members) = TestbedPlan::network(config, benchmark.name, 1).map_err(RunError::from)?;
            let testbed = Testbed::prepare(plan, self.places, source, control)?;
            let run = run_network(&testbed, (config, &members), None, control)?;
            folder.write_nodes(config, &run.network)?;
            return self.write(run.summary, run.meanings, testbed.ran(), folder);
        }
        if let Nodes::Two(guests) = benchmark.nodes {
            let plan = TestbedPlan::two_nodes(config, benchmark.name, guests())?;
            let nodes = Testbed::prepare(plan, self.places, source, control)?;
            let run = run_iperf(&nodes, config, None, control)?;
            folder.write_iperf(config, &run)?;
            return self.write(run.summary, run.meanings, nodes.ran(), folder);
        }
        let name = format!("{}-driven", benchmark.name);
        let guests = driven_guests(benchmark, config).map_err(RunError::from)?;
        let nodes =
            Testbed::prepare(TestbedPlan::two_nodes(config, &name, guests)?, self.places, source, control)?;
        let load = (rate, config.loadgen.traffic.frame_size);
        let driven = run_driven(&nodes, config, benchmark, load, None, control)?;
        folder.write_nodes(&driven.config, &driven.network)?;
        self.write(driven.summary, driven.meanings, nodes.ran(), folder)
    }

    fn write(
        self,
        summary: PointSummary,
        meanings: BTreeMap<String, String>,
        ran: Ran,
        folder: &ResultFolder,
    ) -> Result<(), ExperimentError> {
        let whole = RunSummary {
            benchmark: self.benchmark.name.to_owned(),
            preset: self.preset.to_owned(),
            changed: changes(self.preset, &self.point.config).map_err(RunError::from)?,
            doorbell_version: env!("CARGO_PKG_VERSION").to_owned(),
            command: self.command,
            ran,
            incomplete: None,
            meanings,
            points: vec![summary],
        };
        Ok(folder.write("summary.json", &whole.to_json())?)
    }

    fn found(
        self,
        request: &SearchRequest,
        folder: &ResultFolder,
        control: &mut Control,
    ) -> Result<(), ExperimentError> {
        let session = self.session(control)?;
        folder.write_config(&self.point.config)?;
        let started = std::time::Instant::now();
        let size = self.point.config.loadgen.traffic.frame_size;
        // The sweep has a process for each core already.
        let jobs = 1;
        let searches = search_sizes(&session, &[size], request, jobs, control.interrupted, &|_, _| {})?;
        let seconds = started.elapsed().as_secs_f64();
        let names = (self.benchmark.name, self.preset);
        let summary = search_summary(names, self.command, request, jobs, seconds, searches, session.ran());
        Ok(folder.write("summary.json", &summary.to_json())?)
    }
}
