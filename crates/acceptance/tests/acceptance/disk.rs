//! Disks in whole machines. Debian runs from a root disk larger than memory and reads the same data as in
//! QEMU. A user's disk file is read and written by the guest, but not changed. A checkpoint during a disk
//! request continues bit for bit.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use doorbell_acceptance::{places, scratch, short_or_long};
use doorbell_bench::{Resolved, RunConfig, machine_with, open_disks, read_guest, resolve};
use doorbell_image::{GuestFile, Image, overlay};
use doorbell_machine::{CheckpointFile, DiskFile, Guest, Limits, Machine, Outcome};
use doorbell_sim::Ps;

/// Limit of simulated time.
const PATIENCE: Ps = Ps(120 * Ps::PER_SECOND);
const RAM: &str = "128MiB";
const RAM_BYTES: u64 = 128 << 20;
const DISK_BYTES: usize = 24 << 20;
/// Simulated time between checks for a disk request in flight.
const STEP: Ps = Ps::from_us(7);

/// Script of the guest. It prints its results on lines that start with "disk-check:".
const SCRIPT: &str = r#"
say() { echo "disk-check: $*"; }
set -o pipefail
say root $(cut -d' ' -f1-3 /proc/mounts | grep -E '^/dev/[a-z]+ / ' | cut -d' ' -f2,3)
say count $(find FOLDERS -xdev -type f | wc -l)
say files $(find FOLDERS -xdev -type f | LC_ALL=C sort | xargs -d '\n' md5sum | md5sum)
say python $(python3 -c 'import json, hashlib; print(json.dumps({"sum": hashlib.sha256(b"disk").hexdigest()}))')
for name in vda vdb; do [ "$(cat /sys/block/$name/size)" = 49152 ] && disk=$name; done
say size $(cat /sys/block/$disk/size)
say contents $(sha256sum < /dev/$disk)
seq 1 500000 | dd of=/dev/$disk bs=4k seek=3 conv=notrunc,fsync iflag=fullblock 2> /dev/null
printf odd | dd of=/dev/$disk bs=1 seek=9000001 conv=notrunc,fsync 2> /dev/null
echo 3 > /proc/sys/vm/drop_caches
say written $(sha256sum < /dev/$disk)
seq 1 1000000 > /root/numbers
sync
echo 3 > /proc/sys/vm/drop_caches
say numbers $(sha256sum < /root/numbers)
say ok
"#;

/// The long form hashes the whole system, which is larger than memory and takes a minute.
fn script() -> String {
    SCRIPT.replace("FOLDERS", short_or_long("/usr/bin /etc", "/usr /etc"))
}

fn server() -> Image {
    places().build_image("server", &mut |_| {}).expect("the server image can be built")
}

fn guest(image: &Image) -> Guest {
    let mut guest = read_guest(image, format!("{} doorbell.app=ours", image.command_line()))
        .expect("the image can be read");
    let ours = GuestFile { path: "scripts/ours".into(), executable: false, content: script().into() };
    guest.initramfs.extend(overlay(&[ours]).expect("a script can be added to an image"));
    guest
}

/// A user's disk file whose blocks all differ.
fn own_disk(folder: &Path) -> (PathBuf, Vec<u8>) {
    let path = folder.join("own.img");
    let contents: Vec<u8> = (0..DISK_BYTES).map(|at| (at / 4096 * 37 + at % 251) as u8).collect();
    std::fs::write(&path, &contents).expect("the disk can be written");
    (path, contents)
}

fn config(disk: &Path) -> Resolved {
    let config = resolve("fast", &[format!("platform.ram={RAM}"), "disk.latency=80us".into()])
        .expect("a configuration");
    config.with_change(|config| config.run.disks.push(disk.to_owned())).expect("it stays valid")
}

fn build(config: &RunConfig, image: &Image) -> Machine {
    machine_with(config, &open_disks(Some(image), &config.run.disks).expect("the disks can be opened"))
        .expect("the machine can be built")
}

/// Result lines of a guest.
fn results(console: &str) -> Vec<String> {
    let lines = console.lines().filter_map(|line| line.trim_end().strip_prefix("disk-check: "));
    lines.map(str::to_owned).collect()
}

fn qemu(image: &Image, guest: &Guest, folder: &Path, own: &Path) -> Vec<String> {
    let initramfs = folder.join("initramfs");
    std::fs::write(&initramfs, &guest.initramfs).expect("the initramfs can be written");
    let mut command = doorbell_oracle::qemu();
    command.args([
        "-M",
        "virt",
        "-m",
        "128",
        "-display",
        "none",
        "-serial",
        "stdio",
        "-monitor",
        "none",
        "-nodefaults",
    ]);
    command.args(["-no-reboot", "-global", "virtio-mmio.force-legacy=false"]);
    command.arg("-bios").arg(image.firmware("fw_dynamic.bin").expect("the image has firmware"));
    command.arg("-kernel").arg(image.kernel()).arg("-initrd").arg(&initramfs);
    command.arg("-append").arg(&guest.bootargs);
    let disks = [("root", &*image.disk().expect("the image has a disk")), ("own", own)];
    for (name, path) in disks {
        command
            .arg("-drive")
            .arg(format!("file={},if=none,id={name},format=raw,snapshot=on", path.display()));
        command.args(["-device", &format!("virtio-blk-device,drive={name}")]);
    }
    let output = command.stdin(Stdio::null()).output().expect("QEMU starts");
    let console = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(console.contains("doorbell: exit 0"), "{console}");
    results(&console)
}

#[test]
#[ignore = "long: make test-long runs it"]
fn debian_on_a_disk_larger_than_memory_reads_the_same_data_as_in_qemu() {
    let (image, folder) = (server(), scratch());
    let (own, contents) = own_disk(folder.path());
    let guest = guest(&image);
    let mut machine = build(&config(&own), &image);
    machine.load(&guest).expect("the guest fits");
    let outcome = machine.run(&Limits::until(PATIENCE));
    let console = machine.console.text();
    assert_eq!(outcome, Outcome::PowerOff { code: 0 }, "{console}");
    let ours = results(&console);
    assert!(ours.first().is_some_and(|line| line == "root / ext4"), "{console}");
    assert!(ours.last().is_some_and(|line| line == "ok") && ours.len() == 9, "{console}");
    let count = ours.iter().find_map(|line| line.strip_prefix("count "));
    assert!(
        count
            .and_then(|count| count.parse().ok())
            .is_some_and(|count: u32| count > short_or_long(200, 2_000)),
        "{console}"
    );
    let stats = machine.disk_stats();
    let expected = short_or_long(RAM_BYTES / 8, RAM_BYTES);
    assert!(stats[0].read_bytes > expected, "the long form must read more than the memory size: {stats:?}");
    for disk in &stats {
        assert_eq!(
            (disk.failed_requests, disk.broken_rings, disk.undefined_accesses),
            (0, 0, 0),
            "{stats:?}"
        );
        assert!(disk.flushes > 0 && disk.writes > 0, "{stats:?}");
    }
    assert_eq!(qemu(&image, &guest, folder.path(), &own), ours);
    assert!(std::fs::read(&own).expect("the disk file can be read") == contents, "the file was changed");
}

/// Runs in small steps until a disk request is in flight.
fn run_into_a_request(machine: &mut Machine) {
    for _ in 0..100_000 {
        if machine.disk_requests_in_flight() > 0 {
            return;
        }
        let step = machine.now() + STEP;
        assert_eq!(machine.run(&Limits::until(step)), Outcome::Time, "{}", machine.console.text());
    }
    panic!("the guest sends no disk request");
}

#[test]
#[ignore = "long: make test-long runs it"]
fn a_checkpoint_during_a_disk_request_restores_exactly_and_only_with_its_disks() {
    let (image, folder) = (server(), scratch());
    let (own, _) = own_disk(folder.path());
    let config = config(&own);
    let mut first = build(&config, &image);
    first.load(&guest(&image)).expect("the guest fits");
    first.console.watch(Some("disk-check: root"));
    let limits = Limits { on_marker: true, ..Limits::until(PATIENCE) };
    assert_eq!(first.run(&limits), Outcome::Marker, "{}", first.console.text());
    first.console.watch(None);
    run_into_a_request(&mut first);
    let checkpoint = first.checkpoint("server", "");
    let checkpoint =
        CheckpointFile::from_bytes(checkpoint.bytes().to_vec()).expect("the checkpoint is complete");
    let mut second = build(&config, &image);
    second.restore(&checkpoint, "server").expect("the checkpoint fits");
    assert_eq!(second.disk_requests_in_flight(), first.disk_requests_in_flight());
    assert_eq!(second.state_hash(), first.state_hash());
    let end = first.now() + Ps::from_ms(60);
    let before = first.disk_stats()[0].reads;
    for machine in [&mut first, &mut second] {
        assert_eq!(machine.run(&Limits::until(end)), Outcome::Time);
    }
    assert_eq!(second.section_hashes(), first.section_hashes());
    assert_eq!(second.state_hash(), first.state_hash());
    assert!(first.disk_stats()[0].reads > before + 10, "the disk was in use");

    let other = folder.path().join("other.img");
    std::fs::write(&other, vec![1; DISK_BYTES]).expect("the disk can be written");
    let restore_error = |files: &[PathBuf]| {
        let files: Vec<DiskFile> = files.iter().map(|path| DiskFile::open(path).expect("a disk")).collect();
        let mut machine = machine_with(&config, &files).expect("the machine can be built");
        machine.restore(&checkpoint, "server").expect_err("the disks differ").to_string()
    };
    let root = image.disk().expect("the image has a disk");
    let error = restore_error(&[root.clone(), other]);
    assert!(error.contains("disk 1") && error.contains("the file given has"), "{error}");
    let error = restore_error(std::slice::from_ref(&root));
    assert!(error.contains("one more disk") && error.contains("--disk FILE"), "{error}");
    let error = restore_error(&[root, own.clone(), own]);
    assert!(error.contains("2 disks"), "{error}");
}
