//! The machines of QEMU that are recorded, one for each instruction set: all that is theirs is named here.

use crate::aarch64::Aarch64;
use crate::instruction::InstructionSet;
use crate::nic::{E1000E, NicModel};
use crate::plugin::Source;
use crate::riscv64::Riscv64;
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
    /// The root of an address space's page table, if that has the operating system's pages, too.
    pub root: fn(space: u64) -> Option<u64>,
    /// Its part of the plugin.
    pub plugin: Source,
}

/// Every target, in the order in which they are listed to the user.
pub const TARGETS: [Target; 3] = [X86_64, AARCH64, RISCV64];

const X86_64: Target = Target {
    name: "x86_64",
    packages: &["qemu-system-x86"],
    firmware: &["qemu", "seabios"],
    // QEMU's default processor with what all have had since 2009 (x86-64-v2): Debian's suricata and DPDK do not run without.
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
    // A server's core of Armv8.2-A, with LSE and without what later ones sign pointers and tag memory with. Its interrupts are a GIC's
    // of version 3, which takes messages of PCI Express.
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
    // What this project's own hart executes, with its timer's interrupts going to the kernel, and those of PCI Express as messages.
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

/// One of them by its name, or what to say.
pub fn target(name: &str) -> Result<&'static Target, String> {
    const ALL: &[Target] = &TARGETS;
    ALL.iter().find(|target| target.name == name).ok_or_else(|| {
        let known = TARGETS.map(|target| target.name).join(", ");
        format!("QEMU's {name:?} is no instruction set that is recorded: {known}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_instruction_set_lists_the_known_ones() {
        assert_eq!(target("aarch64").unwrap().guest, "net-arm64");
        assert!(target("alpha").unwrap_err().ends_with("x86_64, aarch64, riscv64"));
    }
}
