//! A real debugger (package gdb-multiarch) on a real guest.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

const DEBUGGER: &str = "gdb-multiarch";
/// Far longer than a session takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// a0 = 5 + 7, stored at +0x100 and loaded into a1, which is the exit code of the m5op at the end.
const PROGRAM: [u32; 8] = [
    0x0050_0293, // 0x00 addi t0, zero, 5
    0x0070_0313, // 0x04 addi t1, zero, 7
    0x0062_8533, // 0x08 add  a0, t0, t1
    0x0000_0417, // 0x0c auipc s0, 0
    0x0ea4_3a23, // 0x10 sd   a0, 0xf4(s0)
    0x0f44_3583, // 0x14 ld   a1, 0xf4(s0)
    0x4400_007b, // 0x18 m5op 0x22 (fail): the exit code is in a1
    0x0000_006f, // 0x1c j    .
];

struct Guest(Child);

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A guest that waits for a debugger, and the address of its server.
fn boot(folder: &Path) -> (Guest, String) {
    let program = folder.join("program.bin");
    std::fs::write(&program, PROGRAM.map(u32::to_le_bytes).as_flattened()).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_doorbell"))
        .args(["boot", "--gdb", "127.0.0.1:0", "--bare"])
        .arg(&program)
        .arg("--out")
        .arg(folder.join("out"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    // Later output must be read, or the guest would block on it.
    std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
    let address = line.trim_end().trim_end_matches('\'').rsplit(' ').next().unwrap().to_owned();
    assert!(address.starts_with("127.0.0.1:"), "{line}");
    (Guest(child), address)
}

/// Output of the debugger for these commands.
fn debug(address: &str, commands: &[&str]) -> String {
    let mut debugger = Command::new(DEBUGGER);
    debugger.args([
        "-nx",
        "-batch",
        "-ex",
        "set architecture riscv:rv64",
        "-ex",
        &format!("target remote {address}"),
    ]);
    debugger.args(commands.iter().flat_map(|command| ["-ex", command]));
    let child = debugger.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut child = Guest(child);
    let (mut stdout, mut stderr) = (child.0.stdout.take().unwrap(), child.0.stderr.take().unwrap());
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut output = String::new();
        stdout.read_to_string(&mut output).unwrap();
        stderr.read_to_string(&mut output).unwrap();
        let _ = sender.send(output);
    });
    receiver.recv_timeout(PATIENCE).expect("the debugger did not come to an end")
}

#[test]
fn gdb_breaks_steps_reads_writes_and_observes_the_exit() {
    let folder = tempfile::tempdir().unwrap();
    let (mut guest, address) = boot(folder.path());
    let output = debug(
        &address,
        &[
            "break *0x80000008",
            "continue",
            "printf \"before: pc %lx a0 %ld t1 %ld\\n\", (long)$pc, $a0, $t1",
            "stepi",
            "printf \"after: pc %lx a0 %ld priv %d\\n\", (long)$pc, $a0, $priv",
            "hbreak *0x80000014",
            "continue",
            "x/gd 0x80000100",
            "set $ft3.double = 2.5",
            "p $ft3",
            "p/x $mhartid",
            "set $mscratch = 0x1234",
            "p/x $mscratch",
            "set {long}0x80000100 = 41",
            "stepi",
            "p $a1",
            "x/wx 0x80000014",
            "info threads",
            "set $a1 = 42",
            "continue",
        ],
    );
    for expected in [
        "before: pc 80000008 a0 0 t1 7",
        "after: pc 8000000c a0 12 priv 3",
        "0x80000100:\t12",
        "double = 2.5",
        "= 0x0",
        "= 0x1234",
        "= 41",
        "0x80000014:\t0x0f443583",
        "hart 0, machine",
        "exited with code 052]", // octal
    ] {
        assert!(output.contains(expected), "{expected:?} is not in:\n{output}");
    }
    assert_eq!(guest.0.wait().unwrap().code(), Some(42));
}

#[test]
fn a_guest_continues_after_detach_and_ends_on_kill() {
    let folder = tempfile::tempdir().unwrap();
    let (mut guest, address) = boot(folder.path());
    debug(&address, &["break *0x80000014", "continue", "detach"]);
    assert_eq!(guest.0.wait().unwrap().code(), Some(12));

    let (mut guest, address) = boot(folder.path());
    debug(&address, &["stepi", "kill"]);
    assert_eq!(guest.0.wait().unwrap().code(), Some(0));
}
