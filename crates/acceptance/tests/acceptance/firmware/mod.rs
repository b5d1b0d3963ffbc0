//! Compares our machine with QEMU's under Debian's OpenSBI: the result of every SBI call, with one hart and with
//! several, and the choice of the boot hart.

mod calls;
mod guest;
mod qemu;

use calls::rows;
use doorbell_acceptance::places;
use doorbell_bench::resolve;
use doorbell_machine::{Guest, Limits, Machine, Outcome};
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

fn on_our_machine(guest: &Guest, overrides: &[&str]) -> String {
    let all: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
    let config = resolve("fast", &all).expect("the check's configuration is valid");
    let mut machine = Machine::new(config.machine(), 1).expect("the machine can be built");
    machine.load(guest).expect("the guest fits");
    let outcome = machine.run(&Limits::until(Ps(5 * Ps::PER_SECOND)));
    let console = machine.console.text();
    assert_eq!(outcome, Outcome::PowerOff { code: 0 }, "{overrides:?}:\n{console}");
    console
}

/// The guest with all calls.
fn guest_for(hart_count: u64) -> Guest {
    let kernel = guest::image(&rows(hart_count));
    Guest { firmware: opensbi(), kernel, initramfs: vec![0; 4096], bootargs: String::new() }
}

#[test]
fn every_sbi_call_returns_the_same_as_on_qemu() {
    for hart_count in [1, 4] {
        let (rows, guest) = (rows(hart_count), guest_for(hart_count));
        for (sstc, cpu) in [(true, "on"), (false, "off")] {
            let overrides = [&format!("platform.sstc={sstc}")[..], &format!("platform.harts={hart_count}")];
            let console = on_our_machine(&guest, &overrides);
            assert!(console.contains(std::str::from_utf8(guest::TEXT).unwrap()), "{console}");
            let ours = answers(&console);
            let cpu = format!("{},sstc={cpu}", doorbell_oracle::HART);
            let theirs = answers(&qemu::run(&cpu, hart_count, &guest.firmware, &guest.kernel));
            // The last call powers off and has no result.
            assert_eq!((ours.len(), theirs.len()), (rows.len() - 1, rows.len() - 1), "{overrides:?}");
            let differs = |row: usize| !calls::names_the_cpu(&rows[row]) && ours[row] != theirs[row];
            let different: Vec<String> = (0..ours.len())
                .filter(|&row| differs(row))
                .map(|row| format!("{:x?}: {:x?}, on QEMU {:x?}", rows[row], ours[row], theirs[row]))
                .collect();
            assert!(different.is_empty(), "{overrides:?}:\n{}", different.join("\n"));
        }
    }
}

/// OpenSBI chooses the boot hart by a lottery; hart 0 must win, as the other harts enter late.
#[test]
fn hart_0_boots_the_kernel_for_any_quantum_and_clock() {
    let guest = guest_for(2);
    for harts in ["2", "3"] {
        for (quantum, clock) in [("300ns", "3GHz"), ("500ns", "250MHz"), ("700ns", "3GHz"), ("1us", "1GHz")] {
            let set = [("platform.harts", harts), ("core.quantum", quantum), ("core.frequency", clock)];
            let set = set.map(|(key, value)| format!("{key}={value}"));
            let console = on_our_machine(&guest, &set.each_ref().map(String::as_str));
            let lines = console.lines().filter_map(|line| line.strip_prefix("Boot HART ID"));
            let booted: Vec<&str> = lines.map(|rest| rest.trim_start_matches([' ', ':']).trim()).collect();
            assert_eq!(booted, ["0"], "{set:?}");
        }
    }
}
