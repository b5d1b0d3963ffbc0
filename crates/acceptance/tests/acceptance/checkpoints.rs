//! Checkpoints: N instructions give the same state, bit for bit, as k instructions, save, restore in a new
//! process and N − k instructions, for any k. Saving does not change the state, and equal seeds give equal
//! runs.

use std::path::{Path, PathBuf};
use std::process::Command;

use doorbell_acceptance::{doorbell, places, quiet, run_point, scratch, session, shared_checkpoint};
use doorbell_bench::{Session, benchmark, guest_identity, read_guest, resolve};
use doorbell_loadgen::{Rate, TrafficConfig};
use doorbell_machine::{CheckpointFile, Guest, Limits, Machine, Outcome};
use doorbell_sim::{Bytes, Ps};
use serde_json::Value;

/// Environment variable of a process that continues checkpoints: the path of a file with one line per
/// checkpoint.
const CONTINUE: &str = "DOORBELL_ACCEPTANCE_CONTINUE";

/// Points at which a boot is saved, in instructions since reset.
const BOOT_SAVES: [(&str, u64); 6] = [
    ("the firmware's first instructions", 1_000),
    ("the firmware", 200_000),
    ("the kernel before its page tables", 1_500_000),
    ("the kernel before its devices", 40_000_000),
    ("the kernel probing devices", 120_000_000),
    ("user space", 330_000_000),
];

/// Instructions that a restored machine runs in the new process.
const CONTINUED_INSTRUCTIONS: u64 = 3_000_000;

/// State to compare.
#[derive(Debug, PartialEq, Eq)]
struct Mark {
    instructions: u64,
    time: Ps,
    state_hash: u64,
    console: String,
}

impl Mark {
    /// Runs a machine until `instructions` and returns its state, with the console output of this run.
    fn at(machine: &mut Machine, instructions: u64) -> Mark {
        let before = machine.console.text().len();
        let outcome = machine.run(&Limits { instructions, ..Limits::until(Ps::MAX) });
        assert_eq!(outcome, Outcome::Instructions);
        Mark {
            instructions: machine.instructions(),
            time: machine.now(),
            state_hash: machine.state_hash(),
            console: machine.console.text().split_off(before),
        }
    }
}

fn guest_files(session: &Session) -> (Guest, String) {
    let image = places().build_image("testpmd", &mut |_| {}).unwrap();
    let words = session.workload().words.clone();
    let bootargs = format!("{} {words}", image.command_line());
    let identity = guest_identity(&image, &bootargs);
    (read_guest(&image, bootargs).unwrap(), identity)
}

#[test]
fn a_boot_restored_in_a_new_process_continues_bit_for_bit_from_any_point() {
    let session = session(&[], &[]);
    let (guest, identity) = guest_files(&session);
    let folder = scratch();
    // During boot the generator has the default traffic configuration.
    let config = resolve("fast", &[]).unwrap();
    let mut machine = Machine::new(config.machine(), config.run.seed).unwrap();
    machine.load(&guest).unwrap();
    machine.console.watch(Some(benchmark("testpmd").unwrap().ready_marker));
    let mut jobs = Vec::new();
    for (place, saved_at) in BOOT_SAVES {
        Mark::at(&mut machine, saved_at);
        let path = folder.path().join(format!("{saved_at}.ckpt"));
        machine.checkpoint(&identity, place).write(&path).unwrap();
        jobs.push((path, Mark::at(&mut machine, saved_at + CONTINUED_INSTRUCTIONS)));
    }
    continue_in_a_new_process(folder.path(), &jobs, &identity);
    // After six stops and saves, this boot ends in the same state as an uninterrupted one.
    let outcome = machine.run(&Limits { on_marker: true, ..Limits::until(Ps(60 * Ps::PER_SECOND)) });
    assert_eq!(outcome, Outcome::Marker);
    assert_eq!(machine.state_hash(), session.machine().unwrap().state_hash());
}

#[test]
fn a_run_restored_with_frames_and_posted_writes_in_flight_continues_bit_for_bit() {
    let session = session(&[], &[]);
    let (_, identity) = guest_files(&session);
    let folder = scratch();
    let mut machine = session.machine().unwrap();
    let traffic =
        TrafficConfig { rate: "12Mpps".parse().unwrap(), ..session.config().loadgen.traffic.clone() };
    machine.start_traffic(&traffic).unwrap();
    machine.run(&Limits::until(machine.now() + Ps::from_ms(1)));
    let (frames, mut jobs, mut posted_count) = (machine.frames_outstanding(), Vec::new(), 0);
    assert!(frames > 1000, "an overloaded machine has many frames in flight, not {frames}");
    let unposted = fewest_posted(&mut machine);
    for index in 0..3000 {
        let at = machine.instructions() + 97;
        Mark::at(&mut machine, at);
        let inside = machine.nic(0).in_flight();
        let posted = accesses_in_flight(&machine) > unposted;
        // Alternate between states with and without a posted write in flight, all with frames inside the NIC.
        if posted == (jobs.len() % 2 == 0) && inside.rx > 0 {
            let path = folder.path().join(format!("traffic-{index}.ckpt"));
            machine.checkpoint(&identity, "under traffic").write(&path).unwrap();
            posted_count += u32::from(posted);
            let until = machine.instructions() + CONTINUED_INSTRUCTIONS / 10;
            jobs.push((path, Mark::at(&mut machine, until)));
        }
        if jobs.len() == 4 {
            break;
        }
    }
    assert_eq!((jobs.len(), posted_count), (4, 2), "the run did not reach the states to save");
    continue_in_a_new_process(folder.path(), &jobs, &identity);
}

/// Device accesses by the hart that have not reached the NIC, plus a constant from the boot.
fn accesses_in_flight(machine: &Machine) -> u64 {
    machine.harts()[0].stats().device_accesses - machine.nic(0).stats().register_accesses
}

fn fewest_posted(machine: &mut Machine) -> u64 {
    let mut sample = || {
        let at = machine.instructions() + 101;
        Mark::at(machine, at);
        accesses_in_flight(machine)
    };
    (0..40).map(|_| sample()).min().unwrap_or_default()
}

/// Continues the checkpoints in another process of this program and compares the states it prints.
fn continue_in_a_new_process(folder: &Path, jobs: &[(PathBuf, Mark)], identity: &str) {
    let list = folder.join("jobs");
    let lines: Vec<String> = jobs
        .iter()
        .map(|(path, mark)| format!("{}\t{}\t{identity}", path.display(), mark.instructions))
        .collect();
    std::fs::write(&list, lines.join("\n")).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "checkpoints::in_a_new_process", "--nocapture", "--include-ignored"]);
    let output = command.env(CONTINUE, &list).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let printed: Vec<&str> =
        text.lines().filter_map(|line| line.split_once("MARK ")).map(|(_, rest)| rest).collect();
    let expected: Vec<String> = jobs.iter().map(|(_, mark)| format!("{mark:?}")).collect();
    assert_eq!(printed, expected);
}

#[test]
#[ignore = "is started by other tests"]
fn in_a_new_process() {
    let list = std::env::var_os(CONTINUE).expect("another test starts this one");
    let config = resolve("fast", &[]).unwrap();
    for line in std::fs::read_to_string(list).unwrap().lines() {
        let [path, instructions, identity] = line.splitn(3, '\t').collect::<Vec<_>>().try_into().unwrap();
        let mut machine = Machine::new(config.machine(), config.run.seed).unwrap();
        machine.restore(&CheckpointFile::read(Path::new(path)).unwrap(), identity).unwrap();
        println!("\nMARK {:?}", Mark::at(&mut machine, instructions.parse().unwrap()));
    }
}

#[test]
fn a_run_depends_on_the_seed_only() {
    let hash = |overrides: &[&str]| {
        let mut others = vec!["run.duration=200us", "run.warmup=100us"];
        others.extend(overrides);
        let session = session(&[], &others);
        let rate: Rate = "2Mpps".parse().unwrap();
        let point = quiet(|control| run_point(&session, rate, Bytes(64), control)).unwrap();
        (point.summary.state_hash, point.summary.frames_delivered)
    };
    let first = hash(&[]);
    assert_eq!(hash(&[]), first, "equal seeds give equal runs");
    assert_ne!(hash(&["run.seed=2"]).0, first.0, "another seed gives other frame contents");
}

#[test]
fn lost_frames_depend_on_the_seed() {
    let delivered = |seed: &str| {
        let session = session(&[], &["run.duration=1ms", "run.warmup=100us", "link.frame_loss=0.05", seed]);
        let point =
            quiet(|control| run_point(&session, "2Mpps".parse().unwrap(), Bytes(64), control)).unwrap();
        point.summary.frames_delivered
    };
    let first = delivered("run.seed=1");
    assert_eq!(delivered("run.seed=1"), first);
    // One other seed may lose as many frames by chance, but not all five.
    let others = [2, 3, 4, 5, 6].map(|seed| delivered(&format!("run.seed={seed}")));
    assert!(
        others.iter().any(|&frames| frames != first),
        "all seeds deliver the same number of frames: {first}"
    );
}

#[test]
fn a_point_does_not_depend_on_earlier_points() {
    let checkpoint = shared_checkpoint(&[]);
    let hashes = |rates: &str| -> Vec<String> {
        let folder = scratch();
        let [out, checkpoint] = [folder.path(), &checkpoint].map(|path| path.display().to_string());
        let arguments = [
            "run",
            "testpmd",
            "--json",
            "-q",
            "--duration",
            "300us",
            "--warmup",
            "300us",
            "--arrivals",
            "jitter",
            "--rate",
        ];
        let arguments = [arguments.as_slice(), &[rates, "--out", &out, "--checkpoint", &checkpoint]].concat();
        let summary: Value = serde_json::from_str(&doorbell(&arguments).success()).unwrap();
        let points = summary["points"].as_array().unwrap();
        points.iter().map(|point| point["state_hash"].as_str().unwrap().to_owned()).collect()
    };
    let [slow, fast] = hashes("1Mpps,12Mpps").try_into().unwrap();
    assert_eq!(hashes("12Mpps,1Mpps"), [fast.clone(), slow]);
    assert_eq!(hashes("12Mpps"), [fast]);
}
