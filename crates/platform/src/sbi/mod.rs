//! The built-in firmware: an implementation of the Supervisor Binary Interface for this board, as an
//! alternative to Debian's OpenSBI (`platform.firmware = "builtin"`).
//!
//! Documents: RISC-V Supervisor Binary Interface Specification 2.0; The RISC-V Instruction Set Manual, Volume
//! II (machine level); Devicetree Specification 0.4; the device models of this crate.
//!
//! **Guest code.** [`image`] assembles RISC-V instructions that run in machine mode from the start of RAM, at
//! the same address and with the same entry conditions as OpenSBI. Implementing the calls in the simulator
//! would be shorter. But each call would need an invented cost, the harts would need a hook in their trap
//! path, and a checkpoint or debugger would miss state outside registers and memory. As guest code, a timed
//! core times a call like any other code, the harts need no knowledge of firmware, and QEMU can run the same
//! bytes as a test oracle.
//!
//! **Supported.** Base, TIME, IPI, RFENCE (without hypervisor fences), HSM, SRST and DBCN; the legacy calls
//! set-timer, console, clear-IPI and shutdown. Up to [`HARTS_MAX`] harts, as listed in the device tree. It
//! reserves its memory in the device tree and by PMP, and denies supervisors access to the CLINT, which it
//! owns. Without Sstc it forwards the machine timer's interrupt to the supervisor. With an APLIC and
//! interrupt files, it delegates all of the APLIC's sources to the supervisor and sets the files' addresses
//! in the APLIC. It keeps the root domain and the machine-mode files closed.
//!
//! **Not supported.** PMU and later extensions, hypervisor fences, the legacy calls that get their harts by a
//! pointer. Nothing is emulated: harts here have the `time` CSR and support misaligned accesses, so all
//! exceptions but the supervisor's calls are delegated. An exception in the firmware itself, or an unreadable
//! device tree, powers off the machine with a failure code.
//!
//! Unlike OpenSBI it checks that a console string or a start address is in RAM that the supervisor may use.
//!
//! Modules: [`layout`] memory, `start` from reset to the supervisor, `messages` the APLIC, `tree` the device
//! tree, `trap` traps and requests between harts, `calls` dispatch and the short extensions, `console`,
//! `remote` IPIs and fences, `harts` starting and stopping. In all of them `sp` points to the hart's area.

pub mod assembler;
mod calls;
mod console;
mod harts;
pub mod layout;
mod messages;
mod remote;
mod start;
mod trap;
mod tree;

use crate::map::InterruptsKind;
use assembler::Assembler;
pub use layout::HARTS_MAX;

/// Result of `sbi_get_impl_id`: not a registered number, but the letters DOOR.
pub const IMPLEMENTATION_ID: u64 = 0x444f_4f52;
/// Result of `sbi_get_impl_version`.
pub const IMPLEMENTATION_VERSION: u64 = 1;
/// SBI 2.0.
const SPECIFICATION_VERSION: u64 = 2 << 24;

/// The firmware for a machine with these interrupt controllers. It must be loaded to the start of RAM. All
/// harts enter it at its first byte, with the hart's number in a0, the device tree's address in a1 and the
/// address of OpenSBI's `fw_dynamic_info` in a2. The two variants differ in the protected regions and in the
/// boot hart's set-up.
pub fn image(interrupts: InterruptsKind) -> Vec<u8> {
    let mut a = Assembler::new(layout::BASE);
    start::assemble(&mut a, interrupts);
    tree::assemble(&mut a);
    trap::assemble(&mut a);
    calls::assemble(&mut a);
    console::assemble(&mut a);
    remote::assemble(&mut a);
    harts::assemble(&mut a);
    a.fill_to(layout::SHARED);
    a.fill_to(layout::AREAS);
    for _ in 0..HARTS_MAX {
        let area = a.here();
        a.fill_to(area + layout::area::STATE as u64);
        a.data(&layout::state::STOPPED.to_le_bytes());
        a.fill_to(area + (1 << layout::AREA_SHIFT));
    }
    a.fill_to(layout::BASE + layout::BYTES);
    a.finish()
}

#[cfg(test)]
#[path = "sbi_tests.rs"]
mod tests;
