//! Soft-RoCE between two nodes (`examples/rdma`): perftest's result is compared with the captured frames,
//! read by tshark.

use std::fs;

use doorbell_acceptance::{doorbell, number, repository, scratch, tshark};
use serde_json::Value;

/// Opcodes in RDMA's base transport header (InfiniBand architecture, volume 1, table 38).
const WRITE_FIRST: &str = "6";
const WRITE_MIDDLE: &str = "7";
const WRITE_LAST: &str = "8";
const ACKNOWLEDGE: &str = "17";

#[test]
#[ignore = "long: make test-long runs it"]
fn every_message_of_ib_write_bw_is_on_the_wire_once_and_acknowledged() {
    let (network, folder) = (repository().join("examples/rdma/net.toml"), scratch());
    let out = folder.path().join("out");
    let (network, to) = (network.to_str().unwrap(), out.to_str().unwrap());
    doorbell(&["run", "--network", network, "--out", to, "-q", "--pcap"]).success();
    // Both ends report 200 messages of 64 KiB.
    for node in ["server", "client"] {
        let console = fs::read_to_string(out.join(format!("console-{node}.txt"))).unwrap();
        let is_result = |line: &&str| line.split_whitespace().take(2).eq(["65536", "200"]);
        assert!(console.lines().any(|line| is_result(&line)), "{console}");
        assert!(console.contains("ended with 0"), "{console}");
    }
    let packets = tshark::fields(
        &out.join("wire.pcap"),
        "infiniband",
        &["ip.src", "udp.dstport", "infiniband.bth.opcode"],
    );
    let of = |source: &str, opcode: &str| {
        packets.iter().filter(|packet| packet[0] == source && packet[2] == opcode).count()
    };
    // Packets have 1024 bytes, the largest RDMA MTU that fits into a frame of 1500 bytes.
    let [client, server] = ["10.0.0.3", "10.0.0.2"];
    assert_eq!([WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST].map(|op| of(client, op)), [200, 62 * 200, 200]);
    assert_eq!(of(server, ACKNOWLEDGE), 200);
    assert_eq!(packets.len(), 64 * 200 + 200);
    assert!(packets.iter().all(|packet| packet[1] == "4791"), "all packets use RoCEv2's UDP port");
    let summary: Value =
        serde_json::from_str(&fs::read_to_string(out.join("summary.json")).unwrap()).unwrap();
    assert_eq!(number(&summary["network"]["hops"]["wire: client > server"], "/lost"), 0.0);
}
