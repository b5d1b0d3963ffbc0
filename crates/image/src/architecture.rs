//! What an image's architecture says of its kernel's file and its programs. The simulator executes one, RISC-V; images of others
//! are for guests that QEMU executes, to be recorded.

use crate::elf::{MACHINE_AARCH64, MACHINE_RISCV, MACHINE_X86_64};

/// An architecture by Debian's name.
#[derive(Debug)]
pub(crate) struct Architecture {
    pub name: &'static str,
    /// Its number in an ELF header.
    pub machine: u16,
    /// What people call it.
    pub shown: &'static str,
    /// What the kernel's file is, at which byte one sees that, and what stands there.
    pub kernel: (&'static str, usize, &'static [u8]),
    /// Debian's compiler for it.
    pub compiler: &'static str,
    /// Whether the simulator executes it, so that the guest can speak to the simulator.
    pub is_simulated: bool,
}

const ARCHITECTURES: [Architecture; 3] = [
    Architecture {
        name: "riscv64",
        machine: MACHINE_RISCV,
        shown: "RISC-V",
        // Documentation/arch/riscv/boot-image-header.rst: the second magic number.
        kernel: ("a raw RISC-V Image", 56, b"RSC\x05"),
        compiler: "riscv64-linux-gnu-gcc",
        is_simulated: true,
    },
    Architecture {
        name: "amd64",
        machine: MACHINE_X86_64,
        shown: "x86-64",
        // Documentation/arch/x86/boot.rst.
        kernel: ("an x86 bzImage", 0x202, b"HdrS"),
        compiler: "x86_64-linux-gnu-gcc",
        is_simulated: false,
    },
    Architecture {
        name: "arm64",
        machine: MACHINE_AARCH64,
        shown: "AArch64",
        // Documentation/arch/arm64/booting.rst.
        kernel: ("a raw AArch64 Image", 56, b"ARM\x64"),
        compiler: "aarch64-linux-gnu-gcc",
        is_simulated: false,
    },
];

/// The architecture of this name, or what to say.
pub(crate) fn find(name: &str) -> Result<&'static Architecture, String> {
    ARCHITECTURES.iter().find(|known| known.name == name).ok_or_else(|| {
        let known = ARCHITECTURES.map(|known| known.name).join(", ");
        format!("architecture = \"{name}\" is none that images are made for: {known}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_architecture_lists_the_known_ones() {
        assert_eq!(find("riscv64").unwrap().machine, 243);
        assert!(find("alpha").unwrap_err().contains("riscv64, amd64, arm64"));
    }
}
