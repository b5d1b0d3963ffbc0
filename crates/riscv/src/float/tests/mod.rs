//! Hand-computed cases from the manual, for every host. On x86-64 Linux, where Berkeley SoftFloat builds, all
//! operations are also compared with it.

mod hand_computed;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod operands;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod reference;
