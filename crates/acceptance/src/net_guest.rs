//! The net image with a script of ours, from the boot to the power-off.

use std::path::Path;

use doorbell_bench::{read_guest, resolve};
use doorbell_image::{GuestFile, overlay};
use doorbell_machine::{Limits, Machine, Outcome};
use doorbell_sim::Ps;
use doorbell_wire::PcapFile;
use doorbell_wire::pcap::WHOLE_FRAMES;

use crate::places;

/// Of simulated time, nearly all of it idle.
pub const PATIENCE: Ps = Ps(120 * Ps::PER_SECOND);

/// The net image with these words on its command line, `script` as `/scripts/ours`, and a capture of the first port.
pub fn boot(overrides: &[&str], words: &str, script: &str, capture: Option<&Path>) -> Machine {
    let overrides: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
    let config = resolve("fast", &overrides).expect("the check's configuration is right");
    let image = places().build_image("net", &mut |_| {}).expect("the net image can be built");
    let mut guest =
        read_guest(&image, format!("{} {words}", image.command_line())).expect("an image can be read");
    let ours =
        GuestFile { path: "scripts/ours".into(), executable: false, content: script.as_bytes().to_vec() };
    guest.initramfs.extend(overlay(&[ours]).expect("a script can be laid over an image"));
    let mut machine = Machine::new(config.machine(), config.run.seed).expect("the machine can be built");
    machine.load(&guest).expect("the guest fits");
    if let Some(path) = capture {
        machine.ports_mut()[0].capture =
            Some(PcapFile::create(path, WHOLE_FRAMES).expect("a capture can be made"));
    }
    machine
}

/// Runs to the power-off and returns the console.
pub fn run(machine: &mut Machine) -> String {
    let outcome = machine.run(&Limits::until(PATIENCE));
    let console = machine.console.text();
    assert_eq!(outcome, Outcome::PowerOff { code: 0 }, "{console}");
    for port in machine.ports() {
        port.nic.check_conservation();
        port.loadgen.assert_conservation();
    }
    console
}
