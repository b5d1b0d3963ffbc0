//! Observers of a timed run (profile, timeline, pipeline log, trace): they do not change the run, their
//! figures sum to the run's counters, and their files read back correctly.

use std::collections::BTreeMap;
use std::path::Path;

use doorbell_acceptance::{quiet, run_point_observed, session, timed_session};
use doorbell_bench::{Observe, Point, ReadyTrace, RunError, Session, Traces, fingerprint, resolve_played};
use doorbell_loadgen::{Arrivals, PacketStamps, STAGES};
use doorbell_machine::playback::{Pace, Plan, Played, Player, TraceInput};
use doorbell_machine::{Base, CoreModel, LoggedOp, MachineConfig, PlatformConfig};
use doorbell_sim::ports::DmaPurpose;
use doorbell_sim::{Bytes, Op, OpClass, Ps};
use doorbell_trace::system::{EventKind, StoreOrigin, TraceFile, instructions};
use serde_json::Value;

const PACKETS: usize = 50;
const INSTRUCTIONS: u64 = 3000;

fn all(trace: &Path) -> Observe {
    let (timeline, pipeline, trace) = (Some(PACKETS), Some(INSTRUCTIONS), Some(trace.to_owned()));
    Observe { profile: true, timeline, pipeline, trace, ..Observe::default() }
}

fn measure(session: &Session, observe: &Observe) -> Result<Point, RunError> {
    let rate = "6Mpps".parse().unwrap();
    quiet(|control| run_point_observed(session, rate, Bytes(64), observe, control))
}

fn file<'a>(point: &'a Point, name: &str) -> &'a str {
    &point.observed.files.iter().find(|(found, _)| *found == name).expect("the file was written").1
}

#[test]
fn observers_do_not_change_a_run_and_their_files_match_it() {
    let mut session = timed_session(&[], &["run.duration=300us", "run.warmup=100us", "run.settle=50us"]);
    let plain = measure(&session, &Observe::default()).unwrap();
    session.fingerprint = true;
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.dbt");
    let observed = measure(&session, &all(&trace)).unwrap();
    assert_eq!(plain.machine.section_hashes(), observed.machine.section_hashes());
    let mut stripped = observed.summary.clone();
    (stripped.functions, stripped.kinds) = (None, None);
    (stripped.host_seconds, stripped.host_mips) = (plain.summary.host_seconds, plain.summary.host_mips);
    assert_eq!(stripped, plain.summary);
    assert!(plain.observed.files.is_empty());
    assert!(fingerprint(&plain.machine).is_none());
    let print = fingerprint(&observed.machine).expect("a fingerprint was requested");
    assert_eq!(print["wires"]["port0.out"]["frames"], print["counters"]["port0.link_out.frames"]);
    assert_eq!(print["now_ps"], plain.machine.now().0);

    check_trace(&trace, &observed);
    check_names(&trace, &observed);
    check_profile(&observed);
    check_timeline(file(&observed, "timeline.perfetto"), &observed.observed.packets[0]);
    check_log(file(&observed, "pipeline.konata"), &observed.observed.watched.pipeline);
}

/// Checks the recorded trace's contents and its replay.
fn check_trace(path: &Path, point: &Point) {
    check_contents(path, point);
    check_stores(&TraceFile::open(path).unwrap());
    check_played(TraceFile::open(path).unwrap(), point);
}

/// Checks that the trace has every instruction of the window, and every frame of the NIC except those at the
/// edges.
fn check_contents(path: &Path, point: &Point) {
    let trace = TraceFile::open(path).unwrap();
    let counts = trace.check().unwrap();
    let summary = &point.summary;
    assert_eq!(counts.instructions, [summary.instructions]);
    let frames = summary.frames_offered;
    assert!(frames > 1500 && frames.abs_diff(counts.frames_in) < 30, "{frames} {counts:?}");
    assert!(frames.abs_diff(counts.frames_out) < 60, "{frames} {counts:?}");
    let (mut devices, mut received, mut frame) = (trace.devices().unwrap(), 0, None);
    while let Some(event) = devices.next().unwrap() {
        assert!(event.after <= summary.instructions);
        let EventKind::Dma(dma) = event.what else { continue };
        if dma.purpose == DmaPurpose::RxData {
            assert!(
                dma.is_write() && dma.offset == 0 && matches!(dma.len, 60 | 64) && dma.visible >= event.after,
                "{dma:?}"
            );
            assert_eq!(dma.frame, frame.map_or(0, |before: u64| before + 1));
            (frame, received) = (Some(dma.frame), received + 1);
        }
    }
    assert!(received > 0 && counts.frames_in.abs_diff(received) < 30, "{received} {counts:?}");
}

/// Checks that every store to the NIC is recorded with the instruction that issued it, hundreds of
/// instructions earlier. Stores in flight at the start of the recording have no instruction.
fn check_stores(trace: &TraceFile) {
    let (mut hart, mut devices) = (trace.hart(0, 0).unwrap(), trace.devices().unwrap());
    let (mut stores, mut ops, mut done) = (BTreeMap::new(), Vec::new(), 0);
    while hart.next(&mut ops).unwrap().is_some() {
        done += instructions(&ops);
        if let [op] = ops[..]
            && op.class == OpClass::Device
            && op.flags & Op::WRITES != 0
        {
            stores.insert(done, op.phys);
        }
        ops.clear();
    }
    let mut without_origin = 0;
    while let Some(event) = devices.next().unwrap() {
        let EventKind::Register { addr, stored, .. } = event.what else { continue };
        let Some(StoreOrigin { hart: 0, after }) = stored else {
            without_origin += 1;
            continue;
        };
        assert_eq!(stores.remove(&after), Some(addr), "{event:?}");
        assert!(after < event.after, "{event:?}");
    }
    // Some stores are in flight at the start and at the end.
    assert!(without_origin < 20 && stores.len() < 20, "{without_origin} {}", stores.len());
}

fn ended(plan: &Plan, config: &MachineConfig) -> Player {
    let mut player = Player::new(config, plan).unwrap();
    assert!(!player.run(u64::MAX).unwrap(), "the whole trace was replayed");
    player
}

fn play(plan: &Plan, config: &MachineConfig) -> Played {
    ended(plan, config).played()
}

#[test]
fn recording_does_not_change_a_functional_run_and_its_trace_can_be_replayed() {
    let session = session(&[], &["run.duration=300us"]);
    let plain = measure(&session, &Observe::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.dbt");
    let recorded = measure(&session, &Observe { trace: Some(path.clone()), ..Observe::default() }).unwrap();
    assert_eq!(plain.machine.section_hashes(), recorded.machine.section_hashes());
    check_contents(&path, &recorded);
    let trace = TraceFile::open(&path).unwrap();
    assert!(!trace.description().timed);
    let mut config = recorded.config.machine();
    config.core.model = CoreModel::Timed;
    let counts = trace.counts().clone();
    let played = play(&Plan::of(TraceInput::own(trace)), &config);
    assert_eq!([played.instructions], counts.instructions[..]);
    assert_eq!(played.devices.dma_written_bytes, counts.dma_written_bytes);
}

/// Checks that replay on the same machine has the same counts. It takes a little longer, as the caches start
/// cold.
fn check_played(trace: TraceFile, point: &Point) {
    let (counts, plan) = (trace.counts().clone(), Plan::of(TraceInput::own(trace)));
    let played = play(&plan, &point.config.machine());
    let devices = &played.devices;
    assert_eq!([played.instructions], counts.instructions[..]);
    assert_eq!((devices.frames_in, devices.frames_out), (counts.frames_in, counts.frames_out));
    assert_eq!(
        (devices.dma_read_bytes, devices.dma_written_bytes),
        (counts.dma_read_bytes, counts.dma_written_bytes)
    );
    let ratio = played.cores[0].0.number() as f64 / (point.summary.simulated_seconds * 3e9);
    assert!((1.0..1.6).contains(&ratio), "{ratio}");
    let other = MachineConfig {
        platform: PlatformConfig { harts: 2, ..point.config.platform.clone() },
        ..point.config.machine()
    };
    let error = Player::new(&other, &plan).err().expect("the trace has one hart").to_string();
    assert!(error.contains("platform.harts=1"), "{error}");
}

/// Replayed slowly without queueing, or one request at a time, a trace has its recorded latency. In the
/// recording a doorbell may reach the NIC after instructions for later frames; in the replay it must not wait
/// for these.
#[test]
fn a_slow_replay_has_the_latency_of_the_recording() {
    // The warm-up is long enough for the backlog to drain, so that frames are processed one by one.
    let session = timed_session(&[], &["run.duration=200us", "run.warmup=1ms", "run.settle=300us"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.dbt");
    let observe = Observe { trace: Some(path.clone()), ..Observe::default() };
    let rate = "8Mpps".parse().unwrap();
    let point = quiet(|control| run_point_observed(&session, rate, Bytes(64), &observe, control)).unwrap();
    let (plan, config) = (Plan::of(TraceInput::own(TraceFile::open(&path).unwrap())), point.config.machine());
    let way = config.link.latency + config.link.rate.time_for_bits(8 * config.link.wire_bytes(60));
    let executed = Ps::from_ns(point.summary.latency_ns.expect("frames returned").p50 as u64) - way - way;
    let slowly = Pace::Rate { rate: "500kpps".parse().unwrap(), arrivals: Arrivals::Constant };
    for pace in [slowly, Pace::Closed { window: 1 }] {
        let player = ended(&plan.clone().at_pace(pace), &config);
        let played = player.latency().expect("addresses identify frames").percentile(1, 2).unwrap();
        // The caches start cold, and there are fewer frames than descriptors.
        assert!(played.0.abs_diff(executed.0) * 10 < executed.0, "{played} {executed}");
    }
}

/// Checks that functions of the replayed trace have the recorded names and instruction counts. Names are in a
/// file next to the trace.
fn check_names(trace: &Path, point: &Point) {
    let traces = Traces::open(&[trace.to_owned()], false).unwrap();
    let config =
        resolve_played(&Base::find("server").unwrap(), 1, &["playback.warmup=0".to_owned()]).unwrap();
    let observe = Observe { profile: true, ..Observe::default() };
    let played = quiet(|control| ReadyTrace::new(&traces, &config, &observe)?.play(control)).unwrap();
    let counted = |functions: &[doorbell_bench::FunctionCost]| -> BTreeMap<(String, String), u64> {
        let busy = functions.iter().filter(|row| row.program != "idle");
        busy.map(|row| ((row.object.clone(), row.function.clone()), row.instructions)).collect()
    };
    let recorded = counted(&point.observed.functions.as_ref().expect("a profile was requested").functions);
    let again = counted(&played.observed.functions.as_ref().expect("a profile was requested").functions);
    // If only blocks from the middle of a function were recorded, it may get the name of another function in
    // the page.
    let same: u64 =
        again.iter().filter(|(name, count)| recorded.get(*name) == Some(count)).map(|(_, count)| count).sum();
    let all: u64 = recorded.values().sum();
    assert_eq!(again.values().sum::<u64>(), all);
    assert!(same as f64 > 0.99 * all as f64, "{recorded:?} {again:?}");
}

/// Checks that every cycle and instruction of the window is attributed to a function.
fn check_profile(point: &Point) {
    let summary = &point.summary;
    let functions = &point.observed.functions.as_ref().expect("a profile was requested").functions;
    let sum = |of: fn(&doorbell_bench::FunctionCost) -> u64| functions.iter().map(of).sum::<u64>();
    assert_eq!(sum(|function| function.instructions), summary.instructions);
    let cycles = sum(|function| function.cycles);
    let expected = summary.simulated_seconds * 3e9;
    assert!((cycles as f64 - expected).abs() < 3000.0, "{cycles} cycles of {expected}");
    let folded = file(point, "functions.folded");
    let in_stacks: u64 =
        folded.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum();
    assert_eq!(in_stacks, cycles);
    check_kinds(point, cycles);

    // A poll-mode forwarder spends its time in its own code and its driver's.
    let share = |object: &str| -> f64 {
        functions.iter().filter(|row| row.object.starts_with(object)).map(|row| row.share).sum()
    };
    assert!(share("librte_net_e1000.so") > 0.3, "{folded}");
    assert!(share("dpdk-testpmd") > 0.2 && share("kernel") < 0.1 && share("[unknown]") == 0.0, "{folded}");
    assert!(functions.iter().all(|row| row.program == "dpdk-testpmd" || !row.object.starts_with("librte")));
    // The driver accesses thread-local variables through its PLT.
    let line = folded.lines().find(|line| line.contains("[plt];__tls_get_addr ")).expect("a stack");
    assert!(line.starts_with("dpdk-testpmd;") && line.contains(";librte_net_e1000.so"), "{line}");
    assert_eq!(summary.functions.as_ref().unwrap()[0], functions[0]);
}

/// Checks that every cycle has one kind, and that nearly all of a forwarder's are receive, processing or
/// transmit.
fn check_kinds(point: &Point, cycles: u64) {
    let summary = &point.summary;
    let kinds = summary.kinds.as_ref().expect("a profile was requested");
    assert_eq!(kinds.kinds.iter().map(|cost| cost.cycles).sum::<u64>(), cycles);
    assert_eq!(kinds.cycles, cycles);
    assert_eq!(kinds.kinds.iter().map(|cost| cost.instructions).sum::<u64>(), summary.instructions);
    // The core's CPI stack of the window, which does not depend on the profile.
    let groups = &summary.timing.as_ref().expect("the run is timed").0;
    let stack = &groups.iter().find(|group| group.name == "CPI stack").expect("the CPI stack").figures;
    let of_core: f64 = stack.iter().map(|part| part.value.unwrap_or(0.0) * summary.instructions as f64).sum();
    assert_eq!(cycles, of_core.round() as u64);
    assert!(kinds.share("receive") > 0.3 && kinds.share("processing") > 0.2, "{kinds:?}");
    assert!(kinds.share("transmit") > 0.1 && kinds.share("other") <= 0.05, "{kinds:?}");
    assert_eq!(
        (kinds.interrupts, kinds.frames_per_interrupt),
        (0, None),
        "a poll-mode driver has no interrupts"
    );
    let delivered = summary.frames_delivered * summary.frame_size;
    assert!(kinds.delivered_bytes.abs_diff(delivered) <= 1, "{} of {delivered}", kinds.delivered_bytes);
    // The cycles of all functions of a kind sum to the kind's cycles.
    let mut by_kind: BTreeMap<&str, u64> = BTreeMap::new();
    for line in file(point, "functions.csv").lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        *by_kind.entry(fields[0]).or_default() += fields[4].parse::<u64>().unwrap();
    }
    for cost in &kinds.kinds {
        assert_eq!(by_kind.get(cost.kind.as_str()), Some(&cost.cycles), "{}", cost.kind);
    }
    assert_eq!(file(point, "kinds.csv").lines().count(), 1 + kinds.kinds.len());
}

/// Checks that the slices of the timeline are exactly the packets' stages, and that slices of a track do not
/// overlap.
fn check_timeline(text: &str, packets: &[PacketStamps]) {
    assert_eq!(packets.len(), PACKETS);
    let trace: Value = serde_json::from_str(text).expect("JSON");
    let events = trace["traceEvents"].as_array().unwrap();
    let ps = |value: &Value| Ps((value.as_f64().unwrap() * 1e6).round() as u64);
    let first = packets.iter().map(|packet| packet.times[0]).min().unwrap();
    let mut tracks: BTreeMap<u64, Vec<(Ps, Ps)>> = BTreeMap::new();
    let mut found = BTreeMap::new();
    for event in events.iter().filter(|event| event["ph"] == "X") {
        let (begin, length) = (ps(&event["ts"]), ps(&event["dur"]));
        tracks.entry(event["tid"].as_u64().unwrap()).or_default().push((begin, begin + length));
        let of = (event["args"]["packet"].as_u64().unwrap(), event["args"]["stage"].as_u64().unwrap());
        found.insert(of, (begin + first, begin + length + first, event["cat"].as_str().unwrap().to_owned()));
    }
    assert_eq!(found.len(), PACKETS * STAGES.len());
    for packet in packets {
        for (number, stage) in STAGES.iter().enumerate() {
            let expected = (packet.times[number], packet.times[number + 1], stage.name.to_owned());
            assert_eq!(found[&(packet.sequence, number as u64 + 1)], expected);
        }
    }
    for slices in tracks.values() {
        assert!(slices.windows(2).all(|pair| pair[0].1 <= pair[1].0));
    }
    let busy: Vec<f64> = events
        .iter()
        .filter(|event| event["ph"] == "C" && event["name"] == "hart0 IPC")
        .map(|event| event["args"]["IPC"].as_f64().unwrap())
        .collect();
    assert!(busy.len() >= 5 && busy.iter().all(|ipc| (0.1..4.0).contains(ipc)), "{busy:?}");
}

/// An op in the pipeline log: start of each stage, and retirement.
#[derive(Default)]
struct LogEntry {
    stages: Vec<(String, u64)>,
    retired: Option<u64>,
}

/// Checks that each op in the log has its stages at the right cycles, and that ops retire in program order.
fn check_log(text: &str, ops: &[LoggedOp]) {
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("Kanata\t0004"));
    let (mut now, mut read, mut order) = (0, BTreeMap::<usize, LogEntry>::new(), Vec::new());
    for line in lines {
        let fields: Vec<&str> = line.split('\t').collect();
        let number = |at: usize| fields[at].parse::<u64>().unwrap();
        match fields[0] {
            "C=" => now = number(1),
            "C" => now += number(1),
            "I" => drop(read.insert(number(1) as usize, LogEntry::default())),
            "L" => assert!(read.contains_key(&(number(1) as usize)) && !fields[3].is_empty()),
            "S" => read.get_mut(&(number(1) as usize)).unwrap().stages.push((fields[3].to_owned(), now)),
            "R" => {
                let op = read.get_mut(&(number(1) as usize)).unwrap();
                assert_eq!((op.retired.replace(now), fields[3]), (None, "0"));
                order.push(number(2));
            }
            other => panic!("unknown command {other}"),
        }
    }
    assert_eq!(ops.iter().filter(|logged| logged.op.ends_instruction()).count() as u64, INSTRUCTIONS);
    assert_eq!(read.len(), ops.len());
    assert!(order.iter().copied().eq(0..ops.len() as u64), "retired in order");
    for (number, logged) in ops.iter().enumerate() {
        let (op, stages) = (&read[&number], &logged.stages);
        assert_eq!(op.retired, Some(stages.commit.number()));
        let start = |name: &str| op.stages.iter().find(|(found, _)| found == name).map(|(_, cycle)| *cycle);
        let expected = [("F", stages.fetch), ("Ds", stages.dispatch), ("Is", stages.issue)];
        for (name, cycle) in expected {
            assert!(start(name).is_none_or(|found| found == cycle.number()), "{name} of {number}");
        }
        assert!(op.stages.windows(2).all(|pair| pair[0].1 < pair[1].1), "stages follow each other");
        assert_eq!(op.stages[0], ("F".to_owned(), stages.fetch.number()));
    }
}

#[test]
fn unsupported_observers_are_rejected_with_the_reason() {
    let error_of = |session: &Session, observe: Observe| match measure(session, &observe) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{observe:?} was accepted"),
    };
    let functional = doorbell_acceptance::session(&[], &["run.duration=10us", "run.warmup=0ns"]);
    let profile = Observe { profile: true, ..Observe::default() };
    assert!(error_of(&functional, profile).contains("--preset server"));
    let timed = timed_session(&[], &["loadgen.stages=false"]);
    assert!(error_of(&timed, Observe { timeline: Some(1), ..Observe::default() }).contains("loadgen.stages"));
    assert!(error_of(&timed, Observe { pipeline: Some(0), ..Observe::default() }).contains("1000000"));
}
