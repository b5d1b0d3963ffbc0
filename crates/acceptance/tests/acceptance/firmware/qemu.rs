//! Runs QEMU's `virt` machine with a firmware and a kernel.

use std::process::Stdio;

use doorbell_acceptance::scratch;

/// Timeout of a run in seconds.
const TIMEOUT_SECONDS: &str = "240";

/// Runs until the guest powers off; returns the console's text.
pub fn run(cpu: &str, harts: u64, firmware: &[u8], kernel: &[u8]) -> String {
    let folder = scratch();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("a scratch file can be written");
        path
    };
    let mut command = doorbell_oracle::under(&["timeout", TIMEOUT_SECONDS], &doorbell_oracle::qemu());
    command
        .args(["-M", "virt", "-cpu", cpu, "-m", "256"])
        .args(["-smp", &harts.to_string()])
        .args(["-display", "none", "-serial", "stdio", "-monitor", "none", "-nic", "none", "-no-reboot"])
        .arg("-bios")
        .arg(file("firmware", firmware))
        .arg("-kernel")
        .arg(file("kernel", kernel))
        // Virtual time by instruction count, with harts in turn, so that a waiting hart finds the others' work done.
        .args(["-icount", "shift=3,sleep=off"]);
    let output = command.stdin(Stdio::null()).output().expect("coreutils' timeout starts");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
