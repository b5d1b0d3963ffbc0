//! What a transfer by iperf3 has beside the figures of every benchmark. Of files of the first version only the goodput is known.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How iperf3 sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// A byte stream, as fast as it goes.
    #[default]
    Tcp,
    /// Datagrams at a rate.
    Udp,
}

/// What went through one direction of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Direction {
    /// Frames sent into it.
    pub frames: u64,
    /// Their bytes with FCS.
    pub bytes: u64,
    /// Lost to configured faults.
    pub lost: u64,
    /// Damaged by configured faults.
    pub corrupted: u64,
}

/// What a summary has beside the figures of every benchmark.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IperfFigures {
    /// TCP or UDP.
    #[serde(default)]
    pub protocol: Protocol,
    /// Bytes of payload that were sent. Of a whole test, as its sender's iperf3 says; of a part of a transfer, as they went
    /// over the cable, what TCP sent again among them.
    #[serde(default)]
    pub bytes_sent: u64,
    /// Bytes of payload that arrived. Of a whole test, as its receiver's iperf3 says; of a part of a transfer, what TCP
    /// acknowledged, or of datagrams those that the receiver's NIC accepted.
    #[serde(default)]
    pub bytes_received: u64,
    /// How long the test took by the guests' clocks, or how long a part of the transfer was measured.
    #[serde(default)]
    pub seconds: f64,
    /// Payload that arrived, in bits a second, in units of 10⁹.
    pub goodput_gbps: f64,
    /// TCP segments sent again; `null` with UDP, and of a part of a transfer.
    #[serde(default)]
    pub retransmits: Option<u64>,
    /// UDP datagrams lost; `null` with TCP, and of a part of a transfer.
    #[serde(default)]
    pub datagrams_lost: Option<u64>,
    /// Share of a core that iperf3 took, in percent: client, server; `null` of a part of a transfer.
    #[serde(default)]
    pub cpu_percent: Option<[f64; 2]>,
    /// From the server to the client.
    #[serde(default)]
    pub wire_to_client: Direction,
    /// From the client to the server.
    #[serde(default)]
    pub wire_to_server: Direction,
    /// Frames that the NICs dropped on arrival for whatever reason: server's, client's.
    #[serde(default)]
    pub nic_drops: [u64; 2],
    /// Instructions retired: server's node, client's node.
    #[serde(default)]
    pub node_instructions: [u64; 2],
}
