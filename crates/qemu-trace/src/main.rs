//! Records a guest under QEMU, replays a window of it, and counts what is in it.

#![forbid(unsafe_code)]

mod count;

use std::path::{Path, PathBuf};
use std::process::ChildStdout;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};

use doorbell_qemu_trace::error::StreamError;
use doorbell_qemu_trace::executed::Execution;
use doorbell_qemu_trace::nic::{NicModel, nic};
use doorbell_qemu_trace::recording::{Beside, Guest, RecordError, Replay, Window, record, replay};
use doorbell_qemu_trace::target::{Target, target};
use doorbell_qemu_trace::tools::Tools;
use doorbell_qemu_trace::{guest, plugin};

/// See the module.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Do,
}

#[derive(Debug, Subcommand)]
enum Do {
    /// Record a guest until its command is over
    Record {
        /// The recording's folder
        folder: PathBuf,
        /// The instruction set, as QEMU calls it: x86_64, aarch64 or riscv64
        #[arg(long, default_value = "x86_64")]
        target: String,
        /// The NIC, as QEMU calls it: e1000e or igb
        #[arg(long)]
        nic: Option<String>,
        /// The guest, or a recipe [default: net-amd64, net-arm64 or net-riscv64]
        #[arg(long)]
        guest: Option<String>,
        /// The guest's RAM in MiB
        #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=2048))]
        ram: u32,
        /// A TCP port of the guest's that {port} of the host leads to
        #[arg(long)]
        forward: Option<u16>,
        /// A program on the host, in one word: "iperf3 -s -1 -p {port}"
        #[arg(long)]
        beside: Option<String>,
        /// What the guest's console says before that is started
        #[arg(long)]
        after: Option<String>,
        /// The guest's command
        #[arg(required = true)]
        command: Vec<String>,
    },
    /// Replay a window of a recording, and count
    Count {
        #[command(flatten)]
        part: Part,
        /// Show so many ops and events
        #[arg(long, default_value_t = 0)]
        show: u64,
    },
    /// Replay a window of a recording, and keep its raw stream
    Raw {
        #[command(flatten)]
        part: Part,
        /// The file
        #[arg(long)]
        out: PathBuf,
    },
    /// Count what is in a raw stream
    CountRaw {
        /// The file
        file: PathBuf,
        /// The instruction set that it is of
        #[arg(long, default_value = "x86_64")]
        target: String,
        /// The NIC that it has
        #[arg(long, default_value = "e1000e")]
        nic: String,
        /// Show so many ops and events
        #[arg(long, default_value_t = 0)]
        show: u64,
    },
}

/// A window of a recording.
#[derive(Debug, clap::Args)]
struct Part {
    /// The recording's folder
    folder: PathBuf,
    /// The window begins when the console has printed this
    #[arg(long)]
    mark: Option<String>,
    /// and so many instructions later
    #[arg(long, default_value_t = 0)]
    skip: u64,
    /// Instructions of the window
    #[arg(long, default_value_t = 10_000_000)]
    length: u64,
}

impl Part {
    fn replay(self, cache: &Path) -> Result<(Replay, ChildStdout), RecordError> {
        let mut say = |step: &str| eprintln!("{step}");
        let target = Guest::recorded(&self.folder)?.target()?;
        let tools = Tools::fetch(target, cache, &mut say)?;
        let plugin = plugin::plugin(target, cache, &mut say)?;
        let window = Window { mark: self.mark, skip: self.skip, length: self.length };
        replay(&tools, &plugin, &self.folder, &window)
    }
}

fn main() -> std::process::ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn run(what: Do) -> Result<(), RecordError> {
    let cache = doorbell_image::cache_folder(|name| std::env::var_os(name));
    let cache =
        cache.ok_or_else(|| RecordError::Failed("there is no home folder: set DOORBELL_CACHE".into()))?;
    let mut say = |step: &str| eprintln!("{step}");
    match what {
        Do::Record {
            folder,
            target: wanted,
            nic: card,
            guest: name,
            ram,
            forward,
            beside,
            after,
            command,
        } => {
            let target = target(&wanted).map_err(RecordError::Failed)?;
            let nic = card.map_or(Ok(target.nic), |name| nic(&name)).map_err(RecordError::Failed)?;
            let tools = Tools::fetch(target, &cache, &mut say)?;
            let image = guest::image(name.as_deref().unwrap_or(target.guest), &cache, &mut say)?;
            let guest = Guest {
                target: target.name.to_owned(),
                nic: nic.name.to_owned(),
                image: image.dir().to_owned(),
                command: command.join(" "),
                ram_mib: ram,
                forward,
            };
            let beside = beside.map(|words| {
                let mut words = words.split_whitespace().map(str::to_owned);
                Beside { program: words.next().unwrap_or_default(), arguments: words.collect(), after }
            });
            record(&tools, &guest, beside.as_slice(), &folder, Duration::from_secs(600))
        }
        Do::Count { part, show } => {
            let guest = Guest::recorded(&part.folder)?;
            let (replay, stream) = part.replay(&cache)?;
            let result = count(guest.target()?, guest.nic()?, stream, show);
            replay.explain(result)
        }
        Do::Raw { part, out } => {
            let io = |action| {
                let path = out.clone();
                move |source| RecordError::Io { action, path, source }
            };
            let mut file = std::fs::File::create(&out).map_err(io("create"))?;
            let (replay, mut stream) = part.replay(&cache)?;
            std::io::copy(&mut stream, &mut file).map_err(io("write"))?;
            replay.explain(Ok(()))
        }
        Do::CountRaw { file, target: of, nic: card, show } => {
            let target = target(&of).map_err(RecordError::Failed)?;
            let nic = nic(&card).map_err(RecordError::Failed)?;
            let stream = std::fs::File::open(&file).map_err(|source| RecordError::Io {
                action: "open",
                path: file,
                source,
            })?;
            Ok(count(target, nic, stream, show)?)
        }
    }
}

fn count(
    target: &Target,
    nic: &'static NicModel,
    stream: impl std::io::Read,
    show: u64,
) -> Result<(), StreamError> {
    let mut counter = count::Counter::showing(show);
    let mut execution = Execution::new(target, nic, stream)?;
    // The boot is over.
    let begun = Instant::now();
    let counts = execution.run(&mut counter)?;
    let seconds = begun.elapsed().as_secs_f64();
    counter.print();
    println!("{counts:?}");
    println!("{:.1} MIPS", counts.instructions as f64 / seconds / 1e6);
    Ok(())
}
