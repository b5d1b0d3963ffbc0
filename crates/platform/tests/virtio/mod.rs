//! Tests of the virtio disk: with a normal driver, with one that breaks the rules, and compared with QEMU.

mod against_qemu;
mod device;
mod driver;
mod hostile;
mod ours;
