//! End-to-end checks of timed machines: whole runs of testpmd with the preset `server`.

use doorbell_acceptance::{places, quiet, run_point};
use doorbell_bench::{Point, Resolved, Session, Source, benchmark, resolve};
use doorbell_machine::{Limits, Machine, Mode};
use doorbell_sim::ports::{DmaDirection, DmaPurpose};
use doorbell_sim::{Bytes, Ps};

const QUICK: [&str; 4] = ["run.warmup=1ms", "run.settle=100us", "run.duration=300us", "run.drain=1ms"];

fn configured(preset: &str, set: &[&str]) -> Resolved {
    let all: Vec<String> = QUICK.iter().chain(set).map(|word| (*word).to_owned()).collect();
    resolve(preset, &all).expect("the check's configuration is valid")
}

fn session(preset: &str, set: &[&str]) -> Session {
    let config = configured(preset, set);
    let chosen = benchmark("testpmd").expect("testpmd is a benchmark");
    quiet(|control| Session::prepare(&config, chosen, &places(), &Source::Cache, control))
        .expect("testpmd becomes ready")
}

fn point(preset: &str, set: &[&str], rate: &str, size: u64) -> Point {
    let session = session(preset, set);
    let rate = rate.parse().expect("a rate");
    quiet(|control| run_point(&session, rate, Bytes(size), control)).expect("testpmd runs")
}

fn figure(point: &Point, group: &str, name: &str) -> f64 {
    let timing = point.summary.timing.as_ref().expect("the run was timed");
    let group = timing.0.iter().find(|of| of.name == group).unwrap_or_else(|| panic!("no group {group}"));
    let figure = group.figures.iter().find(|figure| figure.name == name);
    figure.and_then(|figure| figure.value).unwrap_or_else(|| panic!("no figure {name}"))
}

fn sum(point: &Point, group: &str) -> f64 {
    let timing = point.summary.timing.as_ref().expect("the run was timed");
    let group = timing.0.iter().find(|of| of.name == group).unwrap_or_else(|| panic!("no group {group}"));
    group.figures.iter().map(|figure| figure.value.expect("the figure has a value")).sum()
}

/// A fully timed machine under traffic.
fn with_traffic(set: &[&str]) -> (Session, Machine) {
    let session = session("server", set);
    let mut machine = session.machine().expect("a machine");
    let traffic = session.config().loadgen.traffic.clone();
    machine.set_mode(Mode::Warming);
    machine.start_traffic(&traffic).expect("the traffic is valid");
    run(&mut machine, 50);
    machine.set_mode(Mode::Detailed);
    run(&mut machine, 37);
    (session, machine)
}

fn run(machine: &mut Machine, micros: u64) {
    machine.run(&Limits::until(machine.now() + Ps::from_us(micros)));
}

#[test]
fn a_timed_run_is_reproducible_and_its_breakdowns_sum_to_their_totals() {
    let one = point("server", &[], "8Mpps", 64);
    let other = point("server", &[], "8Mpps", 64);
    assert_eq!(one.summary.state_hash, other.summary.state_hash);
    assert_eq!(one.summary.timing, other.summary.timing);
    assert!(
        (sum(&one, "top-down") - 1.0).abs() < 1e-12 && (sum(&one, "top-down, level 2") - 1.0).abs() < 1e-12
    );
    let level = |group: &str, name: &str| figure(&one, group, name);
    let memory = [
        "l1_bound",
        "l2_bound",
        "llc_bound",
        "peer_bound",
        "dram_bound",
        "store_bound",
        "dtlb",
        "device_bound",
    ];
    for (parent, parts) in [
        ("memory_bound", &memory[..]),
        ("core_bound", &["divider", "ports", "latency", "serialising"]),
        ("fetch_latency", &["icache", "itlb", "misfetches", "refill"]),
    ] {
        let parts: f64 = parts.iter().map(|part| level("top-down, level 3", part)).sum();
        assert!((parts - level("top-down, level 2", parent)).abs() < 1e-12, "{parent}");
    }
    // The parts over time have all bytes of the window, except those after the end of the last part.
    let parts = &one.summary.memory_over_time;
    assert_eq!(parts.len(), 32 * one.config.memory.dram.channels as usize);
    let (first, last) = (&parts[0], &parts[parts.len() - 1]);
    assert_eq!((first.begin_ns, first.channel), (0.0, 0));
    let length = last.begin_ns + last.length_ns;
    let read: f64 = parts.iter().map(|part| part.read_gbps * part.length_ns).sum();
    let written: f64 = parts.iter().map(|part| part.write_gbps * part.length_ns).sum();
    for (of, what) in [(read / length, "read"), (written / length, "write")] {
        let channels = 0..one.config.memory.dram.channels;
        let all: f64 = channels.map(|channel| figure(&one, "DRAM", &format!("{what}_gbps_{channel}"))).sum();
        assert!((of - all).abs() < 0.01 * all + 0.01, "{what}: {of} of {all} Gbps");
    }
    // The CPI stack sums to the inverse of the IPC, except for instructions in flight at the edges of the
    // window.
    let ipc = one.summary.instructions as f64 / (one.summary.simulated_seconds * 3e9);
    assert!((sum(&one, "CPI stack") * ipc - 1.0).abs() < 0.01, "{} at IPC {ipc}", sum(&one, "CPI stack"));
    assert!((1.0..4.0).contains(&ipc), "IPC {ipc} of a four-wide core");
    let stages = one.summary.latency_stages_ns.as_ref().expect("a forwarder's frames have stages");
    let (total, mean) = (
        stages.0.iter().map(|(_, stage)| stage.mean).sum::<f64>(),
        one.summary.latency_ns.as_ref().expect("frames came back").mean,
    );
    assert!((total - mean).abs() < 1e-6 * mean, "stages sum to {total}, round trips are {mean}");
}

#[test]
fn a_sleeping_second_hart_counts_as_idle_and_does_not_add_to_packet_cost() {
    let figures = |harts: &str| {
        let point = point("server", &[harts], "8Mpps", 64);
        ["busy_cycles", "busy_instructions", "busy_share"].map(|name| figure(&point, "packet cost", name))
    };
    let (one, two) = (figures("platform.harts=1"), figures("platform.harts=2"));
    assert!((two[0] / one[0] - 1.0).abs() < 0.05, "cycles per packet: {one:?} and {two:?}");
    assert!(
        (two[2] / (one[2] / 2.0) - 1.0).abs() < 0.05,
        "the busy share is half with twice the cycles: {one:?} and {two:?}"
    );
}

#[test]
fn testpmd_throughput_depends_on_the_core_of_its_own_hart_only() {
    // testpmd polls on hart 0; the kernel's work runs on either hart.
    let small =
        ["core.frequency=1GHz", "pipeline.kind=in-order", "pipeline.issue_width=1", "memory.l2.size=256KiB"];
    let forwarded = |small_harts: &[usize]| {
        let own = small_harts.iter().flat_map(|hart| small.map(|key| format!("hart.{hart}.{key}")));
        let set: Vec<String> = std::iter::once("platform.harts=2".to_owned()).chain(own).collect();
        let set: Vec<&str> = set.iter().map(String::as_str).collect();
        point("server", &set, "32Mpps", 64).summary.arrived_mpps
    };
    let (big, kernel_small, poller_small) = (forwarded(&[]), forwarded(&[1]), forwarded(&[0]));
    assert!(
        (kernel_small / big - 1.0).abs() < 0.02,
        "{kernel_small} Mpps with a small second core, {big} with a big one"
    );
    assert!(poller_small < big / 3.0, "{poller_small} Mpps on a small core, {big} on a big one");
}

#[test]
fn per_core_figures_sum_to_the_machines() {
    let point = point("server", &["platform.harts=2", "hart.1.core.frequency=1GHz"], "8Mpps", 64);
    let cores = &point.summary.cores;
    let of = |hart: usize, group: &str, name: &str| {
        let group = cores[hart].figures.0.iter().find(|of| of.name == group).expect("the group exists");
        group.figures.iter().find(|figure| figure.name == name).and_then(|figure| figure.value)
    };
    let all = |group: &str, name: &str| [0, 1].map(|hart| of(hart, group, name).unwrap_or_default());
    assert_eq!(
        cores.iter().map(|core| (core.hart, core.frequency_ghz)).collect::<Vec<_>>(),
        [(0, 3.0), (1, 1.0)]
    );
    assert_eq!(all("pace", "instructions").iter().sum::<f64>(), point.summary.instructions as f64);
    // A core's cycles end with a block, which can wait for DRAM: about 100 ns.
    let cycles = all("pace", "cycles");
    let seconds = [0, 1].map(|hart| cycles[hart] / (cores[hart].frequency_ghz * 1e9));
    let near = |seconds: &f64| (seconds - point.summary.simulated_seconds).abs() < 200e-9;
    assert!(seconds.iter().all(near), "{cycles:?} cycles");
    for (group, name) in
        [("packet cost", "cycles"), ("packet cost", "busy_cycles"), ("L1D", "misses_per_packet")]
    {
        let (sum, total) = (all(group, name).iter().sum::<f64>(), figure(&point, group, name));
        assert!(
            (sum / total - 1.0).abs() < 1e-9,
            "{group}.{name}: {sum} over all cores, {total} for the machine"
        );
    }
    assert_eq!(of(0, "pace", "asleep_share"), Some(0.0), "testpmd polls all the time");
    assert!(
        of(1, "pace", "asleep_share").is_some_and(|share| share > 0.9),
        "the other hart sleeps most of the time"
    );
    for group in &point.summary.ports[0].queues[0].figures {
        let of_port = point.summary.ports[0].groups.iter().flat_map(|group| &group.figures);
        assert!(
            of_port.into_iter().any(|figure| figure == group),
            "{} of the only queue equals the port's",
            group.name
        );
    }
}

#[test]
fn a_checkpoint_of_a_timed_machine_continues_exactly_or_cold_with_another_core() {
    let (session, mut machine) = with_traffic(&["loadgen.traffic.rate=8Mpps"]);
    let (at, before) = (machine.now(), machine.state_hash());
    let file = machine.checkpoint("timed", "");
    assert_eq!(machine.state_hash(), before, "saving does not change the state");
    let config = session.config().machine();
    let mut restored =
        Machine::new(config.clone(), session.config().run.seed).expect("the configuration is valid");
    restored.restore(&file, "timed").expect("the same machine");
    assert_eq!(restored.section_hashes(), machine.section_hashes());
    assert_eq!(restored.state_hash(), before);
    assert_eq!(restored.mode(), Mode::Detailed);
    // A run ends with the block that reaches its limit, so later limits are relative to `at`, not to the end
    // of a run.
    let until = |micros| Limits::until(at + Ps::from_us(micros));
    machine.run(&until(30));
    restored.run(&until(11));
    restored.run(&until(30));
    assert_eq!(
        restored.section_hashes(),
        machine.section_hashes(),
        "the restored machine continues like the original"
    );
    assert_eq!(restored.state_hash(), machine.state_hash());
    restored.check_conservation();

    let mut config = config;
    config.pipeline.rob = 32;
    let mut other = Machine::new(config, 1).expect("a valid machine");
    other.restore(&file, "timed").expect("the guest-visible part is the same");
    assert_eq!(other.mode(), Mode::Functional, "the state of another core's timing models is discarded");
    other.set_mode(Mode::Detailed);
    run(&mut other, 30);
    other.check_conservation();
}

#[test]
fn changes_of_mode_at_any_time_lose_no_frame() {
    let (_, mut machine) = with_traffic(&["loadgen.traffic.rate=12Mpps", "platform.harts=1"]);
    for (step, mode) in [Mode::Functional, Mode::Detailed, Mode::Warming, Mode::Detailed, Mode::Functional]
        .into_iter()
        .cycle()
        .take(15)
        .enumerate()
    {
        machine.set_mode(mode);
        run(&mut machine, 3 + 5 * step as u64);
        machine.check_conservation();
    }
    machine.stop_traffic();
    run(&mut machine, 500);
    assert_eq!(machine.frames_outstanding(), 0, "all frames have returned");
}

#[test]
fn dma_byte_counts_are_exact() {
    // Buffers are aligned to cache lines, so a padded frame occupies whole lines.
    for (size, full_lines) in
        [(64, false), (64, true), (128, false), (512, true), (1518, false), (1518, true)]
    {
        let padding = format!("nic.full_line_writes={full_lines}");
        let session = session("server", &["dpdk.txrst=16", &padding]);
        let rate = "3Mpps".parse().expect("a rate");
        let before = session.machine().expect("a machine");
        let point = quiet(|control| run_point(&session, rate, Bytes(size), control)).expect("testpmd runs");
        let moved = |purpose, direction| {
            let bytes = |machine: &Machine| {
                machine.attachment_of(machine.function_behind(0)).stats(purpose, direction).payload_bytes
            };
            bytes(&point.machine) - bytes(&before)
        };
        // Traffic started after the checkpoint, and all frames have returned.
        let frames = point.machine.ports()[0].loadgen.stats().sent - before.ports()[0].loadgen.stats().sent;
        assert_eq!(point.machine.frames_outstanding(), 0);
        let data = size - 4;
        let received = if full_lines { data.next_multiple_of(64) } else { data };
        assert_eq!(
            (moved(DmaPurpose::RxData, DmaDirection::Write), moved(DmaPurpose::TxData, DmaDirection::Read)),
            (received * frames, data * frames),
            "{size} B, without the FCS"
        );
        assert_eq!(moved(DmaPurpose::RxDescriptor, DmaDirection::Write), 16 * frames, "{size} B");
        // The NIC prefetches receive descriptors, and writes back one of 16 transmit descriptors.
        let ahead = moved(DmaPurpose::RxDescriptor, DmaDirection::Read).abs_diff(16 * frames) / 16;
        assert!(ahead <= 256, "{size} B: {ahead} descriptors more or fewer than frames");
        assert_eq!(moved(DmaPurpose::TxDescriptor, DmaDirection::Read), 16 * frames, "{size} B");
        let back = moved(DmaPurpose::TxDescriptor, DmaDirection::Write);
        assert!(back.abs_diff(frames) <= 16, "{size} B: {back} bytes for {frames} frames");
    }
}

#[test]
fn direct_cache_access_avoids_packet_header_misses() {
    let on = point("server", &[], "6Mpps", 64);
    let off = point("server", &["memory.dca.policy.enabled=false"], "6Mpps", 64);
    let misses = |point: &Point| figure(point, "LLC", "header_misses_per_packet");
    assert!(misses(&on) < 0.01, "{} header misses per packet with DCA", misses(&on));
    assert!(misses(&off) > 0.95, "{} header misses per packet without DCA", misses(&off));
    let cycles = |point: &Point| figure(point, "packet cost", "busy_cycles");
    assert!(cycles(&off) > 1.1 * cycles(&on), "{} and {} cycles per packet", cycles(&off), cycles(&on));
    let network = |point: &Point| figure(point, "access time", "network_load_cycles");
    assert!(network(&off) > 1.5 * network(&on), "{} and {} cycles", network(&off), network(&on));
}

#[test]
fn a_schedule_switches_direct_cache_access_during_a_measurement() {
    let schedule =
        "memory.dca.schedule=[{after=\"100us\",policy={enabled=false}},{after=\"200us\",policy={}}]";
    let point = point("server", &[schedule], "6Mpps", 64);
    // DCA is off for a third of the 300 µs.
    let misses = figure(&point, "LLC", "header_misses_per_packet");
    assert!((0.25..0.42).contains(&misses), "{misses} misses per packet");
    let wrong = resolve("server", &["memory.dca.schedule=[{after=\"200s\",policy={}}]".to_owned()]);
    assert!(wrong.unwrap_err().to_string().contains("schedule[0].after: is 200s"));
}

#[test]
fn throughput_depends_on_core_frequency_rob_size_and_kind() {
    let forwarded = |set: &[&str]| point("server", set, "100%", 64).summary.delivered_mpps;
    let base = forwarded(&[]);
    let slow = forwarded(&["core.frequency=1GHz"]);
    assert!((0.3..0.55).contains(&(slow / base)), "{slow} of {base} Mpps at a third of the frequency");
    let narrow = forwarded(&["pipeline.rob=16"]);
    assert!(narrow < 0.9 * base, "{narrow} of {base} Mpps with a ROB of 16");
    let in_order = forwarded(&["pipeline.kind=in-order"]);
    assert!(in_order < 0.7 * base, "{in_order} of {base} Mpps with an in-order core");
}
