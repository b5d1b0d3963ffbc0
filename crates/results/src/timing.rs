//! What the timing models say of a load: groups of named figures, in JSON maps of maps, in the order to show them.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

/// A figure; none if there was nothing to divide by.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Its name.
    pub name: String,
    /// What it means, with its unit.
    pub meaning: String,
    /// Its value.
    pub value: Option<f64>,
}

/// Figures that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// The figures, in the order to show them.
    pub figures: Vec<Figure>,
}

/// All of them: in JSON a map of maps, in the order to show them. What figures mean stands beside all points, in `meanings`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimingFigures(pub Vec<Group>);

impl TimingFigures {
    /// A figure of a group, if it is there and has a value.
    pub fn get(&self, group: &str, name: &str) -> Option<f64> {
        let group = self.0.iter().find(|of| of.name == group)?;
        group.figures.iter().find(|of| of.name == name)?.value
    }

    /// What each figure means, as `group.name`.
    pub fn meanings(&self) -> impl Iterator<Item = (String, String)> {
        let of = |group: &Group| {
            let named = |figure: &Figure| (format!("{}.{}", group.name, figure.name), figure.meaning.clone());
            group.figures.iter().map(named).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of)
    }

    /// The other way round.
    pub(crate) fn take_meanings(&mut self, meanings: &BTreeMap<String, String>) {
        for group in &mut self.0 {
            for figure in &mut group.figures {
                let meaning = meanings.get(&format!("{}.{}", group.name, figure.name));
                figure.meaning = meaning.cloned().unwrap_or_default();
            }
        }
    }
}

impl Serialize for TimingFigures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut groups = serializer.serialize_map(Some(self.0.len()))?;
        for group in &self.0 {
            groups.serialize_entry(&group.name, &GroupFigures(&group.figures))?;
        }
        groups.end()
    }
}

struct GroupFigures<'a>(&'a [Figure]);

impl Serialize for GroupFigures<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|figure| (&figure.name, figure.value)))
    }
}

/// Reads a map into a list in the order of the text.
struct InOrder<T>(std::marker::PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for InOrder<T> {
    type Value = Vec<(String, T)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of figures")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut all = Vec::new();
        while let Some(entry) = map.next_entry()? {
            all.push(entry);
        }
        Ok(all)
    }
}

/// The figures of one group.
struct Values(Vec<(String, Option<f64>)>);

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(InOrder(std::marker::PhantomData)).map(Values)
    }
}

impl<'de> Deserialize<'de> for TimingFigures {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let groups: Vec<(String, Values)> =
            deserializer.deserialize_map(InOrder(std::marker::PhantomData))?;
        let figure = |(name, value)| Figure { name, meaning: String::new(), value };
        let group = |(name, Values(values)): (String, Values)| Group {
            name,
            figures: values.into_iter().map(figure).collect(),
        };
        Ok(TimingFigures(groups.into_iter().map(group).collect()))
    }
}

/// What one core did. The figures of all together, and of what they share, are beside those of each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoreFigures {
    /// Its hart; of a core with threads, the first.
    pub hart: usize,
    /// Where cores have threads, the core's number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<usize>,
    /// Which thread of that core it is; none for what both did together, and for what they share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<usize>,
    /// `out-of-order` or `in-order`.
    pub kind: String,
    /// Its clock in GHz.
    pub frequency_ghz: f64,
    /// Figures by group and name, as those of all cores.
    pub figures: TimingFigures,
}
