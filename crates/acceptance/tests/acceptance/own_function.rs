//! A PCI function of one's own (crates/example) in a whole machine: software finds it, Linux lends it to a program, it moves data and
//! interrupts, and a checkpoint in the middle of it all goes on.

use std::process::Command;

use doorbell_acceptance::net_guest::{PATIENCE, resume, run, run_to_pause};
use doorbell_acceptance::{places, repository, scratch};
use doorbell_bench::{read_guest, resolve};
use doorbell_example::CopyEngine;
use doorbell_image::{GuestFile, overlay};
use doorbell_machine::{Limits, Machine, Mode, Outcome, PciFunction, PluggedFunction};
use doorbell_pcie::Place;

/// The image testpmd brings uio_pci_generic along; its NIC has uio0.
const SCRIPT: &str = "
echo uio_pci_generic > /sys/bus/pci/devices/0000:00:05.0/driver_override
echo 0000:00:05.0 > /sys/bus/pci/drivers_probe
cat /sys/bus/pci/devices/0000:00:05.0/class
echo pause: bound; read -r _
/ours/copy 0000:00:05.0 /dev/uio1
/ours/copy 0000:00:05.0 /dev/uio1
";

/// What the program says: each copy is told of by the way that software has chosen, and by no other. Messages that were masked came
/// when the mask went, unless what they told of had been seen to.
const TOLD: [&str; 5] = [
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
    let config = resolve(preset, &[]).expect("a preset is right");
    Machine::with_functions(config.machine(), config.run.seed, functions()).expect("the place is free")
}

/// It is listed behind the NIC.
fn engine(machine: &Machine) -> &PluggedFunction {
    &machine.functions()[1]
}

fn saved(machine: &Machine) -> Vec<u8> {
    engine(machine).as_other().expect("it is no NIC").save()
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
    guest.initramfs.extend(overlay(&[app, copy]).expect("files can be laid over an image"));
    let mut machine = machine("fast");
    machine.load(&guest).expect("the guest fits");
    machine
}

#[test]
fn a_program_drives_it_and_what_it_counts_is_told() {
    let mut first = booted();
    let before = run_to_pause(&mut first, "bound");
    assert!(before.contains("0x088000"), "{before}");
    let file = first.checkpoint("ours", "");
    // Functionally, and with everything timed: the same is copied.
    for (preset, mode) in [("fast", Mode::Functional), ("server", Mode::Detailed)] {
        let mut machine = machine(preset);
        machine.restore(&file, "ours").expect("the same functions are plugged in");
        machine.set_mode(mode);
        resume(&mut machine);
        let console = run(&mut machine);
        let copied = console.matches("copied, then status 0").count();
        assert_eq!(copied, 2, "{console}");
        for told in TOLD {
            assert!(console.contains(told), "{told}: {console}");
        }
        let counters = engine(&machine).counters();
        assert_eq!(counters.iter().map(|counter| counter.value).collect::<Vec<_>>(), [12, 12 * 4096]);
        let dma = engine(&machine).dma_stats();
        assert_eq!((dma.outside_ram, dma.not_bus_master), (0, 0));
    }
    // Without the function it is another machine.
    let config = resolve("fast", &[]).unwrap();
    assert!(Machine::new(config.machine(), 1).unwrap().restore(&file, "ours").is_err());
}

#[test]
fn a_checkpoint_in_the_middle_of_a_copy_goes_on_as_if_there_had_been_none() {
    let mut first = booted();
    run_to_pause(&mut first, "bound");
    resume(&mut first);
    // Until the engine is busy, to the picosecond.
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
