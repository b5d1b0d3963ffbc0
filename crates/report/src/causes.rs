//! Causes of frame loss, in the order of `summary.json`. This list determines the order in the table, the
//! plots, their legend and the page's numbers.

use doorbell_results::PointSummary;

/// One cause of loss.
pub(crate) struct Cause {
    /// Column head in the terminal, and the class of its colour in the page's style sheet.
    pub key: &'static str,
    /// Name in a legend.
    pub name: &'static str,
    /// Explanation.
    pub meaning: &'static str,
    /// Frames of a point lost to it.
    pub count: fn(&PointSummary) -> u64,
}

/// All causes. A point's counts add up to its lost frames, unless more drops than losses were counted. Frames
/// dropped at a full FIFO are counted by what the NIC was waiting for.
pub(crate) const CAUSES: [Cause; 15] = [
    Cause {
        key: "core",
        name: "Core",
        meaning: "receive FIFO full while the NIC waited for descriptors from software (docs/drops.md)",
        count: |p| p.drops.by_wait().core,
    },
    Cause {
        key: "tx",
        name: "TX",
        meaning: "receive FIFO full while software waited for room in the transmit ring (docs/drops.md)",
        count: |p| p.drops.by_wait().tx,
    },
    Cause {
        key: "fetch",
        name: "Descriptor fetch",
        meaning: "receive FIFO full while the NIC fetched descriptors that software had provided (docs/drops.md)",
        count: |p| p.drops.by_wait().fetch,
    },
    Cause {
        key: "data",
        name: "Data path",
        meaning: "receive FIFO full while the NIC moved data to memory (docs/drops.md)",
        count: |p| p.drops.by_wait().data,
    },
    Cause {
        key: "other",
        name: "NIC, other",
        meaning: "dropped by the NIC for another reason (stats.json has each)",
        count: |p| p.drops.nic_rest(),
    },
    Cause {
        key: "link",
        name: "Link",
        meaning: "lost on the link, or in a network's switches",
        count: |p| p.drops.link,
    },
    Cause {
        key: "guest",
        name: "Guest",
        meaning: "accepted by the NIC and not sent back by the guest's software",
        count: |p| p.drops.guest,
    },
    Cause {
        key: "late",
        name: "Late",
        meaning: "came back after the generator stopped waiting for it (loadgen.traffic.timeout, loadgen.tracked_frames)",
        count: |p| p.frames_late,
    },
    Cause {
        key: "size",
        name: "Size",
        meaning: "longer than the NIC was set up to receive (its MTU: kernel.mtu, dpdk.mtu), or shorter than 64 bytes",
        count: |p| p.drops.nic.size,
    },
    Cause {
        key: "address",
        name: "Address",
        meaning: "rejected by the NIC's address filters",
        count: |p| p.drops.nic.address,
    },
    Cause {
        key: "vlan",
        name: "VLAN",
        meaning: "rejected by the NIC's VLAN filter",
        count: |p| p.drops.nic.vlan,
    },
    Cause {
        key: "fcs",
        name: "FCS",
        meaning: "arrived at the NIC with a wrong frame check sequence",
        count: |p| p.drops.nic.fcs,
    },
    Cause {
        key: "off",
        name: "Receiver off",
        meaning: "arrived while the NIC's receiver or its link was off",
        count: |p| p.drops.nic.off,
    },
    Cause { key: "corrupt", name: "Corrupt", meaning: "came back changed", count: |p| p.frames_corrupt },
    Cause {
        key: "unknown",
        name: "Not accounted for",
        meaning: "lost, but the run ended before the cause was determined (run.drain)",
        // Older files do not name them.
        count: |p| p.drops.unknown.saturating_add(u64::try_from(p.imbalance().max(0)).unwrap_or(u64::MAX)),
    },
];

/// Causes counted by the simulated machine, which are reported even if they are zero.
pub(crate) const NAMED: &[Cause] = CAUSES.split_at(7).0;

/// Causes with at least one lost frame in `points`.
pub(crate) fn present(points: &[&PointSummary]) -> Vec<&'static Cause> {
    CAUSES.iter().filter(|cause| total(cause, points) > 0).collect()
}

/// Frames lost to `cause` in all `points`.
pub(crate) fn total(cause: &Cause, points: &[&PointSummary]) -> u64 {
    points.iter().fold(0, |sum, point| sum.saturating_add((cause.count)(point)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn the_causes_of_each_point_add_up_to_its_losses() {
        let mut points = sample::loads().points;
        (points[5].drops.core, points[4].drops.unknown) = (points[5].drops.core - 17, 5);
        points[4].frames_delivered -= 5;
        for point in &points {
            let sum: u64 = CAUSES.iter().map(|cause| (cause.count)(point)).sum();
            assert_eq!(sum, point.lost(), "at {}", point.rate);
        }
        assert_eq!([4, 5].map(|at: usize| (CAUSES[14].count)(&points[at])), [5, 17]);
    }

    #[test]
    fn only_causes_with_losses_are_present() {
        let summary = sample::loads();
        let points: Vec<&PointSummary> = summary.points.iter().collect();
        let keys: Vec<&str> = present(&points).iter().map(|cause| cause.key).collect();
        assert_eq!(keys, ["core", "data"]);
    }
}
