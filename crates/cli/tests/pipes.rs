//! A reader that closes the pipe early is not an error.

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
    // The page is written line by line; the pipe is closed before the first line.
    drop(child.stdout.take());
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    child.wait().unwrap();
    assert_eq!(stderr, "");
}
