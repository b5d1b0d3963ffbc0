//! The machines of QEMU that are recorded, one for each instruction set: all that is theirs is named here.

use crate::instruction::InstructionSet;
use crate::nic::{E1000E, NicModel};
use crate::plugin::Source;
use crate::x86::X86;

/// A machine of QEMU's.
#[derive(Debug)]
pub struct Target {
    /// The instruction set, as QEMU calls it.
    pub name: &'static str,
    /// Debian's packages of the program and of the firmware that it loads, beside `qemu-system-data`.
    pub packages: &'static [&'static str],
    /// Folders below `usr/share` where it finds firmware.
    pub firmware: &'static [&'static str],
    /// Options: the machine, whose RAM is to be `ram`, and its CPU.
    pub machine: &'static [&'static str],
    /// The trace event that has what the guest's console prints.
    pub console: &'static str,
    /// The NIC, unless another one is asked for.
    pub nic: &'static NicModel,
    /// The guest, unless another one is asked for.
    pub guest: &'static str,
    /// What decodes its instructions.
    pub isa: fn() -> Box<dyn InstructionSet>,
    /// Its part of the plugin.
    pub plugin: Source,
}

/// Every target, in the order in which they are listed to the user.
pub const TARGETS: [Target; 1] = [Target {
    name: "x86_64",
    packages: &["qemu-system-x86"],
    firmware: &["qemu", "seabios"],
    // QEMU's default processor with what all have had since 2009 (x86-64-v2): Debian's suricata and DPDK do not run without.
    machine: &["-machine", "q35,memory-backend=ram", "-cpu", "qemu64,+popcnt,+sse4.1,+sse4.2,+ssse3"],
    console: "serial_write",
    nic: &E1000E,
    guest: "net-amd64",
    isa: || Box::<X86>::default(),
    plugin: ("x86.c", include_str!("../../../tools/qemu-trace/x86.c")),
}];

/// One of them by its name.
pub fn target(name: &str) -> Option<&'static Target> {
    const ALL: &[Target] = &TARGETS;
    ALL.iter().find(|target| target.name == name)
}
