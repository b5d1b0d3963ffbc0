//! Named placements of a NIC, such as `attach = "htd"`: those of Binkert et al., "Analyzing NIC Overheads in
//! Network-Intensive Workloads" (2005), from behind a chain of chips to the last-level cache.
//!
//! Each is a file with keys of [`AttachConfig`](crate::AttachConfig), which also gives the sources of its
//! values. An uncached register read takes 773, 381 and 190 ns over STE, HTE and HTD, and 30 ns on the die
//! (table 2 of the paper); each bridge's latency, except one, follows from these. The latencies are those of
//! 2005, but the links carry 200 Gbps and more, so that the effect of distance can be measured on any
//! machine. `ste-2005` and so on also have the links of 2005.

/// A named placement.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    /// The name.
    pub name: &'static str,
    /// Description in one line.
    pub summary: &'static str,
    /// The keys of `[attach]` that it sets.
    pub toml: &'static str,
}

impl Placement {
    const fn of(name: &'static str, summary: &'static str, toml: &'static str) -> Placement {
        Placement { name, summary, toml }
    }
}

/// All placements, the farthest first.
pub const PLACEMENTS: &[Placement] = &[
    Placement::of(
        "ste",
        "in a slot behind an I/O bridge and a memory controller on a separate chip",
        include_str!("../placements/ste.toml"),
    ),
    Placement::of("ste-2005", "as ste, with links of 2005", include_str!("../placements/ste-2005.toml")),
    Placement::of(
        "hte",
        "in a slot behind an I/O bridge, the memory controller on the die",
        include_str!("../placements/hte.toml"),
    ),
    Placement::of("hte-2005", "as hte, with links of 2005", include_str!("../placements/hte-2005.toml")),
    Placement::of("htd", "on the processor's own link", include_str!("../placements/htd.toml")),
    Placement::of("htd-2005", "as htd, with a link of 2005", include_str!("../placements/htd-2005.toml")),
    Placement::of("ocm", "on the die, at the memory bus", "kind = \"memory-bus\"\n"),
    Placement::of("occ", "on the die, at the last-level cache", "kind = \"llc\"\n"),
    Placement::of("ocs", "as occ, but payload goes to memory", "kind = \"llc-headers\"\n"),
    Placement::of("pcie", "on the PCI Express link of [pcie]", "kind = \"pcie\"\n"),
];

/// The placement with this name.
pub fn placement(name: &str) -> Option<&'static Placement> {
    PLACEMENTS.iter().find(|placement| placement.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AttachConfig, AttachKind};

    /// A configuration with an attachment.
    #[derive(Debug, serde::Deserialize)]
    struct Attached {
        #[serde(rename = "attach")]
        _attach: AttachConfig,
    }

    #[test]
    fn each_placement_is_valid_and_on_die_ones_have_their_kinds() {
        let read = |name: &str| {
            let config: AttachConfig = toml::from_str(placement(name).unwrap().toml).unwrap();
            config.validate().unwrap();
            config
        };
        let kinds = PLACEMENTS.iter().map(|placement| read(placement.name).kind);
        assert_eq!(kinds.filter(|kind| *kind == AttachKind::Bus).count(), 6);
        assert_eq!([read("ocm").kind, read("ocs").kind], [AttachKind::MemoryBus, AttachKind::LlcHeaders]);
        assert!(placement("STE").is_none());
        let message = toml::from_str::<Attached>("attach = \"far\"").unwrap_err().to_string();
        for Placement { name, .. } in PLACEMENTS {
            assert!(
                message.contains(&format!(" {name}")),
                "the message for an unknown name does not list {name}: {message}"
            );
        }
    }
}
