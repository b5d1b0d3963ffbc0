//! Additional figures of a transfer by iperf3. Files of the first version have only the goodput.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The protocol that iperf3 uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// A byte stream, at full speed.
    #[default]
    Tcp,
    /// Datagrams at a rate.
    Udp,
}

/// Traffic of one direction of a link.
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

/// Additional figures of a transfer by iperf3.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IperfFigures {
    /// TCP or UDP.
    #[serde(default)]
    pub protocol: Protocol,
    /// Payload bytes sent. For a whole test, as reported by the sender's iperf3; for a part of a transfer,
    /// counted on the cable, including TCP retransmissions.
    #[serde(default)]
    pub bytes_sent: u64,
    /// Payload bytes that arrived. For a whole test, as reported by the receiver's iperf3; for a part of a
    /// transfer, the bytes acknowledged by TCP, or the datagrams accepted by the receiver's NIC.
    #[serde(default)]
    pub bytes_received: u64,
    /// Duration of the test by the guests' clocks, or of the measured part of the transfer.
    #[serde(default)]
    pub seconds: f64,
    /// Delivered payload in bits per second, in units of 10⁹.
    pub goodput_gbps: f64,
    /// TCP segments retransmitted; `null` with UDP, and for a part of a transfer.
    #[serde(default)]
    pub retransmits: Option<u64>,
    /// UDP datagrams lost; `null` with TCP, and for a part of a transfer.
    #[serde(default)]
    pub datagrams_lost: Option<u64>,
    /// Share of a core used by iperf3, in percent: client, server; `null` for a part of a transfer.
    #[serde(default)]
    pub cpu_percent: Option<[f64; 2]>,
    /// Traffic from the server to the client.
    #[serde(default)]
    pub wire_to_client: Direction,
    /// Traffic from the client to the server.
    #[serde(default)]
    pub wire_to_server: Direction,
    /// Frames that the NICs dropped on arrival, for any reason: server's, client's.
    #[serde(default)]
    pub nic_drops: [u64; 2],
    /// Instructions retired: by the server's node, by the client's node.
    #[serde(default)]
    pub node_instructions: [u64; 2],
}
