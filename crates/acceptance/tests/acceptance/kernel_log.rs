//! Compares the firmware's and the kernel's log with those of the same image on QEMU's `virt` machine, line
//! by line. A short list has the allowed differences, each with its reason.

use std::process::Stdio;

use doorbell_acceptance::places;
use doorbell_bench::{read_guest, resolve};
use doorbell_machine::{Limits, Machine, Outcome};
use doorbell_sim::Ps;

const PATIENCE: Ps = Ps(60 * Ps::PER_SECOND);
/// Log everything, then print the driver's view of the NIC.
const WORDS: &str = "loglevel=8 -- \"ethtool eth0; ethtool -i eth0; ethtool -k eth0; ip -s link show eth0\"";

/// Prefixes of lines that may differ, with the reason. Both sides must have equally many lines with each
/// prefix.
const MAY_DIFFER: &[(&str, &str)] = &[
    ("Platform Name ", "the machine's own name"),
    ("Machine model:", "the machine's own name"),
    (
        "Firmware Heap Size ",
        "QEMU's harts have debug triggers and counters, for which the firmware keeps tables",
    ),
    ("Firmware Scratch Size ", "as above"),
    ("Experimental SBI Extensions ", "debug triggers (dbtr)"),
    ("Boot HART ISA Extensions ", "debug triggers (sdtrig)"),
    ("Boot HART MHPM Info ", "in QEMU, inhibit bits of absent counters are writable"),
    ("Boot HART Debug Triggers ", "our harts have none"),
    (
        "Boot HART MEDELEG ",
        "in QEMU, software-check exceptions (bit 18) can be delegated although harts without Zicfilp and Zicfiss never raise them",
    ),
    ("riscv-pmu-sbi:", "event counters"),
    ("NODE_DATA(0) allocated", "an address that depends on the device tree's size"),
    ("Memory:", "the device tree's size"),
    ("node 0 deferred pages initialised in", "a duration"),
    ("audit: type=2000", "a time stamp"),
    ("goldfish_rtc 101000.rtc: setting system clock", "the wall clock, which is simulated here"),
    ("Trying to unpack rootfs image", "unpacked asynchronously: its position in the log depends on timing"),
    ("Freeing initrd memory", "as above"),
    ("pci 0000:00:01.0: BAR", "the I/O window is BAR 2 as in the 82540EM's manual; QEMU has it in BAR 1"),
    (
        "e1000: eth0 NIC Link is Up",
        "QEMU's PHY reports a link partner with PAUSE; ours does only if configured",
    ),
    ("\tMDI-X:", "QEMU's PHY reports crossed pairs, ours straight ones"),
];

/// Prefixes of lines that only one side has.
const ONLY_QEMU: &[(&str, &str)] = &[];
const ONLY_OURS: &[(&str, &str)] = &[(
    "pci 0000:00:01.0: PME# supported",
    "our NIC has the power management capability that the 82540EM has; QEMU's has none",
)];

/// A console's lines without time stamps.
fn lines(console: &str) -> Vec<String> {
    let plain = console.replace('\r', "");
    let without_stamp = |line: &str| match line.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
        Some((stamp, rest)) if stamp.trim().parse::<f64>().is_ok() => rest.to_owned(),
        _ => line.to_owned(),
    };
    plain.lines().map(without_stamp).map(|line| line.trim_end().to_owned()).collect()
}

fn here() -> Vec<String> {
    // QEMU's timebase, so that the kernel's lines about clocks are the same.
    let config =
        resolve("fast", &["platform.timebase=10MHz".to_owned()]).expect("the configuration is valid");
    let image = places().build_image("net", &mut |_| {}).expect("the net image can be built");
    let guest =
        read_guest(&image, format!("{} {WORDS}", image.command_line())).expect("an image can be read");
    let mut machine = Machine::new(config.machine(), config.run.seed).expect("the machine can be built");
    machine.load(&guest).expect("the guest fits");
    let outcome = machine.run(&Limits::until(PATIENCE));
    assert_eq!(outcome, Outcome::PowerOff { code: 0 }, "{}", machine.console.last_lines(20));
    lines(&machine.console.text())
}

fn on_qemu() -> Vec<String> {
    let image = places().build_image("net", &mut |_| {}).expect("the net image can be built");
    let file = |name: &str| image.dir().join(name);
    let mut command = doorbell_oracle::under(&["timeout", "--kill-after=5", "240"], &doorbell_oracle::qemu());
    command.args(["-machine", "virt", "-m", "256M", "-smp", "1"]);
    // The same extensions as our hart.
    command.args(["-cpu", &format!("{},sstc=on", doorbell_oracle::HART), "-accel", "tcg"]);
    command.args(["-display", "none", "-monitor", "none", "-serial", "stdio", "-no-reboot", "-nic", "none"]);
    command.args(["-netdev", "hubport,id=net0,hubid=0", "-device", "e1000,addr=1,romfile=,netdev=net0"]);
    command.arg("-bios").arg(file("fw_dynamic.bin")).arg("-kernel").arg(image.kernel());
    command.arg("-initrd").arg(image.initramfs());
    command.args(["-append", &format!("{} {WORDS}", image.command_line())]);
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.expect("coreutils' timeout starts");
    assert!(output.status.success(), "QEMU: {}", output.status);
    lines(&String::from_utf8_lossy(&output.stdout))
}

fn listed<'a>(line: &str, list: &'a [(&'static str, &'static str)]) -> Option<&'a str> {
    list.iter().find(|(begin, _)| line.starts_with(begin)).map(|(begin, _)| *begin)
}

/// Lines that must be equal on both sides, in order.
fn compared<'a>(all: &'a [String], own: &[(&'static str, &'static str)]) -> Vec<&'a str> {
    let wanted = |line: &&String| listed(line, MAY_DIFFER).is_none() && listed(line, own).is_none();
    all.iter().filter(wanted).map(String::as_str).collect()
}

#[test]
fn firmware_and_kernel_logs_match_qemu() {
    let qemu = std::thread::spawn(on_qemu);
    let (ours, theirs) = (here(), qemu.join().expect("QEMU runs"));
    let (left, right) = (compared(&ours, ONLY_OURS), compared(&theirs, ONLY_QEMU));
    assert!(left.len() > 280, "{}", ours.join("\n"));
    for (at, (our, their)) in left.iter().zip(&right).enumerate() {
        let before = left[at.saturating_sub(5)..at].join("\n");
        assert_eq!(our, their, "compared line {at}, after\n{before}");
    }
    assert_eq!(left.len(), right.len());
    // Every list entry must be needed: it occurs equally often on both sides, or on its side only.
    let count = |all: &[String], begin: &str| all.iter().filter(|line| line.starts_with(begin)).count();
    for (begin, reason) in MAY_DIFFER {
        let (here, there) = (count(&ours, begin), count(&theirs, begin));
        assert!(here == there && here > 0, "\"{begin}\" ({reason}): {here} times here, {there} on QEMU");
    }
    for (begin, reason) in ONLY_OURS {
        assert!(count(&ours, begin) > 0 && count(&theirs, begin) == 0, "\"{begin}\" ({reason})");
    }
    for (begin, reason) in ONLY_QEMU {
        assert!(count(&ours, begin) == 0 && count(&theirs, begin) > 0, "\"{begin}\" ({reason})");
    }
}
