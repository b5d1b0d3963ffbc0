//! Guest architectures. Machines execute [`SIMULATED`]; images of the others are for guests that QEMU executes
//! to record traces.

use crate::elf::{MACHINE_AARCH64, MACHINE_RISCV, MACHINE_X86_64, machine};
use crate::host::Tool;

/// An architecture by Debian's name.
#[derive(Debug, PartialEq, Eq)]
pub struct Architecture {
    /// Debian's name of it.
    pub name: &'static str,
    /// Its number in an ELF header.
    pub(crate) machine: u16,
    /// The name in messages.
    pub shown: &'static str,
    /// The kernel file's format, and the offset and value of its magic number.
    pub(crate) kernel: (&'static str, usize, &'static [u8]),
    /// Debian's cross compiler for it.
    pub(crate) compiler: Tool,
    /// Its name in paths of headers and libraries.
    pub(crate) triplet: &'static str,
}

/// The architecture that machines execute.
pub const SIMULATED: &Architecture = &ARCHITECTURES[0];

const ARCHITECTURES: [Architecture; 3] = [
    Architecture {
        name: "riscv64",
        machine: MACHINE_RISCV,
        shown: "RISC-V",
        // Documentation/arch/riscv/boot-image-header.rst: the second magic number.
        kernel: ("a raw RISC-V Image", 56, b"RSC\x05"),
        compiler: Tool { name: "riscv64-linux-gnu-gcc", package: "gcc-riscv64-linux-gnu" },
        triplet: "riscv64-linux-gnu",
    },
    Architecture {
        name: "amd64",
        machine: MACHINE_X86_64,
        shown: "x86-64",
        // Documentation/arch/x86/boot.rst.
        kernel: ("an x86 bzImage", 0x202, b"HdrS"),
        compiler: Tool { name: "x86_64-linux-gnu-gcc", package: "gcc-x86-64-linux-gnu" },
        triplet: "x86_64-linux-gnu",
    },
    Architecture {
        name: "arm64",
        machine: MACHINE_AARCH64,
        shown: "AArch64",
        // Documentation/arch/arm64/booting.rst.
        kernel: ("a raw AArch64 Image", 56, b"ARM\x64"),
        compiler: Tool { name: "aarch64-linux-gnu-gcc", package: "gcc-aarch64-linux-gnu" },
        triplet: "aarch64-linux-gnu",
    },
];

impl Architecture {
    /// Rejects an ELF file for another architecture, and a truncated one. Accepts any other file.
    pub fn check_elf(&self, content: &[u8]) -> Result<(), String> {
        match machine(content) {
            Some(machine) if machine == self.machine => Ok(()),
            None if !content.starts_with(b"\x7fELF") => Ok(()),
            _ => Err(format!(
                "it is not an executable for {}; compile it with {}",
                self.shown, self.compiler.name
            )),
        }
    }
}

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
