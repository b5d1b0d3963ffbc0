//! Playing a trace as a command: a small synthetic trace, its result folder, sweeps over it, and rejected
//! arguments.

use std::fs;
use std::path::Path;

use doorbell_bench::verify;
use doorbell_sim::memory::Walk;
use doorbell_trace::champsim::{Record, Variant, Writer};
use doorbell_trace::system::{Description, Kind, Step, TraceFile, TraceWriter};
use serde_json::Value;

use crate::loop_trace::{FRAME_BYTES, FRAMES, ROUND, doorbell, record, record_overloaded, round};

fn succeeds(folder: &Path, words: &[&str]) -> String {
    let output = doorbell(folder, words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Standard error of a command that fails, which must leave no new file in the folder.
fn refused(folder: &Path, words: &[&str]) -> String {
    let output = doorbell(folder, words);
    assert!(!output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stdout));
    assert!(!folder.join("results").exists(), "{words:?} has left something");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn summary(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("summary.json")).unwrap()).unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn playing_a_trace_twice_writes_identical_complete_folders() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    record(&folder.join("loop.dbt"));
    let info = succeeds(folder, &["trace", "info", "loop.dbt"]);
    for part in [
        "400 in, 64.0 bytes each",
        "399 out",
        "100.0 instructions per frame, over 400 frames",
        "played         as recorded, at a rate (--rate), in a closed loop (--window)",
    ] {
        assert!(info.contains(part), "no {part}: {info}");
    }
    let text = succeeds(
        folder,
        &[
            "trace",
            "run",
            "loop.dbt",
            "--warmup",
            "0",
            "--out",
            "one",
            "--profile",
            "--pipeline",
            "50",
            "--timeline",
        ],
    );
    for part in [
        "loop.dbt: a loop; by a test; riscv64, 1 hart, 40,000 instructions",
        "Played as recorded, to its end.",
        "Results in one",
    ] {
        assert!(text.contains(part), "no {part}: {text}");
    }
    let one = folder.join("one");
    assert_eq!(verify(&one), Ok(()));
    let expected = [
        "config.toml",
        "files.sha256",
        "functions.csv",
        "functions.folded",
        "kinds.csv",
        "memory.csv",
        "pipeline.konata",
        "report.html",
        "stats.json",
        "summary.json",
        "timeline.perfetto",
    ];
    assert_eq!(names(&one), expected);
    let first = summary(&one);
    let number = |name: &str| first[name].as_u64().unwrap_or_else(|| panic!("{name}: {first}"));
    assert_eq!((number("instructions"), number("warmup_instructions")), (ROUND * FRAMES, 0));
    // The last frame is not sent within the measurement.
    assert_eq!((number("frames_in"), number("frames_out")), (FRAMES, FRAMES - 1));
    assert_eq!(number("dma_written_bytes"), u64::from(FRAME_BYTES) * FRAMES);
    assert_eq!((&first["benchmark"], &first["rate"]), (&Value::from("trace"), &Value::from("as recorded")));
    assert_eq!(first["ran"]["traces"][0]["file"], "loop.dbt");
    let network = &first["timing"]["access time"]["network_load_cycles"];
    assert!(network.as_f64().is_some_and(|cycles| cycles > 4.0), "{network}");
    let config = fs::read_to_string(one.join("config.toml")).unwrap();
    let hash = first["config_hash"].as_str().unwrap();
    assert!(
        config.starts_with(&format!("# config_hash = \"{hash}\"")) && !config.contains("[nic]"),
        "{config}"
    );
    // Without a warm-up, counters are totals; with one, they cover the rest.
    let counters = |folder: &Path, part: &str| {
        let stats: Value = serde_json::from_slice(&fs::read(folder.join("stats.json")).unwrap()).unwrap();
        let value = |name: &str| stats[part][name]["value"].as_u64().unwrap();
        [value("hart0.core.instructions"), value("hart0.l1d.misses"), value("played.frames_in")]
    };
    assert_eq!(counters(&one, "counters"), counters(&one, "totals"));
    let page = fs::read_to_string(one.join("report.html")).unwrap();
    assert!(page.contains("<h1>loop.dbt</h1>") && !page.contains("Nothing to draw"), "{page}");
    assert!(succeeds(folder, &["report", "one"]).contains("Played as recorded"));

    // Observation does not change the results, nor does the name of the result folder.
    succeeds(folder, &["trace", "run", "loop.dbt", "--warmup", "0", "--out", "two", "-q"]);
    let second = summary(&folder.join("two"));
    for same in ["state_hash", "config_hash", "cycles", "timing", "memory_over_time", "ran"] {
        assert_eq!(first[same], second[same], "{same}");
    }
    let json: Value = serde_json::from_str(&succeeds(
        folder,
        &[
            "trace",
            "run",
            "loop.dbt",
            "--set",
            "memory.llc.size=1MiB",
            "--instructions",
            "10000",
            "--json",
            "-q",
            "--out",
            "half",
        ],
    ))
    .unwrap();
    assert_ne!(json["config_hash"], first["config_hash"]);
    let [half, whole] = ["counters", "totals"].map(|part| counters(&folder.join("half"), part));
    // Core counters cover only the timed part, cache counters also the warm-up.
    assert_eq!((half[0], whole[0]), (10_000, 10_000));
    assert!(half[2] < whole[2]);
    let mpki = half[1] as f64 / 10.0;
    assert!((json["timing"]["L1D"]["mpki"].as_f64().unwrap() - mpki).abs() < 1e-9 && half[1] < whole[1]);
    // A share of the played instructions: the warm-up is as long as the measurement.
    assert_eq!(
        (json["instructions"].as_u64(), json["warmup_instructions"].as_u64()),
        (Some(10_000), Some(10_000))
    );
    assert_eq!(json["to_the_end"], false);
}

#[test]
fn a_trace_is_played_at_a_rate_and_in_a_closed_loop() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    record(&folder.join("loop.dbt"));
    let play = |words: &[&str]| -> Value {
        let run = ["trace", "run", "loop.dbt", "--warmup", "0", "--json", "-q"];
        serde_json::from_str(&succeeds(folder, &[&run, words].concat())).unwrap()
    };
    let slow = play(&["--rate", "1Mpps"]);
    let number = |of: &Value, name: &str| of[name].as_f64().unwrap_or_else(|| panic!("{name}: {of}"));
    assert_eq!((&slow["pace"], &slow["rate"]), (&Value::from("at 1Mpps"), &Value::from("at 1Mpps")));
    assert_eq!((number(&slow, "frames_offered"), number(&slow, "ring_drops")), (FRAMES as f64, 0.0));
    assert!((398e-6..402e-6).contains(&number(&slow, "simulated_seconds")), "{slow}");
    assert!((0.97..1.03).contains(&number(&slow, "delivered_mpps")), "{slow}");
    let latency = &slow["answer_latency_ns"];
    assert!(number(latency, "frames") > FRAMES as f64 - 3.0 && number(latency, "p50") > 0.0, "{slow}");
    let poisson = play(&["--rate", "1Mpps", "--set", "playback.arrivals=poisson"]);
    assert_ne!(poisson["state_hash"], slow["state_hash"]);
    // Round trips limit both rates.
    let two = play(&["--window", "2", "--set", "link.latency=1us"]);
    assert_eq!(two["pace"], "with 2 outstanding");
    let eight = play(&["--window", "8", "--set", "link.latency=1us"]);
    assert!(number(&eight, "delivered_mpps") > 3.0 * number(&two, "delivered_mpps"), "{two} {eight}");
    // Offered frames are counted until the trace has no frames left; frames that have arrived by then are
    // still processed.
    let fast = play(&["--rate", "100Mpps", "--set", "link.latency=1ns"]);
    assert!((97.0..103.0).contains(&number(&fast, "offered_mpps")), "{fast}");
    assert!(number(&fast, "delivered_mpps") < 70.0, "{fast}");
    let text = succeeds(folder, &["trace", "run", "loop.dbt", "--warmup", "0", "--rate", "1Mpps"]);
    for part in ["Played at 1Mpps", "frames offered", "dropped without a free descriptor"] {
        assert!(text.contains(part), "no {part}: {text}");
    }
}

#[test]
fn with_co_runners_shared_counts_have_no_per_packet_figures() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    record(&folder.join("loop.dbt"));
    fs::copy(folder.join("loop.dbt"), folder.join("beside.dbt")).unwrap();
    // No devices, and only instruction addresses.
    let mut plain = Writer::create(folder.join("plain.champsim"), Variant::Standard).unwrap();
    for turn in 0..40_000 {
        plain.write_record(&Record { ip: 0x40_0000 + 4 * (turn % 64), ..Record::default() }).unwrap();
    }
    plain.finish().unwrap();
    let figures = |neighbour: &[&str]| {
        let words = [&["trace", "run", "loop.dbt"], neighbour, &["--warmup", "0", "--json", "-q"]].concat();
        let output: Value = serde_json::from_str(&succeeds(folder, &words)).unwrap();
        let timing = &output["points"][0]["timing"];
        let own = timing["packet cost"]["instructions"].as_f64();
        assert_eq!(own, Some(100.0), "{timing}");
        [
            ("DRAM", "bytes_read_per_packet"),
            ("direct cache access", "updates_per_packet"),
            ("PCI Express", "up_bytes_per_packet"),
            ("uncore events", "ItoM_hit"),
            ("uncore events", "WiL"),
            ("uncore events", "DRd_hit"),
        ]
        .map(|(group, name)| timing[group][name].is_number())
    };
    assert_eq!(figures(&[]), [true; 6]);
    assert_eq!(figures(&["plain.champsim"]), [false, true, true, true, false, true]);
    assert_eq!(figures(&["beside.dbt"]), [false, false, false, false, false, true]);
}

#[test]
fn a_trace_of_an_overloaded_machine_reports_nic_drops() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    record_overloaded(&folder.join("over.dbt"), 1);
    let info = succeeds(folder, &["trace", "info", "over.dbt"]);
    for part in [
        "800 in, 64.0 bytes each",
        "400 written to memory; 400 dropped",
        "100.0 instructions per frame, over 400 frames",
    ] {
        assert!(info.contains(part), "no {part}: {info}");
    }
    let text = succeeds(folder, &["trace", "run", "over.dbt", "--warmup", "0", "--out", "r", "-q"]);
    assert!(text.contains("frames dropped by the NIC"), "{text}");
    let point = summary(&folder.join("r"));
    let number = |name: &str| point[name].as_u64().unwrap_or_else(|| panic!("{name}: {point}"));
    assert_eq!((number("frames_offered"), number("frames_in"), number("frames_delivered")), (800, 400, 399));
    assert_eq!((&point["drops"]["nic_other"], &point["drop_rate"]), (&Value::from(400), &Value::from(0.5)));
    assert_eq!(point["instructions_per_frame"], 100.0);
    let page = fs::read_to_string(folder.join("r/report.html")).unwrap();
    assert!(page.contains("400 frames in, 399 out; 400 more were lost during recording"));
    let text = succeeds(folder, &["trace", "run", "over.dbt", "--out", "half", "-q"]);
    assert!(text.contains("frames dropped by the NIC"), "{text}");
    assert_eq!(summary(&folder.join("half"))["drop_rate"], 0.5);
}

#[test]
fn a_sweep_plays_a_trace_at_every_point_once() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let file = "trace = \"loop.dbt\"\npreset = \"server\"\nset = [\"playback.warmup=1000\"]\n[grid]\n\
                \"memory.dca.policy.enabled\" = [true, false]\n[[plot]]\nx = \"index\"\ny = \"ipc\"\n";
    fs::write(folder.join("dca.toml"), file).unwrap();
    let missing = refused(folder, &["sweep", "plan", "dca.toml"]);
    assert!(
        missing.contains("loop.dbt") && missing.contains("cache/traces") && missing.contains("record"),
        "{missing}"
    );
    record(&folder.join("loop.dbt"));
    let plan = succeeds(folder, &["sweep", "plan", "dca.toml"]);
    assert!(plan.contains("0 of 2 points are finished"), "{plan}");
    assert!(succeeds(folder, &["sweep", "dca.toml", "-q"]).contains("2 of 2 points"));
    let table = fs::read_to_string(folder.join("results/dca/table.csv")).unwrap();
    assert!(table.starts_with("index,memory.dca.policy.enabled,repetition,seed,"), "{table}");
    let mut to_memory: Vec<f64> = names(&folder.join("results/dca/points"))
        .iter()
        .filter(|name| !name.starts_with('.'))
        .map(|name| summary(&folder.join("results/dca/points").join(name)))
        .map(|point| point["timing"]["direct cache access"]["to_memory_per_packet"].as_f64().unwrap())
        .collect();
    to_memory.sort_by(f64::total_cmp);
    assert_eq!(to_memory, [0.0, 1.0]);
    assert!(succeeds(folder, &["sweep", "plan", "dca.toml"]).contains("2 of 2 points are finished"));
    // A different trace of the same name is a different point.
    fs::write(folder.join("loop.dbt"), fs::read(folder.join("loop.dbt")).unwrap()).unwrap();
    assert!(succeeds(folder, &["sweep", "plan", "dca.toml"]).contains("2 of 2 points are finished"));
    let mut writer = TraceWriter::create(
        &folder.join("loop.dbt"),
        &Description { harts: 1, physical: true, ..Description::default() },
    )
    .unwrap();
    writer.block(0, &Step::default(), &round(0), &mut |_| Walk::default()).unwrap();
    writer.finish().unwrap();
    assert!(succeeds(folder, &["sweep", "plan", "dca.toml"]).contains("0 of 2 points are finished"));
}

#[test]
fn unplayable_traces_and_options_are_rejected_without_output() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    record(&folder.join("loop.dbt"));
    let whole = fs::read(folder.join("loop.dbt")).unwrap();
    fs::write(folder.join("half.dbt"), &whole[..whole.len() / 2]).unwrap();
    fs::write(folder.join("empty.dbt"), "").unwrap();
    fs::write(folder.join("text.dbt"), "a long text, which is no trace at all, but a file").unwrap();
    fs::write(folder.join("odd.champsim"), [0; 72]).unwrap();
    let run = |words: &[&str]| refused(folder, &[&["trace", "run"], words].concat());
    for (words, part) in [
        (&["none.dbt"][..], "none.dbt"),
        (&["text.dbt"], "not a Doorbell trace"),
        (&["empty.dbt"], "not a Doorbell trace"),
        (&["half.dbt"], "cut off"),
        (&["odd.champsim"], "odd.champsim ends 8 bytes into record 1"),
        (&["."], "."),
        (&["loop.dbt", "--warmup", "40000"], "40000 instructions, and the warm-up takes 40000"),
        (&["loop.dbt", "--warmup", "100%"], "nothing to measure"),
        (&["loop.dbt", "--warmup", "some"], "a share such as"),
        (&["loop.dbt", "--warmup", "0", "--instructions", "40001"], "fewer than 40001 are left"),
        (&["loop.dbt", "--instructions", "0"], "playback.instructions"),
        (&["loop.dbt", "--pipeline", "0"], "--pipeline"),
        (&["loop.dbt", "--harts", "2"], "remove --harts"),
        (&["loop.dbt", "--set", "platform.harts=2"], "remove --harts"),
        (&["loop.dbt", "--out", "."], "would overwrite the input loop.dbt"),
        (&["loop.dbt", "--rate", "1Mpps", "--window", "2"], "cannot be used with"),
        (&["loop.dbt", "--rate", "fast"], "5Mpps"),
        (&["loop.dbt", "--set", "playback.arrivals=poisson"], "give playback.rate"),
        (&["loop.dbt", "--window", "0"], "at least 1 request"),
        (&["loop.dbt", "--set", "playback.page_size=2MiB"], "playback.pages=kernel"),
        (&["loop.dbt", "--set", "playback.pages=kernel"], "playback.pages: the traces have physical"),
        (
            &["loop.dbt", "--set", "memory.dca.schedule=[{after=\"1us\",policy={}}]"],
            "memory.dca.schedule: a trace is played with one policy",
        ),
        (&["loop.dbt", "--disk", "loop.dbt"], "no guest"),
        (&["loop.dbt", "--preset", "fast"], "set core.model=timed"),
        (&["loop.dbt", "--cloudsuite"], "--cloudsuite: none of the traces is a ChampSim trace"),
        (&["loop.dbt", "--set", "testpmd.mode=io"], "testpmd.mode: has no meaning for a played trace"),
        (&["loop.dbt", "--set", "nic.rx_fifo=48KiB"], "nic.rx_fifo: has no meaning for a played trace"),
        (&["loop.dbt", "--set", "memory.l2.size=3"], "memory"),
    ] {
        let output = run(words);
        assert!(output.contains(part), "{words:?}: {output}");
        assert!(!output.contains("panicked"), "{words:?}: {output}");
    }
}

/// Damages the last byte of a trace's first chunk of instructions.
fn damage(from: &Path, to: &Path) {
    let file = TraceFile::open(from).unwrap();
    let place = file.chunks().iter().find(|place| place.head.kind == Kind::Hart).unwrap();
    let mut bytes = fs::read(from).unwrap();
    bytes[(place.at + place.bytes - 1) as usize] ^= 0x55;
    fs::write(to, bytes).unwrap();
}

#[test]
fn a_damaged_trace_is_named_by_every_command_that_plays_it() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    // Without device events, only its instructions reveal the damage.
    let mut writer = TraceWriter::create(
        &folder.join("plain.dbt"),
        &Description { harts: 1, physical: true, ..Description::default() },
    )
    .unwrap();
    for turn in 0..200 {
        writer.block(0, &Step::default(), &round(turn), &mut |_| Walk::default()).unwrap();
    }
    writer.finish().unwrap();
    record(&folder.join("loop.dbt"));
    for name in ["loop", "plain"] {
        damage(&folder.join(format!("{name}.dbt")), &folder.join(format!("{name}-flip.dbt")));
    }
    fs::write(
        folder.join("flip.toml"),
        "trace = \"plain-flip.dbt\"\npreset = \"server\"\n[grid]\n\"memory.llc.size\" = [\"1MiB\", \"2MiB\"]\n",
    )
    .unwrap();
    for (words, named) in [
        (&["trace", "run", "plain-flip.dbt"][..], "plain-flip.dbt"),
        (&["trace", "run", "plain-flip.dbt", "--warmup", "0"], "plain-flip.dbt"),
        (&["trace", "run", "plain-flip.dbt", "--warmup", "whole"], "plain-flip.dbt"),
        (&["trace", "run", "loop-flip.dbt"], "loop-flip.dbt"),
        (&["trace", "run", "loop-flip.dbt", "--rate", "1Mpps"], "loop-flip.dbt"),
        (&["trace", "run", "loop.dbt", "plain-flip.dbt"], "plain-flip.dbt"),
        (&["trace", "run", "plain.dbt", "loop.dbt", "loop-flip.dbt"], "loop-flip.dbt"),
        (&["trace", "merge", "loop.dbt", "plain-flip.dbt", "both.dbt"], "plain-flip.dbt"),
        (&["trace", "check", "plain-flip.dbt"], "plain-flip.dbt"),
    ] {
        let output = refused(folder, words);
        for part in [named, "the trace is damaged at byte", "copy it again"] {
            assert!(output.contains(part), "{words:?}: {output}");
        }
        assert!(!output.contains("both.dbt") && !output.contains("contradict"), "{words:?}: {output}");
    }
    assert!(!folder.join("both.dbt").exists());
    let swept = doorbell(folder, &["sweep", "flip.toml", "-q"]);
    let output = String::from_utf8_lossy(&swept.stderr);
    assert!(!swept.status.success() && output.contains("plain-flip.dbt: the trace is damaged"), "{output}");
}

#[test]
fn a_trace_of_the_wrong_variant_causes_a_warning_even_with_quiet() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let path = folder.join("other.champsim");
    let mut writer = Writer::create(&path, Variant::CloudSuite).unwrap();
    for turn in 0..6400u64 {
        let record = Record { ip: 0x40_0000 + 4 * (turn % 64), ..Record::default() };
        writer.write_record(&record).unwrap();
    }
    writer.finish().unwrap();
    for words in [
        &["trace", "run", "other.champsim", "--out", "r", "-q"][..],
        &["trace", "convert", "other.champsim", "o.dbt"],
    ] {
        let output = doorbell(folder, words);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && stderr.contains("of variant cloudsuite"), "{words:?}: {stderr}");
    }
}

#[test]
fn conversions_reject_inapplicable_options_and_report_their_output() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    record(&folder.join("loop.dbt"));
    let made = succeeds(folder, &["trace", "convert", "loop.dbt", "loop.xz"]);
    assert!(made.contains("40000 instructions of hart 0, by physical addresses"), "{made}");
    let back = succeeds(folder, &["trace", "convert", "loop.xz", "back.dbt"]);
    assert!(back.contains("39999 instructions"), "{back}");
    let again = succeeds(folder, &["trace", "convert", "back.dbt", "again.champsim"]);
    assert!(again.contains("39999 instructions of hart 0, by virtual addresses"), "{again}");
    succeeds(folder, &["trace", "convert", "loop.dbt", "loop.champsim"]);
    let [first, second] =
        ["loop", "again"].map(|name| fs::read(folder.join(name).with_extension("champsim")).unwrap());
    // Except registers: a store that writes one of its source registers, as in this loop, is renamed.
    for (first, second) in first.chunks(64).zip(second.chunks(64)) {
        assert!(first[..10] == second[..10] && first[16..] == second[16..], "{first:?} {second:?}");
    }
    for (words, part) in [
        (&["convert", "loop.xz", "y.dbt", "--hart", "7"][..], "--hart applies only to a ChampSim output"),
        (&["convert", "loop.dbt", "y.DBT"], "must end in .dbt, in lower case"),
        (&["convert", "loop.dbt", "y.dbt.xz"], "without a compression suffix"),
        (&["convert", "loop.dbt", "y.xz", "--hart", "1"], "no hart 1"),
        (
            &["dump", "loop.dbt", "--from", "40000"],
            "hart 0 has 40000 instructions; instruction 40000 does not exist",
        ),
        (&["info", "loop.xz"], "`trace convert` converts them"),
    ] {
        let output = refused(folder, &[&["trace"], words].concat());
        assert!(output.contains(part), "{words:?}: {output}");
        assert!(!names(folder).iter().any(|name| name.starts_with('y')), "{words:?}");
    }
}

#[test]
fn derived_traces_do_not_overwrite_inputs_or_keep_stale_names() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    record(&folder.join("loop.dbt"));
    fs::write(folder.join("loop.symbols"), "of the loop").unwrap();
    let cut = ["trace", "cut", "loop.dbt", "part.dbt", "--from", "0", "--count", "100"];
    succeeds(folder, &cut);
    assert_eq!(fs::read_to_string(folder.join("part.symbols")).unwrap(), "of the loop");
    fs::remove_file(folder.join("loop.symbols")).unwrap();
    succeeds(folder, &cut);
    assert!(!folder.join("part.symbols").exists(), "the names of another trace are removed");

    succeeds(folder, &["trace", "convert", "loop.dbt", "loop.champsim"]);
    // The file's contents decide, not its name.
    for (path, from) in [("program.dbt", "loop.champsim"), ("own.champsim", "loop.dbt")] {
        fs::copy(folder.join(from), folder.join(path)).unwrap();
        let output = refused(folder, &["trace", "convert", path, &format!("./{path}")]);
        assert!(output.contains("choose another output file"), "{output}");
        assert!(fs::read(folder.join(path)).unwrap() == fs::read(folder.join(from)).unwrap());
    }
    fs::write(folder.join("o.symbols"), "of another").unwrap();
    succeeds(folder, &["trace", "convert", "loop.champsim", "o.dbt"]);
    assert!(!folder.join("o.symbols").exists());
}

/// Writes a thread's file in DynamoRIO's format: iterations of `mov rax, [rdi]; jmp back`, consecutive in
/// memory.
fn drmemtrace(path: &Path, thread: u64) {
    let mut bytes = Vec::new();
    let mut add = |kind: u16, size: u16, value: u64| {
        bytes.extend(kind.to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes.extend(value.to_le_bytes());
    };
    // The header, and the file's type: x86-64 with encodings; thread and process.
    for (kind, size, value) in [(25, 0, 7), (28, 9, 0x240), (22, 4, thread), (24, 4, 1)] {
        add(kind, size, value);
    }
    for round in 0..2000 {
        if round == 0 {
            add(47, 3, 0x07_8b48);
        }
        add(10, 3, 0x40_0000);
        add(0, 8, 0x7f00_0000_0000 + 64 * (thread << 16 | round));
        if round == 0 {
            add(47, 2, 0xfbeb);
        }
        add(11, 2, 0x40_0003);
    }
    add(23, 4, thread);
    add(26, 0, 0);
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_dynamorio_folder_is_inspected_converted_and_played() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    fs::create_dir(folder.join("program")).unwrap();
    (1..=2).for_each(|thread| drmemtrace(&folder.join(format!("program/{thread}.trace")), thread));
    let info = succeeds(folder, &["trace", "info", "program"]);
    assert!(info.contains("8000 instructions") && info.contains("hart 1         4000"), "{info}");
    assert!(succeeds(folder, &["trace", "check", "program"]).contains("complete"));
    let converted = succeeds(folder, &["trace", "convert", "program", "own.dbt"]);
    assert!(converted.contains("8000 instructions") && converted.contains("threads: 2"), "{converted}");
    for (trace, out) in [("program", "direct"), ("own.dbt", "converted")] {
        let run =
            ["trace", "run", trace, "--set", "playback.pages=kernel", "--warmup", "0", "--out", out, "-q"];
        succeeds(folder, &run);
    }
    let (direct, converted) = (summary(&folder.join("direct")), summary(&folder.join("converted")));
    assert_eq!(direct["state_hash"], converted["state_hash"]);
    assert!(direct["state_hash"].is_string(), "{direct}");
    let output = refused(folder, &["trace", "convert", ".", "own.dbt"]);
    assert!(output.contains("is a folder without DynamoRIO traces"), "{output}");
}
