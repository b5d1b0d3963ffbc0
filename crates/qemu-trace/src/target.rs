//! QEMU machines that can be recorded, one per instruction set.

use crate::aarch64::Aarch64;
use crate::instruction::InstructionSet;
use crate::nic::{E1000E, NicModel};
use crate::plugin::Source;
use crate::riscv64::Riscv64;
use crate::x86::X86;

/// A QEMU machine.
#[derive(Debug)]
pub struct Target {
    /// Instruction set, as named by QEMU.
    pub name: &'static str,
    /// Debian packages of the program and its firmware, in addition to `qemu-system-data`.
    pub packages: &'static [&'static str],
    /// Firmware folders below `usr/share`.
    pub firmware: &'static [&'static str],
    /// Options for the machine, with the memory backend `ram`, and its CPU.
    pub machine: &'static [&'static str],
    /// Trace event with the guest's console output.
    pub console: &'static str,
    /// Default NIC.
    pub nic: &'static NicModel,
    /// Default guest.
    pub guest: &'static str,
    /// Constructor of the instruction decoder.
    pub isa: fn() -> Box<dyn InstructionSet>,
    /// Root page table of an address space, if it also maps the kernel's pages.
    pub root: fn(space: u64) -> Option<u64>,
    /// Source file of the plugin for this instruction set.
    pub plugin: Source,
}

/// All targets, in the order of user-visible lists.
pub const TARGETS: [Target; 3] = [X86_64, AARCH64, RISCV64];

const X86_64: Target = Target {
    name: "x86_64",
    packages: &["qemu-system-x86"],
    firmware: &["qemu", "seabios"],
    // QEMU's default processor with the features common since 2009 (x86-64-v2), which Debian's suricata and
    // DPDK require.
    machine: &["-machine", "q35,memory-backend=ram", "-cpu", "qemu64,+popcnt,+sse4.1,+sse4.2,+ssse3"],
    console: "serial_write",
    nic: &E1000E,
    guest: "net-amd64",
    isa: || Box::<X86>::default(),
    root: |cr3| Some(cr3 & 0x000f_ffff_ffff_f000),
    plugin: ("x86.c", include_str!("../../../tools/qemu-trace/x86.c")),
};

const AARCH64: Target = Target {
    name: "aarch64",
    packages: &["qemu-system-arm"],
    firmware: &["qemu"],
    // A server core of Armv8.2-A, with LSE but without the later pointer authentication and memory tagging.
    // Its interrupt controller is a GICv3, which supports MSIs of PCI Express.
    machine: &["-machine", "virt,gic-version=3,memory-backend=ram", "-cpu", "neoverse-n1"],
    console: "pl011_write",
    nic: &E1000E,
    guest: "net-arm64",
    isa: || Box::<Aarch64>::default(),
    root: |_| None,
    plugin: ("aarch64.c", include_str!("../../../tools/qemu-trace/aarch64.c")),
};

const RISCV64: Target = Target {
    name: "riscv64",
    packages: &["qemu-system-riscv", "opensbi"],
    firmware: &["qemu"],
    // The features of this project's own hart: timer interrupts go to the kernel, and PCI Express uses MSIs.
    machine: &[
        "-machine",
        "virt,aia=aplic-imsic,memory-backend=ram",
        "-cpu",
        "rv64i,m=on,a=on,f=on,d=on,c=on,s=on,u=on,zicbop=on,zicsr=on,zifencei=on,zicntr=on,zihpm=on,mmu=on,pmp=on,sv48=on,sstc=on",
    ],
    console: "serial_write",
    nic: &E1000E,
    guest: "net-riscv64",
    isa: || Box::<Riscv64>::default(),
    root: |satp| Some((satp & 0x0fff_ffff_ffff) << 12),
    plugin: ("riscv64.c", include_str!("../../../tools/qemu-trace/riscv64.c")),
};

/// Target by name; the error lists all names.
pub fn target(name: &str) -> Result<&'static Target, String> {
    const ALL: &[Target] = &TARGETS;
    ALL.iter().find(|target| target.name == name).ok_or_else(|| {
        let known = TARGETS.map(|target| target.name).join(", ");
        format!("instruction set {name:?} of QEMU is not supported; choose one of {known}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_instruction_set_lists_the_supported_ones() {
        assert_eq!(target("aarch64").unwrap().guest, "net-arm64");
        assert!(target("alpha").unwrap_err().ends_with("x86_64, aarch64, riscv64"));
    }
}
