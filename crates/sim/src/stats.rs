//! Statistics: plain `u64` fields in a struct that the component owns. A field's doc comment is its
//! description. A region of interest is a clone at its start and a subtraction at its end.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// A group of counters.
pub trait Stats: Clone + Default {
    /// Name, description and value of every counter, in declaration order.
    fn counters(&self) -> Vec<Counter>;
    /// Counts since `earlier`.
    fn since(&self, earlier: &Self) -> Self;
    /// Sum of this and another group.
    fn plus(&self, other: &Self) -> Self;
    /// Sum of several groups.
    fn sum(all: impl IntoIterator<Item = Self>) -> Self {
        all.into_iter().fold(Self::default(), |sum, group| sum.plus(&group))
    }
}

/// One counter as reports list it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// The field's name.
    pub name: &'static str,
    /// The field's doc comment.
    pub description: &'static str,
    /// Count.
    pub value: u64,
}

/// Deserialises a counter. Values above a quarter of the range are rejected, because no run reaches them.
pub fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let value = u64::deserialize(deserializer)?;
    if value > u64::MAX / 4 { Err(D::Error::custom("a counter exceeds the maximum")) } else { Ok(value) }
}

/// Declares a struct of counters and implements [`Stats`] for it.
///
/// ```
/// doorbell_sim::stats! {
///     /// Counters of a queue.
///     pub struct QueueStats {
///         /// Items put in.
///         pushed,
///         /// Items taken out.
///         popped,
///     }
/// }
/// let begin = QueueStats { pushed: 3, popped: 1 };
/// let end = QueueStats { pushed: 10, popped: 4 };
/// use doorbell_sim::stats::Stats;
/// assert_eq!(end.since(&begin).pushed, 7);
/// assert_eq!(end.plus(&begin).pushed, 13);
/// assert_eq!(QueueStats::sum([begin.clone(), begin]).popped, 2);
/// assert_eq!(end.counters()[1].description, "Items taken out.");
/// ```
#[macro_export]
macro_rules! stats {
    ($(#[doc = $group:literal])* pub struct $name:ident { $(#[doc = $doc:literal] $(#[doc = $more:literal])* $field:ident),* $(,)? }) => {
        $(#[doc = $group])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, ::serde::Serialize, ::serde::Deserialize)]
        pub struct $name {
            $(
                #[doc = $doc]
                $(#[doc = $more])*
                #[serde(deserialize_with = "doorbell_sim::stats::count")]
                pub $field: u64,
            )*
        }

        impl $crate::stats::Stats for $name {
            fn counters(&self) -> Vec<$crate::stats::Counter> {
                vec![$($crate::stats::Counter {
                    name: stringify!($field),
                    description: concat!($doc, $($more),*).trim_ascii(),
                    value: self.$field,
                }),*]
            }

            fn since(&self, earlier: &Self) -> Self {
                $name { $($field: self.$field - earlier.$field),* }
            }

            fn plus(&self, other: &Self) -> Self {
                $name { $($field: self.$field + other.$field),* }
            }
        }
    };
}
