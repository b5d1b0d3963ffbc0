//! `doorbell boot`: a guest with its console on the terminal.

mod shell;

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use doorbell_bench::{
    BootLength, CachePaths, CoreCounts, Progress, RunConfig, Stage, bare_identity, fingerprint,
    guest_identity, machine_with, open_disks, read_guest,
};
use doorbell_gdb::{Debuggee, Server};
use doorbell_machine::{CheckpointError, CheckpointFile, CoreModel, Machine, Mode};
use doorbell_sim::Ps;

use crate::exit::OrUsageError;
use crate::inputs;
use crate::out::errln;
use crate::run_args::CommonArgs;
use crate::screen::{Screen, interrupt_flag};
use crate::terminal::Terminal;
use shell::Shell;

#[derive(Args)]
#[command(
    after_help = "Keys: Ctrl-A X leaves, Ctrl-A S shows the progress, Ctrl-A Ctrl-A sends a Ctrl-A. At the end of input from a pipe or a file, Ctrl-D is sent: a \
                        shell then ends, and with it the guest. Simulated time does not run ahead of the \
                        wall clock, so an idle guest costs nothing."
)]
pub struct BootArgs {
    /// Image to boot
    #[arg(long, value_name = "NAME", default_value = "testpmd")]
    image: String,
    /// Words to add to the kernel's command line (for example doorbell.app=testpmd; without one, a shell
    /// runs)
    #[arg(long, value_name = "WORDS", default_value = "", allow_hyphen_values = true)]
    append: String,
    /// Run this raw binary from the start of RAM (0x80000000) in machine mode instead of an image
    #[arg(long, value_name = "FILE", conflicts_with_all = ["image", "append"])]
    bare: Option<PathBuf>,
    /// Time the program of --bare, and print cycles and IPC at each m5op and at the end; default if a timed
    /// machine is given
    #[arg(long, requires = "bare")]
    timed: bool,
    /// Continue from this checkpoint instead of booting
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// Write a checkpoint when the guest ends or you leave
    #[arg(long, value_name = "FILE")]
    save_checkpoint: Option<PathBuf>,
    /// Write hashes of the guest's and the wires' activity to this file, to compare versions of Doorbell
    #[arg(long, value_name = "FILE")]
    fingerprint: Option<PathBuf>,
    /// Leave at this simulated time after the boot started, such as 2s; also with --checkpoint
    #[arg(long, value_name = "TIME")]
    max_time: Option<Ps>,
    /// Folder for results that the guest requests by gem5 m5ops (statistics, checkpoints)
    #[arg(long, value_name = "DIR", default_value = "results/boot")]
    out: PathBuf,
    /// Let simulated time run as fast as possible, even while the guest waits
    #[arg(long)]
    fast_forward: bool,
    /// Halt the guest for a debugger that uses gdb's remote protocol, and listen at this address
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = "127.0.0.1:1234")]
    gdb: Option<SocketAddr>,
    #[command(flatten)]
    common: CommonArgs,
}

/// Boots and runs until the guest ends or the user leaves.
pub fn boot(args: &BootArgs, places: &CachePaths) -> anyhow::Result<ExitCode> {
    let config = args.common.resolve(&[]).or_usage_error()?;
    // A guest's m5ops would replace the folder.
    inputs::keep(&args.out, args.checkpoint.as_slice()).or_usage_error()?;
    for (option, path) in [("--save-checkpoint", &args.save_checkpoint), ("--fingerprint", &args.fingerprint)]
    {
        path.as_deref().map_or(Ok(()), |path| inputs::can_be_written(option, path))?;
    }
    let (mut machine, identity) = match &args.bare {
        Some(path) => bare(args, &config, path)?,
        None => from_image(args, &config, places)?,
    };
    check_max_time(args, machine.now()).or_usage_error()?;
    if is_timed(args, &config).or_usage_error()? {
        machine.set_mode(Mode::Detailed);
    }
    if args.fingerprint.is_some() {
        machine.start_wire_hashes();
    }
    let interrupted = interrupt_flag()?;
    // An interactive guest ends when its terminal is closed.
    signal_hook::flag::register(signal_hook::consts::SIGHUP, Arc::clone(&interrupted))?;
    let gdb = args.gdb.map(listen).transpose()?;
    let (started, first, figures) = (Instant::now(), machine.instructions(), CoreCounts::of(&machine));
    let mut shell = Shell {
        progress: BootProgress::begin(&machine, args, places),
        guest: Debuggee::new(machine),
        gdb,
        terminal: Terminal::open()?,
        m5: None,
        m5_limit: config.run.m5_limit,
        out: args.out.clone(),
        identity,
        limit: args.max_time.unwrap_or(Ps::MAX),
        unsent: Vec::new(),
        has_terminal: args.bare.is_none(),
        ends: None,
        real_time: !args.fast_forward,
    };
    let ended = shell.run(&interrupted);
    if let Some(gdb) = &mut shell.gdb {
        // A debugger that has disconnected meanwhile need not be notified.
        let _ = gdb.exited(&mut shell.guest, *ended.as_ref().unwrap_or(&1));
    }
    let Shell { guest, terminal, identity, progress, .. } = shell;
    drop(progress);
    drop(terminal);
    errln!("{}", run_summary(&guest.machine, first, started.elapsed()));
    CoreCounts::of(&guest.machine).since(&figures).into_iter().for_each(|line| errln!("{line}"));
    // Both files are written however the guest ended, even if one of them fails.
    let written =
        [write_fingerprint(args, &guest.machine), write_checkpoint(args, &guest.machine, &identity)];
    let (code, ended) = ended.map_or_else(|error| (0, Err(error)), |code| (code, Ok(())));
    let mut failed = [ended].into_iter().chain(written).filter_map(Result::err);
    let Some(first) = failed.next() else { return Ok(ExitCode::from(code)) };
    failed.for_each(|error| errln!("doorbell: {error:#}"));
    Err(first)
}

/// Whether a program without a kernel is timed. A core is probed by one, and an untimed machine says nothing
/// about its core.
fn is_timed(args: &BootArgs, config: &RunConfig) -> anyhow::Result<bool> {
    let can = config.core.model == CoreModel::Timed;
    if args.timed && !can {
        bail!(
            "--timed: this machine's core.model is \"functional\"; choose a timed machine, such as --preset server"
        );
    }
    Ok(can && args.bare.is_some() && (args.timed || args.common.names_machine()))
}

fn write_fingerprint(args: &BootArgs, machine: &Machine) -> anyhow::Result<()> {
    let (Some(path), Some(fingerprint)) = (&args.fingerprint, fingerprint(machine)) else { return Ok(()) };
    let text = serde_json::to_string_pretty(&fingerprint)?;
    doorbell_files::replace(path, text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
}

fn write_checkpoint(args: &BootArgs, machine: &Machine, identity: &str) -> anyhow::Result<()> {
    let Some(path) = &args.save_checkpoint else { return Ok(()) };
    machine.checkpoint(identity, "boot").write(path)?;
    errln!("checkpoint in {}", path.display());
    Ok(())
}

/// Rejects an end time before the time of the checkpoint.
fn check_max_time(args: &BootArgs, now: Ps) -> anyhow::Result<()> {
    match args.max_time {
        Some(until) if args.checkpoint.is_some() && until <= now => bail!(
            "--max-time {until}: the checkpoint's guest is at {now} already, counted from its boot; give a later time"
        ),
        _ => Ok(()),
    }
}

fn listen(address: SocketAddr) -> anyhow::Result<Server> {
    let server =
        Server::bind(address).with_context(|| format!("cannot listen at {address} for a debugger"))?;
    let address = server.address()?;
    errln!("the guest waits for a debugger: gdb-multiarch -ex 'target remote {address}'");
    Ok(server)
}

fn from_image(args: &BootArgs, config: &RunConfig, places: &CachePaths) -> anyhow::Result<(Machine, String)> {
    refuse_traces(config)?;
    let image = places.build_image(&args.image, &mut |line| errln!("{line}"))?;
    let bootargs = format!("{} {}", image.command_line(), args.append).trim().to_owned();
    let guest = guest_identity(&image, &bootargs);
    let mut machine = machine_with(config, &open_disks(Some(&image), &config.run.disks)?)?;
    match &args.checkpoint {
        Some(path) => machine.restore(&CheckpointFile::read(path)?, &guest).map_err(with_append_hint)?,
        None => machine.load(&read_guest(&image, bootargs)?)?,
    }
    Ok((machine, guest))
}

/// Adds a hint: a boot from a checkpoint needs the same --append words as the original boot.
fn with_append_hint(error: CheckpointError) -> anyhow::Error {
    match error {
        CheckpointError::OtherGuest(_) => {
            anyhow::anyhow!(
                "{error}. Repeat the words of the original boot with --append; for a script's guest, for example, --append \
                 doorbell.app=host"
            )
        }
        error => error.into(),
    }
}

/// Rejects traces: a boot has no timed phase, and traces are played only while a machine is timed.
fn refuse_traces(config: &RunConfig) -> anyhow::Result<()> {
    if config.machine().trace_cores > 0 {
        bail!("beside.traces does not apply to a boot; use doorbell run with a benchmark or --script");
    }
    Ok(())
}

fn bare(args: &BootArgs, config: &RunConfig, path: &Path) -> anyhow::Result<(Machine, String)> {
    refuse_traces(config)?;
    let program = doorbell_files::read_bounded(path, doorbell_files::GUEST_FILE_BYTES_MAX)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let guest = bare_identity(&program);
    let mut machine = machine_with(config, &open_disks(None, &config.run.disks)?)?;
    match &args.checkpoint {
        Some(checkpoint) => machine.restore(&CheckpointFile::read(checkpoint)?, &guest)?,
        None if machine.load_bare(&program) => {}
        None => bail!("{} does not fit into the machine's {} of RAM", path.display(), config.platform.ram),
    }
    Ok((machine, guest))
}

/// Summary of the executed instructions and the speed.
fn run_summary(machine: &Machine, first: u64, gone: Duration) -> String {
    let (millions, seconds) = ((machine.instructions() - first) as f64 / 1e6, gone.as_secs_f64());
    let now = machine.now().as_secs_f64();
    format!(
        "{millions:.0} M instructions, {seconds:.1} s ({:.0} M per second), at {now:.3} s simulated",
        millions / seconds
    )
}

/// Progress of the guest, shown as a line until the guest prints on the same terminal.
struct BootProgress {
    screen: Screen,
    is_shown: bool,
    stage: Stage,
    /// The stage after the kernel is up, and the stored length of earlier boots.
    booting: Option<(Stage, BootLength)>,
}

impl BootProgress {
    fn begin(machine: &Machine, args: &BootArgs, places: &CachePaths) -> BootProgress {
        let (screen, from) = (Screen::new(false), machine.now());
        let length = args.max_time.map(|until| until.saturating_sub(from));
        let running = Stage::new("running", from, length);
        let (stage, booting) = if args.bare.is_some() || args.checkpoint.is_some() {
            (running, None)
        } else {
            let kept = BootLength::of_image(places, &args.image, &args.append);
            let stage = match length {
                Some(_) => Stage::new("booting", from, length),
                None => Stage::likely("booting", from, kept.last()),
            };
            (stage, Some((running, kept)))
        };
        BootProgress { is_shown: screen.moves(), screen, stage, booting }
    }

    /// Switches to the running stage once the kernel reads its console.
    fn follow(&mut self, machine: &Machine) {
        if machine.has_receive_interrupt()
            && let Some((running, kept)) = self.booting.take()
        {
            self.stage = running;
            kept.keep(machine.now());
        }
    }

    fn at(&self, machine: &Machine) -> Progress {
        self.stage.at(machine.instructions(), machine.now())
    }

    fn show(&self, machine: &Machine) {
        if self.is_shown {
            self.screen.progress(&self.at(machine));
        }
    }

    /// Hides the progress line, because the guest's output is on the same terminal.
    fn make_room(&mut self) {
        if self.is_shown && std::io::stdout().is_terminal() {
            self.is_shown = false;
            self.screen.clear();
        }
    }

    fn say(&self, line: &str) {
        if self.is_shown { self.screen.say(line) } else { errln!("{line}\r") }
    }
}
