//! Tests of the machine against QEMU, as one program: each more would be linked apart.

mod base;
mod configuration_against_qemu;
mod interrupt_files_against_qemu;
