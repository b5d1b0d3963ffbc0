//! Finds the moment at which the kernel starts its second hart (SBI specification 2.0, chapter 9: Hart State
//! Management).

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::gdb::Gdb;

/// Virtual address of the start of the Linux image.
const KERNEL_VIRTUAL: u64 = 0xffff_ffff_8000_0000;

/// The instruction ECALL.
const ECALL: [u8; 4] = 0x73u32.to_le_bytes();

/// SBI extension "HSM" (in a7) and its function hart_start (in a6).
const HSM: u64 = 0x48_534d;
const HART_START: u64 = 0;

/// Maximum firmware calls before the first hart_start: a kernel makes about fifteen.
const CALLS_MAX: usize = 1000;

/// Maximum time of QEMU between two calls: it takes about ten seconds.
const TIMEOUT: Duration = Duration::from_secs(300);

/// The virtual address of the kernel's firmware-call instruction. A kernel has one place for all calls, in
/// the code at the start of the image.
pub fn sbi_ecall(image: &Path) -> Result<u64> {
    let path = image.join("kernel");
    let kernel = std::fs::read(&path).with_context(|| format!("{} cannot be read", path.display()))?;
    first_ecall(&kernel)
        .map(|offset| KERNEL_VIRTUAL + offset)
        .with_context(|| format!("{} has no ECALL; is it a raw Image?", path.display()))
}

fn first_ecall(kernel: &[u8]) -> Option<u64> {
    (0..kernel.len().saturating_sub(3))
        .step_by(2)
        .find(|at| kernel[*at..].starts_with(&ECALL))
        .map(|at| at as u64)
}

/// Runs QEMU to the call that starts a hart.
pub fn run_to_hart_start(gdb: &mut Gdb, ecall: u64) -> Result<()> {
    gdb.set_timeout(TIMEOUT)?;
    for _call in 0..CALLS_MAX {
        gdb.run_to(ecall)?;
        let (extension, function) = (gdb.register("a7")?, gdb.register("a6")?);
        if (extension, function) == (Some(HSM), Some(HART_START)) {
            return Ok(());
        }
        gdb.run_to(ecall + 4)?;
    }
    bail!("the kernel made {CALLS_MAX} firmware calls without starting a hart");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ecall_is_found_at_even_offsets_only() {
        assert_eq!(first_ecall(&[0, 0x73, 0, 0, 0, 1, 0x73, 0, 0, 0]), Some(6));
        assert_eq!(first_ecall(&[0, 0x73, 0, 0, 0]), None);
        assert_eq!(first_ecall(&[0x73]), None);
    }
}
