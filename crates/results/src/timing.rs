//! Figures of the timing models: groups of named figures; in JSON maps of maps, in display order.

use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

use crate::figures::FigureKey;

/// A figure; without value if its denominator was zero.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Its name.
    pub name: String,
    /// Its meaning, with the unit. Files have the meanings of all points in one list, so that figures read from
    /// a file have none.
    pub meaning: Option<String>,
    /// Its value.
    pub value: Option<f64>,
}

/// A group of figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// The figures, in display order.
    pub figures: Vec<Figure>,
}

/// All groups: in JSON a map of maps, in display order. The figures' meanings are in the summary's
/// `meanings`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimingFigures(pub Vec<Group>);

impl TimingFigures {
    /// The value of a figure, if there is one.
    pub fn get(&self, key: FigureKey) -> Option<f64> {
        debug_assert!(!key.has_instances(), "{} is for several figures", key.path);
        self.named(key.group, key.name)
    }

    /// The value of the figure with this name in this group, as a file has them, if there is one.
    pub fn named(&self, group: &str, name: &str) -> Option<f64> {
        self.group(group)?.figures.iter().find(|of| of.name == name)?.value
    }

    /// A group, if there is one.
    pub fn group(&self, name: &str) -> Option<&Group> {
        self.0.iter().find(|of| of.name == name)
    }

    /// Appends a figure to its group; a new group becomes the last one.
    pub fn put(&mut self, key: FigureKey, value: Option<f64>) {
        debug_assert!(!key.has_instances(), "{} is for several figures", key.path);
        self.append(key.group, Figure { name: key.name.into(), meaning: Some(key.meaning.into()), value });
    }

    /// Appends a figure of one instance, by the instance's name in the figure's name and in its meaning.
    pub fn put_for(&mut self, key: FigureKey, name: &str, meaning: &str, value: Option<f64>) {
        debug_assert!(key.has_instances(), "{} is for one figure", key.path);
        let (name, meaning) = (key.name.replace("{}", name), key.meaning.replace("{}", meaning));
        self.append(key.group, Figure { name, meaning: Some(meaning), value });
    }

    fn append(&mut self, group: &str, figure: Figure) {
        match self.0.iter_mut().find(|of| of.name == group) {
            Some(of) => of.figures.push(figure),
            None => self.0.push(Group { name: group.to_owned(), figures: vec![figure] }),
        }
    }

    /// The meanings of measured figures, by `group.name`.
    pub fn meanings(&self) -> impl Iterator<Item = (String, String)> {
        let of = |group: &Group| {
            let named =
                |figure: &Figure| Some((format!("{}.{}", group.name, figure.name), figure.meaning.clone()?));
            group.figures.iter().filter_map(named).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of)
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
        let figure = |(name, value)| Figure { name, meaning: None, value };
        let group = |(name, Values(values)): (String, Values)| Group {
            name,
            figures: values.into_iter().map(figure).collect(),
        };
        Ok(TimingFigures(groups.into_iter().map(group).collect()))
    }
}

/// Figures of one core. Figures of all cores together, and of shared resources, are reported separately.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoreFigures {
    /// Its hart; for a core with threads, the first one.
    pub hart: usize,
    /// The core's number, if cores have threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<usize>,
    /// The thread of that core; `None` for totals of its threads, and for their shared resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<usize>,
    /// `out-of-order` or `in-order`.
    pub kind: String,
    /// Its clock in GHz.
    pub frequency_ghz: f64,
    /// Figures by group and name, as for all cores.
    pub figures: TimingFigures,
}
