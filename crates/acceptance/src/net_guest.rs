//! Boots the net image with a check's own script, which can pause until the check resumes it.

use std::path::Path;

use doorbell_bench::{read_guest, resolve};
use doorbell_image::{GuestFile, overlay};
use doorbell_machine::{Limits, Machine, Outcome};
use doorbell_sim::Ps;
use doorbell_wire::PcapFile;
use doorbell_wire::pcap::WHOLE_FRAMES;

use crate::places;

/// Limit of simulated time; most of it is idle.
pub const PATIENCE: Ps = Ps(120 * Ps::PER_SECOND);

/// Shell functions for scripts. `pause WORD` waits for [`resume`]. `counters` prints the kernel's counters,
/// such as `Icmp:InEchos 7`. `statistic NAME` prints a driver statistic. `wait_until COMMAND` retries for ten
/// seconds.
const PRELUDE: &str = r#"
pause() { echo "pause: $1"; read -r _; }
counters() {
    busybox awk 'FNR % 2 { split($0, key) } !(FNR % 2) { for (i = 2; i <= NF; i++) print key[1] key[i], $i }' \
        /proc/net/snmp /proc/net/netstat
}
statistic() { ethtool -S eth0 | while read -r key value; do [ "$key" != "$1:" ] || echo "$1 $value"; done; }
wait_until() {
    tries=1000
    until "$@" > /dev/null 2>&1; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || { echo "gave up: $*"; return 1; }
        busybox usleep 10000
    done
}
"#;

/// A machine loaded with the net image for the configured NICs. `words` are added to the kernel command line,
/// `script` becomes `/scripts/ours`, and `captures` are written for the first ports.
pub fn boot(overrides: &[&str], words: &str, script: &str, captures: &[&Path]) -> Machine {
    let overrides: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
    let config = resolve("fast", &overrides).expect("the check's configuration is valid");
    let image = places().build_image("net", &mut |_| {}).expect("the net image can be built");
    let mut guest =
        read_guest(&image, format!("{} {words}", image.command_line())).expect("an image can be read");
    let ours = GuestFile {
        path: "scripts/ours".into(),
        executable: false,
        content: format!("{PRELUDE}{script}").into_bytes(),
    };
    guest.initramfs.extend(overlay(&[ours]).expect("a script can be added to an image"));
    let mut machine = Machine::new(config.machine(), config.run.seed).expect("the machine can be built");
    machine.load(&guest).expect("the guest fits");
    for (port, path) in machine.ports_mut().iter_mut().zip(captures) {
        port.capture = Some(PcapFile::create(path, WHOLE_FRAMES).expect("a capture can be made"));
    }
    machine
}

/// Runs until the guest powers off and returns the console.
pub fn run(machine: &mut Machine) -> String {
    let outcome = machine.run(&Limits::until(PATIENCE));
    let console = machine.console.text();
    assert_eq!(outcome, Outcome::PowerOff { code: 0 }, "{console}");
    machine.check_conservation();
    console
}

/// Runs until the script calls `pause WORD`; returns the console output since the call.
#[track_caller]
pub fn run_to_pause(machine: &mut Machine, word: &str) -> String {
    let before = machine.console.text().len();
    let marker = format!("pause: {word}");
    machine.console.watch(Some(&marker));
    let outcome = machine.run(&Limits { on_marker: true, ..Limits::until(machine.now() + PATIENCE) });
    machine.console.watch(None);
    let console = machine.console.text();
    assert_eq!(outcome, Outcome::Marker, "{console}");
    console[before..].to_owned()
}

/// Resumes a paused script.
pub fn resume(machine: &mut Machine) {
    assert_eq!(machine.type_input(b"\n"), 1);
}

/// Runs for the given simulated time.
#[track_caller]
pub fn run_for(machine: &mut Machine, time: Ps) {
    let outcome = machine.run(&Limits::until(machine.now() + time));
    assert!(matches!(outcome, Outcome::Time | Outcome::Asleep), "{outcome:?}: {}", machine.console.text());
}

/// The number after the last occurrence of the word `key`.
#[track_caller]
pub fn number(text: &str, key: &str) -> u64 {
    let words: Vec<&str> = text.split([' ', '\n', '\r', '\t']).filter(|word| !word.is_empty()).collect();
    let at = words.iter().rposition(|word| *word == key).unwrap_or_else(|| panic!("no {key} in:\n{text}"));
    words[at + 1].parse().unwrap_or_else(|_| panic!("no number after {key} in:\n{text}"))
}
