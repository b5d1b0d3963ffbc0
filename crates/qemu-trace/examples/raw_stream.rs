//! Tool for developers of the recorder: writes the plugin's raw stream to a file, and converts it to a trace.
//! Users record guests with `doorbell trace record --qemu`.

#![forbid(unsafe_code)]

use std::fs::File;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

use doorbell_qemu_trace::nic::nic;
use doorbell_qemu_trace::plugin;
use doorbell_qemu_trace::recording::{Guest, RecordError};
use doorbell_qemu_trace::replay::{Window, replay, trace};
use doorbell_qemu_trace::target::{TARGETS, target};
use doorbell_qemu_trace::tools::Tools;

/// Developer tool for QEMU recordings
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Do,
}

#[derive(Debug, Subcommand)]
enum Do {
    /// Replay a window of a recording, and keep its raw stream
    Raw {
        /// The recording's folder
        folder: PathBuf,
        /// Start of the window: after the console has printed this
        #[arg(long)]
        mark: Option<String>,
        /// Number of instructions to skip after that
        #[arg(long, default_value_t = 0)]
        skip: u64,
        /// Length of the window in instructions
        #[arg(long, default_value_t = 10_000_000)]
        length: u64,
        /// Output file
        #[arg(long)]
        out: PathBuf,
    },
    /// Convert a raw stream to a trace
    Decode {
        /// The raw stream
        file: PathBuf,
        /// Its instruction set
        #[arg(long, default_value = TARGETS[0].name)]
        isa: String,
        /// Its NIC
        #[arg(long, default_value = TARGETS[0].nic.name)]
        nic: String,
        /// Output trace
        #[arg(long)]
        out: PathBuf,
    },
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
    let io = |action, path: &PathBuf| {
        let path = path.clone();
        move |source| RecordError::Io { action, path, source }
    };
    match what {
        Do::Raw { folder, mark, skip, length, out } => {
            let none = || RecordError::Failed("there is no home folder: set DOORBELL_CACHE".into());
            let cache = doorbell_image::cache_folder(|name| std::env::var_os(name)).ok_or_else(none)?;
            let mut say = |step: &str| eprintln!("{step}");
            let target = Guest::load(&folder)?.target()?;
            let tools = Tools::fetch(target, &cache, &mut say)?;
            let plugin = plugin::plugin(target, &cache, &mut say)?;
            let mut file = File::create(&out).map_err(io("create", &out))?;
            let (replay, mut stream) = replay(&tools, &plugin, &folder, &Window { mark, skip, length })?;
            std::io::copy(&mut stream, &mut file).map_err(io("write", &out))?;
            replay.explain(Ok(()), &out)
        }
        Do::Decode { file, isa, nic: card, out } => {
            let target = target(&isa).map_err(RecordError::Failed)?;
            let nic = nic(&card).map_err(RecordError::Failed)?;
            let stream = File::open(&file).map_err(io("open", &file))?;
            let traced = trace(target, nic, stream, file.display().to_string(), &out)?;
            let rate = traced.executed.instructions as f64 * 1e-6 / traced.took.as_secs_f64();
            println!("{:?}, {rate:.1} million instructions per second", traced.executed);
            Ok(())
        }
    }
}
