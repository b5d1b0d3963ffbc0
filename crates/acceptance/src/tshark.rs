//! Reads captures with tshark (package tshark).

use std::path::Path;
use std::process::Command;

/// The given fields of each frame that matches `filter`, with checksum validation on.
#[track_caller]
pub fn fields(pcap: &Path, filter: &str, fields: &[&str]) -> Vec<Vec<String>> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(pcap).args(["-n", "-2", "-Y", filter, "-T", "fields", "-E", "separator=|"]);
    command.args(["-E", "occurrence=f"]);
    for protocol in ["ip", "tcp", "udp"] {
        command.arg("-o").arg(format!("{protocol}.check_checksum:TRUE"));
    }
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().expect("this check needs tshark (package tshark)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("tshark writes text");
    text.lines().map(|line| line.split('|').map(str::to_owned).collect()).collect()
}

/// Number of frames that match the filter.
#[track_caller]
pub fn count(pcap: &Path, filter: &str) -> usize {
    fields(pcap, filter, &["frame.number"]).len()
}
