//! One point: a machine of its own, measured or searched, and its results made durable.

use doorbell_bench::{
    Benchmark, Control, Places, ResultFolder, RunError, RunSummary, Session, Source, changes, run_point,
    summary_json,
};

use super::plan::{ExperimentError, Identity, Plan, PlannedPoint, Work};
use super::store::Store;
use crate::search::{SearchRequest, SearchSummary, search_sizes};

/// Measures a point, unless it is done.
pub fn measure(
    plan: &Plan,
    index: usize,
    identity: &Identity,
    store: &Store,
    places: &Places,
    control: &mut Control,
) -> Result<(), ExperimentError> {
    if store.is_done(identity) {
        return Ok(());
    }
    let point = &plan.points[index];
    let preset = &plan.file.preset;
    store.complete(identity, |folder| {
        let session = Session::prepare(&point.config, plan.benchmark, places, &Source::Cache, control)?;
        let command = format!("doorbell sweep run --index {index} ({})", plan.file.name());
        match &point.work {
            Work::Measure(_) => at_rate(point, plan.benchmark, &session, folder, (preset, command), control),
            Work::Search(request) => {
                found(point, plan.benchmark, request, &session, folder, (preset, command), control)
            }
        }
    })
}

fn at_rate(
    point: &PlannedPoint,
    benchmark: &Benchmark,
    session: &Session,
    folder: &ResultFolder,
    (preset, command): (&str, String),
    control: &mut Control,
) -> Result<(), ExperimentError> {
    let traffic = &point.config.loadgen.traffic;
    let measured = run_point(session, traffic.rate, traffic.frame_size, None, control)?;
    folder.write_point(&measured)?;
    let summary = RunSummary {
        benchmark: benchmark.name.to_owned(),
        preset: preset.to_owned(),
        changed: changes(preset, &point.config).map_err(RunError::from)?,
        doorbell_version: env!("CARGO_PKG_VERSION").to_owned(),
        command,
        meanings: measured.meanings,
        points: vec![measured.summary],
    };
    folder.write("summary.json", &summary_json(&summary))?;
    Ok(())
}

fn found(
    point: &PlannedPoint,
    benchmark: &Benchmark,
    request: &SearchRequest,
    session: &Session,
    folder: &ResultFolder,
    (preset, command): (&str, String),
    control: &mut Control,
) -> Result<(), ExperimentError> {
    folder.write_config(&point.config)?;
    let started = std::time::Instant::now();
    let size = point.config.loadgen.traffic.frame_size;
    // The sweep has a process for each core already.
    let jobs = 1;
    let searches = search_sizes(session, &[size], request, jobs, control.interrupted, &|_, _| {})?;
    let seconds = started.elapsed().as_secs_f64();
    let summary = SearchSummary::new((benchmark.name, preset), command, request, jobs, seconds, searches);
    folder.write("summary.json", &summary.to_json()).map_err(RunError::into)
}
