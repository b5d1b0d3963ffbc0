//! `doorbell trace`: records, inspects, plays and converts traces of executed instructions.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand};
use doorbell_bench::CachePaths;
use doorbell_sim::memory::Walk;
use doorbell_sim::ports::DmaDirection;
use doorbell_sim::{Op, OpClass};
use doorbell_trace::champsim::{self, RegisterNumbers, Variant};
use doorbell_trace::system::{
    Counts, Description, DeviceEvent, EventKind, Step, TraceError, TraceFile, TraceWriter,
};

use crate::exit::OrUsageError;
use crate::inputs::remove_output_on_signal;
use crate::out::{errln, outln};
use crate::run_cmd;
use crate::trace_edit::{self, CutArgs, MergeArgs, is_same, write_complete};
use crate::trace_info;
use crate::trace_record_qemu::{self, RecordArgs};
use crate::trace_run::{self, PlayArgs};

#[derive(Subcommand)]
pub enum TraceCommand {
    /// Record a benchmark's measurement as trace.dbt, or with --qemu, a guest under unmodified QEMU
    Record(RecordArgs),
    /// Show the contents of traces
    Info(Files),
    /// Verify traces against their indices
    Check(Files),
    /// Print a hart's ops, or device events
    Dump(DumpArgs),
    /// Play traces on any configuration, as recorded or at another rate (docs/traces.md)
    Run(Box<PlayArgs>),
    /// Convert a hart's trace to ChampSim's format, or a ChampSim or DynamoRIO trace to Doorbell's
    Convert(ConvertArgs),
    /// Extract a range of instructions, with the device events of that time, as a new trace
    Cut(CutArgs),
    /// Merge several traces into one, each with its own harts, devices and memory
    Merge(MergeArgs),
}

#[derive(Args)]
pub struct Files {
    /// Traces
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

#[derive(Args)]
pub struct DumpArgs {
    /// The trace
    file: PathBuf,
    /// The hart whose ops are printed
    #[arg(long, value_name = "N", default_value_t = 0)]
    hart: u16,
    /// First instruction of the hart, counted from 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    from: u64,
    /// Number of instructions, or of events
    #[arg(long, value_name = "N", default_value_t = 100)]
    count: u64,
    /// Print device events instead
    #[arg(long, conflicts_with_all = ["hart", "from"])]
    devices: bool,
}

#[derive(Args)]
pub struct ConvertArgs {
    /// Input: a Doorbell trace; a DynamoRIO trace (a file, or the folder of a program's threads or cores); or
    /// a ChampSim trace (plain, .xz, .gz or .zst)
    input: PathBuf,
    /// Output: a ChampSim trace, compressed according to its name; or a Doorbell trace (.dbt)
    output: PathBuf,
    /// The hart whose ops go to a ChampSim trace [default: 0]
    #[arg(long, value_name = "N")]
    hart: Option<u16>,
    /// The ChampSim trace has the variant with 96 bytes per instruction
    #[arg(long)]
    cloudsuite: bool,
}

pub fn trace(command: TraceCommand, places: &CachePaths) -> anyhow::Result<ExitCode> {
    match command {
        TraceCommand::Record(RecordArgs::Own(mut args)) => {
            args.observe.trace = true;
            return run_cmd::run(&args, places);
        }
        TraceCommand::Record(RecordArgs::Qemu(args)) => return trace_record_qemu::record(&args, places),
        TraceCommand::Info(files) => files.files.iter().try_for_each(|path| trace_info::info(path))?,
        TraceCommand::Check(files) => {
            for path in &files.files {
                let counts = open(path)?.check().with_context(|| path.display().to_string())?;
                outln!("{}: complete; {}", path.display(), words(&counts));
            }
        }
        TraceCommand::Dump(args) if args.devices => dump_devices(&args)?,
        TraceCommand::Dump(args) => dump_ops(&args)?,
        TraceCommand::Convert(args) => convert(&args)?,
        TraceCommand::Run(args) => return trace_run::run(&args, places),
        TraceCommand::Cut(args) => trace_edit::cut(&args)?,
        TraceCommand::Merge(args) => trace_edit::merge(&args)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens a Doorbell trace, or converts a DynamoRIO trace on the fly.
pub(crate) fn open(path: &Path) -> anyhow::Result<TraceFile> {
    match TraceFile::open(path) {
        Err(_) if doorbell_drmemtrace::is_of_drmemtrace(path) => {
            let (file, notes) = doorbell_drmemtrace::open(path)?;
            notes.iter().for_each(|note| errln!("{}: {note}", path.display()));
            Ok(file)
        }
        opened => opened.with_context(|| path.display().to_string()),
    }
}

pub(crate) fn words(counts: &Counts) -> String {
    let all: u64 = counts.instructions.iter().sum();
    let Counts { events, frames_in, frames_out, dma_read_bytes, dma_written_bytes, .. } = counts;
    format!(
        "{all} instructions, {events} device events ({frames_in} frames in, {frames_out} out, {dma_written_bytes} bytes \
         written by DMA, {dma_read_bytes} read)"
    )
}

fn dump_ops(args: &DumpArgs) -> anyhow::Result<()> {
    let file = open(&args.file)?;
    let of = || args.file.display().to_string();
    let all = file.counts().instructions.get(usize::from(args.hart)).copied().unwrap_or(0);
    let mut reader = file.hart(args.hart, args.from).with_context(of)?;
    if args.from >= all && args.from > 0 {
        let wrong = anyhow!(
            "{}: hart {} has {all} instructions; instruction {} does not exist",
            of(),
            args.hart,
            args.from
        );
        return Err(wrong).or_usage_error();
    }
    let (mut ops, mut at) = (Vec::new(), reader.position());
    let end = args.from.saturating_add(args.count);
    while at < end
        && let Some(step) = reader.next(&mut ops).with_context(of)?
    {
        for op in ops.drain(..) {
            if (args.from..end).contains(&at) {
                outln!("{at:>10} {}", op_line(&op, &step));
            }
            at += u64::from(op.ends_instruction());
        }
        if at > args.from && at < end && step.trapped {
            outln!("{at:>10} an exception or interrupt is taken");
        }
    }
    Ok(())
}

fn op_line(op: &Op, step: &Step) -> String {
    let mode = if op.flags & Op::PRIVILEGED != 0 { 's' } else { 'u' };
    let space = step.space.map_or("-".to_owned(), |space| space.to_string());
    let mut line = format!("{mode} {space:>5} {:#018x} {:<12}", op.pc, format!("{:?}", op.class));
    let sources: Vec<String> = op.sources.iter().filter(|source| **source != 0).map(u8::to_string).collect();
    line += &format!(" {:>3} <- {:<11}", op.destination, sources.join(","));
    if op.class.is_branch() {
        line += &if op.is_taken() { format!(" to {:#x}", op.virt) } else { " not taken".to_owned() };
    } else if op.class.is_memory() || op.class == OpClass::Device {
        line += &format!(" {} bytes at {:#x} ({:#x})", op.size, op.virt, op.phys.0);
    }
    line
}

fn dump_devices(args: &DumpArgs) -> anyhow::Result<()> {
    let of = || args.file.display().to_string();
    let mut reader = open(&args.file)?.devices().with_context(of)?;
    for _ in 0..args.count {
        let Some(event) = reader.next().with_context(of)? else { break };
        outln!("{}", event_line(&event));
    }
    Ok(())
}

fn event_line(event: &DeviceEvent) -> String {
    let DeviceEvent { device, hart, after, since, what } = event;
    let what = match what {
        EventKind::Register { addr, size, value, stored } => {
            let by = stored.map(|by| format!(", by instruction {} of hart {}", by.after, by.hart));
            format!("store of {value:#x} ({size} bytes) at {addr}{}", by.unwrap_or_default())
        }
        EventKind::Interrupt { raised } => {
            format!("interrupt {}", if *raised { "raised" } else { "lowered" })
        }
        EventKind::FrameIn { bytes } => format!("a frame of {bytes} bytes arrives"),
        EventKind::FrameOut { bytes } => format!("a frame of {bytes} bytes leaves"),
        EventKind::Dma(dma) => {
            let (purpose, visible) = (dma.purpose, dma.visible);
            let (verb, seen) = match dma.direction {
                DmaDirection::Read => ("reads", String::new()),
                DmaDirection::Write => ("writes", format!(", visible from instruction {visible}")),
            };
            let (len, addr, frame, offset, took) = (dma.len, dma.addr, dma.frame, dma.offset, dma.took);
            format!(
                "{verb} {len} bytes at {addr}: {purpose:?}, frame {frame} from byte {offset}, in {took}{seen}"
            )
        }
    };
    format!("device {device}, {since} after instruction {after} of hart {hart}: {what}")
}

fn convert(args: &ConvertArgs) -> anyhow::Result<()> {
    let variant = Variant::of(args.cloudsuite);
    let ours = args.output.extension().is_some_and(|extension| extension == "dbt");
    let opened = TraceFile::open(&args.input);
    let is_drmemtrace = opened.is_err() && doorbell_drmemtrace::is_of_drmemtrace(&args.input);
    check_options(args, ours, is_drmemtrace).or_usage_error()?;
    remove_output_on_signal(&args.output)?;
    if is_drmemtrace {
        return match ours {
            true => from_drmemtrace(args),
            false => to_champsim(&open(&args.input)?, args, variant),
        };
    }
    match (opened, ours) {
        (Ok(file), false) => to_champsim(&file, args, variant),
        (Ok(_), true) => {
            Err(anyhow!("{} is already a Doorbell trace", args.input.display())).or_usage_error()
        }
        (Err(TraceError::Foreign { .. }), true) => from_champsim(args, variant),
        (Err(TraceError::Foreign { .. }), false) => {
            let problem =
                "is not a Doorbell trace; to convert it to one, give the output a name that ends in .dbt";
            Err(anyhow!("{} {problem}", args.input.display())).or_usage_error()
        }
        (Err(error), _) => Err(error).with_context(|| args.input.display().to_string()),
    }
}

/// Rejects options that do not apply to the conversion, and misleading output names.
fn check_options(args: &ConvertArgs, ours: bool, is_drmemtrace: bool) -> anyhow::Result<()> {
    let ConvertArgs { input, output, hart, cloudsuite } = args;
    if is_same(input, output) {
        bail!("{}: the output would overwrite the input; choose another output file", input.display());
    }
    let name = output.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let packed = [".xz", ".gz", ".zst"].iter().find_map(|ending| name.strip_suffix(ending));
    if !ours && packed.unwrap_or(&name).ends_with(".dbt") {
        bail!(
            "{}: the name of a Doorbell trace must end in .dbt, in lower case and without a compression suffix; the name of a \
             ChampSim trace must not contain it",
            output.display()
        );
    }
    if ours && hart.is_some() {
        bail!(
            "--hart applies only to a ChampSim output, and {} contains all harts of {}; remove it",
            output.display(),
            input.display()
        );
    }
    if ours && *cloudsuite && is_drmemtrace {
        bail!(
            "--cloudsuite: neither {} nor {} is a ChampSim trace; remove it",
            input.display(),
            output.display()
        );
    }
    Ok(())
}

fn to_champsim(file: &TraceFile, args: &ConvertArgs, variant: Variant) -> anyhow::Result<()> {
    let of = || args.input.display().to_string();
    let hart = args.hart.unwrap_or(0);
    let mut reader = file.hart(hart, 0).with_context(of)?;
    // A trace converted from ChampSim's format keeps that format's register numbers.
    let is_champsim = file.description().isa == champsim::ISA;
    let numbers = if is_champsim { RegisterNumbers::ChampSim } else { RegisterNumbers::Own };
    let mut writer = champsim::Writer::create(&args.output, variant)?.with_numbers(numbers);
    let mut ops = Vec::new();
    while reader.next(&mut ops).with_context(of)?.is_some() {
        writer.write(&ops)?;
        ops.clear();
    }
    let (written, shortened) = (writer.written(), writer.shortened());
    writer.finish()?;
    let addresses = if file.description().physical { "physical" } else { "virtual" };
    let output = args.output.display();
    outln!("{output}: {written} instructions of hart {hart}, by {addresses} addresses");
    if shortened > 0 {
        outln!("  {shortened} of them write more registers and addresses than the format can hold");
    }
    Ok(())
}

fn from_drmemtrace(args: &ConvertArgs) -> anyhow::Result<()> {
    let converted =
        write_complete(&args.output, None, |to| Ok(doorbell_drmemtrace::convert(&args.input, to)?))?;
    outln!("{}: {}", args.output.display(), words(&converted.counts));
    converted.notes.iter().for_each(|note| outln!("  {note}"));
    Ok(())
}

fn from_champsim(args: &ConvertArgs, variant: Variant) -> anyhow::Result<()> {
    let trace = champsim::Trace::open(&args.input, variant, None)?;
    if let Some(doubt) = trace.survey().doubt(variant) {
        errln!("{}: {doubt}", args.input.display());
    }
    let description = Description {
        recorder: format!("ChampSim's format, {variant:?}"),
        recorded: args.input.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        isa: champsim::ISA.to_owned(),
        harts: 1,
        ..Description::default()
    };
    let of = || args.output.display().to_string();
    let counts = write_complete(&args.output, None, |to| {
        let writer = TraceWriter::create(to, &description).with_context(of)?;
        write_champsim(&trace, writer, &args.output)
    })?;
    outln!("{}: {}", args.output.display(), words(&counts));
    Ok(())
}

fn write_champsim(trace: &champsim::Trace, mut writer: TraceWriter, output: &Path) -> anyhow::Result<Counts> {
    let of = || output.display().to_string();
    let (mut stream, mut ops, mut first) = (trace.ops()?, Vec::new(), 0);
    let mut no_walk = |_: u64| Walk::default();
    while stream.instruction(&mut ops)? {
        // Blocks end after a jump, as for a machine.
        if ops[first..].iter().any(|op| op.class.is_branch()) || ops.len() > 64 {
            writer.block(0, &Step::default(), &ops, &mut no_walk).with_context(of)?;
            ops.clear();
        }
        first = ops.len();
    }
    writer.block(0, &Step::default(), &ops, &mut no_walk).with_context(of)?;
    writer.finish().with_context(of)
}
