//! Figures of the NICs' PCI Express links.

use doorbell_machine::AttachKind;

use super::figures::{GroupBuilder, ratio};
use super::span::View;

pub(super) fn pcie(w: &View) -> GroupBuilder {
    let mut g = GroupBuilder::new("PCI Express");
    let frames = w.frames as f64;
    // If no NIC is attached by PCI Express there are no link counters.
    let has_link = w.has("link.up_packets");
    let link = |name: &str| has_link.then(|| w.n(&format!("link.{name}")));
    // Counter path and rate in Gbps of each link.
    let ports = w.config.all_ports().enumerate().filter(|(_, port)| port.attach.kind == AttachKind::Pcie);
    let links: Vec<(String, f64)> = ports
        .map(|(index, port)| (format!("port{index}.pcie_link"), port.pcie.encoded_rate().0 as f64 * 1e-9))
        .filter(|(path, _)| w.has(&format!("{path}.up_packets")))
        .collect();
    let rates: f64 = links.iter().map(|(_, rate)| rate).sum();
    for (way, meaning) in [("up", "from the NIC"), ("down", "to the NIC")] {
        let n = |what: &str| link(&format!("{way}_{what}"));
        g.put(
            format!("{way}_tlps_per_packet"),
            n("packets").and_then(|packets| ratio(packets, frames)),
            format!("transaction-layer packets {meaning} per delivered packet"),
        );
        g.put(
            format!("{way}_bytes_per_packet"),
            n("bytes").and_then(|bytes| ratio(bytes, frames)),
            format!("their bytes {meaning} per delivered packet, including headers and framing"),
        );
        // Busy time within the measurement. It is not derived from packets, which are counted at their
        // request, possibly before the measurement.
        let bits = has_link.then(|| {
            let each = links.iter().map(|(path, rate)| w.n(&format!("{path}.{way}_busy_ps")) * 1e-12 * rate);
            each.sum::<f64>()
        });
        g.put(
            format!("{way}_gbps"),
            bits.and_then(|bits| ratio(bits, w.seconds())),
            format!("Gbps on the links {meaning}, including acknowledgements and flow control"),
        );
        g.put(
            format!("{way}_share"),
            bits.and_then(|bits| ratio(bits, w.seconds() * rates)),
            format!("used share of the links' bandwidth {meaning}"),
        );
    }
    g.put(
        "posted_wait_share",
        link("posted_stall_ps").and_then(|ps| ratio(ps * 1e-12, w.seconds() * links.len() as f64)),
        "share of time in which the next write from the NIC waited for posted credits (pcie.posted_headers, pcie.posted_data); \
         one write waits at a time",
    );
    g.put(
        "payload_bytes_per_packet",
        ratio(w.n("pcie.payload_bytes"), frames),
        "bytes of data and descriptors moved by DMA in both directions, per delivered packet",
    );
    g.put(
        "read_bytes_per_packet",
        ratio(w.n("dma_reads.payload_bytes"), frames),
        "bytes that the NIC reads (frames to send and descriptors), per delivered packet",
    );
    g.put(
        "written_bytes_per_packet",
        ratio(w.n("dma_writes.payload_bytes"), frames),
        "bytes that the NIC writes (received frames and descriptors), per delivered packet",
    );
    g.put(
        "read_round_trip_ns",
        link("round_trip_ps").zip(link("read_requests")).and_then(|(ps, reads)| ratio(ps * 1e-3, reads)),
        "mean time from a DMA read request to the end of its completions",
    );
    g.put(
        "write_visible_ns",
        link("write_visible_ps")
            .zip(link("read_requests"))
            .and_then(|(ps, reads)| ratio(ps * 1e-3, w.n("pcie.up_packets") - reads)),
        "mean time per write packet from its first byte on the link until it is visible",
    );
    g
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::figures::timing::{Span, TimingSnapshot};
    use doorbell_sim::Ps;

    #[test]
    fn mean_write_time_is_per_packet_not_per_line() {
        // Ten reads, and five write packets of four lines each, visible after 300 ns.
        let increases = [
            ("link.up_packets", 15),
            ("link.read_requests", 10),
            ("link.round_trip_ps", 10_000_000),
            ("link.write_visible_ps", 5 * 300_000),
            ("link.full_line_writes", 20),
            ("pcie.up_packets", 15),
            ("port0.pcie_link.up_busy_ps", 750_000),
        ];
        let others = ["up_bytes", "up_dllp_bytes", "down_packets", "down_bytes", "down_dllp_bytes"];
        let others = others.map(|name| format!("link.{name}")).into_iter();
        let bytes = ["pcie", "dma_reads", "dma_writes"].map(|group| format!("{group}.payload_bytes"));
        let none = others.chain(bytes).chain(["link.posted_stall_ps".to_owned()]);
        let busy = ["up_packets", "up_busy_ps", "down_busy_ps"].map(|name| format!("port0.pcie_link.{name}"));
        let none = none.chain(busy);
        let zero: BTreeMap<String, u64> =
            none.chain(increases.map(|(name, _)| name.to_owned())).map(|name| (name, 0)).collect();
        let mut counts = zero.clone();
        counts.extend(increases.map(|(name, value)| (name.to_owned(), value)));
        let snapshot = |now, counts| TimingSnapshot { now, own: 0, books: Vec::new(), counts };
        let config = &crate::registry::defaults();
        let span = Span {
            begin: snapshot(Ps::ZERO, zero),
            end: snapshot(Ps::from_us(1), counts),
            frames: 5,
            instructions: 0,
            config,
        };
        let group = pcie(&View::of_all(&span)).done();
        let value = |name: &str| group.figures.iter().find(|figure| figure.name == name).unwrap().value;
        assert_eq!(value("write_visible_ns"), Some(300.0));
        assert_eq!(value("read_round_trip_ns"), Some(1000.0));
        assert_eq!((value("up_share"), value("down_share")), (Some(0.75), Some(0.0)));
    }
}
