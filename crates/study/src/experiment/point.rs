//! One point: measured or searched on its own machine, with its results stored durably.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use doorbell_bench::{
    Benchmark, BenchmarkPlan, CachePaths, Control, Observe, PointSummary, Progress, ReadyTrace, ResultFolder,
    RunError, RunIdentity, Session, Source, Traces, run_summary, write_played,
};
use doorbell_loadgen::Rate;
use doorbell_machine::Base;
use doorbell_results::{RunSummary, SearchSummary};
use doorbell_sim::Ps;

use super::plan::{ExperimentError, Identity, Plan, PlannedPoint, Work};
use super::store::Store;
use crate::search::{SearchRequest, search_config, search_sizes, search_summary};

/// Functions that render a point's page from its summary and its configuration text.
#[derive(Clone, Copy)]
pub struct Pages {
    /// For a run.
    pub run: fn(&RunSummary, &str) -> String,
    /// For a search.
    pub search: fn(&SearchSummary, &str) -> String,
}

/// Measures a point, unless it is finished.
pub fn measure(
    plan: &Plan,
    index: usize,
    identity: &Identity,
    store: &Store,
    places: &CachePaths,
    pages: Pages,
    control: &mut Control,
) -> Result<(), ExperimentError> {
    let point = &plan.points[index];
    let base = plan.file.base.as_ref().expect("a plan has its machine");
    let mut announced = false;
    let busy = |control: &mut &mut Control| {
        if !std::mem::replace(&mut announced, true) {
            (control.say)("waiting for another process that is measuring this point");
        }
        let stop = control.interrupted.load(Ordering::Relaxed);
        if stop { Err(ExperimentError::from(RunError::Interrupted)) } else { Ok(()) }
    };
    store.complete(identity, &mut &mut *control, busy, |folder, control| {
        let command = format!("doorbell sweep run --index {index} ({})", plan.file.name());
        let own = PointJob { point, benchmark: plan.benchmark, places, pages, base, command };
        match &point.work {
            Work::Measure(rate) => own.at_rate(*rate, folder, control),
            Work::Search(request) => own.search(request, folder, control),
            Work::Play => {
                let traces = plan.file.opened.as_deref().expect("an identity requires open traces");
                own.played(traces, folder, control)
            }
        }
    })
}

/// A point, and the provenance of its results.
struct PointJob<'a> {
    point: &'a PlannedPoint,
    benchmark: &'static Benchmark,
    places: &'a CachePaths,
    pages: Pages,
    base: &'a Base,
    command: String,
}

impl PointJob<'_> {
    fn at_rate(
        self,
        rate: Rate,
        folder: &ResultFolder,
        control: &mut Control,
    ) -> Result<(), ExperimentError> {
        let (config, benchmark) = (&self.point.config, self.benchmark);
        // The sweep already runs one process per core.
        let plan = BenchmarkPlan::new(benchmark, config, benchmark.name, 1)?;
        let prepared = plan.prepare(self.places, &Source::Cache, control)?;
        let observe = Observe { profile: self.point.profile, ..Observe::default() };
        let measured = prepared.measure(config, rate, &observe, folder, control)?;
        self.write(measured.summary, measured.meanings, prepared.ran().clone(), folder)
    }

    fn played(
        self,
        traces: &Traces,
        folder: &ResultFolder,
        control: &mut Control,
    ) -> Result<(), ExperimentError> {
        let observe = Observe::default();
        let played = ReadyTrace::new(traces, &self.point.config, &observe)?.play(control)?;
        write_played(folder, &self.point.config, &played)?;
        let ran = traces.ran(self.places.commit);
        self.write(played.summary, played.meanings, ran, folder)
    }

    fn write(
        self,
        summary: PointSummary,
        meanings: BTreeMap<String, String>,
        ran: RunIdentity,
        folder: &ResultFolder,
    ) -> Result<(), ExperimentError> {
        let (name, config) = (self.benchmark.name, &self.point.config);
        let whole = run_summary(name, self.command, self.base, config, ran, meanings, vec![summary]);
        let whole = whole.map_err(RunError::from)?;
        folder.write("summary.json", &whole.to_json())?;
        Ok(folder.write("report.html", &(self.pages.run)(&whole, &folder.config_text()?))?)
    }

    fn search(
        self,
        request: &SearchRequest,
        folder: &ResultFolder,
        control: &mut Control,
    ) -> Result<(), ExperimentError> {
        let session =
            Session::prepare(&self.point.config, self.benchmark, self.places, &Source::Cache, control)?;
        folder.write_config(&search_config(&self.point.config, self.benchmark))?;
        let started = std::time::Instant::now();
        let size = self.point.config.loadgen.traffic.frame_size;
        // The number of trials is not known in advance.
        (control.progress)(&Progress { stage: "searching", share: None, instructions: 0, now: Ps::ZERO });
        // The sweep already runs one process per core.
        let jobs = 1;
        let searches =
            search_sizes(&session, &[size], request, jobs, control.interrupted, &|_, _| {}).all()?;
        let seconds = started.elapsed().as_secs_f64();
        let preset = self.base.name();
        let summary = search_summary(&session, preset, self.command, request, jobs, seconds, searches);
        folder.write("summary.json", &summary.to_json())?;
        Ok(folder.write("report.html", &(self.pages.search)(&summary, &folder.config_text()?))?)
    }
}
