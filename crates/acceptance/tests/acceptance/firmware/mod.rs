//! Compares the built-in firmware with Debian's OpenSBI: every SBI call, on our machine and on QEMU, the
//! kernel's log and the forwarded frames.

mod calls;
mod guest;
mod qemu;
mod system;

use calls::{Expect, Row, rows};
use doorbell_acceptance::places;
use doorbell_bench::resolve;
use doorbell_machine::{Guest, Limits, Machine, Outcome};
use doorbell_platform::{InterruptsKind, sbi};
use doorbell_sim::Ps;

/// Result of a call: a0, a1, changed registers, pending interrupts.
type Answer = [u64; 4];

/// Debian's OpenSBI.
fn opensbi() -> Vec<u8> {
    let image = places().build_image("testpmd", &mut |_| {}).expect("the testpmd image can be built");
    std::fs::read(image.firmware("fw_dynamic.bin").expect("the image has OpenSBI"))
        .expect("a file can be read")
}

/// The results in a console's text.
fn answers(console: &str) -> Vec<Answer> {
    let (_, lines) =
        console.split_once(guest::BEGIN).unwrap_or_else(|| panic!("no {}:\n{console}", guest::BEGIN));
    // A line may also contain output of the firmware.
    let answer = |line: &str| {
        let number = |word: &str| (word.len() == 16).then(|| u64::from_str_radix(word, 16).ok())?;
        let words: Vec<Option<u64>> = line.split_whitespace().map(number).collect();
        words.windows(4).find_map(|four| Some([four[0]?, four[1]?, four[2]?, four[3]?]))
    };
    lines.lines().filter_map(answer).collect()
}

fn on_our_machine(guest: &Guest, overrides: &[&str], firmware: &str) -> String {
    let mut all: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
    all.push(format!("platform.firmware={firmware}"));
    let config = resolve("fast", &all).expect("the check's configuration is valid");
    let mut machine = Machine::new(config.machine(), 1).expect("the machine can be built");
    machine.load(guest).expect("the guest fits");
    let outcome = machine.run(&Limits::until(Ps(5 * Ps::PER_SECOND)));
    let console = machine.console.text();
    assert_eq!(outcome, Outcome::PowerOff { code: 0 }, "{firmware}, {overrides:?}:\n{console}");
    console
}

/// Checks each of our results against the reference or the expected values.
fn compare(rows: &[Row], ours: &[Answer], reference: &[Answer], what: &str) {
    let common: Vec<&Row> = rows.iter().filter(|row| !matches!(row.expect, Expect::OursOnly(..))).collect();
    // The last call powers off and has no result.
    assert_eq!((ours.len(), reference.len()), (rows.len() - 1, common.len() - 1), "{what}");
    let (mut theirs, mut wrong) = (reference.iter(), Vec::new());
    for (row, answer) in rows.iter().zip(ours) {
        let wanted = match row.expect {
            Expect::Same => *theirs.next().unwrap(),
            Expect::Ours(error, value) => {
                theirs.next();
                [error, value, 0, answer[3]]
            }
            Expect::OursOnly(error, value) => [error, value, 0, answer[3]],
        };
        if *answer != wanted {
            wrong.push(format!("{:x?} returns {answer:x?}, expected {wanted:x?}", row.call));
        }
    }
    assert!(wrong.is_empty(), "{what}:\n{}", wrong.join("\n"));
}

fn guest_for(rows: &[Row], firmware: &[u8]) -> Guest {
    let calls: Vec<_> = rows.iter().map(|row| row.call).collect();
    let kernel = guest::image(&calls);
    Guest { firmware: firmware.to_vec(), kernel, initramfs: vec![0; 4096], bootargs: String::new() }
}

/// All rows, the guest with all of them, and the guest with those that do not crash OpenSBI.
fn guests(hart_count: u64) -> (Vec<Row>, Guest, Guest) {
    let all = rows(hart_count);
    let survivable: Vec<Row> =
        all.iter().filter(|row| !matches!(row.expect, Expect::OursOnly(..))).cloned().collect();
    let (ours, theirs) = (guest_for(&all, &[1]), guest_for(&survivable, &opensbi()));
    (all, ours, theirs)
}

/// Hart counts of our machines.
const OUR_HARTS: [u64; 2] = [1, 4];

#[test]
fn every_call_returns_the_same_as_opensbi_on_our_machine() {
    for hart_count in OUR_HARTS {
        let (rows, ours, theirs) = guests(hart_count);
        for sstc in [true, false] {
            let overrides = [&format!("platform.sstc={sstc}")[..], &format!("platform.harts={hart_count}")];
            let answered = on_our_machine(&ours, &overrides, "builtin");
            let reference = on_our_machine(&theirs, &overrides, "opensbi");
            assert!(answered.contains(std::str::from_utf8(guest::TEXT).unwrap()), "{answered}");
            compare(&rows, &answers(&answered), &answers(&reference), &format!("{overrides:?}"));
        }
    }
}

/// OpenSBI chooses the boot hart by a lottery; hart 0 must win, as the other harts enter late.
#[test]
fn hart_0_boots_the_kernel_for_any_quantum_and_clock() {
    let (_, _, theirs) = guests(2);
    for harts in ["2", "3"] {
        for (quantum, clock) in [("300ns", "3GHz"), ("500ns", "250MHz"), ("700ns", "3GHz"), ("1us", "1GHz")] {
            let set = [("platform.harts", harts), ("core.quantum", quantum), ("core.frequency", clock)];
            let set = set.map(|(key, value)| format!("{key}={value}"));
            let console = on_our_machine(&theirs, &set.each_ref().map(String::as_str), "opensbi");
            let lines = console.lines().filter_map(|line| line.strip_prefix("Boot HART ID"));
            let booted: Vec<&str> = lines.map(|rest| rest.trim_start_matches([' ', ':']).trim()).collect();
            assert_eq!(booted, ["0"], "{set:?}");
        }
    }
}

#[test]
fn every_call_returns_the_same_as_opensbi_on_qemu() {
    for hart_count in [1, 4] {
        let (rows, ours, theirs) = guests(hart_count);
        for sstc in ["on", "off"] {
            let cpu = &format!("{},sstc={sstc}", doorbell_oracle::HART);
            let answered =
                qemu::run(cpu, hart_count, Some(&sbi::image(InterruptsKind::Plic)), &ours.kernel, None);
            let reference = qemu::run(cpu, hart_count, Some(&theirs.firmware), &theirs.kernel, None);
            let what = format!("QEMU, {hart_count} harts, {cpu}");
            compare(&rows, &answers(&answered.console), &answers(&reference.console), &what);
        }
    }
}

/// QEMU bundles another version of OpenSBI; calls that it supports must return the same as ours.
#[test]
fn every_call_returns_the_same_as_qemus_bundled_opensbi() {
    let cpu = &format!("{},sstc=on", doorbell_oracle::HART);
    let rows: Vec<Row> = rows(2).into_iter().filter(is_in_every_opensbi).collect();
    assert!(rows.len() > 150);
    let guest = guest_for(&rows, &[1]);
    let answered = qemu::run(cpu, 2, Some(&sbi::image(InterruptsKind::Plic)), &guest.kernel, None);
    let reference = qemu::run(cpu, 2, None, &guest.kernel, None);
    compare(&rows, &answers(&answered.console), &answers(&reference.console), "QEMU's own OpenSBI");
}

/// Whether a call behaves the same in all versions of OpenSBI: not the specification version, nor the debug
/// console.
fn is_in_every_opensbi(row: &Row) -> bool {
    let [extension, function, argument, ..] = row.call;
    let later = match (extension, function) {
        (calls::BASE, 0) | (calls::DBCN, _) => true,
        (calls::BASE, 3) => argument == calls::DBCN,
        _ => false,
    };
    row.expect == Expect::Same && !later
}
