//! Runs QEMU's `virt` machine with a firmware and a kernel.

use std::path::Path;
use std::process::Stdio;

use doorbell_acceptance::scratch;

/// Output of a run.
pub struct Ran {
    pub console: String,
    pub success: bool,
}

/// Timeout of a run in seconds.
const PATIENCE_SECONDS: &str = "240";

/// Runs until the guest powers off or reboots. Without `firmware`, QEMU's bundled one is used.
pub fn run(
    cpu: &str,
    harts: u64,
    firmware: Option<&[u8]>,
    kernel: &[u8],
    linux: Option<(&Path, &str)>,
) -> Ran {
    let folder = scratch();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("a scratch file can be written");
        path
    };
    let mut command = doorbell_oracle::under(&["timeout", PATIENCE_SECONDS], &doorbell_oracle::qemu());
    command
        .args(["-M", "virt", "-cpu", cpu, "-m", "256"])
        .args(["-smp", &harts.to_string()])
        .args(["-display", "none", "-serial", "stdio", "-monitor", "none", "-nic", "none", "-no-reboot"])
        .arg("-bios")
        .arg(firmware.map_or("default".into(), |bytes| file("firmware", bytes)))
        .arg("-kernel")
        .arg(file("kernel", kernel));
    match linux {
        Some((initramfs, words)) => command.arg("-initrd").arg(initramfs).args(["-append", words]),
        // Virtual time by instruction count, with harts in turn, so that a waiting hart finds the others'
        // work done.
        None => command.args(["-icount", "shift=3,sleep=off"]),
    };
    let output = command.stdin(Stdio::null()).output().expect("coreutils' timeout starts");
    let console = String::from_utf8_lossy(&output.stdout).into_owned();
    Ran { console, success: output.status.success() }
}
