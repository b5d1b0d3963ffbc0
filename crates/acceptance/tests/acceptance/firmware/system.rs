//! Whole systems under both firmwares: kernel log, power-off and reboot, device tree, forwarded frames. Also
//! Linux on QEMU with the built-in firmware.

use std::process::Command;

use doorbell_acceptance::{net_guest, places, quiet, scratch, session};
use doorbell_bench::{read_guest, resolve, run_point};
use doorbell_machine::{Guest, Limits, Machine, Outcome};
use doorbell_platform::{InterruptsKind, sbi};
use doorbell_sim::{Bytes, Ps};

use super::qemu;

const KERNEL: u64 = 0x8020_0000;
const TESTPMD_WORDS: &str = "doorbell.app=none";

fn linux(words: &str) -> Guest {
    let image = places().build_image("testpmd", &mut |_| {}).expect("the testpmd image can be built");
    read_guest(&image, format!("{} {words}", image.command_line())).expect("an image can be read")
}

fn machine(guest: &Guest, overrides: &[&str]) -> Machine {
    let overrides: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
    let config = resolve("fast", &overrides).expect("the check's configuration is valid");
    let mut machine = Machine::new(config.machine(), config.run.seed).expect("the machine can be built");
    machine.load(guest).expect("the guest fits");
    machine
}

fn run(machine: &mut Machine, wanted: Outcome) -> String {
    let outcome = machine.run(&Limits::until(Ps(10 * Ps::PER_SECOND)));
    let console = machine.console.text();
    assert_eq!(outcome, wanted, "{console}");
    console
}

/// Lines of the kernel log without timestamps, and without lines about the firmware itself, its memory, or
/// the PMU extension, which the built-in firmware lacks.
fn kernel_log(console: &str) -> Vec<String> {
    const OF_FIRMWARE: [&str; 9] = [
        "SBI implementation ID=",
        "OF: reserved mem:",
        "NODE_DATA(0)",
        "  node   0:",
        "Initmem setup",
        "Memory:",
        "riscv-pmu-sbi:",
        "Legacy PMU",
        "Freeing ",
    ];
    let start = console.find("Linux version").unwrap_or_else(|| panic!("no kernel:\n{console}"));
    let text = |line: &str| match line.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
        Some((_, text)) => text.to_owned(),
        None => line.to_owned(),
    };
    let lines: Vec<String> = console[start..].lines().map(text).collect();
    lines.into_iter().filter(|line| !OF_FIRMWARE.iter().any(|of| line.starts_with(of))).collect()
}

#[test]
fn the_kernel_logs_the_same_under_both_firmwares() {
    let guest = linux(&format!("{TESTPMD_WORDS} loglevel=8"));
    for sstc in ["platform.sstc=true", "platform.sstc=false"] {
        let [theirs, ours] = ["opensbi", "builtin"].map(|firmware| {
            let firmware = format!("platform.firmware={firmware}");
            let mut machine = machine(&guest, &[sstc, &firmware]);
            let console = run(&mut machine, Outcome::PowerOff { code: 0 });
            let stats = machine.harts()[0].stats();
            let (all, exceptions, interrupts) = (stats.instructions, stats.exceptions, stats.interrupts);
            println!(
                "{sstc} {firmware}: {all} instructions, {exceptions} exceptions, {interrupts} interrupts"
            );
            kernel_log(&console)
        });
        assert!(ours.len() > 150, "only {} lines", ours.len());
        let missing: Vec<_> = theirs.iter().filter(|line| !ours.contains(line)).collect();
        let new: Vec<_> = ours.iter().filter(|line| !theirs.contains(line)).collect();
        assert!(missing.is_empty() && new.is_empty(), "{sstc}: missing {missing:#?}, new {new:#?}");
        assert_eq!(ours, theirs, "{sstc}: the lines are in another order");
    }
}

/// Script that prints the firmware's ID, the harts, the interrupt counts, and a ping that needs the NIC's
/// interrupts.
const MESSAGES: &str = r"
busybox dmesg | busybox grep -e 'SBI implementation ID' -e 'Brought up'
until read -r carrier < /sys/class/net/eth0/carrier && [ $carrier = 1 ]; do busybox usleep 10000; done
ping -q -c 1 -W 1 10.0.0.1 && echo ping ok
busybox grep -e eth0 -e ttyS0 -e IPI /proc/interrupts
";

#[test]
fn with_aia_the_builtin_firmware_starts_all_harts_and_msis_arrive() {
    let set = ["platform.firmware=builtin", "platform.interrupts=aia", "platform.harts=2", "nic.model=82576"];
    let console = net_guest::run(&mut net_guest::boot(&set, "doorbell.app=ours", MESSAGES, &[]));
    for part in ["SBI implementation ID=0x444f4f52", "Brought up 1 node, 2 CPUs", "ping ok"] {
        assert!(console.contains(part), "no {part}: {console}");
    }
    // One queue per hart, each with a vector; at least one vector was used for the ping.
    let vectors: Vec<&str> = console.lines().filter(|line| line.contains(" eth0-rx-")).collect();
    assert_eq!(vectors.len(), 2, "{console}");
    let occurred = |line: &&str| line.split_whitespace().skip(1).take(2).any(|count| count != "0");
    assert!(vectors.iter().any(occurred), "{console}");
}

/// A guest that runs a busybox applet as init.
fn applet(words: &str) -> Guest {
    linux(&format!("rdinit=/bin/busybox -- {words}"))
}

#[test]
fn reboot_and_power_off_end_the_run() {
    for (words, outcome) in [("poweroff -f", Outcome::PowerOff { code: 0 }), ("reboot -f", Outcome::Reset)] {
        run(&mut machine(&applet(words), &["platform.firmware=builtin"]), outcome);
    }
}

/// The device tree at `address`, decompiled by dtc.
fn decompiled(machine: &Machine, address: u64) -> String {
    let mut header = [0; 8];
    assert_eq!(machine.peek(0, address, &mut header), 8);
    let mut tree = vec![0; u32::from_be_bytes(header[4..].try_into().unwrap()) as usize];
    assert_eq!(machine.peek(0, address, &mut tree), tree.len());
    let folder = scratch();
    let path = folder.path().join("tree.dtb");
    std::fs::write(&path, tree).unwrap();
    let output = Command::new("dtc").args(["-I", "dtb", "-O", "dts"]).arg(&path).output();
    let output = output.expect("dtc starts (tools/setup test installs it)");
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Runs to the kernel's first instruction; returns the number of instructions before it.
fn run_to_kernel(machine: &mut Machine) -> u64 {
    while machine.harts()[0].pc() != KERNEL {
        let instructions = machine.instructions() + 1;
        assert!(instructions < 20_000_000, "the firmware does not start the kernel");
        machine.run(&Limits { instructions, ..Limits::until(Ps(Ps::PER_SECOND)) });
    }
    machine.instructions()
}

#[test]
fn the_builtin_firmware_needs_a_fraction_of_opensbis_instructions() {
    let guest = linux(TESTPMD_WORDS);
    let [theirs, ours] = ["opensbi", "builtin"].map(|firmware| {
        let count = run_to_kernel(&mut machine(&guest, &[&format!("platform.firmware={firmware}")]));
        println!("{firmware}: {count} instructions to the kernel's first");
        count
    });
    assert!(100 * ours < theirs && ours < 10_000, "{ours} and {theirs}");
}

#[test]
fn the_builtin_firmware_adds_only_its_reserved_memory_to_the_device_tree() {
    let guest = linux(TESTPMD_WORDS);
    let mut machine = machine(&guest, &["platform.firmware=builtin"]);
    let tree = machine.harts()[0].reg(11);
    let before = decompiled(&machine, tree);
    run_to_kernel(&mut machine);
    assert_eq!((machine.harts()[0].reg(10), machine.harts()[0].reg(11)), (0, tree));
    let after = decompiled(&machine, tree);
    let added = "
	reserved-memory {
		#address-cells = <0x02>;
		#size-cells = <0x02>;
		ranges;

		mmode_resv0@80000000 {
			reg = <0x00 0x80000000 0x00 0x10000>;
			no-map;
		};
	};
};
";
    let whole = before.strip_suffix("};\n").unwrap().to_owned() + added;
    assert_eq!(after, whole);
}

/// Sent and returned frames of a capture, without timestamps.
fn frames(pcap: &[u8]) -> [Vec<Vec<u8>>; 2] {
    let mut both = [Vec::new(), Vec::new()];
    let mut rest = &pcap[24..];
    while !rest.is_empty() {
        let bytes = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        let frame = &rest[16..16 + bytes];
        let returned = frame[..6] < frame[6..12];
        both[usize::from(returned)].push(frame.to_vec());
        rest = &rest[16 + bytes..];
    }
    both
}

#[test]
#[ignore = "long: make test-long runs it"]
fn testpmd_forwards_the_same_frames_under_both_firmwares() {
    let folder = scratch();
    let [theirs, ours] = ["opensbi", "builtin"].map(|firmware| {
        let session =
            session(&[&format!("platform.firmware={firmware}")], &["run.frames=5000", "run.warmup=0ns"]);
        let pcap = folder.path().join(firmware);
        let rate = "5Mpps".parse().unwrap();
        let point = quiet(|control| run_point(&session, rate, Bytes(200), Some(&pcap), control)).unwrap();
        let s = &point.summary;
        assert_eq!((s.frames_offered, s.frames_delivered, s.frames_corrupt), (5000, 5000, 0), "{firmware}");
        frames(&std::fs::read(pcap).unwrap())
    });
    assert!(ours[0].len() >= 5000 && ours[0].len() == ours[1].len());
    assert!(ours == theirs, "the frames differ");
}

#[test]
#[ignore = "long: make test-long runs it"]
fn linux_boots_on_qemu_with_the_builtin_firmware_and_all_harts() {
    let guest = linux("");
    let image = places().build_image("testpmd", &mut |_| {}).expect("the testpmd image can be built");
    let words = |words: &str| format!("console=ttyS0 panic=-1 initcall_blacklist=jent_mod_init {words}");
    for (harts, cpu, rest, last) in [
        (1, "rv64", TESTPMD_WORDS, "reboot: Power down"),
        (4, "rv64", TESTPMD_WORDS, "reboot: Power down"),
        (2, "rv64,sstc=off", TESTPMD_WORDS, "reboot: Power down"),
        (2, "rv64", "rdinit=/bin/busybox -- reboot -f", "reboot: Restarting system"),
    ] {
        let linux = Some((image.initramfs(), words(rest)));
        let linux = linux.as_ref().map(|(path, words)| (path.as_path(), words.as_str()));
        let ran = qemu::run(cpu, harts, Some(&sbi::image(InterruptsKind::Plic)), &guest.kernel, linux);
        let what = format!("{cpu}, {harts} harts, {rest}:\n{}", ran.console);
        assert!(ran.success && ran.console.contains(last), "{what}");
        assert!(ran.console.contains("SBI implementation ID=0x444f4f52"), "{what}");
        assert!(harts == 1 || ran.console.contains(&format!("Brought up 1 node, {harts} CPUs")), "{what}");
    }
}
