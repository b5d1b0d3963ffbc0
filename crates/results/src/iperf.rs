//! Additional figures of a transfer by iperf3. Files of the first version have only the goodput.

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

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

/// Totals of a transfer between two nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TransferTotals {
    /// Payload bytes sent, of the stream or of responses, counted on the cable, including TCP
    /// retransmissions. For a whole test by iperf3, as reported by the sender.
    pub bytes_sent: u64,
    /// Payload bytes that arrived: those acknowledged by TCP, each byte once; for datagrams, the share of the
    /// frames that the receiver's NIC accepted. For a whole test of a stream, as reported by its program.
    pub bytes_received: u64,
    /// Length of the measurement; for a whole test, as reported by its program.
    pub seconds: f64,
    /// Traffic from the server to the client.
    pub wire_to_client: Direction,
    /// Traffic from the client to the server.
    pub wire_to_server: Direction,
    /// Frames that the NICs dropped on arrival, for any reason: server's, client's.
    pub nic_drops: [u64; 2],
    /// Instructions retired: by the server's node, by the client's node.
    pub node_instructions: [u64; 2],
}

/// Additional figures of a transfer by iperf3.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IperfFigures {
    /// TCP or UDP.
    #[serde(default)]
    pub protocol: Protocol,
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
    /// The totals, with iperf3's own where it reports them.
    #[serde(flatten, deserialize_with = "all_or_none")]
    pub totals: TransferTotals,
}

/// Files of the first version have no totals.
fn all_or_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TransferTotals, D::Error> {
    let fields = serde_json::Map::deserialize(deserializer)?;
    let totals = serde_json::to_value(TransferTotals::default()).map_err(D::Error::custom)?;
    let names = totals.as_object().into_iter().flat_map(serde_json::Map::keys);
    match names.into_iter().any(|name| fields.contains_key(name)) {
        true => TransferTotals::deserialize(serde_json::Value::Object(fields)).map_err(D::Error::custom),
        false => Ok(TransferTotals::default()),
    }
}
