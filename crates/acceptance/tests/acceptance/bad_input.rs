//! Invalid input of every kind: a clear message, a non-zero exit code, and no partial files.

use std::fs;
use std::path::Path;
use std::process::Command;

use doorbell_acceptance::{
    CommandOutput, FullDisk, Running, doorbell, doorbell_path, places, scratch, shared_checkpoint,
};

/// Runs testpmd for a short time from the shared checkpoint, with further arguments.
fn short_run(out: &Path, further: &[&str]) -> CommandOutput {
    let checkpoint = shared_checkpoint(&[]);
    run_from(&checkpoint, out, further)
}

fn run_from(checkpoint: &Path, out: &Path, further: &[&str]) -> CommandOutput {
    let [checkpoint, out] = [checkpoint, out].map(|path| path.to_str().expect("scratch paths are UTF-8"));
    let arguments = ["run", "testpmd", "-q", "--duration", "100us", "--warmup", "100us"];
    doorbell(&[&arguments, ["--checkpoint", checkpoint, "--out", out].as_slice(), further].concat())
}

#[test]
fn an_unknown_name_is_rejected_with_the_closest_valid_name() {
    let folder = scratch();
    let out = folder.path().join("out");
    let out_text = out.to_str().unwrap();
    for (arguments, texts) in [
        (vec!["run", "testpdm"], ["no benchmark \"testpdm\"", "did you mean \"testpmd\"?"]),
        (vec!["run", "testpmd", "--preset", "fats"], ["no preset \"fats\"", "did you mean \"fast\"?"]),
        (vec!["run", "testpmd", "--raet", "1Mpps"], ["--raet", "'--rate'"]),
        (vec!["run", "testpmd", "--set", "nic.rx_fifi=48KiB"], ["nic.rx_fifi", "did you mean \"rx_fifo\"?"]),
        (vec!["run", "testpmd", "--set", "dpdk.brust=32"], ["dpdk.brust", "did you mean \"burst\"?"]),
        (vec!["run", "testpmd", "--set", "testpmd.mode=macswop"], ["testpmd.mode", "macswap"]),
    ] {
        doorbell(&[arguments, vec!["--out", out_text]].concat()).assert_usage_error(&texts);
        assert!(!out.exists(), "a failed run must not create a result folder");
    }
    doorbell(&["bood"]).assert_usage_error(&["'bood'", "'boot'"]);
    doorbell(&["boot", "--image", "nope"]).assert_usage_error(&["\"nope\"", "testpmd"]);
}

#[test]
fn values_with_a_missing_or_wrong_unit_or_out_of_range_are_rejected() {
    let folder = scratch();
    let out = folder.path().join("out");
    for (arguments, texts) in [
        (["--rate", "5"], ["--rate", "no unit"]),
        (["--rate", "5Mbpss"], ["--rate", "unknown unit \"Mbpss\""]),
        (["--rate", "0Mpps"], ["--rate", "is zero"]),
        (["--rate=-5Mpps", "-q"], ["--rate", "no number"]),
        (["--duration", "10"], ["--duration", "no unit"]),
        (["--warmup", "5parsec"], ["--warmup", "unknown unit \"parsec\""]),
        (["--frame-size", "63"], ["frame_size", "64B"]),
        (["--frame-size", "64ns"], ["--frame-size", "unit"]),
        (["--frames", "0"], ["run.frames", "more frames"]),
        (["--set", "link.rate=10"], ["link.rate", "unit"]),
        (["--set", "link.rate=10Gb"], ["link.rate", "Gbps"]),
        (["--set", "core.ipc=0"], ["core.ipc", "0.01"]),
        (["--set", "platform.ram=1KiB"], ["platform.ram", "64MiB"]),
        (["--set", "platform.ram=64MiB"], ["platform.ram", "set platform.ram=192MiB"]),
        (["--set", "dpdk.rxd=100"], ["dpdk.rxd", "multiple of 8"]),
        (["--set", "dpdk.mbufs=2048"], ["dpdk.mbufs", "set 2830 or more"]),
        (["--set", "memory.dca.policy.ways=2"], ["memory.dca.policy.ways", "\"0-1\" for the first 2"]),
        (["--rate", "-5Mpps"], ["--rate", "is negative"]),
        (["--set", "nic.rx_fifo"], ["nic.rx_fifo", "path=value"]),
        (["--seed", "one"], ["--seed", "'one'"]),
    ] {
        if arguments[0] == "--duration" || arguments[0] == "--warmup" {
            doorbell(&[["run", "testpmd"], arguments].concat()).assert_usage_error(&texts);
        } else {
            let all = [&["run", "testpmd", "--out", out.to_str().unwrap()], arguments.as_slice()].concat();
            doorbell(&all).assert_usage_error(&texts);
        }
        assert!(!out.join("summary.json").exists());
    }
}

#[test]
fn a_damaged_or_incompatible_checkpoint_is_rejected() {
    let folder = scratch();
    let [out, file] = ["out", "wrong.ckpt"].map(|name| folder.path().join(name));
    let good = fs::read(shared_checkpoint(&[])).unwrap();
    let rejected = |bytes: Option<&[u8]>, text: &str| {
        if let Some(bytes) = bytes {
            fs::write(&file, bytes).unwrap();
        }
        run_from(&file, &out, &[]).assert_failure(&[text]);
        assert!(!out.join("summary.json").exists());
    };
    rejected(None, "No such file");
    rejected(Some(b""), "not a Doorbell checkpoint");
    rejected(Some(b"#!/bin/sh\n"), "not a Doorbell checkpoint");
    rejected(Some(&good[..18]), "truncated");
    rejected(Some(&good[..good.len() / 2]), "truncated or damaged");
    rejected(Some(&good[..good.len() - 1]), "truncated or damaged");
    let mut changed = good.clone();
    changed[good.len() / 3] ^= 4;
    rejected(Some(&changed), "truncated or damaged");
    // The format version follows the 16 magic bytes.
    let mut other_version = good.clone();
    other_version[16] += 1;
    rejected(Some(&other_version), "this doorbell reads format");
    run_from(folder.path(), &out, &[]).assert_failure(&["directory"]);
    for set in ["platform.ram=512MiB", "platform.timebase=10MHz", "nic.mac=02:00:00:00:00:07"] {
        short_run(&out, &["--set", set]).assert_failure(&["belongs to another machine"]);
    }
    short_run(&out, &["--set", "dpdk.rxd=512"]).assert_failure(&["of another guest", "\"doorbell.rxd=512\""]);
    // Parameters that are invisible to the guest may differ.
    short_run(&out, &["--set", "link.rate=40Gbps", "--set", "nic.rx_fifo=128KiB"]).success();
}

#[test]
fn an_unwritable_result_folder_is_rejected_before_the_run() {
    let folder = scratch();
    let file = folder.path().join("file");
    fs::write(&file, "mine").unwrap();
    for out in [&file, &file.join("below"), Path::new("/proc/doorbell")] {
        short_run(out, &[]).assert_failure(&["result folder"]);
    }
    assert_eq!(fs::read(&file).unwrap(), b"mine");
}

#[test]
fn a_full_disk_is_reported_and_leaves_only_complete_files() {
    let folder = scratch();
    let checkpoint = shared_checkpoint(&[]).display().to_string();
    let disk = FullDisk::build(folder.path());
    let small = folder.path().join("small");
    for (size, further) in [
        (200 << 10, vec!["--pcap"]),
        (30 << 10, vec!["--rate", "1Mpps,2Mpps"]),
        (3 << 20, vec!["--save-checkpoint", "c"]),
    ] {
        let _ = fs::remove_dir_all(&small);
        fs::create_dir(&small).unwrap();
        let mut command = Command::new(doorbell_path());
        command.args(["run", "testpmd", "-q", "--duration", "1ms", "--warmup", "1ms"]);
        command.args(["--checkpoint", &checkpoint, "--out", "out"]).args(&further).current_dir(&small);
        disk.limit(&mut command, &small, size);
        Running::start(command).end().assert_failure(&["No space left on device"]);
        check_whole(&small);
        assert!(!small.join("c").exists(), "a partial checkpoint must not remain");
    }
}

/// Checks that every file in a folder is complete and has the format of its extension.
fn check_whole(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            check_whole(&path);
            continue;
        }
        let text = || fs::read_to_string(&path).unwrap();
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("json") => drop(serde_json::from_str::<serde_json::Value>(&text()).unwrap()),
            Some("toml") => assert!(text().contains("[loadgen.traffic]")),
            Some("html") => assert!(text().trim_end().ends_with("</html>")),
            Some("hgrm") => assert!(text().trim_end().lines().last().unwrap().starts_with("#[Buckets")),
            Some("csv") => {
                let (text, columns) = (text(), |line: &str| line.split(',').count());
                let head = columns(text.lines().next().unwrap());
                assert!(text.ends_with('\n') && text.lines().all(|line| columns(line) == head));
            }
            Some("pcap") => {
                let output = Command::new("tshark").arg("-r").arg(&path).output().expect("tshark runs");
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            }
            other => panic!("unexpected file {} with extension {other:?}", path.display()),
        }
    }
}

#[test]
fn a_damaged_or_incomplete_image_is_reported() {
    let folder = scratch();
    let image = folder.path().join("images/testpmd");
    fs::create_dir_all(&image).unwrap();
    let from = places().image("testpmd");
    let show = || doorbell(&["--cache", folder.path().to_str().unwrap(), "image", "show", "testpmd"]);
    show().assert_failure(&["no built image", "doorbell image build testpmd"]);
    let files = ["kernel", "initramfs.cpio", "fw_dynamic.bin", "manifest.json"];
    for file in fs::read_dir(from).unwrap().map(|entry| entry.unwrap().path()) {
        fs::copy(&file, image.join(file.file_name().unwrap())).unwrap();
    }
    show().success();
    for file in files {
        let (path, aside) = (image.join(file), image.join("aside"));
        fs::rename(&path, &aside).unwrap();
        show().assert_failure(&[file, "missing"]);
        let bytes = fs::read(&aside).unwrap();
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        show().assert_failure(&["damaged", file, "doorbell image build testpmd"]);
        fs::rename(&aside, &path).unwrap();
    }
    show().success();
}

#[test]
fn a_guest_that_does_not_become_ready_fails_the_run_with_its_last_console_lines() {
    let folder = scratch();
    let out = folder.path().to_str().unwrap();
    let run = |set: &str| doorbell(&["run", "testpmd", "-q", "--boot", "--out", out, "--set", set]);
    run("run.boot_timeout=2ms").assert_failure(&["not ready", "run.boot_timeout", "last lines", "OpenSBI"]);
    // testpmd does not start.
    let network_folder = scratch();
    let network = network_folder.path().join("network.toml");
    fs::write(&network, "[node.dut]\nbenchmark = \"testpmd\"\nwords = \"doorbell.arg=--no-such-option\"\n")
        .unwrap();
    let network_run =
        doorbell(&["run", "--network", network.to_str().unwrap(), "-q", "--boot", "--out", out]);
    network_run.assert_failure(&["powered off", "last lines", "doorbell: exit"]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "without a result, no file is written");
    let panicked = doorbell(&["boot", "--fast-forward", "--append", "rdinit=/nonexistent"]);
    assert!(panicked.stdout.contains("Kernel panic"), "{}", panicked.stdout);
    panicked.assert_failure(&["panicked"]);
}

#[test]
fn observers_that_the_machine_does_not_support_are_rejected_before_boot() {
    for (option, more, message) in [
        ("--profile", "core.model=functional", "--preset server"),
        ("--pipeline=0", "core.model=timed", "a log has from 1"),
        ("--timeline", "loadgen.stages=false", "set loadgen.stages = true"),
    ] {
        let output = doorbell(&["run", "testpmd", "--set", more, option]);
        output.assert_failure(&[message]);
        assert!(!output.stderr.contains("boot"), "{}", output.stderr);
    }
}
