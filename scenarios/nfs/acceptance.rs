//! Linux's NFS server between two nodes: the summary's bytes match the WRITEs acknowledged in a capture, read
//! with tshark. Only in the long run, as it boots its own image. Needs tshark.

use std::path::Path;

use doorbell_acceptance::{doorbell, scratch, tshark};
use serde_json::Value;

/// Runs `nfs`; returns its summary.
fn nfs(out: &Path, options: &str) -> Value {
    let common =
        ["run", "nfs", "--preset", "fast", "--json", "-q", "--out", out.to_str().expect("a path in UTF-8")];
    let words: Vec<&str> = common.into_iter().chain(options.split_whitespace()).collect();
    serde_json::from_str(&doorbell(&words).success()).expect("the summary is JSON and nothing else")
}

/// Byte counts of the WRITEs (operation 38 of RFC 7530) acknowledged in a capture.
///
/// A reply has the operation, the status and the number of bytes written. They are searched in the TCP
/// payload: the capture starts in the middle of a call, so tshark does not recognise the stream as NFS.
fn written(capture: &Path) -> Vec<u64> {
    const WRITE_OK: &str = "0000002600000000";
    let payloads = tshark::fields(capture, "ip.src == 10.0.0.2 && tcp.len > 0", &["tcp.payload"]);
    let text = payloads.concat().join("\n");
    let count = |at: usize| text.get(at + WRITE_OK.len()..).and_then(|rest| rest.get(..8));
    let answers = text.match_indices(WRITE_OK).filter_map(|(at, _)| count(at));
    answers.map(|digits| u64::from_str_radix(digits, 16).expect("hexadecimal digits")).collect()
}

#[test]
#[ignore = "long: make test-long runs it"]
fn an_nfs_server_acknowledges_the_blocks_that_its_client_writes() {
    let folder = scratch();
    for (options, most) in
        [("", 1 << 20), ("--set nfs.wsize=32KiB --set nfs.writers=2 --set nfs.file=8MiB", 32 << 10)]
    {
        let out = folder.path().join(format!("{most}"));
        let found = nfs(&out, &format!("{options} --warmup 5ms --duration 40ms --pcap"));
        let parts = found
            .pointer("/transfer/over_time")
            .and_then(Value::as_array)
            .expect("the summary has figures over time");
        let of = |part: &Value, key: &str| part[key].as_f64().expect("a number");
        // Gbit/s times ns are bits.
        let moved: f64 = parts.iter().map(|part| of(part, "gbps") * of(part, "length_ns") / 8.0).sum();
        let writes = written(&out.join("wire.pcap"));
        assert_eq!(writes.iter().max(), Some(&most), "{writes:?}");
        // At the start or the end, each of eight threads may have an unacknowledged WRITE, and one more may
        // be arriving. Calls have about 200 bytes of overhead, and there are COMMITs.
        let payload = writes.iter().sum::<u64>() as f64;
        let off = 9.0 * most as f64 + 0.02 * moved;
        assert!(moved > 1.5e7 && (payload - moved).abs() <= off, "{payload} of {moved}: {found}");
        assert!(of(&found["transfer"], "drive_idle") > 0.2, "{found}");
    }
    let again =
        |name: &str| nfs(&folder.path().join(name), "--warmup 1ms --duration 2ms")["state_hash"].clone();
    assert_eq!(again("one"), again("two"));
}
