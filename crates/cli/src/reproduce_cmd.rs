//! `doorbell reproduce`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use doorbell_bench::{CachePaths, ResultFolder};
use doorbell_report::{ClaimRow, ReproducedFigure, ReproductionPage};
use doorbell_study::experiment::{Cell, Store, Sweep};
use doorbell_study::reproduce::{
    Claim, ClaimVerdict, Figure, MeasuredPart, PartFile, STUDIES, Verdict, figures,
};

use crate::cluster::{Cluster, ClusterArgs};
use crate::exit::{self, OrUsageError};
use crate::experiment::Experiment;
use crate::out::{errln, outln};
use crate::plots::plot;
use crate::run_args::command_line;
use crate::screen::{Line, Screen, interrupt_flag};
use crate::search_cmd::jobs_or_cores;
use crate::sweep_page;
use crate::tally::Tally;

#[derive(Args)]
#[command(after_help = studies_help())]
pub struct ReproduceArgs {
    /// Name of the study, or a folder with one TOML file per figure
    study: String,
    /// Only these figures, such as fig14
    #[arg(value_name = "FIGURE")]
    figures: Vec<String>,
    /// Measure a coarse version with fewer points
    #[arg(long)]
    quick: bool,
    /// Only list the planned measurements
    #[arg(long)]
    plan: bool,
    /// Result folder [default: results/ and the study's name, with -quick appended for a coarse version]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Number of points measured at once [default: the host's cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Do not show progress
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
}

fn studies_help() -> String {
    let lines: Vec<String> =
        STUDIES.iter().map(|study| format!("  {:<10} {}", study.name, study.title)).collect();
    format!("Studies:\n{}", lines.join("\n"))
}

/// Measures missing points, and reports the verdict on each claim.
pub fn run(args: &ReproduceArgs, places: &CachePaths) -> anyhow::Result<ExitCode> {
    let (title, all) = figures(&args.study).or_usage_error()?;
    let chosen = chosen(args, all).or_usage_error()?;
    if args.plan {
        return plan(args, &chosen);
    }
    let out = args.out.clone().unwrap_or_else(|| default_folder(args));
    let interrupted = interrupt_flag()?;
    let cluster = args.cluster.cluster()?;
    let (points, jobs) = (points(args, &chosen)?, jobs_or_cores(args.jobs));
    let study = Study {
        tally: &Arc::new(Tally::new(points.values().sum(), jobs)),
        points,
        args,
        places,
        title,
        screen: &Screen::new(args.quiet),
        interrupted: &interrupted,
        folder: ResultFolder::create(&out)?,
    };
    let mut works = Vec::new();
    for (figure, own) in chosen.iter().enumerate() {
        works.extend(own.parts(args.quick)?.into_iter().map(|part| (figure, part)));
    }
    let page = study.page(&chosen, &[], &[]);
    let progress = Mutex::new(Progress { page, parts: Vec::new(), left_out: Vec::new(), error: None });
    // Parts on whose results other rates depend are measured first.
    let (following, first): (Vec<_>, Vec<_>) = works.into_iter().partition(|(_, part)| part.follows());
    if cluster.is_none() {
        study.screen.watch(Arc::clone(study.tally) as Arc<dyn Line>);
    }
    for works in [first, following] {
        if let Some(cluster) = &cluster {
            study.work_on(cluster, &chosen, &works, &progress)?;
            continue;
        }
        let next = AtomicUsize::new(0);
        // One worker per core, each with its own part: parts have few points, and there are many similar
        // parts.
        std::thread::scope(|scope| {
            for _ in 0..jobs.min(works.len()) {
                scope.spawn(|| {
                    while let Some((figure, part)) = works.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if !study.work(&chosen, *figure, part, &progress) {
                            return;
                        }
                    }
                });
            }
        });
    }
    study.screen.clear();
    let Progress { page, parts, left_out, error } = progress.into_inner().expect("no worker panics");
    if let Some(error) = error {
        return Err(error);
    }
    print_verdicts(&page);
    outln!("Report in {} (report.html, report.md, and one folder per figure).", out.display());
    for problem in &left_out {
        errln!("{problem}");
    }
    match parts.iter().map(|part| part.failures).sum::<usize>() {
        0 if !left_out.is_empty() => {
            bail!(
                "{} parts could not be measured because the parts they depend on are missing",
                left_out.len()
            )
        }
        0 => Ok(ExitCode::SUCCESS),
        failed => bail!("{failed} points failed; the same command tries them again"),
    }
}

/// A measured part, possibly incomplete.
struct PartDone {
    figure: usize,
    measured: MeasuredPart,
    failures: usize,
    problem: Option<String>,
}

/// Results so far.
struct Progress {
    page: ReproductionPage,
    parts: Vec<PartDone>,
    /// Parts that could not be measured because parts they depend on are missing.
    left_out: Vec<String>,
    /// Error that ended the work.
    error: Option<anyhow::Error>,
}

impl Progress {
    /// Adds a part and rewrites the report, so that finished results can be read at any time. Returns whether
    /// to stop.
    fn add(
        &mut self,
        study: &Study,
        figures: &[Figure],
        figure: usize,
        part: anyhow::Result<(MeasuredPart, usize, anyhow::Result<()>)>,
    ) -> bool {
        let part = part.and_then(|(measured, failures, ended)| {
            let (problem, stopped) = match ended {
                Err(error) if exit::status(&error) == exit::INTERRUPTED => {
                    let (figure, part) = (&figures[figure].name, measured.plan.file.name());
                    let (done, all) = (measured.table.rows(), measured.plan.points.len());
                    let problem =
                        format!("{figure}, {part}: only {done} of {all} points are measured so far");
                    (Some(problem), Err(error))
                }
                Err(problem) => (Some(problem.to_string()), Ok(())),
                Ok(()) => (None, Ok(())),
            };
            self.parts.push(PartDone { figure, measured, failures, problem });
            stopped
        });
        self.write(study, figures, part)
    }

    /// Records that a part cannot be measured, and why. Returns whether to stop.
    fn leave_out(&mut self, study: &Study, figures: &[Figure], problem: String) -> bool {
        self.left_out.push(problem);
        self.write(study, figures, Ok(()))
    }

    fn write(&mut self, study: &Study, figures: &[Figure], so_far: anyhow::Result<()>) -> bool {
        self.page = study.page(figures, &self.parts, &self.left_out);
        let page = study.folder.write("report.html", &self.page.html());
        let written = page
            .and_then(|()| study.folder.write("report.md", &self.page.markdown()))
            .and_then(|()| study.folder.write("claims.json", &self.page.json()));
        // The error that ended the work takes precedence over later ones.
        if let Err(error) = so_far.and(written.map_err(anyhow::Error::from)) {
            self.error.get_or_insert(error);
        }
        self.error.is_some()
    }
}

fn default_folder(args: &ReproduceArgs) -> PathBuf {
    let name = Path::new(&args.study).file_name().unwrap_or_default().to_string_lossy();
    Path::new("results").join(format!("{name}{}", if args.quick { "-quick" } else { "" }))
}

fn chosen(args: &ReproduceArgs, mut all: Vec<Figure>) -> anyhow::Result<Vec<Figure>> {
    for name in &args.figures {
        if !all.iter().any(|figure| figure.name == *name) {
            let names: Vec<&str> = all.iter().map(|figure| figure.name.as_str()).collect();
            bail!("{} has no figure \"{name}\" (figures: {})", args.study, names.join(", "));
        }
    }
    if !args.figures.is_empty() {
        all.retain(|figure| args.figures.contains(&figure.name));
    }
    Ok(all)
}

fn plan(args: &ReproduceArgs, chosen: &[Figure]) -> anyhow::Result<ExitCode> {
    for figure in chosen {
        outln!("{}: {}", figure.name, figure.title);
        for (part, plan) in figure.parts(args.quick)?.iter().zip(figure.plans(args.quick)?) {
            outln!("  {:<16} {} points of {}", part.name, plan.points.len(), plan.benchmark.name);
        }
        outln!("  {} claims", figure.claims.len());
    }
    Ok(ExitCode::SUCCESS)
}

/// Folder of a part of a figure, relative to the study's folder.
fn of_figure(figure: &Figure, part: &PartFile) -> String {
    format!("{}/{}", figure.name, part.name)
}

/// Number of points of each part of the figures.
fn points(args: &ReproduceArgs, chosen: &[Figure]) -> anyhow::Result<BTreeMap<String, usize>> {
    let mut all = BTreeMap::new();
    for figure in chosen {
        let plans = figure.plans(args.quick)?;
        let parts = figure.parts(args.quick)?;
        all.extend(parts.iter().zip(plans).map(|(part, plan)| (of_figure(figure, part), plan.points.len())));
    }
    Ok(all)
}

/// Context of a running study.
struct Study<'a> {
    /// Progress of the points of all parts.
    tally: &'a Arc<Tally>,
    /// Number of points of each part.
    points: BTreeMap<String, usize>,
    args: &'a ReproduceArgs,
    places: &'a CachePaths,
    title: String,
    screen: &'a Screen,
    interrupted: &'a AtomicBool,
    folder: ResultFolder,
}

impl Study<'_> {
    /// Measures a part and adds its results. Returns whether to continue.
    fn work(&self, figures: &[Figure], own: usize, part: &PartFile, progress: &Mutex<Progress>) -> bool {
        let lock = || progress.lock().expect("no worker panics");
        let text = {
            let progress = lock();
            if progress.error.is_some() {
                return false;
            }
            let done = progress.parts.iter().filter(|part| part.figure == own);
            part.text(&done.map(|part| &part.measured).collect::<Vec<_>>())
        };
        match text {
            Ok(text) => {
                let figure = &figures[own];
                let measured = self.read(figure, &part.name, &text).and_then(|(experiment, store)| {
                    let name = of_figure(figure, part);
                    let result =
                        experiment.measure(&store, 1, self.screen, self.tally, &name, self.interrupted)?;
                    self.measured(figure, &part.name, experiment, &store, &result)
                });
                !lock().add(self, figures, own, measured)
            }
            Err(problem) => {
                self.tally.leave_out(self.points.get(&of_figure(&figures[own], part)).copied().unwrap_or(0));
                let problem = format!("{}, {}: {problem}", figures[own].name, part.name);
                !lock().leave_out(self, figures, problem)
            }
        }
    }

    /// Measures all points of these parts at once, as tasks of a cluster.
    fn work_on(
        &self,
        cluster: &Cluster,
        figures: &[Figure],
        works: &[(usize, PartFile)],
        progress: &Mutex<Progress>,
    ) -> anyhow::Result<()> {
        let mut progress = progress.lock().expect("no other thread is running");
        let mut read = Vec::new();
        for (own, part) in works {
            let done = progress.parts.iter().filter(|part| part.figure == *own);
            let text = part.text(&done.map(|part| &part.measured).collect::<Vec<_>>());
            match text {
                Ok(text) => read.push((*own, part, self.read(&figures[*own], &part.name, &text)?)),
                Err(problem) => {
                    let problem = format!("{}, {}: {problem}", figures[*own].name, part.name);
                    progress.leave_out(self, figures, problem);
                }
            }
        }
        let work: Vec<_> = read.iter().map(|(_, _, (experiment, store))| (experiment, store)).collect();
        let folder = self.folder.path();
        let results = cluster.measure(&work, folder, &self.args.study, self.screen, self.interrupted)?;
        for ((own, part, (experiment, store)), result) in read.into_iter().zip(results) {
            let measured = self.measured(&figures[own], &part.name, experiment, &store, &result);
            progress.add(self, figures, own, measured);
        }
        match progress.error.take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Writes and reads the experiment file of a figure's part, and opens its result folder.
    fn read(&self, figure: &Figure, part: &str, text: &str) -> anyhow::Result<(Experiment<'_>, Store)> {
        let folder = self.folder.path().join(&figure.name);
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let file = folder.join(format!("{part}.toml"));
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        let experiment = Experiment::read(&file, Some(&folder.join(part)), self.places, self.screen)?;
        let store = Store::open(&experiment.out)?;
        Ok((experiment, store))
    }

    /// The measured results of a part, the number of failed points, and how the sweep ended.
    fn measured(
        &self,
        figure: &Figure,
        part: &str,
        experiment: Experiment,
        store: &Store,
        result: &Sweep,
    ) -> anyhow::Result<(MeasuredPart, usize, anyhow::Result<()>)> {
        let ended = experiment.ended(result);
        let ended = match result.interrupted {
            true => ended,
            false => ended.map_err(|problem| anyhow!("{}, {part}: {problem}", figure.name)),
        };
        let table = experiment.table(store)?;
        store.folder().write("table.csv", &table.to_csv())?;
        if table.rows() > 0 {
            let up = ("../../report.html".to_owned(), "All figures".to_owned());
            sweep_page::write(&experiment, store, &table, Some(up))?;
        }
        Ok((MeasuredPart { plan: experiment.plan, table }, result.failures.len(), ended))
    }

    /// The report of the results so far.
    fn page(&self, figures: &[Figure], parts: &[PartDone], left_out: &[String]) -> ReproductionPage {
        let mut page = ReproductionPage {
            name: self.title.clone(),
            facts: vec![
                if self.args.quick { "coarse version" } else { "full version" }.to_owned(),
                format!("Doorbell {}", env!("CARGO_PKG_VERSION")),
                format!("{:.0} s of a host core", host_seconds(parts)),
            ],
            command: command_line(),
            figures: Vec::new(),
            warnings: parts.iter().filter_map(|part| part.problem.clone()).chain(left_out.to_vec()).collect(),
        };
        for (index, figure) in figures.iter().enumerate() {
            let mut own: Vec<&PartDone> = parts.iter().filter(|part| part.figure == index).collect();
            let order = |part: &&PartDone| figure.order(part.measured.plan.file.name());
            own.sort_by_key(order);
            let coarse = if self.args.quick { figure.coarse_parts() } else { Vec::new() };
            let reproduced = reproduced(figure, &own, &coarse, &mut page.warnings);
            page.figures.push(reproduced);
        }
        page
    }
}

/// Total host time of all points, including earlier measurements.
fn host_seconds(parts: &[PartDone]) -> f64 {
    let columns = parts.iter().filter_map(|part| part.measured.table.column("host_seconds"));
    columns.flat_map(|column| &column.cells).filter_map(Cell::number).sum()
}

/// A figure with its parts. `coarse` are the names of parts with a coarse version.
fn reproduced(
    figure: &Figure,
    parts: &[&PartDone],
    coarse: &[String],
    warnings: &mut Vec<String>,
) -> ReproducedFigure {
    let mut problems = Vec::new();
    let draw = |part: &&PartDone| {
        let MeasuredPart { plan, table } = &part.measured;
        plan.file.plot.iter().map(|spec| plot(spec, plan, table, &mut problems)).collect::<Vec<_>>()
    };
    let plots = parts.iter().flat_map(draw).collect();
    warnings.extend(problems.into_iter().map(|problem| format!("{}: {problem}", figure.name)));
    let measured: Vec<&MeasuredPart> = parts.iter().map(|part| &part.measured).collect();
    let claims = figure.claims.iter().map(|claim| {
        let judged = claim.judge(&measured);
        claim_row(claim, judged, claim.parts().any(|part| coarse.iter().any(|coarse| coarse == part)))
    });
    ReproducedFigure {
        name: figure.name.clone(),
        title: figure.title.clone(),
        about: figure.about.clone(),
        claims: claims.collect(),
        plots,
        parts: parts
            .iter()
            .filter(|part| part.measured.table.rows() > 0)
            .map(|part| page_of(figure, part))
            .collect(),
    }
}

/// Name of a part, and link to the page that lists its points.
fn page_of(figure: &Figure, part: &PartDone) -> (String, String) {
    let name = part.measured.plan.file.name();
    let address: String = format!("{}/{name}/report.html", figure.name)
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'/' => (byte as char).to_string(),
            other => format!("%{other:02X}"),
        })
        .collect();
    (name.to_owned(), address)
}

/// A claim's row. `coarse`: it uses fewer or shorter points than the full version.
fn claim_row(claim: &Claim, judged: ClaimVerdict, coarse: bool) -> ClaimRow {
    let (circular, shown_by) = claim.file_notes();
    let (verdict, mut why) = match judged.verdict {
        Verdict::Confirmed if claim.is_numeric() => ("confirmed", String::new()),
        Verdict::Confirmed => ("confirmed in direction", String::new()),
        Verdict::Differs(why) => ("differs", why.unwrap_or_else(|| "not investigated yet".to_owned())),
        Verdict::Undecided(why) => ("not decided", why),
        Verdict::NotTestable(why) => ("not testable", why),
        Verdict::NotMeasured => ("not measured", String::new()),
    };
    if let Some(command) = shown_by.filter(|_| verdict == "differs") {
        why += &format!(". Shown by `{command}`");
    }
    let verdict = match circular {
        Some(fitted) => {
            let both = if why.is_empty() { "" } else { ". " };
            why = format!("{why}{both}Fitted: {fitted}");
            format!("{verdict} (circular)")
        }
        None => verdict.to_owned(),
    };
    let cause = claim.cause.filter(|_| verdict.starts_with("differs"));
    let verdict = cause.map_or(verdict.clone(), |cause| format!("{verdict}: {}", cause.in_words()));
    ClaimRow {
        says: claim.says.clone(),
        paper: claim.paper(),
        ours: judged.ours,
        interval: claim.interval(),
        unit: claim.unit().to_owned(),
        verdict: if coarse { format!("{verdict}, coarse") } else { verdict },
        why,
        source: claim.source.clone().unwrap_or_default(),
    }
}

fn print_verdicts(page: &ReproductionPage) {
    for figure in &page.figures {
        outln!("{}: {}", figure.name, figure.title);
        for claim in &figure.claims {
            outln!("  {:<13} {}", claim.verdict, claim.in_words());
        }
    }
}
