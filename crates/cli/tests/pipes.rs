//! A reader that has seen enough closes the pipe; that is no error of ours.

use std::io::Read;
use std::process::{Command, Stdio};

#[test]
fn a_closed_pipe_ends_a_listing_without_a_panic() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_doorbell"))
        .args(["config", "registers"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The page is written in lines; the pipe is closed before the first.
    drop(child.stdout.take());
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    child.wait().unwrap();
    assert_eq!(told, "");
}
