//! What each port counted in a measurement.

use serde::{Deserialize, Serialize};

/// A counter's name and what it counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figure {
    /// Its name: the manual's for registers, that of `stats.json` for others.
    pub name: String,
    /// How many.
    pub value: u64,
}

/// Figures that belong together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FigureGroup {
    /// What they have in common.
    pub title: String,
    /// The figures, those that are zero among them.
    pub figures: Vec<Figure>,
}

/// A port's figures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortFigures {
    /// The groups, in the order to show them: totals of all queues.
    pub groups: Vec<FigureGroup>,
    /// Its pairs of a receive and a transmit queue. An 82540EM has one.
    #[serde(default)]
    pub queues: Vec<QueueFigures>,
    /// What its software asks for that the model of its card has not, a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked_in_vain: Vec<String>,
}

impl PortFigures {
    /// The figure of this name; 0 if there is none.
    pub fn value(&self, name: &str) -> u64 {
        let mut figures = self.groups.iter().flat_map(|group| &group.figures);
        figures.find(|figure| figure.name == name).map_or(0, |figure| figure.value)
    }
}

/// What one pair of queues did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueFigures {
    /// Which, counted from 0.
    pub queue: u32,
    /// Whether RSS spreads flows over this receive queue and others. Older files do not say so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rss: bool,
    /// The figures.
    pub figures: Vec<Figure>,
}

impl QueueFigures {
    /// The figure of this name; 0 if there is none.
    pub fn value(&self, name: &str) -> u64 {
        self.figures.iter().find(|figure| figure.name == name).map_or(0, |figure| figure.value)
    }
}
