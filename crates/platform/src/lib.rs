//! The platform around the harts, compatible with QEMU's `virt` machine for RISC-V: interrupt
//! controllers, console, clock, power switch, the address map that places them, the device tree that
//! describes them, the hand-over to the firmware, and a firmware of its own.
//!
//! Devices do not know one another. Each takes register accesses (and, where it needs it, the time)
//! as arguments; its interrupt line or action is returned or queried, and `machine` moves it on.
//! An access that the hardware does not define has a fixed answer and a counter, never a panic.

#![forbid(unsafe_code)]

pub mod aplic;
pub mod clint;
pub mod device_tree;
pub mod firmware;
pub mod imsic;
pub mod linux_image;
pub mod map;
pub mod names;
pub mod plic;
pub mod registers;
pub mod rtc;
pub mod sbi;
pub mod syscon;
pub mod uart;
pub mod virtio;

pub use aplic::{Aplic, AplicMessage, DomainLevel};
pub use clint::{Clint, ClintEffect};
pub use device_tree::{DeviceTreeConfig, DeviceTreeError, MmuMode};
pub use firmware::{BootError, BootImages, BootLayout, FirmwareKind, HandOver, HartReset, Load, Payload};
pub use linux_image::LinuxImage;
pub use map::{InterruptsKind, Region, RegionId};
pub use plic::{Plic, PlicConfig};
pub use rtc::{Rtc, RtcConfig};
pub use syscon::{Action, Syscon};
pub use uart::Uart;
pub use virtio::{DiskConfig, DiskError, DiskFile, GuestMemory, VirtioDisk, VirtioDiskState};
