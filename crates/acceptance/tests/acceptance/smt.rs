//! SMT: both threads of a core forward, the guest sees which harts are siblings, and a core with two threads
//! forwards more than with one thread and less than two cores.

use std::fs;

use doorbell_acceptance::{doorbell, quiet, run_point, scratch, timed_session};
use doorbell_bench::figure_keys::{L1D, PACE};
use doorbell_bench::{FigureKey, Point};
use doorbell_sim::Bytes;
use doorbell_sim::stats::Stats;

const FLOWS: &str = "loadgen.traffic.streams=[{rate=\"60Mpps\",sweeps=[{field=\"source-port\",count=64}]}]";

/// testpmd at a rate above the capacity of all these machines.
fn overloaded(guest: &[&str]) -> Point {
    let guest = [&["nic.model=82576", "platform.ram=\"256MiB\""], guest].concat();
    let times = ["run.warmup=500us", "run.settle=200us", "run.duration=300us", "run.drain=0us", FLOWS];
    let session = timed_session(&guest, &times);
    let rate = "60Mpps".parse().expect("a rate");
    quiet(|control| run_point(&session, rate, Bytes(64), control)).expect("testpmd runs")
}

fn figure(point: &Point, entry: usize, key: FigureKey) -> f64 {
    point.summary.cores[entry].figures.get(key).expect("the figure exists")
}

const THREADS: [&str; 3] = ["testpmd.cores=2", "platform.harts=2", "platform.threads=2"];

#[test]
fn both_threads_of_a_core_forward_and_share_its_issue_slots() {
    let point = overloaded(&THREADS);
    let of: Vec<_> =
        point.summary.cores.iter().map(|figures| (figures.hart, figures.core, figures.thread)).collect();
    assert_eq!(of, [(0, Some(0), Some(0)), (1, Some(0), Some(1)), (0, Some(0), None)]);
    let ipc = [0, 1, 2].map(|entry| figure(&point, entry, PACE.ipc));
    assert!((ipc[0] / ipc[1] - 1.0).abs() < 0.05, "both threads have the same IPC: {ipc:?}");
    assert!((ipc[0] + ipc[1] - ipc[2]).abs() < 0.01, "the core's IPC is the sum of its threads': {ipc:?}");
    let instructions = [0, 1, 2].map(|entry| figure(&point, entry, PACE.instructions));
    assert_eq!(instructions[0] + instructions[1], instructions[2]);
    assert_eq!(instructions[2], point.summary.instructions as f64);
    let books = [0, 1].map(|hart| point.machine.core_stats(hart).expect("the run is timed").books);
    let slots: u64 = books.iter().map(|books| books.top_down().total() + books.slots_idle).sum();
    assert_eq!(slots, 4 * books[0].slot_cycles);
    // Both threads share the core's caches, whose accesses are not counted twice.
    let accesses = point.summary.figure(L1D.misses_per_packet);
    assert_eq!(accesses, Some(figure(&point, 2, L1D.misses_per_packet)));
    assert!(point.machine.timing().expect("the run is timed").memory.stats().harts.len() == 1);
    let counted = point.machine.core_stats(0).expect("the run is timed").counters();
    assert!(counted.iter().any(|counter| counter.name == "loads" && counter.value > 0));
}

#[test]
#[ignore = "long: make test-long runs it"]
fn two_threads_forward_more_than_one_and_less_than_two_cores_and_the_guest_sees_siblings() {
    let one = overloaded(&["testpmd.cores=1"]).summary.arrived_mpps;
    let threads = overloaded(&THREADS).summary.arrived_mpps;
    let two = overloaded(&["testpmd.cores=2", "platform.harts=2"]).summary.arrived_mpps;
    assert!(threads > 1.1 * one && threads < 1.6 * one, "{threads} with two threads, {one} with one");
    assert!(two > 1.2 * threads, "{two} on two cores, {threads} on one with two threads");

    let folder = scratch();
    let place = |name: &str| folder.path().join(name).display().to_string();
    fs::write(place("script"), "cat /sys/devices/system/cpu/cpu*/topology/thread_siblings_list\n")
        .expect("the script can be written");
    let (script, out) = (place("script"), place("out"));
    let machine = ["--set", "platform.harts=4", "--set", "platform.threads=2", "--preset", "fast"];
    let words = ["run", "--image", "net", "--script", &script, "--out", &out];
    doorbell(&[&words[..], &machine].concat()).success();
    let console = fs::read_to_string(place("out/console.log")).expect("the console log is written");
    assert!(console.replace('\r', "").contains("0-1\n0-1\n2-3\n2-3\n"), "{console}");
}
