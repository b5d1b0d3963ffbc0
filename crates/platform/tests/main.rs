//! Tests of platform devices against QEMU and arbitrary accesses, as one program: each more would be linked apart.

mod against_qemu;
mod any_access;
mod aplic_against_qemu;
mod registers;
mod virtio;
