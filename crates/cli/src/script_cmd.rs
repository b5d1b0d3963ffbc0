//! `doorbell run --image … --script …`: a user's program in a guest.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use doorbell_bench::{CachePaths, Control, M5Ops, Mark, RunConfig, Script, Session, run_script};
use doorbell_files::GUEST_FILE_BYTES_MAX;
use doorbell_image::{DebugSymbols, GuestFile, delivery};
use doorbell_loadgen::{Rate, TrafficConfig};
use doorbell_sim::Ps;

use crate::exit::OrUsageError;
use crate::loads::Loads;
use crate::out::errln;
use crate::run_args::RunArgs;
use crate::run_cmd::{session, what_is_sent};
use crate::screen::Screen;

#[derive(Args)]
#[command(next_help_heading = "Your own program (see docs/images.md)")]
pub struct ScriptArgs {
    /// Run this in the guest instead of a benchmark
    ///
    /// A shell script, or any program for RISC-V; its exit status becomes this command's.
    #[arg(long, value_name = "FILE", conflicts_with = "benchmark")]
    pub script: Option<PathBuf>,
    /// The image to run in: a built-in one, or the path of your own recipe
    ///
    /// Default for a script: net. A benchmark can also run in an image that extends its own.
    #[arg(long, value_name = "NAME|PATH")]
    pub image: Option<String>,
    /// Also copy this host file to a path in the guest (repeatable)
    #[arg(long = "file", value_name = "HOST=GUEST")]
    files: Vec<String>,
    /// Words to add to the kernel's command line, for example doorbell.ip=10.1.0.2/24
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true, hide_short_help = true)]
    append: Option<String>,
    /// Start traffic and measurement when the console shows this [default: with the script]
    ///
    /// With "m5": when a program resets the statistics by m5op.
    #[arg(long, value_name = "TEXT|m5", hide_short_help = true)]
    begin_at: Option<String>,
    /// End them when the console shows this [default: with the script, or after --duration]
    ///
    /// With "m5": when a program dumps the statistics.
    #[arg(long, value_name = "TEXT|m5", hide_short_help = true)]
    end_at: Option<String>,
    /// End the run with the measurement, even if the script continues, as a server does
    #[arg(long, hide_short_help = true)]
    end_with_measurement: bool,
    /// Abort the script after this simulated time, such as 2s [default: run.script_timeout, 10s]
    #[arg(long, value_name = "TIME", hide_short_help = true)]
    pub time_limit: Option<Ps>,
}

impl ScriptArgs {
    /// One of these options that was given and does not apply to a benchmark.
    pub fn given(&self) -> Option<&'static str> {
        let given = [
            ("--file", !self.files.is_empty()),
            ("--append", self.append.is_some()),
            ("--begin-at", self.begin_at.is_some()),
            ("--end-at", self.end_at.is_some()),
            ("--end-with-measurement", self.end_with_measurement),
            ("--time-limit", self.time_limit.is_some()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(option, _)| option)
    }

    fn mark(text: &str) -> Mark {
        if text == "m5" { Mark::M5 } else { Mark::Line(text.to_owned()) }
    }

    /// The script as described by the user, without its traffic.
    fn script(&self, path: &Path) -> anyhow::Result<Script> {
        let content = read(path)?;
        let files = self.files.iter().map(|text| guest_file(text)).collect::<anyhow::Result<Vec<_>>>()?;
        let mut script = Script::new(content, &files).with_context(|| path.display().to_string())?;
        for (option, text) in [("--begin-at", &self.begin_at), ("--end-at", &self.end_at)] {
            if text.as_ref().is_some_and(|text| text.is_empty() || text.contains('\n')) {
                bail!("{option} needs a text on one line");
            }
        }
        script.begin = self.begin_at.as_deref().map(Self::mark);
        script.end = self.end_at.as_deref().map(Self::mark);
        script.end_with_measurement = self.end_with_measurement;
        Ok(script)
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    doorbell_files::read_bounded(path, GUEST_FILE_BYTES_MAX)
        .with_context(|| format!("cannot read {}", path.display()))
}

/// Parses HOST=GUEST. An executable host file is executable in the guest.
fn guest_file(text: &str) -> anyhow::Result<GuestFile> {
    use std::os::unix::fs::PermissionsExt;
    let Some((host, guest)) =
        text.rsplit_once('=').filter(|(host, guest)| !host.is_empty() && !guest.is_empty())
    else {
        bail!("--file \"{text}\" is not of the form HOST=GUEST, for example data.bin=/root/data.bin");
    };
    let path = Path::new(host);
    let content = read(path).context("--file")?;
    let mode = path.metadata().with_context(|| format!("cannot read {host}"))?.permissions().mode();
    let path = guest.trim_start_matches('/').to_owned();
    let file = GuestFile { path, executable: mode & 0o111 != 0, content };
    delivery(std::slice::from_ref(&file)).with_context(|| format!("--file \"{text}\""))?;
    Ok(file)
}

/// Runs a script, once per rate, and reports as for a benchmark.
pub fn run(args: &RunArgs, path: &Path, places: &CachePaths) -> anyhow::Result<ExitCode> {
    let own = &args.script;
    let image = own.image.as_deref().unwrap_or("net");
    let configs = args.configs(&[]).or_usage_error()?;
    let config = &configs[0];
    let mut script = own.script(path).or_usage_error()?;
    script.observe = args.observe.observe(None, Path::new("")).or_usage_error()?;
    script.check(config).or_usage_error()?;
    script.duration = args.duration.is_some().then_some(config.run.measured_time());
    // Without a rate no load is offered, and only the machine is measured.
    let mut sent: Vec<Option<(&RunConfig, Rate)>> = Vec::new();
    match args.rate.is_empty() && args.traffic.given().is_none() {
        true => sent.push(None),
        false => {
            for config in &configs {
                sent.extend(
                    args.rates(config).or_usage_error()?.into_iter().map(|rate| Some((&**config, rate))),
                );
            }
        }
    }
    let screen = Screen::new(args.output.quiet);
    let name = named(path);
    let mut loads = Loads::begin(args, &name, config, sent.len())?;
    let mut status = 0;
    let played = screen.simulating(None, |control| {
        let workload = Script::workload(image, own.append.as_deref().unwrap_or(""));
        let mut session = session(&args.guest, control, |source, control| {
            Session::prepare_workload(config, workload, places, source, control)
        })?;
        session.fingerprint = args.fingerprint;
        let symbols =
            args.observe.fetch_symbols(std::slice::from_ref(session.image()), places, control.say)?;
        for load in &sent {
            script.traffic = load.map(|(config, rate)| traffic(args, config, rate));
            if let Some((config, rate)) = load {
                (control.say)(&format!("{name}: {rate} of {}", what_is_sent(config)));
            }
            let ended = measure(&session, &symbols, &mut script, &mut loads, control);
            let ended = loads.with_finished_count(ended)?;
            status = if status == 0 { ended } else { status };
        }
        Ok(())
    });
    screen.clear();
    match played {
        Ok(()) => loads.finish("")?,
        Err(error) => {
            // The console of a failed script shows the cause.
            if loads.has_files() {
                match loads.keep_partial() {
                    Ok(kept) => errln!("doorbell: the guest's console output is in {}", kept.display()),
                    Err(also) => errln!("doorbell: the guest's console output was not kept: {also:#}"),
                }
            }
            return Err(error);
        }
    }
    if status != 0 {
        errln!("doorbell: {} ended with exit status {status}", path.display());
    }
    Ok(ExitCode::from(status))
}

/// Runs the script once. Returns its exit status.
fn measure(
    session: &Session,
    symbols: &[DebugSymbols],
    script: &mut Script,
    loads: &mut Loads,
    control: &mut Control,
) -> anyhow::Result<u8> {
    let (own, observe) = loads.next(symbols)?;
    script.observe = observe;
    let mut m5 = M5Ops::new(own.clone(), session.config().run.m5_limit);
    let mut point = run_script(session, script, &mut m5, &own, control)?;
    loads.name().clone_into(&mut point.summary.benchmark);
    own.write_point(&point)?;
    let status = point.summary.exit_status.unwrap_or(0);
    loads.done(&own, &point.config, point.summary, point.meanings, session.ran())?;
    Ok(status)
}

fn named(path: &Path) -> String {
    path.file_name().map_or_else(|| "script".to_owned(), |name| name.to_string_lossy().into_owned())
}

fn traffic(args: &RunArgs, config: &RunConfig, rate: Rate) -> TrafficConfig {
    let given = config.loadgen.traffic.clone();
    // With a script, the number of frames limits all frames sent.
    TrafficConfig { frames: args.frames.or(given.frames), ..given.at_rate(rate) }
}
