//! `doorbell boot`: a guest with its console on the terminal.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use doorbell_bench::{
    BootLength, CoreCounts, M5Next, M5Ops, Places, Progress, Results, RunConfig, Stage, bare_identity,
    fingerprint, guest_identity, image_for, machine_with, open_disks, read_guest,
};
use doorbell_gdb::{Debuggee, Server, Status};
use doorbell_machine::{CheckpointError, CheckpointFile, CoreModel, Limits, Machine, Mode, Outcome};
use doorbell_sim::{Bytes, Ps};

use crate::exit::{Asked, INTERRUPTED};
use crate::inputs;
use crate::out::tell;
use crate::run_args::CommonArgs;
use crate::screen::{Screen, interrupt_flag};
use crate::terminal::{Input, Terminal};

/// Instructions between looks at the keyboard: some milliseconds of host time.
const SLICE_INSTRUCTIONS: u64 = 2_000_000;
/// The same in simulated time: a guest that traps without end retires no instructions.
const SLICE_TIME: Ps = Ps::from_ms(10);
/// Simulated time between attempts to type what is still unsent.
const TYPING_STEP: Ps = Ps::from_ms(1);
/// What ends the input of whoever reads a terminal.
const CTRL_D: u8 = 4;
/// When all that was piped in is typed, Ctrl-D is typed each time that the guest has printed nothing for so long.
const QUIET: Ps = Ps::from_ms(1000);
/// A guest that sleeps for ever in spite of so many will not end.
const ENDS_MAX: u32 = 3;
/// How long to wait for a key while the guest is ahead of the wall clock.
const IDLE_WAIT_MS: u32 = 5;

#[derive(Args)]
#[command(
    after_help = "Keys: Ctrl-A X leaves, Ctrl-A S says how far it is and how fast, Ctrl-A Ctrl-A sends a Ctrl-A. At the end of input from a pipe or a file, Ctrl-D is typed: a \
                        shell ends then, and with it the guest. Simulated time does not run ahead of the \
                        wall clock, so an idle guest costs nothing."
)]
pub struct BootArgs {
    /// Which image
    #[arg(long, value_name = "NAME", default_value = "testpmd")]
    image: String,
    /// Words to add to the kernel's command line (for instance doorbell.app=testpmd; without any, a shell)
    #[arg(long, value_name = "WORDS", default_value = "", allow_hyphen_values = true)]
    append: String,
    /// Run this raw binary from the beginning of RAM (0x80000000) in machine mode instead of an image
    #[arg(long, value_name = "FILE", conflicts_with_all = ["image", "append"])]
    bare: Option<PathBuf>,
    /// Time the program of --bare, and tell cycles and IPC at each m5op and at the end; so it is with a timed machine that is named
    #[arg(long, requires = "bare")]
    timed: bool,
    /// Go on from this checkpoint instead of booting
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// Write a checkpoint when the guest ends or you leave
    #[arg(long, value_name = "FILE")]
    save_checkpoint: Option<PathBuf>,
    /// Write what the guest and the wires did as hashes there, to compare versions of Doorbell
    #[arg(long, value_name = "FILE")]
    fingerprint: Option<PathBuf>,
    /// Leave at this simulated time since the boot, such as 2s; with --checkpoint, too, it counts from the boot
    #[arg(long, value_name = "TIME")]
    max_time: Option<Ps>,
    /// Folder for what the guest asks for by gem5 m5ops (statistics, checkpoints)
    #[arg(long, value_name = "DIR", default_value = "results/boot")]
    out: PathBuf,
    /// Let simulated time run as fast as it can, also while the guest waits
    #[arg(long)]
    fast_forward: bool,
    /// Hold the guest for a debugger that speaks gdb's remote protocol, and serve it at this address
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = "127.0.0.1:1234")]
    gdb: Option<SocketAddr>,
    #[command(flatten)]
    common: CommonArgs,
}

/// Boots and stays until the guest ends or the user leaves.
pub fn boot(args: &BootArgs, places: &Places) -> anyhow::Result<ExitCode> {
    let config = args.common.resolve(&[]).asked()?;
    // A guest's m5ops would begin the folder anew.
    inputs::keep(&args.out, args.checkpoint.as_slice()).asked()?;
    for (option, path) in [("--save-checkpoint", &args.save_checkpoint), ("--fingerprint", &args.fingerprint)]
    {
        path.as_deref().map_or(Ok(()), |path| inputs::can_be_written(option, path))?;
    }
    let (mut machine, identity) = match &args.bare {
        Some(path) => bare(args, &config, path)?,
        None => from_image(args, &config, places)?,
    };
    refuse_time_that_is_over(args, machine.now()).asked()?;
    if is_timed(args, &config).asked()? {
        machine.set_mode(Mode::Detailed);
    }
    if args.fingerprint.is_some() {
        machine.hear_wires();
    }
    let interrupted = interrupt_flag()?;
    // Nobody sits at a guest whose terminal has gone away.
    signal_hook::flag::register(signal_hook::consts::SIGHUP, Arc::clone(&interrupted))?;
    let gdb = args.gdb.map(listen).transpose()?;
    let (started, first, figures) = (Instant::now(), machine.instructions(), CoreCounts::of(&machine));
    let mut shell = Shell {
        course: Course::begin(&machine, args, places),
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
        // A debugger that has gone away meanwhile need not hear of it.
        let _ = gdb.exited(&mut shell.guest, *ended.as_ref().unwrap_or(&1));
    }
    let Shell { guest, terminal, identity, course, .. } = shell;
    drop(course);
    drop(terminal);
    tell!("{}", took(&guest.machine, first, started.elapsed()));
    CoreCounts::of(&guest.machine).since(&figures).into_iter().for_each(|line| tell!("{line}"));
    // Each is written however the guest has ended, and whatever becomes of the other.
    let written =
        [write_fingerprint(args, &guest.machine), write_checkpoint(args, &guest.machine, &identity)];
    let (code, ended) = ended.map_or_else(|error| (0, Err(error)), |code| (code, Ok(())));
    let mut failed = [ended].into_iter().chain(written).filter_map(Result::err);
    let Some(first) = failed.next() else { return Ok(ExitCode::from(code)) };
    failed.for_each(|error| tell!("doorbell: {error:#}"));
    Err(first)
}

/// Whether a program without a kernel is timed: a core is probed by one, and what a machine that is not timed takes says nothing of its core.
fn is_timed(args: &BootArgs, config: &RunConfig) -> anyhow::Result<bool> {
    let can = config.core.model == CoreModel::Timed;
    if args.timed && !can {
        bail!(
            "--timed: this machine's core.model is \"functional\"; name one that is timed, such as --preset server"
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
    tell!("checkpoint in {}", path.display());
    Ok(())
}

/// A checkpoint may be of a later time than that at which to leave.
fn refuse_time_that_is_over(args: &BootArgs, now: Ps) -> anyhow::Result<()> {
    match args.max_time {
        Some(until) if args.checkpoint.is_some() && until <= now => bail!(
            "--max-time {until}: the checkpoint's guest is at {now} already, and the time counts from its boot; give a later one"
        ),
        _ => Ok(()),
    }
}

fn listen(address: SocketAddr) -> anyhow::Result<Server> {
    let server =
        Server::bind(address).with_context(|| format!("cannot listen at {address} for a debugger"))?;
    let address = server.address()?;
    tell!("the guest waits for a debugger: gdb-multiarch -ex 'target remote {address}'");
    Ok(server)
}

fn from_image(args: &BootArgs, config: &RunConfig, places: &Places) -> anyhow::Result<(Machine, String)> {
    refuse_traces(config)?;
    let name = image_for(&args.image, &config.machine());
    let image = places.build_image(&name, &mut |line| tell!("{line}"))?;
    let bootargs = format!("{} {}", image.command_line(), args.append).trim().to_owned();
    let guest = guest_identity(&image, &bootargs);
    let mut machine = machine_with(config, &open_disks(Some(&image), &config.run.disks)?)?;
    match &args.checkpoint {
        Some(path) => machine.restore(&CheckpointFile::read(path)?, &guest).map_err(with_words)?,
        None => machine.load(&read_guest(&image, bootargs)?)?,
    }
    Ok((machine, guest))
}

/// What an image was booted with beside its own words is said again to whoever goes on from its checkpoint.
fn with_words(error: CheckpointError) -> anyhow::Error {
    match error {
        CheckpointError::OtherGuest(_) => {
            anyhow::anyhow!(
                "{error}. Say the words that it was booted with by --append: a script's guest, for instance, with --append \
                 doorbell.app=host"
            )
        }
        error => error.into(),
    }
}

/// Nothing here says when a machine is timed, and traces are played only while it is.
fn refuse_traces(config: &RunConfig) -> anyhow::Result<()> {
    if config.machine().beside > 0 {
        bail!("beside.traces: a boot plays none; doorbell run does, of a benchmark or with --script");
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

/// What ran, and how fast.
fn took(machine: &Machine, first: u64, gone: Duration) -> String {
    let (millions, seconds) = ((machine.instructions() - first) as f64 / 1e6, gone.as_secs_f64());
    let now = machine.now().as_secs_f64();
    format!(
        "{millions:.0} M instructions, {seconds:.1} s ({:.0} M a second), at {now:.3} s simulated",
        millions / seconds
    )
}

/// How far the guest is, as a moving line while it does not stand in the way of the guest's own.
struct Course {
    screen: Screen,
    is_shown: bool,
    stage: Stage,
    /// What comes when its kernel is up, and where the length of the boot is kept.
    booting: Option<(Stage, BootLength)>,
}

impl Course {
    fn begin(machine: &Machine, args: &BootArgs, places: &Places) -> Course {
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
        Course { is_shown: screen.moves(), screen, stage, booting }
    }

    /// Its kernel is up as soon as somebody listens to its console.
    fn follow(&mut self, machine: &Machine) {
        if machine.listens_to_input()
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

    /// The guest's lines come on this terminal, too.
    fn make_room(&mut self) {
        if self.is_shown && std::io::stdout().is_terminal() {
            self.is_shown = false;
            self.screen.clear();
        }
    }

    fn tell(&self, line: &str) {
        if self.is_shown { self.screen.say(line) } else { tell!("{line}\r") }
    }
}

struct Shell {
    course: Course,
    guest: Debuggee,
    gdb: Option<Server>,
    terminal: Terminal,
    /// What the guest asks for by m5ops, and the lock of the folder that it goes to.
    m5: Option<(M5Ops, Results)>,
    m5_limit: Bytes,
    out: PathBuf,
    /// Names the guest in checkpoints.
    identity: String,
    limit: Ps,
    /// Typed, and not yet taken by the guest's UART.
    unsent: Vec<u8>,
    /// Whether a kernel makes a terminal of the UART.
    has_terminal: bool,
    /// Since what was piped in is at its end: how many Ctrl-D were typed, and when the next one is due.
    ends: Option<(u32, Ps)>,
    real_time: bool,
}

impl Shell {
    /// Runs to the end and tells the exit code.
    fn run(&mut self, interrupted: &AtomicBool) -> anyhow::Result<u8> {
        let (started, first) = (Instant::now(), self.guest.machine.now());
        let mut held = Duration::ZERO;
        let mut told_asleep = false;
        loop {
            let looked = Instant::now();
            let status = self.serve_debugger();
            if status == Status::Killed {
                return Ok(0);
            }
            if status != Status::Running {
                let wait_ms = if status == Status::Expecting { IDLE_WAIT_MS } else { 0 };
                if self.listen(wait_ms)? {
                    return Ok(0);
                }
                if interrupted.load(Ordering::Relaxed) {
                    return Ok(INTERRUPTED);
                }
                // A guest that was held does not hurry to make up for it.
                held += looked.elapsed();
                continue;
            }
            let wall = first.saturating_add(Ps((started.elapsed() - held).as_nanos() as u64 * 1000));
            let slice = self.guest.machine.now().saturating_add(SLICE_TIME).min(self.limit);
            let horizon = if self.real_time { wall.min(slice) } else { slice };
            // While the UART's FIFO has no room for all that was typed, time goes on in small steps.
            let typing = if self.unsent.is_empty() || self.waits_for_reader() {
                Ps::MAX
            } else {
                self.guest.machine.now().saturating_add(TYPING_STEP)
            };
            let horizon = horizon.min(typing);
            let instructions = self.guest.machine.instructions() + SLICE_INSTRUCTIONS;
            let outcome = self.guest.run(&Limits { instructions, ..Limits::until(horizon) });
            self.show()?;
            self.course.follow(&self.guest.machine);
            self.course.show(&self.guest.machine);
            let ahead = match outcome {
                Outcome::Time => self.real_time,
                Outcome::Asleep => {
                    self.asleep(&mut told_asleep)?;
                    self.real_time
                }
                Outcome::Instructions | Outcome::Marker | Outcome::Breakpoint { .. } | Outcome::Beside => {
                    false
                }
                Outcome::PowerOff { code: 0 } => return Ok(0),
                Outcome::PowerOff { code } => bail!("the guest powered off with the failure code {code}"),
                Outcome::Reset => {
                    bail!("the guest asked for a reset (its kernel panicked, or a program rebooted it)")
                }
                Outcome::M5Op { hart, function, args } => match self.m5op(hart, function, args)? {
                    M5Next::Continue => false,
                    M5Next::Exit(code) => return Ok(code),
                },
            };
            self.report_to_debugger(outcome);
            if interrupted.load(Ordering::Relaxed) {
                return Ok(INTERRUPTED);
            }
            // Where instructions ended the slice, some harts are at the limit in time and others are not.
            if horizon >= self.limit && matches!(outcome, Outcome::Time | Outcome::Asleep) {
                return Ok(0);
            }
            if self.listen(if ahead { IDLE_WAIT_MS } else { 0 })? {
                return Ok(0);
            }
            self.type_unsent();
        }
    }

    /// Takes what comes from the keyboard or a pipe; whether the user wants to leave.
    fn listen(&mut self, wait_ms: u32) -> anyhow::Result<bool> {
        match self.terminal.read(wait_ms)? {
            Input::Quit => return Ok(true),
            Input::Status(bytes) => {
                self.unsent.extend(bytes);
                let said = self.course.screen.how_far(&self.course.at(&self.guest.machine));
                self.course.tell(&said);
            }
            Input::Bytes(bytes) => self.unsent.extend(bytes),
            Input::End { whole_line } if self.has_terminal => {
                self.unsent.extend((!whole_line).then_some(b'\n'));
                self.ends = Some((0, self.guest.machine.now()));
            }
            Input::End { .. } => {}
        }
        Ok(false)
    }

    /// What is piped in waits for its reader: a kernel's driver throws away what came before.
    fn waits_for_reader(&self) -> bool {
        self.has_terminal && !self.terminal.is_interactive() && !self.guest.machine.listens_to_input()
    }

    /// Types what there is, and the end of input once all else is typed.
    fn type_unsent(&mut self) {
        if self.waits_for_reader() {
            return;
        }
        let now = self.guest.machine.now();
        if let Some((typed, due)) = &mut self.ends
            && self.unsent.is_empty()
            && now >= *due
        {
            self.unsent.push(CTRL_D);
            (*typed, *due) = (*typed + 1, now.saturating_add(QUIET));
        }
        let taken = self.guest.machine.type_input(&self.unsent);
        self.unsent.drain(..taken);
    }

    /// Shows what the guest has printed.
    fn show(&mut self) -> anyhow::Result<()> {
        let printed = self.guest.machine.console.take_new();
        if !printed.is_empty() {
            self.course.make_room();
        }
        if let Some((_, due)) = &mut self.ends
            && !printed.is_empty()
        {
            *due = self.guest.machine.now().saturating_add(QUIET);
        }
        Ok(self.terminal.write(&printed)?)
    }

    /// The guest waits and nothing is left that would wake it but a key, if it listens to any; simulated time passes. An error,
    /// if this would never end.
    fn asleep(&self, told: &mut bool) -> anyhow::Result<()> {
        const ASLEEP: &str = "the guest sleeps, and nothing is left that would wake it";
        const MIE: u16 = 0x304;
        // A hart that has all interrupts switched off never wakes. Another one may be at its prompt.
        let for_ever = self.guest.machine.harts().iter().all(|hart| hart.csr(MIE) == Some(0));
        if for_ever && !std::mem::replace(told, true) {
            self.course.tell(&format!("doorbell: {ASLEEP}: it waits with all interrupts switched off"));
        }
        let is_told_to_end = !for_ever && self.ends.is_some_and(|(typed, _)| typed < ENDS_MAX);
        let no_key_comes = self.terminal.is_at_end() && !is_told_to_end;
        match self.limit == Ps::MAX && no_key_comes && self.gdb.is_none() {
            true => bail!("{ASLEEP}; end it with --max-time, or give it a terminal"),
            false => Ok(()),
        }
    }

    /// What the debugger, if there is one, lets the guest do. One whose connection breaks has gone.
    fn serve_debugger(&mut self) -> Status {
        let Some(gdb) = &mut self.gdb else { return Status::Running };
        gdb.poll(&mut self.guest).unwrap_or_else(|error| {
            self.course.tell(&format!("the debugger's session has ended: {error}"));
            Status::Running
        })
    }

    fn report_to_debugger(&mut self, outcome: Outcome) {
        let Some(gdb) = &mut self.gdb else { return };
        if let Err(error) = gdb.report(&mut self.guest, outcome) {
            self.course.tell(&format!("the debugger's session has ended: {error}"));
        }
    }

    fn m5op(&mut self, hart: usize, function: u8, args: [u64; 2]) -> anyhow::Result<M5Next> {
        if self.m5.is_none() {
            // What an earlier guest left there must not stand beside what this one asks for.
            let results = Results::begin(&self.out)?;
            let folder = results.in_place()?;
            self.m5 = Some((M5Ops::new(folder, self.m5_limit), results));
        }
        let (m5, _) = self.m5.as_mut().expect("it was just made");
        let say = &mut |line: &str| self.course.tell(line);
        Ok(m5.perform(&mut self.guest.machine, &self.identity, hart, function, args, say)?)
    }
}
