//! QEMU's `virt` with a firmware and a kernel.

use std::path::Path;
use std::process::Stdio;

use doorbell_acceptance::scratch;

/// What a run left behind.
pub struct Ran {
    pub console: String,
    pub success: bool,
}

/// Seconds after which a run has failed.
const PATIENCE_SECONDS: &str = "240";

/// Without a firmware, with QEMU's own. Runs to the machine's end; a reboot ends it too.
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
        // Time by instructions, and harts in turn: what one waits for, another has done.
        None => command.args(["-icount", "shift=3,sleep=off"]),
    };
    let output = command.stdin(Stdio::null()).output().expect("coreutils' timeout starts");
    let console = String::from_utf8_lossy(&output.stdout).into_owned();
    Ran { console, success: output.status.success() }
}
