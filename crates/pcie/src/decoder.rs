//! Address decoding of memory and I/O accesses: base address registers, limited by the bridges' windows.

use crate::host_bridge::{FunctionId, Member, bridges_above};
use crate::identity::BarKind;

/// Target of a memory or I/O access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// The function.
    pub function: FunctionId,
    /// Number of the base address register.
    pub bar: u8,
    /// Offset from its base.
    pub offset: u64,
}

/// Addresses from `first` to `last` that reach the base address register with base `base`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    first: u64,
    last: u64,
    base: u64,
    function: FunctionId,
    bar: u8,
}

/// Decoded ranges, sorted by address, without overlaps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Decoder {
    memory: Vec<Range>,
    io: Vec<Range>,
}

impl Decoder {
    /// Decodes the functions' present registers.
    pub fn new(members: &[Member]) -> Decoder {
        let mut decoder = Decoder::default();
        for (index, member) in members.iter().enumerate() {
            for (bar, kind) in member.space.identity().bars.iter().enumerate() {
                let Some(base) = member.space.bar_base(bar) else { continue };
                let is_io = matches!(kind, BarKind::Io { .. });
                let space = if is_io { &mut decoder.io } else { &mut decoder.memory };
                let last = base.saturating_add(kind.bytes() - 1);
                for (first, last) in let_through(members, index, (base, last), is_io) {
                    let range = Range { first, last, base, function: FunctionId(index), bar: bar as u8 };
                    if space.iter().all(|other| range.last < other.first || other.last < range.first) {
                        space.push(range);
                    }
                }
            }
        }
        decoder.memory.sort_by_key(|range| range.first);
        decoder.io.sort_by_key(|range| range.first);
        decoder
    }

    pub fn memory(&self, addr: u64) -> Option<Decoded> {
        find(&self.memory, addr)
    }

    pub fn io(&self, port: u64) -> Option<Decoded> {
        find(&self.io, port)
    }
}

/// The parts of an address range that pass all bridges in front of a function.
fn let_through(members: &[Member], index: usize, range: (u64, u64), is_io: bool) -> Vec<(u64, u64)> {
    bridges_above(members, index).fold(vec![range], |parts, bridge| {
        let windows = members[bridge].space.windows().expect("only bridges are above others");
        let open: Vec<(u64, u64)> = match is_io {
            true => windows.io.into_iter().collect(),
            false => windows.memory.into_iter().flatten().collect(),
        };
        let meet = |part: (u64, u64), window: (u64, u64)| {
            let (first, last) = (part.0.max(window.0), part.1.min(window.1));
            (first <= last).then_some((first, last))
        };
        parts.iter().flat_map(|part| open.iter().filter_map(move |window| meet(*part, *window))).collect()
    })
}

fn find(ranges: &[Range], addr: u64) -> Option<Decoded> {
    let after = ranges.partition_point(|range| range.first <= addr);
    let range = ranges[..after].last().filter(|range| addr <= range.last)?;
    Some(Decoded { function: range.function, bar: range.bar, offset: addr - range.base })
}
