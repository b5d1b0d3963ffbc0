//! The virtio disk, driven as a driver would, by one that breaks the rules, and beside QEMU's.

mod against_qemu;
mod device;
mod driver;
mod hostile;
mod ours;
