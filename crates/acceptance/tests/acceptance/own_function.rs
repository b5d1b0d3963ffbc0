//! A user-defined PCI function (crates/example) in a whole machine: Linux enumerates it and gives it to a
//! program through UIO, it copies data and raises interrupts, and it continues from a checkpoint in the
//! middle of a copy.

use std::process::Command;

use doorbell_acceptance::net_guest::{PATIENCE, resume, run, run_to_pause};
use doorbell_acceptance::{places, repository, scratch};
use doorbell_bench::{read_guest, resolve};
use doorbell_example::CopyEngine;
use doorbell_image::{GuestFile, overlay};
use doorbell_machine::{Limits, Machine, Mode, Outcome, PluggedFunction};
use doorbell_pcie::{PciFunction, Place};

/// Binds the function to uio_pci_generic, which the image testpmd includes. The NIC has uio0.
const SCRIPT: &str = "
echo uio_pci_generic > /sys/bus/pci/devices/0000:00:05.0/driver_override
echo 0000:00:05.0 > /sys/bus/pci/drivers_probe
cat /sys/bus/pci/devices/0000:00:05.0/class
echo pause: bound; read -r _
/ours/copy 0000:00:05.0 /dev/uio1
/ours/copy 0000:00:05.0 /dev/uio1
";

/// Output of the program. Each copy completes with the selected kind of interrupt and no other. A masked
/// message is sent when it is unmasked, unless its cause has been handled.
const OUTPUT: [&str; 5] = [
    "status 1 after 1 interrupts",
    "status 1 after 2 interrupts",
    "MSI-X: message 5a01, pending 0; masked 0, pending 2; unmasked pending 0, message 5a01; \
     function masked 0, pending 2, cleared: pending 0, message 0",
    "MSI: message 5a51; masked 0, pending 2; unmasked pending 0, message 5a51",
    "pin: inactive",
];

fn functions() -> Vec<(Place, Box<dyn PciFunction>)> {
    vec![(Place::root(5), Box::new(CopyEngine::default()))]
}

fn machine(preset: &str) -> Machine {
    let config = resolve(preset, &[]).expect("a preset is valid");
    Machine::with_functions(config.machine(), config.run.seed, functions()).expect("the PCI slot is free")
}

/// The copy engine, which is listed after the NIC.
fn engine(machine: &Machine) -> &PluggedFunction {
    &machine.functions()[1]
}

fn saved(machine: &Machine) -> Vec<u8> {
    engine(machine).function().save()
}

/// The program, compiled for the guest.
fn program() -> Vec<u8> {
    let (folder, source) = (scratch(), repository().join("crates/example/copy.c"));
    let file = folder.path().join("copy");
    let mut compiler = Command::new("riscv64-linux-gnu-gcc");
    compiler.args(["-O2", "-static", "-Wall", "-Werror", "-o"]).arg(&file).arg(source);
    assert!(compiler.status().expect("the cross compiler is installed").success());
    std::fs::read(file).unwrap()
}

fn booted() -> Machine {
    let image = places().build_image("testpmd", &mut |_| {}).expect("the image can be built");
    let words = format!("{} doorbell.app=ours", image.command_line());
    let mut guest = read_guest(&image, words).expect("an image can be read");
    let app =
        GuestFile { path: "usr/lib/doorbell/apps/ours".into(), executable: false, content: SCRIPT.into() };
    let copy = GuestFile { path: "ours/copy".into(), executable: true, content: program() };
    guest.initramfs.extend(overlay(&[app, copy]).expect("files can be added to an image"));
    let mut machine = machine("fast");
    machine.load(&guest).expect("the guest fits");
    machine
}

#[test]
fn a_guest_program_drives_the_function_and_its_counters_are_reported() {
    let mut first = booted();
    let before = run_to_pause(&mut first, "bound");
    assert!(before.contains("0x088000"), "{before}");
    let file = first.checkpoint("ours", "");
    // The copies are the same on a functional and on a timed machine.
    for (preset, mode) in [("fast", Mode::Functional), ("server", Mode::Detailed)] {
        let mut machine = machine(preset);
        machine.restore(&file, "ours").expect("the same functions are plugged in");
        machine.set_mode(mode);
        resume(&mut machine);
        let console = run(&mut machine);
        let copied = console.matches("copied, then status 0").count();
        assert_eq!(copied, 2, "{console}");
        for line in OUTPUT {
            assert!(console.contains(line), "{line}: {console}");
        }
        let counters = engine(&machine).counters();
        assert_eq!(counters.iter().map(|counter| counter.value).collect::<Vec<_>>(), [12, 12 * 4096]);
        let dma = engine(&machine).dma_stats();
        assert_eq!((dma.outside_ram, dma.not_bus_master), (0, 0));
    }
    // A machine without the function rejects the checkpoint.
    let config = resolve("fast", &[]).unwrap();
    assert!(Machine::new(config.machine(), 1).unwrap().restore(&file, "ours").is_err());
}

#[test]
fn a_checkpoint_during_a_copy_continues_exactly() {
    let mut first = booted();
    run_to_pause(&mut first, "bound");
    resume(&mut first);
    // Stop while the engine is busy.
    let busy = |machine: &Machine| {
        let mut copy = CopyEngine::default();
        copy.restore(&saved(machine)).unwrap();
        copy.is_busy()
    };
    let mut stopped = 0;
    while stopped < 3 {
        let outcome = first.run(&Limits::until(first.now() + doorbell_sim::Ps::from_ns(200)));
        assert_eq!(outcome, Outcome::Time, "{}", first.console.text());
        stopped += u32::from(busy(&first));
    }
    let mut other = machine("fast");
    other.restore(&first.checkpoint("ours", ""), "ours").unwrap();
    for machine in [&mut first, &mut other] {
        assert_eq!(machine.run(&Limits::until(PATIENCE)), Outcome::PowerOff { code: 0 });
    }
    assert_eq!(first.section_hashes(), other.section_hashes());
    assert_eq!(saved(&first), saved(&other));
}
