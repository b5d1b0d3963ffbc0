//! Boots a kernel on our harts and on QEMU in lockstep and compares all registers after every instruction.
//!
//! `cargo run --release -p doorbell-lockstep -- --image .cache/images/testpmd --instructions 1000000`
//!
//! `… -- --image .cache/images/testpmd --from 0x80200000` starts at the kernel's first instruction, `…
//! --after 3` where QEMU is after three seconds. `… --harts 2 --from-hart-start --until-second-hart 1000`
//! compares two harts from the kernel's call that starts the second hart to its thousandth instruction in the
//! kernel.
//!
//! QEMU (built by `crates/oracle`) executes one instruction per block and logs its state before each; our
//! harts start with the same memory. The exit code is 1 if the two ever differ.

mod covered;
mod early;
mod gdb;
mod lockstep;
mod log;
mod qemu;
mod side;
mod start;
mod state;
mod takeover;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use clap::Parser;

use gdb::Gdb;
use lockstep::{Entry, Lockstep};
use log::{Log, Logged};
use qemu::{Options, Qemu};

/// Compares our harts with QEMU, instruction by instruction, on a kernel's boot.
#[derive(Parser)]
struct Arguments {
    /// Folder of a built guest image (firmware, kernel, initramfs).
    #[arg(long)]
    image: PathBuf,
    /// Number of harts.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=8))]
    harts: u8,
    /// QEMU's time per instruction, as a power of two in nanoseconds. QEMU's harts take turns of 0.1 s: a
    /// larger value means fewer instructions per turn.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..=10))]
    shift: u8,
    /// Number of instructions to compare; default one million, or no limit with --until-second-hart.
    #[arg(long)]
    instructions: Option<u64>,
    /// Stop when two harts have each executed this number of instructions in supervisor mode; an error if not
    /// reached within --instructions.
    #[arg(long)]
    until_second_hart: Option<u64>,
    /// The kernel's command line.
    #[arg(long, default_value = "console=ttyS0")]
    append: String,
    /// RAM in MiB.
    #[arg(long, default_value_t = 256)]
    memory: u64,
    /// Use the machine with interrupt files and an APLIC instead of the PLIC (QEMU's `aia=aplic-imsic`).
    #[arg(long)]
    aia: bool,
    /// Disable Sstc (the supervisor timer comparator), so that the firmware sets timers.
    #[arg(long)]
    no_sstc: bool,
    /// Seconds that QEMU runs alone first; the comparison starts from there, to sample later code.
    #[arg(long, default_value_t = 0.0)]
    after: f64,
    /// Let QEMU run alone to the instruction at this virtual address, and start there; the kernel's first is
    /// 0x80200000. Unlike --after, this is reproducible.
    #[arg(long, value_parser = hexadecimal, conflicts_with = "after")]
    from: Option<u64>,
    /// Let QEMU run alone to the kernel's firmware call (SBI HSM, hart_start) that starts the second hart.
    #[arg(long, conflicts_with_all = ["after", "from"])]
    from_hart_start: bool,
    /// Also compare floating-point registers.
    #[arg(long)]
    floats: bool,
}

/// Instructions between two progress messages.
const PROGRESS: u64 = 1_000_000;

const DEFAULT_INSTRUCTIONS: u64 = 1_000_000;

fn hexadecimal(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").ok_or("an address must start with 0x")?;
    u64::from_str_radix(digits, 16).map_err(|error| error.to_string())
}

fn run(arguments: Arguments) -> Result<()> {
    let mut qemu = Qemu::start(Options {
        image: arguments.image.clone(),
        harts: arguments.harts.into(),
        shift: arguments.shift,
        breakpoint: arguments.from.is_some() || arguments.from_hart_start,
        command_line: arguments.append.clone(),
        ram_mib: arguments.memory,
        sstc: !arguments.no_sstc,
        aia: arguments.aia,
        floats: arguments.floats,
    })?;
    let mut gdb = None;
    if let Some(addr) = arguments.from {
        gdb.insert(Gdb::new(qemu.take_gdb())?).run_to(addr)?;
    } else if arguments.from_hart_start {
        let ecall = start::sbi_ecall(&arguments.image)?;
        start::run_to_hart_start(gdb.insert(Gdb::new(qemu.take_gdb())?), ecall)?;
    } else if arguments.after > 0.0 {
        qemu.command("cont")?;
        std::thread::sleep(Duration::from_secs_f64(arguments.after));
        qemu.command("stop")?;
        gdb = Some(Gdb::new(qemu.take_gdb())?);
    }
    let mut ours = Lockstep::new(&qemu.memory()?, arguments.harts.into(), !arguments.no_sstc, arguments.aia);
    let mut log = Log::new(qemu.take_log(), arguments.floats);
    qemu.log_instructions()?;
    if let Some(mut gdb) = gdb {
        ours.take_over(&mut gdb, arguments.floats)?;
    }
    qemu.command("cont")?;
    let start = Instant::now();
    let unlimited = arguments.until_second_hart.map_or(DEFAULT_INSTRUCTIONS, |_| u64::MAX);
    let limit = arguments.instructions.unwrap_or(unlimited);
    let reached = |ours: &Lockstep| arguments.until_second_hart.is_some_and(|n| ours.supervised(n) >= 2);
    let (mut compared, mut repeated) = (0u64, 0u64);
    while compared < limit && !reached(&ours) {
        let state = match log.read()? {
            Some(Logged::Before(state)) => *state,
            Some(Logged::Stopped) => {
                ours.stopped();
                continue;
            }
            None => bail!("QEMU's log ended after {compared} instructions"),
        };
        match ours.entry(state) {
            Err(text) => bail!("divergence at instruction {compared}: {text}"),
            Ok(Entry::First) => {}
            // QEMU logs a block twice if it leaves it at once for an interrupt or a device.
            Ok(Entry::Repeated) => repeated += 1,
            Ok(Entry::Compared) => {
                compared += 1;
                if compared.is_multiple_of(PROGRESS) {
                    println!("{compared} instructions, {:.0} s", start.elapsed().as_secs_f64());
                }
            }
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{compared} instructions are the same on both ({seconds:.1} s, {repeated} repeated log entries)"
    );
    ours.summarise();
    if let Some(n) = arguments.until_second_hart {
        ensure!(reached(&ours), "fewer than two harts reached {n} instructions in supervisor mode");
    }
    Ok(())
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
