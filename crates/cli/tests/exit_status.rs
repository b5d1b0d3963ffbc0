//! Exit status of the command: 2 for usage errors, 1 for failures, 130 if interrupted, with complete results
//! in place.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use doorbell_sim::Ps;
use rustix::process::{Pid, Signal, kill_process};

use crate::loop_trace::{doorbell, record};

/// Far longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

#[track_caller]
fn ends_with(folder: &Path, status: i32, words: &[&str]) -> String {
    let output = doorbell(folder, words);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{words:?}: {stderr}");
    assert!(!stderr.is_empty() || status == 0, "{words:?} says nothing");
    stderr
}

#[test]
fn invalid_options_keys_values_and_units_are_usage_errors() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    record(&folder.join("loop.dbt"));
    fs::write(folder.join("key.toml"), "benchmark = \"testpmd\"\nrepetition = 2\n").unwrap();
    fs::write(folder.join("point.toml"), "benchmark = \"testpmd\"\n[grid]\n\"nic.rx_fifi\" = [\"1KiB\"]\n")
        .unwrap();
    fs::write(folder.join("plays.toml"), "trace = \"loop.dbt\"\n").unwrap();
    fs::write(folder.join("net.toml"), "[switch.a]\nprots = 2\n").unwrap();
    fs::write(folder.join("recipe.toml"), "extends = \"net\"\nnonsense = 1\n").unwrap();
    fs::write(folder.join("ramp.toml"), "[[streams]]\nramp = { to = \"5Mpps\", over = \"1ms\" }\n").unwrap();
    let plays = "trace = \"loop.dbt\"\npreset = \"server\"\n";
    fs::write(folder.join("plot.toml"), format!("{plays}[[plot]]\nx = \"seed\"\ny = \"cycels\"\n")).unwrap();
    fs::write(folder.join("seeds.toml"), format!("{plays}set = [\"run.seed=9\"]\n")).unwrap();
    fs::write(folder.join("name.toml"), format!("name = \"../x\"\n{plays}")).unwrap();
    fs::write(folder.join("true.sh"), "true\n").unwrap();
    fs::write(folder.join("gone.toml"), "[[streams]]\ncapture = \"gone.pcap\"\n").unwrap();
    for words in [
        &["--nonsense"][..],
        &["bood"],
        &["run", "testpmd", "--raet", "1Mpps"],
        &["run"],
        &["run", "testpdm"],
        &["run", "testpmd", "--preset", "fats"],
        &["run", "testpmd", "--rate", "5"],
        &["run", "testpmd", "--rate", "1Mpps,5Mbpss"],
        &["run", "testpmd", "--duration", "10"],
        &["run", "testpmd", "--warmup", "5parsec"],
        &["run", "testpmd", "--frame-size", "63"],
        &["run", "testpmd", "--set", "nic.rx_fifi=48KiB"],
        &["run", "testpmd", "--set", "link.rate=10"],
        &["run", "testpmd", "--set", "core"],
        &["run", "testpmd", "--arrivals", "poison"],
        // Rejected before an image is built or a guest is booted.
        &["run", "testpmd", "--traffic", "gone.toml"],
        &["run", "testpmd", "--time-limit", "2s"],
        &["run", "testpmd", "--node", "server"],
        &["run", "testpmd", "--debug-symbols"],
        &["run", "compute", "--rate", "1Mpps"],
        &["run", "iperf", "--rate", "1Mpps"],
        &["run", "--network", "net.toml"],
        &["run", "--script", "true.sh", "--rate", "5"],
        &["run", "--script", "true.sh", "--file", "nothing"],
        &["run", "--script", "true.sh", "--begin-at", ""],
        &["search", "testpmd", "--goal", "most"],
        &["search", "compute"],
        &["search", "testpmd", "--max", "5"],
        &["search", "testpmd", "--max", "2x"],
        &["search", "testpmd", "--min", "2Mpps", "--max", "1Mpps"],
        &["search", "testpmd", "--frame-size", "20"],
        &["sweep", "plan", "key.toml"],
        &["sweep", "plan", "point.toml"],
        &["sweep", "run", "plays.toml", "--index", "7"],
        &["reproduce", "nature26"],
        &["reproduce", "ispass24", "fig99"],
        &["config", "show", "--set", "nic.rx_fifi=48KiB"],
        &["boot", "--image", "nope"],
        &["boot", "--set", "platform.ram=1KiB"],
        &["boot", "--max-time", "2"],
        &["image", "build", "nope"],
        &["image", "build", "recipe.toml"],
        &["image", "show", "recipe.toml"],
        &["image", "lock", "net", "--out", "recipe.toml"],
        &["run", "testpmd", "--image", "recipe.toml"],
        &["search", "testpmd", "--set", "loadgen.traffic.outstanding=2"],
        &["search", "testpmd", "--set", "loadgen.traffic.frames=1000"],
        &["search", "testpmd", "--traffic", "ramp.toml"],
        &["sweep", "plan", "plot.toml"],
        &["sweep", "plan", "seeds.toml"],
        &["sweep", "plan", "name.toml"],
        &["trace", "run", "loop.dbt", "--harts", "2"],
        &["trace", "run", "loop.dbt", "--set", "nic.rx_fifo=48KiB"],
        &["trace", "run", "loop.dbt", "--window", "0"],
        &["trace", "run", "loop.dbt", "--rate", "2x"],
        &["trace", "dump", "loop.dbt", "--from", "1000000"],
        &["trace", "cut", "loop.dbt", "loop.dbt", "--from", "0", "--count", "1"],
        &["trace", "cut", "loop.dbt", "part.dbt", "--from", "0", "--count", "0"],
        &["trace", "merge", "loop.dbt", "loop.dbt", "loop.dbt"],
        &["trace", "convert", "loop.dbt", "again.dbt"],
        &["trace", "record", "--qemu", "z80", "true"],
        &["--log", "nick=debug", "config", "presets"],
        &["--log-file", "log", "config", "presets"],
    ] {
        ends_with(folder, 2, words);
        assert!(!folder.join("results").exists(), "{words:?} has left something");
    }
}

#[test]
fn failures_are_distinguished_from_usage_errors() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    record(&folder.join("loop.dbt"));
    let whole = fs::read(folder.join("loop.dbt")).unwrap();
    fs::write(folder.join("half.dbt"), &whole[..whole.len() / 2]).unwrap();
    for words in [
        &["report", "nowhere"][..],
        // A folder in place of a file cannot be read either.
        &["run", "testpmd", "--machine", "."],
        &["run", "testpmd", "--preset", "./missing.toml"],
        &["config", "show", "--machine", "missing.toml"],
        &["run", "testpmd", "--traffic", "."],
        &["run", "testpmd", "--profile", "--symbols", "missing"],
        &["sweep", "plan", "."],
        &["sweep", "plan", "missing.toml"],
        &["run", "--network", "missing.toml"],
        &["run", "--script", "missing.sh"],
        &["run", "testpmd", "--traffic", "missing.toml"],
        &["boot", "--bare", "missing.bin"],
        &["image", "show", "net"],
        &["trace", "run", "half.dbt"],
        &["trace", "run", "missing.dbt"],
        &["trace", "cut", "loop.dbt", "missing/part.dbt", "--from", "0", "--count", "1"],
        &["--log", "nic=debug", "--log-file", "missing/log", "config", "presets"],
    ] {
        ends_with(folder, 1, words);
    }
    for words in [&["config", "presets"][..], &["--version"], &["help", "run"], &["run", "--help"]] {
        ends_with(folder, 0, words);
    }
}

/// A running command, which is killed at the end of the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn start(folder: &Path, words: &[&str]) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_doorbell"));
        command.env("DOORBELL_CACHE", folder.join("cache")).current_dir(folder).args(words);
        Running::of(command)
    }

    fn of(mut command: Command) -> Running {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running(command.spawn().unwrap())
    }

    /// Interrupts it. Returns its exit status and the remaining standard error.
    fn interrupt(self) -> (Option<i32>, String) {
        self.end_by(Signal::INT)
    }

    fn end_by(mut self, signal: Signal) -> (Option<i32>, String) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
        let mut output = String::new();
        if let Some(mut stderr) = self.0.stderr.take() {
            stderr.read_to_string(&mut output).unwrap();
        }
        (self.0.wait().unwrap().code(), output)
    }

    /// Waits until its handler for Ctrl-C is installed.
    fn wait_for_handler(&self) {
        let started = Instant::now();
        let heard = || {
            let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
            let caught =
                status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim().to_owned();
            u64::from_str_radix(&caught, 16).unwrap() & 0b10 != 0
        };
        while !heard() {
            assert!(started.elapsed() < PATIENCE, "no handler for Ctrl-C");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits for a line with this text on standard error.
    fn says(&mut self, text: &str) {
        let mut stderr = BufReader::new(self.0.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "it ends without saying \"{text}\"");
        }
        // Later output must be read, or the process would block on it.
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
    }
}

#[test]
fn an_interrupted_guest_ends_with_130_and_its_checkpoint_is_written() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    // j .
    fs::write(folder.join("spin.bin"), 0x0000_006f_u32.to_le_bytes()).unwrap();
    let guest = Running::start(folder, &["boot", "--bare", "spin.bin", "--save-checkpoint", "spin.ckpt"]);
    guest.wait_for_handler();
    let (status, output) = guest.interrupt();
    let output: Vec<&str> = output.lines().collect();
    assert_eq!((status, output.last()), (Some(130), Some(&"checkpoint in spin.ckpt")), "{output:?}");
    assert!(output.len() == 2 && output[0].contains(" M instructions, "), "run summary: {output:?}");
    let boots = |status, until: &str| {
        let from = ["boot", "--bare", "spin.bin", "--checkpoint", "spin.ckpt", "--fast-forward"];
        ends_with(folder, status, &[&from[..], &["--max-time", until]].concat())
    };
    let output = boots(2, "1ps");
    let (_, at) = output.split_once("guest is at ").unwrap();
    let at: Ps = at.split_once(" already").unwrap().0.parse().unwrap();
    assert!(output.contains("counted from its boot"), "{output}");
    let output = boots(0, &(at + Ps(1_000_000)).to_string());
    assert!(output.lines().count() == 1 && output.contains(" M instructions, "), "{output}");
}

#[test]
fn boot_outputs_are_checked_first_and_written_however_the_guest_ends() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    // lui t0, 0x100; lui t1, 0x13; addi t1, t1, 0x333; sw t1, 0(t0); j .: reports a failure to the machine's
    // test device.
    let fails = [0x0010_02b7_u32, 0x0001_3337, 0x3333_0313, 0x0062_a023, 0x0000_006f];
    fs::write(folder.join("fails.bin"), fails.map(u32::to_le_bytes).concat()).unwrap();
    let boot = |more: &[&str]| ends_with(folder, 1, &[&["boot", "--bare", "fails.bin"], more].concat());
    let output = boot(&["--save-checkpoint", "end.ckpt", "--fingerprint", "end.json"]);
    assert!(output.contains("checkpoint in end.ckpt") && output.contains("failure code 1"), "{output}");
    assert!(folder.join("end.ckpt").is_file() && folder.join("end.json").is_file());
    for option in ["--save-checkpoint", "--fingerprint"] {
        for (path, part) in [("gone/a", "there is no folder gone"), (".", "not a regular file")] {
            let output = boot(&[option, path]);
            assert!(
                output.contains(option) && output.contains(part) && !output.contains("failure code"),
                "{output}"
            );
        }
    }
}

#[test]
fn a_conversion_survives_sighup_and_leaves_no_output_after_ctrl_c() {
    let folder = tempfile::tempdir().unwrap();
    // Long enough to be signalled: a sparse file of empty records.
    let input = File::create(folder.path().join("long.champsim")).unwrap();
    input.set_len(1 << 36).unwrap();
    let convert = Running::start(folder.path(), &["trace", "convert", "long.champsim", "long.dbt"]);
    convert.wait_for_handler();
    kill_process(Pid::from_child(&convert.0), Signal::HUP).unwrap();
    assert_eq!(convert.interrupt().0, Some(130));
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["long.champsim"]);
}

#[test]
fn sigterm_ends_any_command_with_130() {
    let folder = tempfile::tempdir().unwrap();
    // It reads from a pipe that is never written.
    let words = ["config", "show", "--machine", "/dev/stdin"];
    let reads = Running::start(folder.path(), &words);
    let started = Instant::now();
    let is_heard = || {
        let status = fs::read_to_string(format!("/proc/{}/status", reads.0.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim().to_owned();
        u64::from_str_radix(&caught, 16).unwrap() >> (Signal::TERM.as_raw() - 1) & 1 != 0
    };
    while !is_heard() {
        assert!(started.elapsed() < PATIENCE, "no handler for SIGTERM");
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(reads.end_by(Signal::TERM).0, Some(130));
}

#[test]
fn out_of_memory_fails_with_1_and_a_message() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("spin.bin"), 0x0000_006f_u32.to_le_bytes()).unwrap();
    let mut command = Command::new("sh");
    let words = "ulimit -v 3000000; exec \"$0\" boot --bare spin.bin --max-time 1us --set platform.ram=8GiB";
    command.args(["-c", words, env!("CARGO_BIN_EXE_doorbell")]).current_dir(folder.path());
    let (status, output) = Running::of(command).end_by(Signal::CONT);
    assert_eq!(status, Some(1), "{output}");
    assert!(output.contains("platform.ram: the host does not provide 8GiB of memory"), "{output}");
}

#[test]
fn endless_files_are_rejected() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    // A sparse file of 40 GB.
    File::create(folder.join("large")).unwrap().set_len(40_000_000_000).unwrap();
    for (path, part) in
        [("/dev/zero", "device, pipe or socket"), ("./large", "it is too large: at most 64 MiB")]
    {
        fs::write(folder.join("net.toml"), format!("[node.a]\nscript_file = \"{path}\"\n")).unwrap();
        for words in [
            &["run", "testpmd", "--traffic", path][..],
            &["run", "--network", path],
            &["run", "--network", "net.toml"],
            &["sweep", path],
            &["config", "show", "--machine", path],
        ] {
            let output = doorbell(folder, words);
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(matches!(output.status.code(), Some(1 | 2)), "{words:?}: {stderr}");
            assert!(stderr.contains(part), "{words:?}: {stderr}");
        }
    }
    fs::write(folder.join("spin.bin"), 0x0000_006f_u32.to_le_bytes()).unwrap();
    for (words, part) in [
        (&["boot", "--bare", "./large"][..], "at most 4 GiB"),
        (&["boot", "--bare", "/dev/zero"], "device, pipe or socket"),
        (&["boot", "--bare", "spin.bin", "--checkpoint", "./large"], "at most 16 GiB"),
        (&["boot", "--bare", "spin.bin", "--checkpoint", "/dev/zero"], "device, pipe or socket"),
    ] {
        let output = ends_with(folder, 1, words);
        assert!(output.contains(part), "{words:?}: {output}");
    }
}

#[test]
fn harts_end_at_the_time_limit_wherever_the_run_is_divided() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    fs::write(folder.join("spin.bin"), 0x0000_006f_u32.to_le_bytes()).unwrap();
    let boot = |until: &str, to: &str, more: &[&str]| {
        let words = ["boot", "--bare", "spin.bin", "--harts", "3", "--fast-forward", "--max-time", until];
        ends_with(folder, 0, &[&words[..], &["--save-checkpoint", to], more].concat());
        fs::read(folder.join(to)).unwrap()
    };
    boot("300us", "part.ckpt", &[]);
    for until in ["666us", "667us", "668us"] {
        let in_two = boot(until, "two.ckpt", &["--checkpoint", "part.ckpt"]);
        assert!(boot(until, "one.ckpt", &[]) == in_two, "{until}");
    }
}

/// An experiment that takes far longer than one of its points.
fn many_points() -> String {
    let lengths: Vec<String> = (1..=400).map(|more| (10_000 + more).to_string()).collect();
    format!(
        "trace = \"loop.dbt\"\npreset = \"server\"\nset = [\"playback.warmup=1000\"]\n[grid]\n\
         \"playback.instructions\" = [{}]\n",
        lengths.join(", ")
    )
}

#[test]
fn an_interrupted_sweep_ends_with_130_and_its_table_has_finished_points() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    record(&folder.join("loop.dbt"));
    fs::write(folder.join("many.toml"), many_points()).unwrap();
    let mut sweep = Running::start(folder, &["sweep", "many.toml", "--jobs", "1"]);
    sweep.says("1/400 point 0");
    assert_eq!(sweep.interrupt().0, Some(130));
    let rows = fs::read_to_string(folder.join("results/many/table.csv")).unwrap().lines().count() - 1;
    let plan = String::from_utf8(doorbell(folder, &["sweep", "plan", "many.toml"]).stdout).unwrap();
    assert!(
        (1..400).contains(&rows) && plan.contains(&format!("{rows} of 400 points are finished")),
        "{plan}"
    );
}

/// A build whose apt does not end, and the process ID of that apt.
fn endless_build(folder: &Path, words: &[&str]) -> (Running, String) {
    let programs = folder.join("programs");
    fs::create_dir_all(&programs).unwrap();
    let apt = programs.join("apt-get");
    // It may write only in its home, which is in the cache.
    fs::write(&apt, "#!/bin/sh\necho $$ > \"$HOME/apt.pid\"\nexec sleep 1000\n").unwrap();
    fs::set_permissions(&apt, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(folder.join("keys.gpg"), "").unwrap();
    let path = std::env::var("PATH").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_doorbell"));
    command.env("DOORBELL_CACHE", folder.join("cache")).env("PATH", format!("{}:{path}", programs.display()));
    command.env("DOORBELL_DEBIAN_MIRROR", "http://127.0.0.1:9/debian");
    command.env("DOORBELL_DEBIAN_KEYRING", folder.join("keys.gpg")).current_dir(folder).args(words);
    let build = Running::of(command);
    let started = Instant::now();
    loop {
        let of_apt =
            Command::new("find").arg(folder.join("cache")).args(["-name", "apt.pid"]).output().unwrap();
        let pid = fs::read_to_string(String::from_utf8_lossy(&of_apt.stdout).trim()).unwrap_or_default();
        if pid.ends_with('\n') {
            return (build, pid.trim().to_owned());
        }
        assert!(started.elapsed() < PATIENCE, "apt is not started");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_interrupted_image_build_is_reported_and_ends_its_programs() {
    for (signal, words) in [
        (Signal::INT, &["image", "build", "net"][..]),
        (Signal::TERM, &["image", "lock", "net"]),
        (Signal::TERM, &["run", "ping", "--preset", "fast"]),
    ] {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path();
        let (build, apt) = endless_build(folder, words);
        let asked = Instant::now();
        let (status, output) = build.end_by(signal);
        assert_eq!(status, Some(130), "{words:?}: {output}");
        let last = output.lines().last().unwrap_or_default();
        assert!(
            last.starts_with("doorbell: interrupted") && !output.contains("failed"),
            "{words:?}: {output}"
        );
        assert!(asked.elapsed() < Duration::from_secs(30), "{words:?} ends late");
        assert!(!Path::new("/proc").join(&apt).exists(), "{words:?}: apt still runs");
        assert!(!folder.join("cache/images/net").exists(), "{words:?}");
    }
}

#[test]
fn interrupts_of_apt_alone_and_of_waiting_builds_are_reported() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let (mut build, apt) = endless_build(folder, &["image", "build", "net"]);
    let mut waits = Running::start(
        folder,
        &["image", "build", "net", "--mirror", "http://127.0.0.1:9/debian", "--keyring", "keys.gpg"],
    );
    waits.says("waiting for another build");
    assert_eq!(waits.interrupt().0, Some(130));
    // A terminal's Ctrl-C also reaches apt, which may end before the command handles it.
    let apt = Pid::from_raw(apt.parse().unwrap()).unwrap();
    kill_process(apt, Signal::INT).unwrap();
    let mut output = String::new();
    build.0.stderr.take().unwrap().read_to_string(&mut output).unwrap();
    assert_eq!(
        (build.0.wait().unwrap().code(), output.contains("doorbell: interrupted")),
        (Some(130), true),
        "{output}"
    );
}
