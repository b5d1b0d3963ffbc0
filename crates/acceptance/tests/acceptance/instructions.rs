//! Instructions per packet, compared with an independent count: the same image forwards on QEMU, which logs
//! every instruction. Bursts are full on QEMU because logging slows the guest down, and here because the load
//! is above the guest's capacity.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use doorbell_acceptance::{places, quiet, run_point, scratch};
use doorbell_bench::{Benchmark, Resolved, RunConfig, Session, Source, benchmark, resolve};
use doorbell_sim::Bytes;

const BURST: f64 = 32.0;
/// Frames in flight: QEMU's NIC stops receiving once its receive ring of 1024 has been empty.
const BATCH: usize = 512;
/// Batches sent in all, and the first ones that are not counted: no descriptor is freed until all have been
/// used once.
const BATCHES: usize = 6;
const NOT_COUNTED: usize = 2;
/// Maximum number of runs on QEMU.
const ATTEMPTS: usize = 3;
const PATIENCE: Duration = Duration::from_secs(120);
/// Minimum log size in bytes, and minimum user-space instructions, of about a hundred empty polls. Most of
/// the log is the kernel's timer, which follows the host's clock; on a busy host it can be nearly all of the
/// log for a while.
const IDLE_LOG: usize = 32 << 20;
const IDLE_INSTRUCTIONS: usize = 20_000;
/// Log size at which an attempt is abandoned because the host is too busy.
const IDLE_LOG_MAX: usize = 512 << 20;

/// Addresses of executed user-space instructions, in program order.
struct Trace {
    /// Executed during empty polls.
    idle: Vec<u64>,
    /// Executed while the counted frames were forwarded.
    counted: Vec<u64>,
}

/// A forwarding guest on QEMU.
struct Qemu {
    child: Child,
    monitor: UnixStream,
    wire: TcpStream,
    _console: BufReader<ChildStdout>,
}

impl Drop for Qemu {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Qemu {
    fn start(chosen: &Benchmark, config: &RunConfig, folder: &Path) -> Qemu {
        let image = places().build_image(chosen.image, &mut |_| {}).expect("the image can be built");
        let listener = UnixListener::bind(folder.join("monitor")).expect("a socket for the monitor");
        let wire = TcpListener::bind("127.0.0.1:0").expect("a port for the wire");
        let wire_at = wire.local_addr().expect("it has an address");
        let words = format!("{} {}", image.command_line(), (chosen.guest_words)(config));
        let mut command =
            doorbell_oracle::under(&["setpriv", "--pdeathsig", "KILL"], &doorbell_oracle::qemu());
        command.args(["-M", "virt", "-nodefaults"]);
        command.args(["-display", "none", "-serial", "stdio", "-no-reboot"]);
        command.args(["-cpu", &format!("{},sstc=on", doorbell_oracle::HART)]);
        command.args(["-m", &format!("{}M", config.platform.ram.0 >> 20)]);
        command.args(["-netdev", &format!("socket,id=wire,connect={wire_at}")]);
        command.args(["-device", "e1000,addr=1,romfile=,netdev=wire"]);
        command.arg("-bios").arg(image.dir().join("fw_dynamic.bin")).arg("-kernel").arg(image.kernel());
        command.arg("-initrd").arg(image.initramfs()).args(["-append", &words]);
        command.arg("-D").arg(folder.join("log"));
        command.args(["-chardev", &format!("socket,id=monitor,path={}", folder.join("monitor").display())]);
        command.args(["-mon", "chardev=monitor"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("setpriv starts");
        let monitor = listener.accept().expect("QEMU connects to its monitor").0;
        let wire = wire.accept().expect("QEMU connects to the wire").0;
        wire.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
        let mut console = BufReader::new(child.stdout.take().expect("it is a pipe"));
        let mut line = Vec::new();
        while !String::from_utf8_lossy(&line).contains(chosen.ready_marker) {
            line.clear();
            let read = console.read_until(b'\n', &mut line).expect("the console can be read");
            assert!(read > 0, "QEMU ended before {} was ready", chosen.name);
        }
        let mut qemu = Qemu { child, monitor, wire, _console: console };
        qemu.prompt();
        qemu
    }

    fn prompt(&mut self) -> String {
        let mut text = Vec::new();
        let mut byte = [0];
        while !text.ends_with(b"(qemu) ") {
            self.monitor.read_exact(&mut byte).expect("QEMU keeps its monitor");
            text.push(byte[0]);
        }
        String::from_utf8_lossy(&text).into_owned()
    }

    fn command(&mut self, command: &str) -> String {
        writeln!(self.monitor, "{command}").expect("QEMU keeps its monitor");
        self.prompt()
    }

    /// Traces empty polls, then forwarding. `None` if user space hardly runs because the host is too busy.
    fn trace(mut self, log: &Path, frame: &[u8]) -> Option<Trace> {
        self.command("one-insn-per-tb on");
        self.command("log exec,nochain");
        let logged = || fs::metadata(log).map_or(0, |file| file.len());
        let idle = idle_polls(log)?;
        // A `socket` netdev sends each frame after its length.
        let sent = [&u32::try_from(frame.len()).expect("a short frame").to_be_bytes(), frame].concat();
        let mut counted_from = 0;
        for batch in 0..BATCHES {
            if batch == NOT_COUNTED {
                counted_from = logged() as usize;
            }
            self.wire.write_all(&sent.repeat(BATCH)).expect("QEMU takes all frames");
            for frame in 0..BATCH {
                let mut length = [0; 4];
                let back = self.wire.read_exact(&mut length);
                back.unwrap_or_else(|_| panic!("only {frame} frames of batch {batch} returned"));
                let mut frame = vec![0; u32::from_be_bytes(length) as usize];
                self.wire.read_exact(&mut frame).expect("frames return completely");
            }
        }
        self.command("log none");
        drop(self);
        let log = fs::read(log).expect("QEMU writes its log");
        Some(Trace { idle, counted: program_addresses(&log[counted_from..]) })
    }
}

/// User-space instructions of empty polls from QEMU's log. `None` if a long log has hardly any.
fn idle_polls(log: &Path) -> Option<Vec<u64>> {
    let begin = Instant::now();
    let mut file = None;
    let (mut lines, mut read, mut idle) = (Vec::new(), 0, Vec::new());
    while read < IDLE_LOG || idle.len() < IDLE_INSTRUCTIONS {
        assert!(begin.elapsed() < PATIENCE || read >= IDLE_LOG, "QEMU's log does not grow");
        if begin.elapsed() >= PATIENCE || read >= IDLE_LOG_MAX {
            return None;
        }
        std::thread::sleep(Duration::from_millis(10));
        file = file.or_else(|| fs::File::open(log).ok());
        let Some(file) = &mut file else { continue };
        read += file.read_to_end(&mut lines).expect("QEMU's log can be read");
        // Keep the incomplete last line for the next read.
        let whole = lines.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        idle.extend(program_addresses(&lines[..whole]));
        lines.drain(..whole);
    }
    Some(idle)
}

fn program_addresses(log: &[u8]) -> Vec<u64> {
    log.split(|&byte| byte == b'\n').filter_map(program_address).collect()
}

/// Address in a line of the log, if in user space: neither in the kernel's upper half nor in the firmware's
/// RAM.
fn program_address(line: &[u8]) -> Option<u64> {
    let line = std::str::from_utf8(line).ok()?.strip_prefix("Trace ")?;
    let address = u64::from_str_radix(line.split('/').nth(1)?, 16).ok()?;
    (address < 1 << 47 && !(0x8000_0000..0x1_0000_0000).contains(&address)).then_some(address)
}

fn counts(addresses: &[u64]) -> HashMap<u64, u64> {
    let mut counts = HashMap::new();
    for &address in addresses {
        *counts.entry(address).or_default() += 1;
    }
    counts
}

/// The execution count shared by instructions that account for most of the executions.
fn usual(counts: &HashMap<u64, u64>) -> u64 {
    let mut weights: HashMap<u64, u64> = HashMap::new();
    for &count in counts.values() {
        *weights.entry(count).or_default() += count;
    }
    weights.into_iter().max_by_key(|&(count, weight)| (weight, count)).expect("something was executed").0
}

/// Instructions and number of the polls that found frames, in the counted part of a trace.
fn busy_polls(trace: &Trace) -> (usize, usize) {
    let idle = counts(&trace.idle);
    let polls = usual(&idle);
    let lengths = |of: &[u64], at: u64| -> Vec<usize> {
        of.split(|&address| address == at).map(|piece| piece.len() + 1).collect()
    };
    // Split the trace at an address that every empty poll executes once. A piece is an empty poll if the idle
    // trace has pieces of this length. If busy polls execute the address several times, the pieces change but
    // not their sum. If they do not execute it, a piece includes an empty poll too.
    let long = 2 * trace.idle.len() / polls as usize;
    let split = |at: u64| -> (usize, usize) {
        let empty: HashSet<usize> = lengths(&trace.idle, at).into_iter().collect();
        let pieces = lengths(&trace.counted, at);
        let busy = pieces.iter().filter(|length| !empty.contains(length)).sum();
        (busy, pieces.iter().filter(|&&length| length > long).count())
    };
    let bursts = ((BATCHES - NOT_COUNTED) * BATCH).div_ceil(BURST as usize);
    let once = idle.iter().filter(|&(_, &count)| count.abs_diff(polls) <= 1);
    let whole: Vec<_> = once.map(|(&address, _)| split(address)).filter(|busy| busy.1 >= bursts).collect();
    let instructions = whole.iter().map(|busy| busy.0).min();
    let count = whole.iter().map(|busy| busy.1).min();
    instructions.zip(count).expect("some address is executed once per poll")
}

/// A 64-byte UDP frame for a forwarder.
fn frame(config: &RunConfig) -> Vec<u8> {
    let mut frame = vec![0x52, 0x54, 0, 0x12, 0x34, 0x56, 2, 0, 0, 0, 0, 1, 8, 0];
    let mut ip = vec![0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1];
    ip.extend(config.loadgen.traffic.destination_ip.octets());
    let sum: u32 = ip.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let folded = (sum & 0xFFFF) + (sum >> 16);
    ip[10..12].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    frame.extend(ip);
    frame.extend([0x30, 0x39, 0, 9, 0, 26, 0, 0]);
    frame.resize(60, 0);
    frame
}

fn instructions_here(chosen: &'static Benchmark, config: &Resolved) -> f64 {
    let session = quiet(|control| Session::prepare(config, chosen, &places(), &Source::Cache, control));
    let session = session.expect("the benchmark becomes ready");
    let rate = "30Mpps".parse().expect("a rate");
    let point = quiet(|control| run_point(&session, rate, Bytes(64), control)).expect("the benchmark runs");
    let timing = point.summary.timing.expect("the run was timed");
    let group = timing.0.iter().find(|group| group.name == "packet cost").expect("a forwarder has packets");
    let figure = group.figures.iter().find(|figure| figure.name == "busy_instructions");
    figure.and_then(|figure| figure.value).expect("it has a value")
}

fn compare(name: &str) {
    let chosen = benchmark(name).expect("the name is a benchmark");
    let set = chosen.defaults.iter().copied();
    let set = set.chain(["run.warmup=1ms", "run.settle=500us", "run.duration=2ms", "run.drain=1ms"]);
    let config =
        resolve("server", &set.map(str::to_owned).collect::<Vec<_>>()).expect("the configuration is valid");
    let here = instructions_here(chosen, &config);
    // The split of QEMU's log into polls depends on the frames' arrival times: on a busy host, an attempt can
    // find partial polls.
    let agrees = (0..ATTEMPTS).any(|_| {
        let Some((there, burst)) = instructions_on_qemu(chosen, &config) else {
            println!("{name}: QEMU's guest hardly polled, because the host is busy");
            return false;
        };
        println!("{name}: {here:.2} instructions per packet here, {there:.2} on QEMU ({burst:.1} packets per burst)");
        (27.0..=BURST).contains(&burst) && (here / there - 1.0).abs() < 0.02
    });
    assert!(
        agrees,
        "{name}: {here:.2} instructions per packet here, and different counts on QEMU {ATTEMPTS} times"
    );
}

/// Instructions per packet and frames per poll on QEMU; `None` if the host is too busy.
fn instructions_on_qemu(chosen: &'static Benchmark, config: &RunConfig) -> Option<(f64, f64)> {
    let folder = scratch();
    let qemu = Qemu::start(chosen, config, folder.path());
    let (instructions, polls) = busy_polls(&qemu.trace(&folder.path().join("log"), &frame(config))?);
    let frames = (BATCHES - NOT_COUNTED) * BATCH;
    Some((instructions as f64 / frames as f64, frames as f64 / polls as f64))
}

#[test]
#[ignore = "long: make test-long runs it"]
fn testpmd_instructions_per_packet_match_qemu() {
    compare("testpmd");
}

#[test]
#[ignore = "long: make test-long runs it"]
fn l3fwd_instructions_per_packet_match_qemu() {
    compare("l3fwd");
}
