//! Names of figures in a point's `summary.json`, and in tables and comparisons, where names carry units. Both
//! forms are accepted wherever a figure is named.

use doorbell_results::{
    ByNic, Confidence, Drops, IperfFigures, LatencyConfidence, LatencySummary, PlayedFigures, PointSummary,
    SearchCost, SizeSummary,
};
use serde::Deserialize;
use serde::de::value::Error;
use serde::de::{Deserializer, Error as _, Visitor};

use super::table::CAUSES;

/// Names without a unit in a summary, and the corresponding column names of the table.
const RENAMED: [(&str, &str); 9] = [
    ("frame_size", "frame_size_bytes"),
    ("drops.dma", "dropped_frames.dma"),
    ("drops.core", "dropped_frames.core"),
    ("drops.tx", "dropped_frames.tx"),
    ("drops.nic_other", "dropped_frames.nic_other"),
    ("drops.link", "dropped_frames.link"),
    ("drops.guest", "dropped_frames.guest"),
    ("drops.unknown", "dropped_frames.unknown"),
    ("ended", "search.ended"),
];
/// Groups of figures: name in a summary, and name in the table.
const GROUPS: [(&str, &str); 1] = [("drops", "dropped_frames")];
/// Columns of the table other than figures and parameters.
const OWN: [&str; 5] = ["index", "rate", "repetition", "seed", "point"];

/// Name of a figure with its unit.
pub(crate) fn renamed(name: String) -> String {
    RENAMED.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| (*new).to_owned())
}

/// Column name of a figure or a group of figures, given by either name.
pub(crate) fn in_tables(name: &str) -> String {
    let group = GROUPS.iter().find(|(old, _)| *old == name);
    group.map_or_else(|| renamed(name.to_owned()), |(_, new)| (*new).to_owned())
}

/// Possible names of table columns, except those of parameters.
pub(super) struct Names {
    /// Complete column names.
    pub own: Vec<String>,
    /// Groups whose members depend on the machine and the benchmark.
    open: Vec<String>,
}

impl Names {
    /// Whether a column may have this name.
    pub fn have(&self, name: &str) -> bool {
        let name = in_tables(name);
        let in_group =
            |group: &String| name.strip_prefix(group.as_str()).is_some_and(|rest| rest.starts_with('.'));
        self.own.contains(&name) || self.open.iter().any(in_group)
    }
}

/// Names of the figures of points that are measured (or searched, if `searched` is set).
pub(super) fn of_points(searched: bool) -> Names {
    let mut own: Vec<String> = OWN.iter().map(|name| (*name).to_owned()).collect();
    let mut open = Vec::new();
    // Structures whose members have fixed names.
    let parts = |name: &str| -> Option<Vec<&'static str>> {
        Some(match name {
            "latency_ns" | "latency_from_actual_ns" | "delay_variation_ns" | "answer_latency_ns" => {
                fields::<LatencySummary>()
            }
            "confidence_95.latency_ns" => fields::<LatencyConfidence>(),
            "confidence_95" => fields::<Confidence>(),
            "drops" => fields::<Drops>(),
            "drops.nic" => fields::<ByNic>(),
            "cost" => fields::<SearchCost>(),
            _ => return None,
        })
    };
    let of_points = serde_json::to_value(PointSummary::default()).expect("a summary serialises");
    let is_plain = |name: &str| of_points[name].is_number() || of_points[name].is_string();
    let mut waiting: Vec<String> =
        of_points.as_object().into_iter().flat_map(|fields| fields.keys().cloned()).collect();
    let iperf = serde_json::to_value(IperfFigures::default()).expect("figures serialise");
    waiting.extend(iperf.as_object().into_iter().flat_map(|fields| fields.keys().cloned()));
    let searched = if searched { fields::<SizeSummary>() } else { Vec::new() };
    let further = fields::<PlayedFigures>().into_iter().chain(searched).chain(PointSummary::OPTIONAL_FIELDS);
    waiting.extend(further.map(str::to_owned));
    while let Some(name) = waiting.pop() {
        match parts(&name) {
            Some(fields) => waiting.extend(fields.into_iter().map(|field| format!("{name}.{field}"))),
            None => {
                if !is_plain(&name) {
                    open.push(name.clone());
                }
                own.push(renamed(name));
            }
        }
    }
    own.extend(CAUSES.iter().map(|cause| format!("dropped_share.{cause}")));
    own.sort();
    own.dedup();
    Names { own, open }
}

/// The serialized names of a struct's fields.
fn fields<'de, T: Deserialize<'de>>() -> Vec<&'static str> {
    let mut names = Vec::new();
    // Deserialization fails as soon as the field names are recorded.
    let _ = T::deserialize(FieldRecorder(&mut names));
    names
}

/// A deserializer that holds no data and records the requested field names.
struct FieldRecorder<'a>(&'a mut Vec<&'static str>);

impl<'de> Deserializer<'de> for FieldRecorder<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("there is no data"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        self.0.extend(fields);
        Err(Error::custom("there is no data"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct seq tuple
        tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_by_summary_name_and_by_table_name() {
        assert_eq!(in_tables("drops.dma"), "dropped_frames.dma");
        assert_eq!(in_tables("drops"), "dropped_frames");
        assert_eq!(in_tables("frame_size"), "frame_size_bytes");
        assert_eq!(in_tables("latency_ns.p99"), "latency_ns.p99");
        let (measured, searched) = (of_points(false), of_points(true));
        for name in [
            "drop_rate",
            "drops.dma",
            "dropped_frames.dma",
            "dropped_share.core",
            "latency_ns.p99_9",
            "confidence_95.latency_ns.p50",
            "confidence_95.delivered_mpps",
            "frame_size",
            "timing.packet cost.saturation",
            "transfer.goodput_gbps",
            "interrupts_per_second",
            "host_seconds",
            "offered_gbps",
            "answer_latency_ns.p50",
            "cycles",
            "goodput_gbps",
            "kinds.copy.share",
            "network.switches.tor.outputs.server.residence_ns.p99",
        ] {
            assert!(measured.have(name) && searched.have(name), "{name}");
        }
        for name in ["drop_rat", "drops.dam", "latency_ns", "latency_ns.p98", "tinming.x", "ipc.x", ""] {
            assert!(!measured.have(name) && !searched.have(name), "{name}");
        }
        for name in ["low_mpps", "ended", "search.ended", "cost.trials"] {
            assert!(!measured.have(name) && searched.have(name), "{name}");
        }
    }
}
