//! Speed and memory use of the simulator, with ratios to QEMU and to a stored baseline. A benchmark, not a
//! test: results depend on the host.
//!
//!     cargo run --release -p doorbell-acceptance --example speed [-- --runs 5] [--store]
//!
//! | Part | Measurement |
//! |---|---|
//! | boot, init | host time from start to the last line of /init before testpmd, and from there until testpmd is ready |
//! | QEMU | the same image, command line and NIC in QEMU with TCG, until the same two console lines |
//! | first frame | the whole `doorbell run testpmd` command for one frame, without and with a checkpoint |
//! | memory | the command's peak resident memory minus the guest memory touched |
//!
//! Runs of the two simulators alternate, and medians are printed. QEMU does not count instructions in this
//! mode, so its rate is our instruction count up to the same line, divided by its time. Its guest has the
//! same extensions, and a 10 MHz timebase.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use doorbell_acceptance::baseline::{median, print_and_store, seconds_and_peak};
use doorbell_acceptance::{doorbell_path, places, scratch};
use doorbell_bench::{Resolved, benchmark, guest_identity, read_guest, resolve};
use doorbell_machine::{CheckpointFile, Guest, Limits, Machine, Outcome};
use doorbell_sim::Ps;
use doorbell_sim::ram::PAGE_BYTES;
use serde_json::{Map, Value, json};

/// Printed by /init just before it starts the application.
const BOOTED: &str = "doorbell: start testpmd";

/// Host seconds per phase.
#[derive(Clone, Copy)]
struct Phases {
    boot: f64,
    init: f64,
}

/// The guest and its ready marker.
struct Subject {
    config: Resolved,
    guest: Guest,
    identity: String,
    folder: PathBuf,
    ready: &'static str,
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let runs = words.iter().position(|word| word == "--runs").and_then(|at| words.get(at + 1)?.parse().ok());
    let runs: usize = runs.unwrap_or(5).max(1);
    let subject = subject();
    let (mut ours, mut qemus, mut figures) = (Vec::new(), Vec::new(), Map::new());
    let (mut counts, mut touched, mut checkpoint) = ((0, 0), 0, None);
    for _ in 0..runs {
        let (phases, booted, machine) = simulate(&subject);
        counts = (booted, machine.instructions() - booted);
        touched = machine.ram().touched_pages().count() as u64 * PAGE_BYTES;
        checkpoint = Some(machine.checkpoint(&subject.identity, "speed"));
        ours.push(phases);
        drop(machine);
        qemus.extend(qemu(&subject));
    }
    let (ours, qemu) = (medians(&ours), (!qemus.is_empty()).then(|| medians(&qemus)));
    for (name, count, own, other) in [
        ("boot", counts.0, ours.boot, qemu.map(|phases| phases.boot)),
        ("init", counts.1, ours.init, qemu.map(|phases| phases.init)),
        ("both", counts.0 + counts.1, ours.boot + ours.init, qemu.map(|phases| phases.boot + phases.init)),
    ] {
        let millions = count as f64 / 1e6;
        figures.insert(format!("{name}_million_instructions"), json!(millions));
        figures.insert(format!("{name}_mips"), json!(millions / own));
        if let Some(seconds) = other {
            figures.insert(format!("{name}_mips_qemu"), json!(millions / seconds));
            figures.insert(format!("{name}_ratio_to_qemu"), json!(seconds / own));
        }
    }
    first_frames(&checkpoint.expect("there was a run"), runs, touched, &mut figures);
    print_and_store(&figures, "speed-baseline.json", words.iter().any(|word| word == "--store"));
}

fn subject() -> Subject {
    let config = resolve("fast", &[]).expect("the preset is valid");
    let chosen = benchmark("testpmd").expect("it is a benchmark");
    let image =
        places().build_image(chosen.image, &mut |line| eprintln!("{line}")).expect("the image can be built");
    let bootargs = format!("{} {}", image.command_line(), (chosen.guest_words)(&config));
    let identity = guest_identity(&image, &bootargs);
    let guest = read_guest(&image, bootargs).expect("the image can be read");
    Subject { config, guest, identity, folder: image.dir().to_owned(), ready: chosen.ready_marker }
}

/// Boots in this process; returns the times, the instructions of the boot phase, and the machine.
fn simulate(subject: &Subject) -> (Phases, u64, Machine) {
    let started = Instant::now();
    let mut machine = Machine::new(subject.config.machine(), 1).expect("the preset is valid");
    machine.load(&subject.guest).expect("the image can be booted");
    let mut run_to = |marker: &str| {
        machine.console.watch(Some(marker));
        let outcome = machine.run(&Limits { on_marker: true, ..Limits::until(Ps(60 * Ps::PER_SECOND)) });
        assert_eq!(outcome, Outcome::Marker, "{}", machine.console.last_lines(12));
        (started.elapsed().as_secs_f64(), machine.instructions())
    };
    let (boot, booted) = run_to(BOOTED);
    let (both, _) = run_to(subject.ready);
    (Phases { boot, init: both - boot }, booted, machine)
}

/// Boots in QEMU; `None` if testpmd does not become ready.
fn qemu(subject: &Subject) -> Option<Phases> {
    let mut command = doorbell_oracle::qemu();
    command.args(["-machine", "virt", "-m", "256M", "-smp", "1", "-display", "none", "-monitor", "none"]);
    // The same extensions as our hart.
    command.args(["-cpu", &format!("{},sstc=on", doorbell_oracle::HART), "-accel", "tcg"]);
    command.args(["-serial", "stdio", "-nic", "none", "-device", "e1000,addr=1,romfile="]);
    command.arg("-bios").arg(subject.folder.join("fw_dynamic.bin"));
    command.arg("-kernel").arg(subject.folder.join("kernel"));
    command.arg("-initrd").arg(subject.folder.join("initramfs.cpio"));
    command.args(["-append", &subject.guest.bootargs]);
    let started = Instant::now();
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = child.inspect_err(|error| eprintln!("no comparison with QEMU: {error}")).ok()?;
    let times = console_times(&mut child, &[BOOTED, subject.ready], started);
    let _ = child.kill();
    let _ = child.wait();
    if times.is_none() {
        eprintln!("no comparison with QEMU: it ended before testpmd was ready");
    }
    let [boot, both] = times?.try_into().expect("a time for each marker");
    Some(Phases { boot, init: both - boot })
}

fn console_times(child: &mut Child, markers: &[&str], started: Instant) -> Option<Vec<f64>> {
    let mut console = child.stdout.take().expect("it is piped");
    let (mut text, mut buffer, mut times) = (Vec::new(), [0; 4096], Vec::new());
    while times.len() < markers.len() {
        let count = console.read(&mut buffer).ok().filter(|count| *count > 0)?;
        text.extend_from_slice(&buffer[..count]);
        let marker = markers[times.len()].as_bytes();
        if let Some(at) = text.windows(marker.len()).position(|window| window == marker) {
            text.drain(..at);
            times.push(started.elapsed().as_secs_f64());
        }
    }
    Some(times)
}

fn medians(all: &[Phases]) -> Phases {
    Phases { boot: median(all.iter().map(|p| p.boot)), init: median(all.iter().map(|p| p.init)) }
}

/// Measures whole commands that forward one frame.
fn first_frames(checkpoint: &CheckpointFile, runs: usize, touched: u64, figures: &mut Map<String, Value>) {
    let folder = scratch();
    let file = folder.path().join("ready.ckpt");
    checkpoint.write(&file).expect("a checkpoint can be written");
    let file = file.display().to_string();
    for (name, further) in [("boot", vec!["--boot"]), ("checkpoint", vec!["--checkpoint", &file])] {
        let all: Vec<(f64, u64)> = (0..runs).map(|_| one_frame(folder.path(), &further)).collect();
        figures
            .insert(format!("first_frame_from_{name}_seconds"), json!(median(all.iter().map(|one| one.0))));
        let peak = all.iter().map(|one| one.1).max().unwrap_or_default();
        let without_guest = (peak as f64 - touched as f64) / f64::from(1 << 20);
        figures.insert(format!("memory_without_guest_from_{name}_mib"), json!(without_guest));
    }
    figures.insert("guest_memory_touched_mib".to_owned(), json!(touched as f64 / f64::from(1 << 20)));
}

/// Run time in seconds and peak resident bytes of a command that forwards one frame.
fn one_frame(folder: &Path, further: &[&str]) -> (f64, u64) {
    let mut command = Command::new(doorbell_path());
    command
        .args(["run", "testpmd", "--preset", "fast", "-q", "--warmup", "0ns", "--frames", "1", "--out"])
        .arg(folder)
        .args(further);
    seconds_and_peak(&mut command)
}
