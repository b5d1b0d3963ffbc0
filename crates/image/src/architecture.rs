//! Guest architectures: the kernel file's format and the ELF machine number. The simulator executes only
//! RISC-V; images of the others are for guests that QEMU executes to record traces.

use crate::elf::{MACHINE_AARCH64, MACHINE_RISCV, MACHINE_X86_64};

/// An architecture by Debian's name.
#[derive(Debug)]
pub(crate) struct Architecture {
    pub name: &'static str,
    /// Its number in an ELF header.
    pub machine: u16,
    /// The name in messages.
    pub shown: &'static str,
    /// The kernel file's format, and the offset and value of its magic number.
    pub kernel: (&'static str, usize, &'static [u8]),
    /// Debian's compiler for it.
    pub compiler: &'static str,
    /// Whether the simulator executes it, and the guest so needs the programs that call the simulator.
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

/// Finds an architecture by name, or returns an error message.
pub(crate) fn find(name: &str) -> Result<&'static Architecture, String> {
    ARCHITECTURES.iter().find(|known| known.name == name).ok_or_else(|| {
        let known = ARCHITECTURES.map(|known| known.name).join(", ");
        format!("architecture = \"{name}\" is not supported; supported are: {known}")
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
