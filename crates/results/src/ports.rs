//! Counters of each port in a measurement.

use serde::{Deserialize, Serialize};

/// A counter's name and value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figure {
    /// Its name: the manual's for registers, otherwise as in `stats.json`.
    pub name: String,
    /// Its value.
    pub value: u64,
}

/// A group of counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FigureGroup {
    /// The group's title.
    pub title: String,
    /// The counters, including zero ones.
    pub figures: Vec<Figure>,
}

/// A port's counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortFigures {
    /// The groups, in display order: totals over all queues.
    pub groups: Vec<FigureGroup>,
    /// Pairs of a receive and a transmit queue. An 82540EM has one.
    #[serde(default)]
    pub queues: Vec<QueueFigures>,
    /// Features that software enabled but the NIC model lacks, one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked_in_vain: Vec<String>,
}

impl PortFigures {
    /// The counter of this name; 0 if there is none.
    pub fn value(&self, name: &str) -> u64 {
        let mut figures = self.groups.iter().flat_map(|group| &group.figures);
        figures.find(|figure| figure.name == name).map_or(0, |figure| figure.value)
    }
}

/// Counters of one pair of queues.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueFigures {
    /// The queue's number, from 0.
    pub queue: u32,
    /// Whether RSS spreads flows over this receive queue and others. Older files lack this field.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rss: bool,
    /// The counters.
    pub figures: Vec<Figure>,
}

impl QueueFigures {
    /// The counter of this name; 0 if there is none.
    pub fn value(&self, name: &str) -> u64 {
        self.figures.iter().find(|figure| figure.name == name).map_or(0, |figure| figure.value)
    }
}

/// Names of the counters that show a bottleneck; measuring code must provide them.
pub mod counters {
    /// Frames that found a port's receive FIFO full.
    pub const RX_FIFO_FULL: &str = "rx_fifo_full";
    /// Receive descriptors that a port fetched.
    pub const RX_DESCRIPTORS: &str = "rx_descriptors";
    /// A port's fetches of receive descriptors.
    pub const RX_FETCHES: &str = "rx_fetches";
    /// Interrupts that a port raised.
    pub const INTERRUPTS: &str = "interrupts";
    /// Frames that filters and hash assigned to a queue.
    pub const RX_OFFERED: &str = "rx_offered";
    /// Frames that a queue dropped for lack of descriptors (SRRCTL.DROP_EN).
    pub const RX_DROP_NO_DESCRIPTOR: &str = "rx_drop_no_descriptor";
}
