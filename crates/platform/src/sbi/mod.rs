//! The built-in firmware: an implementation of the Supervisor Binary Interface for this board, as an alternative
//! to Debian's OpenSBI (`platform.firmware = "builtin"`).
//!
//! Documents: RISC-V Supervisor Binary Interface Specification 2.0; The RISC-V Instruction Set Manual, Volume II
//! (machine level); Devicetree Specification 0.4; the device models beside this module.
//!
//! **It is guest code.** [`image`] assembles RISC-V instructions that run in machine mode from the start of RAM,
//! where OpenSBI would lie, and are entered in the same way. Answering calls on the host's side would be shorter,
//! but each call would need an invented price, the hart would need a hook in its trap path, and a checkpoint or
//! a debugger would meet state that is in no register or memory. This way a timed core prices a call like any other
//! code, the harts know nothing of firmware, and QEMU can run the very same bytes: it is the test's oracle.
//!
//! **What it has.** Base, TIME, IPI, RFENCE (without hypervisor fences), HSM, SRST and DBCN; of the legacy calls
//! set-timer, console, clear-IPI and shutdown. Up to [`HARTS_MAX`] harts, those that the device tree names. It
//! reserves its memory in the device tree and by PMP, and keeps supervisors from the CLINT, which it owns. Without Sstc
//! it turns the machine timer's interrupt into the supervisor's. Where there are an APLIC and interrupt files, it delegates all of
//! the APLIC's sources to the supervisor, tells the APLIC where the files are, and keeps the root domain and the machine's files closed.
//!
//! **What it has not.** PMU and the extensions after it, hypervisor fences, the legacy calls whose harts are given by
//! a pointer. Nothing is emulated: harts here have the `time` CSR and do misaligned accesses themselves, so all
//! exceptions but the supervisor's own calls are delegated. An exception in the firmware itself, or a device tree that
//! it cannot read, ends the machine with a failure code.
//!
//! Unlike OpenSBI it checks that a console string or a start address lies in RAM that the supervisor may use.
//!
//! Where what is: [`layout`] memory, `start` from reset to the supervisor, `messages` the APLIC, `tree` the device tree, `trap` traps and
//! what harts ask of one another, `calls` the table of calls and the short ones, `console`, `remote` IPIs and
//! fences, `harts` starting and stopping. In all of them `sp` points to the hart's area.

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

/// What `sbi_get_impl_id` answers: no registered number, but the letters DOOR.
pub const IMPLEMENTATION_ID: u64 = 0x444f_4f52;
/// What `sbi_get_impl_version` answers.
pub const IMPLEMENTATION_VERSION: u64 = 1;
/// SBI 2.0.
const SPECIFICATION_VERSION: u64 = 2 << 24;

/// The firmware, to be loaded to the start of RAM and entered at its first byte by all harts, with the hart's number in
/// a0, the device tree's address in a1 and that of OpenSBI's `fw_dynamic_info` in a2.
/// It is for a machine with these interrupt controllers; the two differ in what a hart protects and what the first one sets up.
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
