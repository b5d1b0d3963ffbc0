//! Places of a NIC by one word, as `attach = "htd"`: those of Binkert et al., "Analyzing NIC Overheads in Network-Intensive Workloads"
//! (2005), from the far end of a chain of chips to the last-level cache.
//!
//! Each is a table of [`AttachConfig`](crate::AttachConfig)'s keys in a file of its own, which also says where its values come from:
//! an uncached register read takes 773, 381 and 190 ns over STE, HTE and HTD, and 30 ns on the die (their table 2), and every bridge but one
//! is as slow as that asks for. Their latencies are those of 2005, their links carry 200 Gbps and more, so that any machine can be asked what
//! distance costs; `ste-2005` and its like have that year's links, too.

/// A place by name.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    /// The word.
    pub name: &'static str,
    /// What it means, in a line.
    pub summary: &'static str,
    /// The keys of `[attach]` that it stands for.
    pub toml: &'static str,
}

impl Placement {
    const fn of(name: &'static str, summary: &'static str, toml: &'static str) -> Placement {
        Placement { name, summary, toml }
    }
}

/// All of them, the farthest first.
pub const PLACEMENTS: &[Placement] = &[
    Placement::of(
        "ste",
        "in a slot behind an I/O bridge and a memory controller on a chip of its own",
        include_str!("../placements/ste.toml"),
    ),
    Placement::of("ste-2005", "the same over that year's links", include_str!("../placements/ste-2005.toml")),
    Placement::of(
        "hte",
        "in a slot behind an I/O bridge, the memory controller on the die",
        include_str!("../placements/hte.toml"),
    ),
    Placement::of("hte-2005", "the same over that year's links", include_str!("../placements/hte-2005.toml")),
    Placement::of("htd", "on the processor's own link", include_str!("../placements/htd.toml")),
    Placement::of("htd-2005", "the same over that year's link", include_str!("../placements/htd-2005.toml")),
    Placement::of("ocm", "on the die, at the memory bus", "kind = \"memory-bus\"\n"),
    Placement::of("occ", "on the die, at the last-level cache", "kind = \"llc\"\n"),
    Placement::of("ocs", "the same, with frames' payload to memory", "kind = \"llc-headers\"\n"),
    Placement::of("pcie", "by a PCI Express link, as [pcie] has it", "kind = \"pcie\"\n"),
];

/// The place called so.
pub fn placement(name: &str) -> Option<&'static Placement> {
    PLACEMENTS.iter().find(|placement| placement.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AttachConfig, AttachKind};

    /// As a configuration has it.
    #[derive(Debug, serde::Deserialize)]
    struct Attached {
        #[serde(rename = "attach")]
        _attach: AttachConfig,
    }

    #[test]
    fn each_is_a_valid_attachment_and_the_die_s_have_their_kinds() {
        let read = |name: &str| {
            let config: AttachConfig = toml::from_str(placement(name).unwrap().toml).unwrap();
            config.validate().unwrap();
            config
        };
        let kinds = PLACEMENTS.iter().map(|placement| read(placement.name).kind);
        assert_eq!(kinds.filter(|kind| *kind == AttachKind::Bus).count(), 6);
        assert_eq!([read("ocm").kind, read("ocs").kind], [AttachKind::MemoryBus, AttachKind::LlcHeaders]);
        assert!(placement("STE").is_none());
        let said = toml::from_str::<Attached>("attach = \"far\"").unwrap_err().to_string();
        for Placement { name, .. } in PLACEMENTS {
            assert!(
                said.contains(&format!(" {name}")),
                "{name} is not in what an unknown word is answered with: {said}"
            );
        }
    }
}
