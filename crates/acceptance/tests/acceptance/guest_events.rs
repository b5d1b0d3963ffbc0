//! What a guest counts with its own performance counters, through the kernel's perf_event_open and OpenSBI, of loops of which it is
//! known what they do. Needs riscv64-linux-gnu-gcc with its libc.

use std::collections::HashMap;
use std::process::Command;

use doorbell_acceptance::{doorbell, scratch};

/// How often each event happened in each loop.
struct Counts(HashMap<(String, String), u64>);

impl Counts {
    fn of(&self, of_loop: &str, event: &str) -> u64 {
        self.0[&(of_loop.to_owned(), event.to_owned())]
    }

    #[track_caller]
    fn is_within(&self, of_loop: &str, event: &str, least: u64, most: u64) {
        let count = self.of(of_loop, event);
        assert!((least..=most).contains(&count), "{count} {event} in {of_loop}, not {least} to {most}");
    }
}

fn counted(options: &[&str]) -> Counts {
    let folder = scratch();
    let path = |name: &str| folder.path().join(name).to_str().expect("a path that is text").to_owned();
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
fn a_guest_counts_what_its_program_does() {
    let counts = counted(&["--preset", "server"]);
    // Four instructions a division; and OpenSBI and the kernel start and stop fourteen counters.
    counts.is_within("divide", "instructions", 80_000, 160_000);
    for event in ["instructions", "retiring"] {
        let more = counts.of("chase", event) - counts.of("divide", event);
        assert!(
            more.abs_diff(20_000) < 100,
            "a link takes an instruction more than a division: {more} {event}"
        );
    }
    counts.is_within("branch", "branch-misses", 18_000, 22_500);
    counts.is_within("divide", "branch-misses", 0, 1_500);
    // A link is a line of its own, mostly in another page than the last.
    counts.is_within("chase", "L1-dcache-load-misses", 19_900, 22_000);
    counts.is_within("divide", "L1-dcache-load-misses", 0, 1_500);
    counts.is_within("chase", "dTLB-load-misses", 15_000, 22_000);
    for of_loop in ["divide", "branch", "chase"] {
        let of = |event: &str| counts.of(of_loop, event);
        let sum = |events: &[&str]| events.iter().map(|event| of(event)).sum::<u64>();
        // What starts between two counters is in one and not in the other.
        let near = |a: u64, b: u64| assert!(a.abs_diff(b) < 60_000 + a / 100, "{a} and {b} in {of_loop}");
        near(sum(&["retiring", "bad_speculation", "frontend_bound", "backend_bound"]), of("slots"));
        near(of("cycles") * 4, of("slots"));
        near(of("retiring"), of("instructions"));
        near(sum(&["loads_l2", "loads_llc", "loads_dram"]), of("L1-dcache-load-misses"));
    }
    assert!(
        counts.of("divide", "divider") * 10 > counts.of("divide", "slots") * 7,
        "divisions take its time"
    );
    assert!(counts.of("chase", "divider") * 100 < counts.of("chase", "slots"));
    assert!(counts.of("branch", "bad_speculation") * 2 > counts.of("branch", "slots"));
    assert!(counts.of("chase", "backend_bound") * 10 > counts.of("chase", "slots") * 8);
}

/// Whether only cycles and instructions have been counted.
fn assert_events_stood_still(counts: &Counts) {
    counts.is_within("divide", "instructions", 80_000, 160_000);
    for ((of_loop, event), count) in &counts.0 {
        let counts_always = matches!(&**event, "cycles" | "instructions");
        assert_eq!(*count > 0, counts_always, "{count} {event} in {of_loop}");
    }
}

#[test]
fn without_timing_models_only_cycles_and_instructions_count() {
    assert_events_stood_still(&counted(&["--preset", "fast"]));
}

#[test]
fn while_caches_warm_up_events_stand_still() {
    // Longer than all of the program.
    assert_events_stood_still(&counted(&["--preset", "server", "--warmup", "10s"]));
}
