//! Cases worked out by hand from the manual, for every host, and on x86-64 Linux, where Berkeley SoftFloat builds,
//! a comparison of all operations with it.

mod by_hand;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod operands;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod reference;
