//! Guest performance counters, read with perf_event_open through OpenSBI, over loops with known event counts.
//! Needs riscv64-linux-gnu-gcc with its libc.

use std::collections::HashMap;
use std::process::Command;

use doorbell_acceptance::{doorbell, scratch};

/// Event counts by loop and event.
struct Counts(HashMap<(String, String), u64>);

impl Counts {
    fn of(&self, of_loop: &str, event: &str) -> u64 {
        self.0[&(of_loop.to_owned(), event.to_owned())]
    }

    #[track_caller]
    fn is_within(&self, of_loop: &str, event: &str, least: u64, most: u64) {
        let count = self.of(of_loop, event);
        assert!((least..=most).contains(&count), "{count} {event} in {of_loop}, expected {least} to {most}");
    }
}

fn counted(options: &[&str]) -> Counts {
    let folder = scratch();
    let path = |name: &str| folder.path().join(name).to_str().expect("scratch paths are UTF-8").to_owned();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/guest_events.c");
    let mut compiler = Command::new("riscv64-linux-gnu-gcc");
    compiler.args(["-O2", "-static", "-Wall", "-Werror", "-o", &path("script"), source]);
    assert!(compiler.status().expect("the cross compiler is installed").success());
    let (script, out) = (path("script"), path("out"));
    let common = ["run", "--image", "net", "--script", &script, "-q", "--out", &out];
    doorbell(&[&common, options].concat()).success();
    let console = std::fs::read_to_string(path("out/console.log")).unwrap();
    let lines = console.lines().filter_map(|line| line.trim_end().strip_prefix("count "));
    let counts = lines.map(|line| {
        let [of_loop, event, count] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        ((of_loop.to_owned(), event.to_owned()), count.parse().unwrap())
    });
    Counts(counts.collect())
}

#[test]
fn guest_performance_counters_match_the_program() {
    let counts = counted(&["--preset", "server"]);
    // Four instructions per division, plus OpenSBI and the kernel starting and stopping fourteen counters.
    counts.is_within("divide", "instructions", 80_000, 160_000);
    for event in ["instructions", "retiring"] {
        let more = counts.of("chase", event) - counts.of("divide", event);
        assert!(
            more.abs_diff(20_000) < 100,
            "a link of the chase takes one instruction more than a division: {more} {event}"
        );
    }
    counts.is_within("branch", "branch-misses", 18_000, 22_500);
    counts.is_within("divide", "branch-misses", 0, 1_500);
    // Each link is in another line, mostly in another page than the previous one.
    counts.is_within("chase", "L1-dcache-load-misses", 19_900, 22_000);
    counts.is_within("divide", "L1-dcache-load-misses", 0, 1_500);
    counts.is_within("chase", "dTLB-load-misses", 15_000, 22_000);
    for of_loop in ["divide", "branch", "chase"] {
        let of = |event: &str| counts.of(of_loop, event);
        let sum = |events: &[&str]| events.iter().map(|event| of(event)).sum::<u64>();
        // Counters start one after the other, so events in between are in one count only.
        let near = |a: u64, b: u64| assert!(a.abs_diff(b) < 60_000 + a / 100, "{a} and {b} in {of_loop}");
        near(sum(&["retiring", "bad_speculation", "frontend_bound", "backend_bound"]), of("slots"));
        near(of("cycles") * 4, of("slots"));
        near(of("retiring"), of("instructions"));
        near(sum(&["loads_l2", "loads_llc", "loads_dram"]), of("L1-dcache-load-misses"));
    }
    assert!(
        counts.of("divide", "divider") * 10 > counts.of("divide", "slots") * 7,
        "the divide loop spends most of its time in the divider"
    );
    assert!(counts.of("chase", "divider") * 100 < counts.of("chase", "slots"));
    assert!(counts.of("branch", "bad_speculation") * 2 > counts.of("branch", "slots"));
    assert!(counts.of("chase", "backend_bound") * 10 > counts.of("chase", "slots") * 8);
}

/// Asserts that only cycles and instructions have counted.
fn assert_only_cycles_and_instructions(counts: &Counts) {
    counts.is_within("divide", "instructions", 80_000, 160_000);
    for ((of_loop, event), count) in &counts.0 {
        let counts_always = matches!(&**event, "cycles" | "instructions");
        assert_eq!(*count > 0, counts_always, "{count} {event} in {of_loop}");
    }
}

#[test]
fn without_timing_models_only_cycles_and_instructions_count() {
    assert_only_cycles_and_instructions(&counted(&["--preset", "fast"]));
}

#[test]
fn events_do_not_count_during_warm_up() {
    // The warm-up is longer than the program.
    assert_only_cycles_and_instructions(&counted(&["--preset", "server", "--warmup", "10s"]));
}
