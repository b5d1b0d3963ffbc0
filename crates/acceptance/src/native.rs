//! The guest's DPDK programs, compiled for the host by their Makefile (packages make, gcc, pkg-config,
//! libdpdk-dev).

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::repository;

/// EAL options for a program without NIC and hugepages, which allow other DPDK programs at the same time.
pub const EAL: &[&str] =
    &["--no-huge", "-m", "256", "--no-pci", "--no-shconf", "--no-telemetry", "--log-level=error"];

/// Compiles a program into a folder with these flags, and returns its path.
#[track_caller]
pub fn build(program: &str, flags: &str, folder: &Path) -> PathBuf {
    let path = folder.join(program);
    let output = Command::new("make")
        .arg("-C")
        .arg(repository().join("guest/programs"))
        .arg(format!("BUILD={}", folder.display()))
        .arg(format!("CFLAGS={flags}"))
        .arg(&path)
        .output()
        .expect("make is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    path
}
