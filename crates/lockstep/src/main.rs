//! Boots a kernel on our hart and on QEMU side by side and compares all registers after every instruction.
//!
//! `cargo run --release -p doorbell-lockstep -- --image .cache/images/testpmd --instructions 1000000`
//!
//! `… -- --image .cache/images/testpmd --from 0x80200000` begins at the kernel's first instruction,
//! `… --after 3` wherever QEMU is after three seconds.
//!
//! QEMU (`qemu-system-riscv64`, Debian's `qemu-system-misc`) executes one instruction a block and logs its state
//! before each; our hart starts with the same memory. The exit code is 1 if the two ever differ.

mod gdb;
mod lockstep;
mod log;
mod qemu;
mod state;

use std::io::BufRead;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Parser;

use gdb::Gdb;
use lockstep::Lockstep;
use log::Log;
use qemu::{Options, Qemu, RAM_BASE};
use state::State;

/// Compares our hart with QEMU, instruction by instruction, on a kernel's boot.
#[derive(Parser)]
struct Arguments {
    /// Folder of a built guest image (firmware, kernel, initramfs).
    #[arg(long)]
    image: PathBuf,
    /// How many instructions to compare.
    #[arg(long, default_value_t = 1_000_000)]
    instructions: u64,
    /// The kernel's command line. QEMU 7.2 offers Sv57, which our hart has not, so the kernel must not use it.
    #[arg(long, default_value = "console=ttyS0 no5lvl")]
    append: String,
    /// RAM in MiB.
    #[arg(long, default_value_t = 256)]
    memory: u64,
    /// Leave Sstc (the supervisor timer's comparator) out, so that the firmware sets timers.
    #[arg(long)]
    no_sstc: bool,
    /// Let QEMU run alone for so many seconds first, and begin where it is then: a sample of later code.
    #[arg(long, default_value_t = 0.0)]
    after: f64,
    /// Let QEMU run alone to the instruction at this (virtual) address, and begin there; the kernel's first is
    /// 0x80200000. Unlike --after, this is the same every time.
    #[arg(long, value_parser = hexadecimal, conflicts_with = "after")]
    from: Option<u64>,
    /// Compare floating-point registers too.
    #[arg(long)]
    floats: bool,
}

/// Progress is printed each so many instructions.
const PROGRESS: u64 = 1_000_000;

fn hexadecimal(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").ok_or("an address begins with 0x")?;
    u64::from_str_radix(digits, 16).map_err(|error| error.to_string())
}

/// The state at the firmware's first instruction.
fn past_boot_rom(log: &mut Log<impl BufRead>) -> Result<State> {
    loop {
        let state = log.read()?.context("QEMU ended in its boot ROM")?;
        if state.pc == RAM_BASE {
            return Ok(state);
        }
    }
}

fn run(arguments: Arguments) -> Result<()> {
    let mut qemu = Qemu::start(Options {
        image: arguments.image,
        command_line: arguments.append,
        ram_mib: arguments.memory,
        sstc: !arguments.no_sstc,
        floats: arguments.floats,
    })?;
    let mut gdb = None;
    if let Some(addr) = arguments.from {
        gdb.insert(Gdb::new(qemu.take_gdb())?).run_to(addr)?;
    } else if arguments.after > 0.0 {
        qemu.command("cont")?;
        std::thread::sleep(Duration::from_secs_f64(arguments.after));
        qemu.command("stop")?;
        gdb = Some(Gdb::new(qemu.take_gdb())?);
    }
    let mut ours = Lockstep::new(&qemu.memory()?, !arguments.no_sstc);
    let mut log = Log::new(qemu.take_log(), arguments.floats);
    qemu.log_instructions()?;
    let begun = Instant::now();
    let mut before = match gdb {
        Some(mut gdb) => {
            let state = ours.take_over(&mut gdb, arguments.floats)?;
            println!("beginning at {:#x} in {:?} mode", state.pc, ours.privilege());
            qemu.command("cont")?;
            state
        }
        None => {
            qemu.command("cont")?;
            let state = past_boot_rom(&mut log)?;
            ours.adopt(&state).map_err(anyhow::Error::msg)?;
            state
        }
    };
    let (mut compared, mut repeated) = (0u64, 0u64);
    while compared < arguments.instructions {
        let Some(after) = log.read()? else {
            bail!("QEMU's log ended after {compared} instructions");
        };
        // QEMU logs a block that it then leaves at once, for an interrupt or a device, a second time.
        if before.same_but_pending(&after) {
            repeated += 1;
        } else {
            if let Err(text) = ours.advance(&before, &after) {
                bail!("divergence at instruction {compared}: {text}");
            }
            compared += 1;
            if compared.is_multiple_of(PROGRESS) {
                println!("{compared} instructions, {:.0} s", begun.elapsed().as_secs_f64());
            }
        }
        before = after;
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{compared} instructions are the same on both ({seconds:.1} s, {repeated} repeated log entries)"
    );
    summarise(&ours);
    Ok(())
}

fn summarise(ours: &Lockstep) {
    println!("kinds of instructions covered: {}; by privilege level:", ours.kinds.len());
    for (level, times) in &ours.levels {
        println!("{level:?}: {times}");
    }
    for (what, times) in &ours.injected {
        println!("injected: {what}: {times}");
    }
    for (cause, times) in &ours.traps {
        let kind = if cause >> 63 != 0 { "interrupt" } else { "exception" };
        println!("{kind} {}: {times}", cause << 1 >> 1);
    }
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
