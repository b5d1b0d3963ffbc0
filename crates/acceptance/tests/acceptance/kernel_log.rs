//! The same image on QEMU's `virt` machine as reference: what firmware and kernel log there they log here, line by line, but for
//! a short list of differences, each with its reason.

use std::process::Stdio;

use doorbell_acceptance::places;
use doorbell_bench::{read_guest, resolve};
use doorbell_machine::{Limits, Machine, Outcome};
use doorbell_sim::Ps;

const PATIENCE: Ps = Ps(60 * Ps::PER_SECOND);
/// Everything is logged, and then what the driver knows of the NIC.
const WORDS: &str = "loglevel=8 -- \"ethtool eth0; ethtool -i eth0; ethtool -k eth0; ip -s link show eth0\"";

/// Lines that may differ, by how they begin. Each side must have as many of each; what follows is not compared.
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
    ("Boot HART MHPM Info ", "QEMU lets counters be inhibited that it has not"),
    ("Boot HART Debug Triggers ", "our harts have none"),
    (
        "Boot HART MEDELEG ",
        "QEMU lets software checks (bit 18) be delegated on harts that never raise them, without Zicfilp and Zicfiss",
    ),
    ("riscv-pmu-sbi:", "event counters"),
    ("NODE_DATA(0) allocated", "an address that depends on the device tree's size"),
    ("Memory:", "the device tree's size"),
    ("node 0 deferred pages initialised in", "a duration"),
    ("audit: type=2000", "a time stamp"),
    ("goldfish_rtc 101000.rtc: setting system clock", "the wall clock, which is simulated here"),
    ("Trying to unpack rootfs image", "unpacked beside the rest: where it stands in the log depends on time"),
    ("Freeing initrd memory", "as above"),
    ("pci 0000:00:01.0: BAR", "the I/O window is BAR 2 as in the 82540EM's manual; QEMU has it in BAR 1"),
    ("e1000: eth0 NIC Link is Up", "QEMU's PHY tells of a partner that sends PAUSE; ours does if asked to"),
    ("\tMDI-X:", "QEMU's PHY tells of crossed pairs, ours of straight ones"),
];

/// Lines that one side alone has.
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
        resolve("fast", &["platform.timebase=10MHz".to_owned()]).expect("the configuration is right");
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
    // What our hart has, and no more.
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

/// The lines that have to be the same on both sides, in order.
fn compared<'a>(all: &'a [String], own: &[(&'static str, &'static str)]) -> Vec<&'a str> {
    let wanted = |line: &&String| listed(line, MAY_DIFFER).is_none() && listed(line, own).is_none();
    all.iter().filter(wanted).map(String::as_str).collect()
}

#[test]
fn firmware_and_kernel_log_what_they_log_on_qemu() {
    let qemu = std::thread::spawn(on_qemu);
    let (ours, theirs) = (here(), qemu.join().expect("QEMU runs"));
    let (left, right) = (compared(&ours, ONLY_OURS), compared(&theirs, ONLY_QEMU));
    assert!(left.len() > 280, "{}", ours.join("\n"));
    for (at, (our, their)) in left.iter().zip(&right).enumerate() {
        let before = left[at.saturating_sub(5)..at].join("\n");
        assert_eq!(our, their, "line {at} that is compared, behind\n{before}");
    }
    assert_eq!(left.len(), right.len());
    // The list has nothing that is not needed: each entry occurs, equally often on both sides, or on the one named.
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
