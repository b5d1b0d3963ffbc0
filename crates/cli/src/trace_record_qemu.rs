//! `doorbell trace record --qemu ISA`: records a guest executed by unmodified QEMU, replays it, and traces a
//! window of it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use doorbell_bench::CachePaths;
use doorbell_qemu_trace::nic::NicModel;
use doorbell_qemu_trace::recording::{Beside, Guest, RecordingRequest, Watch};
use doorbell_qemu_trace::replay::{Traced, Window, trace_window};
use doorbell_qemu_trace::target::{Target, target};
use doorbell_qemu_trace::tools::Tools;
use doorbell_qemu_trace::{guest, nic, plugin, recording_cache};
use doorbell_sim::Bytes;

use crate::exit::OrUsageError;
use crate::out::outln;
use crate::run_args::RunArgs;
use crate::screen::{Screen, interrupt_flag};

/// Name of the trace in a result folder.
const TRACE_FILE: &str = "trace.dbt";

/// Arguments of `trace record`: with `--qemu` the options differ from those of `doorbell run`.
pub enum RecordArgs {
    /// One of Doorbell's machines.
    Own(Box<RunArgs>),
    /// A guest under QEMU.
    Qemu(Box<QemuArgs>),
}

#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct QemuArgs {
    /// The guest's shell command; {port} in it is replaced by a free port of the host
    #[arg(required = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// The instruction set: x86_64, aarch64 or riscv64
    #[arg(long, value_name = "ISA")]
    qemu: String,
    /// The guest's image: a built-in one, or the path of your own recipe [default: net-amd64, net-arm64,
    /// net-riscv64]
    #[arg(long, value_name = "NAME|PATH")]
    image: Option<String>,
    /// The guest's RAM, at most 2GiB
    #[arg(long, value_name = "BYTES", default_value = "512MiB")]
    ram: Bytes,
    /// The guest's NIC: e1000e or igb [default: e1000e]
    #[arg(long, value_name = "NAME")]
    nic: Option<String>,
    /// Forward the host's {port} to this TCP port of the guest
    #[arg(long, value_name = "PORT")]
    forward: Option<u16>,
    /// Run this on the host alongside the guest, for example "iperf3 -s -1 -p {port}" (repeatable): iperf3,
    /// redis-benchmark or redis-cli. The guest reaches the host at 10.0.2.2
    #[arg(long, value_name = "COMMAND")]
    beside: Vec<String>,
    /// Run this on the host as soon as the guest's console shows the text (repeatable)
    #[arg(long, value_names = ["TEXT", "COMMAND"], num_args = 2)]
    beside_after: Vec<String>,
    /// The guest's command never ends: the recording ends when the host programs have ended
    #[arg(long)]
    server: bool,
    /// Abort the recording after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    timeout: u64,
    /// Start the trace when the guest's console shows this [default: with the guest's command]
    #[arg(long, value_name = "TEXT")]
    begin_at: Option<String>,
    /// Start it this many instructions later
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip: u64,
    /// Length in instructions, as QEMU counts them: each step of a REP prefix counts
    #[arg(long, value_name = "N", default_value_t = 100_000_000)]
    length: u64,
    /// Keep the recording in this folder, and reuse it from there [default: in the cache]
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Record again, even if this recording exists
    #[arg(long)]
    again: bool,
    /// The trace (*.dbt), or the folder for its trace.dbt
    #[arg(long, value_name = "FILE|DIR", default_value = "results/latest")]
    out: PathBuf,
    /// Do not show progress
    #[arg(short, long)]
    quiet: bool,
}

const AFTER_HELP: &str = "\
One recording serves many windows: it is kept, and with the same command but another --begin-at, --skip or --length it is
only replayed. See docs/qemu-traces.md.";

/// Whether the command line requests QEMU, which determines the other options.
fn requests_qemu() -> bool {
    std::env::args_os().any(|word| word.to_string_lossy().split('=').next() == Some("--qemu"))
}

impl Args for RecordArgs {
    fn augment_args(command: Command) -> Command {
        if requests_qemu() {
            return QemuArgs::augment_args(command);
        }
        let hint = "To record a guest under QEMU: doorbell trace record --qemu x86_64 --help";
        RunArgs::augment_args(command).before_help(hint)
    }

    fn augment_args_for_update(command: Command) -> Command {
        RecordArgs::augment_args(command)
    }
}

impl FromArgMatches for RecordArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<RecordArgs, clap::Error> {
        Ok(match requests_qemu() {
            true => RecordArgs::Qemu(Box::new(QemuArgs::from_arg_matches(matches)?)),
            false => RecordArgs::Own(Box::new(RunArgs::from_arg_matches(matches)?)),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = RecordArgs::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Resolves the target, its NIC, and the RAM in MiB.
fn resolve(args: &QemuArgs) -> anyhow::Result<(&'static Target, &'static NicModel, u64)> {
    let target = target(&args.qemu).map_err(anyhow::Error::msg).context("--qemu")?;
    let nic =
        args.nic.as_deref().map_or(Ok(target.nic), nic::nic).map_err(anyhow::Error::msg).context("--nic")?;
    let ram_mib = args.ram.0 >> 20;
    if !(1..=2048).contains(&ram_mib) {
        bail!("--ram: {} is not between 1MiB and 2GiB", args.ram);
    }
    if args.length == 0 {
        bail!("--length must be at least 1");
    }
    Ok((target, nic, ram_mib))
}

/// Records, replays and traces.
pub fn record(args: &QemuArgs, places: &CachePaths) -> anyhow::Result<ExitCode> {
    let (target, nic, ram_mib) = resolve(args).or_usage_error()?;
    let out = place(&args.out)?;
    let screen = Screen::new(args.quiet);
    let interrupted = interrupt_flag()?;
    let mut say = |line: &str| screen.say(line);
    let cache = &places.cache;
    let tools = Tools::fetch(target, cache, &mut say)?;
    let plugin = plugin::plugin(target, cache, &mut say)?;
    let image = guest::image(args.image.as_deref().unwrap_or(target.guest), cache, &mut say)?;
    let guest = Guest {
        target: target.name.to_owned(),
        nic: nic.name.to_owned(),
        image: image.dir().to_owned(),
        name: image.name().to_owned(),
        command: args.command.join(" "),
        ram_mib: ram_mib as u32,
        forward: args.forward,
    };
    let at_most = Duration::from_secs(args.timeout);
    let request = RecordingRequest { guest, beside: args.host_programs(), is_server: args.server, at_most };
    let mut watch = Watch { interrupted: &interrupted, say: &mut say };
    let folder =
        recording_cache::recording(&tools, &request, cache, args.keep.as_deref(), args.again, &mut watch)?;
    (watch.say)("replaying the recording up to the window's end");
    let mark = args.begin_at.clone().unwrap_or_else(|| guest::COMMAND_STARTS.to_owned());
    let window = Window { mark: Some(mark), skip: args.skip, length: args.length };
    let traced = trace_window(&tools, &plugin, &folder, &window, &out, &mut watch)?;
    screen.clear();
    print_summary(&traced, &out, args.length);
    Ok(ExitCode::SUCCESS)
}

impl QemuArgs {
    fn host_programs(&self) -> Vec<Beside> {
        let words = |text: &String| text.split_whitespace().map(str::to_owned).collect();
        let at_once = self.beside.iter().map(|text| Beside { words: words(text), after: None });
        let later = self.beside_after.chunks_exact(2);
        let later = later.map(|pair| Beside { words: words(&pair[1]), after: Some(pair[0].clone()) });
        at_once.chain(later).collect()
    }
}

/// Path of the trace.
fn place(out: &Path) -> anyhow::Result<PathBuf> {
    let is_file = out.extension().is_some_and(|extension| extension == "dbt");
    let file = if is_file { out.to_owned() } else { out.join(TRACE_FILE) };
    let folder = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(folder) = folder {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    Ok(file)
}

fn print_summary(traced: &Traced, out: &Path, requested: u64) {
    let Traced { executed, trace, slept, took } = traced;
    let bytes = std::fs::metadata(out).map_or(0, |file| file.len());
    let each = bytes as f64 / executed.instructions.max(1) as f64;
    outln!(
        "{}: {} instructions in {bytes} bytes, {each:.3} per instruction",
        out.display(),
        executed.instructions
    );
    outln!(
        "  {} frames in and {} out, {} bytes written by DMA and {} read",
        trace.frames_in,
        trace.frames_out,
        trace.dma_written_bytes,
        trace.dma_read_bytes
    );
    outln!(
        "  {} interrupts, {} exceptions, {} system calls and returns; asleep for {slept}",
        executed.interrupts,
        executed.exceptions,
        executed.system
    );
    let rate = executed.instructions as f64 * 1e-6 / took.as_secs_f64().max(1e-9);
    outln!("  {rate:.1} million instructions per second from replay to file, within the window");
    if executed.started < requested {
        outln!("  the recording ends before the requested {requested} instructions");
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        qemu: QemuArgs,
    }

    #[test]
    fn host_programs_start_at_once_or_after_a_console_text() {
        let words = [
            "doorbell",
            "--qemu",
            "x86_64",
            "--beside",
            "a -p {port}",
            "--beside-after",
            "is ready",
            "b -c 1",
            "server",
        ];
        let programs = Line::try_parse_from(words).unwrap().qemu.host_programs();
        assert_eq!((programs[0].words.join("|"), &programs[0].after), ("a|-p|{port}".to_owned(), &None));
        assert_eq!(
            (programs[1].words.join("|"), programs[1].after.as_deref()),
            ("b|-c|1".to_owned(), Some("is ready"))
        );
        assert!(Line::try_parse_from(&words[..8]).is_err(), "a guest has a command");
    }
}
