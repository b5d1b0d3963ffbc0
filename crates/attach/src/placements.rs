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

/// All of them, the farthest first.
pub const PLACEMENTS: &[Placement] = &[
    Placement {
        name: "ste",
        summary: "in a slot behind an I/O bridge and a memory controller on a chip of its own",
        toml: include_str!("../placements/ste.toml"),
    },
    Placement {
        name: "ste-2005",
        summary: "the same over that year's links",
        toml: include_str!("../placements/ste-2005.toml"),
    },
    Placement {
        name: "hte",
        summary: "in a slot behind an I/O bridge, the memory controller on the die",
        toml: include_str!("../placements/hte.toml"),
    },
    Placement {
        name: "hte-2005",
        summary: "the same over that year's links",
        toml: include_str!("../placements/hte-2005.toml"),
    },
    Placement {
        name: "htd",
        summary: "on the processor's own link",
        toml: include_str!("../placements/htd.toml"),
    },
    Placement {
        name: "htd-2005",
        summary: "the same over that year's link",
        toml: include_str!("../placements/htd-2005.toml"),
    },
    Placement { name: "ocm", summary: "on the die, at the memory bus", toml: "kind = \"memory-bus\"\n" },
    Placement { name: "occ", summary: "on the die, at the last-level cache", toml: "kind = \"llc\"\n" },
    Placement {
        name: "ocs",
        summary: "the same, with frames' payload to memory",
        toml: "kind = \"llc-headers\"\n",
    },
    Placement { name: "pcie", summary: "by a PCI Express link, as [pcie] has it", toml: "kind = \"pcie\"\n" },
];

/// The place called so.
pub fn placement(name: &str) -> Option<&'static Placement> {
    PLACEMENTS.iter().find(|placement| placement.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AttachConfig, AttachKind};

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
    }
}
