//! Routes between stops: the sequence of links that a message takes.

use super::config::{FabricKind, Places};

/// A directed link between two neighbouring stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub from: u8,
    pub to: u8,
    /// Cycles.
    pub hop: u64,
}

/// The routes between all pairs of stops.
#[derive(Clone, Debug, Default)]
pub(super) struct Routes {
    pub links: Vec<Link>,
    stops: usize,
    /// For each pair of stops, the range of its route in `hops`.
    ways: Vec<(u32, u32)>,
    /// Link numbers.
    hops: Vec<u16>,
    /// Cycles from stop to stop.
    distances: Vec<u64>,
}

/// The next stop on the route from `at` to `to`.
fn next(kind: FabricKind, places: &Places, at: u32, to: u32) -> u32 {
    let (columns, stops) = (places.columns, places.columns * places.rows);
    if kind == FabricKind::Ring {
        let forth = (to + stops - at) % stops;
        // If both ways are equally long, the one to higher numbers.
        return if 2 * forth <= stops { (at + 1) % stops } else { (at + stops - 1) % stops };
    }
    let (row, column) = (at / columns, at % columns);
    match (row.cmp(&(to / columns)), column.cmp(&(to % columns))) {
        (std::cmp::Ordering::Less, _) => at + columns,
        (std::cmp::Ordering::Greater, _) => at - columns,
        (_, std::cmp::Ordering::Less) => at + 1,
        _ => at - 1,
    }
}

impl Routes {
    /// The routes of a ring or mesh; `hop` cycles along the ring or a column, `across` along a row.
    pub fn new(kind: FabricKind, places: &Places, hop: u32, across: u32) -> Routes {
        let stops = places.columns * places.rows;
        let mut routes = Routes { stops: stops as usize, ..Routes::default() };
        let mut numbers = std::collections::BTreeMap::new();
        for (from, to) in (0..stops).flat_map(|from| (0..stops).map(move |to| (from, to))) {
            let (begin, mut at, mut distance) = (routes.hops.len() as u32, from, 0);
            while at != to {
                let then = next(kind, places, at, to);
                let in_row = kind == FabricKind::Mesh && at / places.columns == then / places.columns;
                let link = Link {
                    from: at as u8,
                    to: then as u8,
                    hop: u64::from(if in_row { across } else { hop }),
                };
                let number = *numbers.entry((at, then)).or_insert_with(|| {
                    routes.links.push(link);
                    routes.links.len() - 1
                });
                routes.hops.push(number as u16);
                distance += link.hop;
                at = then;
            }
            routes.ways.push((begin, routes.hops.len() as u32));
            routes.distances.push(distance);
        }
        routes
    }

    fn pair(&self, from: u8, to: u8) -> usize {
        usize::from(from) * self.stops + usize::from(to)
    }

    /// The links from one stop to another.
    #[inline]
    pub fn way(&self, from: u8, to: u8) -> &[u16] {
        let (begin, end) = self.ways[self.pair(from, to)];
        &self.hops[begin as usize..end as usize]
    }

    /// Cycles from one stop to another without contention.
    #[inline]
    pub fn distance(&self, from: u8, to: u8) -> u64 {
        self.distances[self.pair(from, to)]
    }
}
