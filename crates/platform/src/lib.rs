//! The platform around the harts, compatible with QEMU's `virt` machine for RISC-V: interrupt controllers,
//! console, clock, power switch, address map, device tree, and the hand-over to the firmware.
//!
//! Devices are independent of each other. Each takes register accesses, and the time where needed, as
//! arguments. Interrupt lines and actions are returned or queried, and `machine` routes them. An access that
//! the hardware leaves undefined has a fixed result and a counter, and never panics.

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
pub mod syscon;
pub mod uart;
pub mod virtio;

pub use aplic::{Aplic, AplicMessage, DomainLevel};
pub use clint::{Clint, ClintEffect};
pub use device_tree::{DeviceTreeConfig, DeviceTreeError, MmuMode};
pub use firmware::{BootError, BootImages, BootLayout};
pub use linux_image::LinuxImage;
pub use map::{InterruptsKind, Region, RegionId};
pub use plic::Plic;
pub use rtc::{Rtc, RtcConfig};
pub use syscon::{Action, Syscon};
pub use uart::Uart;
pub use virtio::{DiskConfig, DiskError, DiskFile, GuestMemory, VirtioDisk, VirtioDiskState};
