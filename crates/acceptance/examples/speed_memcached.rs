//! Requests per second that one host core answers: memcached-dpdk over a pcap port, and Debian's memcached
//! over UDP loopback. A benchmark, not a test: results depend on the host.
//!
//!     cargo run --release -p doorbell-acceptance --example speed_memcached
//!
//! Both get the same requests: 5000 keys of 16 bytes with values of 64 bytes, one SET per key, then four GETs
//! per SET.
//!
//! The compared figure is requests per second of the server's processor time (user and system, without
//! start-up), so that other processes on the host have little effect. The two setups differ in more than the
//! server. The pcap port replays frames from memory, copying each to a new buffer (`infinite_rx=1`), and
//! drops the responses: no NIC and no descriptor rings. memcached's time includes its system calls and its
//! half of the kernel's loopback work; the other half is charged to the client, on another core, with 64
//! requests in flight.

use std::fs::read_to_string;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use doorbell_acceptance::baseline::median;
use doorbell_acceptance::memcached::Memcached;
use doorbell_acceptance::native::{EAL, build};
use doorbell_acceptance::scratch;
use doorbell_sim::{Frame, Ps};
use doorbell_wire::pcap::{PcapFile, WHOLE_FRAMES};
use etherparse::PacketBuilder;

const KEYS: usize = 5_000;
const ROUNDS: usize = 3;
const IN_FLIGHT: usize = 64;
const PATIENCE: Duration = Duration::from_millis(200);

/// Payloads of all requests: SETs first, then GETs, in an order that prefetchers cannot predict.
fn requests() -> Vec<Vec<u8>> {
    let header = |number: usize| [(number >> 8) as u8, number as u8, 0, 0, 0, 1, 0, 0];
    let value = "v".repeat(64);
    (0..5 * KEYS)
        .map(|number| {
            let key = format!("{:0>16}", number * 7_919 % KEYS);
            let text = match number / KEYS {
                0 => format!("set {key} 0 0 64\r\n{value}\r\n"),
                _ => format!("get {key}\r\n"),
            };
            [header(number).as_slice(), text.as_bytes()].concat()
        })
        .collect()
}

/// Processor time used by a process, in seconds.
fn seconds_of(child: &Child) -> f64 {
    let stat = read_to_string(format!("/proc/{}/stat", child.id())).expect("it runs");
    let after_name: Vec<&str> =
        stat.rsplit(')').next().expect("a name in brackets").split_whitespace().collect();
    let ticks = |at: usize| after_name[at].parse::<f64>().expect("a number");
    // User and system time, always in hundredths of a second (proc(5)).
    (ticks(11) + ticks(12)) / 100.0
}

fn pcap(path: &Path) {
    let mut file = PcapFile::create(path, WHOLE_FRAMES).expect("the capture can be written");
    for payload in requests() {
        let mut bytes = Vec::new();
        PacketBuilder::ethernet2([2, 0, 0, 0, 0, 7], [2, 0x70, 0x63, 0x61, 0x70, 0])
            .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
            .udp(4000, 11211)
            .write(&mut bytes, &payload)
            .expect("writing to a vector does not fail");
        file.record(Ps::ZERO, &Frame::new(bytes));
    }
    file.finish().expect("the capture can be written");
}

/// Requests per second of processor time. The difference of a long and a short run excludes start-up.
fn ours(program: &Path, pcap: &Path) -> f64 {
    let run = |frames: u64| {
        let started = Instant::now();
        let mut child = Command::new(program)
            .args(EAL)
            .args(["--lcores=0@0", &format!("--vdev=net_pcap0,rx_pcap={},infinite_rx=1", pcap.display())])
            .args(["--", "--total-num-mbufs=32767", &format!("--frames={frames}")])
            .stdout(Stdio::null())
            .spawn()
            .expect("memcached-dpdk starts");
        let mut seconds = 0.0;
        while child.try_wait().expect("a child can be waited for").is_none() {
            seconds = seconds_of(&child);
            std::thread::sleep(Duration::from_millis(1));
            assert!(started.elapsed() < Duration::from_secs(100), "memcached-dpdk does not exit");
        }
        assert!(child.wait().expect("a child can be waited for").success());
        seconds
    };
    const FEW: u64 = 100_000;
    const MANY: u64 = 5_000_000;
    (MANY - FEW) as f64 / (run(MANY) - run(FEW))
}

/// Sends every request once, without retransmission; returns the number of responses.
fn send_all(memcached: &Memcached, requests: &[Vec<u8>]) -> usize {
    let (mut sent, mut answered, mut lost) = (0, 0, 0);
    let mut answer = [0; 2048];
    while answered + lost < requests.len() {
        while sent < requests.len() && sent - answered - lost < IN_FLIGHT {
            memcached.socket.send(&requests[sent]).expect("memcached runs");
            sent += 1;
        }
        match memcached.socket.recv(&mut answer) {
            Ok(_) => answered += 1,
            Err(_) => lost = sent - answered,
        }
    }
    answered
}

fn theirs() -> (f64, f64) {
    let memcached = Memcached::start(&["taskset", "-c", "0"], &[], PATIENCE);
    let requests = requests();
    send_all(&memcached, &requests);
    let (started, before) = (Instant::now(), seconds_of(&memcached.child));
    let answered: usize = (0..20).map(|_| send_all(&memcached, &requests)).sum();
    let seconds = seconds_of(&memcached.child) - before;
    (answered as f64 / seconds, answered as f64 / started.elapsed().as_secs_f64())
}

fn main() {
    let folder = scratch();
    let capture = folder.path().join("requests.pcap");
    pcap(&capture);
    let program = build("memcached-dpdk", "-O2", folder.path());
    let ours = median((0..ROUNDS).map(|_| ours(&program, &capture)));
    let both: Vec<(f64, f64)> = (0..ROUNDS).map(|_| theirs()).collect();
    let theirs = median(both.iter().map(|&(by_time, _)| by_time));
    println!("requests per second of the server's processor time, median of {ROUNDS} rounds:");
    println!("  memcached-dpdk over a pcap port         {:9.0}", ours);
    println!("  Debian's memcached over UDP loopback    {:9.0}", theirs);
    println!("  ratio                                   {:9.1}", ours / theirs);
    println!(
        "memcached by wall-clock time: {:.0} requests per second",
        median(both.iter().map(|&(_, by_wall)| by_wall))
    );
}
